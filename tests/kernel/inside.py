#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""inside.py - runs in a guest: pytest over the modules, then again the tests that failed, if they are few; or one program.

The second run is at once, one test at a time.  Its outcome counts only if other layers ran during the first (reports.py).
/share/job.json says which tests and how many at a time; reports and the kernel's messages are written next to it.  The
status is pytest's, or the program's.
"""
import json
import os
import re
import subprocess
import sys

SHARE = "/share"
HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
SCRATCH = "/run/t"  # in memory: the guest's own root is slow, and cannot be unmounted
SHM = "nr_inodes=1m"  # four folders of a hundred thousand files at once
FEW = 10
EXPECTED_TAINTS = 1 << 12 | 1 << 13  # an unsigned module from outside the tree
TAINTS = {1: "forced load", 4: "machine check", 5: "bad page", 7: "oops", 9: "warning", 14: "lockup"}
HUNG_S = 100
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "tests/wire"))
from lib import insmod, klog  # noqa: E402 - found by the line above


def setting(name, value):
    path = "/proc/sys/" + name
    if os.path.exists(path):
        with open(path, "w", encoding="ascii") as file:
            file.write(str(value))


def prepare():
    for kind, place, *words in (("debugfs", "/sys/kernel/debug"), ("tmpfs", "/dev/shm", "-o", SHM), ("devpts", "/dev/pts")):
        subprocess.run(["mount", "-t", kind, *words, "none", place], check=True)
    os.makedirs(SCRATCH, mode=0o777, exist_ok=True)
    os.chmod(SCRATCH, 0o1777)
    setting("kernel/hung_task_timeout_secs", HUNG_S)
    setting("kernel/hung_task_panic", 1)  # a module that cannot be unloaded must end the guest, with all stacks
    setting("kernel/hung_task_all_cpu_backtrace", 0)
    setting("net/core/somaxconn", 4096)
    setting("net/ipv4/tcp_max_syn_backlog", 4096)
    setting("net/core/netdev_max_backlog", 65536)  # all clients share one loopback, and thousands end at once
    if os.path.exists("/sys/kernel/debug/kcsan"):
        with open("/sys/kernel/debug/kcsan", "w", encoding="ascii") as file:
            file.write("on")


def pytest(job, report, *more):
    argv = [sys.executable, "-B", "-m", "pytest", "-v", "-rs", "--strict-markers", "-o", f"cache_dir={SCRATCH}/cache",
            "-o", "addopts=", "-o", "junit_family=xunit1",
            "--color=no", "--junitxml", f"{SHARE}/{report}", "--basetemp", f"{SCRATCH}/base", "--durations=15",
            *job["args"], *more, *job["paths"]]
    return run(job, argv)


def run(job, argv):
    env = {**os.environ, **job["env"], "TMPDIR": SCRATCH, "PYTHONUNBUFFERED": "1", "HOME": SCRATCH}
    return subprocess.run(argv, cwd=TOP, env=env, stdin=subprocess.DEVNULL, check=False).returncode


def program(job):
    """Runs a program that needs only Python itself: isolated, it starts in seconds where pytest takes minutes."""
    return run(job, [sys.executable, "-I", "-S", "-B", job["program"]])


def tests(job):
    status = pytest(job, "report.xml", "-n", str(job["processes"]))
    if status == 1 and failed("report.xml") <= FEW:
        pytest(job, "again.xml", "--last-failed")
    return status


def failed(report):
    with open(f"{SHARE}/{report}", encoding="utf-8") as file:
        found = re.search(r'errors="(\d+)" failures="(\d+)"', file.read(4096))
    return int(found[1]) + int(found[2])


def leak_scan():
    """Objects without a pointer to them, as kmemleak reports them, if the kernel has it.  Two scans, because it ignores young objects."""
    path = "/sys/kernel/debug/kmemleak"
    if not os.path.exists(path):
        return []
    for _ in range(2):
        with open(path, "w", encoding="ascii") as file:
            file.write("scan")
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    with open(f"{SHARE}/kmemleak", "w", encoding="utf-8") as file:
        file.write(text)
    return [block.strip().replace("\n", " | ")[:2000] for block in re.split(r"(?=unreferenced object)", text)
            if block.strip() and re.search(r"rung_|0xffffffff[ac]0", block)]


def unloaded(before):
    """Unloads the modules: nothing may hold them when all tests have ended, and the tests must have unloaded their own."""
    found = []
    for name in sorted(insmod.loaded(), key="rung_core".__eq__):  # the core last
        try:
            insmod.unload(name)
            found += [] if name in ("rung_core", *before) else [f"{name} was left loaded"]
        except OSError as error:
            found.append(f"{name} cannot be unloaded: {error}")
    return found


def taints():
    with open("/proc/sys/kernel/tainted", encoding="ascii") as file:
        value = int(file.read()) & ~EXPECTED_TAINTS
    return [f"tainted: {TAINTS.get(bit, f'bit {bit}')}" for bit in range(20) if value & 1 << bit]


def main():
    with open(f"{SHARE}/job.json", encoding="utf-8") as file:
        job = json.load(file)
    prepare()
    before = insmod.loaded()
    status = program(job) if job.get("program") else tests(job)
    complaints = unloaded(before) + leak_scan() + taints()
    said = klog.Log(begin=True).records()
    complaints += [text for level, text in said if klog.ALARM.search(text) and not klog.harmless(text)]
    with open(f"{SHARE}/dmesg", "w", encoding="utf-8") as file:
        file.writelines(f"<{level}> {text}\n" for level, text in said)
    with open(f"{SHARE}/complaints", "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in complaints)
    return status


if __name__ == "__main__":
    sys.exit(main())
