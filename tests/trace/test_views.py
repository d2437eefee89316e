# SPDX-License-Identifier: MIT
"""Requests as pictures: each view shows what the lines say, and every stage is in it."""
import re

import pytest
from aid import DONE, SMALL, STAGES, USAGE, Lies, exactly, request, trace, tracing

pytestmark = pytest.mark.usefixtures("traced")


def asked_slowly(server, wait_s):
    """A request that the server answers after a while, in two pieces, on a connection of its own; the client's end comes later."""
    client, there = server.pair()
    client.sendall(request("/slow"))
    exactly(there, len(request("/slow")))
    with pytest.raises(TimeoutError):  # the server is busy for so long
        there.settimeout(wait_s)
        there.recv(1)
    there.sendall(SMALL)
    exactly(client, len(SMALL))
    client.close()


def rows(text):
    """The rows of the first picture: the time of each stage, and its bar."""
    first = text[text.index(" from 127.0.0.1:"):].split("\n\n")[0].splitlines()[1:]
    return {line.split()[0]: (line.split()[1], line[25:]) for line in first}


@pytest.mark.parametrize("locale, block, mark", [("C", "#", " < slowest"), ("C.UTF-8", "\u2588", " \u25c0 slowest")])
def test_waterfall(monkeypatch, locale, block, mark):
    monkeypatch.setenv("LC_ALL", locale)
    with Lies() as server, tracing("--waterfall", server.port) as runs:
        asked_slowly(server, 0.1)
    out = runs[0].out
    assert runs[0].status == DONE and re.search(r"/1 200 GET /slow [0-9.]+ us from 127.0.0.1:\d+\n", out)
    picture = rows(out)
    assert tuple(picture) == STAGES and max(25 + len(bar) for _, bar in picture.values()) <= 80
    time, bar = picture["out"]
    assert float(time) >= 100000 and bar.endswith(mark) and out.count(mark) == 2  # once more in the summary's slowest
    assert bar.count(block) >= 43 and picture["acked"][1].rstrip().endswith((">", "-", block, "\u258f"))
    for name in STAGES:
        known = picture[name][0] not in ("-", "busy", "0.0")
        assert bool(picture[name][1].strip()) == known, (name, picture)


def test_waterfall_of_the_slowest():
    with Lies() as server, tracing("-q", "--waterfall", server.port) as runs:
        asked_slowly(server, 0.05)
    slowest = runs[0].out[runs[0].out.index("slowest\n"):]
    assert tuple(rows(slowest)) == STAGES and runs[0].out.count("GET /slow") == 1


def test_a_picture_is_no_json():
    with Lies() as server:
        run = trace("--json", "--waterfall", server.port)
    assert run.status == USAGE and "choose one" in run.err
