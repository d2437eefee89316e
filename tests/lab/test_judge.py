# SPDX-License-Identifier: MIT
"""How figures are judged: intervals that hold, ratios by round, verdicts that can go either way."""
import math
import random

import judge
import pytest


def result(claims=(), **series):
    """a=[figures by round]; None: that cell failed."""
    cells = [{"target": name, "scenario": "s", "round": number, "error": "died" if figure is None else None,
              "figures": {} if figure is None else {"cpu_us": figure}, "limiter": "it"}
             for name, figures in series.items() for number, figure in enumerate(figures)]
    return {"plan": {"target": [{"name": name} for name in series], "scenario": [{"name": "s"}], "claim": list(claims)},
            "cells": cells, "missing": {}}


def claim(expect, to="b"):
    return {"says": "x", "figure": "cpu_us", "of": "a", "expect": expect, **({"to": to} if to else {})}


def verdict(expect, a, b=None, to="b"):
    series = {"a": a, **({"b": b} if b else {})}
    return judge.verdicts(result([claim(expect, to if b else None)], **series))[0]


@pytest.mark.parametrize("count, rank", [(1, 0), (5, 0), (6, 1), (8, 1), (9, 2), (12, 3), (20, 6)])
def test_rank(count, rank):
    """The rank k of n values, from tables of the sign test."""
    assert judge.rank(count) == rank


@pytest.mark.parametrize("count", [6, 9, 12])
def test_the_interval_holds_the_median(count):
    """The interval holds the median as often as it promises, for a skewed distribution whose median is known."""
    draw = random.Random(7)
    held = 0
    for _ in range(2000):
        found = judge.middle([draw.expovariate(1) for _ in range(count)])
        held += found.low <= math.log(2) <= found.high
    assert held / 2000 >= 0.94


def test_few_rounds_are_never_sure():
    found = judge.middle([1, 1, 1, 1, 1])
    assert not found.sure and not found.differs(9)
    assert verdict("< 1", [1] * 5, [9] * 5)["verdict"] == "undecided"


def test_a_count_that_repeats_is_sure():
    """A count that two rounds or more agree on is sure; otherwise it is a sample like any other."""
    assert judge.middle([1000, 1004.9], counted=True).sure
    for numbers, counted in (([1000, 1005.1], True), ([1000, 1000], False), ([1000], True)):
        assert not judge.middle(numbers, counted).sure


def test_nothing_is_no_figure():
    assert judge.middle([]) is None


def test_a_ratio_is_of_one_round():
    data = result(a=[1, 20, 300, 1, 20, 300], b=[2, 40, 600, 2, 40, 600])
    assert judge.ratio(data, "a", "b", "s", "cpu_us")[:3] == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("expect, a, wanted", [
    ("< 1", [5, 6, 5, 6, 5, 6], "confirmed"),
    ("> 1", [5, 6, 5, 6, 5, 6], "contradicted"),
    ("< 1", [9, 12, 9, 12, 9, 12], "no significant difference"),
    ("< 0.55", [5, 6, 5, 6, 5, 6], "undecided"),
    ("0.4..0.7", [5, 6, 5, 6, 5, 6], "confirmed"),
    ("2..3", [5, 6, 5, 6, 5, 6], "contradicted"),
    ("0.9..1.1", [9, 12, 9, 12, 9, 12], "undecided"),
])
def test_verdicts(expect, a, wanted):
    assert verdict(expect, a, [10] * 6)["verdict"] == wanted


def test_a_value_without_another():
    assert verdict("> 38", [40, 41, 40, 41, 40, 41])["verdict"] == "confirmed"
    assert verdict("> 50", [40, 41, 40, 41, 40, 41])["verdict"] == "contradicted"


def test_less_than_a_number_is_not_that_number():
    """If the server holds as many as were asked for, it does not hold fewer."""
    assert verdict("< 40", [40] * 6)["verdict"] == verdict("> 40", [40] * 6)["verdict"] == "contradicted"
    assert verdict("40..40", [40] * 6)["verdict"] == "confirmed"


