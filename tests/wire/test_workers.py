# SPDX-License-Identifier: MIT
"""Two workers, as threads and as processes: both serve, one that is killed costs its own connections and no others,
and signals reach all.

Each worker has one seat (--max-connections 2 shared by two), and a half-sent request keeps it: so two such
connections are served by two workers, and no other connection by any.
"""
import glob
import os
import signal
import time

import pytest
from lib import server as lib
from lib.client import request
from lib.server import wait_for
from lib.trees import content, write

HALF, REST = b"GET /hello.txt HTTP/1.1\r\n", b"Host: x\r\n\r\n"
HELLO = b"Hello, world\n"
KINDS = [pytest.param("process", marks=pytest.mark.processes)]
if lib.workers_may_be_threads():
    KINDS.append("thread")
PATIENT = ("--head-timeout", "10m", "--idle-timeout", "10m", "--send-timeout", "10m", "--drain-timeout", "10m")
BIG = 8 << 20
pytestmark = pytest.mark.userspace("threads or processes that work")


@pytest.fixture
def two(start, tree):
    """two(kind, options...) -> a server with two workers of one seat each."""
    write(f"{tree}/hello.txt", HELLO)
    write(f"{tree}/big.bin", content("big", BIG))
    return lambda kind, *args: start(tree, "--workers", 2, "--workers-as", kind, "--max-connections", 2, *PATIENT, *args)


def occupy(server, count=2, **options):
    """Half a request on each of count connections, one after the other, once all workers have started: a full worker gives a
    half-sent request 500 ms if another client waits (core/room.h), and a worker that is starting may leave it waiting longer."""
    server.rest()
    wires = []
    for _ in range(count):
        before = server.stats()["open"]
        wires.append(server.wire(**options))
        wires[-1].send(HALF)
        wait_for(lambda: server.stats()["open"] > before, "a seat for each")
    return wires


def alive(pid):
    """Whether a thread is no zombie: the first one is a zombie once it ends, while others still hold the sockets."""
    for path in glob.glob(f"/proc/{pid}/task/*/stat"):
        try:
            with open(path, "rb") as file:
                if file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X"):
                    return True
        except (FileNotFoundError, ProcessLookupError):
            pass
    return False


def gone(wire):
    """Whether the server closed the connection rather than answer."""
    try:
        wire.send(REST)
        return not wire.more()
    except (ConnectionResetError, BrokenPipeError):
        return True


@pytest.mark.core
@pytest.mark.parametrize("accept", ["shared", "reuseport"])
@pytest.mark.parametrize("kind", KINDS)
# shows N11
def test_both_serve(two, kind, accept):
    """Two connections at once, and each worker has room for one.  With a listener for each worker the kernel chooses,
    so forty clients connect, and each is served in its turn.  They are accepted with their requests, because a silent client
    keeps its seat for 40 ms only if others wait."""
    server = two(kind, "--accept", accept, *(["--defer-accept", "60s"] if accept == "reuseport" else []))
    wires = [server.wire() for _ in range(2 if accept == "shared" else 40)]
    if accept == "shared":
        for wire in wires:
            wire.send(HALF)
        wait_for(lambda: server.stats()["open"] == 2, "two are served")
        time.sleep(0.2)
        assert server.stats()["open"] == 2  # and no more
    for wire in wires:  # the first of each listener is served, ends, and the next gets its seat
        wire.send((b"" if accept == "shared" else HALF) + b"Connection: close\r\n" + REST)
    for wire in wires:
        assert wire.reply().body == HELLO
        wire.close()
    assert server.check_counts()["accepted"] == len(wires)


@pytest.mark.parametrize("kind", KINDS)
def test_counters_are_sums(two, kind):
    server = two(kind)
    wires = occupy(server)
    for wire in wires:
        wire.send(REST)
        assert wire.reply().body == HELLO
    for _ in range(4):
        for wire in wires:
            assert wire.ask("/hello.txt").body == HELLO
    wait_for(lambda: server.stats()["complete"] == 10, "ten answers")
    stats = server.stats()
    assert stats["open"] == stats["accepted"] == 2 and stats["answers"] == 10
    assert stats["body_bytes"] == 10 * len(HELLO)
    for wire in wires:
        wire.close()


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_seats_than_workers(start, standard, kind):
    """--max-connections 1, or as few because of the descriptors: each worker has a seat nevertheless."""
    for options, files in (["--max-connections", 1], None), ([], 32):
        server = start(standard, "--workers", 2, "--workers-as", kind, *options, files=files)
        for _ in range(10):
            assert server.ask("/hello.txt").body == HELLO


