# SPDX-License-Identifier: MIT
"""Connections of one address: --limit-connections.

The clients have two addresses, 127.0.0.1 and 127.0.0.2: where one is refused, the other is served.
"""
import os
import signal
import socket
import ssl
import subprocess

import pytest
from cli import EXIT_USAGE, run
from lib import h2
from lib import server as lib
from lib.client import PATIENCE, Wire, request
from lib.limited import ANSWERED, OTHER, connections, is_cut, is_served, occupy, refused, take_all
from lib.secured import EVERYWHERE
from lib.server import ENGINE, engine_row, one_at_a_time, wait_for
from lib.trees import sparse, write

pytestmark = [pytest.mark.userspace("limits for each address"),
              pytest.mark.skipif(EVERYWHERE, reason="its clients speak without TLS, except where a test says so")]
any_engine = pytest.mark.any_engine("options are read below the engines")
HALF = b"GET /hello.txt HTTP/1.1\r\n"
BIG = 32 << 20
KINDS = [pytest.param("process", marks=pytest.mark.processes)]
if lib.workers_may_be_threads():
    KINDS.append("thread")


@pytest.mark.core
@pytest.mark.capacity(54)
@pytest.mark.parametrize("limit", [1, 3, 50])
# shows U61
def test_one_connection_too_many(start, standard, limit):
    """The connection gets its answer and the end.  Another address is served all the while, and so is the next client when one
    has left."""
    server = start(standard, *connections(limit))
    wires = occupy(server, limit)
    assert not is_served(server) and is_served(server, source=OTHER) and not is_served(server)
    for wire in wires:
        assert wire.ask("/hello.txt").status == 200
    wires.pop().close()
    take_all(server, 1)
    for wire in wires:
        wire.close()
    assert server.check_counts()["limited_connections"] >= 3


@pytest.mark.core
def test_one_after_the_other(start, standard):
    """A client with one connection at a time is never refused."""
    server = start(standard, *connections(1))
    for _ in range(20):
        assert is_served(server)
        wait_for(lambda: server.stats()["open"] == 0, "closed")
    assert server.stats()["limited_connections"] == 0


@pytest.mark.capacity(ANSWERED + 8)
# shows U61
def test_answers_are_for_a_few(start, standard):
    """A few of the connections that are too many may wait for their answer.  One more is closed at once."""
    server = start(standard, *connections(2))
    wires = occupy(server, 2)
    waiting = [server.wire() for _ in range(ANSWERED)]
    wait_for(lambda: server.stats()["open"] == 2 + ANSWERED, "all are open")
    assert is_cut(server.wire()) and is_cut(server.wire())
    assert is_served(server, source=OTHER)
    assert refused(waiting.pop())
    wait_for(lambda: server.stats()["open"] == 1 + ANSWERED, "one has left")
    assert not is_served(server)
    for wire in waiting:
        assert refused(wire)
    for wire in wires + waiting:
        wire.close()
    take_all(server, 2)


@pytest.mark.capacity(4)
@pytest.mark.parametrize("sent", [b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\0\0\0\0\r\n\r\n", h2.PREFACE, request("/none", "BREW"),
                                  request("/hello.txt", "POST", body=b"x" * 100), b"GET /" + b"a" * 9000])
def test_whatever_it_asks_for(start, standard, sent):
    server = start(standard, *connections(1))
    with server.wire() as one:
        assert one.ask("/hello.txt").status == 200
        with server.wire() as two:
            two.send(sent)
            reply = two.reply()
            assert reply.status == 429 and reply.closes
            two.end()


def end_orderly(wire, server):
    wire.close()


def end_by_reset(wire, server):
    wire.reset()


def end_half_closed(wire, server):
    wire.finish()
    wire.end()
    wire.close()


def end_within_a_head(wire, server):
    wire.send(HALF)
    wire.reset()


def end_within_a_body(wire, server):
    wire.send(request("/hello.txt", "POST", ["Content-Length: 1000"]) + b"x" * 10)
    wire.reset()


def end_within_an_answer(wire, server):
    wire.send(request("/big.bin"))
    assert wire.head().status == 200
    wire.reset()


def end_by_itself(wire, server):
    """--idle-timeout"""
    assert is_cut(wire)
    wire.close()


