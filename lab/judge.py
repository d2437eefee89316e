# SPDX-License-Identifier: MIT
"""judge.py - what the cells of a result say: medians with intervals, ratios, and the verdict on each claim.

An interval holds the true median with at least 95 % confidence, whatever the distribution: it goes from one order
statistic to another (an inverted binomial sign test).  With fewer than six rounds no such interval exists, and
nothing is called significant.  A ratio always compares two figures of the same round, so that other work of the machine
affects both.
"""
import math
import operator
import re
import statistics
from typing import NamedTuple, Optional

import figures

CONFIDENCE = 0.95
COUNTED = ("instructions", "branches", "jumps", "mispredicted", "allocations", "bytes_peak", "bytes_end")
ALIKE = 0.005  # relative: a smaller difference between counts comes from addresses and the time of day
EXPECT = re.compile(r"\s*(?:([<>])\s*([-\d.e]+)|([-\d.e]+)\s*\.\.\s*([-\d.e]+))\s*$")


class Middle(NamedTuple):
    low: float
    median: float
    high: float
    rounds: int
    sure: bool  # low..high is an interval of that confidence; if not, merely the least and the greatest value

    def differs(self, value=1):
        return self.sure and not self.low <= value <= self.high


# --- Figures ------------------------------------------------------------------------------------------------

def cells(result, target, scenario):
    return [one for one in result["cells"] if one["target"] == target and one["scenario"] == scenario]


def values(result, target, scenario, figure):
    """{round: value}, of the cells that are valid and have the figure."""
    return {one["round"]: one["figures"][figure] for one in cells(result, target, scenario)
            if not one.get("error") and one["figures"].get(figure) is not None}


def errors(result, target, scenario):
    return [one["error"] for one in cells(result, target, scenario) if one.get("error")]


