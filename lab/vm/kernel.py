# SPDX-License-Identifier: MIT
"""kernel.py - a Debian kernel to boot in the guest: fetched and unpacked, never installed.

The package of the image is downloaded from Debian's mirror and unpacked below the build folder, so that this machine's own
/boot stays as it is and root is not needed.  The bare kernel is kept, because it starts some seconds earlier than the
packed one (an emulator unpacks slowly), and so is the modules' tree, from which a guest gets those it asks for.  The
headers for compiling modules are fetched likewise, when they are needed.

A kernel that scripts/debug-kernel has built is kept in the same folder under a name of its own, headers included.
"""
import dataclasses
import fcntl
import glob
import lzma
import os
import re
import shutil
import struct
import subprocess
import tempfile
import zlib

from rig import Broken, bytes_of

PACKAGES = {"6.1": "linux-image-amd64", "6.12": "linux-image-6.12-amd64"}  # of Debian 12; each names the newest image
KINDS = ("debug", "race")  # kernels that find faults
BUILT = tuple(f"{kind}-{version}" for kind in KINDS for version in PACKAGES)  # by scripts/debug-kernel, not fetched
FETCH_S = 300
SETUP_SECTORS, PAYLOAD = 0x1f1, 0x248  # Documentation/arch/x86/boot.rst
ZSTD_MAGIC, XZ_MAGIC, GZIP_MAGIC = b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"\x1f\x8b"
SIZE_BYTES = 4  # length of the size that the kernel's build puts behind a packed payload


@dataclasses.dataclass
class Kernel:
    release: str  # as uname -r says
    image: str    # the bare kernel's path
    modules: str  # lib/modules/RELEASE/kernel


def run(*argv, cwd=None, data=b""):
    try:
        return subprocess.run(argv, cwd=cwd, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=FETCH_S, check=True).stdout
    except subprocess.CalledProcessError as error:
        words = error.stderr.decode(errors="replace").strip().split("\n")[-1]
        raise Broken(f"{' '.join(argv[:2])} left with {error.returncode}: {words}") from error
    except subprocess.TimeoutExpired as error:
        raise Broken(f"{argv[0]} did not end within {FETCH_S} s") from error
    except OSError as error:
        raise Broken(f"{argv[0]} cannot be run: {error.strerror}") from error


def bare(packed):
    """The kernel inside a bzImage."""
    start, length = struct.unpack_from("<II", packed, PAYLOAD)
    start += ((packed[SETUP_SECTORS] or 4) + 1) * 512
    payload = packed[start:start + length]
    if payload.startswith(XZ_MAGIC):
        return lzma.LZMADecompressor().decompress(payload)
    if payload.startswith(GZIP_MAGIC):
        return zlib.decompressobj(wbits=31).decompress(payload)
    if payload.startswith(ZSTD_MAGIC):
        return run("zstd", "-dcq", data=payload[:-SIZE_BYTES])
    raise Broken(f"the kernel is packed in a way unknown here: it begins with {payload[:6]!r}")


def present(version, cache):
    """The kernel of that version if it has been fetched, or None."""
    place = os.path.join(cache, f"linux-{version}")
    releases = glob.glob(f"{place}/lib/modules/*/kernel")
    if not releases or not os.path.exists(f"{place}/vmlinux"):
        return None
    return Kernel(os.path.basename(os.path.dirname(releases[0])), f"{place}/vmlinux", releases[0])


def package_of(version):
    """The package that contains the image, found through the package that only depends on it."""
    if version in BUILT:
        raise Broken(f"the kernel {version} is not built: scripts/debug-kernel {version.replace('-', ' ')} does that")
    if version not in PACKAGES:
        raise Broken(f"no kernel {version} is known here, but {' and '.join(PACKAGES)}")
    named = run("apt-cache", "depends", PACKAGES[version]).decode()
    found = re.search(rf"Depends: (linux-image-{re.escape(version)}\.\S+)", named)
    if not found:
        raise Broken(f"Debian's package lists have no kernel {version}: apt-get update may bring them")
    return found[1]


