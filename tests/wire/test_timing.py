# SPDX-License-Identifier: MIT
"""Server-Timing: how long the server took to find what it sends, with the names of rung trace."""
import gzip
import os
import re

import pytest
from lib.client import request
from lib.trees import write

pytestmark = pytest.mark.userspace("the modules tell no times")
BODY = b"0123456789" * 40
LONG_AGO = 10**9
FIELD = re.compile(r"found;dur=(\d+\.\d{6})(, compressed)?")
REPEATS = 60  # of a request whose answer may be kept ready
NOTHING_TO_FIND = [("OPTIONS", "*", 200), ("DELETE", "/a.txt", 405), ("GET", "/%zz", 400)]


@pytest.fixture
def folder(tree):
    write(f"{tree}/a.txt", BODY, LONG_AGO)
    write(f"{tree}/a.txt.gz", gzip.compress(BODY), LONG_AGO)
    write(f"{tree}/404.html", b"<p>none", LONG_AGO)
    os.mkdir(f"{tree}/d")
    write(f"{tree}/d/file", b"x", LONG_AGO)
    return tree


def told(reply):
    """(milliseconds, whether it is compressed), or None if the answer has no Server-Timing."""
    field = reply.get("server-timing")
    if field is None:
        return None
    match = FIELD.fullmatch(field)
    assert match, field
    return float(match[1]), bool(match[2])


@pytest.mark.core
def test_every_answer_tells_it(start, folder):
    """Every answer has the time: found or not, from a file or from memory, whole or in part."""
    server = start(folder, "--server-timing")
    with server.wire() as wire:
        for _ in range(REPEATS):
            took, compressed = told(wire.ask("/a.txt"))
            assert 0 < took < 60000 and not compressed
        reply = wire.ask("/a.txt", fields=["Accept-Encoding: gzip"])
        assert reply["content-encoding"] == "gzip" and told(reply)[1]
        tag = wire.ask("/a.txt")["etag"]
        for path, method in ("/a.txt", "HEAD"), ("/none", "GET"), ("/d", "GET"), ("/d/", "GET"):
            assert told(wire.ask(path, method))[0] > 0, path
    for fields, status in (["Range: bytes=1-2"], 206), (["Range: bytes=1-2,5-9"], 206), (["Range: bytes=900-"], 416), \
                          ([f"If-None-Match: {tag}"], 304), (["If-Match: \"x\""], 412), (["Connection: close"], 200):
        reply = server.ask("/a.txt", fields=fields)
        assert reply.status == status and told(reply)[0] > 0, (fields, reply)


@pytest.mark.core
def test_who_asks_for_nothing_is_told_nothing(start, folder):
    """An answer with nothing to find has no time, even behind one that has it (a helper's too) on its connection."""
    server = start(folder, "--server-timing")
    for before in "/a.txt", "/d/", "/none":
        for method, target, status in NOTHING_TO_FIND:
            with server.wire() as wire:
                wire.send(request(before) + request(target, method))
                assert told(wire.reply())[0] > 0, before
                reply = wire.reply(method)
            assert reply.status == status and told(reply) is None, (before, reply)


def test_pipelined(start, folder):
    """Each answer has its own time."""
    server = start(folder, "--server-timing")
    with server.wire() as wire:
        wire.send(request("/d/") + request("/a.txt") * 20)
        assert all(told(wire.reply())[0] > 0 for _ in range(21))


def test_only_a_server_that_is_asked_to_tells_it(start, folder):
    with start(folder).wire() as wire:
        for _ in range(REPEATS):
            assert wire.ask("/a.txt").get("server-timing") is None
