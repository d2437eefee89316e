# SPDX-License-Identifier: MIT
"""Which requests keep a connection open and which close it."""
import pytest
from lib.client import request
from lib.server import wait_for

# minor, value of Connection (None: no field), the connection stays
CASES = [
    (1, None, True), (1, "keep-alive", True), (1, "close", False), (1, "Close", False),
    (1, "CLOSE", False),
    (1, "foo", True), (1, "closed", True), (1, "xclose", True), (1, "close-not", True),
    (1, "foo, close", False),
    (1, "foo,close,bar", False), (1, ", ,close", False), (1, "\tclose\t", False),
    (1, "keep-alive, close", False),
    (1, "close, keep-alive", False), (1, "", True), (1, ",", True), (1, "te, keep-alive", True),
    (0, None, False), (0, "close", False), (0, "keep-alive", True), (0, "Keep-Alive", True),
    (0, "KEEP-ALIVE", True),
    (0, "foo", False), (0, "keep-alivex", False), (0, "keep", False), (0, "foo, keep-alive", True),
    (0, "keep-alive, close", False), (0, "close, keep-alive", False), (0, "", False),
]


@pytest.mark.core
@pytest.mark.parametrize("minor, value, stays", CASES)
@pytest.mark.parametrize("target, status", [("/hello.txt", 200), ("/missing", 404)])
# shows D21, D23, H06, S06
def test_connection_field(site, minor, value, stays, target, status):
    fields = [] if value is None else [f"Connection: {value}"]
    with site.wire() as wire:
        reply = wire.ask(target, fields=fields, minor=minor)
        assert reply.status == status
        assert reply.closes != stays
        if stays and minor == 0:
            assert reply["connection"].lower() == "keep-alive"
        if stays:
            assert wire.ask("/hello.txt").status == 200
        else:
            wire.send(request("/hello.txt"))  # too late, but no reset answers it
            wire.end()


# shows H06, S06
def test_two_connection_fields(site):
    """Several fields of a list count as one (RFC 9110 5.3)."""
    with site.wire() as wire:
        assert wire.ask("/hello.txt", fields=["Connection: foo", "Connection: close"]).closes
        wire.end()


@pytest.mark.parametrize("count", [pytest.param(1_000, marks=pytest.mark.core), 10_000])
# shows K40
def test_ten_thousand_requests(site, count):
    """Requests on one connection, one after the other and pipelined; they leave nothing behind in the server.  An emulated
    machine needs a hundred seconds for ten thousand: `make check` asks a module for a thousand."""
    with site.wire() as wire:
        data = request("/hello.txt")
        wire.ask("/hello.txt")
        site.rest()
        before = site.files()
        for _ in range(count // 5):
            wire.send(data)
            assert wire.reply().body == b"Hello, world\n"
        for _ in range(count // 125):
            wire.send(data * 100)
            for _ in range(100):
                assert wire.reply().body == b"Hello, world\n"
        wait_for(lambda: site.files() <= before, "as few descriptors as before")


@pytest.mark.core
# shows S01
def test_thousand_connections(site):
    """Connections with one request each, one after the other."""
    for i in range(1000):
        reply = site.ask("/hello.txt", fields=["Connection: close"] if i % 2 else [])
        assert reply.body == b"Hello, world\n"


def test_http10_listing_has_an_end(site):
    """A body of unknown length to HTTP/1.0: no chunks; the length is given or the connection
    closed."""
    with site.wire() as wire:
        reply = wire.ask("/list/", minor=0, fields=["Connection: keep-alive"])
        assert reply.status == 200 and b"one.txt" in reply.body and b"</html>" in reply.body.lower()
        if reply.closes:
            wire.end()
        else:
            assert reply["connection"].lower() == "keep-alive"
            assert wire.ask("/hello.txt").status == 200
