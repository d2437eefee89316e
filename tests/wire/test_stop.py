# SPDX-License-Identifier: MIT
"""The end: drain, a second signal, and what clients see of it."""
import signal
import time

import pytest
from lib.client import request
from lib.server import PATIENCE, wait_for
from lib.trees import content, write

BIG = 24 << 20
signals = pytest.mark.userspace("signals")


def transfer(server):
    wire = server.wire(rcvbuf=65536)
    wire.send(request("/big.bin"))
    reply = wire.head()
    assert reply.length == BIG
    return wire


@pytest.fixture
def root(tree):
    write(f"{tree}/big.bin", content("big", BIG))
    write(f"{tree}/hello.txt", b"Hello, world\n")
    return tree


@signals
@pytest.mark.core
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_running_transfers_finish(start, root, number):
    """Every byte arrives, then the connection ends, then the server, with status 0."""
    server = start(root, "--drain-timeout", "60s")
    with transfer(server) as wire:
        first = wire.take(100_000)
        server.process.send_signal(number)
        server.wait_said("stopping")
        time.sleep(0.2)
        assert server.process.poll() is None
        assert first + wire.take(BIG - len(first)) == content("big", BIG)
        wire.end()
    server.finish()


@signals
@pytest.mark.core
def test_second_signal_cuts(start, root):
    server = start(root, "--drain-timeout", "1h")
    with transfer(server) as wire:
        server.process.send_signal(signal.SIGTERM)
        server.wait_said("stopping")
        time.sleep(0.2)
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(PATIENCE)
        with pytest.raises((AssertionError, ConnectionResetError)):
            wire.take(BIG)
    server.finish()


@signals
@pytest.mark.long
def test_drain_has_an_end(start, root):
    """Past --drain-timeout what is still open is cut off."""
    server = start(root, "--drain-timeout", "1s")
    with transfer(server):
        server.process.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        server.process.wait(PATIENCE)
        assert time.monotonic() - begin > 0.7
    server.finish()


@signals
@pytest.mark.core
def test_idle_ones_are_closed_at_once(start, root):
    """The drain has an hour, but nobody is owed anything."""
    server = start(root, "--drain-timeout", "1h")
    with server.wire() as wire:
        wire.ask("/hello.txt")
        server.process.send_signal(signal.SIGTERM)
        wire.end()
        server.finish()


@signals
def test_connected_but_silent_is_closed_at_once(start, root):
    server = start(root, "--drain-timeout", "1h", "--head-timeout", "1h")
    with server.wire() as wire:
        wait_for(lambda: server.stats()["open"], "accepted")
        server.process.send_signal(signal.SIGTERM)
        wire.end()
        server.finish()


@signals
@pytest.mark.core
@pytest.mark.capacity(2)
def test_last_answers_say_close(start, root):
    """A request that is under way when the signal comes is answered, with Connection: close."""
    server = start(root, "--drain-timeout", "60s", "--head-timeout", "60s")
    with server.wire() as wire, transfer(server) as other:
        wire.ask("/hello.txt")
        wire.send(b"GET /hello.txt HTTP/1.1\r\n")
        time.sleep(0.2)
        server.process.send_signal(signal.SIGTERM)
        server.wait_said("stopping")
        time.sleep(0.2)
        wire.send(b"Host: x\r\n\r\n")
        reply = wire.reply()
        assert reply.body == b"Hello, world\n" and reply.closes
        wire.end()
        other.take(BIG)
    server.finish()


@signals
def test_pipelined_answers_before_the_end(start, root):
    """What was asked before the signal and is being answered: whole answers only, then an orderly
    end."""
    server = start(root, "--drain-timeout", "60s")
    with server.wire(rcvbuf=65536) as wire:
        wire.send(request("/big.bin") + request("/hello.txt") * 3)
        assert wire.head().length == BIG
        server.process.send_signal(signal.SIGTERM)
        server.wait_said("stopping")
        wire.take(BIG)
        closed = False
        while wire.rest or wire.more():
            assert not closed
            closed = wire.reply().closes
    server.finish()


@signals
def test_nobody_new_once_it_stops(start, root):
    server = start(root, "--drain-timeout", "60s")
    with transfer(server) as wire:
        server.process.send_signal(signal.SIGTERM)
        server.wait_said("stopping")

        def refused():
            try:
                with server.wire(timeout=0.5) as late:
                    late.send(request("/hello.txt"))
                    return not late.more()
            except TimeoutError:
                return True  # in the queue of one who serves nobody any more
            except OSError:
                return True
        wait_for(refused, "no new clients")
        wire.take(BIG)
    server.finish()


@signals
@pytest.mark.parametrize("times", [1, 2, 5])
def test_stop_with_nobody_there(start, root, times):
    server = start(root)
    for _ in range(times):
        server.process.send_signal(signal.SIGTERM)
    server.finish()


def test_port_is_free_again(start, root):
    """A restart gets the same port, though old connections are in TIME-WAIT."""
    server = start(root)
    port = server.address[1]
    for _ in range(5):
        assert server.ask("/hello.txt", fields=["Connection: close"]).status == 200
    server.stop()
    again = start(root, "--port", str(port))
    assert again.address[1] == port and again.ask("/hello.txt").status == 200


@signals
def test_hangup_and_pipe_are_no_end(start, root):
    server = start(root)
    for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1, signal.SIGCONT, signal.SIGWINCH):
        server.process.send_signal(number)
    assert server.ask("/hello.txt").status == 200