def test_one_invalid_round_makes_no_verdict():
    told = verdict("< 1", [1, 1, None, 1, 1, 1], [2] * 6)
    assert told["verdict"] == "not measured" and "died" in told["why"]


def test_a_round_without_the_figure_is_not_left_out():
    """A round whose figure cannot be a divisor is not left out, either."""
    data = result([claim("< 1")], a=[1] * 6, b=[2] * 5 + [0])
    assert judge.figure_of(data, "b", "s", "cpu_us").low == 0 and judge.ratio(data, "a", "b", "s", "cpu_us") is None
    data["cells"][0]["figures"] = {"failed": 3}
    assert judge.figure_of(data, "a", "s", "cpu_us") is None
    assert [judge.verdicts(data)[0][key] for key in ("verdict", "why")] == ["not measured", "some rounds lack this figure"]


def test_who_is_missing_is_named():
    data = result([claim("< 1")], a=[1] * 6)
    data["missing"] = {"b": "not installed"}
    assert judge.verdicts(data)[0]["why"] == "b: not installed"


def test_against_another_scenario():
    data = result([{**claim("< 3", "a"), "against": "t", "scenario": "s"}], a=[4] * 6)
    data["cells"] += [{**cell, "scenario": "t", "figures": {"cpu_us": 2}} for cell in list(data["cells"])]
    told = judge.verdicts(data)[0]
    assert told["verdict"] == "confirmed" and told["found"].median == 2


def told_of(claim, **series):
    return [(one["of"][0], one["to"] and one["to"][0], one["verdict"]) for one in judge.verdicts(result([claim], **series))]


def test_a_claim_about_several_is_judged_of_each():
    """The claim is judged against each, too: "all methods" is not the first of them."""
    series = {"a": [1] * 6, "b": [2] * 6, "c": [4] * 6}
    assert told_of({**claim("< 1", None), "of": ["a", "c"], "to": ["b"]}, **series) == [
        ("a", "b", "confirmed"), ("c", "b", "contradicted")]
    assert told_of({**claim("< 1", None), "of": "b", "to": ["a", "c"]}, **series) == [
        ("b", "a", "contradicted"), ("b", "c", "confirmed")]
    assert told_of({**claim("< 3", None), "of": ["a", "c"]}, **series) == [("a", None, "confirmed"), ("c", None, "contradicted")]


@pytest.mark.parametrize("expect, wanted", [("> 3", ("c", "b", "confirmed")), ("> 8", ("c", "b", "contradicted")),
                                            ("< 0.6", ("a", "b", "confirmed")), ("< 0.1", ("a", "b", "contradicted"))])
def test_the_best_of_several_is_enough(expect, wanted):
    series = {"a": [5] * 6, "b": [10] * 6, "c": [40] * 6}
    told, = told_of({"says": "x", "figure": "cpu_us", "best_of": ["a", "c"], "to": "b", "expect": expect}, **series)
    assert told == wanted


def test_that_none_does_it_is_known_of_all_or_not_at_all():
    asked = {"says": "x", "figure": "cpu_us", "best_of": ["a", "c"], "to": "b", "expect": "> 8"}
    told, = judge.verdicts(result([asked], a=[5] * 6, b=[10] * 6, c=[None] * 6))
    assert told["verdict"] == "undecided" and told["why"] == "unknown for c: c: died"
    asked["expect"] = "> 0.1"
    assert told_of(asked, a=[5] * 6, b=[10] * 6, c=[None] * 6) == [("a", "b", "confirmed")]
    told, = judge.verdicts(result([asked], a=[None] * 6, b=[10] * 6, c=[None] * 6))
    assert told["verdict"] == "not measured"


@pytest.mark.parametrize("expect, a, wanted", [
    ("< -1000", [20000] * 6, "confirmed"), ("< -1000", [20500] * 6, "contradicted"),
    ("< -1000", [20300, 21900] * 3, "no significant difference"), ("< -1000", [19000, 20900] * 3, "undecided")])
