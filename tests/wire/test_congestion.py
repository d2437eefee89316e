# SPDX-License-Identifier: MIT
"""--congestion: which algorithm decides how fast a connection sends.  ss reports that of each connection.

--congestion auto is tested in a network namespace whose default is bbr.  10.9.8.7 and 203.0.113.7 are addresses of its
loopback interface, so that a client can be near or far.
"""
import contextlib
import ctypes
import os
import re
import shutil
import socket
import subprocess

import pytest
from cli import EXIT_USAGE, run
from lib import server as lib
from lib.client import request
from lib.secured import EVERYWHERE

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
SETTINGS = "/proc/sys/net/ipv4/tcp_"
LOOPBACK, PRIVATE, FAR = "127.0.0.1", "10.9.8.7", "203.0.113.7"
pytestmark = [pytest.mark.userspace("a command line"), pytest.mark.skipif(not shutil.which("ss"), reason="needs ss"),
              pytest.mark.skipif(EVERYWHERE, reason="its clients speak without TLS")]
any_engine = pytest.mark.any_engine("listeners are opened before an engine runs")


def setting(name):
    with open(f"{SETTINGS}{name}", encoding="ascii") as file:
        return file.read().split()


def offered():
    return setting("allowed_congestion_control")


@pytest.fixture
def paced():
    """A network whose default is bbr."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if LIBC.unshare(CLONE_NEWNET) != 0:
            pytest.skip("network namespaces are for root")
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            for address in PRIVATE, FAR:
                subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
            with open(f"{SETTINGS}congestion_control", "w", encoding="ascii") as file:
                file.write("bbr")
        except OSError as error:
            pytest.skip(f"no network whose default is bbr: {error}")
        yield "cubic" if "cubic" in offered() else "reno"
    finally:
        if LIBC.setns(home, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        os.close(home)


def of(server, address, source=None):
    """The algorithm at the server's end of a connection that has had an answer."""
    port = int(re.search(r":(\d+)/", server.opening)[1])
    sock = socket.create_connection((address, port), source_address=(source or address, 0), timeout=60)
    with contextlib.closing(sock):
        sock.sendall(request("/"))
        assert sock.recv(13).startswith(b"HTTP/1.1 200 ")
        pair = ["sport", "=", f":{port}", "and", "dport", "=", f":{sock.getsockname()[1]}"]
        seen = subprocess.run(["ss", "-Htin", *pair], stdout=subprocess.PIPE, check=True, text=True).stdout
    return re.search(r"(\w+) wscale:", seen)[1]


@pytest.mark.core
def test_paced(start, tree, paced):
    """Near clients get an algorithm that does not pace, far ones keep bbr."""
    server = start(tree, "-b", "*")
    assert of(server, LOOPBACK) == of(server, PRIVATE) == paced
    assert of(server, FAR) == "bbr"


@any_engine
def test_paced_loopback(start, tree, paced):
    server = start(tree, "-b", LOOPBACK)
    assert of(server, LOOPBACK) == paced


@any_engine
def test_paced_private_listener(start, tree, paced):
    """A listener on a private address has far clients too: a router in between may forward a port."""
    server = start(tree, "-b", PRIVATE)
    assert of(server, PRIVATE) == paced
    assert of(server, PRIVATE, FAR) == "bbr"


@any_engine
@pytest.mark.parametrize("address", [LOOPBACK, PRIVATE, FAR])
def test_system(start, tree, paced, address):  # pylint: disable=unused-argument
    assert of(start(tree, "-b", "*", "--congestion", "system"), address) == "bbr"


@pytest.mark.parametrize("address", [LOOPBACK, FAR])
def test_named(start, tree, paced, address):  # pylint: disable=unused-argument
    assert of(start(tree, "-b", "*", "--congestion", "reno"), address) == "reno"


@any_engine
@pytest.mark.parametrize("options", [(), ("--congestion", "system")], ids=str)
def test_default_that_does_not_pace(start, tree, paced, options):  # pylint: disable=unused-argument
    with open(f"{SETTINGS}congestion_control", "w", encoding="ascii") as file:
        file.write("reno")
    server = start(tree, "-b", "*", *options)
    assert of(server, LOOPBACK) == of(server, FAR) == "reno"


@any_engine
def test_each_that_is_offered(start, tree):
    for name in offered():
        assert of(start(tree, "-b", LOOPBACK, "--congestion", name), LOOPBACK) == name


@pytest.mark.parametrize("name", ["nosuch", "x" * 15, "x" * 16, "x" * 300, "AUTO"])
def test_unknown(tree, name):
    out = run("serve", "-p", "0", "-e", lib.ENGINE, "--congestion", name, tree)
    assert out.returncode == EXIT_USAGE and out.stderr.count("\n") == 1
    assert "this kernel has no such algorithm" in out.stderr and " ".join(offered()) in out.stderr


def test_restricted(tree):
    names = [name for name in setting("available_congestion_control") if name not in offered()]
    if not names or os.geteuid() != 0:
        pytest.skip("no algorithm here is for root alone, or this is not root")
    out = run("serve", "-p", "0", "-e", lib.ENGINE, "--congestion", names[0], tree, user=65534, extra_groups=[])
    assert out.returncode == EXIT_USAGE and "it is for root" in out.stderr
