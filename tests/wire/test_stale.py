# SPDX-License-Identifier: MIT
"""Nothing stale: a request that is sent after a change was complete is answered from the new state, at once and every
time.  Everything that may be kept in memory has been requested often enough to be there when the change comes."""
import itertools
import os
import threading

import pytest
from lib import changes
from lib import server as lib
from lib.client import request

pytestmark = pytest.mark.userspace("a promise for every kind of change")
any_engine = pytest.mark.any_engine("workers share what the cache has")
ASKS = 4  # between two changes
TURNS = 60  # changes of each kind, at most
FEW = 20  # where each costs more
WIRES = 6
WRITERS, SLOT, WRITES = 4, 32, 150
WORKERS = [pytest.param("process", marks=pytest.mark.processes)]
if lib.workers_may_be_threads():
    WORKERS.append("thread")


def bytes_of(target):
    path, accept = target if isinstance(target, tuple) else (target, "identity")
    return request(path, fields=[f"Accept-Encoding: {accept}"])


def judge(reply, target, want, *where):
    assert changes.is_right(reply, want), (target, *where, reply, reply.body[:60], want)


def kept(server, steps, _):
    """One connection, one request after the other."""
    with server.wire() as wire:
        for turn, wants in enumerate(steps):
            for i in range(ASKS):
                for target, want in wants.items():
                    wire.send(bytes_of(target))
                    judge(wire.reply(), target, want, turn, i)


def pipelined(server, steps, asked_before):
    """Many requests at once; the change is made while the server may not have looked at earlier ones yet."""
    before = []
    with server.wire() as wire:
        for turn, wants in enumerate(steps):
            after = list(wants.items()) * ASKS
            wire.send(b"".join(bytes_of(target) for target, _ in after))
            for _ in before:
                wire.reply()  # of either state
            for i, (target, want) in enumerate(after):
                judge(wire.reply(), target, want, turn, i)
            before = list(wants) if asked_before else []
            wire.send(b"".join(map(bytes_of, before)))
        for _ in before:
            wire.reply()


def new(server, steps, _):
    """A connection for each request."""
    for turn, wants in enumerate(steps):
        for i in range(ASKS):
            for target, want in wants.items():
                with server.wire() as wire:
                    wire.send(bytes_of(target))
                    judge(wire.reply(), target, want, turn, i)


def crowd(server, steps, wires):
    """Each connection sends requests after each change, and one connection is new."""
    for turn, wants in enumerate(steps):
        wires[turn % len(wires)].close()
        wires[turn % len(wires)] = server.wire()
        for target, want in wants.items():
            for wire in wires:
                wire.send(bytes_of(target) * 2)
            for i, wire in enumerate(wires):
                judge(wire.reply(), target, want, turn, i)
                judge(wire.reply(), target, want, turn, i)


@pytest.fixture
def places(tree):
    """places(at) -> a place in the tree tree/root, which is served."""
    os.mkdir(f"{tree}/root")
    return lambda at="": changes.Place(f"{tree}/root", f"{tree}/outside{at}", at)


@pytest.mark.core
@pytest.mark.parametrize("kind", changes.KINDS, ids=lambda kind: kind.__name__)
# shows U83
def test_each_kind(start, tree, places, kind):
    """Changes in the root itself, and further down."""
    root = places()
    server = start(f"{tree}/root")
    for ask, at, turns in ((kept, "", TURNS), (pipelined, "/further/down", TURNS), (new, "/new", FEW)):
        place = places(at) if kind not in changes.ROOTED else root
        ask(server, itertools.islice(kind(place), turns), kind not in changes.SHRINKING)


@any_engine
@pytest.mark.parametrize("workers", WORKERS)
def test_two_workers(start, tree, places, workers, enough):
    """The worker that serves need not be the one that has noticed the change, or has the answer in memory."""
    places()
    server = start(f"{tree}/root", "--workers", 2, "--workers-as", workers, "--accept", "reuseport")
    wires = [server.wire() for _ in range(min(enough, WIRES))]
    try:
        for kind in changes.KINDS:
            place = places("" if kind in changes.ROOTED else f"/{kind.__name__}")
            crowd(server, itertools.islice(kind(place), FEW), wires)
    finally:
        for wire in wires:
            wire.close()


@pytest.mark.core
@pytest.mark.capacity(2 * WRITERS)
@pytest.mark.parametrize("way", ["write", "replace", "remove"])
def test_many_writers(start, tree, places, way):
    """All writers at once, in one file or in one folder: each sees its own change while others' are under way."""
    place, failures = places("/folder"), []
    names = ["file"] * WRITERS if way == "write" else [f"file{i}" for i in range(WRITERS)]
    for name in names:
        place.write(name, bytes(WRITERS * SLOT))
    server = start(f"{tree}/root")

    def writer(number):
        try:
            with server.wire() as wire:
                for turn in range(WRITES):
                    data = b"%*d" % (SLOT, turn)
                    if way == "write":
                        with open(place.path("file"), "r+b", buffering=0) as file:
                            os.pwrite(file.fileno(), data, number * SLOT)
                    elif way == "replace" or turn % 2:
                        changes.put(place.path(f"new{number}"), data * WRITERS)
                        os.replace(place.path(f"new{number}"), place.path(names[number]))
                    else:
                        os.unlink(place.path(names[number]))
                    for i in range(ASKS):
                        reply = wire.ask(place.url(names[number]))
                        if way == "remove" and turn % 2 == 0:
                            assert reply.status == 404, (number, turn, i, reply)
                        else:
                            got = reply.body[number * SLOT:][:SLOT]
                            assert got == data, (number, turn, i, reply, got)
        except Exception as error:  # the test fails with it
            failures.append(error)
    threads = [threading.Thread(target=writer, args=(number,), daemon=True) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
        assert not thread.is_alive()
    assert not failures, failures