def rank(count):
    """The k for which the k-th least and the k-th greatest of `count` values enclose the median with CONFIDENCE; 0: none do."""
    tail, chosen = 0.0, 0
    for k in range(count // 2):
        tail += math.comb(count, k) / 2 ** count
        if 1 - 2 * tail < CONFIDENCE:
            break
        chosen = k + 1
    return chosen


def middle(numbers, counted=False) -> Optional[Middle]:
    """counted: counts, not times.  Counts that are the same in two rounds do not vary by chance, so they need no more rounds."""
    found = sorted(numbers)
    if not found:
        return None
    k = rank(len(found))
    low, high = (found[k - 1], found[-k]) if k else (found[0], found[-1])
    alike = counted and len(found) > 1 and found[-1] - found[0] <= ALIKE * abs(found[0])
    return Middle(low, statistics.median(found), high, len(found), k > 0 or alike)


def figure_of(result, target, scenario, figure) -> Optional[Middle]:
    """None also if a round is invalid or lacks the figure: a figure of the successful rounds alone would flatter the target."""
    found = whole(result, target, scenario, figure)
    return middle(found.values(), figure in COUNTED) if found else None


def whole(result, target, scenario, figure):
    """values() if every round has one, otherwise {}."""
    found = values(result, target, scenario, figure)
    return found if len(found) == len(cells(result, target, scenario)) else {}


def paired(result, first, second, key, how):
    """how(figure of the first, figure of the second) round by round, or None: a round that only one of them has is not
    simply left out.  first, second: (target, scenario)."""
    mine, other = (whole(result, *place, key) for place in (first, second))
    if mine.keys() != other.keys():
        return None
    return middle([how(mine[number], other[number]) for number in mine], key in COUNTED)


def ratio(result, of, to, scenario, figure, against=None) -> Optional[Middle]:
    """of's figure divided by to's, paired by round; against: the scenario of the second, if it is another."""
    second = to, against or scenario
    if 0 in whole(result, *second, figure).values():  # a round without a ratio is not left out either
        return None
    return paired(result, (of, scenario), second, figure, operator.truediv)


def limiter(result, target, scenario):
    """The limit that most rounds name."""
    said = [one["limiter"] for one in cells(result, target, scenario) if one.get("limiter")]
    return statistics.mode(said) if said else None


# --- Claims -------------------------------------------------------------------------------------------------

def expectation(text):
    """(least, greatest) expected value, or ValueError.  > N and < N exclude N itself."""
    found = EXPECT.match(text)
    if not found:
        raise ValueError(f"'{text}' is none of '> N', '< N' and 'N..M'")
    sign, bound, least, greatest = found.groups()
    if sign:
        bound = float(bound)
        return (math.nextafter(bound, math.inf), math.inf) if sign == ">" else (-math.inf, math.nextafter(bound, -math.inf))
    if float(least) > float(greatest):
        raise ValueError(f"'{text}' holds nothing: its first number is the greater")
    return float(least), float(greatest)


def named(claim, key):
    """The targets that a claim names in `of`, `best_of`, `to`, `to_best` or `minus`."""
    found = claim.get(key, [])
    return [found] if isinstance(found, str) else found


def left_out(result, name, scenario):
    return any(one["name"] == name and scenario in one.get("not", []) for one in result["plan"]["target"])


def cannot(result, name, scenario):
    """Why a target does not offer what the scenario asks for (which is no failure), or ""."""
    mine = cells(result, name, scenario)
    return mine[0]["error"] if mine and all(one.get("cannot") for one in mine) else ""


def why_missing(result, places):
    for name, scenario in places:
        if reason := result["missing"].get(name):
            return f"{name}: {reason}"
        if found := errors(result, name, scenario):
            return f"{name}: {found[0]}"
        if left_out(result, name, scenario):
            return f"{name} was left out there"
    if all(cells(result, *place) for place in places):
        return "some rounds lack this figure"
    return "it was not measured"


def verdict(found, expected, alike=None):
    """alike: the ratio or difference of two figures that are the same."""
    least, greatest = expected
    if not found.sure:
        return "undecided"
    if least <= found.low and found.high <= greatest:
        return "confirmed"
    if found.high < least or found.low > greatest:
        return "contradicted"
    same = alike is not None and found.low <= alike <= found.high and not least < alike < greatest
    return "no significant difference" if same else "undecided"


def judged(result, claim, scenario, of, to):
    """The verdict on a claim in one scenario, for one target, compared with another or with nothing (None)."""
    first = (of, scenario)
    second = (to or of, claim.get("against", scenario))
    alike = None if second == first else 0 if "minus" in claim else 1
    if alike is None:
        found = figure_of(result, *first, claim["figure"])
    elif alike == 0:
        found = paired(result, first, second, claim["figure"], operator.sub)
    else:
        found = ratio(result, of, second[0], scenario, claim["figure"], second[1])
    told = {"claim": claim, "scenario": scenario, "of": first, "to": None if alike is None else second, "found": found, "why": ""}
    if found is None:
        return {**told, "verdict": "not measured", "why": why_missing(result, [first, second])}
    return {**told, "verdict": verdict(found, expectation(claim["expect"]), alike)}


def best(every, more):
    """The verdict on several targets of which one is enough: that of the one that meets the claim, or may, or comes nearest.
    That none meets it can be said only if all were measured."""
    for words in (("confirmed",), ("no significant difference", "undecided"), ("contradicted",), ("not measured",)):
        if mine := [one for one in every if one["verdict"] in words]:
            break
    found = (max if more else min)(mine, key=lambda one: one["found"].median if one["found"] else 0)
    absent = [one for one in every if one["verdict"] == "not measured"]
    if absent and found["verdict"] == "contradicted":
        return {**found, "verdict": "undecided", "why": f"unknown for {absent[0]['of'][0]}: {absent[0]['why']}"}
    return found


class Best(NamedTuple):
    """The best of several targets in a scenario; `unknown`: a sentence about another target that has no figure, or ""."""
    name: str
    unknown: str


def best_target(result, names, scenario, key) -> Optional[Best]:
    """The best target by the median.  A target that does not offer what is asked for, or that the plan leaves out, is not
    behind: it takes no part.  A target that failed or is not installed might have been the best."""
    taking = [name for name in names if not left_out(result, name, scenario) and not cannot(result, name, scenario)]
    found = {name: figure_of(result, name, scenario, key) for name in taking}
    unknown = [name for name in taking if not found[name]]
    known = {name: one.median for name, one in found.items() if one}
    if not known:
        return None
    name = (max if figures.FIGURES[key].better == figures.MORE else min)(known, key=known.get)
    return Best(name, f"unknown for {unknown[0]}: {why_missing(result, [(unknown[0], scenario)])}" if unknown else "")


def to_the_best(result, claim, scenario, of):
    """The verdict on a claim about a ratio to the best of several.  That a target is ahead of all can be said only if all
    were measured; that another is ahead of it needs only that other."""
    names = named(claim, "to_best")
    other = best_target(result, names, scenario, claim["figure"])
    if not other:
        return judged(result, claim, scenario, of, names[0])
    told = judged(result, claim, scenario, of, other.name)
    if other.unknown and told["verdict"] == "confirmed":
        return {**told, "verdict": "undecided", "why": other.unknown}
    return told


def scenarios_of(plan, claim):
    if "scenario" in claim:
        return [claim["scenario"]]
    return claim.get("scenarios") or [one["name"] for one in plan["scenario"]]


def verdicts_of(result, claim):
    if "to_best" in claim:
        for scenario in scenarios_of(result["plan"], claim):
            yield from (to_the_best(result, claim, scenario, of) for of in named(claim, "of"))
        return
    others = named(claim, "to") or named(claim, "minus") or [None]
    for scenario in scenarios_of(result["plan"], claim):
        for to in others:
            every = [judged(result, claim, scenario, of, to) for of in named(claim, "of") or named(claim, "best_of")]
            yield from [best(every, expectation(claim["expect"])[1] == math.inf)] if "best_of" in claim else every


def verdicts(result):
    """Each claim in each of its scenarios, for each target that it is about and each that it compares with:
    {"claim", "scenario", "of", "to": (target, scenario) or None, "verdict", "found": Middle or None, "why"}."""
    return [told for claim in result["plan"].get("claim", []) for told in verdicts_of(result, claim)]
