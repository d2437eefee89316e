# SPDX-License-Identifier: MIT
"""guest.py - a Debian kernel in QEMU that runs one command and powers off; returns the command's output and exit status.

A plain guest has several processors, to try things that this machine's kernel cannot do.  Its time means nothing.
A counting guest has one processor, whose clock advances a nanosecond for each instruction it executes, in user space and
in the kernel, and does not follow this machine's time.  The time that something takes there is its number of
instructions, whatever else runs here; docs/lab/counting.md says what that does not see.

The guest lives in memory, with files that were given to it.  A folder may be shared with it, or this machine's whole root
may be its own, read only.  Its only network is loopback.
"""
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import time

import scratch
from rig import SETUP, Broken, end_with_us, text_of
from vm import kernel as kernels
from vm import ticks
from vm.image import Image

HERE = os.path.dirname(os.path.abspath(__file__))
QEMU = "qemu-system-x86_64"
SHARING = ("virtio_pci", "9pnet_virtio", "9p")
SYSTEMD = "/lib/systemd/systemd"
TAIL_LINES = 15
NICE = 10
# Without ERMS the kernel copies eight bytes per instruction instead of one: a copy costs too much here as it is.
CPU = "max,-erms"
# An emulated kernel may die or hang before its first process: while it patches its own code, another emulated processor may
# still execute the bytes from before (an int3 that no handler knows).  Nothing of the job has run then, so it boots again.
BEGUN = "guest: the first process runs"  # init.sh says so, before it loads a module
BOOTS = 3
BOOT_S = 600  # of this machine's time; a kernel with KASAN takes some of these minutes
COMPLAINT = re.compile(r"Kernel panic|Oops: |BUG[: ]|WARNING: |general protection fault|kmemleak: [1-9]\d* new|"
                       r"INFO: (task .* blocked|possible|trying)|KASAN|UBSAN|Poison overwritten|"
                       r"scheduling while atomic|sleeping function|suspicious RCU|refcount_t: |still has objects|"
                       r"soft lockup|self-detected stall")
# An oops ends the guest, because nothing that it does afterwards means anything.  Addresses and clocks are the same in every
# boot.  A WARN() is printed at the level of warnings, so the console shows these too.
APPEND = "console=ttyS0 loglevel=5 panic=-1 oops=panic nokaslr tsc=reliable no_timer_check mitigations=off random.trust_cpu=on"
# A process that waits for all RCU readers (its table of descriptors grows) waits for a few instructions, not for a tick.
COUNTING = "rcupdate.rcu_expedited=1"
# What systemd starts: not what this machine is used for, nor its timers; of its disks none is there, and waiting for one would end at
# a prompt (emergency.target).  Only in a container would systemd read these words as arguments, too.
SYSTEMD_APPEND = ("systemd.unit=rung-guest.service systemd.mask=timers.target systemd.mask=emergency.target "
                  "systemd.mask=systemd-udev-trigger.service fstab=no luks=no systemd.gpt_auto=no systemd.show_status=no")


@dataclasses.dataclass
class Job:
    """A command, and the guest to run it in."""
    command: str                  # for sh
    image: Image = dataclasses.field(default_factory=Image)  # files it finds at their places
    modules: tuple = ()           # names, or files of modules; the modules they need are added
    share: str | None = None      # a folder that both may write; the guest's /share
    root: str | None = None       # the guest sees this folder as its root
    systemd: bool = False         # with a root: its systemd is the first process, and the command a service
    count: bool = False
    cpus: int = 1                 # a counting guest has one
    memory_mib: int = 512
    limit_s: float = 120          # of this machine's time, for all of it
    seed: int = 1                 # of the guest's randomness, if it counts
    append: str = ""              # further words for the kernel's command line
    nice: int = NICE
    plugin: str | None = None     # an emulator plugin: its file and its options


@dataclasses.dataclass
class Result:
    status: int
    output: str
    console: str
    complaints: list  # lines of the kernel that report faults
    seconds: float


def missing():
    """Why this machine cannot run a guest, or None."""
    for tool, package in ((QEMU, "qemu-system-x86"), ("busybox", "busybox-static")):
        if not shutil.which(tool):
            return f"there is no {tool}: {SETUP} installs {package}"
    return None


def put_modules(image, kernel, names):
    order = kernels.modules(kernel, names)
    for name, data in order:
        image.put(f"/vm/modules/{name}.ko", data)
    image.put("/vm/modules/order", "".join(f"{name}\n" for name, _ in order))


