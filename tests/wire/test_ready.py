# SPDX-License-Identifier: MIT
"""Answers that are kept ready: a request that repeats within a second gets a whole answer that was written once, which
shows only in the counters.  The modules have a test of their own: tests/kernel/test_ready.py."""
import os
import socket
import time

import pytest
from lib import server as lib
from lib.client import date_seconds, request
from lib.trees import content, write
from test_cache import seen

pytestmark = [pytest.mark.userspace("the modules keep their own"),
              pytest.mark.skipif(lib.engine_row()["forks"], reason="its children keep nothing")]
SIZE = 1024
LONG_AGO = 10**9
BURST = 40      # requests, between two looks at the counters
LONGEST = 3000  # a body whose answer may be kept ready; one of 4096 bytes is too long with its head
TURNS = 12      # changes of each kind
SECONDS = 3
OTHERS = [("HEAD", [], 1), ("GET", ["Range: bytes=5-9"], 1), ("GET", ["Range: bytes=1-2,5-9"], 1),
          ("GET", ["If-None-Match: *"], 1), ("GET", ['If-Match: "x"'], 1), ("GET", ["Connection: keep-alive"], 0),
          ("GET", ["Accept-Encoding: identity;q=0"], 1), ("GET", ["Connection: close"], 1), ("GET", [], 0)]


def put(folder, data, name="body.bin"):
    """Replace a file at once, with an old date: a date that is not past is not final."""
    write(f"{folder}/new", data, LONG_AGO)
    os.rename(f"{folder}/new", f"{folder}/{name}")


@pytest.fixture
def served(start, tree):
    """A server whose requests all come to one thread, one connection after the other."""
    return start(tree, "-w", "1")


def ready(server, wire, body, path="/body.bin", fields=()):
    """Send requests until the answer is kept ready, and check each answer."""
    before = server.stats()["cache_wholes"]
    for _ in range(1000):
        for _ in range(BURST):
            reply = wire.ask(path, fields=fields)
            assert reply.status == 200 and reply.body == body
        if server.stats()["cache_wholes"] > before:
            return reply
    raise AssertionError("it never lies ready")


