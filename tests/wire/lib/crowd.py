# SPDX-License-Identifier: MIT
"""Thousands of clients in one process: how many are possible, how they connect, what they cost."""
import os
import re
import resource
import threading
import time

from . import server as one
from .client import PATIENCE, request

BATCH = 128  # clients that connect together: fewer than a listener's queue holds, so that none has to retry
HELLO = b"Hello, world\n"
PORTS = 20_000  # client ports towards one server: the usual range, less some that are taken


def room(beside=120):
    """Number of connections that this process, or a server it starts, may have: each takes a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    most = PORTS if hard == resource.RLIM_INFINITY else hard - len(os.listdir("/proc/self/fd")) - beside
    return min(most, PORTS)


def threads():
    """Number of threads or processes that a server may start and still leave enough to other programs."""
    most = [resource.getrlimit(resource.RLIMIT_NPROC)[1] // 2]
    for path, share in (("/proc/sys/kernel/pid_max", 3), ("/proc/sys/kernel/threads-max", 3),
                        ("/proc/sys/vm/max_map_count", 4), ("/sys/fs/cgroup/pids.max", 2)):
        try:
            with open(path, encoding="ascii") as file:
                most.append(int(file.read()) // share)
        except (OSError, ValueError):
            pass  # not here, or "max"
    with open("/proc/meminfo", encoding="ascii") as file:
        most.append(int(re.search(r"^MemAvailable:\s+(\d+) kB", file.read(), re.M)[1]) // 256)
    return min(count for count in most if count > 0)


def sanitized():
    """Whether the memory measured is not rung's alone: a sanitizer is compiled in, or it is the whole kernel's."""
    if one.ENGINE == "kernel":
        return True
    with open(one.BIN, "rb") as file:
        data = file.read()
    return data.startswith(b"#!") or b"__asan_report_" in data or b"__tsan_func_entry" in data


def settled(server, question):
    """The answer to question(), once it has been the same three times (a connection ends a moment after its client) and
    no worker is still starting."""
    server.rest()
    answers, end = [], time.monotonic() + PATIENCE
    while len(answers) < 3 or len(set(answers[-3:])) > 1:
        assert time.monotonic() < end, f"does not settle: {answers[-5:]}"
        answers.append(question())
        time.sleep(0.05)
    return answers[-1]


def arrive(server, count, opening=lambda i: request("/hello.txt")):
    """count wires, connected a batch at a time.  Wire i first sends opening(i); a whole request is answered.
    The last wire of a batch sends a request, so that all before it have been accepted."""
    wires, whole = [], request("/hello.txt")
    while len(wires) < count:
        first, last = len(wires), min(len(wires) + BATCH, count)
        asks = []
        for i in range(first, last):
            wire = server.wire()
            wires.append(wire)
            said = whole if i == last - 1 else opening(i)
            if said:
                wire.send(said)
            if said == whole:
                asks.append(wire)
        for wire in asks:
            assert wire.reply().body == HELLO
    return wires


class Reader(threading.Thread):
    """Reads from a wire like a busy client: at most STEP bytes every PAUSE_S, until end() is called or it has them all."""
    STEP, PAUSE_S = 65536, 0.01

    def __init__(self, wire, count):
        super().__init__(daemon=True)
        self.wire, self.left, self.parts, self.over, self.failed = wire, count, [], threading.Event(), None
        self.start()

    def run(self):
        try:
            while self.left and not self.over.wait(self.PAUSE_S):
                self.parts.append(self.wire.take(min(self.STEP, self.left)))
                self.left -= len(self.parts[-1])
        except (OSError, AssertionError) as error:
            self.failed = error

    def end(self):
        """End reading; returns the bytes read so far."""
        self.over.set()
        return self.all()

    def all(self):
        self.join(PATIENCE)
        assert not self.failed and not self.is_alive(), self.failed
        return b"".join(self.parts)


def leave(wires):
    for wire in wires:
        wire.close()


def seconds_for(wire, count):
    """The time of count requests, one after the other.  All answers have the same length, dates included."""
    wire.send(request("/hello.txt"))
    length = len_of(wire)
    data = request("/hello.txt")
    begin = time.monotonic()
    for _ in range(count):
        wire.send(data)
        assert wire.take(length).endswith(b"\r\n\r\n" + HELLO)
    return time.monotonic() - begin


def len_of(wire):
    """Bytes of the next answer, head and body."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += wire.take(1)
    assert wire.take(len(HELLO)) == HELLO
    return len(head) + len(HELLO)
