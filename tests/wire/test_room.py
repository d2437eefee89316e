# SPDX-License-Identifier: MIT
"""No room: more clients than connections or descriptors."""
import collections
import time

import pytest
from lib import server as lib
from lib.client import request
from lib.crowd import Reader
from lib.secured import EVERYWHERE
from lib.server import wait_for

HELLO = b"Hello, world\n"


def ended(wire):
    """Whether the server has closed the connection."""
    wire.sock.settimeout(0.001)
    try:
        return wire.sock.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.core
@pytest.mark.capacity(8)
def test_idlest_makes_room(start, standard):
    """--max-connections: the longest-idle connection is closed, and only when another client
    is waiting."""
    server = start(standard, "--max-connections", "5")
    wires = [server.wire() for _ in range(5)]
    for wire in wires:
        wire.ask("/hello.txt")
        time.sleep(0.03)
    for i in (0, 2):  # these were idle longest, now they are not
        time.sleep(0.03)
        wires[i].ask("/hello.txt")
    time.sleep(0.1)
    assert not any(ended(wire) for wire in wires)
    with server.wire() as sixth, server.wire() as seventh:
        assert sixth.ask("/hello.txt").body == HELLO
        assert seventh.ask("/hello.txt").body == HELLO
        wait_for(lambda: ended(wires[1]) and ended(wires[3]), "the two idlest closed")
        for i in (0, 2, 4):
            wires[i].sock.settimeout(60)
            assert wires[i].ask("/hello.txt").body == HELLO
    assert server.stats()["evicted"] == 2
    for wire in wires:
        wire.close()


@pytest.mark.long
@pytest.mark.capacity(8)
# shows N04
def test_busy_ones_are_not_evicted(start, standard):
    """All clients are in the middle of a transfer and keep reading: the next one is served once one has left."""
    server = start(standard, "--max-connections", "3")
    wires = [server.wire() for _ in range(3)]
    readers = []
    for wire in wires:
        wire.send(request("/giant.bin"))
        assert wire.head().status == 200
        readers.append(Reader(wire, 1 << 32))
    with server.wire() as late:
        late.send(request("/hello.txt"))
        assert late.quiet(0.5)
        if lib.ENGINE != "kernel":  # a module has no time of its own
            before = server.cpu_seconds()
            time.sleep(1)
            assert server.cpu_seconds() - before < 0.5
        readers[1].end()
        wires[1].close()
        assert late.reply().body == HELLO
    for i in (0, 2):
        assert readers[i].end()
        assert len(wires[i].take(100_000)) == 100_000
        wires[i].close()
    assert server.stats()["evicted"] == 0


@pytest.mark.long
@pytest.mark.core
@pytest.mark.capacity(40)
@pytest.mark.parametrize("options", [[], ["--max-connections", "10000"]],
                         ids=["own limit", "no limit"])
@pytest.mark.skipif(EVERYWHERE, reason="its clients would wait for one handshake after the other")
# shows D22
def test_descriptors_run_out(start, standard, options):
    """60 half requests, and descriptors for 40 connections, or 20 with pipes: the server pauses and does not spin.  A half
    request loses its seat while others wait; those that have a seat when no other waits any more are answered."""
    server = start(standard, "--head-timeout", "60s", *options, files=112)
    wires = [server.wire() for _ in range(60)]
    for wire in wires:
        wire.send(b"GET /hello.txt HTTP/1.1\r\n")
    time.sleep(0.3)
    before = server.cpu_seconds()
    time.sleep(1.5)
    assert server.cpu_seconds() - before < 0.7, "spins"
    outcomes = collections.Counter()
    for wire in wires:
        try:
            wire.send(b"Host: x\r\nConnection: close\r\n\r\n")
            reply = wire.reply()
            assert reply.status in (200, 503)
            outcomes[reply.status] += 1
        except (ConnectionResetError, BrokenPipeError):
            outcomes["reset"] += 1  # it was silent for long while others waited
        except AssertionError as error:
            assert "stream ended" in str(error), error
            outcomes["ended"] += 1
        wire.close()
    assert outcomes[200] >= 10, (outcomes, server.stats())
    assert server.ask("/hello.txt").body == HELLO
    with server.wire() as wire:
        for _ in range(50):
            assert wire.ask("/size/65536.bin").status == 200


@pytest.mark.capacity(40)
# shows D22
def test_recovers_without_a_new_client(start, standard):
    """Clients that waited in the queue are served once there is room, though no new client
    connects."""
    server = start(standard, files=32)
    busy = [server.wire() for _ in range(40)]
    for wire in busy:
        wire.send(b"GET /hello.txt HTTP/1.1\r\n")
    late = server.wire()
    late.send(request("/hello.txt"))
    time.sleep(0.5)
    for wire in busy:
        wire.close()
    assert late.reply().body == HELLO
    late.close()


@pytest.mark.long
@pytest.mark.capacity(50)
# shows D32
def test_idle_clients_make_room_for_active_ones(start, standard):
    """Fifty clients connect, send a request and stay; with 32 descriptors, every one of them gets its answer."""
    server = start(standard, files=32)
    wires = []
    for _ in range(50):
        wire = server.wire()
        assert wire.ask("/hello.txt").body == HELLO
        wires.append(wire)
    for wire in wires:
        wire.close()


@pytest.mark.capacity(40)
def test_newcomers_get_their_chance(start, standard):
    """When all seats are taken, a client that has just connected is not idle: its request is on the way."""
    server = start(standard, "--max-connections", "2")
    outcomes = collections.Counter()
    for _ in range(10):
        wires = [server.wire() for _ in range(30)]
        for wire in wires:
            try:
                wire.send(request("/hello.txt", fields=["Connection: close"]))
            except (ConnectionResetError, BrokenPipeError):
                pass
        for wire in wires:
            try:
                outcomes[wire.reply().status] += 1
            except (ConnectionResetError, BrokenPipeError, AssertionError):
                outcomes["cut off"] += 1
            wire.close()
    assert outcomes[200] > 10 * outcomes["cut off"], (outcomes, server.stats())
