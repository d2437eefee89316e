# SPDX-License-Identifier: MIT
"""A listing that fails, or is cut off, after its head was sent: the connection is reset, because the end of an answer
without a length looks like the end of its body (RFC 9112 8)."""
import os
import signal

import pytest
from lib import strace
from lib.client import request
from lib.server import wait_for

NAMES = 3000  # three reads of the folder at least
DELAY_US = 3_000_000  # of each slow read
# How often a thread may read the folder.  A first look at it is one read, and a listing begins again after that: a sorted
# one when its head has been sent, a streamed one when 600 names were seen.
# There is no cache, because a cache would count the names first.
KINDS = {"sorted": ("", 1), "streamed": ("--listing-max 600", 2)}

pytestmark = strace.needed


@pytest.fixture
def many(wide_tree):
    os.mkdir(f"{wide_tree}/many")
    for number in range(NAMES):
        os.close(os.open(f"{wide_tree}/many/{number:06}", os.O_CREAT, 0o644))
    return wide_tree


@pytest.fixture(params=KINDS)
def listing(request, start, many):  # pylint: disable=redefined-outer-name
    options, reads = KINDS[request.param]
    server = start(many, "--cache", 0, *options.split())
    assert server.ask("/many/?format=text", fields=["Connection: close"]).body.count(b"\n") >= NAMES
    server.rest()
    with strace.failing(server, "getdents64", f"error=EIO:when={reads + 1}+"):
        yield server


@pytest.mark.parametrize("minor", [0, 1])
def test_listing_that_a_stop_cuts_off(start, many, engine, minor):
    """The listing's head was sent, and the folder is slow to read."""
    if engine["may_block"] or engine["thread_pool"]:
        pytest.skip("the thread that sends it reads the folder, and cannot be ended meanwhile")
    server = start(many, "--drain-timeout", "10m")
    assert server.ask("/many/?format=text", fields=["Connection: close"]).status == 200
    server.rest()
    with strace.failing(server, "getdents64", f"delay_enter={DELAY_US}:when=2+"), server.wire() as wire:
        wire.send(request("/many/?format=text", minor=minor))
        assert wire.head().status == 200
        for number in (signal.SIGTERM, signal.SIGINT):
            server.process.send_signal(number)
        with pytest.raises(ConnectionResetError):
            while wire.more():
                pass
        assert not wire.rest
    server.finish()


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
