# SPDX-License-Identifier: MIT
"""Crowds: ten thousand at once, thousands that are idle, thousands of clients that connect and leave.

How many depends on the engine and on the limit of descriptors: a connection takes one here and one in the
server.  No speed is asserted, but how it changes when a crowd is there.  The cost of a connection is
reported in lines that begin with `crowd:`.
"""
import collections
import threading
import time

import pytest
from lib import crowd
from lib.client import request
from lib.crowd import HELLO
from lib.server import ENGINE, wait_for
from lib.trees import GIANT_MARKS, content, sparse, write

PATIENT = ["--head-timeout", "300s", "--idle-timeout", "300s"]  # no client is closed for being idle

# KiB of memory for a connection that has been answered and is idle: three times what is measured or more.
KIB_MAX = {"fork": 400, "thread": 160, "pool": 64, "coro": 24}
KIB_MAX_LOOP = 2
# Engines that learn which connections are ready without looking at each.
TOLD = ("epoll", "dispatch", "coro")
# Connections that are made and closed; a process takes a hundred times as long to make as a session.
CHURN = {"fork": 1_500, "naive": 5_000, "thread": 20_000, "epoll": 100_000}
CHURN_OTHERS = 30_000  # engines whose loop is epoll's: a hundred thousand are tried on one of them
# Bytes.  Threads that begin and end leave heaps behind, more or fewer of them by chance.
CHURN_GROWTH = {"thread": 3 << 20}
CHURN_GROWTH_OTHERS = 1 << 20


def at_once(engine, most=10_000, beside=0):
    has = engine["capacity"] or most + beside  # 0: as many as descriptors
    if engine["may_block"]:
        has = min(has, crowd.threads())
    return min(most, has - beside, crowd.room())


@pytest.mark.long
@pytest.mark.capacity(16)
# shows D11, N07, N25
def test_ten_thousand_at_once(start, standard, engine, record_property):
    """All are connected, all send a request at the same time, all are answered; then the cost of an idle one."""
    count = at_once(engine)
    server = start(standard, "--max-connections", count, *PATIENT)
    server.ask("/hello.txt")
    before = crowd.settled(server, server.memory)
    wires = crowd.arrive(server, count)
    assert server.stats()["open"] == count
    data = request("/hello.txt")
    for wire in wires:
        wire.send(data)
    for wire in wires:
        assert wire.reply().body == HELLO
    stats = server.stats()
    assert stats["open"] == count and stats["evicted"] == 0 and stats["refused"] == 0
    kib = (server.memory() - before) / 1024 / count
    record_property("crowd", f"{engine['name']}: {count} connections at once, {kib:.2f} KiB each in user space")
    assert crowd.sanitized() or kib <= KIB_MAX.get(engine["name"], KIB_MAX_LOOP)
    crowd.leave(wires)


@pytest.mark.long
@pytest.mark.capacity(16)
def test_idle_crowd(start, standard, engine, record_property):
    """Some have sent nothing, some half a request, some are between two requests.  The other clients are
    served on every engine, and notice no crowd where the kernel reports the ready connections."""
    told = engine["name"] in TOLD
    count = at_once(engine, crowd.PORTS if told else 5_000, beside=8)
    server = start(standard, "--max-connections", count + 8, *PATIENT)
    openings = [b"", request("/hello.txt")[:20], request("/hello.txt")]
    with server.wire() as wire:
        alone = min(crowd.seconds_for(wire, 200) for _ in range(5))
        wires = crowd.arrive(server, count, lambda i: openings[i % 3])
        beside = min(crowd.seconds_for(wire, 200) for _ in range(5 if told else 1))
        for _ in range(50):  # a busy machine may be slow at times, it is not slow each time
            if not told or beside < 4 * alone:
                break
            beside = min(beside, crowd.seconds_for(wire, 200))
        record_property("crowd", f"{engine['name']}: {count} idle connections make requests take "
            f"{beside / alone:.1f} times as long")
        assert not told or beside < 4 * alone
    for i in range(0, count, 97):  # and the idle ones are still served
        if i % 3 == 1 and (i + 1) % crowd.BATCH and i + 1 < count:
            wires[i].send(request("/hello.txt")[20:])
        else:
            wires[i].send(request("/hello.txt"))
        assert wires[i].reply().body == HELLO
    stats = server.stats()
    assert stats["open"] >= count and stats["evicted"] == 0
    crowd.leave(wires)


