# SPDX-License-Identifier: MIT
"""Tests of these tests' own client: it refuses anything that a sloppy server might send."""
import socket
import time

import pytest
from lib import png, server
from lib.client import Sloppy, Wire, byteranges

pytestmark = pytest.mark.any_engine("the tests' own client")


def date():
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()).encode()


DATE = date()
HEAD = b"HTTP/1.1 200 OK\r\nServer: rung\r\nDate: " + DATE + b"\r\n"
TEXT = b"Content-Type: text/plain\r\n"
GOOD = HEAD + TEXT + b"Content-Length: 2\r\n\r\nok"
CHUNKED = HEAD + TEXT + b"Transfer-Encoding: chunked\r\n\r\n"
TRAILER = CHUNKED.replace(TEXT, TEXT + b"Trailer: X-T\r\n") + b"2\r\nok\r\n0\r\nX-T: u\r\n\r\n"
PART = b"--x\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/9\r\n\r\nok\r\n"


class Said(Wire):
    """A connection on which a server has sent this, and then closed."""

    def __init__(self, said):
        self.sock, far = socket.socketpair()
        self.rest = b""
        with far:
            far.sendall(said.replace(DATE[3:], date()[3:]))  # minutes may have passed since the table was made


def multipart(body):
    return HEAD.replace(b"200 OK",
                        b"206 Partial") + b"Content-Type: multipart/byteranges; boundary=x\r\n" \
        + b"Content-Length: %d\r\n\r\n" % len(body) + body


SLOPPY = [
    ("bare LF", GOOD.replace(b"\r\n", b"\n")), ("one bare LF", GOOD.replace(b"OK\r\n", b"OK\n")),
    ("no reason", GOOD.replace(b" OK", b"")), ("another version", GOOD.replace(b"1.1", b"1.0")),
    ("space before the colon", GOOD.replace(b"Server:", b"Server :")),
    ("no space after the colon", GOOD.replace(b"Server: ", b"Server:")),
    ("folded", GOOD.replace(b"Server: rung", b"Server: rung\r\n x")),
    ("field twice", GOOD.replace(TEXT, TEXT * 2)),
    ("no Date", GOOD.replace(b"Date", b"Dote")), ("no Server", GOOD.replace(b"rung", b"other")),
    ("old Date", GOOD.replace(DATE, b"Sun, 06 Nov 1994 08:49:37 GMT")),
    ("wrong weekday", GOOD.replace(DATE[:3], b"Mon" if DATE[:3] != b"Mon" else b"Tue")),
    ("two framings", GOOD.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n")),
    ("no framing", HEAD + TEXT + b"\r\nok"),
    ("length with a zero before", GOOD.replace(b": 2", b": 02")), ("short body", GOOD[:-1]),
    ("no type", GOOD.replace(TEXT, b"")),
    ("odd connection", GOOD.replace(b"\r\n\r\n", b"\r\nConnection: maybe\r\n\r\n")),
    ("empty line first", b"\r\n" + GOOD),
    ("weak tag of another form", GOOD.replace(b"\r\n\r\n", b"\r\nETag: abc\r\n\r\n")),
    ("torn head", GOOD[:40]),
    ("chunk too short", CHUNKED + b"3\r\nok\r\n0\r\n\r\n"),
    ("chunk size with a space", CHUNKED + b"2 \r\nok\r\n0\r\n\r\n"),
    ("no last chunk", CHUNKED + b"2\r\nok\r\n"),
    ("no line after the last chunk", CHUNKED + b"2\r\nok\r\n0\r\n"),
    ("bare LF in chunks", CHUNKED + b"2\nok\r\n0\r\n\r\n"),
    ("trailer that was not announced", TRAILER.replace(b"Trailer: X-T\r\n", b"")),
    ("another trailer than announced", TRAILER.replace(b"Trailer: X-T", b"Trailer: X-U")),
    ("no trailer", TRAILER.replace(b"X-T: u\r\n", b"")), ("two trailers", TRAILER.replace(b"X-T: u", b"X-T: u\r\nX-U: u")),
    ("trailer twice", TRAILER.replace(b"X-T: u", b"X-T: u\r\nX-T: u")),
    ("trailer without chunks", GOOD.replace(TEXT, TEXT + b"Trailer: X-T\r\n")),
    ("405 without Allow", GOOD.replace(b"200 OK", b"405 No")),
    ("301 elsewhere", GOOD.replace(b"200 OK", b"301 Moved").replace(TEXT,
        TEXT + b"Location: //evil\r\n")),
    ("416 without a size", GOOD.replace(b"200 OK", b"416 No")),
    ("206 without a range", GOOD.replace(b"200 OK", b"206 Partial")),
    ("200 with a range", GOOD.replace(TEXT, TEXT + b"Content-Range: bytes 0-1/2\r\n")),
    ("1xx with fields", b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n" + GOOD),
]


def test_a_good_one_is_taken():
    with Said(GOOD + TRAILER) as wire:
        assert wire.reply().body == b"ok"
        reply = wire.reply()
        assert reply.body == b"ok" and reply.trailers == {"x-t": "u"}
        wire.end()


@pytest.mark.parametrize("name, said", SLOPPY, ids=[row[0] for row in SLOPPY])
# shows H05, K20
def test_sloppy_ones_are_not(name, said):
    with Said(said) as wire, pytest.raises(Sloppy):
        wire.reply()


# shows D17
def test_end_means_end():
    with Said(GOOD + b"x") as wire:
        wire.reply()
        with pytest.raises(Sloppy):
            wire.end()


@pytest.mark.parametrize("body", [
    PART, PART + b"--x", PART + b"--x--\r\nmore", PART.replace(b"ok", b"o") + b"--x--\r\n",
    PART[2:] + b"--x--\r\n",
    PART.replace(b"0-1", b"1-0") + b"--x--\r\n", PART.replace(b"/9", b"/1") + b"--x--\r\n",
    b"junk" + PART + b"--x--\r\n"])
def test_multipart_is_strict(body):
    with Said(multipart(PART + b"--x--\r\n")) as wire:
        assert byteranges(wire.reply()) == [(0, 1, 9, "text/plain", b"ok")]
    with Said(multipart(body)) as wire, pytest.raises(Sloppy):
        byteranges(wire.reply())


# shows S23
def test_alarms():
    """Messages that a server may not print without failing the test."""
    for line in ("==1==ERROR: AddressSanitizer: heap-use-after-free",
                 "x.c:1:2: runtime error: signed overflow",
                 "rung: x.c:5: f: Assertion `a' failed.", "WARNING: ThreadSanitizer: data race",
                 "*** stack smashing detected ***"):
        assert server.ALARM.search(line)
    assert not server.ALARM.search("rung: stopping: 1 connection open, given at most 5s to finish")


def test_png(tmp_path):
    """Two pixels, white and black, with filter 0 (none) and filter 1 (left)."""
    import struct
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I",
            zlib.crc32(kind + data))
    for row in (b"\0\xff\xff\xff\0\0\0", b"\1\xff\xff\xff\1\1\1"):
        path = tmp_path / "two.png"
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR",
                                                      struct.pack(">IIBBBBB", 2, 1, 8, 2, 0, 0, 0))
                         + chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b""))
        assert png.read(path) == (2, 1, 127.5)