@pytest.mark.core
def test_the_same_bytes(served, start, tree):
    """The answers are those of a server that keeps nothing, whatever is requested."""
    body = content("ready", SIZE)
    put(tree, body)
    plain = start(tree, "-w", "1", "--cache", 0)
    with served.wire() as wire:
        assert seen(ready(served, wire, body)) == seen(plain.ask("/body.bin"))
    for method, fields, minor in OTHERS:
        want = seen(plain.ask("/body.bin", method, fields, minor=minor))
        for _ in range(BURST // 2):  # so often that it might be kept ready, too
            assert seen(served.ask("/body.bin", method, fields, minor=minor)) == want
    served.check_counts()


@pytest.mark.core
@pytest.mark.parametrize("size, lies", [(1, True), (LONGEST, True), (4096, False), (0, False)])
def test_what_lies_ready(served, tree, size, lies):
    body = content("size", size)
    put(tree, body)
    with served.wire() as wire:
        if lies:
            ready(served, wire, body)
        else:
            for _ in range(5 * BURST):
                assert wire.ask("/body.bin").body == body
            assert served.stats()["cache_wholes"] == 0


def test_each_second_has_its_date(served, tree):
    """The date is that of the answer, however often the file is requested."""
    body, dates = content("date", SIZE), []
    put(tree, body)
    with served.wire() as wire:
        ready(served, wire, body)
        end = time.time() + SECONDS
        while time.time() < end:
            before = time.time()
            reply = wire.ask("/body.bin")
            dates.append(date_seconds(reply["date"]))
            assert int(before - 1) <= dates[-1] <= time.time() and reply.body == body
            time.sleep(0.001)
    assert dates == sorted(dates) and len(set(dates)) >= SECONDS
    assert served.stats()["cache_wholes"] >= SECONDS


def replaced(folder, turn):
    put(folder, content(f"replaced {turn}", SIZE))
    return content(f"replaced {turn}", SIZE)


def written_over(folder, turn):
    """Write over the file with the same size, and set its date back."""
    with open(f"{folder}/body.bin", "r+b") as file:
        file.write(content(f"written {turn}", SIZE))
    os.utime(f"{folder}/body.bin", (LONG_AGO, LONG_AGO))
    return content(f"written {turn}", SIZE)


def taken_away(folder, turn):
    if turn % 2:
        return replaced(folder, turn)
    os.unlink(f"{folder}/body.bin")
    return None


def folder_exchanged(folder, turn):
    """Another folder gets the name of the first."""
    os.makedirs(f"{folder}/other")
    write(f"{folder}/other/body.bin", content(f"folder {turn}", SIZE), LONG_AGO)
    os.rename(f"{folder}/sub", f"{folder}/old{turn}")
    os.rename(f"{folder}/other", f"{folder}/sub")
    return content(f"folder {turn}", SIZE)


@pytest.mark.core
@pytest.mark.parametrize("change, path", [(replaced, "/body.bin"), (written_over, "/body.bin"), (taken_away, "/body.bin"),
                                          (folder_exchanged, "/sub/body.bin")])
@pytest.mark.parametrize("depth", [1, 16])
def test_a_change_is_seen_at_once(served, tree, change, path, depth):
    """The request that is sent when the change is complete, and each one after it, gets the new state."""
    body = content("first", SIZE)
    put(tree, body)
    os.makedirs(f"{tree}/sub")
    put(tree, body, "sub/body.bin")
    with served.wire() as wire:
        for turn in range(TURNS):
            if body is not None:
                ready(served, wire, body, path)
            body = change(tree, turn)
            wire.send(request(path) * depth)
            for _ in range(depth):
                reply = wire.reply()
                assert (reply.status, reply.body) == (200, body) if body else reply.status == 404


def test_a_coding_takes_its_place(served, tree):
    """A sibling that appears is sent at once, and is kept ready, too."""
    body, coded = content("plain", SIZE), b"\x1f\x8b not really"
    put(tree, body, "page.html")
    fields = ["Accept-Encoding: gzip"]
    with served.wire() as wire:
        for _ in range(TURNS):
            ready(served, wire, body, "/page.html")
            put(tree, coded, "page.html.gz")
            assert ready(served, wire, coded, "/page.html", fields)["content-encoding"] == "gzip"
            assert wire.ask("/page.html").body == body
            os.unlink(f"{tree}/page.html.gz")
            assert wire.ask("/page.html", fields=fields).get("content-encoding") is None


@pytest.mark.parametrize("depth", [2, 16, 100])
def test_many_at_once(served, tree, depth):
    """Pipelined answers come in order, each whole, for two files in turn."""
    bodies = [content("first of two", SIZE), content("second of two", LONGEST)]
    for body, name in zip(bodies, ("a.bin", "b.bin")):
        put(tree, body, name)
    with served.wire() as wire:
        ready(served, wire, bodies[0], "/a.bin")
        ready(served, wire, bodies[1], "/b.bin")
        for _ in range(3):
            wire.send(b"".join(request(f"/{'ab'[i % 2]}.bin") for i in range(depth)))
            for i in range(depth):
                assert wire.reply().body == bodies[i % 2]


def test_what_is_not_read_stays(served, tree):
    """A client that reads late gets what was sent, though the file has changed since and other answers are ready."""
    body = content("late", SIZE)
    put(tree, body)
    if lib.one_at_a_time():
        pytest.skip("one connection at a time")
    with served.wire() as wire, served.wire(rcvbuf=4096) as slow:
        ready(served, wire, body)
        slow.send(request("/body.bin") * 200)
        slow.sock.recv(1, socket.MSG_PEEK)  # the first ones are answered
        for number in range(4):
            other = content(f"other {number}", SIZE)
            put(tree, other)
            ready(served, wire, other)
        bodies = {bytes(slow.reply().body) for _ in range(200)}
    assert body in bodies and all(len(one) == SIZE for one in bodies)
    served.check_counts()