def fetch(version, cache):
    """The kernel of that version, fetched if it is not here; whole or not at all."""
    if kernel := present(version, cache):
        return kernel
    package = package_of(version)
    os.makedirs(cache, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        run("apt-get", "download", package, cwd=folder)
        run("dpkg-deb", "-x", *glob.glob(f"{folder}/*.deb"), f"{folder}/tree")
        kernel = bare(bytes_of(glob.glob(f"{folder}/tree/boot/vmlinuz-*")[0]))
        os.mkdir(f"{folder}/kept")
        shutil.move(f"{folder}/tree/lib", f"{folder}/kept/lib")
        with open(f"{folder}/kept/vmlinux", "wb") as file:
            file.write(kernel)
        try:
            os.rename(f"{folder}/kept", os.path.join(cache, f"linux-{version}"))
        except OSError:  # another process was faster
            if not present(version, cache):
                raise
    return present(version, cache)


# --- Headers ------------------------------------------------------------------------------------------------

def header_packages(release):
    """The packages that are needed to compile a module: the configuration, the headers, the scripts."""
    named = run("apt-cache", "depends", f"linux-headers-{release}").decode()
    found = re.findall(r"Depends: (linux-(?:headers|kbuild)-\S+)", named)
    if not found:
        raise Broken(f"Debian's package lists have no headers for {release}: a newer kernel may have replaced it "
                     "(remove the kernel that was fetched, and another is)")
    return [f"linux-headers-{release}", *found]


def headers(version, cache):
    """The folder that modules for that version are compiled against, fetched if it is not here."""
    kernel = fetch(version, cache)
    place = os.path.realpath(os.path.join(cache, f"linux-{version}-headers"))  # stays valid if a link to the cache is removed
    if version in BUILT:
        return place
    path = f"{place}/usr/src/linux-headers-{kernel.release}"
    if os.path.exists(f"{path}/Module.symvers"):
        return path
    with open(f"{place}.lock", "w", encoding="ascii") as lock:  # other processes may want and use them at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(f"{path}/Module.symvers"):
            fetch_headers(kernel.release, place)
    return path


def fetch_headers(release, place):
    """Put the packages' trees into that folder as one, replacing its content: the headers of a kernel that was replaced."""
    packages = header_packages(release)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(place)) as folder:
        run("apt-get", "download", *packages, cwd=folder)
        for package in glob.glob(f"{folder}/*.deb"):
            run("dpkg-deb", "-x", package, f"{folder}/tree")
        with open(f"{folder}/tree/usr/src/linux-headers-{release}/Makefile", "r+", encoding="ascii") as file:
            text = file.read().replace("/usr/src/", f"{place}/usr/src/")  # where they would be if they were installed
            file.seek(0)
            file.write(text)
        shutil.rmtree(place, ignore_errors=True)
        os.rename(f"{folder}/tree", place)


# --- Modules ------------------------------------------------------------------------------------------------

def module_bytes(path):
    data = bytes_of(path)
    return lzma.decompress(data) if path.endswith(".xz") else data


def modules(kernel, names):
    """[(name, bytes)] in the order of loading: the modules that one needs come before it.  A name with a slash is a file."""
    tree = {}
    for folder, _, files in os.walk(kernel.modules):
        for name in files:
            tree[name.split(".ko")[0].replace("-", "_")] = os.path.join(folder, name)
    with open(os.path.join(os.path.dirname(kernel.modules), "modules.builtin"), encoding="ascii") as file:
        inside = {os.path.basename(line)[:-len(".ko\n")].replace("-", "_") for line in file}
    found = {}

    def take(name):
        called = os.path.basename(name).split(".ko")[0].replace("-", "_")
        if called in found or called in inside:
            return
        path = name if "/" in name else tree.get(called)
        if not path or not os.path.exists(path):
            raise Broken(f"Linux {kernel.release} has no module {name}")
        data = module_bytes(path)
        needs = re.search(rb"\0depends=([^\0]*)\0", data)
        for need in needs[1].decode().split(",") if needs and needs[1] else []:
            take(need)
        found[called] = data
    for name in names:
        take(name)
    return list(found.items())
