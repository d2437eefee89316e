# SPDX-License-Identifier: MIT
"""Memory: the counters match the memory taken, to the page, and there is a limit; and a long walk through a folder does not
stop the other connections of its processor."""
import os
import re
import select
import tempfile

import left
import pytest
from lib import crowd, module
from lib.client import request
from lib.served import wait_for
from lib.trees import write
from test_listing import memory

HELLO = b"Hello, world\n"
PAGE = 4096
INQ, OUTQ = 9 * PAGE, 16 * PAGE  # struct inq and struct outq, in whole pages
STOCK = 8                            # of each kind, for a processor with a bottom half (KSHELF_STOCK)
KEPT = 32                            # of each kind, given back, for a processor (KFREELIST_KEPT_MAX)
CPUS = 2
DENTS = 32 << 10                     # DENTS_BYTES
STREAMS = (32 << 20) // DENTS        # KSITE_DENTS_BYTES_MAX
NAMES = 40_000
CPU = "/sys/devices/system/cpu/cpu1/online"
PATIENT = ("--head-timeout", "10m", "--idle-timeout", "10m", "--send-timeout", "10m")
READY = pytest.mark.skipif(module.MODEL in module.BLOCKING, reason="it has a context for each connection")


def meminfo():
    rows = re.findall(r"^(\w+):\s+(\d+) kB", left.text_of("/proc/meminfo"), re.M)
    return {name: int(kib) << 10 for name, kib in rows}


def at_hand_bytes():
    """Pages in the processors' own lists are free, too, though MemFree does not count them."""
    return sum(map(int, re.findall(r"^\s+count: +(\d+)", left.text_of("/proc/zoneinfo"), re.M))) * PAGE


def used_bytes():
    rows = meminfo()
    return rows["MemTotal"] - rows["MemFree"] - rows["Buffers"] - rows["Cached"] - at_hand_bytes()


def test_half_a_head(start, site, record_property):
    """An input queue takes 36 KiB, not the next power of two.  Send queues taken for a moment, to look at the head, are kept for
    reuse."""
    server, count = start(site, *PATIENT), 400
    wires = crowd.arrive(server, count, lambda _: b"")
    wait_for(lambda: server.stats()["open"] == count, "all are accepted")
    counted, used = server.stats()["buffer_bytes"], used_bytes()
    for wire in wires:
        wire.send(request("/hello.txt")[:20])
    wait_for(lambda: server.stats()["receives"] >= count, "all heads have begun")
    counted, each = server.stats()["buffer_bytes"] - counted, (used_bytes() - used) / count
    record_property("half a head", f"{counted / count:.0f} bytes counted, {each:.0f} taken")
    assert (count - CPUS * STOCK) * INQ <= counted <= count * INQ + CPUS * KEPT * OUTQ < count * (64 << 10)
    assert each < INQ + 3 * PAGE
    crowd.leave(wires)
    server.stop()


@pytest.mark.skipif(module.MODEL not in module.BLOCKING, reason="it has no context for each connection")
def test_an_idle_connection(start, site, record_property):
    """The page that an answer was copied to is freed with the answer: the connection's context does not keep its 32 KiB."""
    server, count = start(site, "--cache", "0", *PATIENT), 400
    crowd.leave(crowd.arrive(server, count))  # the kernel keeps some objects after the first use
    wait_for(lambda: server.stats()["open"] == 0, "they have gone")
    wires = crowd.arrive(server, count, lambda _: b"")
    wait_for(lambda: server.stats()["open"] == count, "all are accepted")
    used = used_bytes()
    for wire in wires:
        assert wire.ask("/hello.txt").body == HELLO
    each = (used_bytes() - used) / count
    record_property("idle after an answer", f"{each:.0f} bytes taken")
    assert each < 4 * PAGE
    crowd.leave(wires)
    server.stop()


@pytest.mark.skipif(module.MODEL != "softirq", reason="nothing in it lacks the time to ask for memory")
@pytest.mark.parametrize("there", [1, 2])
def test_a_stock_for_each_processor_that_is_there(start, site, there):
    """A processor that comes online later is served, too."""
    def online(how):
        with open(CPU, "w", encoding="ascii") as file:
            file.write(how)
    online(str(there - 1))
    try:
        server = start(site)
        assert server.stats()["buffer_bytes"] == there * STOCK * (INQ + OUTQ)
    finally:
        online("1")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {1})
    for _ in range(5):
        assert server.ask("/hello.txt").body == HELLO
    os.sched_setaffinity(0, before)
    server.stop()


@pytest.fixture(scope="module")
def folders():
    """A folder with a long listing and one with a very long one."""
    with tempfile.TemporaryDirectory(prefix="rung-memory-") as path:
        os.chmod(path, 0o755)
        write(f"{path}/hello.txt", HELLO)
        for name, count, more in (("long", 3000, "n" * 200), ("many", NAMES, "")):
            os.mkdir(f"{path}/{name}")
            for number in range(count):
                os.mknod(f"{path}/{name}/{number:05}{more}", 0o644)
        yield path


def reading(server, count):
    """Clients that have begun to read a streamed listing, and read no further."""
    return asking([server.wire(rcvbuf=2048) for _ in range(count)])


def asking(wires):
    for wire in wires:
        wire.send(request("/long/"))
    for wire in wires:
        assert wire.head().status == 200
    return wires


def test_a_listing_that_is_streamed(start, folders, record_property):
    """Each listing is counted while it is being sent, and no longer."""
    server, count = start(folders, "--listing-max", "1", *PATIENT), 100
    crowd.leave(reading(server, 2))
    silent = [server.wire(rcvbuf=2048) for _ in range(count)]
    wait_for(lambda: server.stats()["open"] == count, "all are accepted")
    before = meminfo()["SUnreclaim"]
    wires = asking(silent)
    each = (meminfo()["SUnreclaim"] - before) / count
    record_property("streamed listing", f"{each:.0f} bytes of SUnreclaim")
    assert memory(server)["listing_bytes"] == count * DENTS
    crowd.leave(wires)
    wait_for(lambda: memory(server)["listing_bytes"] == 0, "they have gone")
    server.stop()


@READY
@pytest.mark.long
def test_as_many_as_may_be_streamed(start, folders):
    server = start(folders, "--listing-max", "1", *PATIENT)
    wires = reading(server, STREAMS)
    assert memory(server)["listing_bytes"] == STREAMS * DENTS
    assert server.ask("/long/").status == 503
    assert server.ask("/hello.txt").body == HELLO
    wires.pop().close()
    wait_for(lambda: server.ask("/", method="HEAD").status == 200, "there is room for one")
    crowd.leave(wires)
    server.stop()


@READY
@pytest.mark.long
def test_a_long_walk_takes_no_processor(start, folders):
    """Other clients on the same processor are served again and again before the walk has ended."""
    server, before, served = start(folders), os.sched_getaffinity(0), 0
    os.sched_setaffinity(0, {0})
    with server.wire() as slow:
        walks = memory(server)["walks"]
        slow.send(request("/many/?filter=0"))
        wait_for(lambda: memory(server)["walks"] > walks, "the walk has begun")
        while not select.select([slow.sock], [], [], 0)[0]:
            assert server.ask("/hello.txt").body == HELLO
            served += 1
        os.sched_setaffinity(0, before)
        assert slow.reply().body.count(b"<tr") > NAMES // 5
    assert served > 3
    server.stop()
