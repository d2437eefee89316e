# SPDX-License-Identifier: MIT
"""Requests as pictures: each view shows the same figures as the lines, and every stage is in it."""
import decimal
import json
import re
import select

import pytest
from aid import DONE, FAILED, FILE, SMALL, STAGES, USAGE, Lies, exactly, request, rung, trace, traced_load, tracing

pytestmark = pytest.mark.usefixtures("traced")


def asked_slowly(server, wait_s):
    """Makes a request on a connection of its own, which the server answers after wait_s seconds."""
    client, there = server.pair()
    client.sendall(request("/slow"))
    exactly(there, len(request("/slow")))
    with pytest.raises(TimeoutError):  # the server is busy for wait_s seconds
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
# shows U42
def test_waterfall(monkeypatch, locale, block, mark):
    monkeypatch.setenv("LC_ALL", locale)
    with Lies() as server, tracing("--waterfall", server.port) as runs:
        asked_slowly(server, 0.1)
    out = runs[0].out
    assert runs[0].status == DONE and re.search(r"/1 200 GET /slow [0-9.]+ us from 127.0.0.1:\d+\n", out)
    picture = rows(out)
    assert tuple(picture) == STAGES and max(25 + len(bar) for _, bar in picture.values()) <= 80
    time, bar = picture["out"]
    assert float(time) >= 100000 and bar.endswith(mark) and out.count(mark) == 2  # also in the summary's slowest requests
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


def test_histogram_in_json():
    """Each request is counted in the step that holds its time; steps follow each other, and the outermost are not empty."""
    with rung("epoll") as port:
        run, served = traced_load(port, "-c", 4, "-n", 400, options=("--histogram",))
    took = {name: [one["took_ns"][name] for one in run.requests if isinstance(one["took_ns"][name], int)] for name in STAGES}
    took["server"] = [one["server_ns"] for one in run.requests]
    assert len(took["server"]) == served == 400
    for name, times in took.items():
        steps = (run.summary["server"] if name == "server" else run.summary["stages"][name])["histogram"]
        assert [count for _, _, count in steps] == [sum(low <= ns < high for ns in times) for low, high, _ in steps]
        assert sum(count for _, _, count in steps) == len(times)
        assert all(one[1] == other[0] for one, other in zip(steps, steps[1:]))
        assert all(high == max(250, 2 * low) for low, high, _ in steps)
        assert not steps or (steps[0][2] and steps[-1][2])


def test_no_histogram_unless_asked():
    with rung("epoll") as port:
        run, _ = traced_load(port, "-c", 1, "-n", 5)
    assert "histogram" not in run.summary["server"]


@pytest.mark.parametrize("locale, block", [("C", "#"), ("C.UTF-8", "\u2588")])
# shows U42
def test_histogram(monkeypatch, locale, block):
    monkeypatch.setenv("LC_ALL", locale)
    with Lies() as server, tracing("-q", "--histogram", server.port) as runs:
        asked_slowly(server, 0.14)
    step = re.search(r"(?m)^out: microseconds, requests\n +131072 to 262144 +1 100\.0%  (.*)$", runs[0].out)
    assert step and step[1] == 37 * block and max(map(len, step[0].splitlines())) <= 80
    assert "\nacked: microseconds" in runs[0].out and "\nanswer: microseconds" in runs[0].out


def timeline(path):
    """The slices of each track, the outer ones first, with where they begin and end; the names of the tracks."""
    tracks, names, last, are_open = {}, {}, {}, {}
    for one in json.loads(path.read_text(), parse_float=decimal.Decimal):
        track = one["pid"], one.get("tid")
        if one["ph"] == "M":
            names.update({track: one["args"]["name"]} if one["name"] == "thread_name" else {})
            continue
        assert one["ts"] >= last.get(track, 0), "a track's events are in order, so that ties are told apart"
        last[track] = one["ts"]
        if one["ph"] == "B":
            are_open.setdefault(track, []).append(one)
            tracks.setdefault(track, []).append(one)
        else:
            begun = are_open[track].pop()
            assert one["ph"] == "E" and one["name"] == begun["name"]
            begun["end"] = one["ts"]
    assert tracks.keys() == names.keys() and not any(are_open.values())
    return tracks, names


def ns(microseconds):
    return int(microseconds * 1000)


