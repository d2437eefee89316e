# SPDX-License-Identifier: MIT
"""Ends of answers that the kernel encrypts (--ktls) while TCP has no room: the thread of server/tls_last.c completes them.

Whether a connection is left to the thread depends on where its answer ends.  A shorter answer fits into TCP's queue with all
that follows it, and the session ends the stream; with a longer one the session waits.  A length in between is found by halving,
with clients that do not read.  The thread's descriptors show it: no others here have such high numbers.
"""
import os
import signal
import time

import pytest
from lib.ktls import given, kernel_tls, wire
from lib.limited import PATIENT
from lib.secured import EVERYWHERE
from lib.server import engine_row, wait_for
from lib.trees import content

pytestmark = [pytest.mark.userspace("TLS"), pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls"),
              pytest.mark.long, kernel_tls]
BIG = 1 << 19  # bytes: more than fit into TCP's queues; with --ktls such a file does not stay in memory
RCVBUF, SEGMENT = 4096, 536  # these two keep TCP's queues small: about 50 KB fit
NEAR = 64  # bytes between lengths that are tried
SEARCHES = 3  # a search fails if a busy machine looked as if it had come to rest
STILL_S = 1
SHUT = ("04", "05")  # FIN_WAIT1 and FIN_WAIT2, include/net/tcp_states.h
LASTS_FROM = 1024  # FD_SETSIZE: copy_of() in server/tls_last.c
# Where sockets block, the last send returns when TCP has all of it, and only close_notify may have no room.
LACKS = ["close_notify"] if engine_row()["may_block"] else ["close_notify", "part"]


class Place:
    """Where the bytes of an answer are while its client reads nothing."""

    def __init__(self, server, one):
        ports = server.address[1], one.sock.getsockname()[1]
        self.unread, self.shut, self.left = 0, False, False
        with open("/proc/net/tcp", encoding="ascii") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        for row in rows:
            ends = tuple(int(end.partition(":")[2], 16) for end in row[1:3])
            if ends == ports:
                self.unread += int(row[4].partition(":")[0], 16)
                self.shut = row[3] in SHUT
                self.left = f"socket:[{row[9]}]" in lasts(server)
            elif ends == ports[::-1]:
                self.unread += int(row[4].partition(":")[2], 16)

    def __eq__(self, other):
        return vars(self) == vars(other)


def lasts(server):
    """Sockets that the thread has, of each process."""
    found = set()
    for pid in server.pids():
        try:
            found |= {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd") if int(fd) >= LASTS_FROM}
        except FileNotFoundError:
            pass  # closed meanwhile
    return found


def settled(server, one):
    """Where its bytes are when they move no more."""
    place, since = Place(server, one), time.monotonic()
    while not place.unread or time.monotonic() - since < STILL_S:
        time.sleep(0.05)
        if (now := Place(server, one)) != place:
            place, since = now, time.monotonic()
    return place


def asked(server, length):
    """A client that does not read the answer, of that length."""
    one = wire(server, rcvbuf=RCVBUF, segment=SEGMENT)
    given(one)
    one.send(f"GET /{BIG}.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=0-{length - 1}\r\nConnection: close\r\n\r\n".encode())
    return one


def halved(server, lack):
    """A client whose connection is left to the thread, and the length of its answer; or None."""
    low, high = 1, BIG
    while high - low > NEAR:
        length = (low + high) // 2
        one = asked(server, length)
        place = settled(server, one)
        fits = place.unread >= length and (place.left or place.shut)
        if place.left and fits == (lack == "close_notify"):
            return one, length
        one.reset()
        low, high = (length, high) if fits else (low, length)
    return None


def left(server, lack):
    """... TCP lacks close_notify only, or a part of the answer too."""
    for _ in range(SEARCHES):
        if found := halved(server, lack):
            return found
    raise AssertionError("a connection of every length ends with its session, or waits with it")


def takes_all(one, length):
    reply = one.reply()
    assert reply.status == 206 and reply.body == content(BIG, BIG)[:length]
    one.end()
    assert one.sock.ended, "close_notify"


@pytest.fixture
def server(start, tmp_path):
    tmp_path.chmod(0o755)
    for size in (1, BIG):
        (tmp_path / f"{size}.bin").write_bytes(content(size, size))
    return start(tmp_path, "--tls", "self", "--ktls", "always", "--drain-timeout", "10m", *PATIENT)


@pytest.mark.parametrize("lack", LACKS)
def test_the_rest_comes_after_the_session(server, lack):
    one, length = left(server, lack)
    with one:
        takes_all(one, length)
    wait_for(lambda: not server.leaks(), "its socket closed")


@pytest.mark.parametrize("lack", LACKS)
def test_a_stop_waits_for_the_rest(server, lack):
    one, length = left(server, lack)
    with one:
        server.process.send_signal(signal.SIGTERM)
        takes_all(one, length)
    server.finish()
