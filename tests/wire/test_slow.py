# SPDX-License-Identifier: MIT
"""Clients that take their time: which are cut off and which are not
(slowloris, slow read, slow body).

Deadlines are set to a second. A cut may come late on a busy machine, never early: tests compare
with the deadline from below, and wait patiently above. A test starts its clock before it sends the bytes
that start the server's. A test's own clients may be late on such a machine, too: a client that was late
proves nothing, and tries again.
"""
import select
import threading
import time

import pytest
from lib.client import request
from lib.server import ENGINE
from lib.trees import content, sparse, write

BIG = 24 << 20


def cut_after(wire, begin, drip=b"", pause=0.05):
    """Seconds until the server ends the connection, while we drip; and the bytes it sent."""
    said, end = b"", time.monotonic() + 60
    while True:
        assert time.monotonic() < end, "never cut off"
        try:
            if select.select([wire.sock], [], [], pause)[0]:
                data = wire.sock.recv(4096)
                if not data:
                    break
                said += data
            elif drip:
                wire.sock.send(drip[:1])
                drip = drip[1:] + drip[:1]
        except (ConnectionResetError, BrokenPipeError):
            break
    return time.monotonic() - begin, said


@pytest.mark.long
@pytest.mark.core
@pytest.mark.parametrize("opening, drip", [
    (b"", b""), (b"GET / HTTP/1.1\r\nHost: x\r\n", b""), (b"G", b""), (b"GET /", b"aaaa"),
    (b"GET / HTTP/1.1\r\nHost: x\r\n", b"X: y\r\n"), (b"GET / HTTP/1.1\r\nHost: x\r\nX: ", b"a"),
    (b"\r\n", b"")], ids=["silent", "stops", "one byte", "target", "fields", "value", "empty line"])
# shows D33, U12
def test_head_deadline(start, standard, opening, drip):
    """The deadline is for the whole head: a byte now and then does not move it. 408 or nothing (RFC 9112 9.5)."""
    server = start(standard, "--head-timeout", "1s", "--idle-timeout", "30s")
    begin = time.monotonic()
    with server.wire() as wire:
        wire.send(opening)
        seconds, said = cut_after(wire, begin, drip)
        assert seconds > 0.9
        assert said == b"" or said.startswith(b"HTTP/1.1 408 ")
    assert server.ask("/hello.txt").status == 200
    assert server.stats()["expired"] >= 1


@pytest.mark.long
def test_head_deadline_of_a_later_request(start, standard):
    """The deadline counts from the request's first byte, however young the last answer is; pipelined or not."""
    server = start(standard, "--head-timeout", "1s", "--idle-timeout", "30s")
    for opening in (request("/hello.txt") + b"GET /", request("/hello.txt")):
        with server.wire() as wire:
            begin = time.monotonic()
            wire.send(opening)
            assert wire.reply().status == 200
            if not opening.endswith(b"/"):
                begin = time.monotonic()
            wire.send(b"x" if opening.endswith(b"/") else b"GET ")
            seconds, said = cut_after(wire, begin, b"abc")
            assert seconds > 0.9
            assert said == b"" or said.startswith(b"HTTP/1.1 408 ")


def ask_until(over, wire, pause, most):
    """Send requests with that pause: when the last began, or None if one was too late to be sure of an answer."""
    asked = sent = time.monotonic()
    while not over():
        before, asked = asked, time.monotonic()
        try:
            wire.send(request("/hello.txt"))
            sent = time.monotonic()
            assert wire.reply().body == b"Hello, world\n"
        except (OSError, AssertionError):
            if (sent if sent > asked else time.monotonic()) - before < most:
                raise
            return None
        time.sleep(pause)
    return asked


@pytest.mark.long
@pytest.mark.core
# shows K24, S05, S33
def test_idle_is_closed(start, standard):
    """An idle client is closed at --idle-timeout, without an answer; a client with requests in time is not."""
    server = start(standard, "--idle-timeout", "1s", "--head-timeout", "30s")
    for _ in range(10):
        with server.wire() as wire:
            end = time.monotonic() + 1.7
            asked = ask_until(lambda end=end: time.monotonic() > end, wire, 0.25, 0.9)
            if asked:
                seconds, said = cut_after(wire, asked)
                assert seconds > 0.9 and said == b""
                return
    pytest.fail("this machine is too busy for clients that ask in time")


@pytest.mark.long
@pytest.mark.core
# shows U12
def test_reader_that_stalls_is_cut(start, tree):
    """A client reads nothing for --send-timeout: the transfer is cut off."""
    sparse(f"{tree}/big.bin", 64 << 20, {})
    server = start(tree, "--send-timeout", "1s")
    with server.wire(rcvbuf=16384) as wire:
        begin = time.monotonic()
        wire.send(request("/big.bin"))
        assert wire.head().length == 64 << 20
        while server.stats()["open"]:
            assert time.monotonic() - begin < 60, "never cut off"
            time.sleep(0.05)
        assert time.monotonic() - begin > 0.9
    stats = server.stats()
    assert stats["expired"] == 1 and stats["broken"] == 1


@pytest.mark.long
# shows D14
def test_slow_reader_that_goes_on_survives(start, tree):
    """Progress counts, not speed: a client reads small pieces for several deadlines."""
    big = write(f"{tree}/big.bin", content("big", BIG))
    server = start(tree, "--send-timeout", "1s")
    with server.wire(rcvbuf=65536) as wire:
        wire.send(request("/big.bin"))
        assert wire.head().length == BIG
        got, begin = b"", time.monotonic()
        while time.monotonic() - begin < 2.5:
            got += wire.take(32768)
            time.sleep(0.05)
        assert got + wire.take(BIG - len(got)) == big


