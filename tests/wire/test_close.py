# SPDX-License-Identifier: MIT
"""How a connection ends after the last answer (docs/decisions/010-closing-at-once.md).

If a client has promised to send nothing more, the server closes the connection with the answer.  In all other cases it
shuts its side and discards what still arrives, for a while.  A client can distinguish the two by sending something after
the end of the stream: a closed socket answers with a reset.
"""
import select
import socket
import struct
import time

import pytest
from lib.client import PATIENCE, Wire, request
from lib.secured import EVERYWHERE
from lib.server import wait_for
from lib.trees import write

pytestmark = pytest.mark.userspace("a process that closes; the module lingers")
lingers = pytest.mark.skipif(EVERYWHERE, reason="with TLS it always lingers: the client's close_notify may still come")
CLOSE = ["Connection: close"]
A_WHILE = 0.3
LINGER_S, LATE_S = 2, 2
SEGMENTS_IN = 140  # offset of tcpi_segs_in in struct tcp_info
BIG = bytes(range(256)) * 4096


@pytest.fixture
def server(start, tree):
    write(f"{tree}/small", b"small\n")
    write(f"{tree}/big", BIG)
    return start(tree)


def is_reset(wire, seconds):
    """Whether a byte sent now is answered by a reset.  A server that lingers accepts it and ends in an orderly way."""
    wire.sock.sendall(b"x")
    poll = select.poll()
    poll.register(wire.sock, select.POLLERR)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if any(events & select.POLLERR for _, events in poll.poll(100)):
            return True
        time.sleep(0.01)  # the server's end of the stream is reported all the time
    return False


PROMISES = {
    "close": request("/small", fields=CLOSE),
    "head": request("/small", "HEAD", fields=CLOSE),
    "1.0": request("/small", minor=0),
    "not found": request("/none", fields=CLOSE),
    "second": request("/small") + request("/small", fields=CLOSE),
    "big": request("/big", fields=CLOSE),
    "listing": request("/", fields=CLOSE),
}
OTHERS = {
    "behind it": request("/small", fields=CLOSE) + b"\r\n",
    "pipelined": request("/small", fields=CLOSE) + request("/small"),
    "body": request("/small", "POST", fields=CLOSE, body=b"body"),
    "refused": b"nonsense\r\n\r\n",
    "no host": b"GET /small HTTP/1.1\r\nConnection: close\r\n\r\n",
}


def answers(wire, sent):
    reply = None
    while not reply or not reply.closes:
        reply = wire.reply("HEAD" if sent.startswith(b"HEAD") else "GET", 0 if b"HTTP/1.0" in sent else 1)
    wire.end()
    return reply


@pytest.mark.core
@pytest.mark.parametrize("name", PROMISES)
@lingers
def test_promised(server, name):
    """The whole answer, then the end of the stream; a byte that breaks the promise is answered by a reset."""
    with server.wire() as wire:
        wire.send(PROMISES[name])
        reply = answers(wire, PROMISES[name])
        assert name != "big" or reply.body == BIG
        assert is_reset(wire, PATIENCE)
    wait_for(lambda: server.stats()["closed"] == 1, "closed")


@pytest.mark.core
@pytest.mark.parametrize("name", OTHERS)
def test_not_promised(server, name):
    with server.wire() as wire:
        wire.send(OTHERS[name])
        assert answers(wire, OTHERS[name]).closes
        assert not is_reset(wire, A_WHILE)


@pytest.mark.long
def test_a_silent_client_is_waited_for_two_seconds(server):
    """A client that keeps its side open after the last answer: LINGER_MS, whatever the other time-outs are."""
    with server.wire() as wire:
        wire.send(OTHERS["refused"])
        assert answers(wire, OTHERS["refused"]).closes
        began = time.monotonic()
        wait_for(lambda: server.stats()["closed"] == 1, "closed")
        assert LINGER_S - 0.5 < time.monotonic() - began < LINGER_S + LATE_S


def test_half_closed(server):
    """A client that has shut its side sends nothing more: nothing is lost, however slowly it reads."""
    with Wire(server.addresses[0], rcvbuf=4096) as wire:
        wire.send(request("/big", fields=CLOSE))
        wire.sock.shutdown(socket.SHUT_WR)
        time.sleep(0.2)
        assert answers(wire, b"").body == BIG


def test_slow_reader(server):
    """The kernel still sends the queued bytes after the server has closed."""
    with Wire(server.addresses[0], rcvbuf=4096) as wire:
        wire.send(request("/big", fields=CLOSE))
        wait_for(lambda: server.stats()["accepted"] == 1, "accepted")
        time.sleep(0.3)
        assert answers(wire, b"").body == BIG


# shows N15
@lingers
def test_one_packet(server):
    """Answer and end of stream share a segment.  The client's other received segments are those of the handshake and the
    acknowledgement of its request."""
    def segments():
        with server.wire() as wire:
            wire.send(request("/small", fields=CLOSE))
            answers(wire, b"")
            return struct.unpack_from("I", wire.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192), SEGMENTS_IN)[0]
    assert min(segments() for _ in range(20)) <= 3
