# SPDX-License-Identifier: MIT
"""A kind that measures a round's cells at once (measure_all): the runner asks for the missing cells, round by round."""
import sys
import types

import pytest
import runner
from rig import Broken

PLAN = {"title": "T", "question": "Q?", "kind": "together", "base": "a", "rounds": {"quick": 2}, "seconds": {"quick": 1},
        "target": [{"name": "a"}, {"name": "b"}], "scenario": [{"name": "s"}, {"name": "t"}]}


@pytest.fixture
def asked(monkeypatch):
    """The cells that the kind was asked for; `hook` is called in each round before the kind answers."""
    found = []

    def measure_all(context, number, cells):
        names = [(target["name"], scenario["name"]) for target, scenario in cells]
        found.append((number, sorted(names)))
        kind.hook(number)
        context.commands["a"] = "a --serve"
        return [Broken("b is out of order") if name == ("b", "t") else {"figures": {"instructions": number}, "limiter": None}
                for name in names]
    kind = types.SimpleNamespace(measure=None, measure_all=measure_all, hook=lambda number: None)
    monkeypatch.setitem(sys.modules, "kind_together", kind)
    monkeypatch.setattr(kind, "measure", lambda *_: {}, raising=False)
    return types.SimpleNamespace(found=found, kind=kind)


EVERY = [("a", "s"), ("a", "t"), ("b", "s"), ("b", "t")]


def run(out):
    return runner.run("small", PLAN, "quick", str(out), str(out))


def test_a_round_is_asked_for_once(asked, tmp_path):
    result = run(tmp_path)
    assert asked.found == [(0, EVERY), (1, EVERY)] and len(result["cells"]) == 8
    errors = {(one["target"], one["scenario"]) for one in result["cells"] if one["error"]}
    assert errors == {("b", "t")} and result["commands"] == {"a": "a --serve"}
    assert [one["figures"] for one in result["cells"] if one["target"] == "a"] == [{"instructions": n} for n in (0, 0, 1, 1)]


def test_a_round_that_fails_as_a_whole(asked, tmp_path):
    def hook(number):
        if number == 0:
            raise Broken("no guest")
    asked.kind.hook = hook
    result = run(tmp_path)
    assert [one["error"] for one in result["cells"] if one["round"] == 0] == ["no guest"] * 4
    assert [one["error"] for one in result["cells"] if one["round"] == 1 and one["target"] == "a"] == [None] * 2


def test_rounds_that_are_there_are_not_asked_for_again(asked, tmp_path):
    """Only invalid cells of such rounds are measured again."""
    def hook(number):
        if number == 1:
            raise KeyboardInterrupt
    asked.kind.hook = hook
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    asked.kind.hook = lambda number: None
    result = run(tmp_path)
    assert asked.found == [(0, EVERY), (1, EVERY), (0, [("b", "t")]), (1, EVERY)] and len(result["cells"]) == 8


def test_other_kinds_are_measured_cell_by_cell(asked, tmp_path, monkeypatch):
    """One plan may have both: the kind of the plan, which is measured cell by cell, and that of a scenario, round by round."""
    alone = []

    def measure(_context, target, scenario, _seconds):
        alone.append((target["name"], scenario["name"]))
        return {"figures": {"ns": 1}, "limiter": None}
    monkeypatch.setitem(sys.modules, "kind_alone", types.SimpleNamespace(measure=measure))
    plan = {**PLAN, "kind": "alone", "scenario": [{"name": "s", "kind": "together"}, {"name": "t"}]}
    told = []
    result = runner.run("small", plan, "quick", str(tmp_path), str(tmp_path), tell=told.append)
    assert asked.found == [(0, [("a", "s"), ("b", "s")]), (1, [("a", "s"), ("b", "s")])]
    assert sorted(alone) == [("a", "t"), ("a", "t"), ("b", "t"), ("b", "t")]
    assert sorted((one["scenario"], *one["figures"]) for one in result["cells"]) == [("s", "instructions")] * 4 + [("t", "ns")] * 4
    assert told[-1].startswith("8 of 8: t: ")
