# SPDX-License-Identifier: MIT
"""The end: drain, a second signal, and what clients see of it."""
import contextlib
import signal
import threading
import time

import pytest
from lib.client import request
from lib.crowd import Reader
from lib.server import PATIENCE, wait_for
from lib.trees import content, write

BIG = 24 << 20
IDLE_S = 0.04  # ROOM_IDLE_MS of core/room.h
NEW_S = 0.5  # a new client is refused or served in this time
CLOSED_S = 10  # far less than --drain-timeout; on an idle machine it takes 30 ms
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
# shows U02
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
# shows U02
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
    """After --drain-timeout, connections that are still open are cut off."""
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
    """The drain has an hour, but no client is waiting for an answer."""
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
    """Requests that were sent before the signal and are being answered: whole answers only, then an orderly
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


def is_refused(server):
    """TimeoutError: a new client is neither refused nor connected."""
    try:
        server.wire(timeout=NEW_S).close()
    except ConnectionRefusedError:
        return True
    return False


def closed_door(server):
    """Wait until new clients are refused.  A client that connects while the listeners are being closed loses its first
    packet and sends another after a second: such a client does not count."""
    def refused():
        with contextlib.suppress(TimeoutError):
            return is_refused(server)
        return False
    wait_for(refused, "new clients are refused")


@signals
@pytest.mark.core
def test_new_clients_are_refused_at_once(start, root):
    """A slow answer is still being sent: no other client hangs until it ends."""
    server = start(root, "--drain-timeout", "60s")
    with transfer(server) as wire:
        server.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        closed_door(server)
        assert time.monotonic() - began < CLOSED_S
        for _ in range(5):
            assert is_refused(server)
        assert server.process.poll() is None
        assert wire.take(BIG) == content("big", BIG)
        wire.end()
    server.finish()


@signals
@pytest.mark.core
def test_successor_takes_over(start, root):
    """A new server gets the port while the old one still sends."""
    old = start(root, "--drain-timeout", "60s")
    with transfer(old) as wire:
        old.process.send_signal(signal.SIGTERM)
        closed_door(old)
        new = start(root, "--port", str(old.address[1]))
        assert new.address == old.address
        assert new.ask("/hello.txt").body == b"Hello, world\n"
        assert old.process.poll() is None
        assert wire.take(BIG) == content("big", BIG)
        wire.end()
    old.finish()


@signals
@pytest.mark.parametrize("count", [1, 40])
def test_queued_clients_are_answered(start, root, count):
    """Clients that sent a request before the signal are answered, though all seats are taken and new ones refused."""
    server = start(root, "--drain-timeout", "60s", "--max-connections", "1")
    with transfer(server) as wire:
        reader = Reader(wire, BIG)
        queued = [server.wire() for _ in range(count)]
        for one in queued:
            one.send(request("/hello.txt"))
        server.process.send_signal(signal.SIGTERM)
        closed_door(server)
        assert reader.all() == content("big", BIG)
        for one in queued:
            reply = one.reply()
            assert reply.body == b"Hello, world\n" and reply.closes
            one.close()
    server.finish()


class Steady(threading.Thread):
    """A client that sends requests without a pause until it is refused: answers, and the requests that got none.  On a busy
    machine it may be late, and a connection that is idle for IDLE_S is closed: a request that comes then is not counted."""

    def __init__(self, server, keeps):
        super().__init__(daemon=True)
        self.server, self.keeps, self.answers, self.lost = server, keeps, 0, []
        self.start()

    def run(self):
        fields, wire, since = [] if self.keeps else ["Connection: close"], None, None
        with contextlib.suppress(ConnectionRefusedError, TimeoutError):
            while True:
                now = time.monotonic()
                if not wire:
                    wire, since = self.server.wire(), now
                if not self.asks(wire, fields, since):
                    wire.close()
                    wire = None
                since = now

    def asks(self, wire, fields, since):
        """Whether the connection is kept.  since: a moment before it was made, or before the last request on it was sent."""
        sent = None
        try:
            wire.send(request("/hello.txt", fields=fields))
            sent = time.monotonic()
            closes = wire.reply().closes
        except (OSError, AssertionError) as error:
            idle_s = (sent or time.monotonic()) - since
            if idle_s < IDLE_S:
                self.lost.append(f"{error!r} after {self.answers}, {idle_s:.3f} s idle at most")
            return False
        self.answers += 1
        return not closes


@signals
@pytest.mark.core
@pytest.mark.capacity(8)
@pytest.mark.parametrize("again", range(3))
def test_a_stop_resets_nobody(start, root, again):
    """Under a steady load of kept connections and new ones: each request is answered or its client refused, and the
    slow answer arrives whole."""
    server = start(root, "--drain-timeout", "60s")
    with transfer(server) as wire:
        clients = [Steady(server, keeps) for keeps in (True, True, False, False)]
        wait_for(lambda: all(client.answers > 20 for client in clients), "a steady load")
        server.process.send_signal(signal.SIGTERM)
        closed_door(server)
        assert wire.take(BIG) == content("big", BIG)
        wire.end()
    for client in clients:
        client.join(PATIENCE)
        assert not client.is_alive() and not client.lost, client.lost
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
# shows S03
def test_hangup_and_pipe_are_no_end(start, root):
    server = start(root)
    for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1, signal.SIGCONT, signal.SIGWINCH):
        server.process.send_signal(number)
    assert server.ask("/hello.txt").status == 200
