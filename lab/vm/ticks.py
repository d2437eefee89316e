# SPDX-License-Identifier: MIT
"""ticks.py - the rate of this machine's time-stamp counter, which a plain guest reads as its own.

The emulator passes the counter through unchanged.  A guest that measures it against an emulated timer depends on when the
emulator has the processor, which is rare on a busy machine: clocks have been seen that ran eight times too fast.
Here the counter is read close to the clock, twice, and only the closest readings count.
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
    """(the clock in ns, the counter): the reading, out of many, whose two looks at the clock are closest together."""
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
    """The counter's rate in kHz; None: this machine has no such counter."""
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