@pytest.mark.capacity(16)
def test_more_than_there_is_room_for(start, standard, enough):
    """Three times as many clients as seats, and none of them leaves: idle ones are closed, each new one is served."""
    seats = min(32, enough)
    server = start(standard, "--max-connections", seats, *PATIENT)
    wires = crowd.arrive(server, 3 * seats, lambda i: b"" if i % 4 == 0 else request("/hello.txt"))
    for _ in range(20):
        assert server.ask("/hello.txt").body == HELLO
    stats = server.stats()
    assert stats["evicted"] >= 2 * seats and stats["refused"] == 0, stats
    crowd.leave(wires)


@pytest.mark.long
@pytest.mark.capacity(16)
@pytest.mark.skipif(ENGINE not in ("epoll", "uring", "dispatch", "thread"), reason="half a minute: the others wait as one of these")
# shows N25
def test_ten_thousand_in_ten_seconds(start, standard, engine, record_property):
    """A thousand clients connect each second, send a request, stay for ten and send another: all are answered."""
    count = at_once(engine)
    server = start(standard, "--max-connections", count, *PATIENT)
    data, begun, waiting, late = request("/hello.txt"), time.monotonic(), collections.deque(), 0.0
    before = crowd.settled(server, server.memory)

    def second_time():
        wire, at = waiting.popleft()
        time.sleep(max(0, at - time.monotonic()))
        assert wire.ask("/hello.txt").body == HELLO
        wire.close()
    for number in range(count):
        due = begun + number / 1000
        while waiting and waiting[0][1] < due:
            second_time()
        time.sleep(max(0, due - time.monotonic()))
        late = max(late, time.monotonic() - due)
        wire = server.wire()
        wire.send(data)
        assert wire.reply().body == HELLO
        waiting.append((wire, time.monotonic() + 10))
    stats, kib = server.stats(), (server.memory() - before) / 1024
    while waiting:
        second_time()
    assert stats["refused"] == stats["evicted"] == stats["expired"] == 0 and stats["open"] > 0.5 * count, stats
    record_property("crowd", f"{engine['name']}: {count} came in {time.monotonic() - begun - 10:.1f} s, {stats['open']} at once, "
                    f"{kib / stats['open']:.2f} KiB each, at most {late:.1f} s late")
    assert crowd.sanitized() or kib / stats["open"] <= KIB_MAX.get(engine["name"], KIB_MAX_LOOP)


@pytest.mark.capacity(16)
def test_idle_ones_stay_while_there_is_room(start, standard):
    """Thousands of others connect and leave, but there is always a free seat: no idle connection is closed for it."""
    server = start(standard, *PATIENT)
    idle = crowd.arrive(server, 4)
    time.sleep(0.2)  # idle for longer than those that are never closed
    come_and_go(server, 3_000, 8)
    assert server.stats()["evicted"] == 0
    for wire in idle:
        assert wire.ask("/hello.txt").body == HELLO
    crowd.leave(idle)


class Reader(threading.Thread):
    """Reads a large file at rate bytes a second until over is set."""

    def __init__(self, wire, rate):
        super().__init__(daemon=True)
        self.wire, self.rate, self.got, self.error, self.over = wire, rate, 0, None, False

    def run(self):
        begin = time.monotonic()
        try:
            while not self.over:
                due = int((time.monotonic() - begin) * self.rate) - self.got
                if due > 0:
                    self.got += len(self.wire.take(min(due, 4096)))
                else:
                    time.sleep(0.02)
        except Exception as error:  # the test fails with it
            self.error = error