@pytest.mark.long
@pytest.mark.parametrize("fields, first",
                         [("Content-Length: 100000", b"x"),
                          ("Transfer-Encoding: chunked", b"fff\r\n")])
def test_slow_body_is_cut(start, standard, fields, first):
    """A byte now and then is less than --min-progress."""
    server = start(standard, "--send-timeout", "1s", "--head-timeout", "30s", "--idle-timeout",
                   "30s")
    begin = time.monotonic()
    with server.wire() as wire:
        wire.send(request("/hello.txt", "POST", [fields]) + first)
        seconds, said = cut_after(wire, begin, b"x")
        assert seconds > 0.9
        assert said == b"" or said.startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 405 "))


@pytest.mark.long
def test_body_that_goes_on_survives(start, standard):
    server = start(standard, "--send-timeout", "1s", "--min-progress", "1k", "--head-timeout", "1s",
                   "--idle-timeout", "1s")
    with server.wire() as wire:
        wire.send(request("/hello.txt", "GET", ["Content-Length: 60000"]))
        for _ in range(20):
            wire.send(bytes(3000))
            time.sleep(0.1)
        assert wire.reply().status == 200


@pytest.mark.capacity(101)
# shows N17
def test_slow_reader_and_a_hundred_others(start, tree):
    """One client reads a kilobyte of a large file now and then; the others get their files at full
    speed."""
    sparse(f"{tree}/big.bin", 1 << 30, {})
    body = write(f"{tree}/small.bin", content("small", 20_000))
    server = start(tree)
    wires = [server.wire() for _ in range(100)]

    def asked():
        begun = time.monotonic()
        for wire in wires:
            wire.send(request("/small.bin"))
        for wire in wires:
            assert wire.reply().body == body
        return time.monotonic() - begun
    alone, beside = [asked() for _ in range(5)], []
    with server.wire(rcvbuf=4096) as slow:
        slow.send(request("/big.bin"))
        assert slow.head().length == 1 << 30
        for turn in range(50):  # a busy machine may be slow at times, it is not slow each time
            assert slow.take(1024) == bytes(1024)
            beside.append(asked())
            if turn >= 4 and min(beside) < 3 * min(alone):
                break
        assert min(beside) < 3 * min(alone), (beside, alone)
        slow.reset()
    for wire in wires:
        wire.close()


@pytest.mark.capacity(60)
def test_slow_heads_do_not_hold_others_up(start, standard):
    """A client gets its answers in spite of fifty half requests (slowloris)."""
    server = start(standard, "--head-timeout", "30s")
    wires = [server.wire() for _ in range(50)]
    for wire in wires:
        wire.send(b"GET / HTTP/1.1\r\nX: y\r\n")
    with server.wire() as wire:
        for _ in range(50):
            assert wire.ask("/hello.txt").status == 200
    for wire in wires:
        wire.send(b"Host: x\r\n\r\n")
        assert wire.reply().status == 200
        wire.close()


@pytest.mark.long
@pytest.mark.capacity(40)
# shows D04, S10
def test_expiry_harms_nobody(start, standard):
    """Idle clients time out, again and again, while others keep sending requests: none of the others is
    cut off."""
    server = start(standard, "--idle-timeout", "500ms")
    stop, failures = threading.Event(), []

    def busy():
        try:
            while not stop.is_set():
                with server.wire() as wire:
                    ask_until(stop.is_set, wire, 0.02, 0.45)
        except Exception as error:  # the test fails with it
            failures.append(error)
    threads = [threading.Thread(target=busy, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(6):
        idle = [server.wire() for _ in range(25)]
        for wire in idle:
            wire.ask("/hello.txt")
        time.sleep(0.45)
        for i, wire in enumerate(idle):
            if i % 2:  # half of them ask again just when they expire
                try:
                    wire.send(request("/hello.txt"))
                except (BrokenPipeError, ConnectionResetError):
                    pass
            wire.close()
    stop.set()
    for thread in threads:
        thread.join(30)
    assert not failures


@pytest.mark.long
@pytest.mark.core
def test_slow_reader_that_has_said_all(start, tree):
    """The end of the client's stream is there all the time it reads: the server neither spins on it nor forgets it."""
    sparse(f"{tree}/big.bin", BIG, {})
    server = start(tree)
    with server.wire(rcvbuf=4096) as wire:
        wire.send(request("/big.bin"))
        wire.finish()
        time.sleep(0.5)  # until its socket is full
        before = server.cpu_seconds()
        time.sleep(1.5)
        assert server.cpu_seconds() - before < (0.7 if ENGINE == "nonblock" else 0.3), "spins"
        reply = wire.reply()
        assert reply.status == 200 and len(reply.body) == BIG
        wire.end()
    server.check_counts()


@pytest.mark.long
# shows D09, K25, N05, S05
def test_waiting_costs_nothing(start, standard, enough):
    """A server with an idle client sleeps until something happens or its time is up.

    If there is only one seat, all seats are taken: then the watchdog checks fifty times a second
    whether another client waits for it.  nonblock does not wait: it naps, a millisecond at the longest.
    """
    rate = 0 if enough > 1 else 50
    if ENGINE == "nonblock":
        rate = 1000
    server = start(standard)
    with server.wire() as wire:
        wire.ask("/hello.txt")
        time.sleep(2)  # a watchdog may still be checking for a while
        begin, before, cpu_before = time.monotonic(), server.wake_ups(), server.cpu_seconds()
        time.sleep(2)
        woken = server.wake_ups() - before
        assert woken <= 10 + rate * (time.monotonic() - begin)
        assert server.cpu_seconds() - cpu_before < (1 if ENGINE == "nonblock" else 0.2)
