# SPDX-License-Identifier: MIT
"""Addresses that rung listens on: both loopbacks by default, IPv6, Unix sockets, several at once."""
import os
import socket
import stat

import pytest
from lib.client import Wire, request

HELLO = b"Hello, world\n"


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")


@ipv6
@pytest.mark.core
# shows U01
def test_both_loopbacks_by_default(site):
    """127.0.0.1 and ::1 have the same port and are served alike; naive engines serve one after the other."""
    port = site.address[1]
    for _ in range(5):
        for host in ("127.0.0.1", "::1"):
            with Wire((host, port)) as wire:
                assert wire.ask("/hello.txt").body == HELLO


def test_loopback_only_by_default(site):
    """Nothing is open to the network unless that is requested."""
    with open("/proc/net/tcp") as four, open("/proc/net/tcp6") as six:
        rows = [line.split() for line in four.readlines()[1:] + six.readlines()[1:]]
    port = f":{site.address[1]:04X}"
    local = {row[1].rpartition(":")[0] for row in rows if row[3] == "0A" and row[1].endswith(port)}
    assert local and local <= {"0100007F", "00000000000000000000000001000000"}


@ipv6
def test_ipv6_alone(start, standard):
    server = start(standard, "--bind", "::1")
    assert server.address[0] == "::1"
    with server.wire() as wire:
        assert wire.ask("/hello.txt", fields=[f"Host: [::1]:{server.address[1]}"]).body == HELLO
        assert wire.ask("/list")["location"] == "/list/"


@pytest.mark.core
def test_unix_socket(start, standard, tree):
    path = f"{tree}/rung.sock"
    server = start(standard, "--bind", f"unix:{path}")
    assert stat.S_ISSOCK(os.stat(path).st_mode)
    with Wire(path) as wire:
        assert wire.ask("/hello.txt").body == HELLO
        wire.send(request("/size/1048576.bin") * 3)
        for _ in range(3):
            assert wire.reply().length == 1 << 20
    with Wire(path) as wire:
        wire.send(b"GET  / HTTP/1.1\r\n\r\n")
        assert wire.reply().status == 400
        wire.end()
    server.stop()
    assert not os.path.exists(path)


def test_unix_socket_left_by_one_that_died(start, standard, tree):
    """A socket file without a listener is no obstacle; a file of another kind is not touched."""
    path = f"{tree}/rung.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    start(standard, "--bind", f"unix:{path}")
    with Wire(path) as wire:
        assert wire.ask("/hello.txt").body == HELLO


def test_several_at_once(start, standard, tree):
    path = f"{tree}/rung.sock"
    server = start(standard, "--bind", "127.0.0.1", "--bind", f"unix:{path}", "--port", "0")
    for _ in range(3):
        assert server.ask("/hello.txt").body == HELLO
        with Wire(path) as wire:
            assert wire.ask("/hello.txt").body == HELLO
