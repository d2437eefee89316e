# SPDX-License-Identifier: MIT
"""The kernel's log as records, and which of them should never appear.

A record at the level of a warning or worse is a complaint, whatever it says, unless it is forgiven by name.  A record
with words that only a broken kernel logs is a complaint at any level.
"""
import os
import re

WARNING = 4
RECORD_BYTES = 8192
ALARM = re.compile(r"BUG[: ]|WARNING: |Oops: |Kernel panic|general protection fault|INFO: (task|possible|trying|rcu)|"
                   r"unreferenced object|kmemleak: [1-9]|KASAN|KCSAN|UBSAN|KFENCE|Poison overwritten|Object corrupt|"
                   r"scheduling while atomic|sleeping function|suspicious RCU|refcount_t: |list_(add|del) corruption|"
                   r"still has objects|(soft|hard) lockup|self-detected stall|broken promise|ODEBUG")
# Messages about any out-of-tree module, about the clocks of an emulator, and KCSAN's greeting.
FORGIVEN = re.compile(r"rung_\w+: (loading out-of-tree module taints kernel|module verification failed)|"
                      r"hrtimer: interrupt took|clocksource: |perf: interrupt took too long|tsc: |"
                      r"sched: DL replenish lagged too much|kcsan: non-strict mode configured")


def harmless(text):
    """A race of the kernel's own, or a message that FORGIVEN matches."""
    return bool(FORGIVEN.search(text)) or "BUG: KCSAN" in text and "[rung_" not in text


def complaint(level, text):
    return not harmless(text) and (level <= WARNING or bool(ALARM.search(text)))


class Log:
    """The kernel's log from now on; with begin, from the first record that the kernel still has."""

    def __init__(self, begin=False):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_SET if begin else os.SEEK_END)

    def records(self):
        """[(level, text)] since the last call."""
        found = []
        while True:
            try:
                record = os.read(self.fd, RECORD_BYTES).decode(errors="replace")
            except BlockingIOError:
                return found
            except BrokenPipeError:
                found.append((WARNING, "records were lost: the log ran over"))
                continue
            head, _, text = record.partition(";")
            found.append((int(head.split(",")[0]) & 7, text.split("\n")[0]))

    def complaints(self, expected=None):
        """The complaints since the last call; expected: a pattern of those that a test provokes."""
        return [text for level, text in self.records()
                if complaint(level, text) and not (expected and re.search(expected, text))]

    def close(self):
        os.close(self.fd)
