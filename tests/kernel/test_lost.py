# SPDX-License-Identifier: MIT
"""A lost packet is sent again, even after the connection has been closed or the module has been unloaded."""
import contextlib
import fcntl
import socket
import struct

from lib import crowd
from lib.client import request
from lib.served import wait_for

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
PATIENCE_S = 30  # the packet is repeated after 200 ms, and then after twice as long each time


@contextlib.contextmanager
def no_way():
    """While the block runs, no packet arrives on this machine."""
    def flags(call, value=0):
        row = fcntl.ioctl(sock, call, struct.pack("16sH14x", b"lo", value))
        return struct.unpack("16sH14x", row)[1]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        up = flags(SIOCGIFFLAGS)
        flags(SIOCSIFFLAGS, up & ~IFF_UP)
        try:
            yield
        finally:
            flags(SIOCSIFFLAGS, up)


def assert_ended(wires):
    for wire in wires:
        wire.sock.settimeout(PATIENCE_S)
        while wire.sock.recv(1 << 16):
            pass
    crowd.leave(wires)


# shows K24
def test_an_end(start, site):
    server = start(site, "--idle-timeout", "1s")
    wires = crowd.arrive(server, 5, lambda _: request("/hello.txt"))
    with no_way():
        wait_for(lambda: server.stats()["closed"] == 5, "their time is up")
    assert_ended(wires)


def test_an_end_by_unloading(start, site):
    server = start(site, "--idle-timeout", "10m")
    wires = crowd.arrive(server, 5, lambda _: request("/hello.txt"))
    wait_for(lambda: server.stats()["complete"] == 5, "all are served")
    with no_way():
        server.kill()
    assert_ended(wires)
