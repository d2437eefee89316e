# SPDX-License-Identifier: MIT
"""Requests of one address: --limit-requests, and whose connections and requests those behind a proxy are.

Most rates are of one request an hour, so that the bucket gets no token while a test runs, however slow the machine is.
"""
import json
import time

import pytest
from lib import h2
from lib import server as lib
from lib.client import Wire, request
from lib.limited import OTHER, PATIENT, connections, is_served, refused
from lib.metrics import Watch
from lib.secured import EVERYWHERE
from lib.server import one_at_a_time, wait_for
from lib.trees import write
from test_auth import basic, hashed

pytestmark = [pytest.mark.userspace("limits for each address"), pytest.mark.skipif(EVERYWHERE, reason="its clients speak without TLS")]
any_engine = pytest.mark.any_engine("requests are counted below the engines")
XFF = "X-Forwarded-For"
KINDS = [pytest.param("process", marks=pytest.mark.processes)]
if lib.workers_may_be_threads():
    KINDS.append("thread")


@pytest.mark.core
@pytest.mark.parametrize("burst", [1, 5, 40])
# shows U61
def test_one_request_too_many(start, standard, burst):
    """429 as long as the bucket has no new token, and the connection stays open."""
    server = start(standard, "--limit-requests", f"1/h:{burst}", *PATIENT)
    with server.wire() as wire:
        for number in range(burst):
            assert wire.ask("/hello.txt").status == 200, number
        for target, method in (("/hello.txt", "GET"), ("/hello.txt", "HEAD"), ("/none", "GET"), ("/", "OPTIONS"), ("/", "DELETE"),
                               ("/", "BREW"), ("/%00", "GET"), ("/hello.txt", "GET")):
            reply = wire.ask(target, method)
            assert reply.status == 429 and reply["retry-after"] == "3600" and not reply.closes
            assert b"Too Many Requests" in reply.body or method == "HEAD"
    with server.wire(source=OTHER) as wire:
        assert wire.ask("/hello.txt").status == 200
    with server.wire() as wire:
        assert wire.ask("/hello.txt").status == 429
    assert server.check_counts()["limited_requests"] == 9


@pytest.mark.core
def test_a_token_comes_back(start, standard):
    server = start(standard, "--limit-requests", "10/s:1")
    with server.wire() as wire:
        for _ in range(3):
            began = time.monotonic()
            wait_for(lambda: wire.ask("/hello.txt").status == 200, "served again")
        assert time.monotonic() - began >= 0.08
        assert server.stats()["limited_requests"] >= 1


@pytest.mark.core
def test_pipelined(start, standard):
    """The answers are in order, and those beyond the burst are refusals."""
    server = start(standard, "--limit-requests", "1/h:7")
    with server.wire() as wire:
        wire.send(request("/hello.txt") * 10)
        assert [wire.reply().status for _ in range(10)] == [200] * 7 + [429] * 3
        assert wire.ask("/hello.txt").status == 429


@any_engine
@pytest.mark.parametrize("target, method, status", [("/hello.txt", "HEAD", 200), ("/none", "GET", 404), ("/", "OPTIONS", 200), ("/", "DELETE", 405),
                                                    ("/", "BREW", 501), ("/%00", "GET", 400), ("/list", "GET", 301)])
def test_every_request_counts(start, standard, target, method, status):
    server = start(standard, "--limit-requests", "1/h:3")
    with server.wire() as wire:
        assert [wire.ask(target, method).status for _ in range(4)] == [status] * 3 + [429]


LONG_BODY = ["Content-Length: 2000000"]
ENDING = [(request("/hello.txt", "POST", LONG_BODY), 413), (request("/hello.txt", "POST", ["Expect: 100-continue", "Content-Length: 5"]), 405),
          (request("/hello.txt", "POST", ["Transfer-Encoding: chunked"], b"1e8480\r\nx"), 413),
          (request("/hello.txt", "POST", ["Transfer-Encoding: chunked"], b"no\r\n"), 400),
          (b"nonsense\r\n\r\n", 400), (request("/" + "a" * 9000), 414), (request("/hello.txt", fields=["X: " + "y" * 17000]), 431)]


@pytest.mark.core
@pytest.mark.parametrize("sent, status", ENDING)
def test_every_refusal_counts(start, standard, sent, status):
    """Refusals that end their connection count, too."""
    server, got = start(standard, "--limit-requests", "1/h:3"), []
    for _ in range(5):
        with server.wire() as wire:
            wire.send(sent)
            reply = wire.reply()
            assert reply.closes
            got.append(reply.status)
    assert got == [status] * 3 + [429] * 2
    assert server.ask("/hello.txt").status == 429


