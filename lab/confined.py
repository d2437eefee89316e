# SPDX-License-Identifier: MIT
"""confined.py - a limit on the memory of a server, with the pages of files that it has read: a control group.

The kernel charges a page of a file to the group that read it first.  So the clients must not read the files that the server
sends, and the pages that are in memory already must be dropped before (measures.forget).

A machine with cgroups v2 alone has memory.max; one with a hierarchy of v1 for memory has memory.limit_in_bytes.
"""
import os
import time

from rig import Broken, Cannot, family, text_of

V1, V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
LIMITS = {V1: "memory.limit_in_bytes", V2: "memory.max"}
NAME = "rung-lab"
EMPTY_S = 5  # time for the processes of a group that have ended to leave it


def reached(text):
    """How often a group was at its limit: memory.failcnt of v1, which is a number, or memory.events of v2, which has a line
    "max NUMBER"."""
    words = text.split()
    return int(words[0] if len(words) == 1 else words[words.index("max") + 1])


class Memory:
    """A group of processes that may use `limit` bytes together.  It is removed at the end of `with`; its processes must have
    ended by then."""

    def __init__(self, limit):
        self.limit, self.top = limit, V1 if os.path.exists(os.path.join(V1, LIMITS[V1])) else V2
        self.path = os.path.join(self.top, NAME)

    def file(self, name):
        return os.path.join(self.path, name)

    def put(self, name, value):
        with open(self.file(name), "w", encoding="ascii") as file:
            file.write(str(value))

    def __enter__(self):
        try:
            os.makedirs(self.path, exist_ok=True)  # a run that was killed has left it
            if text_of(self.file("cgroup.procs")):
                raise Broken(f"{self.path} has processes: does another run of the lab use it?")
            self.put(LIMITS[self.top], self.limit)
        except OSError as error:
            raise Cannot(f"memory cannot be limited here: {error.strerror}: {error.filename}; this needs root and the memory "
                         "controller of cgroups") from None
        return self

    def __exit__(self, *_):
        end = time.monotonic() + EMPTY_S
        while True:
            try:
                return os.rmdir(self.path)
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def take(self, pid):
        """Put a process and all below it into the group."""
        for one in family(pid):
            self.put("cgroup.procs", one)

    def times_full(self):
        return reached(text_of(self.file("memory.failcnt" if self.top == V1 else "memory.events")))