def end_slowly(wire, server):
    """--head-timeout"""
    wire.send(HALF)
    assert is_cut(wire)
    wire.close()


def end_with_an_error(wire, server):
    wire.send(b"nonsense\r\n\r\n")
    assert wire.reply().status == 400
    wire.close()


ENDS = [end_orderly, end_by_reset, end_half_closed, end_within_a_head, end_within_a_body, end_within_an_answer, end_by_itself,
        end_slowly, end_with_an_error]


@pytest.mark.long
@pytest.mark.capacity(4)
@pytest.mark.parametrize("end", ENDS)
# shows U61
def test_every_end_counts(start, tree, end):
    """However connections end, those of the address are counted exactly afterwards."""
    write(f"{tree}/hello.txt", b"Hello, world\n")
    sparse(f"{tree}/big.bin", BIG, {})
    server = start(tree, "--limit-connections", 2, "--head-timeout", "500ms", "--idle-timeout", "500ms")
    for _ in range(2):
        for wire in [server.wire(), server.wire()]:
            if end in (end_by_itself, end_slowly):
                end(wire, server)
            else:
                assert wire.ask("/hello.txt").status == 200
                end(wire, server)
        wait_for(lambda: server.stats()["open"] == 0, "closed")
    take_all(server, 2)


@pytest.mark.capacity(4)
def test_a_refused_connection_ends_anyhow(start, standard):
    """One that never asks for anything, and one that is reset: both give their places as refused ones back."""
    server = start(standard, "--limit-connections", 1, "--head-timeout", "300ms", "--idle-timeout", "10m")
    with server.wire() as one:
        assert one.ask("/hello.txt").status == 200
        for _ in range(ANSWERED // 2):
            silent, gone = server.wire(), server.wire()
            gone.reset()
            assert is_cut(silent)
            silent.close()
        wait_for(lambda: server.stats()["open"] == 1, "all the others have ended")
        for _ in range(ANSWERED):
            assert not is_served(server)
    take_all(server, 1)


def children_of_connections(server):
    return [pid for pid in server.pids() if pid != server.pid]


@pytest.mark.capacity(4)
@pytest.mark.skipif(not engine_row()["forks"], reason="it has no process for each connection")
def test_a_killed_child(start, standard):
    server = start(standard, *connections(2))
    wires = occupy(server, 2)
    assert not is_served(server)
    wait_for(lambda: server.stats()["open"] == 2, "the refused one has left")
    wait_for(lambda: len(children_of_connections(server)) == 2, "two children")
    for pid in children_of_connections(server):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: server.stats()["lost"] == 2, "both are lost")
    take_all(server, 2)
    for wire in wires:
        wire.close()
    server.process.send_signal(signal.SIGTERM)
    server.finish()


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.capacity(8)
# shows U61
def test_killed_workers(start, standard):
    """The connections of a process that died count no more; those of another process still do."""
    server = start(standard, *connections(4), "--workers", 2, "--workers-as", "process")
    server.rest()
    wires = occupy(server, 4)
    assert not is_served(server)
    wait_for(lambda: server.stats()["open"] == 4, "the refused one has left")
    for number, pid in enumerate(lib.children(server.pid)):
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: server.text().count("was killed by signal 9") == number + 1, "seen by the supervisor")
        lost = server.stats()["lost"]
        assert number == 0 or lost == 4
        wait_for(lambda: len(lib.children(server.pid)) == 2, "another")
        if lost:
            take_all(server, lost)
        wait_for(lambda: server.stats()["open"] == 4 - lost, "the new ones have left")
    for wire in wires:
        wire.close()
    wait_for(lambda: server.stats()["open"] == 0, "closed")
    server.process.send_signal(signal.SIGTERM)
    server.finish()


@pytest.mark.core
@pytest.mark.capacity(8)
@pytest.mark.parametrize("accept", ["shared", "reuseport"])
@pytest.mark.parametrize("kind", KINDS)
# shows U61
def test_workers_share_the_counts(start, standard, kind, accept):
    """The limit is the server's, not each worker's."""
    server = start(standard, *connections(3), "--workers", 2, "--workers-as", kind, "--accept", accept)
    wires = [server.wire() for _ in range(12)]
    verdicts = [refused(wire) for wire in wires]
    assert verdicts.count(False) == 3
    for wire in wires:
        wire.close()
    take_all(server, 3)


