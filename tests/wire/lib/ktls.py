# SPDX-License-Identifier: MIT
"""Clients of a server with --ktls: whether this kernel makes records, and when it has begun to."""
import errno
import os
import socket

import pytest

from . import client
from .secured import Secured
from .trees import content

ULP = 31  # of IPPROTO_TCP; Python has no name for it
BEGINS = 131072  # TLS_KERNEL_BYTES_MIN of server/tls.h


def refusal():
    """Why this kernel makes no records, or None."""
    with socket.socket() as one:
        try:
            one.setsockopt(socket.IPPROTO_TCP, ULP, b"tls")
        except OSError as error:
            return None if error.errno == errno.ENOTCONN else os.strerror(error.errno)
    return "it takes a socket without a peer"


NO_KERNEL = refusal()
kernel_tls = pytest.mark.skipif(bool(NO_KERNEL), reason=f"this kernel has no TLS: {NO_KERNEL}")


def wire(server, rcvbuf=None, segment=None, **how):
    one = client.Wire(server.address, rcvbuf=rcvbuf, segment=segment, secured=False)
    one.sock = Secured(one.sock, **how)
    return one


def ask(one, size, fields=""):
    reply = one.ask(f"/{size}.bin", fields=fields)
    assert reply.status == 200 and reply.body == content(size, size)
    return reply


def given(one):
    """From now on the kernel makes the records.  It asks twice: if a ticket waits before the first answer, the library makes
    that one's."""
    ask(one, 1)
    ask(one, 1)


def began(server):
    stats = server.stats()
    assert stats["tls_kernel_refused"] == 0
    return stats["tls_kernel"]
