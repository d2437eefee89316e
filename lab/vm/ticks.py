# SPDX-License-Identifier: MIT
"""ticks.py - how fast this machine's time-stamp counter ticks, which is what a plain guest reads as its own.

The emulator hands the counter on as it is.  A guest that measures it against an emulated timer goes by the moments at
which the emulator had the processor, and on a busy machine those are far apart: a clock that goes eight times too fast
has been seen.  Here the counter is read close to the clock, twice, and only the closest readings count.
"""
import ctypes
import functools
import mmap
import platform
import time

RDTSC = bytes.fromhex("0f31" "48c1e220" "4809d0" "c3")  # rdtsc; shl $32, %rdx; or %rdx, %rax; ret
READINGS = 100
APART_S = 0.05


def reading(counter):
    """(the clock in ns, the counter): of many pairs the one whose two looks at the clock are closest."""
    best = None
    for _ in range(READINGS):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        ticks = counter()
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        if best is None or after - before < best[0]:
            best = (after - before, (before + after) // 2, ticks)
    return best[1:]


@functools.cache
def khz():
    """None: this machine has no such counter."""
    if platform.machine() != "x86_64":
        return None
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as code:
        code.write(RDTSC)
        place = ctypes.c_char.from_buffer(code)
        counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(place))
        began = reading(counter)
        time.sleep(APART_S)
        ended = reading(counter)
        del place
    return round((ended[1] - began[1]) * 1e6 / (ended[0] - began[0]))
