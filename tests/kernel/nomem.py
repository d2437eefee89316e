#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""nomem.py - memory that cannot be allocated: the n-th allocation fails, for every n, while a module is loaded; then some
fail at random while it serves.  Only a kernel with fault injection can do that (scripts/debug-kernel); tests/kernel/inside.py
runs this there.  Like churn.py, it has few imports and writes its findings to /share/found.json."""
import errno
import os
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "wire")]
import churn  # noqa: E402 - found by the line above
import left  # noqa: E402
import moves  # noqa: E402
from lib import insmod, klog  # noqa: E402
from lib.client import Sloppy, Wire, require  # noqa: E402
from lib.trees import write  # noqa: E402

FAULTS = [f"/sys/kernel/debug/{what}" for what in ("failslab", "fail_page_alloc")]
# The last three are the network's errors for lack of memory: no socket, no buffer, no entry in the table of ports.
REFUSALS = (errno.ENOMEM, errno.ENFILE, errno.ENOBUFS, errno.EADDRINUSE)
MOST = 2000  # allocations of one loading, far more than are made
STEP = int(os.environ.get("RUNG_NTH_STEP") or 1)  # only every STEP-th allocation, where time is short
REQUESTS = 300
WAIT_S = 20  # a packet lost for lack of memory is sent again, after longer and longer pauses
# The kernel and our modules say much about allocations that fail.  None of it may be an alarm.
TOLD = f"^(?!.*({klog.ALARM.pattern}))"


def put(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))


def nth():
    """The file that makes this thread's n-th allocation from now on fail.  It reads 0 once that has happened."""
    return f"/proc/self/task/{threading.get_native_id()}/fail-nth"


def set_all(name, value):
    for fault in FAULTS:
        put(f"{fault}/{name}", value)


def ours():
    """The address range of our modules' code: from the first to the end of the last."""
    with open("/proc/modules", encoding="ascii") as file:
        rows = [line.split() for line in file if line.startswith("rung_")]
    return min(int(row[5], 16) for row in rows), max(int(row[5], 16) + int(row[1]) for row in rows)


# shows D18
def loading():
    """Loading fails, and says why, or works without the allocation; never half."""
    insmod.core()
    set_all("ignore-gfp-wait", "N")
    set_all("verbose", 0)  # a trace for each would overflow the log
    refused = 0
    armed = os.open(nth(), os.O_RDWR)  # opened now, because opening it later may be the allocation that fails
    for number in range(1, MOST, STEP):
        put(nth(), number)
        try:
            churn.load("rung_http", {})
            there = True
        except OSError as error:
            require(error.errno in REFUSALS, number, error)
            refused, there = refused + 1, False
        spent = int(os.pread(armed, 16, 0)) == 0
        os.pwrite(armed, b"0", 0)
        if there:
            insmod.unload("rung_http")
        if not spent:
            break
    require(refused > 10 // STEP and number < MOST - STEP, "nothing has failed, or no end of it:", refused, number)
    require(left.threads() == [], "threads are left:", left.threads())
    return f"{(number - 1) // STEP} of {number - 1} allocations failed once each, loading {refused} times"


def asked(name):
    """Makes one request and returns its outcome."""
    try:
        with Wire(churn.ADDRESS, timeout=WAIT_S) as wire:
            reply = wire.ask("/" + name)
    except TimeoutError:
        return "given up"
    except OSError:
        return "ended before"
    except Sloppy as error:
        require("stream ended" in str(error), error)
        return "ended before"
    require(reply.status in (200, 500, 503), reply)
    require(reply.status != 200 or name == "list/" or reply.body == moves.FILES[name], "another body:", reply)
    return "right" if reply.status == 200 else str(reply.status)


# shows D18
def serving(percent):
    """Fails allocations made in our modules' name.  An answer is right or the connection ends; afterwards everything is
    as before."""
    churn.load("rung_http", {})
    for name, value in (*zip(("require-start", "require-end"), ours()), ("times", -1), ("probability", percent)):
        set_all(name, value)
    put(f"{FAULTS[1]}/min-order", 0)
    names = ["hello.txt", "list/", "big.bin", "mid.bin"]
    found = [asked(names[number % len(names)]) for number in range(REQUESTS)]
    set_all("probability", 0)
    with Wire(churn.ADDRESS, timeout=churn.PATIENCE_S) as wire:
        require(wire.ask("/hello.txt").body == moves.FILES["hello.txt"], "afterwards not all is well")
    churn.conserved("rung_http")
    insmod.unload("rung_http")
    require(found.count("right") > 20, "hardly anything is answered:", found)
    return ", ".join(f"{found.count(what)} {what}" for what in sorted(set(found)))


def main():
    if not os.path.exists(nth()):
        sys.exit("this kernel cannot make allocations fail")
    moves.furnish(0)
    for what in ("rung_core", "rung_http"):  # in memory, because failures to read them are not tested here
        with open(f"{insmod.FOLDER}/{what}.ko", "rb") as file:
            write(f"/run/t/{what}.ko", file.read())
    insmod.FOLDER = "/run/t"
    return churn.tell([("every allocation of loading fails", loading),
                       ("three of a hundred fail while it serves", lambda: serving(3)),
                       ("twenty of a hundred fail while it serves", lambda: serving(20))], TOLD)


if __name__ == "__main__":
    sys.exit(main())
