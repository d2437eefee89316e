# SPDX-License-Identifier: MIT
"""All seats are taken: crowds that hold seats without using them do not keep others out.

Fresh clients connect after the crowd and wait behind it, so they are served only if the crowd loses its seats in time.
A client loses its seat by silence, by an incomplete head, or by a body that hardly moves (core/room.h).
"""
import socket
import threading
import time

import pytest
from lib import crowd
from lib.client import request
from lib.crowd import HELLO
from lib.server import ENGINE, wait_for
from lib.trees import sparse, write

BIG = 64 << 20
FRESH = 10
FRESH_S = 20  # generous: an idle machine needs milliseconds, and two seconds behind slow readers
SILENT_S = 5  # behind silent clients; closing them one by one, every 40 ms, would take 20
PATIENT = ["--head-timeout", "300s", "--idle-timeout", "300s", "--send-timeout", "300s"]
DRIP_S = 0.3
QUIET_S = 0.5  # the crowd's lead over the others
LATE_S = 0.03  # a silent client has its seat for 40 ms if others wait
LOST_MAX = 0.05  # of an active client's requests: on a busy machine it is silent for longer than it means to be


class Crowd:
    """Clients that send the opening and then, if there is a step, each take one from time to time."""

    def __init__(self, server, count, opening=b"", step=None, rcvbuf=None):
        self.socks, self.over, self.step = [], threading.Event(), step
        for _ in range(count):
            sock = socket.socket()
            if rcvbuf:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
            sock.setblocking(False)
            sock.connect_ex(server.address)
            self.socks.append(sock)
        self.silent = set(self.socks) if opening else set()
        self.opening = opening
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.is_set():
            for sock in self.socks if self.opening else ():
                try:
                    if sock in self.silent:
                        sock.send(self.opening)
                        self.silent.discard(sock)
                    elif self.step:
                        self.step(sock)
                except OSError:
                    pass  # not connected yet, nothing to read, or ended by the server
            self.over.wait(DRIP_S)

    def __enter__(self):
        time.sleep(QUIET_S)
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        for sock in self.socks:
            sock.close()


class Active(threading.Thread):
    """A client that keeps its connection and sends requests without a pause."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.over, self.answers, self.lost = server, threading.Event(), 0, 0
        self.start()

    def run(self):
        while not self.over.is_set():
            try:
                with self.server.wire() as wire:
                    while not self.over.is_set():
                        assert wire.ask("/hello.txt").body == HELLO
                        self.answers += 1
            except (OSError, AssertionError):
                self.lost += 1


def fresh(server):
    """The longest time that any of FRESH clients waits if they connect together.  A client that may have lost its seat because
    this busy process sent its request late connects again."""
    times, ends = [], []

    def one():
        begin, late = time.monotonic(), True
        while late and time.monotonic() < begin + FRESH_S:
            tried, sent = time.monotonic(), None
            try:
                with server.wire(timeout=FRESH_S) as wire:
                    wire.send(request("/hello.txt"))
                    sent = time.monotonic()
                    if wire.reply().body == HELLO:
                        times.append(time.monotonic() - begin)
                    return
            except (OSError, AssertionError) as error:
                now = time.monotonic()
                late = (sent or now) > tried + LATE_S
                ends.append(f"{now - begin:.2f} s, {'sent' if sent else 'not sent'}: {error!r}")
    threads = [threading.Thread(target=one) for _ in range(FRESH)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(times) == FRESH, f"{len(times)} of {FRESH} were served: {times}; the others: {ends}"
    return max(times)


@pytest.fixture
def root(tree):
    write(f"{tree}/hello.txt", HELLO)
    sparse(f"{tree}/big.bin", BIG, {})
    return tree


def judge(server, record_property, what, **crowd_of):
    with Crowd(server, **crowd_of):
        seconds = fresh(server)
    record_property("full", f"{ENGINE}: {FRESH} clients beside {crowd_of['count']} {what} wait {seconds:.2f} s at most")
    return seconds


@pytest.mark.core
@pytest.mark.capacity(8)
def test_silent_crowd(start, root, record_property):
    """Six times as many clients as there are seats; one that sends requests all the time keeps its own seat."""
    server = start(root, "--max-connections", "100", *PATIENT)
    active = Active(server)
    wait_for(lambda: active.answers > 20, "an active client")
    assert judge(server, record_property, "silent ones", count=600) < SILENT_S
    active.over.set()
    active.join()
    assert active.lost <= 1 + LOST_MAX * active.answers, (active.lost, active.answers)
    assert server.stats()["evicted"] > 400


@pytest.mark.long
@pytest.mark.capacity(8)
def test_large_silent_crowd(start, root, record_property):
    judge(start(root, *PATIENT), record_property, "silent ones", count=min(9_000, crowd.room()))


@pytest.mark.long
@pytest.mark.core
@pytest.mark.capacity(8)
@pytest.mark.parametrize("seats", [0, 100])
def test_dripping_heads(start, root, seats, record_property):
    most = ["--max-connections", str(seats)] if seats else []
    judge(start(root, *most, *PATIENT), record_property, "dripping heads", count=1_000,
          opening=request("/hello.txt")[:-2] + b"X: ", step=lambda sock: sock.send(b"a"))


@pytest.mark.long
@pytest.mark.core
@pytest.mark.capacity(8)
def test_slow_readers(start, root, record_property):
    """Clients read a few kilobytes a second of a file that does not fit any socket's buffer."""
    judge(start(root, "--max-connections", "40", *PATIENT), record_property, "slow readers", count=300,
          opening=request("/big.bin"), step=lambda sock: sock.recv(1_000), rcvbuf=4096)


@pytest.mark.long
@pytest.mark.capacity(8)
def test_slow_bodies(start, root, record_property):
    """Clients send a request's body, a byte now and then."""
    judge(start(root, "--max-connections", "40", *PATIENT), record_property, "slow bodies", count=300,
          opening=request("/hello.txt", "POST", ["Content-Length: 100000"]), step=lambda sock: sock.send(b"a"))
