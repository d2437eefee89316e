# SPDX-License-Identifier: MIT
"""Clients that come through a proxy: the header of the PROXY protocol, and the fields Forwarded and X-Forwarded-For.  The
address that they report is the one in the access log, if the proxy is trusted."""
import json
import signal
import socket
import ssl
import struct
import time

import pytest
from cli import EXIT_USAGE, run
from lib.client import PATIENCE, Wire, request
from lib.secured import EVERYWHERE, Secured
from lib.server import one_at_a_time, wait_for

pytestmark = [pytest.mark.userspace("proxies' reports of addresses"),
              pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls")]
any_engine = pytest.mark.any_engine("the header is read, and the log written, below the engines")
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
V1_MAX, V2_MAX = 107, 4096  # PROXY_V1_BYTES_MAX, PROXY_V2_BYTES_MAX
V1 = b"PROXY TCP4 192.0.2.7 192.0.2.1 1234 80\r\n"
HEAD_S = 1


def v2(source, command=1, more=b""):
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    both = 2 * socket.inet_pton(family, source) + struct.pack("!HH", 1234, 80) + more
    return SIGNATURE + struct.pack("!BBH", 0x20 | command, 0x21 if ":" in source else 0x11, len(both)) + both


def logged(path, count):
    """The addresses of the first answers in the log."""
    def read():
        try:
            lines = path.read_text().splitlines()
        except FileNotFoundError:
            return None
        return len(lines) >= count and [json.loads(line)["peer"] for line in lines[:count]]
    return wait_for(read, f"{count} lines in the log")


@pytest.fixture
def serve(start, standard, tmp_path):
    """serve(options...) -> a server with a log, and what the log says of addresses: logged(count)."""
    def begin(*args):
        path = tmp_path / "log"
        server = start(standard, "--log", "json", "--log-file", path, *args)
        server.logged = lambda count: logged(path, count)
        return server
    return begin


def through(server, header):
    """An answer to a request behind that header."""
    with Wire(server.address, secured=False) as wire:
        wire.send(header + request("/hello.txt"))
        return wire.reply()


def is_closed(server, sent):
    """Whether the server ends the connection without a byte."""
    with socket.create_connection(server.address, PATIENCE) as client:
        try:
            client.sendall(sent)
            return client.recv(1) == b""
        except ConnectionError:
            return True


# --- The header ---------------------------------------------------------------------------------------------

@pytest.mark.core
@pytest.mark.parametrize("header, address", [
    (V1, "192.0.2.7"), (b"PROXY TCP6 2001:db8::7 ::1 1 2\r\n", "2001:db8::7"), (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
    (v2("198.51.100.3"), "198.51.100.3"), (v2("2001:db8::8", more=b"\x04\0\1x"), "2001:db8::8"), (v2("::ffff:192.0.2.9"), "192.0.2.9"),
    (v2("192.0.2.7", command=0), "127.0.0.1"), (SIGNATURE + b"\x20\0\0\0", "127.0.0.1"), (SIGNATURE + b"\x21\0\0\0", "127.0.0.1"),
])
# shows U28
def test_the_address_in_the_log(serve, header, address):
    server = serve("--proxy-protocol")
    assert through(server, header).status == 200
    assert server.logged(1) == [address]


@pytest.mark.core
def test_each_connection_has_its_own(serve):
    """Also on descriptors that other connections had before; and a connection keeps its address for all its requests."""
    server = serve("--proxy-protocol")
    for number in range(8):
        header = v2(f"192.0.2.{number}") if number % 4 else b"PROXY UNKNOWN\r\n"
        with Wire(server.address, secured=False) as wire:
            wire.send(header)
            for _ in range(2):
                assert wire.ask("/hello.txt").status == 200
    addresses = [f"192.0.2.{number}" if number % 4 else "127.0.0.1" for number in range(8) for _ in range(2)]
    assert sorted(server.logged(16)) == sorted(addresses)


@pytest.mark.core
@pytest.mark.parametrize("header", [V1, v2("192.0.2.7", more=b"\0" * 100)])
def test_byte_by_byte(serve, header):
    server = serve("--proxy-protocol")
    with Wire(server.address, secured=False) as wire:
        for byte in header + request("/hello.txt") * 2:
            wire.send(bytes([byte]))
        assert wire.reply().status == wire.reply().status == 200
    assert server.logged(2) == ["192.0.2.7"] * 2


def test_cut_once_everywhere(serve):
    """The header, and the request behind it, in two pieces cut at each place."""
    server = serve("--proxy-protocol")
    for header in (V1, v2("192.0.2.7")):
        whole = header + request("/hello.txt")
        for cut in range(1, len(whole), 7):
            with Wire(server.address, secured=False) as wire:
                wire.send(whole[:cut])
                time.sleep(0.002)
                wire.send(whole[cut:])
                assert wire.reply().status == 200


@pytest.mark.core
@pytest.mark.parametrize("sent", [
    request("/hello.txt"), b"\x16\x03\x01\x02\x00", b"PROXY TCP4 192.0.2.7\r\n", b"PROXY TCP4 192.0.2.7 192.0.2.1 1 65536\r\n",
    b"\r\n\r\n\0\r\nQUIT\r", SIGNATURE + b"\x31\x11\0\x0c", SIGNATURE + b"\x21\x11\0\x0b", b"\n",
])
def test_anything_else_is_closed(serve, sent):
    server = serve("--proxy-protocol", "--metrics", "0")
    assert is_closed(server, sent)
    counters = wait_for(lambda: (now := server.stats())["closed"] == 1 and now, "closed")
    assert counters["unproxied"] == 1 and counters["answers"] == 0


@any_engine
def test_both_sides_of_the_limits(serve):
    server = serve("--proxy-protocol")
    longest = b"PROXY UNKNOWN ".ljust(V1_MAX - 2, b"x") + b"\r\n"
    assert through(server, longest).status == 200
    assert is_closed(server, longest[:-2] + b"x\r\n" + request("/hello.txt"))
    assert through(server, v2("192.0.2.7", more=b"\0" * (V2_MAX - 28))).status == 200
    assert is_closed(server, v2("192.0.2.7", more=b"\0" * (V2_MAX - 27)) + request("/hello.txt"))


@pytest.mark.long
@pytest.mark.parametrize("sent", [b"", b"PROXY TCP4", SIGNATURE, V1])
def test_a_header_has_a_deadline(serve, sent):
    """A header has the deadline of a head, --head-timeout."""
    server = serve("--proxy-protocol", "--head-timeout", f"{HEAD_S}s")
    with socket.create_connection(server.address, PATIENCE) as client:
        began = time.monotonic()
        client.sendall(sent)
        try:
            assert client.recv(100) in (b"",) or sent == V1
        except ConnectionError:
            pass
        assert time.monotonic() - began >= HEAD_S - 0.1
    wait_for(lambda: server.stats()["expired"] == 1, "counted as expired")


@any_engine
def test_the_end_within_a_header(serve):
    server = serve("--proxy-protocol")
    for sent in (b"", b"PROXY TCP4 1.2", SIGNATURE + b"\x21", V1):
        with socket.create_connection(server.address, PATIENCE) as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
    assert server.stats()["answers"] == 0


@pytest.mark.core
@pytest.mark.parametrize("split", [False, True])
def test_with_tls(serve, split):
    """The header comes before the handshake, in plain text."""
    server = serve("--proxy-protocol", "--tls", "self")
    assert server.opening.count("https://")
    with socket.create_connection(server.address, PATIENCE) as plain:
        for piece in ([bytes([byte]) for byte in V1] if split else [V1]):
            plain.sendall(piece)
        wire = Wire.__new__(Wire)
        wire.sock, wire.rest = Secured(plain), b""
        assert wire.ask("/hello.txt").status == 200 and wire.ask("/none").status == 404
        wire.sock.close()
    assert server.logged(2) == ["192.0.2.7"] * 2
    assert through(server, V1).status == 308
    assert server.logged(3) == ["192.0.2.7"] * 3
    with pytest.raises((ssl.SSLError, OSError)):
        with Wire(server.address, secured=True) as wire:
            wire.ask("/hello.txt")


def test_over_a_unix_socket(serve, tmp_path):
    path = str(tmp_path / "s")
    server = serve("--proxy-protocol", "-b", f"unix:{path}")
    for header, address in ((V1, "192.0.2.7"), (b"PROXY UNKNOWN\r\n", "unix")):
        with Wire(path, secured=False) as wire:
            wire.send(header + request("/hello.txt"))
            assert wire.reply().status == 200
    assert sorted(server.logged(2)) == ["192.0.2.7", "unix"]


@any_engine
def test_only_a_trusted_peer_is_believed(serve, tmp_path):
    """With --trust, a header from elsewhere is read, and its address forgotten."""
    path = str(tmp_path / "s")
    server = serve("--proxy-protocol", "--trust", "unix", "-b", f"unix:{path}", "-b", "127.0.0.1", "--port", "0")
    host, port = server.addresses[0]
    for place in (path, (host, port)):
        with Wire(place, secured=False) as wire:
            wire.send(V1 + request("/hello.txt"))
            assert wire.reply().status == 200
    assert sorted(server.logged(2)) == ["127.0.0.1", "192.0.2.7"]


def test_a_drain_with_headers(serve):
    """A client whose header has come and whose head has not is still answered."""
    if one_at_a_time():
        pytest.skip("it takes no second client")
    server = serve("--proxy-protocol", "--drain-timeout", "60s")
    with Wire(server.address, secured=False) as wire:
        wire.send(V1 + request("/hello.txt")[:20])
        wait_for(lambda: server.stats()["accepted"] == 1, "accepted")
        time.sleep(0.05)
        server.process.send_signal(signal.SIGTERM)
        server.wait_said("stopping")
        wire.send(request("/hello.txt")[20:])
        assert wire.reply().closes
    server.finish()


# --- Fields -------------------------------------------------------------------------------------------------

XFF, FWD = "X-Forwarded-For", "Forwarded"


@any_engine
@pytest.mark.parametrize("fields, address", [
    ([], "127.0.0.1"), ([f"{XFF}: 192.0.2.1"], "192.0.2.1"), ([f"{XFF}: 192.0.2.1:8080"], "192.0.2.1"),
    ([f"{XFF}: 2001:db8::1"], "2001:db8::1"), ([f"{XFF}: [2001:db8::1]:443"], "2001:db8::1"), (["x-forwarded-for: 192.0.2.1"], "192.0.2.1"),
    # the rightmost that is not trusted: what stands before it may be the client's own invention
    ([f"{XFF}: 203.0.113.9, 192.0.2.1"], "192.0.2.1"), ([f"{XFF}: 192.0.2.1, 10.0.0.1, 10.9.9.9"], "192.0.2.1"),
    ([f"{XFF}: 192.0.2.1,10.0.0.1", f"{XFF}: 10.0.0.2"], "192.0.2.1"), ([f"{XFF}: 10.0.0.1", f"{XFF}: 192.0.2.1"], "192.0.2.1"),
    ([f"{XFF}: 192.0.2.1, 11.0.0.1"], "11.0.0.1"), ([f"{XFF}: 192.0.2.1, 10.0.0.1, ,"], "192.0.2.1"),
    ([f"{XFF}: 10.0.0.3, 10.0.0.2"], "10.0.0.3"),  # all are proxies: the one furthest away
    # what is no address ends the search, and the last proxy is named
    ([f"{XFF}: unknown"], "127.0.0.1"), ([f"{XFF}: 192.0.2.1, nonsense, 10.0.0.1"], "10.0.0.1"), ([f"{XFF}: 192.0.2.1, 10.0.0.256"], "127.0.0.1"),
    ([f'{XFF}: "192.0.2.1'], "127.0.0.1"), ([f'{XFF}: ", 192.0.2.1'], "192.0.2.1"), ([f"{XFF}: "], "127.0.0.1"),
    ([f"{FWD}: for=192.0.2.1"], "127.0.0.1"), (["X-Real-IP: 192.0.2.1"], "127.0.0.1"),
    ([f"{XFF}: " + "10.0.0.1, " * 1000 + "10.0.0.1"], "10.0.0.1"),
])
# shows U17
def test_x_forwarded_for(serve, fields, address):
    server = serve("--trust", "127.0.0.1,10.0.0.0/8")
    assert server.ask("/hello.txt", fields=fields).status == 200
    assert server.logged(1) == [address]


@any_engine
@pytest.mark.parametrize("fields, address", [
    ([f"{FWD}: for=192.0.2.1"], "192.0.2.1"), ([f'{FWD}: for="192.0.2.1:8080"'], "192.0.2.1"), ([f'{FWD}: for="[2001:db8::1]:80"'], "2001:db8::1"),
    ([f'{FWD}: For="[2001:db8::1]";proto=https;by=10.0.0.1'], "2001:db8::1"), ([f"{FWD}: proto=http ; for=192.0.2.1"], "192.0.2.1"),
    ([f"{FWD}: for=203.0.113.9, for=192.0.2.1"], "192.0.2.1"), ([f"{FWD}: for=192.0.2.1, for=10.0.0.1;by=x"], "192.0.2.1"),
    ([f"{FWD}: for=192.0.2.1", f"{FWD}: for=10.0.0.1"], "192.0.2.1"),
    ([f"{FWD}: for=192.0.2.1, by=10.0.0.1"], "127.0.0.1"), ([f"{FWD}: for=unknown"], "127.0.0.1"), ([f"{FWD}: for=_hidden, for=10.0.0.1"], "10.0.0.1"),
    ([f"{FWD}: for=192.0.2.1;for=192.0.2.2"], "127.0.0.1"), ([f"{FWD}: for="], "127.0.0.1"), ([f"{FWD}: 192.0.2.1"], "127.0.0.1"),
    ([f'{FWD}: for="192.0.2.1'], "127.0.0.1"),
    ([f'{FWD}: for=203.0.113.9;x=", for=192.0.2.1'], "192.0.2.1"),  # the client's quote hides nothing behind it
    ([f'{FWD}: for=192.0.2.1;x="a,b;c"'], "192.0.2.1"), ([f'{FWD}: x="for=203.0.113.9";for=192.0.2.1'], "192.0.2.1"),
    ([f"{XFF}: 192.0.2.1"], "127.0.0.1"),
])
def test_forwarded(serve, fields, address):
    server = serve("--trust", "127.0.0.1", "--trust", "10.0.0.0/8", "--trust-field", "forwarded")
    assert server.ask("/hello.txt", fields=fields).status == 200
    assert server.logged(1) == [address]


@any_engine
@pytest.mark.parametrize("options", [[], ["--trust", "127.0.0.2"], ["--trust", "unix"], ["--trust", "::1"], ["--trust", "128.0.0.0/1"]])
# shows U17
def test_nobody_else_is_believed(serve, options):
    server = serve(*options)
    assert server.ask("/hello.txt", fields=[f"{XFF}: 192.0.2.1", f"{FWD}: for=192.0.2.1"]).status == 200
    assert server.logged(1) == ["127.0.0.1"]


@any_engine
def test_a_header_and_a_field(serve):
    """Two proxies: the first reports by a field, the second by a header, and both are trusted."""
    server = serve("--proxy-protocol", "--trust", "127.0.0.1,192.0.2.7")
    for header, address in ((V1, "198.51.100.1"), (v2("192.0.2.8"), "192.0.2.8")):
        with Wire(server.address, secured=False) as wire:
            wire.send(header + request("/hello.txt", fields=[f"{XFF}: 198.51.100.1"]))
            assert wire.reply().status == 200
    assert sorted(server.logged(2)) == ["192.0.2.8", "198.51.100.1"]


@any_engine
@pytest.mark.parametrize("text", ["10.0.0.0/33", "::/129", "10.0.0.0/", "host", "10.0.0.1,x", "10.0.0.0/8/8", "1" * 100])
def test_networks_that_are_none(tree, text):
    done = run("serve", tree, "--port", "0", "--trust", text)
    assert done.returncode == EXIT_USAGE and "--trust" in done.stderr, done.stderr


@any_engine
def test_as_many_networks_as_there_may_be(start, tree):
    many = [f"10.{number}.0.0/16" for number in range(65)]
    start(tree, "--trust", ",".join(many[:64])).stop()
    done = run("serve", tree, "--port", "0", "--trust", ",".join(many))
    assert done.returncode == EXIT_USAGE and "64" in done.stderr, done.stderr
