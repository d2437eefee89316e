# SPDX-License-Identifier: MIT
"""--redirect-http: another port, where every request is redirected to https and nothing else is spoken."""
import itertools
import socket
import ssl

import pytest
from cli import no_port, run
from lib import client
from lib.secured import EVERYWHERE, Secured, anyone
from lib.server import workers_may_be_threads
from test_tls import BODY, make

pytestmark = [pytest.mark.userspace("TLS"), pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls")]
ADDRESSES_MAX = 8


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return make(tmp_path_factory.mktemp("certificate"), "localhost", "localhost")


@pytest.fixture
def both(start, standard, pair):
    """A server, and the address of its port for plain HTTP."""
    port = no_port()
    server = start(standard, "--tls", pair, "--redirect-http", port)
    assert server.wait_said("is redirected") == f"rung: http on port {port} is redirected to https"
    return server, ("127.0.0.1", port)


def location(address, host, target="/"):
    with client.Wire(address, secured=False) as one:
        reply = one.ask(target, fields=f"Host: {host}")
        assert reply.status == 308 and reply.closes and "strict-transport-security" not in reply.fields
        return reply["location"]


def asked(server, address):
    """What it answers over TLS at that address."""
    with client.Wire(address, secured=False) as one:
        one.sock = Secured(one.sock, anyone(), "localhost")
        return one.ask("/hello.txt").body


@pytest.mark.core
# shows U15
def test_where_it_leads(both):
    """To the port of https, if the client named this one; otherwise to 443, because something may map ports for us."""
    server, plain = both
    port, own = server.address[1], plain[1]
    assert location(plain, f"h.example:{own}", "/a%20b?c") == f"https://h.example:{port}/a%20b?c"
    assert location(plain, f"[::1]:{own}") == f"https://[::1]:{port}/"
    assert location(plain, f"h.example:{own + 1}") == f"https://h.example:{port}/"
    assert location(plain, "h.example") == "https://h.example/"
    assert location(plain, "[::1]") == "https://[::1]/"
    assert location(plain, "h.example:80") == "https://h.example/"
    assert location(("::1", own), f"h.example:{own}") == f"https://h.example:{port}/"
    assert location(server.address, "h.example:7") == "https://h.example:7/"  # the port of https itself changes no port
    assert asked(server, server.address) == BODY


def test_nothing_else_is_spoken(both):
    server, plain = both
    with client.Wire(plain, secured=False) as one, pytest.raises(ssl.SSLError):
        one.sock = Secured(one.sock, anyone(), "localhost")
        one.ask("/hello.txt")
    for request in (b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a" + b"a" * 300 + b"\r\n\r\n", b"\x16\3\1\0\5\r\n\r\n",
                    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
        with client.Wire(plain, secured=False) as one:
            one.send(request)
            one.finish()
            assert one.reply().status in (400, 505)
    assert asked(server, server.address) == BODY


@pytest.mark.parametrize("port", ["", ":1", ":65535", ":99999", ":999999", ":", "::80", ":080", ":00000080"])
@pytest.mark.parametrize("name", ["h", "x" * 253, "[::1]"])
def test_odd_hosts(both, name, port):
    """The address in the answer is always one of the host, whatever port the field names."""
    server, plain = both
    with client.Wire(plain, secured=False) as one:
        reply = one.ask("/", fields=f"Host: {name}{port}")
        places = [f"https://{name}/", f"https://{name}:{server.address[1]}/"]
        assert reply.status == 400 or reply.status == 308 and reply["location"] in places


def test_workers(start, standard, pair):
    """Listeners of their own for two workers."""
    if not workers_may_be_threads():
        pytest.skip("no workers of this engine are threads")
    port = no_port()
    server = start(standard, "--tls", pair, "--redirect-http", port, "--workers", 2, "--accept", "reuseport")
    for _ in range(8):
        assert location(("127.0.0.1", port), f"a:{port}") == f"https://a:{server.address[1]}/"


def test_listeners_that_are_passed(start, standard, pair):
    with socket.create_server(("127.0.0.1", 0)) as plain, socket.create_server(("127.0.0.1", 0)) as main:
        own, port = plain.getsockname()[1], main.getsockname()[1]
        server = start(standard, "--tls", pair, "--redirect-http", own, passed=[plain, main])
        assert server.addresses == [("127.0.0.1", port)]
        assert location(plain.getsockname(), f"a:{own}") == f"https://a:{port}/"
        assert asked(server, main.getsockname()) == BODY


def test_the_next_server(start, standard, pair, tmp_path):
    own = no_port()
    options = ["--tls", pair, "--redirect-http", own, "--handover", tmp_path / "handover"]
    first = start(standard, *options)
    second = start(standard, *options)
    first.wait_said("serves now")
    first.finish()
    assert second.addresses == first.addresses
    assert location(("127.0.0.1", own), f"a:{own}") == f"https://a:{second.address[1]}/"
    assert asked(second, second.address) == BODY


def refusal(standard, *options):
    done = run("serve", standard, *options)
    assert done.returncode != 0
    return done.stderr


def test_refusals(standard, pair):
    assert "add --tls" in refusal(standard, "--redirect-http", "8081")
    assert "choose another" in refusal(standard, "--tls", pair, "--redirect-http", "8443", "-p", "8443")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = refusal(standard, "--tls", pair, "--redirect-http", port, "-p", "0")
        assert f"port {port} on 127.0.0.1 is taken by" in said and "choose another with --redirect-http" in said


@pytest.mark.parametrize("addresses", [ADDRESSES_MAX // 2, ADDRESSES_MAX // 2 + 1])
def test_addresses(start, standard, pair, addresses):
    where = list(itertools.chain.from_iterable(["-b", f"127.0.0.{n + 1}"] for n in range(addresses)))
    port = no_port()
    options = ["--tls", pair, "--redirect-http", port, *where]
    if addresses > ADDRESSES_MAX // 2:
        assert "counts twice" in refusal(standard, *options, "-p", "0")
        return
    server = start(standard, *options)
    for n in range(addresses):
        assert location((f"127.0.0.{n + 1}", port), f"a:{port}") == f"https://a:{server.address[1]}/"