@pytest.mark.core
def test_an_answer_that_is_made_elsewhere_counts_once(start, standard, tmp_path):
    """A helper thread lists the folder and checks the password, so the host is asked again for the same request."""
    write(tmp_path / "users", f"me:{hashed('secret')}\n".encode())
    server = start(standard, "--limit-requests", "1/h:3", "--auth", tmp_path / "users")
    with server.wire() as wire:
        assert wire.ask("/list/", fields=basic("me", "secret")).status == 200
        assert wire.ask("/list/", fields=basic("me", "wrong")).status == 401
        assert wire.ask("/empty/", fields=basic("me", "secret")).status == 200
        assert wire.ask("/list/", fields=basic("me", "secret")).status == 429


@pytest.mark.core
@pytest.mark.parametrize("kind", KINDS)
# shows U61
def test_workers_share_the_bucket(start, standard, kind):
    server = start(standard, "--limit-requests", "1/h:25", "--workers", 2, "--workers-as", kind, "--accept", "reuseport")
    statuses = [server.ask("/hello.txt").status for _ in range(40)]
    assert statuses == [200] * 25 + [429] * 15


@pytest.mark.core
def test_both_limits(start, standard):
    """A connection that is refused as one too many takes no token."""
    if one_at_a_time():
        pytest.skip("it has one connection at a time")
    server = start(standard, "--limit-requests", "1/h:3", *connections(1))
    with server.wire() as wire:
        assert wire.ask("/hello.txt").status == 200
        for _ in range(5):
            with server.wire() as another:
                assert another.ask("/hello.txt").status == 429
        assert [wire.ask("/hello.txt").status for _ in range(3)] == [200, 200, 429]


def test_how_it_is_seen(start, standard, tmp_path):
    """A line of the log for each refusal, and both counters among the metrics."""
    path = tmp_path / "log"
    server = start(standard, "--limit-requests", "1/h:1", *connections(1), "--log", "json", "--log-file", path, "--metrics", "0")
    with server.wire() as wire:
        assert [wire.ask("/hello.txt").status for _ in range(3)] == [200, 429, 429]
        if not one_at_a_time():
            assert not is_served(server)
    found = Watch(server).read()
    others = not one_at_a_time()
    assert found["rung_requests_limited_total"] == 2 and found["rung_connections_limited_total"] == others
    assert found['rung_requests_total{method="GET",status="4xx"}'] == 2 + others
    lines = wait_for(lambda: len(lines := path.read_text().splitlines()) == 3 + others and lines, "all lines")
    assert sorted(json.loads(line)["status"] for line in lines) == [200] + [429] * (2 + others)


@any_engine
def test_a_page_of_ones_own(start, tree):
    write(f"{tree}/429.html", b"<p>slower, please</p>\n")
    server = start(tree, "--limit-requests", "1/h:1")
    with server.wire() as wire:
        wire.ask("/")
        reply = wire.ask("/")
        assert reply.status == 429 and reply.body == b"<p>slower, please</p>\n" and reply["retry-after"] == "3600"


@any_engine
def test_health_counts_too(start, standard):
    server = start(standard, "--limit-requests", "1/h:2", "--health")
    with server.wire() as wire:
        assert [wire.ask("/.rung/health").status for _ in range(3)] == [200, 200, 429]


@pytest.mark.core
# shows U61
def test_streams(start, standard):
    """Each stream is a request; the connection goes on."""
    server = start(standard, "--limit-requests", "1/h:5")
    with h2.Client(server, secured=False) as one:
        streams = [one.ask() for _ in range(8)]
        assert [one.reply(stream).status for stream in streams] == [200] * 5 + [429] * 3
        assert one.reply(one.ask("/none")).status == 429 and not one.goaways
    with h2.Client(server, secured=False) as two:
        assert two.reply(two.ask()).status == 429


REFUSED = [({"path": "/hello.txt", "method": "POST", "fields": [("content-length", "2000000")], "ends": False}, 413),
           ({"path": "/hello.txt", "method": "POST", "fields": [("expect", "100-continue"), ("content-length", "5")], "ends": False}, 405),
           ({"path": "/" + "a" * 9000}, 414), ({"path": "/hello.txt", "fields": [("x", "y" * 17000)]}, 431), ({"path": "/%00"}, 400)]


@pytest.mark.core
@pytest.mark.parametrize("asked, status", REFUSED)
def test_streams_that_are_refused_count(start, standard, asked, status):
    """Whatever is wrong with the request: its connection goes on, so it could be sent without end."""
    server = start(standard, "--limit-requests", "1/h:5")
    with h2.Client(server) as client:
        assert [client.get(**asked).status for _ in range(8)] == [status] * 5 + [429] * 3
        assert client.get("/hello.txt").status == 429


