# SPDX-License-Identifier: MIT
"""modules.py - a module of ours that serves, with the interface of rig.Server: inside a guest, where it may be loaded.

The module is loaded when the constructor returns, and stop() waits until it has released everything.  A client that is
silent for ten minutes is not closed, as in the lab's other servers.
"""
import contextlib
import os
import re
import subprocess
import time

from rig import PATIENCE_S, Broken, text_of

FOLDER_OF = "/sys/kernel/debug/{}/stats"
CORE = "rung_core"
PATIENT = ("head_timeout=600000", "idle_timeout=600000", "send_timeout=600000")
FROM = []  # the folder that the core was loaded from
SAID_LINES = 3
PAUSE_S = 0.001
CLASSES = {"other": (os.SCHED_OTHER, 0), "fifo": (os.SCHED_FIFO, 1), "rr": (os.SCHED_RR, 1)}  # and the priority there


def run(*argv):
    """One of the kernel's tools, which busybox has; Broken when it fails."""
    done = subprocess.run(["busybox", *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=PATIENCE_S, check=False)
    if done.returncode:
        raise Broken(f"{' '.join(argv[:2])} left with {done.returncode}: {done.stdout.strip()}; {said()}")


def said():
    """The last lines about us in the kernel's log."""
    done = subprocess.run(["busybox", "dmesg"], stdout=subprocess.PIPE, text=True, errors="replace", check=False)
    return " | ".join([line for line in done.stdout.split("\n") if "rung_" in line][-SAID_LINES:])


def threads(name):
    """Threads of the kernel that have this name."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if text_of(f"/proc/{pid}/comm").strip() == name:
                found.append(int(pid))
    return found


def lines(on):
    """Turns the module's line for each receive on or off (dynamic debug).  A module without that line ignores it."""
    with open("/sys/kernel/debug/dynamic_debug/control", "w", encoding="ascii") as file:
        file.write(f"module {CORE} {'+' if on else '-'}p")


def core(folder):
    """Load the core from that folder.  One that is loaded from another folder is unloaded first."""
    if os.path.exists(f"/sys/module/{CORE}"):
        if FROM == [folder]:
            return
        run("rmmod", CORE)
    run("insmod", f"{folder}/{CORE}.ko")
    FROM[:] = [folder]


class Module:
    """folder: that of the modules; parameters: words for insmod; site: the folder to serve, or None for rung_echo."""

    def __init__(self, folder, model, site=None, parameters=()):
        self.name, self.up = "rung_http" if site else "rung_echo", False
        given = [f"model={model}", *([f"root={site}"] if site else []), *parameters]
        self.command = ["insmod", f"{self.name}.ko", *given]
        core(folder)
        run("insmod", f"{folder}/{self.name}.ko", "port=0", *PATIENT, *given)
        self.up, self.port = True, self.stats()["port"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.up:
            self.stop()

    def stats(self):
        return {key: int(value) for key, value in re.findall(r"^(\w+)\s+(\d+)", text_of(FOLDER_OF.format(self.name)), re.M)}

    def stop(self):
        self.up = False
        run("rmmod", self.name)

    def schedule(self, how, count):
        """Give `count` threads of the module another class as soon as they exist; how many got it in time."""
        policy, priority = CLASSES[how]
        done, end = set(), time.monotonic() + PATIENCE_S
        while len(done) < count and time.monotonic() < end:
            time.sleep(PAUSE_S)
            for pid in set(threads(self.name)) - done:
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setscheduler(pid, policy, os.sched_param(priority))
                    done.add(pid)
        return len(done)
