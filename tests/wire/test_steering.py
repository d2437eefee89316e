# SPDX-License-Identifier: MIT
"""Which worker gets a connection, and where it runs: --accept shared, reuseport, steered; --pin.

Killing a worker shows which connections it holds: they are lost, and the supervisor reports its number.  Over
loopback a connection is received by the processor that its client runs on.
"""
import contextlib
import os
import re
import signal

import pytest
from lib import server as lib
from lib.client import Wire
from lib.server import wait_for

HELLO = b"Hello, world\n"
CPUS = sorted(os.sched_getaffinity(0))
ONE_EACH = {cpu % 2: cpu for cpu in CPUS}  # worker of two -> a processor of its own
KINDS = ["process", "thread"] if lib.workers_may_be_threads() else ["process"]
PROCESSES = ("--workers", 2, "--workers-as", "process")
two_cpus = pytest.mark.skipif(len(ONE_EACH) < 2, reason=f"needs an even and an odd processor, and has {CPUS}")
pytestmark = [pytest.mark.processes, pytest.mark.userspace("threads or processes that work"),
              pytest.mark.skipif(bool(lib.ARGS), reason="workers are this file's own business")]


@contextlib.contextmanager
def running_on(*cpus):
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def kill_one(server, pid):
    """Kill a worker; returns its number, and how many connections are lost."""
    start, lost = len(server.said), server.stats()["lost"]
    pids = lib.children(server.pid)
    os.kill(pid, signal.SIGKILL)
    number = int(re.search(r"worker (\d+) was killed", server.wait_said(r"worker \d+ was killed", start))[1])
    wait_for(lambda: len(now := lib.children(server.pid)) == len(pids) and pid not in now, "another in its place")
    return number, server.stats()["lost"] - lost


def held(server, workers=2):
    """Connections of each worker, by number.  Afterwards all of them are lost."""
    pids = wait_for(lambda: len(found := lib.children(server.pid)) == workers and found, "all workers")
    return [count for _, count in sorted(kill_one(server, pid) for pid in pids)]


def crowd(server, count, cpus=None):
    """Connections that have been answered once and stay."""
    wires = []
    for n in range(count):
        with running_on(cpus[n % len(cpus)]) if cpus else contextlib.nullcontext():
            wires.append(server.wire())
        assert wires[-1].ask("/hello.txt").body == HELLO
    return wires


def end(server, wires):
    for wire in wires:
        wire.close()
    server.process.send_signal(signal.SIGTERM)
    server.finish()


@two_cpus
@pytest.mark.parametrize("worker", [0, 1])
def test_steered_to_the_processors_worker(start, standard, worker):
    """Connections are steered on every address, also to the worker that takes a dead one's place."""
    server = start(standard, *PROCESSES, "--accept", "steered")
    for address in server.addresses:
        wires = []
        with running_on(ONE_EACH[worker]):
            wires.append(Wire(address))
        assert wires[0].ask("/hello.txt").body == HELLO
        counts = held(server)
        assert counts[worker] == 1 and sum(counts) == 1
        for wire in wires:
            wire.close()
    server.process.send_signal(signal.SIGTERM)
    server.finish()


@two_cpus
@pytest.mark.capacity(32)
def test_steered_evenly(start, standard):
    server = start(standard, *PROCESSES, "--accept", "steered", "--pin", "on")
    wires = crowd(server, 40 if lib.engine_row()["capacity"] == 0 else 20, [ONE_EACH[0], ONE_EACH[1]])
    assert held(server) == [len(wires) / 2] * 2
    end(server, wires)


