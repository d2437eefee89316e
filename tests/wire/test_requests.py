# SPDX-License-Identifier: MIT
"""Correct requests, in every form that RFC 9112 allows, and the answers they get."""
import pytest
from lib.client import request

pytestmark = pytest.mark.any_engine("the core parses")

HELLO = b"Hello, world\n"

# name, request bytes, status, whether the connection stays open
RIGHT = [
    ("get", b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, True),
    ("host with port", b"GET /hello.txt HTTP/1.1\r\nHost: localhost:8080\r\n\r\n", 200, True),
    ("host with empty port", b"GET /hello.txt HTTP/1.1\r\nHost: localhost:\r\n\r\n", 200, True),
    ("host is an address", b"GET /hello.txt HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 200, True),
    ("host is an IPv6 address", b"GET /hello.txt HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 200, True),
    ("host with sub-delims", b"GET /hello.txt HTTP/1.1\r\nHost: a_b~c!$&'()*+,;=%41\r\n\r\n", 200,
     True),
    ("name in capitals", b"GET /hello.txt HTTP/1.1\r\nHOST: localhost\r\n\r\n", 200, True),
    ("no space after the colon", b"GET /hello.txt HTTP/1.1\r\nHost:localhost\r\n\r\n", 200, True),
    ("tabs around the value", b"GET /hello.txt HTTP/1.1\r\nHost:\t localhost \t \r\n\r\n", 200,
     True),
    ("empty value", b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\nX-Empty:\r\n\r\n", 200, True),
    ("value of spaces", b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\nX-Empty:   \r\n\r\n", 200,
     True),
    ("tab inside a value", b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\nX-Tab: a\tb\r\n\r\n",
     200, True),
    ("obs-text in a value",
     b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\nX-Latin: \xe9\xff\r\n\r\n", 200, True),
    ("every token character",
     b"GET /hello.txt HTTP/1.1\r\nHost: x\r\n!#$%&'*+-.^_`|~0aZ: 1\r\n\r\n", 200, True),
    ("one empty line before", b"\r\nGET /hello.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, True),
    ("query", b"GET /hello.txt?a=b&c=/../x HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, True),
    ("empty query", b"GET /hello.txt? HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, True),
    ("second question mark", b"GET /hello.txt?a?b HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, True),
    ("absolute form", b"GET http://localhost/hello.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", 200,
     True),
    ("absolute form wins over Host",
     b"GET http://localhost:80/hello.txt HTTP/1.1\r\nHost: other\r\n\r\n", 200, True),
    ("absolute form, capitals",
     b"GET HTTP://LOCALHOST/hello.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, True),
    ("absolute form with query",
     b"GET http://localhost/hello.txt?x HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, True),
    ("1.0", b"GET /hello.txt HTTP/1.0\r\n\r\n", 200, False),
    ("1.0 with Host", b"GET /hello.txt HTTP/1.0\r\nHost: localhost\r\n\r\n", 200, False),
    ("1.0 keep-alive", b"GET /hello.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, True),
    ("1.2 is answered as 1.1", b"GET /hello.txt HTTP/1.2\r\nHost: localhost\r\n\r\n", 200, True),
    ("1.9 is answered as 1.1", b"GET /hello.txt HTTP/1.9\r\nHost: localhost\r\n\r\n", 200, True),
    ("close", b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200,
     False),
    ("404", b"GET /missing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, True),
    ("a file is not a folder", b"GET /hello.txt/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, True),
    ("a file is not a folder, deeper", b"GET /hello.txt/x HTTP/1.1\r\nHost: localhost\r\n\r\n", 404,
     True),
    ("longest method", b"UPDATEREDIRECTREF / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, True),
    ("method in small letters", b"get /hello.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", 501, True),
    ("method nobody knows", b"BREW /pot HTTP/1.1\r\nHost: localhost\r\n\r\n", 501, True),
    ("prefix of a method", b"GE /hello.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", 501, True),
    ("method with a tail", b"GETT /hello.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", 501, True),
    ("upgrade is ignored", b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
     b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", 200, True),
]


@pytest.mark.core
@pytest.mark.parametrize("data, status, stays", [row[1:] for row in RIGHT],
                         ids=[row[0] for row in RIGHT])
# shows H03, H07, K18
def test_right(wire, data, status, stays):
    minor = 0 if b"HTTP/1.0" in data.split(b"\r\n")[0] else 1
    wire.send(data)
    reply = wire.reply(minor=minor)
    assert reply.status == status
    if status == 200:
        assert reply.body == HELLO
    if not stays:
        assert reply.closes
        wire.end()
        return
    assert not reply.closes
    if minor == 0:
        assert reply["connection"].lower() == "keep-alive"
    assert wire.ask("/hello.txt").body == HELLO


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT"])
# shows H02
def test_known_methods(wire, method):
    """Known but not supported: 405 with Allow (RFC 9110 15.5.6); the connection stays open, except after a CONNECT."""
    target = "localhost:80" if method == "CONNECT" else "/hello.txt"
    wire.send(request(target, method))
    reply = wire.reply(method)
    assert reply.status == 405
    assert {m.strip() for m in reply["allow"].split(",")} == {"GET", "HEAD", "OPTIONS"}
    assert reply.closes == (method == "CONNECT")
    if not reply.closes:
        assert wire.ask("/hello.txt").body == HELLO


@pytest.mark.parametrize("fields", [[], ["Content-Length: 40"], ["Transfer-Encoding: chunked"]])
def test_nothing_in_a_tunnel_is_answered(site, fields):
    """RFC 9110 9.3.6: bytes after a CONNECT may be the tunnel's; they are never a request or a body."""
    for apart in (False, True):
        with site.wire() as wire:
            head, tunnel = request("localhost:80", "CONNECT", fields), request("/hello.txt") * 3
            wire.send(head if apart else head + tunnel)
            reply = wire.reply()
            assert reply.status == 405 and reply.closes
            wire.end()


@pytest.mark.core
@pytest.mark.parametrize("target", ["*", "/", "/hello.txt", "http://localhost", "/missing"])
def test_options(wire, target):
    reply = wire.ask(target, "OPTIONS")
    assert reply.status in (200, 204) and reply.body == b""
    assert {m.strip() for m in reply["allow"].split(",")} == {"GET", "HEAD", "OPTIONS"}
    assert wire.ask("/hello.txt").body == HELLO


@pytest.mark.parametrize("target",
                         ["/hello.txt", "/size/0.bin", "/size/65536.bin", "/giant.bin", "/list/",
                          "/list",
                                    "/index/", "/missing", "/special/fifo", "/", "/.hidden"])
@pytest.mark.parametrize("fields",
                         [(), ("Range: bytes=1-5",), ("Accept-Encoding: gzip",),
                          ("If-None-Match: *",)],
                         ids=["plain", "range", "gzip", "none-match"])
# shows D21, H08
def test_head_is_get(site, target, fields):
    """RFC 9110 9.3.2: the same head as GET, and no body. Range is for GET alone (14.2). The length of a listing is known
    from the request on that made it to be kept, which may be this GET."""
    with site.wire() as wire:
        head = wire.ask(target, "HEAD", fields)
        assert wire.ask("/hello.txt").body == HELLO  # nothing followed the head
    ranged = any("Range" in field for field in fields)
    with site.wire(rcvbuf=4096) as wire:
        wire.send(request(target, "GET", () if ranged else fields))
        get = wire.head()
    head.fields.pop("date"), get.fields.pop("date")
    if head.get("transfer-encoding") == "chunked" and "content-length" in get.fields and target in ("/", "/list/"):
        head.fields.pop("transfer-encoding"), get.fields.pop("content-length")
    assert (head.status, head.fields) == (get.status, get.fields)


# shows H07
def test_fragment_is_not_for_the_wire(wire):
    """RFC 9112 3.2: a target has no fragment; '#' may be refused or be part of a name, never cut
    off."""
    wire.send(b"GET /hello.txt#top HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert wire.reply().status in (400, 404)


def test_answers_name_themselves(site):
    reply = site.ask("/hello.txt")
    assert reply["server"].startswith("rung")
    assert reply["accept-ranges"] == "bytes"
    assert reply.length == len(HELLO) and reply["content-type"].startswith("text/plain")
