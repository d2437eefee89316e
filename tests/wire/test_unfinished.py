# SPDX-License-Identifier: MIT
"""A listing that fails after its head was sent: the connection is reset, because the end of an answer without a length
looks like the end of its body (RFC 9112 8)."""
import os

import pytest
from lib import strace
from lib.client import request
from lib.server import wait_for

NAMES = 3000  # three reads of the folder at least
# How often a thread may read the folder.  A first look at it is one read, and a listing that is sorted begins again after
# that; one that is streamed, 600 names later, once more.
KINDS = {"sorted": ("", 1), "streamed": ("--listing-max 600", 3)}

pytestmark = strace.needed


@pytest.fixture(params=KINDS)
def listing(request, start, tree):  # pylint: disable=redefined-outer-name
    os.mkdir(f"{tree}/many")
    for number in range(NAMES):
        os.close(os.open(f"{tree}/many/{number:06}", os.O_CREAT, 0o644))
    options, reads = KINDS[request.param]
    server = start(tree, *options.split())
    assert server.ask("/many/?format=text", fields=["Connection: close"]).body.count(b"\n") >= NAMES
    server.rest()
    with strace.failing(server, "getdents64", f"error=EIO:when={reads + 1}+"):
        yield server


@pytest.mark.core
@pytest.mark.parametrize("minor", [0, 1])
def test_failed_listing_is_cut(listing, minor):
    with listing.wire() as wire:
        wire.send(request("/many/?format=text", minor=minor))
        reply = wire.head()
        assert reply.status == 200 and "content-length" not in reply.fields
        assert (reply.get("transfer-encoding") == "chunked") == (minor == 1)
        with pytest.raises(ConnectionResetError):
            while wire.more():
                pass
        assert wire.rest.count(b"\n") < NAMES and not wire.rest.endswith(b"0\r\n\r\n")
    wait_for(lambda: not listing.stats()["open"], "closed")
    assert listing.stats()["broken"] == 1
