# SPDX-License-Identifier: MIT
"""The test of the tests: planted faults are detected, each in a guest of its own, and a module without a fault is not reported.

A stock kernel has neither KASAN nor DEBUG_ATOMIC_SLEEP nor kmemleak.  It has an allocator that can record which
code asked for each object (a leak is seen after unloading) and fill freed objects with a pattern (a write is seen when
the object is next handed out); and a scheduler that notices a thread that really goes to sleep in atomic context.  It
does not see a *read* after free, nor a call that only might have slept: scripts/debug-kernel builds a kernel that does,
with lockdep for locks in two orders, and one with KCSAN for races.

The tests run outside the guest; RUNG_PLANTED is the folder of the modules, RUNG_KERNEL which kernel, RUNG_CACHE its place.
"""
import os
import sys

import pytest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [f"{TOP}/lab", f"{TOP}/tests/kernel", f"{TOP}/tests/wire"]
import left  # noqa: E402 - found by the line above
from lib import klog  # noqa: E402
from rig import Broken  # noqa: E402
from vm import guest, kernel  # noqa: E402

VERSION = os.environ.get("RUNG_KERNEL") or "6.1"
DEBUG, RACE = VERSION.startswith("debug-"), VERSION.startswith("race-")
BUILT = DEBUG or RACE
WATCHED = "slub_debug=FZPU"
# Loads the module, unloads it, and prints the kernel's messages since, with levels, then the objects that are left.
COMMAND = """mount -t debugfs none /sys/kernel/debug
dmesg -c >/dev/null
[ ! -e /sys/kernel/debug/kcsan ] || echo on >/sys/kernel/debug/kcsan
insmod /planted.ko && rmmod planted_{what}
[ ! -e /sys/kernel/debug/kmemleak ] || {{ sleep 6; echo scan >/sys/kernel/debug/kmemleak; sleep 1
    echo scan >/sys/kernel/debug/kmemleak; cat /sys/kernel/debug/kmemleak; }}
dmesg -r
cd /sys/kernel/debug/slab
for cache in kmalloc-*64*; do echo "@ $cache"; cat $cache/alloc_traces; done
echo "@ vmalloc"; cat /proc/vmallocinfo"""


@pytest.fixture(scope="session")
def linux():
    if reason := guest.missing():
        pytest.skip(reason)
    try:
        return kernel.fetch(VERSION, os.environ["RUNG_CACHE"])
    except Broken as error:
        pytest.skip(f"no kernel can be had: {error}")


def planted(linux, what):
    """Output of a guest in which that module was loaded and unloaded: (complaints on its console, everything it printed)."""
    image = guest.Image()
    image.copy(f"{os.environ['RUNG_PLANTED']}/planted_{what}.ko", "/planted.ko")
    result = guest.boot(guest.Job(COMMAND.format(what=what), image, append=WATCHED, memory_mib=1024 if BUILT else 512,
                                  limit_s=600 if BUILT else 180), linux)
    return result.complaints, result.output


def leaked(output):
    """What left.py finds in it: (objects, whose) of the allocator, and lines of vmallocinfo."""
    found = []
    for part in output.split("@ ")[1:]:
        cache, _, text = part.partition("\n")
        if cache == "vmalloc":
            found += left.pages(text)
        else:
            found += left.leaked(cache, text)
    return found


def log_of(output):
    """Complaints among the lines of dmesg -r, as klog.py judges them."""
    lines = [line.partition(">")[::2] for line in output.split("\n") if line.startswith("<")]
    return [text for level, text in lines if klog.complaint(int(level[1:]) & 7, text.replace("planted_", "rung_"))]


def test_no_fault_no_complaint(linux):
    heard, output = planted(linux, "none")
    assert heard == [] and log_of(output) == [] and leaked(output) == []
    assert "unreferenced object" not in output


def test_a_leak(linux):
    heard, output = planted(linux, "leak")
    found = leaked(output)
    assert any(one[0] == 3 and "kmalloc" in one[1] for one in found if isinstance(one, tuple)), (found, heard)
    assert any(isinstance(one, str) for one in found), "the page of vmalloc() is not seen"
    assert not DEBUG or "unreferenced object" in output


# shows D31
def test_use_after_free(linux):
    heard, output = planted(linux, "free")
    word = "KASAN: " if DEBUG else "Poison overwritten"
    assert any(word in line for line in heard), (heard, output[-2000:])
    assert any(word in line for line in log_of(output))


def test_sleep_in_atomic_context(linux):
    heard, output = planted(linux, "sleep")
    words = ("scheduling while atomic", "sleeping function")
    assert any(word in line for word in words for line in heard), (heard, output[-2000:])
    assert log_of(output)


def test_a_broken_promise(linux):
    """The complaint has the level of a warning, which a quiet console would not show."""
    heard, output = planted(linux, "warn")
    assert any("WARNING: " in line for line in heard), heard
    assert any("broken promise: planted" in line for line in log_of(output))


@pytest.mark.skipif(not DEBUG, reason="this kernel has no lockdep")
def test_locks_in_two_orders(linux):
    heard, output = planted(linux, "lock")
    assert any("possible circular locking" in line for line in heard), (heard, output[-2000:])
    assert any("possible circular locking" in line for line in log_of(output))


@pytest.mark.skipif(not RACE, reason="this kernel has no KCSAN")
def test_a_race_for_data(linux):
    heard, output = planted(linux, "race")
    assert any("BUG: KCSAN: data-race in planted_count" in line for line in heard), (heard, output[-2000:])