@pytest.mark.long
@pytest.mark.capacity(64)
# shows U61
def test_a_thousand_connections_of_one_client(start, standard):
    """Each has half a request, so a server without limits keeps it for a while.  Another client gets all its answers, on new
    connections and on an old one, and the crowd holds no more places than the limits say."""
    server = start(standard, "--limit-connections", 10, "--head-timeout", "1m")
    with server.wire() as old:
        assert old.ask("/hello.txt").status == 200
        crowd = []
        for number in range(1000):
            crowd.append(server.wire(source=OTHER))
            try:
                crowd[-1].send(HALF)
            except ConnectionError:
                pass
            if number % 50 == 49:
                assert is_served(server) and old.ask("/hello.txt").status == 200
                assert server.stats()["open"] <= 10 + ANSWERED + 3
        counters = wait_for(lambda: (now := server.stats())["limited_connections"] == 990 and now, "990 refused")
        assert counters["evicted"] == 0 and counters["open"] <= 10 + ANSWERED + 2
        for wire in crowd:
            wire.reset()
    wait_for(lambda: server.stats()["open"] == 0, "closed")
    take_all(server, 10, source=OTHER)


# --- Other protocols ----------------------------------------------------------------------------------------

@pytest.mark.core
@pytest.mark.capacity(4)
def test_with_tls(start, standard):
    """A connection counts before its handshake: one too many is closed without one.  Requests are refused in words."""
    server = start(standard, "--tls", "self", "--limit-requests", "1/h:3", *connections(1))
    with server.wire() as wire:
        assert wire.ask("/hello.txt").status == 200
        with pytest.raises((ssl.SSLError, OSError, AssertionError)):
            with server.wire() as another:
                another.ask("/hello.txt")
        with pytest.raises((OSError, AssertionError)):
            with server.wire(secured=False) as another:
                another.ask("/hello.txt")
        assert is_served(server, source=OTHER)
        assert [wire.ask("/hello.txt").status for _ in range(3)] == [200, 200, 429]
    assert server.check_counts()["limited_connections"] == 2


def test_echo(engine):
    """rung echo has the limit of connections; the one too many is closed."""
    if one_at_a_time():
        pytest.skip("it has one connection at a time")
    command = [lib.BIN, "echo", "-e", ENGINE, "-p", "0", "-b", "127.0.0.1", "--limit-connections", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=lib.CLEAN_ENV) as process:
        try:
            port = int(process.stderr.readline().rstrip(b"/\n").rpartition(b":")[2])
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as one:
                one.sendall(b"hello")
                assert one.recv(5) == b"hello"
                with Wire(("127.0.0.1", port), secured=False) as two:
                    assert is_cut(two)
                one.sendall(b"again")
                assert one.recv(5) == b"again"
        finally:
            process.terminate()


# --- Options ------------------------------------------------------------------------------------------------

@any_engine
@pytest.mark.parametrize("option, value", [
    ("--limit-connections", "1000001"), ("--limit-connections", "-1"), ("--limit-connections", "x"), ("--limit-requests", ""),
    ("--limit-requests", "0/s"), ("--limit-requests", "1000001/s"), ("--limit-requests", "10/d"), ("--limit-requests", "10/s:0"),
    ("--limit-requests", "10/s:1000001"), ("--limit-requests", "ten")])
def test_values_that_are_none(tree, option, value):
    done = run("serve", tree, "--port", "0", option, value)
    assert done.returncode == EXIT_USAGE and option in done.stderr, done.stderr


@any_engine
def test_the_largest_values(start, standard):
    server = start(standard, "--limit-connections", 1000000, "--limit-requests", "1000000r/s:1000000")
    with server.wire() as wire:
        assert all(wire.ask("/hello.txt").status == 200 for _ in range(50))


@any_engine
def test_none_by_default(start, standard):
    for options in ([], ["--limit-connections", 0]):
        server = start(standard, *options)
        with server.wire() as wire:
            assert all(wire.ask("/hello.txt").status == 200 for _ in range(200))
        assert server.stats()["limited_requests"] == server.stats()["limited_connections"] == 0