@pytest.mark.long
@pytest.mark.processes
# shows N10
def test_a_killed_worker_is_replaced(two):
    """The end is reported, the connection counted as lost, the other worker unharmed, and another takes its place."""
    server = two("process")
    for round_ in (1, 2):
        workers = wait_for(lambda: len(pids := lib.children(server.pid)) == 2 and pids, "two workers")
        wires = occupy(server)
        start = len(server.said)
        os.kill(workers[0], signal.SIGKILL)
        server.wait_said(r"worker \d was killed by signal 9.*another takes its place", start)
        wait_for(lambda: server.stats()["lost"] == round_, "one connection is lost")
        assert [gone(wire) for wire in wires].count(True) == 1
        survivor = next(wire for wire in wires if wire.rest)
        assert survivor.reply().body == HELLO
        assert survivor.ask("/hello.txt").body == HELLO
        new = wait_for(lambda: len(pids := lib.children(server.pid)) == 2 and pids, "another")
        assert workers[1] in new and workers[0] not in new
        for wire in wires:
            wire.close()
        wait_for(lambda: server.stats()["open"] == 0, "the survivor has left")
    for wire in occupy(server):  # both serve again
        wire.send(REST)
        assert wire.reply().body == HELLO
        wire.close()
    stats = wait_for(lambda: (s := server.stats())["open"] == 0 and s, "all have left")
    assert stats["accepted"] == stats["closed"] + stats["lost"] == 6 and stats["lost"] == 2
    server.process.send_signal(signal.SIGTERM)
    server.finish()


@pytest.mark.long
# shows N10
def test_those_who_wait_are_inherited(two):
    """The two workers are killed; clients that waited in the listener's queue are served by their successors.  The workers are
    stopped first, because they would close half-sent requests for those that wait."""
    server = two("process")
    wires = occupy(server)
    for pid in lib.children(server.pid):
        os.kill(pid, signal.SIGSTOP)
    late = [server.wire() for _ in range(3)]
    for wire in late:
        wire.send(request("/hello.txt", fields=["Connection: close"]))
    for pid in lib.children(server.pid):
        os.kill(pid, signal.SIGKILL)
    for wire in late:
        assert wire.reply().body == HELLO
        wire.close()
    for wire in wires:
        assert gone(wire)
        wire.close()
    wait_for(lambda: server.stats()["lost"] == 2, "two are lost")
    server.process.send_signal(signal.SIGTERM)
    server.finish()


def test_workers_do_not_outlive_their_supervisor(two):
    server = two("process")
    wires = occupy(server)
    pids = lib.children(server.pid)
    pids += [child for pid in pids for child in lib.children(pid)]
    assert len(pids) >= 2
    server.kill()
    wait_for(lambda: not any(alive(pid) for pid in pids), "all have died with it")
    assert all(gone(wire) for wire in wires)
    with pytest.raises(ConnectionRefusedError):
        server.wire()


@pytest.mark.processes
def test_who_forks_is_alone(two):
    """A child would inherit the locks that another thread holds, but no thread that releases them: it might hang."""
    server = two("process")
    assert os.listdir(f"/proc/{server.pid}/task") == [str(server.pid)]


@pytest.mark.core
@pytest.mark.parametrize("kind", KINDS)
def test_stop_reaches_all(two, kind):
    """The workers finish their answers; one without anything to do does not wait for long."""
    server = two(kind)
    wires = [server.wire(rcvbuf=65536) for _ in range(2)]
    for wire in wires:
        wire.send(request("/big.bin"))
        assert wire.head().length == BIG
    server.process.send_signal(signal.SIGTERM)
    server.wait_said("stopping: 2 connections open")
    for wire in wires:
        assert wire.take(BIG) == content("big", BIG)
        wire.end()
        wire.close()
    server.finish()


@pytest.mark.parametrize("kind", KINDS)
def test_second_signal_reaches_all(two, kind):
    server = two(kind)
    wires = [server.wire(rcvbuf=4096) for _ in range(2)]
    for wire in wires:
        wire.send(request("/big.bin") * 4)
        assert wire.head().length == BIG
    server.process.send_signal(signal.SIGTERM)
    server.wait_said("stopping: 2 connections open")
    server.process.send_signal(signal.SIGTERM)
    server.finish()
    for wire in wires:
        with pytest.raises((AssertionError, ConnectionResetError)):
            wire.take(4 * BIG)
        wire.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_log_is_opened_anew_everywhere(two, kind, tmp_path):
    log, old = tmp_path / "log", tmp_path / "log.1"
    server = two(kind, "--log", "json", "--log-file", log)

    def lines(path):
        return path.read_text().count("\n") if path.exists() else 0
    wires = occupy(server)
    for wire in wires:
        wire.send(REST)
        assert wire.reply().body == HELLO
    wait_for(lambda: lines(log) == 2, "two lines")
    os.rename(log, old)
    server.process.send_signal(signal.SIGHUP)
    server.wait_said("log reopened")
    for wire in wires:  # the same connections, so the same two workers
        assert wire.ask("/hello.txt").body == HELLO
    wait_for(lambda: lines(log) == 2, "two lines in the new file")
    assert lines(old) == 2
    for wire in wires:
        wire.close()