def nested(slices):
    """The requests of a track, in order, each with its stages, which follow each other and fill it.  Only between accepting and the
    first byte may there be a gap, if the client waited."""
    requests = []
    for one in slices:
        begin, end = ns(one["ts"]), ns(one["end"])
        if "args" in one:
            assert not requests or begin >= requests[-1][1], "requests overlap"
            requests.append((begin, end, one, {}))
        else:
            first, last, _, stages = requests[-1]
            gap = begin - first - sum(stages.values())
            assert (gap >= 0 if list(stages) == ["accepted"] else gap == 0) and end <= last and one["name"] in STAGES
            if gap:
                requests[-1] = (first + gap, last, *requests[-1][2:])
            stages[one["name"]] = end - begin
    for begin, end, _, stages in requests:
        assert sum(stages.values()) == end - begin and list(stages) == [name for name in STAGES if name in stages]
    return requests


@pytest.mark.parametrize("depth", (1, 8))
def test_timeline(tmp_path, depth):
    """Each connection has a track, and further ones only where its requests overlap; the times are those of the lines."""
    path = tmp_path / "timeline.json"
    with rung("epoll") as port:
        run, served = traced_load(port, "-c", 3, "-n", 300, "--pipeline", depth, options=("--perfetto", path))
    tracks, names = timeline(path)
    assert served == 300 and {pid for pid, _ in tracks} == {port}
    assert len(tracks) == 3 if depth == 1 else len(tracks) > 3
    assert {name.split()[0] for name in names.values()} == {one["peer"] for one in run.requests}
    assert sum("pipelined" not in name for name in names.values()) == 3
    found = {}
    for slices in tracks.values():
        for begin, end, one, stages in nested(slices):
            found[one["args"]["connection"], one["args"]["ordinal"]] = (begin, end - begin, one["name"], one["args"]["status"], stages)
    for one in run.requests:
        stages = {name: took for name, took in one["took_ns"].items() if isinstance(took, int) and took}
        begin, *rest = found.pop((one["connection"], one["ordinal"]))
        assert rest == [one["total_ns"], f"GET {FILE}", 200, stages]
        assert one["arrived_ns"] - stages.get("accepted", 0) <= begin <= one["arrived_ns"]  # the wait to be accepted is shown, too
    assert not found


def test_a_client_that_connects_and_waits(tmp_path):
    """The client's pause is in no stage: accepting and the request are each shown at their own time."""
    path = tmp_path / "timeline.json"
    with Lies() as server, tracing("--json", "--perfetto", path, server.port) as runs:
        client, there = server.pair()
        assert not select.select([there], [], [], 0.1)[0]
        client.sendall(request())
        exactly(there, len(request()))
        there.sendall(SMALL)
        exactly(client, len(SMALL))
        client.close()
    one, = runs[0].requests
    if not one["took_ns"]["accepted"]:
        pytest.skip("accept4() is not seen here")
    (whole, accepted, *others), = timeline(path)[0].values()
    begin, end = ns(accepted["ts"]), ns(accepted["end"])
    assert accepted["name"] == "accepted" and begin == ns(whole["ts"]) and end - begin == one["took_ns"]["accepted"]
    assert one["arrived_ns"] - end > 90e6 and min(ns(part["ts"]) for part in others) >= one["arrived_ns"]


def test_a_timeline_has_what_is_shown(tmp_path):
    """The filter applies to a timeline, too, and a target may have any bytes."""
    path = tmp_path / "timeline.json"
    with Lies() as server, tracing("--path", "*quoted*", "--perfetto", path, server.port):
        for target in (b'/"quoted\\', b"/plain"):
            client, there = server.pair()
            client.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % target)
            exactly(there, len(target) + 26)
            there.sendall(SMALL)
            exactly(client, len(SMALL))
            client.close()
    tracks, _ = timeline(path)
    (one, *_), = tracks.values()
    assert one["name"] == 'GET /"quoted\\'


def test_a_timeline_that_cannot_be_written(tmp_path):
    with Lies() as server:
        run = trace("--perfetto", tmp_path / "none" / "timeline", server.port)
        assert run.status == FAILED and "cannot write this file" in run.err
        with tracing("--perfetto", "/dev/full", server.port) as runs:
            asked_slowly(server, 0.01)
    assert runs[0].status == FAILED and "the file is not whole" in runs[0].err and "GET /slow" in runs[0].out
