# SPDX-License-Identifier: MIT
"""Pipelining: many requests in one write, answered in order and to the byte (RFC 9112 9.3.2)."""
import random
import threading

import pytest
from lib.client import request
from lib.trees import SIZES, content

POST = request("/hello.txt", "POST", body=b"b" * 300)
CHUNKED = request("/hello.txt", "PUT", ["Transfer-Encoding: chunked"],
                  b"3\r\nabc\r\n0\r\nX-T: u\r\n\r\n")

# bytes, method, status, body (None: any)
KINDS = [
    (request("/hello.txt"), "GET", 200, b"Hello, world\n"),
    (request("/hello.txt", "HEAD"), "HEAD", 200, b""),
    (request("/size/0.bin"), "GET", 200, b""),
    (request("/size/4097.bin"), "GET", 200, content(4097, 4097)),
    (request("/size/65536.bin"), "GET", 200, content(65536, 65536)),
    (request("/missing"), "GET", 404, None),
    (request("/missing", "HEAD"), "HEAD", 404, b""),
    (request("/list"), "GET", 301, None),
    (request("/list/"), "GET", 200, None),
    (request("*", "OPTIONS"), "OPTIONS", None, b""),
    (request("/alphabet.txt", fields=["Range: bytes=3-5"]), "GET", 206, b"def"),
    (request("/alphabet.txt", fields=["Range: bytes=0-0,25-"]), "GET", 206, None),
    (request("/alphabet.txt", fields=["Range: bytes=99-"]), "GET", 416, None),
    (request("/hello.txt", fields=["If-None-Match: *"]), "GET", 304, b""),
    (request("/hello.txt", fields=["If-Match: \"no\""]), "GET", 412, None),
    (POST, "POST", 405, None),
    (CHUNKED, "PUT", 405, None),
    (request("/x", "BREW"), "BREW", 501, None),
    (request("/%zz"), "GET", 400, None),
    (request("/special/fifo"), "GET", 403, None),
]


def read(wire, kinds):
    for i, (_, method, status, body) in enumerate(kinds):
        reply = wire.reply(method)
        assert status in (None, reply.status), (i, method, reply)
        assert body is None or reply.body == body, (i, reply)
        assert not reply.closes, (i, reply)


@pytest.mark.core
@pytest.mark.parametrize("seed", range(4))
# shows D23, K18, K40
def test_hundred_in_one_write(wire, seed):
    kinds = random.Random(seed).choices(KINDS, k=100)
    sender = threading.Thread(target=wire.send, args=(b"".join(kind[0] for kind in kinds),),
                              daemon=True)
    # The answers are longer than all buffers on the way: reading must not wait for writing.
    sender.start()
    read(wire, kinds)
    sender.join(30)
    assert wire.ask("/hello.txt").status == 200


def test_cut_at_random(wire):
    rng = random.Random(7)
    kinds = rng.choices(KINDS, k=60)
    data = b"".join(kind[0] for kind in kinds)
    cuts = sorted(rng.sample(range(1, len(data)), 40))
    sender = threading.Thread(target=wire.send_cut, args=(data, *cuts), daemon=True)
    sender.start()
    read(wire, kinds)
    sender.join(30)


def test_close_in_the_middle(site):
    """Requests after one with Connection: close are not answered, and the end is clean."""
    with site.wire() as wire:
        wire.send(request("/hello.txt") * 2 + request("/hello.txt", fields="Connection: close")
                  + request("/hello.txt") * 2000)
        assert [wire.reply().closes for _ in range(3)] == [False, False, True]
        wire.end()


def test_one_answer_each_for_small_files(wire):
    """2000 small requests while nothing is read for a while: the server waits; it neither loses requests
    nor grows."""
    count = 2000
    sender = threading.Thread(target=wire.send, args=(request("/size/4096.bin") * count,),
                              daemon=True)
    sender.start()
    sender.join(0.5)
    body = content(4096, 4096)
    for _ in range(count):
        assert wire.reply().body == body
    sender.join(30)


# shows D17
def test_sizes_back_to_back(wire):
    """Every body has the length that its head says, for every size, with the next answer right behind it."""
    wire.send(b"".join(request(f"/size/{size}.bin") for size in SIZES))
    for size in SIZES:
        reply = wire.reply()
        assert reply.length == size and reply.body == content(size, size)


@pytest.mark.core
def test_half_close_gets_everything(site):
    """A client that has sent all its requests and shut its side gets every answer, then the end."""
    with site.wire() as wire:
        wire.send(request("/size/65536.bin") * 20 + request("/list/"))
        wire.finish()
        for _ in range(20):
            assert wire.reply().body == content(65536, 65536)
        assert wire.reply().status == 200
        wire.end()


@pytest.mark.parametrize("part", [b"GET /hello.txt HTT", b"GET /hello.txt HTTP/1.1\r\nHost: x\r\n",
                                  b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"])
def test_half_close_within_a_request(site, part):
    """The whole request is answered; the torn one is answered 400 or 408, or not at all, and then the
    connection ends."""
    with site.wire() as wire:
        wire.send(request("/hello.txt") + part)
        wire.finish()
        assert wire.reply().status == 200
        if wire.rest or wire.more():
            assert wire.reply().status in (400, 408)
        wire.end()
