# SPDX-License-Identifier: MIT
"""Every malformed request gets its exact status, an answer that can be read, and a clean end of the
connection.

The request is followed by more bytes than any buffer of the server holds, so that a server which
closes with input unread sends a reset, and the reset destroys the answer: the lingering close is
tested with each row.
"""
import pytest
from lib.client import request

H = b"Host: localhost\r\n"
TAIL = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


def get(fields=b"", line=b"GET /hello.txt HTTP/1.1", end=b"\r\n"):
    return line + b"\r\n" + fields + end


BAD = [
    # --- request line (RFC 9112 3; nginx CVE-2013-4547)
    ("two spaces before the target", get(H, b"GET  /hello.txt HTTP/1.1"), 400),
    ("two spaces after the target", get(H, b"GET /hello.txt  HTTP/1.1"), 400),
    ("space in the target", get(H, b"GET /hello .txt HTTP/1.1"), 400),
    ("space at the start", get(H, b" GET /hello.txt HTTP/1.1"), 400),
    ("space at the end", get(H, b"GET /hello.txt HTTP/1.1 "), 400),
    ("tab for a space", get(H, b"GET\t/hello.txt HTTP/1.1"), 400),
    ("no version (0.9)", b"GET /hello.txt\r\n\r\n", 400),
    ("no target", get(H, b"GET HTTP/1.1"), 400),
    ("no method", get(H, b"/hello.txt HTTP/1.1"), 400),
    ("separator in the method", get(H, b"G(T /hello.txt HTTP/1.1"), 400),
    ("NUL in the method", get(H, b"G\0T /hello.txt HTTP/1.1"), 400),
    ("latin-1 in the method", get(H, b"G\xcbT /hello.txt HTTP/1.1"), 400),
    ("NUL in the target", get(H, b"GET /hello\0.txt HTTP/1.1"), 400),
    ("control in the target", get(H, b"GET /hello\x01.txt HTTP/1.1"), 400),
    ("DEL in the target", get(H, b"GET /hello\x7f.txt HTTP/1.1"), 400),
    ("tab in the target", get(H, b"GET /hello\t.txt HTTP/1.1"), 400),
    ("CR in the target", get(H, b"GET /hello\r.txt HTTP/1.1"), 400),
    ("relative target", get(H, b"GET hello.txt HTTP/1.1"), 400),
    ("star for GET", get(H, b"GET * HTTP/1.1"), 400),
    ("other scheme", get(H, b"GET ftp://localhost/hello.txt HTTP/1.1"), 400),
    ("absolute form without host", get(H, b"GET http:///hello.txt HTTP/1.1"), 400),
    ("user in the authority", get(H, b"GET http://me@localhost/hello.txt HTTP/1.1"), 400),
    ("authority form for GET", get(H, b"GET localhost:80 HTTP/1.1"), 400),
    ("garbage", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    ("nearly the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX", 505),
    # --- version (RFC 9112 2.3)
    ("version 2.0", get(H, b"GET /hello.txt HTTP/2.0"), 505),
    ("version 3.0", get(H, b"GET /hello.txt HTTP/3.0"), 505),
    ("version 0.9", get(H, b"GET /hello.txt HTTP/0.9"), 505),
    ("version in small letters", get(H, b"GET /hello.txt http/1.1"), 400),
    ("version without a minor", get(H, b"GET /hello.txt HTTP/1"), 400),
    ("version with a dot only", get(H, b"GET /hello.txt HTTP/1."), 400),
    ("version with two digits", get(H, b"GET /hello.txt HTTP/1.10"), 400),
    ("version with a zero before", get(H, b"GET /hello.txt HTTP/01.1"), 400),
    ("version with a tail", get(H, b"GET /hello.txt HTTP/1.1x"), 400),
    ("version of letters", get(H, b"GET /hello.txt HTTP/x.y"), 400),
    ("version of another protocol", get(H, b"GET /hello.txt RTSP/1.0"), 400),
    # --- line ends (RFC 9112 2.2: a bare CR is invalid; we take no bare LF either)
    ("bare LF after the request line", b"GET /hello.txt HTTP/1.1\nHost: localhost\r\n\r\n", 400),
    ("bare LF after a field", b"GET /hello.txt HTTP/1.1\r\nHost: localhost\n\r\n", 400),
    ("bare LF for the empty line", b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\n\n", 400),
    ("bare LF everywhere", b"GET /hello.txt HTTP/1.1\nHost: localhost\n\n", 400),
    ("bare CR in a value", get(H + b"X-A: a\rb\r\n"), 400),
    ("CR CR LF", get(H + b"X-A: a\r\r\n"), 400),
    ("bare CR for a line end", b"GET /hello.txt HTTP/1.1\rHost: localhost\r\r", 400),
    # --- fields (RFC 9112 5; HAProxy CVE-2021-40346, CVE-2023-25725)
    ("space before the colon", get(H + b"X-A : b\r\n"), 400),
    ("tab before the colon", get(H + b"X-A\t: b\r\n"), 400),
    ("empty name", get(H + b": b\r\n"), 400),
    ("no colon", get(H + b"X-A\r\n"), 400),
    ("space in a name", get(H + b"X A: b\r\n"), 400),
    ("separator in a name", get(H + b"X(A): b\r\n"), 400),
    ("quote in a name", get(H + b'X"A: b\r\n'), 400),
    ("NUL in a name", get(H + b"X\0A: b\r\n"), 400),
    ("latin-1 in a name", get(H + b"X\xe9: b\r\n"), 400),
    ("NUL in a value", get(H + b"X-A: b\0c\r\n"), 400),
    ("control in a value", get(H + b"X-A: b\x01c\r\n"), 400),
    ("escape in a value", get(H + b"X-A: \x1b[31m\r\n"), 400),
    ("DEL in a value", get(H + b"X-A: b\x7fc\r\n"), 400),
    ("folded value", get(H + b"X-A: b\r\n c\r\n"), 400),
    ("folded with a tab", get(H + b"X-A: b\r\n\tc\r\n"), 400),
    ("fold before the first field", get(b" X-A: b\r\n" + H), 400),
    ("folded Transfer-Encoding", get(H + b"Transfer-Encoding:\r\n chunked\r\n"), 400),
    # --- Host (RFC 9112 3.2)
    ("no Host", get(), 400),
    ("two Hosts", get(H + b"Host: other\r\n"), 400),
    ("two Hosts, the same", get(H + H), 400),
    ("two Hosts in 1.0", get(H + H, b"GET /hello.txt HTTP/1.0"), 400),
    ("Host with a space", get(b"Host: local host\r\n"), 400),
    ("Host with a slash", get(b"Host: localhost/x\r\n"), 400),
    ("Host with a user", get(b"Host: me@localhost\r\n"), 400),
    ("Host with a comma list of ports", get(b"Host: localhost:80:81\r\n"), 400),
    ("Host with a port of letters", get(b"Host: localhost:http\r\n"), 400),
    ("Host with a question mark", get(b"Host: local?host\r\n"), 400),
    ("Host with a broken escape", get(b"Host: local%4host\r\n"), 400),
    ("Host with an open bracket", get(b"Host: [::1\r\n"), 400),
    ("Host with latin-1", get(b"Host: caf\xe9\r\n"), 400),
    ("Host quoted", get(b'Host: "localhost"\r\n'), 400),
    ("absolute form and no Host", get(b"", b"GET http://localhost/hello.txt HTTP/1.1"), 400),
    # --- framing, judged before the method (RFC 9112 6.3)
    ("length of letters", get(H + b"Content-Length: ten\r\n"), 400),
    ("negative length", get(H + b"Content-Length: -1\r\n"), 400),
    ("length with a plus", get(H + b"Content-Length: +1\r\n"), 400),
    ("length in hex", get(H + b"Content-Length: 0x1\r\n"), 400),
    ("length with a space inside", get(H + b"Content-Length: 1 1\r\n"), 400),
    ("length with a tail", get(H + b"Content-Length: 1a\r\n"), 400),
    ("length with a point", get(H + b"Content-Length: 1.0\r\n"), 400),
    ("empty length (CVE-2023-40225)", get(H + b"Content-Length:\r\n"), 400),
    ("length beyond 64 bits", get(H + b"Content-Length: 18446744073709551616\r\n"), 400),
    ("length of many digits", get(H + b"Content-Length: " + b"9" * 100 + b"\r\n"), 400),
    ("two lengths", get(H + b"Content-Length: 1\r\nContent-Length: 2\r\n"), 400),
    ("two lengths, the same", get(H + b"Content-Length: 0\r\nContent-Length: 0\r\n"), 400),
    ("list of lengths", get(H + b"Content-Length: 0, 0\r\n"), 400),
    ("length and chunked",
     get(H + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", end=b"\r\n0\r\n\r\n"), 400),
    ("chunked and length",
     get(H + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", end=b"\r\n0\r\n\r\n"), 400),
    ("chunked twice", get(H + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
     400),
    ("chunked twice in a list", get(H + b"Transfer-Encoding: chunked, chunked\r\n"), 400),
    ("chunked in 1.0", get(H + b"Transfer-Encoding: chunked\r\n", b"GET /hello.txt HTTP/1.0"), 400),
    ("another coding before chunked", get(H + b"Transfer-Encoding: gzip, chunked\r\n"), 501),
    ("a coding nobody knows before chunked", get(H + b"Transfer-Encoding: odd, chunked\r\n"), 501),
    ("a coding nobody knows", get(H + b"Transfer-Encoding: odd;a=b\r\n"), 501),
    ("a coding behind chunked", get(H + b"Transfer-Encoding: chunked, gzip\r\n"), 400),
    ("a coding that does not end a body", get(H + b"Transfer-Encoding: gzip\r\n"), 400),
    ("a coding that is no token", get(H + b"Transfer-Encoding: odd, (chunked)\r\n"), 400),
    ("a coding nobody knows, and a length",
     get(H + b"Transfer-Encoding: odd, chunked\r\nContent-Length: 5\r\n"), 400),
    ("star and more for OPTIONS", get(H, b"OPTIONS ** HTTP/1.1"), 400),
    ("authority form for OPTIONS", get(H, b"OPTIONS localhost:80 HTTP/1.1"), 400),
    ("relative target for OPTIONS", get(H, b"OPTIONS hello.txt HTTP/1.1"), 400),
    ("origin form for CONNECT", get(H, b"CONNECT /hello.txt HTTP/1.1"), 400),
    ("another coding", get(H + b"Transfer-Encoding: identity\r\n"), 400),
    ("empty coding", get(H + b"Transfer-Encoding:\r\n"), 400),
    ("chunked with a tail", get(H + b"Transfer-Encoding: chunkedx\r\n"), 501),
    ("chunked with a control before", get(H + b"Transfer-Encoding: \x0bchunked\r\n"), 400),
    ("chunked with a parameter", get(H + b"Transfer-Encoding: chunked;a=b\r\n"), 400),
    ("bad length of a POST", get(H + b"Content-Length: x\r\n", b"POST /hello.txt HTTP/1.1"), 400),
    ("bad length of a method nobody knows",
     get(H + b"Content-Length: x\r\n", b"BREW /hello.txt HTTP/1.1"), 400),
    ("no Host and a method nobody knows", get(b"", b"BREW /hello.txt HTTP/1.1"), 400),
]


def refused(site, data, status, more=b""):
    with site.wire() as wire:
        wire.send(data + more)
        reply = wire.reply()
        assert reply.status == status, reply
        assert reply.closes
        wire.end()


@pytest.mark.core
@pytest.mark.parametrize("name, data, status", BAD, ids=[row[0] for row in BAD])
# shows H01, H05
def test_refused(site, name, data, status):
    for more in (b"", TAIL, TAIL * 1000):
        refused(site, data, status, more)


# Once a refusal is certain, it does not wait for the rest of the head, which may never
# come.
EARLY = [row for row in BAD if row[0] in (
    "two spaces before the target", "control in the target", "version 2.0", "garbage",
    "NUL in the method")]


@pytest.mark.parametrize("name, data, status", EARLY, ids=[row[0] for row in EARLY])
def test_refused_at_the_line_end(site, name, data, status):
    refused(site, data.partition(b"\r\n")[0] + b"\r\n", status)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
@pytest.mark.parametrize("target", [
    "/%", "/%4", "/%zz", "/%4g", "/hello%00.txt", "/%2fhello.txt", "/a%2Fb", "/hello%2ftxt",
    "/%c0%ae%c0%ae/", "/%c0%af",
    "/%e0%80%af", "/%f0%80%80%af", "/%c1%81", "/%C0%80"])
def test_bad_escapes(wire, target, method):
    """Broken, NUL, slash, overlong: 400. The message itself is sound, so the connection may stay
    open."""
    reply = wire.ask(target, method)
    assert reply.status == 400
    if not reply.closes:
        assert wire.ask("/hello.txt").status == 200


def test_refusal_reflects_nothing(site):
    """The page of an error repeats nothing that the client sent (no injection)."""
    with site.wire() as wire:
        reply = wire.ask("/<script>alert(1)</script>?<b>", fields=["X-Evil: <script>"])
        assert reply.status in (400, 404)
        assert b"script" not in reply.body and "script" not in str(reply.fields)


def test_refused_head_request_has_no_body(site):
    with site.wire() as wire:
        wire.send(b"HEAD /hello.txt HTTP/1.1\r\n\r\n")
        assert wire.reply("HEAD").status == 400
        wire.end()


def test_nothing_after_a_refusal(site):
    """The pipelined requests before a malformed one are answered, the malformed one is refused, and the rest
    is never looked at."""
    with site.wire() as wire:
        wire.send(request("/hello.txt") * 3 + get(b"X A: b\r\n") + TAIL)
        assert [wire.reply().status for _ in range(4)] == [200, 200, 200, 400]
        wire.end()
