# SPDX-License-Identifier: MIT
"""space.py - network namespaces that this thread enters and leaves, and the sockets in its present one."""
import contextlib
import ctypes
import fcntl
import ipaddress
import os
import socket
import struct
import typing

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
LIBC = ctypes.CDLL(None, use_errno=True)
HERE = "/proc/thread-self"
STATES = ("", "established", "syn-sent", "syn-recv", "fin-wait-1", "fin-wait-2", "time-wait", "close", "close-wait",
          "last-ack", "listen", "closing", "syn-recv")  # include/net/tcp_states.h


def call(number):
    if number != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def open_here():
    return os.open(f"{HERE}/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@contextlib.contextmanager
def entered(fd):
    home = open_here()
    call(LIBC.setns(fd, CLONE_NEWNET))
    try:
        yield
    finally:
        call(LIBC.setns(home, CLONE_NEWNET))
        os.close(home)


@contextlib.contextmanager
def fresh():
    """Enters a new namespace, whose loopback is up; yields a descriptor of it."""
    home = open_here()
    if LIBC.unshare(CLONE_NEWNET) != 0:
        os.close(home)
        raise PermissionError
    mine = open_here()
    try:
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
        yield mine
    finally:
        call(LIBC.setns(home, CLONE_NEWNET))
        os.close(home)
        os.close(mine)


class Seen(typing.NamedTuple):
    """A socket as the kernel's own table lists it."""
    local: str
    peer: str
    state: str

    @property
    def pair(self):
        return f"{self.local} {self.peer}"


def end_text(text):
    address, _, port = text.partition(":")
    words = [int(address[at:at + 8], 16) for at in range(0, len(address), 8)]
    found = ipaddress.ip_address(b"".join(struct.pack("=I", word) for word in words))
    if found.version == 6 and found.ipv4_mapped:
        found = found.ipv4_mapped
    return f"{found}:{int(port, 16)}" if found.version == 4 else f"[{found}]:{int(port, 16)}"


def sockets(*states):
    """The TCP sockets of this thread's namespace, sorted: all, or those in the given states."""
    found = []
    for table in ("tcp", "tcp6"):
        with open(f"{HERE}/net/{table}", encoding="ascii") as file:
            for line in file.readlines()[1:]:
                _, local, peer, state, *_ = line.split()
                found.append(Seen(end_text(local), end_text(peer), STATES[int(state, 16)]))
    return sorted(seen for seen in found if not states or seen.state in states)
