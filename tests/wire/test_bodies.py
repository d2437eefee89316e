# SPDX-License-Identifier: MIT
"""Request bodies: consumed to the byte up to a limit, so that the next request is never
misread."""
import threading

import pytest
from lib.client import request

MIB = 1 << 20
CHUNKED = "Transfer-Encoding: chunked"
LINE_MAX, TRAILERS_MAX = 256, 8192  # of a chunk line; of all trailers (core/limits.h)


def chunks(body, size=1000, extension=b"", trailers=b""):
    out = b""
    for start in range(0, len(body), size):
        piece = body[start:start + size]
        out += b"%x%s\r\n%s\r\n" % (len(piece), extension, piece)
    return out + b"0" + extension + b"\r\n" + trailers + b"\r\n"


def send(wire, data):
    """Send while the answer may already be on its way."""
    try:
        wire.send(data)
    except (BrokenPipeError, ConnectionResetError):
        pass


# name, method, fields, body on the wire, status
GOOD = [
    ("get with length", "GET", ["Content-Length: 5"], b"12345", 200),
    ("head with length", "HEAD", ["Content-Length: 5"], b"12345", 200),
    ("post", "POST", ["Content-Length: 5"], b"12345", 405),
    ("length zero", "POST", ["Content-Length: 0"], b"", 405),
    ("length with zeros before", "POST", ["Content-Length: 0005"], b"12345", 405),
    ("options", "OPTIONS", ["Content-Length: 5"], b"12345", None),
    ("unknown method", "BREW", ["Content-Length: 5"], b"12345", 501),
    ("a request as a body", "POST", ["Content-Length: 38"],
     b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n\r\n", 405),
    ("chunked", "POST", [CHUNKED], b"5\r\nhello\r\n0\r\n\r\n", 405),
    ("chunked get", "GET", [CHUNKED], b"5\r\nhello\r\n0\r\n\r\n", 200),
    ("chunked in capitals", "POST", ["transfer-encoding: CHUNKED"], b"5\r\nhello\r\n0\r\n\r\n",
     405),
    ("chunked, empty", "POST", [CHUNKED], b"0\r\n\r\n", 405),
    ("capital hex", "POST", [CHUNKED], b"A\r\n0123456789\r\n0\r\n\r\n", 405),
    ("small hex", "POST", [CHUNKED], b"a\r\n0123456789\r\n0\r\n\r\n", 405),
    ("zeros before", "POST", [CHUNKED], b"0000005\r\nhello\r\n000\r\n\r\n", 405),
    ("sixteen digits", "POST", [CHUNKED], b"0000000000000005\r\nhello\r\n0\r\n\r\n", 405),
    ("extensions", "POST", [CHUNKED], b'5;a;b=c;d="e;f"\r\nhello\r\n0;last\r\n\r\n', 405),
    ("extensions with blanks", "POST", [CHUNKED],
     b'5 ; a = "b \\" c" ; d\r\nhello\r\n0\t;e\r\n\r\n', 405),
    ("trailers", "POST", [CHUNKED], b"0\r\nA: b\r\nC: d\r\n\r\n", 405),
    ("trailers that look like framing", "POST", [CHUNKED],
     b"0\r\nContent-Length: 50\r\nHost: y\r\n\r\n", 405),
    ("crlf in a chunk", "POST", [CHUNKED], b"9\r\n\r\n0\r\n\r\n\r\n\r\n0\r\n\r\n", 405),
    ("chunks of one byte", "POST", [CHUNKED], b"1\r\nx\r\n" * 500 + b"0\r\n\r\n", 405),
    ("chunk line at its limit", "POST", [CHUNKED], b"5;" + b"x" * 200 + b"\r\nhello\r\n0\r\n\r\n",
     405),
]


@pytest.mark.core
@pytest.mark.parametrize("name, method, fields, body, status", GOOD, ids=[row[0] for row in GOOD])
# shows H02, H04
def test_consumed(wire, name, method, fields, body, status):
    head = request("/hello.txt", method, fields)
    wire.send(head + body + request("/alphabet.txt"))
    reply = wire.reply(method)
    assert status in (None, reply.status)
    if not reply.closes:
        assert wire.reply().body == b"abcdefghijklmnopqrstuvwxyz"
        wire.send_cut(head + body, len(head))  # and with the body sent separately
        assert wire.reply(method).status == reply.status
        assert wire.ask("/hello.txt").status == 200


# name, chunked body, status: the answer is the last thing on the connection (RFC 9112 7.1)
BAD_CHUNKS = [
    ("no size", b"\r\nhello\r\n0\r\n\r\n", 400), ("letters", b"xyz\r\n", 400),
    ("sign", b"+5\r\nhello\r\n0\r\n\r\n", 400),
    ("minus", b"-5\r\nhello\r\n", 400), ("0x", b"0x5\r\nhello\r\n0\r\n\r\n", 400),
    ("space before", b" 5\r\nhello\r\n0\r\n\r\n", 400),
    ("bare LF after the size", b"5\nhello\r\n0\r\n\r\n", 400),
    ("bare CR after the size", b"5\rhello\r\n0\r\n\r\n", 400),
    ("bare LF after the data", b"5\r\nhello\n0\r\n\r\n", 400),
    ("data too long", b"5\r\nhelloworld\r\n0\r\n\r\n", 400),
    ("no CRLF after data", b"5\r\nhello0\r\n\r\n", 400),
    ("extension without a name", b"5;\r\nhello\r\n0\r\n\r\n", 400),
    ("extension of a value only", b"5;=b\r\nhello\r\n0\r\n\r\n", 400),
    ("extension without its value", b"5;a=\r\nhello\r\n0\r\n\r\n", 400),
    ("extension of two words", b"5;a b\r\nhello\r\n0\r\n\r\n", 400),
    ("extension with an open quote", b'5;a="b\r\nhello\r\n0\r\n\r\n', 400),
    ("bytes behind a quoted value", b'5;a="b"c\r\nhello\r\n0\r\n\r\n', 400),
    ("blank before the line end", b"5 \r\nhello\r\n0\r\n\r\n", 400),
    ("latin-1 in an extension", b"5;\xe9\r\nhello\r\n0\r\n\r\n", 400),
    ("NUL in an extension", b"5;\0\r\nhello\r\n0\r\n\r\n", 400),
    ("LF in an extension", b"5;a\nb\r\nhello\r\n", 400),
    ("CR in an extension", b"5;a\rb\r\nhello\r\n0\r\n\r\n", 400),
    ("seventeen digits", b"00000000000000005\r\nhello\r\n0\r\n\r\n", None),
    ("negative as unsigned (CVE-2013-2028)", b"ffffffffffffffff\r\nhello", None),
    ("sign bit", b"8000000000000000\r\nhello", None),
    ("wraps to five", b"10000000000000005\r\nhello\r\n0\r\n\r\n", None),
    ("trailer without colon", b"0\r\nfoo\r\n\r\n", 400),
    ("trailer with a bare LF", b"0\r\nA: b\n\r\n", 400),
    ("folded trailer", b"0\r\nA: b\r\n c\r\n\r\n", 400),
    ("trailer with a space before the colon", b"0\r\nA : b\r\n\r\n", 400),
    ("trailer with NUL", b"0\r\nA: \0\r\n\r\n", 400), ("bare LF at the end", b"0\r\n\n", 400),
]


@pytest.mark.parametrize("name, body, status", BAD_CHUNKS, ids=[row[0] for row in BAD_CHUNKS])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_bad_chunks(site, method, name, body, status):
    with site.wire() as wire:
        wire.send(request("/hello.txt", method, [CHUNKED]) + body + request("/hello.txt") * 50)
        reply = wire.reply()
        assert reply.status in ((status,) if status else (400, 413)), reply
        assert reply.closes
        wire.end()


@pytest.mark.parametrize("method, status", [("POST", 405), ("GET", 200)])
def test_a_mebibyte_is_taken(wire, method, status):
    body = bytes(MIB)
    for data in (request("/hello.txt", method, body=body),
                 request("/hello.txt", method, [CHUNKED], chunks(body, 16000))):
        wire.send(data + request("/alphabet.txt"))
        assert wire.reply().status == status
        assert wire.reply().body == b"abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("form", ["length", "chunked", "huge"])
def test_a_byte_more_is_413(site, method, form):
    """The answer arrives although the body is still being sent: a lingering close."""
    if form == "length":
        data = request("/hello.txt", method, body=bytes(MIB + 1))
    elif form == "chunked":
        data = request("/hello.txt", method, [CHUNKED], chunks(bytes(MIB + 1), 16000))
    else:
        data = request("/hello.txt", method,
                       ["Content-Length: 9223372036854775807"]) + bytes(MIB // 2)
    with site.wire() as wire:
        sender = threading.Thread(target=send, args=(wire, data), daemon=True)
        sender.start()
        reply = wire.reply()
        assert reply.status == 413 and reply.closes
        sender.join(30)
        wire.end()


def test_413_comes_at_once(site):
    """The length alone is enough: the client need not send a body that will be discarded."""
    with site.wire() as wire:
        wire.send(request("/hello.txt", "POST", [f"Content-Length: {MIB + 1}"]))
        assert wire.reply().status == 413


@pytest.mark.parametrize("size, status", [(MIB - 5, 405), (MIB - 4, 413)])
def test_413_comes_with_the_size_of_a_chunk(site, size, status):
    """RFC 9110 15.5.14: the size that a chunk announces is judged before any of its bytes are sent."""
    with site.wire() as wire:
        wire.send(request("/hello.txt", "POST", [CHUNKED]) + b"5\r\nhello\r\n%x\r\n" % size)
        if status != 413:
            assert wire.quiet(0.2)
            wire.send(bytes(size) + b"\r\n0\r\n\r\n")
        reply = wire.reply()
        assert reply.status == status and reply.closes == (status == 413)


@pytest.mark.parametrize("what, body", [
    ("chunk line", b"5;" + b"x" * (LINE_MAX * 4) + b"\r\nhello\r\n0\r\n\r\n"),
    ("endless chunk line", b"5;" + b"x" * 100000), ("endless zeros", b"0" * 100000),
    ("trailers", b"0\r\n" + b"X-A: bcdefghi\r\n" * (TRAILERS_MAX // 15 + 2) + b"\r\n"),
    ("endless trailer", b"0\r\nX: " + b"y" * 100000),
    ("extensions of many chunks (CVE-2023-39326)",
     (b"1;" + b"x" * 200 + b"\r\ny\r\n") * 5000 + b"0\r\n\r\n")])
def test_overhead_is_bounded(site, what, body):
    with site.wire() as wire:
        sender = threading.Thread(target=send,
                                  args=(wire, request("/hello.txt", "POST", [CHUNKED]) + body), daemon=True)
        sender.start()
        reply = wire.reply()
        assert reply.status in (400, 413, 431) and reply.closes
        sender.join(30)
        wire.end()


@pytest.mark.parametrize("size, good", [(LINE_MAX, True), (LINE_MAX + 3, False)])
def test_chunk_line_limit(site, size, good):
    """Lines on both sides of the limit; a client cannot know whether the CRLF counts."""
    line = b"5;" + b"x" * (size - 4) if good else b"5;" + b"x" * (size - 2)
    with site.wire() as wire:
        wire.send(request("/hello.txt", "POST", [CHUNKED]) + line + b"\r\nhello\r\n0\r\n\r\n")
        assert (wire.reply().status == 405) == good


@pytest.mark.core
def test_expect_continue(site):
    """RFC 9110 10.1.1: 100 and then the answer, or the final answer at once."""
    with site.wire() as wire:
        wire.send(request("/hello.txt", "GET", ["Expect: 100-continue", "Content-Length: 5"]))
        first = wire.head()
        assert first.status in (100, 200)
        if first.status == 100:
            assert not first.fields
            wire.send(b"12345")
            assert wire.reply().body == b"Hello, world\n"
            assert wire.ask("/alphabet.txt").status == 200


def test_expect_continue_for_a_post(site):
    """A final answer without 100 must either keep the framing or close."""
    with site.wire() as wire:
        wire.send(request("/hello.txt", "POST", ["Expect: 100-Continue", "Content-Length: 5"]))
        first = wire.head()
        if first.status == 100:
            wire.send(b"12345")
            first = wire.reply()
        else:
            wire.body(first, "POST", 1)
        assert first.status == 405
        if not first.closes:
            assert wire.ask("/alphabet.txt").status == 200
        else:
            wire.end()


def test_expect_with_the_body_there(wire):
    """The body arrives with the head: no 100 is needed, and the body is not read twice."""
    wire.send(request("/hello.txt", "GET", ["Expect: 100-continue"],
                      b"12345") + request("/alphabet.txt"))
    assert wire.reply().body == b"Hello, world\n"
    assert wire.reply().body == b"abcdefghijklmnopqrstuvwxyz"


def test_expect_without_a_body(wire):
    assert wire.ask("/hello.txt", fields=["Expect: 100-continue"]).status == 200
    assert wire.ask("/hello.txt").status == 200


def test_expect_too_much(site):
    with site.wire() as wire:
        wire.send(request("/hello.txt", "POST",
                          ["Expect: 100-continue", f"Content-Length: {MIB + 1}"]))
        reply = wire.reply()
        assert reply.status == 413 and not reply.continues
        wire.end()


def test_expect_of_http10_is_ignored(site):
    with site.wire() as wire:
        wire.send(request("/hello.txt", "GET", ["Expect: 100-continue", "Content-Length: 5"],
                          minor=0))
        assert wire.quiet(0.2) or wire.rest.startswith(b"HTTP/1.1 200")
        wire.send(b"12345")
        assert wire.reply(minor=0).continues == 0


def test_unknown_expectation(site):
    with site.wire() as wire:
        assert wire.ask("/hello.txt", fields=["Expect: a-miracle"]).status == 417