def furnished(job, kernel):
    """The image of the first file system: the job's files, and the files that start it."""
    image = Image()
    if job.root:  # the files are copied over the root's
        image.entries = {f"vm/files/{path}": entry for path, entry in job.image.entries.items()}
        image.put("/vm/root", "")
        image.folder("/vm/files")
    else:
        image.entries = dict(job.image.entries)
    if job.share:
        image.put("/vm/share", "")
    image.copy(shutil.which("busybox"), "/bin/busybox")
    image.copy(os.path.join(HERE, "init.sh"), "/init")
    image.put("/vm/command", job.command + "\n")
    if job.systemd:
        image.put("/vm/systemd", "")
        for name in ("service.sh", "rung-guest.service"):
            image.copy(os.path.join(HERE, name), f"/vm/{name}")
    image.folder("/dev")
    put_modules(image, kernel, (*(SHARING if job.share or job.root else ()), *(("overlay",) if job.root else ()),
                                *job.modules))
    return image


def exported(tag, path, more=""):
    return ["-fsdev", f"local,id={tag},path={os.path.abspath(path)},security_model=none,multidevs=remap{more}",
            "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def clock(job):
    """Kernel parameters with the clock's rate: measuring it fails while this machine is busy.  A counting guest's clock
    does not depend on this machine: its kernel finds 1 GHz by itself."""
    khz = None if job.count else ticks.khz()
    return [f"tsc_early_khz={khz}"] if khz else []


def words(job, kernel, folder):
    """The emulator's command line."""
    how = ["-accel", "tcg,thread=multi,tb-size=256", "-smp", str(job.cpus)]
    if job.count:
        how = ["-accel", "tcg,thread=single,tb-size=256", "-icount", "shift=0,sleep=off", "-smp", "1",
               "-rtc", "base=2026-01-01,clock=vm", "-seed", str(job.seed)]
    shares = exported("share", job.share) if job.share else []
    shares += exported("root", job.root, ",readonly=on") if job.root else []
    serial = [word for name in ("console", "output", "status") for word in ("-serial", f"file:{folder}/{name}")]
    return [QEMU, "-machine", "q35", "-cpu", CPU, *how, "-m", str(job.memory_mib), "-nodefaults", "-no-user-config",
            "-display", "none", "-no-reboot", *(["-plugin", job.plugin] if job.plugin else []), *serial, *shares,
            "-kernel", kernel.image, "-initrd", f"{folder}/image",
            "-append", " ".join([APPEND, *clock(job), *([COUNTING] if job.count else []),
                                 *([SYSTEMD_APPEND] if job.systemd else []), job.append])]


def tail(name, text):
    lines = [line.rstrip() for line in text.split("\n") if line.strip()][-TAIL_LINES:]
    return f"\n{name}:\n" + "\n".join(f"  | {line}" for line in lines) if lines else f"\n{name}: nothing"


def text_at(path):
    return text_of(path) if os.path.exists(path) else ""


def output_of(process, seconds):
    """What the process said until its end; None if it still runs after that time."""
    try:
        return process.communicate(timeout=seconds)[0].decode(errors="replace").strip()
    except subprocess.TimeoutExpired:
        return None


def emulated(argv, limit_s, begun, nice):
    """Run the emulator; its output, or None at the time limit, or after BOOT_S if the guest has not begun."""
    def prepare():
        end_with_us()
        os.nice(nice)
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          preexec_fn=prepare) as process:
        try:
            said = output_of(process, min(limit_s, BOOT_S))
            return output_of(process, limit_s - BOOT_S) if said is None and limit_s > BOOT_S and begun() else said
        finally:
            process.kill()


def started(job, kernel):
    """What one start of the guest left: the emulator's output as emulated() has it, the console, the command's output and status."""
    with scratch.Folder("guest") as folder:
        with open(f"{folder}/image", "wb") as file:
            furnished(job, kernel).write(file)
        said = emulated(words(job, kernel, folder), job.limit_s, lambda: BEGUN in text_at(f"{folder}/console"), job.nice)
        return (said, *(text_at(f"{folder}/{name}") for name in ("console", "output", "status")))


def boot(job, kernel):
    """Run the job's command in a guest.  Raises Broken if the guest died before it reported the exit status."""
    if reason := missing():
        raise Broken(reason)
    began = time.monotonic()
    for _ in range(BOOTS):
        said, console, output, status = started(job, kernel)
        if BEGUN in console:
            break
        print("guest: it ended or hung before its first process ran", file=sys.stderr, flush=True)
    complaints = [line.strip() for line in console.split("\n") if COMPLAINT.search(line)]
    last = tail("the last lines of its console", console) + tail("what the command said last", output)
    if said is None:
        within = f"did not end within {job.limit_s:g} s" if BEGUN in console else "did not begin"
        raise Broken(f"the guest {within}{last}")
    if not status.strip():
        why = f"its kernel said: {complaints[0]}" if complaints else f"the emulator said: {said or 'nothing'}"
        raise Broken(f"the guest ended before its command; {why}{last}")
    return Result(int(status), output, console, complaints, time.monotonic() - began)
