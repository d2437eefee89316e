# SPDX-License-Identifier: MIT
"""What the tests of --handover share: a next server that never serves, and how busy a process is."""
import socket
import struct

from cli import PATIENCE

PARCEL, MAGIC = "<8sIIII", b"rung-1\n\0"  # all descriptors, sets, those of the metrics, descriptors of this message


class Next:
    """What the next server does until it serves: it has the control socket and the listeners."""

    def __init__(self, path, sets=1):
        self.link = socket.socket(socket.AF_UNIX)
        self.link.connect(path)
        self.link.settimeout(PATIENCE)
        message, fds, _, _ = socket.recv_fds(self.link, struct.calcsize(PARCEL), 100)
        magic, count, said, _, here = struct.unpack(PARCEL, message)
        assert (magic, said, here, len(fds)) == (MAGIC, sets, count, count)
        self.sockets = [socket.socket(fileno=fd) for fd in fds]

    def end(self):
        for one in (self.link, *self.sockets):
            one.close()


def ticks(server):
    with open(f"/proc/{server.pid}/stat", "rb") as file:
        return sum(map(int, file.read().rpartition(b")")[2].split()[11:13]))
