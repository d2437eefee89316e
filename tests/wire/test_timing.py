# SPDX-License-Identifier: MIT
"""Server-Timing: what the server knows of an answer's times when it writes the head, by the names of rung trace."""
import gzip
import os
import re

import pytest
from lib.client import request
from lib.trees import write

pytestmark = pytest.mark.userspace("the modules tell no times")
BODY = b"0123456789" * 40
LONG_AGO = 10**9
METRIC = re.compile(r"(parsed|found|compressed);dur=(\d+\.\d{6})")
REPEATS = 60  # of a request whose answer may lie ready


@pytest.fixture
def folder(tree):
    write(f"{tree}/a.txt", BODY, LONG_AGO)
    write(f"{tree}/a.txt.gz", gzip.compress(BODY), LONG_AGO)
    os.mkdir(f"{tree}/d")
    write(f"{tree}/d/file", b"x", LONG_AGO)
    return tree


def times(reply):
    """{metric: milliseconds}; {} if the answer tells none."""
    field = reply.get("server-timing")
    if field is None:
        return {}
    found = [METRIC.fullmatch(part) for part in field.split(", ")]
    assert all(found), field
    names = [match[1] for match in found]
    assert names == [name for name in ("parsed", "found", "compressed") if name in names], field
    return {match[1]: float(match[2]) for match in found}


@pytest.mark.core
def test_every_answer_tells_its_times(start, folder):
    """Found or not, from a file or from memory, whole or in part; a request that asks for nothing was parsed."""
    server = start(folder, "--server-timing")
    with server.wire() as wire:
        for _ in range(REPEATS):
            told = times(wire.ask("/a.txt"))
            assert set(told) == {"parsed", "found"} and 0 < told["found"] < 60000, told
        reply = wire.ask("/a.txt", fields=["Accept-Encoding: gzip"])
        assert reply["content-encoding"] == "gzip" and set(times(reply)) == {"parsed", "found", "compressed"}
        tag = wire.ask("/a.txt")["etag"]
        for path, method in ("/a.txt", "HEAD"), ("/none", "GET"), ("/d", "GET"), ("/d/", "GET"):
            assert "found" in times(wire.ask(path, method)), path  # of a helper's listing it is not known when it was received
    for fields, status in (["Range: bytes=1-2"], 206), (["Range: bytes=1-2,5-9"], 206), (["Range: bytes=900-"], 416), \
                          ([f"If-None-Match: {tag}"], 304), (["If-Match: \"x\""], 412), (["Connection: close"], 200):
        reply = server.ask("/a.txt", fields=fields)
        assert reply.status == status and "found" in times(reply), (fields, reply)
    for method, target, status in ("OPTIONS", "*", 200), ("DELETE", "/a.txt", 405), ("GET", "/%zz", 400):
        reply = server.ask(target, method)
        assert reply.status == status and set(times(reply)) == {"parsed"}, reply


def test_pipelined(start, folder):
    """Each has its own: the second waits for the first to be found."""
    server = start(folder, "--server-timing")
    with server.wire() as wire:
        wire.send(request("/a.txt") * 20)
        told = [times(wire.reply()) for _ in range(20)]
    assert all(set(one) == {"parsed", "found"} for one in told)
    assert told[0]["parsed"] + told[0]["found"] <= told[19]["parsed"] + 1e-6  # sums of decimal fractions


def test_it_is_told_to_those_who_ask_the_server_to(start, folder):
    with start(folder).wire() as wire:
        for _ in range(REPEATS):
            assert wire.ask("/a.txt").get("server-timing") is None
