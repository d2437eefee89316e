#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""ksite.py - the unit tests of server/site.c, run against the kernel's site in a guest.

    tests/kernel/ksite.py BUILD [--kernel 6.1] [--cache DIR] [--only NAME]

kernel/ksite*.c become a module behind a device (ksite_test.c); tests/unit/site*.c are linked with site_twin.c, which queries
that device.  Status 77: there is no guest, or no kernel and headers are available.
"""
import argparse
import filecmp
import os
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "lab"))
import rig  # noqa: E402 - found by the line above
from vm import guest, kernel  # noqa: E402
from vm.image import Image, libraries  # noqa: E402

PROGRAMS = ("site", "site_links", "site_codings", "site_folder")
OF_MEMORY = ("site_cache", "site_changes", "site_races", "site_listings")
OURS = ("ksite", "kcache", "kstamp", "kgzip", "kcompat")
SECONDS = ("loop", "ext4", "crc32c_generic")  # modules for a disk that stores times in whole seconds
NO_BTF = "CONFIG_DEBUG_INFO_BTF_MODULES="  # it would need a tool that nothing else needs
SKIPPED, LIMIT_S = 77, 400
COMMAND = """mount -t tmpfs none /tmp && cd /tmp || exit 1
status=0 places=/tmp
for program in {programs}; do
    /tests/$program || status=1
done
{seconds}
export TWIN_CACHE_BYTES=4194304
for program in {again}; do # with a cache they must not find anything else
    /tests/$program || status=1
done
rmmod ksite_test || status=1
for place in $places; do # no file of it is open any more
    cd / && umount $place || status=1
done
exit $status
"""
ON_SECONDS = """mkdir /seconds && truncate -s 8M /disk && mke2fs -F /disk >/disk.log && mount -o loop -t ext2 /disk /seconds || exit 1
places="/tmp /seconds"
TMPDIR=/seconds /tests/site_changes 'changes_*' || status=1
"""
KBUILD = """obj-m := ksite_test.o
ksite_test-y := main.o {objects}
CFLAGS_{witness} := -Dktime_get_coarse_real_ts64=twin_late_real_ts64
ccflags-y := -Werror
"""


def copied(build, folder, pattern):
    """Copies the C files of a folder of the tree into the build folder, because Kbuild writes next to them; their names."""
    there = os.path.join(build, folder)
    os.makedirs(there, exist_ok=True)
    names = sorted(name for name in os.listdir(os.path.join(TOP, folder)) if pattern(name))
    for name in names:
        source, target = os.path.join(TOP, folder, name), os.path.join(there, name)
        if not os.path.exists(target) or not filecmp.cmp(source, target, shallow=False):
            shutil.copy(source, target)
    return names


def module(build, release, headers):
    """ksite_test.ko, compiled with those headers."""
    top = os.path.join(build, f"ksite-{release}")
    names = [f"../core/{name}" for name in copied(top, "core", lambda name: name.endswith((".c", ".h", ".def")))]
    names += [f"../kernel/{name}" for name in copied(top, "kernel", lambda name: name.startswith(OURS))]
    os.makedirs(f"{top}/test", exist_ok=True)
    shutil.copy2(f"{TOP}/tests/kernel/ksite_test.c", f"{top}/test/main.c")
    shutil.copy2(f"{TOP}/tests/kernel/twin.h", f"{top}/test/twin.h")
    objects = " ".join(name[:-2] + ".o" for name in names if name.endswith(".c"))
    with open(f"{top}/test/Kbuild", "w", encoding="ascii") as file:
        file.write(KBUILD.format(objects=objects, witness="../kernel/kstamp.o"))
    types = subprocess.run([sys.executable, f"{TOP}/scripts/gen-types.py"], check=True, stdout=subprocess.PIPE).stdout
    with open(f"{top}/core/mime_types.h", "wb") as file:
        file.write(types)
    subprocess.run(["make", "-s", "-C", headers, f"M={top}/test", NO_BTF, "modules"], check=True)
    return f"{top}/test/ksite_test.ko"


def options():
    parser = argparse.ArgumentParser(prog="ksite.py", description="The kernel's site and the tests of the other.")
    parser.add_argument("build")
    parser.add_argument("--kernel", default="6.1", choices=[*kernel.PACKAGES, *kernel.BUILT])
    parser.add_argument("--cache", help="where kernels and headers are kept (RUNG_VM, or BUILD/vm)")
    parser.add_argument("--append", default="", help="words for the kernel: slub_debug=FZPU init_on_free=1")
    parser.add_argument("--only", choices=PROGRAMS + OF_MEMORY)
    given = parser.parse_args()
    given.build = os.path.abspath(given.build)
    given.cache = given.cache or os.environ.get("RUNG_VM") or os.path.join(given.build, "vm")
    return given


# shows D13
def main():
    given = options()
    if reason := guest.missing():
        print(reason)
        return SKIPPED
    try:
        chosen, headers = kernel.fetch(given.kernel, given.cache), kernel.headers(given.kernel, given.cache)
    except rig.Broken as error:
        print(f"no kernel to boot: {error}")
        return SKIPPED
    subprocess.run(["make", "-s", "-C", TOP, f"BUILD={given.build}", "twins"], check=True,
                   stdout=subprocess.DEVNULL)
    programs = (given.only,) if given.only else PROGRAMS + OF_MEMORY
    image = Image()
    for name in programs:
        path = os.path.join(given.build, "release/tests/kernel", name)
        image.copy(path, f"/tests/{name}")
        for library in libraries(path):
            image.copy(library)
    seconds = given.kernel in kernel.PACKAGES and "site_changes" in programs
    again = [name for name in programs if name in PROGRAMS[1:]]  # the first asks where a body is in memory
    command = COMMAND.format(programs=" ".join(programs), again=" ".join(again), seconds=ON_SECONDS if seconds else "")
    job = guest.Job(command, image=image, cpus=2, limit_s=LIMIT_S, append=given.append,
                    modules=(module(given.build, chosen.release, headers), *(SECONDS if seconds else ())))
    result = guest.boot(job, chosen)
    print(result.output, end="")
    for line in result.complaints:
        print(f"the kernel complains: {line}")
    print(f"Linux {chosen.release}: {result.seconds:.0f} s")
    return 1 if result.status or result.complaints else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except rig.Broken as error:
        sys.exit(f"ksite.py: {error}")