def test_a_difference(expect, a, wanted):
    """A difference must exceed the thousand of the claim; equal figures have the difference 0, not 1."""
    asked = {"says": "x", "figure": "cpu_us", "of": "a", "minus": "b", "expect": expect}
    b = [21400] * 6
    assert told_of(asked, a=a, b=b) == [("a", "b", wanted)]
    assert told_of(asked, a=a, b=[0] * 6)[0][2] == "contradicted"  # a difference divides by nothing


def test_who_was_left_out_is_told():
    data = result([claim("< 1")], a=[1] * 6, b=[])
    data["plan"]["target"][1]["not"] = ["s"]
    assert judge.verdicts(data)[0]["why"] == "b was left out there"


@pytest.mark.parametrize("text", ["", "1", "= 1", "> x", "3..2", "> 1 2"])
def test_expectations_that_are_none(text):
    with pytest.raises(ValueError):
        judge.expectation(text)


# --- The best of several ------------------------------------------------------------------------------------

def to_best(expect="< 1", **more):
    return {"says": "x", "figure": "cpu_us", "of": "a", "to_best": ["b", "c"], "expect": expect, **more}


@pytest.mark.parametrize("b, c, best, wanted", [
    ([9] * 6, [7] * 6, "c", "contradicted"), ([9] * 6, [10] * 6, "b", "confirmed"),
    ([9] * 6, [9, 1, 9, 30, 30, 30], "b", "confirmed")])
def test_a_ratio_to_the_best(b, c, best, wanted):
    """The best target is chosen by its median, not by its least round; each ratio is still of one round."""
    (told,) = judge.verdicts(result([to_best()], a=[8] * 6, b=b, c=c))
    assert (told["to"], told["verdict"], told["why"]) == ((best, "s"), wanted, "")


def test_the_best_of_what_is_more():
    data = result(a=[8] * 6, b=[9] * 6, c=[10] * 6)
    for one in data["cells"]:
        one["figures"]["per_second"] = one["figures"].pop("cpu_us")
    assert judge.best_target(data, ["a", "b", "c"], "s", "per_second") == ("c", "")


def test_one_that_failed_may_have_been_the_best():
    """A server is ahead of all only if all are known; to be behind, one that is known to be better is enough."""
    (told,) = judge.verdicts(result([to_best()], a=[8] * 6, b=[9] * 6, c=[10, 10, None, 10, 10, 10]))
    assert (told["verdict"], told["why"]) == ("undecided", "unknown for c: c: died")
    (told,) = judge.verdicts(result([to_best()], a=[8] * 6, b=[7] * 6, c=[10, 10, None, 10, 10, 10]))
    assert (told["verdict"], told["why"]) == ("contradicted", "")


def test_one_that_is_not_installed_may_have_been_the_best():
    data = result([to_best()], a=[8] * 6, b=[9] * 6, c=[])
    data["missing"]["c"] = "c is not installed"
    (told,) = judge.verdicts(data)
    assert (told["verdict"], told["why"]) == ("undecided", "unknown for c: c: c is not installed")


@pytest.mark.parametrize("how", ["cannot", "not"])
def test_one_that_takes_no_part_is_not_behind(how):
    data = result([to_best()], a=[8] * 6, b=[9] * 6, c=[None] * 6 if how == "cannot" else [])
    for one in data["cells"]:
        if one["error"]:
            one["cannot"] = True
    if how == "not":
        data["plan"]["target"][2]["not"] = ["s"]
    (told,) = judge.verdicts(data)
    assert (told["to"], told["verdict"], told["why"]) == (("b", "s"), "confirmed", "")
    assert judge.cannot(data, "c", "s") == ("died" if how == "cannot" else "")


def test_a_failure_among_what_a_target_does_not_offer_is_a_failure():
    data = result(a=[None, None])
    data["cells"][0]["cannot"] = True
    assert judge.cannot(data, "a", "s") == ""


def test_nobody_is_the_best():
    (told,) = judge.verdicts(result([to_best()], a=[8] * 6, b=[None] * 6, c=[None] * 6))
    assert (told["verdict"], told["why"]) == ("not measured", "b: died")
