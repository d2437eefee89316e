# SPDX-License-Identifier: MIT
"""Ready answers: a file that is requested again and again is sent as a whole page, right where its request came in, and only
the counters show the difference."""
import os

import pytest
from lib import insmod, module
from lib.client import request
from lib.trees import content, write

SIZE = 1024
LONG_AGO = 10**9
ASKED = 60   # times, within a second or two
UNREAD = 200 # answers that a client asks for and does not read
FITS = 3500  # a body that leaves room for its head in a page
HOT = pytest.mark.skipif(module.MODEL in module.BLOCKING, reason="each connection has a context of its own")


@pytest.fixture
def folder(tmp_path):
    os.chmod(tmp_path, 0o755)
    os.chmod(tmp_path.parent, 0o755)
    return tmp_path


def replace(folder, data):
    write(f"{folder}/new", data)
    os.utime(f"{folder}/new", (LONG_AGO, LONG_AGO))  # a date that is not past is not final
    os.rename(f"{folder}/new", f"{folder}/body.bin")


def kept(wire, server, body):
    """Asks until the answer comes from memory, and then often enough to make it ready, if it can be."""
    while True:
        before = insmod.stats_of(server.name, "cache")["hits"]
        assert wire.ask("/body.bin").body == body
        if insmod.stats_of(server.name, "cache")["hits"] > before:
            break
    for _ in range(ASKED):
        assert wire.ask("/body.bin").body == body


def plain(reply):
    """The reply's fields, without the date, which changes by itself."""
    return {name: value for name, value in reply.fields.items() if name != "date"}


@HOT
@pytest.mark.parametrize("size, lies", [(SIZE, True), (FITS, True), (4096, False), (0, False)])
def test_what_lies_ready(start, folder, size, lies):
    """A body that fits into a page with its head is ready; the answer is the same as before, and in the bottom half it is sent
    from the callback."""
    body = content("ready", size)
    replace(folder, body)
    server = start(folder)
    with server.wire() as wire:
        first = wire.ask("/body.bin")
        kept(wire, server, body)
        last = wire.ask("/body.bin")
        stats = server.stats()
    assert (stats["whole"] > ASKED // 2) == lies
    assert (stats["calls"] > ASKED // 2) == (module.MODEL == "softirq")
    assert plain(first) == plain(last) and last.body == body


@HOT
def test_other_questions(start, folder):
    """HEAD, a range, a condition, Connection: close and HTTP/1.0 get answers of their own while one is ready."""
    body = content("others", SIZE)
    replace(folder, body)
    server = start(folder)
    with server.wire() as wire:
        kept(wire, server, body)
        assert server.stats()["whole"] > 0
        assert wire.ask("/body.bin", fields="Range: bytes=5-9").body == body[5:10]
        assert wire.ask("/body.bin", fields="If-None-Match: *").status == 304
        head = wire.ask("/body.bin", "HEAD")
        assert head.length == SIZE and not head.closes
        old = wire.ask("/body.bin", fields="Connection: keep-alive", minor=0)
        assert old.get("connection") == "keep-alive" and old.body == body
        last = wire.ask("/body.bin", fields="Connection: close")
        assert last.closes and last.body == body
        wire.end()


@HOT
def test_a_change_is_seen_at_once(start, folder):
    """However often the file is requested, the answer is its present content."""
    server = start(folder)
    with server.wire() as wire:
        for number in range(8):
            body = content(f"change {number}", SIZE)
            replace(folder, body)
            for _ in range(ASKED):
                assert wire.ask("/body.bin").body == body
            kept(wire, server, body)
    assert server.stats()["whole"] > 0


@HOT
def test_what_is_not_read_stays(start, folder):
    """A page is reused only when no socket has it: a client that reads late reads the bytes that were sent."""
    body = content("late", SIZE)
    replace(folder, body)
    server = start(folder)
    with server.wire() as wire, server.wire(rcvbuf=4096) as slow:
        kept(wire, server, body)
        slow.send(request("/body.bin") * UNREAD)
        for number in range(4):
            other = content(f"other {number}", SIZE)
            replace(folder, other)
            kept(wire, server, other)
        bodies = {bytes(slow.reply().body) for _ in range(UNREAD)}
    assert body in bodies and all(len(one) == SIZE for one in bodies)
    server.check_counts()
