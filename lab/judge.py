# SPDX-License-Identifier: MIT
"""judge.py - what the cells of a result say: medians with intervals, ratios, and what becomes of each claim.

An interval holds the true median with at least 95 % confidence, whatever the distribution: it goes from one order
statistic to another (a binomial sign test turned round).  With fewer than six rounds no such interval exists, and
nothing is called significant.  A ratio is always one of two figures of the same round, so that what else the machine
did meets both.
"""
import math
import re
import statistics
from typing import NamedTuple, Optional

CONFIDENCE = 0.95
COUNTED = ("instructions", "branches", "jumps", "mispredicted", "allocations", "bytes_peak", "bytes_end")
ALIKE = 0.005  # of counts: what differs by less depends on addresses and on the time of day
EXPECT = re.compile(r"\s*(?:([<>])\s*([-\d.e]+)|([-\d.e]+)\s*\.\.\s*([-\d.e]+))\s*$")


class Middle(NamedTuple):
    low: float
    median: float
    high: float
    rounds: int
    sure: bool  # low..high is an interval of that confidence; else it is merely the least and the greatest

    def differs(self, value=1):
        return self.sure and not self.low <= value <= self.high


# --- Figures ------------------------------------------------------------------------------------------------

def cells(result, target, scenario):
    return [one for one in result["cells"] if one["target"] == target and one["scenario"] == scenario]


def values(result, target, scenario, figure):
    """By round, of the cells that are valid and have it."""
    return {one["round"]: one["figures"][figure] for one in cells(result, target, scenario)
            if not one.get("error") and one["figures"].get(figure) is not None}


def errors(result, target, scenario):
    return [one["error"] for one in cells(result, target, scenario) if one.get("error")]


def rank(count):
    """The k for which the k-th least and the k-th greatest of so many enclose the median surely enough; 0: none do."""
    tail, chosen = 0.0, 0
    for k in range(count // 2):
        tail += math.comb(count, k) / 2 ** count
        if 1 - 2 * tail < CONFIDENCE:
            break
        chosen = k + 1
    return chosen


def middle(numbers, counted=False) -> Optional[Middle]:
    """counted: not timed.  A count that comes out alike twice is no sample of anything: it needs no more rounds."""
    found = sorted(numbers)
    if not found:
        return None
    k = rank(len(found))
    low, high = (found[k - 1], found[-k]) if k else (found[0], found[-1])
    alike = counted and len(found) > 1 and found[-1] - found[0] <= ALIKE * abs(found[0])
    return Middle(low, statistics.median(found), high, len(found), k > 0 or alike)


def figure_of(result, target, scenario, figure) -> Optional[Middle]:
    """None as well when any of its rounds is invalid or has none: a figure of the rounds that went well would flatter it."""
    found = whole(result, target, scenario, figure)
    return middle(found.values(), figure in COUNTED) if found else None


def whole(result, target, scenario, figure):
    """values(), if every round has one."""
    found = values(result, target, scenario, figure)
    return found if len(found) == len(cells(result, target, scenario)) else {}


def ratio(result, of, to, scenario, figure, against=None) -> Optional[Middle]:
    """of's figure by to's, paired by round; against: the scenario of the second, when it is another."""
    against = against or scenario
    mine, other = whole(result, of, scenario, figure), whole(result, to, against, figure)
    if mine.keys() != other.keys() or 0 in other.values():  # rounds without a ratio are not left out either
        return None
    return middle([mine[number] / other[number] for number in mine], figure in COUNTED)


def limiter(result, target, scenario):
    """What most rounds say was the limit."""
    said = [one["limiter"] for one in cells(result, target, scenario) if one.get("limiter")]
    return statistics.mode(said) if said else None


# --- Claims -------------------------------------------------------------------------------------------------

def expectation(text):
    """(least, greatest) of what is expected; ValueError."""
    found = EXPECT.match(text)
    if not found:
        raise ValueError(f"'{text}' is none of '> N', '< N' and 'N..M'")
    sign, bound, least, greatest = found.groups()
    if sign:
        return (float(bound), math.inf) if sign == ">" else (-math.inf, float(bound))
    if float(least) > float(greatest):
        raise ValueError(f"'{text}' holds nothing: its first number is the greater")
    return float(least), float(greatest)


def why_missing(result, places):
    for name, scenario in places:
        if reason := result["missing"].get(name):
            return f"{name}: {reason}"
        if found := errors(result, name, scenario):
            return f"{name}: {found[0]}"
    if all(cells(result, *place) for place in places):
        return "not every round has it"
    return "it was not measured"


def verdict(found, expected, of_ratio):
    least, greatest = expected
    if not found.sure:
        return "undecided"
    if least <= found.low and found.high <= greatest:
        return "confirmed"
    if found.high < least or found.low > greatest:
        return "contradicted"
    same = of_ratio and found.low <= 1 <= found.high and not least < 1 < greatest
    return "no significant difference" if same else "undecided"


def judged(result, claim, scenario):
    of, to, against = claim["of"], claim.get("to", claim["of"]), claim.get("against", scenario)
    of_ratio = (to, against) != (of, scenario)
    if of_ratio:
        found = ratio(result, of, to, scenario, claim["figure"], against)
    else:
        found = figure_of(result, of, scenario, claim["figure"])
    told = {"claim": claim, "scenario": scenario, "found": found, "why": ""}
    if found is None:
        return {**told, "verdict": "not measured", "why": why_missing(result, [(of, scenario), (to, against)])}
    return {**told, "verdict": verdict(found, expectation(claim["expect"]), of_ratio)}


def scenarios_of(plan, claim):
    if "scenario" in claim:
        return [claim["scenario"]]
    return claim.get("scenarios") or [one["name"] for one in plan["scenario"]]


def verdicts(result):
    """Each claim in each of its scenarios: {"claim", "scenario", "verdict", "found": Middle or None, "why"}."""
    return [judged(result, claim, scenario) for claim in result["plan"].get("claim", [])
            for scenario in scenarios_of(result["plan"], claim)]
