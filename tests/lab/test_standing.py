# SPDX-License-Identifier: MIT
"""Which server is ahead: the best of ours against the best of the others, by how much, and what is not known."""
import pytest
import standing

PLAN = {"figure": "cpu_us", "ours": ["epoll", "uring"], "others": ["nginx", "h2o"], "floor": "floor"}


def result(cannot=(), missing=(), key="cpu_us", **series):
    """name=[figures by round]; None: the target failed in that round."""
    cells = [{"target": name, "scenario": "s", "round": number, "error": "died" if figure is None else None, "limiter": None,
              "figures": {} if figure is None else {key: figure}, **({"cannot": True} if name in cannot else {})}
             for name, figures in series.items() for number, figure in enumerate(figures)]
    plan = {"standing": {**PLAN, "figure": key}, "target": [{"name": name} for name in series], "scenario": [{"name": "s"}, {"name": "t"}]}
    return {"plan": plan, "cells": cells, "missing": dict.fromkeys(missing, "not installed")}


def one(**series):
    (found,) = standing.rows(result(floor=[4] * 6, **series))
    return found


def test_ahead():
    """The scenario that was not run has no row."""
    found = one(epoll=[5] * 6, uring=[6] * 6, nginx=[20] * 6, h2o=[10, 10, 10, 10, 10, 11])
    assert found == ("s", "ahead", "2.00 (2.00..2.20)", "epoll, 1.25 of the floor", "h2o, 2.50 of the floor", "")


@pytest.mark.parametrize("h2o, word", [([5, 6, 5, 6, 5, 6], "level"), ([4] * 6, "behind"), ([5.6] * 6, "ahead")])
def test_by_the_interval(h2o, word):
    assert one(epoll=[5, 5.5, 5, 5.5, 5, 5], uring=[6] * 6, nginx=[20] * 6, h2o=h2o).word == word


def test_few_rounds_decide_nothing():
    (found,) = standing.rows(result(floor=[4], epoll=[5], uring=[6], nginx=[20], h2o=[10]))
    assert (found.word, found.by) == ("not decided", "2.00 (one round)")


def test_more_is_better():
    data = result(key="per_second", floor=[9] * 6, epoll=[5] * 6, uring=[6] * 6, nginx=[3] * 6, h2o=[2] * 6)
    (found,) = standing.rows(data)
    assert (found.word, found.ours, found.other) == ("ahead", "uring, 0.67 of the floor", "nginx, 0.33 of the floor")


def test_nobody_is_ahead_of_one_that_is_not_known():
    found = one(epoll=[5] * 6, uring=[6] * 6, nginx=[20] * 6, h2o=[10, None, 10, 10, 10, 10])
    assert (found.word, found.why) == ("not decided", "unknown for h2o: h2o: died")
    found = one(epoll=[5] * 6, uring=[6] * 6, nginx=[4] * 6, h2o=[None] * 6)
    assert found.word == "behind"


def test_what_ours_does_not_offer():
    data = result(cannot=["epoll", "uring"], epoll=[None] * 6, uring=[None] * 6, nginx=[4] * 6, h2o=[5] * 6)
    (found,) = standing.rows(data)
    assert found == ("s", "does not", "-", "died", "nginx, 4.00 us", "")
    data["plan"]["standing"]["name"] = "it"
    assert standing.summary(data) == "Of 1 scenario, it does not offer the work of 1."


def test_an_experiment_that_does_not_ask():
    data = result(epoll=[5] * 6)
    del data["plan"]["standing"]
    assert standing.rows(data) == [] and standing.summary(data) == ""


def test_the_sentence():
    data = result(floor=[4] * 6, epoll=[5] * 6, uring=[6] * 6, nginx=[20] * 6, h2o=[10] * 6)
    assert standing.summary(data) == "Of 1 scenario, ours is ahead in 1."
