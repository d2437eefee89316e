# SPDX-License-Identifier: MIT
"""Listings whose clients have gone: they cost almost nothing, and no other client waits behind them."""
import threading
import time

import pytest
from lib import server
from lib.client import request
from lib.trees import many_names, write

MANY = 100_000      # names: the largest listing that is sorted
GONE = 256          # clients that send a request and close
PROMPT = 4          # seconds; made one after the other, these listings took half a minute
FEW = 32            # listings: as long, on a machine that is busy
GROWTH = 64 << 20   # bytes; one sorted listing takes 10 MB
SHARED = 16         # clients that request the same listing
SEATS = 16          # half of them and one more may wait for long listings
CROWD = 120         # clients that request one listing each: half a minute's work, one after the other

pytestmark = pytest.mark.userspace("a thread that makes listings in slices")


@pytest.fixture(scope="module")
def crowd(engine):
    with many_names(MANY) as path:
        write(f"{path}/few/one", b"x")
        one = server.Server(path, env={"ASAN_OPTIONS": "quarantine_size_mb=1"})  # freed memory must not count
        yield one
        one.stop()


def prompt(one):
    """How long a request may wait for listings that no client wants any more: the time of a few, on this machine as busy as it
    is."""
    begin = time.monotonic()
    assert one.ask("/many/?format=text&sort=size&order=desc").status == 200
    return max(PROMPT, FEW * (time.monotonic() - begin))


def leave(crowd, target):
    with crowd.wire() as wire:
        wire.send(request(target))


@pytest.mark.long
@pytest.mark.parametrize("target", ["/many/", "/many/?filter={}"], ids=["the same", "each another"])
def test_abandoned_listings_delay_nobody(crowd, target, record_property):
    """A close looks like a half-close until something is sent, so the server sends the head first; the client's
    reset in answer to it ends the work."""
    assert crowd.ask("/few/").status == 200
    most = prompt(crowd)
    crowd.rest()
    before, start = crowd.memory(), time.monotonic()
    for number in range(GONE):
        leave(crowd, target.format(number % 10))
    asked = time.monotonic()
    assert b"one" in crowd.ask("/few/").body
    waited, growth = time.monotonic() - asked, crowd.memory() - before
    record_property("abandoned listings", f"{server.ENGINE}: {asked - start:.2f} s to ask, {waited:.2f} s waited, "
                    f"{growth / 1e6:.0f} MB more")
    assert waited < most
    assert growth < GROWTH
    crowd.check_counts()


@pytest.mark.capacity(2)
def test_half_closed_clients_get_theirs(crowd):
    """A half-closed client sends no more requests but still wants its answer: whole, and sorted."""
    with crowd.wire() as one, crowd.wire() as two:
        for wire, order in ((one, "asc"), (two, "desc")):
            wire.send(request(f"/many/?format=text&order={order}", fields=["Connection: close"]))
            wire.finish()
        names = [line.rsplit(b" ", 1)[1] for line in one.reply().body.split(b"\n")[:-1]]
        assert names == [b"%06d" % number for number in range(MANY)]
        assert two.reply().body.count(b"\n") == MANY
        one.end()
        two.end()


@pytest.mark.long
@pytest.mark.capacity(SHARED)
def test_many_who_ask_for_the_same(crowd, record_property):
    """Each client gets the whole listing."""
    bodies, start = [], time.monotonic()

    def ask():
        with crowd.wire() as wire:
            bodies.append(wire.ask("/many/?format=text").body)
    threads = [threading.Thread(target=ask) for _ in range(SHARED)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record_property("the same listing", f"{server.ENGINE}: {SHARED} clients in {time.monotonic() - start:.2f} s")
    assert len(bodies) == SHARED and all(body.count(b"\n") >= MANY for body in bodies)


@pytest.mark.capacity(SEATS)
def test_waiting_for_listings_takes_half_of_the_seats(start, crowd, engine, record_property):
    """Each client wants another listing.  One that the helper cannot make soon is refused, and its seat is free."""
    if engine["may_block"] or engine["thread_pool"]:
        pytest.skip("its threads make listings, each its own")
    one = start(crowd.root, "--max-connections", SEATS)
    most = prompt(one)
    wires = [one.wire(rcvbuf=4096) for _ in range(CROWD)]
    for number, wire in enumerate(wires):
        wire.send(request(f"/many/?format=text&filter={number:03}"))
    asked = time.monotonic()
    assert one.ask("/hello.txt").body == b"Hello, world\n"
    waited = time.monotonic() - asked
    record_property("behind listings", f"{server.ENGINE}: {waited:.2f} s waited")
    assert waited < most
    for wire in wires:
        wire.close()
