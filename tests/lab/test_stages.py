# SPDX-License-Identifier: MIT
"""Kind stages: how the requests that rung trace saw become figures, and a small cell where it can be run."""
import os

import kind_stages
import kind_traced
import measures
import pytest
from rig import Broken

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.dirname(os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung"))


def request(number, **more):
    """A later request is slower: `read` takes its number in microseconds, `found` ten times as long."""
    took = {**dict.fromkeys(kind_stages.STAGES), "woken": "busy", "running": "busy", "read": 1000 * number, "found": 10000 * number}
    return {"ended": "answered", "ordinal": 2, "server_ns": 11000 * number, "took_ns": took, **more}


def test_stages_add_up():
    """The stages add up for all answers and for the slowest hundredth; an unknown stage has no time of its own."""
    found = kind_stages.figures([request(number) for number in range(1, 401)])
    assert found["traced_us"] == pytest.approx(11 * 200.5) and found["slow_us"] == pytest.approx(11 * 398.5)
    for prefix in ("traced", "slow"):
        assert sum(found[f"{prefix}_{stage}_us"] for stage in kind_stages.STAGES) == pytest.approx(found[f"{prefix}_us"])
        assert found[f"{prefix}_found_us"] == pytest.approx(10 * found[f"{prefix}_read_us"])
        assert found[f"{prefix}_running_us"] == found[f"{prefix}_out_us"] == 0


def test_whose_time_is_not_meant():
    """The first request of a connection is left out, because it waited to be accepted; one that was cut off has no end."""
    some = [request(1) for _ in range(200)]
    others = [request(900, ordinal=1), request(900, ended="cut"), request(900, server_ns=None)]
    assert kind_stages.figures(some + others) == kind_stages.figures(some)
    with pytest.raises(Broken, match="saw 199 answers"):
        kind_stages.figures(some[1:] + others)


@pytest.fixture
def context(tmp_path):
    return measures.Context(BIN, str(tmp_path), "quick")


@pytest.mark.parametrize("engine, sample", [("epoll", 1), ("thread", 2)])
def test_a_small_cell(context, engine, sample):
    scenario = {"name": "some", "connections": 8, "rate": 2000, "sample": sample, "pinned": False}
    try:
        found = measures.kind("stages")(context, {"name": engine, "engine": engine}, scenario, 1)["figures"]
    except Broken as error:
        if str(error).startswith("rung trace: ") and "tracing" not in str(error):
            pytest.skip(str(error))
        raise
    for prefix in ("traced", "slow"):
        inside = sum(found[f"{prefix}_{stage}_us"] for stage in kind_stages.STAGES)
        assert 0 < inside <= found[f"{prefix}_us"] * 1.000001
    assert found["traced_us"] < found["slow_us"]
    assert found["traced_read_us"] > 0 and found["traced_out_us"] > 0


@pytest.mark.parametrize("tracer", [None, "", "--without probe"])
def test_traced(context, monkeypatch, tracer):
    """A traced cell has the figures of kind load, and is invalid if the tracer lost something."""
    target = {"name": "some", "engine": "epoll", **({} if tracer is None else {"tracer": tracer})}
    scenario = {"name": "some", "connections": 4, "rate": 2000, "pinned": False}
    try:
        assert kind_traced.measure(context, target, scenario, 0.3)["figures"]["cpu_us"] > 0
    except Broken as error:
        if str(error).startswith("rung trace: ") and "tracing" not in str(error):
            pytest.skip(str(error))
        raise
    monkeypatch.setattr(kind_stages.Tracer, "ended", lambda _: ([], {"lost_events": 1, "gaps": 0, "answered": 9}))
    if tracer is None:
        assert kind_traced.measure(context, target, scenario, 0.3)["figures"]
    else:
        with pytest.raises(Broken, match="lost 1 events"):
            kind_traced.measure(context, target, scenario, 0.3)
