# SPDX-License-Identifier: MIT
"""A connection whose thread or process can be started only at the second try waits no longer than that."""
import pytest
from lib import strace
from lib.server import ENGINE

STARTS = {"fork": "clone", "thread": "clone3"}  # the system call that glibc uses
IDLE_S = 2  # four times as long as an idle connection may stay when others wait (ROOM_IDLE_MS)

pytestmark = [*strace.needed, pytest.mark.skipif(ENGINE not in STARTS, reason="it starts nothing for a connection")]


@pytest.mark.core
# shows N03
def test_second_try(start, standard):
    """If the connection counted as waiting for ever, it would take the seats of idle ones, and its own."""
    server = start(standard, "--idle-timeout", "1m")
    server.rest()
    with strace.failing(server, STARTS[ENGINE], "error=EAGAIN:when=1"), server.wire() as wire:
        assert wire.ask("/hello.txt").body == b"Hello, world\n"
        server.wait_said("cannot accept connections")  # the first try
        assert wire.quiet(IDLE_S), wire.rest
        assert wire.ask("/hello.txt").body == b"Hello, world\n"
        assert server.stats()["evicted"] == 0
