# SPDX-License-Identifier: MIT
"""Many connections: silent clients that block no other client, cost no time, and are closed at their deadline; and clients
that come and go."""
import contextlib
import os
import random
import re
import resource
import select
import socket
import threading
import time

import left
import pytest
from lib import crowd, module
from lib.client import request
from lib.served import wait_for

pytestmark = pytest.mark.long
HELLO = b"Hello, world\n"
MANY = min(1000, module.row()["capacity"] - 8)
CHURN = 1000
BUFFER_KIB = 36  # of a client that has sent half a head
KEPT = 200       # spare buffers at most, of two processors and both kinds
SLOW = float(os.environ.get("RUNG_SLOW") or 1)  # times as slow as a guest that has processors to itself
PATIENT = ("--head-timeout", "10m", "--idle-timeout", "10m", "--send-timeout", "10m")


def busy_s():
    """Seconds that all processors together have worked."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(field) for field in file.readline().split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / 100  # user, nice, system; interrupts, steal


# shows D03, E21
def test_silent_ones_keep_nobody_out(start, site):
    """With a work item for each connection, the 257th client of a naive module waits for ever."""
    server = start(site, *PATIENT)
    wires = crowd.arrive(server, MANY, lambda _: b"")
    before = time.monotonic()
    for _ in range(10):
        assert server.ask("/hello.txt").body == HELLO
    assert time.monotonic() - before < 5
    if module.MODEL not in module.BLOCKING:
        assert len(left.threads()) <= 4, "threads for connections"
    crowd.leave(wires)
    server.check_counts()


@pytest.mark.parametrize("wq", ["bound", "unbound"])
# shows K08
def test_silent_ones_in_either_queue(start, site, wq):
    """More connections than a queue runs at once: a new client is served in time, and the module is unloaded in time."""
    server = start(site, *PATIENT, "--wq", wq)
    wires = crowd.arrive(server, min(600, MANY), lambda _: b"")
    before = time.monotonic()
    assert server.ask("/hello.txt").body == HELLO
    assert time.monotonic() - before < 5
    before = time.monotonic()
    server.kill()
    assert time.monotonic() - before < 1 + 3 * SLOW
    crowd.leave(wires)


# shows K24
def test_who_rests_is_closed_in_time(start, site):
    """After the time-out, and soon after; a client that goes on asking stays, and the seat of one that vanished is released."""
    server = start(site, "--idle-timeout", "1s", "--head-timeout", "10s")
    with server.wire() as idle, server.wire() as active, server.wire() as gone:
        assert gone.ask("/hello.txt").body == HELLO  # it says nothing more, and reads nothing
        for _ in range(3):
            assert active.ask("/hello.txt").body == HELLO
            assert idle.ask("/hello.txt").body == HELLO
        rests, ended = time.monotonic(), None
        while time.monotonic() - rests < 4:
            assert active.ask("/hello.txt").body == HELLO
            if not ended and select.select([idle.sock], [], [], 0)[0]:
                assert idle.sock.recv(1) == b""
                ended = time.monotonic() - rests
            time.sleep(0.05)
        assert ended and 0.9 < ended < 1.4 + 0.3 * SLOW, ended
        assert active.ask("/hello.txt").body == HELLO and server.stats()["open"] == 1 and server.stats()["expired"] == 2


# shows K25
def test_accepting_does_not_wait_for_a_look(start, site):
    """The time from connecting to the answer, after a silence, does not include an interval of polling."""
    server, took = start(site, *PATIENT), []
    for _ in range(20):
        time.sleep(0.2)
        before = time.monotonic()
        assert server.ask("/hello.txt").body == HELLO
        took.append(time.monotonic() - before)
    assert sorted(took)[10] < 0.05 * SLOW, took


def busy_beside(server, count):
    """Seconds of work in three seconds, while `count` connections are idle."""
    wires = crowd.arrive(server, min(count, MANY))
    time.sleep(1)
    before = busy_s()
    time.sleep(3)
    worked = busy_s() - before
    crowd.leave(wires)
    return worked


# shows K25
def test_waiting_costs_little(start, site):
    """The blocking models poll now and then: a hundred connections together take less than a tenth of a processor."""
    assert busy_beside(start(site, *PATIENT), 100) < 0.3 + 0.2 * SLOW, "spins"


@pytest.mark.skipif(module.MODEL in module.BLOCKING, reason="who blocks looks round now and then")
# shows D19, K25
def test_waiting_costs_nothing(start, site):
    """Nothing else runs in this guest."""
    assert busy_beside(start(site, *PATIENT), 200) < 0.5, "spins"


# shows D19, K24
def test_their_time_is_up(start, site):
    """All expire at once, and each is counted."""
    server = start(site, "--head-timeout", "2s", "--idle-timeout", "1s")
    count = min(300, MANY)
    wires = crowd.arrive(server, count, lambda i: (b"", request("/hello.txt")[:9], request("/hello.txt"))[i % 3])
    wait_for(lambda: server.stats()["open"] == 0, "all have gone")
    assert server.stats()["expired"] > 0
    crowd.leave(wires)
    server.check_counts()


def memory_kib():
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(file.readline().split()[1])


@pytest.mark.skipif(module.MODEL in module.BLOCKING, reason="it has fewer seats")
def test_half_heads_have_a_quarter_of_the_memory(kernel, start, site):
    """Otherwise a cheap trick would make the kernel kill other processes.  A client that needs a buffer beyond that is closed and
    counted."""
    kernel.expects("net_ratelimit: ")  # "too many orphaned sockets": the clients close more at once than tcp_max_orphans
    most, half = memory_kib() // 4 // BUFFER_KIB, request("/hello.txt")[:20]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most + 2000, most + 2000))
    server = start(site, *PATIENT)
    wires = crowd.arrive(server, most - KEPT, lambda _: half)
    wait_for(lambda: server.stats()["receives"] >= most - KEPT, "all heads have begun")
    assert server.ask("/hello.txt").body == HELLO
    assert server.stats()["no_buffer"] == 0
    wires += [server.wire() for _ in range(3 * KEPT)]
    for wire in wires[-3 * KEPT:]:
        wire.send(half)
    wait_for(lambda: server.stats()["no_buffer"] >= KEPT, "who is too many is closed")
    assert server.stats()["open"] <= most + KEPT
    crowd.leave(wires)
    wait_for(lambda: server.stats()["open"] == 0, "all have gone")
    assert server.ask("/hello.txt").body == HELLO
    server.check_counts()


def ask_and_rest(server, count, seconds):
    """`count` clients ask, rest for about as long as it takes to lose a seat, and ask again; one that lost its seat reconnects."""
    with contextlib.ExitStack() as stack:
        poll, wires, due, end = select.poll(), {}, {}, time.monotonic() + seconds
        while time.monotonic() < end:
            while len(wires) < count:
                wire = stack.enter_context(socket.create_connection(server.address))
                wires[wire.fileno()] = wire
                due[wire.fileno()] = 0
                poll.register(wire, select.POLLIN)
            for fd in [fd for fd, at in due.items() if at <= time.monotonic()]:
                del due[fd]
                with contextlib.suppress(OSError):
                    wires[fd].send(request("/hello.txt"))
            for fd, _ in poll.poll(1):
                with contextlib.suppress(ConnectionError):
                    if wires[fd].recv(4096):
                        due[fd] = time.monotonic() + random.uniform(0.036, 0.06)
                        continue
                poll.unregister(fd)
                wires.pop(fd).close()
                due.pop(fd, None)
        time.sleep(0.5)  # no client leaves while it waits for an answer


def test_who_has_asked_is_answered(start, site):
    """Clients ask just when they lose their seats: the server answers every request that it has received."""
    server = start(site, *PATIENT, "--max-connections", "8")
    ask_and_rest(server, 16, 15)
    stats = server.check_counts()
    assert stats["evicted"] > 50 and stats["broken"] == 0


# shows D02
def test_come_and_go(start, site, record_property):
    """One request each; the clients end in three ways.  Every socket, and everything else that is counted, is given back
    while the module stays."""
    server = start(site)
    plain, last = request("/hello.txt"), request("/hello.txt", fields=["Connection: close"])
    together, begin, before = 20, time.monotonic(), None
    for number in range(CHURN // together):
        if number == 5:  # objects kept for reuse exist by now
            before = left.at_rest()
        wires = [server.wire() for _ in range(together)]
        for i, wire in enumerate(wires):
            wire.send(last if i % 3 == 0 else plain)
        for i, wire in enumerate(wires):
            assert wire.reply().body == HELLO
            if i % 3 == 1:
                wire.reset()
            else:
                wire.close()
    stats = server.check_counts()
    assert stats["accepted"] == CHURN and stats["complete"] >= CHURN
    wait_for(lambda: len(module.sockets(server.port)) == server.listeners, "no socket is left")
    assert left.more(before) == {}
    record_property("churn", f"{CHURN} connections, {CHURN / (time.monotonic() - begin):.0f} a second (emulated)")


def begun():
    """Processes and threads started on this machine so far."""
    return int(re.search(r"^processes (\d+)", left.text_of("/proc/stat"), re.M)[1])


# shows E03, K05
def test_who_begins_a_thread_for_each(start, site):
    """Only kthread does."""
    server = start(site)
    server.ask("/hello.txt")
    before = begun()
    for _ in range(200):
        assert server.ask("/hello.txt").body == HELLO
    new = begun() - before
    assert (new >= 200) if module.MODEL == "kthread" else (new < 50), new


def connected(address):
    """Connects within half a second: longer than the kernel takes, and shorter than its next attempt."""
    sock = socket.socket()
    sock.settimeout(0.5)
    try:
        sock.connect(address)
    except TimeoutError:
        sock.close()
        return None
    return sock


@contextlib.contextmanager
def reading(wires):
    """While the block runs, these clients read, each some 100 kB a second."""
    ending = threading.Event()

    def read():
        while not ending.wait(0.04):
            for wire in wires:
                assert wire.sock.recv(4096)
    thread = threading.Thread(target=read)
    thread.start()
    yield
    ending.set()
    thread.join()


# shows K03
def test_twice_the_backlog(start, site):
    """All connect at once: the kernel repeats a handshake that finds no room a second later, and it succeeds."""
    server, poll, socks = start(site, *PATIENT, "--backlog", "50"), select.poll(), {}
    for _ in range(100):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(server.address)
        socks[sock.fileno()] = sock
        poll.register(sock, select.POLLOUT)
    end, made = time.monotonic() + 20, 0
    while made < 100 and time.monotonic() < end:
        for fd, _ in poll.poll(1000):
            poll.unregister(fd)
            assert socks[fd].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            made += 1
    assert made == 100
    for sock in socks.values():
        sock.setblocking(True)
        sock.settimeout(20)
        sock.sendall(request("/hello.txt", fields=["Connection: close"]))
    for sock in socks.values():
        assert HELLO in sock.recv(4096)
        sock.close()


# shows K03
def test_the_backlog_is_listen_s(start, site):
    """As many connections as the backlog says wait to be accepted, plus one, as Linux counts; the next handshake must wait."""
    server = start(site, *PATIENT, "--max-connections", "2", "--backlog", "5")
    wires = [server.wire(rcvbuf=4096) for _ in range(2)]
    for wire in wires:
        wire.send(request("/giant.bin"))
        assert wire.head().status == 200
    with reading(wires):  # clients that read nothing for half a second lose their seats to waiting ones
        waiting = [connected(server.address) for _ in range(8)]
        assert [sock is not None for sock in waiting] == [True] * 6 + [False] * 2
        for sock in waiting[:6]:
            sock.settimeout(20)
            sock.sendall(request("/hello.txt", fields=["Connection: close"]))  # a silent one may be closed for the next one
    crowd.leave(wires)
    for sock in waiting[:6]:
        assert HELLO in sock.recv(4096)
        sock.close()
