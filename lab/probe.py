# SPDX-License-Identifier: MIT
"""probe.py - how long each call of one of the kernel's functions takes, by a probe at its entry and one at its return.

Probes are set through tracefs, so the running code needs no special build and is not even reloaded.  A probe is a
breakpoint or a jump, so a probed call takes a little longer.
"""
import contextlib
import os
import re

from rig import Broken, text_of

TRACING = "/sys/kernel/tracing"
BUFFER_KIB = 16384  # for each processor; events that do not fit are lost, and then the trace means nothing
EVENT = re.compile(r"-(\d+)\s+\[\d+\]\s+\S+\s+([\d.]+): (entered|left): ", re.MULTILINE)


def tell(name, text):
    try:
        with open(os.path.join(TRACING, name), "a" if text.startswith("-:") else "w", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        raise Broken(f"the kernel's {name} does not take {text.split(' ')[0]!r}: {error.strerror}") from None


@contextlib.contextmanager
def probed(function):
    """Yields a function that returns how long each call took until then, in us, in the order in which the calls ended."""
    tell("trace_clock", "mono")
    tell("buffer_size_kb", str(BUFFER_KIB))
    tell("trace", "\n")
    tell("kprobe_events", f"p:lab/entered {function}\nr:lab/left {function}\n")
    try:
        tell("events/lab/enable", "1")
        yield lambda: durations(whole_trace())
    finally:
        tell("events/lab/enable", "0")
        tell("kprobe_events", "\n")


def whole_trace():
    text = text_of(os.path.join(TRACING, "trace"))
    found = re.search(r"entries-in-buffer/entries-written: (\d+)/(\d+)", text)
    if not found or found[1] != found[2]:
        raise Broken("the trace is not whole: the kernel's buffer has no room for it")
    return text


def durations(text):
    """Durations of calls in us.  A thread is in the function at most once, so a return belongs to its last entry."""
    began, found = {}, []
    for thread, at, what in EVENT.findall(text):
        if what == "entered":
            began[thread] = float(at)
        elif thread in began:
            found.append((float(at) - began.pop(thread)) * 1e6)
    return found
