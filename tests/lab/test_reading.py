# SPDX-License-Identifier: MIT
"""A result is shown in the present words of its experiment, but never as another experiment than was measured."""
import json
import os

import experiment
import figures
import judge
import plots
import pytest
import reading
import sample
from command import TOP

RESULTS = plots.results(f"{TOP}/lab/results", pytest.fail, experiment.FOLDER)
TOML = """title = "T"
question = "Q?"
method = "M."
[[target]]
name = "a"
options = "--engine epoll"
[[target]]
name = "b"
options = "--engine epoll"
[[scenario]]
name = "s"
connections = 8
bytes = 524288
[[claim]]
says = "Better said."
figure = "cpu_us"
of = ["a", "b"]
expect = "> 0"
[[plot]]
kind = "bars"
figure = "cpu_us_a_mib"
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "sample.toml").write_text(TOML)
    return str(tmp_path)


def measured(**more):
    made = sample.plan(["a", "b"], [{"name": "s", "connections": 8, "bytes": 524288}],
                       claim=[{"says": "Said.", "figure": "cpu_us", "of": "a", "expect": "> 0"}])
    return sample.result(made, **more)


def test_claims_and_plots_are_as_they_are_worded_now(place):
    was = measured()
    found = reading.read(was, place)
    assert [one["says"] for one in found["plan"]["claim"]] == ["Better said."] and len(judge.verdicts(found)) == 2
    assert found["plan"]["method"] == was["plan"]["method"] and found["plan"]["question"] == "Q?"
    assert found["remarks"] == [reading.REWORDED] and not was["remarks"]
    assert reading.read({**found, "cells": was["cells"]}, place) == found


@pytest.mark.parametrize("old, new", [('name = "a"\noptions = "--engine epoll"', 'name = "a"\noptions = "--engine poll"'),
                                      ("connections = 8", "connections = 9"), ("title =", "kind = 'logged'\ntitle ="),
                                      ('title = "T"', "title = "), ('of = ["a", "b"]', 'of = "c"')])
def test_another_experiment_does_not_word_it(tmp_path, old, new):
    """Other targets, other scenarios, another kind, or a file that is no experiment."""
    (tmp_path / "sample.toml").write_text(TOML.replace(old, new, 1))
    was = measured()
    assert reading.read(was, str(tmp_path)) == was and reading.read(was, str(tmp_path / "none")) == was


def test_a_file_elsewhere_words_its_own(place, tmp_path):
    was = measured(source=str(tmp_path / "mine.toml"))
    assert reading.read(was, place) == was
    (tmp_path / "mine.toml").write_text(TOML)
    assert reading.read(was, "/nowhere")["remarks"] == [reading.REWORDED]


def test_what_follows_from_other_figures(place):
    """Figures are derived for valid cells, where the plan asks for them; the result itself is not changed."""
    was = measured()
    sample.break_cell(was, "a", "s", 0)
    before = json.dumps(was)
    cells = reading.read(was, place)["cells"]
    assert json.dumps(was) == before and cells[0]["figures"] == {}
    assert all(one["figures"]["cpu_us_a_mib"] == one["figures"]["cpu_us"] * 2 for one in cells[1:])
    assert "mib_per_second" not in cells[1]["figures"] and "cpu_us_a_mib" not in reading.with_derived(was)["cells"][1]["figures"]
    assert figures.DERIVED["mib_per_second"]({"bytes_per_second": 3 << 20}, {}) == 3
    assert figures.DERIVED["cpu_us_a_mib"]({"cpu_us": 1}, {"bytes": "16-32"}) is None


@pytest.mark.parametrize("name", RESULTS)
def test_ours(name):
    """Every sentence of a result has a verdict, about targets that it has."""
    result = RESULTS[name]
    targets, told = {one["name"] for one in result["plan"]["target"]}, judge.verdicts(result)
    assert {json.dumps(one["claim"]) for one in told} == {json.dumps(one) for one in result["plan"].get("claim", [])}
    assert all(one["of"][0] in targets and (not one["to"] or one["to"][0] in targets) for one in told)
    assert os.path.exists(f"{experiment.FOLDER}/{name}.toml")


def test_an_old_result_says_what_its_experiment_says_now():
    """An old result is reworded while targets and scenarios are the same: here that of sending, whose first plot could not be read."""
    result = RESULTS["sending"]
    assert result["plan"]["plot"][0]["figure"] == "cpu_us_a_mib"
    assert all("cpu_us_a_mib" in one["figures"] for one in result["cells"] if not one["error"])