def watched(server):
    """The descriptors in each epoll set of a server."""
    found = {}
    for fd in os.listdir(f"/proc/{server.pid}/fd"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{server.pid}/fdinfo/{fd}") as file:
            if "eventpoll" in os.readlink(f"/proc/{server.pid}/fd/{fd}"):
                found[fd] = set(map(int, re.findall(r"^tfd:\s*(\d+)", file.read(), re.M)))
    return found


@two_cpus
@pytest.mark.skipif(lib.ENGINE != "epoll", reason="looks into epoll's sets")
def test_steered_to_threads(start, standard):
    """Workers that are threads: the client is in the set that has the listener of its processor."""
    server = start(standard, "--workers", 2, "--accept", "steered", "--pin", "on", "--bind", "127.0.0.1")
    server.rest()
    listeners = sorted(int(fd) for fd in os.listdir(f"/proc/{server.pid}/fd")
                       if os.readlink(f"/proc/{server.pid}/fd/{fd}").startswith("socket:"))
    assert len(listeners) == 2
    for worker, cpu in sorted(ONE_EACH.items()) * 3:
        before = watched(server)
        with running_on(cpu):
            wire = server.wire()
        assert wire.ask("/hello.txt").body == HELLO
        sets = wait_for(lambda: [fds for name, fds in watched(server).items()  # it may be in one only after its answer
                                 if fds - before[name]], "it is in a set")  # pylint: disable=cell-var-from-loop
        assert len(sets) == 1 and listeners[worker] in sets[0]
        wire.close()
        wait_for(lambda: watched(server) == before, "it has left")  # pylint: disable=cell-var-from-loop


@pytest.mark.capacity(200)
# shows N10
def test_reuseport_spreads(start, standard):
    """The kernel spreads by a hash: no worker is left out, nor far behind."""
    server = start(standard, *PROCESSES, "--accept", "reuseport")
    wires = crowd(server, 200)
    counts = held(server)
    assert sum(counts) == 200 and min(counts) >= 60, counts
    end(server, wires)


@pytest.mark.skipif(lib.ENGINE not in ("epoll", "coro", "uring", "select", "poll"),
                    reason="has other threads or processes to wake, or sleeps on nothing")
# shows N09
def test_shared_wakes_no_herd(start, standard):
    """Four workers sleep on a listener: with EPOLLEXCLUSIVE a connection wakes one, now and then two.  select and poll
    wake all."""
    server = start(standard, "--workers", 4, "--workers-as", "process", "--head-timeout", "10m")
    server.rest()
    before = server.wake_ups()
    wires = []
    for _ in range(200):
        wires.append(server.wire())
        server.rest()
    woken = (server.wake_ups() - before) / 200
    if lib.ENGINE in ("select", "poll"):
        assert woken > 2, woken
    else:
        assert woken < 2, woken
    for wire in wires:
        assert wire.ask("/hello.txt").body == HELLO
        wire.close()


@pytest.mark.parametrize("accept", ["reuseport", "steered"])
def test_unix_sockets_are_shared(start, standard, tree, accept):
    """Unix sockets have one queue, whatever the other listeners have."""
    if accept == "steered" and len(CPUS) < 2:
        pytest.skip("needs two processors")
    path = f"{tree}/rung.sock"
    server = start(standard, *PROCESSES, "--accept", accept, "--bind", "127.0.0.1", "--bind", f"unix:{path}", "--port", 0)
    for _ in range(4):
        assert server.ask("/hello.txt").body == HELLO
        with Wire(path) as wire:
            assert wire.ask("/hello.txt").body == HELLO


# --- Pinned ------------------------------------------------------------------------------------------------

def allowed(pid):
    """For each of its threads, the processors it may use; none when it has ended."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):
            found.append(os.sched_getaffinity(int(task)))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_pinned(start, standard, kind):
    """Each worker, with all its threads, is on its processor; more workers share the processors, and rung says so."""
    workers = len(CPUS) + 1
    server = start(standard, "--workers", workers, "--workers-as", kind, "--pin", "on", "--idle-timeout", "1h")
    assert f"--pin on: {workers} workers share {len(CPUS)} processors" in server.text()
    with server.wire() as wire:
        assert wire.ask("/hello.txt").body == HELLO  # served by a thread or process started after pinning
        server.rest()
        if kind == "thread":
            pinned = [cpus for cpus in allowed(server.pid) if cpus != set(CPUS) or len(CPUS) == 1]
            assert {cpu for cpus in pinned for cpu in cpus} == set(CPUS) and len(pinned) >= workers
        else:
            wants = [CPUS[n % len(CPUS)] for n in range(workers)]
            for cpu, pid in zip(wants, sorted(lib.children(server.pid)), strict=True):
                for one in [pid, *lib.children(pid)]:
                    assert allowed(one) and all(cpus == {cpu} for cpus in allowed(one)), (one, cpu)


@pytest.mark.parametrize("cpu", [CPUS[0], CPUS[-1]])
def test_pinned_to_what_may_be_used(start, standard, cpu):
    with running_on(cpu):
        server = start(standard, "--workers", 1, "--pin", "on")
    assert server.ask("/hello.txt").body == HELLO
    assert all(cpus == {cpu} for pid in server.pids() for cpus in allowed(pid))
    assert "share" not in server.text()


def test_not_pinned_unless_asked(start, standard):
    server = start(standard, *PROCESSES)
    assert server.ask("/hello.txt").body == HELLO
    assert all(cpus == set(CPUS) for pid in server.pids() for cpus in allowed(pid))