@pytest.mark.core
# shows U61
def test_streams_that_are_reset_count(start, standard):
    """A client that takes its requests back before they are answered has asked all the same."""
    server = start(standard, "--limit-requests", "1/h:5")
    with h2.Client(server, secured=False) as one:
        for _ in range(5):
            stream = one.ask(method="POST", ends=False)
            one.h2.reset_stream(stream)
            one.flush()
        assert one.reply(one.ask()).status == 429


# --- Whose connection, whose request ------------------------------------------------------------------------

@pytest.mark.core
def test_requests_of_a_proxys_clients(start, standard):
    """Each client has a bucket, also when one connection brings the requests of several; the proxy's connections are no limit."""
    server = start(standard, "--trust", "127.0.0.1", "--limit-requests", "1/h:2", *connections(1))
    wires = [server.wire() for _ in range(1 if one_at_a_time() else 3)]
    for wire in wires[-1:] + wires:
        assert wire.ask("/hello.txt", fields=[f"{XFF}: 192.0.2.9"]).status in (200, 429)
    for address, statuses in (("192.0.2.1", [200, 200, 429]), ("192.0.2.2", [200, 200, 429]), ("192.0.2.1", [429])):
        assert [wires[0].ask("/hello.txt", fields=[f"{XFF}: {address}"]).status for _ in statuses] == statuses
    assert server.stats()["limited_connections"] == 0
    for wire in wires:
        wire.close()
    with server.wire(source=OTHER) as wire:  # this address is not trusted
        assert [wire.ask("/hello.txt", fields=[f"{XFF}: 192.0.2.{number}"]).status for number in range(20, 23)] == [200, 200, 429]


@any_engine
@pytest.mark.parametrize("one, other, same", [
    ("2001:db8::1", "2001:db8::ffff:0:0:2", True), ("2001:db8::1", "2001:db8:0:1::1", False), ("::ffff:192.0.2.1", "192.0.2.1", True),
    ("192.0.2.1", "192.0.2.2", False), ("::", "0.0.0.0", False)])
# shows U61
def test_what_an_address_is(start, standard, one, other, same):
    """An address of IPv6 is its first 64 bits."""
    server = start(standard, "--trust", "127.0.0.1", "--limit-requests", "1/h:1")
    with server.wire() as wire:
        statuses = [wire.ask("/hello.txt", fields=[f"{XFF}: {address}"]).status for address in (one, one, other)]
    assert statuses == [200, 429, 429 if same else 200]


def proxied(server, address, **options):
    """A connection of that client's, by way of a proxy."""
    wire = server.wire(secured=False, **options)
    wire.send(f"PROXY TCP4 {address} 192.0.2.1 1 2\r\n".encode() if address else b"PROXY UNKNOWN\r\n")
    return wire


@pytest.mark.core
@pytest.mark.capacity(8)
def test_connections_of_a_proxys_clients(start, standard):
    """The header says whose connection it is.  One without an address is the proxy's own, and does not count."""
    server = start(standard, "--proxy-protocol", *connections(2))
    wires = [proxied(server, "192.0.2.7") for _ in range(2)] + [proxied(server, "192.0.2.8")] + [proxied(server, None) for _ in range(3)]
    for wire in wires:
        assert wire.ask("/hello.txt").status == 200
    assert refused(proxied(server, "192.0.2.7"))
    assert not refused(proxied(server, "192.0.2.9"))
    wires.pop(0).close()

    def served():
        with proxied(server, "192.0.2.7") as wire:
            return not refused(wire)
    wait_for(served, "served again")
    for wire in wires:
        wire.close()


@any_engine
def test_a_header_of_anybody(start, standard):
    """With --trust, the header of another peer is not believed: the connection is that peer's."""
    server = start(standard, "--proxy-protocol", "--trust", "127.0.0.1", "--limit-requests", "1/h:1")
    for address, source, status in (("192.0.2.1", None, 200), ("192.0.2.2", None, 200), ("192.0.2.2", None, 429),
                                    ("192.0.2.3", OTHER, 200), ("192.0.2.4", OTHER, 429)):
        with proxied(server, address, source=source) as wire:
            assert wire.ask("/hello.txt").status == status, address


def test_unix_sockets_have_no_limits(start, standard, tmp_path):
    """All their clients would have one address; with --trust unix, requests have their own."""
    path = f"{tmp_path}/socket"
    for trust, statuses in (([], [200] * 3), (["--trust", "unix"], [200, 429, 429])):
        server = start(standard, "-b", f"unix:{path}", "--limit-requests", "1/h:1", *connections(1), *trust)
        wires = [Wire(path) for _ in range(1 if one_at_a_time() else 3)]
        assert [wires[-1].ask("/hello.txt", fields=[f"{XFF}: 192.0.2.1"]).status for _ in range(3)] == statuses
        for wire in wires:
            wire.close()
        server.stop()
