# SPDX-License-Identifier: MIT
"""Every limit of a request's head (core/limits.h): both sides of it, and sizes far beyond."""
import pytest
from lib.client import request

pytestmark = pytest.mark.any_engine("the parser counts")

TARGET, HEAD, FIELDS, METHOD, PATH = 8192, 16384, 100, 32, 4096


def head_of(total):
    """A request whose head has exactly that many bytes."""
    short = request("/hello.txt", fields=["X-Pad: "])
    return request("/hello.txt", fields=["X-Pad: " + "p" * (total - len(short))])


def refused(site, data, status):
    with site.wire() as wire:
        try:
            wire.send(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        reply = wire.reply()
        assert reply.status == status and reply.closes
        wire.end()


@pytest.mark.core
# shows D15
def test_target_at_its_limit(wire):
    target = "/hello.txt?" + "q" * (TARGET - 11)
    assert len(target) == TARGET
    assert wire.ask(target).status == 200
    assert wire.ask("/hello.txt").status == 200


@pytest.mark.core
@pytest.mark.parametrize("size", [TARGET + 1, TARGET + 2, HEAD, HEAD + 1, 100_000, 1_000_000])
# shows D15
def test_target_beyond(site, size):
    refused(site, request("/hello.txt?" + "q" * (size - 11)), 414)


@pytest.mark.parametrize("size", [9000, 20000, 200_000])
def test_endless_target(site, size):
    """A line without an end is refused as soon as it is too long."""
    refused(site, b"GET /" + b"a" * size, 414)


@pytest.mark.core
@pytest.mark.parametrize("cut", [None, 1, 8000, 16383])
def test_head_at_its_limit(wire, cut):
    data = head_of(HEAD)
    assert len(data) == HEAD
    wire.send_cut(data, *([cut] if cut else []))
    assert wire.reply().status == 200
    assert wire.ask("/hello.txt").status == 200


@pytest.mark.core
@pytest.mark.parametrize("size", [HEAD + 1, HEAD + 2, 2 * HEAD, 100_000, 1_000_000])
# shows U12
def test_head_beyond(site, size):
    refused(site, head_of(size), 431)


def test_head_beyond_cut_anywhere(site):
    data = head_of(HEAD + 1)
    for cut in (1, 100, 8192, 16000, HEAD - 1, HEAD):
        with site.wire() as wire:
            wire.send_cut(data, cut)
            assert wire.reply().status == 431
            wire.end()


def test_endless_field(site):
    refused(site, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 50_000, 431)
    refused(site, b"GET / HTTP/1.1\r\nHost: x\r\n" + b"y" * 50_000, 431)


@pytest.mark.core
def test_fields_at_their_limit(wire):
    fields = ["Host: localhost"] + [f"X-{i}: {i}" for i in range(FIELDS - 1)]
    assert wire.ask("/hello.txt", fields=fields).status == 200


@pytest.mark.core
@pytest.mark.parametrize("count", [FIELDS + 1, 1000, 20_000])
def test_fields_beyond(site, count):
    fields = ["Host: localhost"] + ["X: y"] * (count - 1)
    refused(site, request("/hello.txt", fields=fields), 431)


def test_method_at_its_limit(wire):
    assert wire.ask("/hello.txt", "M" * METHOD).status == 501


@pytest.mark.parametrize("size", [METHOD + 1, 1000, 100_000])
def test_method_beyond(site, size):
    with site.wire() as wire:
        try:
            wire.send(request("/hello.txt", "M" * size))
        except (BrokenPipeError, ConnectionResetError):
            pass
        reply = wire.reply()
        assert reply.status in (400, 501) and reply.closes
        wire.end()


@pytest.mark.parametrize("size", [255, 256, 1000, PATH - 2, PATH - 1, PATH, PATH + 1, TARGET - 1])
# shows D15
def test_long_names(wire, size):
    """There is no such file, whatever the length of the path: 404 or 414, and the server goes on."""
    assert wire.ask("/" + "a" * size).status in (404, 414)
    assert wire.ask("/" + "a/" * (size // 2)).status in (404, 414)
    assert wire.ask("/" + "%61" * (min(size, 2700))).status in (404, 414)


def test_empty_lines_are_bounded(site):
    """A few empty lines before a request are forgiven (RFC 9112 2.2), an endless stream of them is
    not."""
    with site.wire() as wire:
        try:
            for _ in range(50):
                wire.send(b"\r\n" * 1000)
        except (BrokenPipeError, ConnectionResetError):
            pass
        reply = wire.reply()
        assert reply.status in (400, 431) and reply.closes
        wire.end()