@pytest.mark.long
@pytest.mark.capacity(16)
# shows N17
def test_slow_reader_lives_and_stalled_one_dies(start, tree, enough):
    """Progress is measured by the client's acknowledgements.  64 KB a second through a receive buffer of 4 KiB never
    empties the kernel's send buffer in --send-timeout, but is progress; reading nothing is none.  Three seconds, because
    the reader is a thread of this busy process and has been late by one second."""
    sparse(f"{tree}/big.bin", 1 << 30, {})
    body = write(f"{tree}/small.bin", content("small", 20_000))
    server = start(tree, "--send-timeout", "3s", "--idle-timeout", "300s")
    slow, stalled = server.wire(rcvbuf=4096), server.wire(rcvbuf=4096)
    for wire in (slow, stalled):
        wire.send(request("/big.bin"))
        assert wire.head().length == 1 << 30
    reader = Reader(slow, 64 * 1024)
    reader.start()
    others = [server.wire() for _ in range(min(100, enough - 4))]
    begin, rounds = time.monotonic(), 0
    while time.monotonic() - begin < 6.5:
        for wire in others:
            wire.send(request("/small.bin"))
        for wire in others:
            assert wire.reply().body == body
        rounds += 1
        time.sleep(0.1)
    assert reader.error is None and reader.got > 4 * 4096, (reader.error, reader.got)
    wait_for(lambda: server.stats()["expired"] == 1, "the one that reads nothing is cut")
    got = reader.got
    wait_for(lambda: reader.got > got + 4096 or reader.error, "the slow one goes on")
    reader.over = True
    reader.join(60)
    assert reader.error is None and server.stats()["broken"] == 1 and rounds >= 3
    crowd.leave([*others, slow, stalled])


def opened_and_said(server, count):
    """Clients that request a large file and read nothing: returns which are served, refused or waiting."""
    served, refused, waiting = [], 0, []
    for i in range(count):
        wire = server.wire(rcvbuf=4096)
        wire.sock.settimeout(60 if i < 400 else 0.5)  # later ones may have to wait for ever
        try:
            wire.send(request("/giant.bin"))
            assert wire.head().status == 200
            served.append(wire)
        except (ConnectionResetError, BrokenPipeError):
            refused += 1
            wire.close()
        except TimeoutError:
            waiting.append(wire)
        except AssertionError as error:
            assert "stream ended" in str(error), error
            refused += 1
            wire.close()
        if len(waiting) == 3:
            break
    return served, refused, waiting


@pytest.mark.long
# shows D11, N06
def test_descriptors_beyond_a_set(start, standard, engine):
    """select: a bit beyond FD_SETSIZE is never set.  Files being sent take numbers too, so sockets reach it
    before the seats are full; those are refused or wait, and no other client is affected."""
    if engine["name"] != "select":
        pytest.skip("only select has sets of a fixed size")
    if crowd.room() < 1600:
        pytest.skip("needs 1,600 descriptors")
    server = start(standard, "--send-timeout", "300s", *PATIENT)
    early = [server.wire() for _ in range(20)]
    for wire in early:
        assert wire.ask("/hello.txt").body == HELLO
    served, refused, waiting = opened_and_said(server, 700)
    assert refused + len(waiting) > 0 and len(served) >= 400, (len(served), refused, len(waiting))
    stats = server.stats()
    assert stats["refused"] == refused, (stats, refused)
    for wire in early:
        assert wire.ask("/size/65536.bin").body == content(65536, 65536)
    first = GIANT_MARKS[0]
    for wire in served:
        wire.sock.settimeout(60)
        assert wire.take(len(first)) == first
        assert wire.take(50_000) == bytes(50_000)
    crowd.leave(served + waiting)
    wait_for(lambda: server.stats()["open"] == len(early), "room again")
    late = crowd.arrive(server, 500)
    for wire in early + late:
        assert wire.ask("/hello.txt").body == HELLO
    crowd.leave(early + late)


OPENINGS = [b"", request("/hello.txt")[:17], request("/size/1048576.bin"), request("/hello.txt")]


