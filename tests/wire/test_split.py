# SPDX-License-Identifier: MIT
"""Requests that are cut at any place get the same answers as whole ones."""
import socket

import pytest
from lib.client import request
from lib.trees import content

# name, bytes, [(method, minor, status)] of the answers
SET = [
    ("get", request("/hello.txt", fields=["X-A: b", "Connection: keep-alive"]), [("GET", 1, 200)]),
    ("head", request("/hello.txt", "HEAD", ["If-None-Match: \"x\""]), [("HEAD", 1, 200)]),
    ("empty line first", b"\r\n" + request("/hello.txt"), [("GET", 1, 200)]),
    ("length body", request("/hello.txt", "POST", body=b"GET / HTTP/1.1\r\n\r\n"),
     [("POST", 1, 405)]),
    ("chunked body", request("/hello.txt", "POST", ["Transfer-Encoding: chunked"],
                             b'5;x="a;b"\r\nhello\r\n00a\r\n0123456789\r\n0;y\r\nX-Trailer: z\r\n\r\n'),
     [("POST", 1, 405)]),
    ("pipeline", request("/hello.txt") + request("/missing", "HEAD") + request("/list", body=b"abc")
     + request("*", "OPTIONS"), [("GET", 1, 200), ("HEAD", 1, 404), ("GET", 1, 301), ("OPTIONS", 1, None)]),
    ("1.0", request("/hello.txt", fields=["Connection: keep-alive"], minor=0), [("GET", 0, 200)]),
]


def answers(wire, expected):
    got = []
    for method, minor, status in expected:
        reply = wire.reply(method, minor)
        assert status in (None, reply.status)
        reply.fields.pop("date")
        got.append((reply.status, reply.fields, reply.body))
    return got


@pytest.mark.core
@pytest.mark.parametrize("name, data, expected", SET, ids=[row[0] for row in SET])
# shows D07, H01
def test_cut_everywhere(wire, name, data, expected):
    """Requests cut in two, at each place; all on one connection, so that a byte too many or too few shows in
    the next answer."""
    wire.send(data)
    whole = answers(wire, expected)
    for cut in range(1, len(data)):
        wire.send_cut(data, cut)
        assert answers(wire, expected) == whole, f"cut at {cut}"


@pytest.mark.parametrize("name, data, expected", SET, ids=[row[0] for row in SET])
# shows D07
def test_byte_by_byte(wire, name, data, expected):
    wire.send(data)
    whole = answers(wire, expected)
    wire.send_cut(data, *range(1, len(data)))
    assert answers(wire, expected) == whole


@pytest.mark.parametrize("data, status", [
    (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\n", 400),
    (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505)])
def test_refused_however_cut(site, data, status):
    for cut in range(1, len(data), 3):
        with site.wire() as wire:
            try:
                wire.send_cut(data, cut)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before its end: the answer is there
            assert wire.reply().status == status
            wire.end()


@pytest.mark.core
def test_urgent_data(wire):
    """An urgent byte is taken out of the stream: a server that does not ask for it reads the bytes around it."""
    data = request("/hello.txt")
    for cut in (0, 1, 10, len(data) - 1, 0):
        wire.send(data[:cut])
        wire.sock.send(b"!", socket.MSG_OOB)
        wire.send(data[cut:])
        assert wire.reply().body == b"Hello, world\n"


# shows D06, S10, S37
def test_straddling_any_buffer(wire):
    """Heads of growing length, back to back: one of them straddles the end of whatever buffer there
    is."""
    for extra in range(0, 12000, 577):
        data = request("/size/4097.bin", fields=["X-Pad: " + "p" * extra])
        wire.send(data * 3)
        for _ in range(3):
            assert wire.reply().body == content(4097, 4097)


def test_large_head_in_small_pieces(wire):
    data = request("/hello.txt", fields=[f"X-{i}: {'v' * 150}" for i in range(90)])
    wire.send_cut(data, *range(100, len(data), 100))
    assert wire.reply().status == 200