@pytest.mark.long
@pytest.mark.capacity(16)
# shows D04, D05
def test_twenty_resets_harm_nobody(start, standard, enough):
    """Twenty clients leave with a reset; twenty others get their descriptors, and live on beyond the
    deadlines of the first."""
    few, longest = min(20, enough // 4), 0
    server = start(standard, "--head-timeout", "1s", "--idle-timeout", "60s")
    steady = []
    for _ in range(few):
        steady.append(server.wire())
        steady[-1].send(request("/hello.txt"))  # at once: a silent one has a second
    for wire in steady:
        assert wire.reply().body == HELLO
    for turn in range(4):
        begin = time.monotonic()
        guilty = [server.wire(rcvbuf=8192) for _ in range(few)]
        for i, wire in enumerate(guilty):
            wire.send(OPENINGS[(i + turn) % 4])
        for wire in steady:
            assert wire.ask("/hello.txt").body == HELLO
        for wire in guilty:
            wire.reset()
        longest = max(longest, time.monotonic() - begin)
        heirs = []
        for _ in range(few):
            heirs.append(server.wire())
            heirs[-1].send(request("/size/65536.bin"))
        for wire in heirs:
            assert wire.reply().body == content(65536, 65536)
        for wire in steady:
            assert wire.ask("/size/65536.bin").body == content(65536, 65536)
        if turn == 0:
            time.sleep(1.3)
        for wire in heirs + steady:
            assert wire.ask("/hello.txt").body == HELLO
        crowd.leave(heirs)
    stats = server.stats()
    assert stats["evicted"] == 0 and (stats["expired"] == 0 or longest > 0.9), (stats, longest)  # the first, on a busy machine
    crowd.leave(steady)


def test_five_hundred_resets_in_a_row(start, standard):
    """Clients reset one after the other, at every stage: no descriptor more is open than before."""
    server = start(standard)
    server.ask("/list/")  # files that are opened once and kept are open now
    before = crowd.settled(server, server.files)
    for i in range(500):
        wire = server.wire(rcvbuf=8192)
        try:
            wire.send(OPENINGS[i % 4])
            if i % 8 == 7:
                assert wire.head().status == 200
        except (ConnectionResetError, BrokenPipeError):
            raise AssertionError("reset by the server") from None
        wire.reset()
    assert server.ask("/hello.txt").body == HELLO
    server.check_counts()
    wait_for(lambda: server.files() <= before, "as few descriptors as before")


def come_and_go(server, count, together):
    """Make count connections with a request each, `together` of them at a time; they end in three ways."""
    plain, last = request("/hello.txt"), request("/hello.txt", fields=["Connection: close"])
    done = 0
    while done < count:
        some = min(together, count - done)
        wires = [server.wire() for _ in range(some)]
        for i, wire in enumerate(wires):
            wire.send(last if i % 3 == 0 else plain)
        for i, wire in enumerate(wires):
            said = b""
            while not said.endswith(HELLO):
                data = wire.sock.recv(4096)
                assert data, f"ended after {said!r}"
                said += data
            if i % 3 == 1:
                wire.reset()
            else:
                wire.close()
        done += some


@pytest.mark.long
# shows D02, D10, N02, N03, N04
def test_come_and_go(start, standard, engine, enough, record_property):
    """Tens of thousands of connections, one request each: memory and descriptors stay as they are."""
    count = CHURN.get(engine["name"], CHURN_OTHERS)
    together = max(1, min(48, enough // 2))
    server = start(standard)
    come_and_go(server, count // 5, together)  # pools and caches are filled
    server.check_counts()
    files, before = crowd.settled(server, server.files), crowd.settled(server, server.memory)
    begin = time.monotonic()
    come_and_go(server, count, together)
    seconds = time.monotonic() - begin
    stats = server.check_counts()
    assert stats["accepted"] == count + count // 5
    growth = crowd.settled(server, server.memory) - before
    record_property("crowd", f"{engine['name']}: {count} connections came and went, {growth / 1024:.0f} KiB more "
        f"({count / seconds:.0f} a second)")
    wait_for(lambda: server.files() <= files, "as few descriptors as before")
    assert crowd.sanitized() or growth <= CHURN_GROWTH.get(engine["name"], CHURN_GROWTH_OTHERS)
