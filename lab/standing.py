# SPDX-License-Identifier: MIT
"""standing.py - which server is ahead: for each scenario the best target of ours, the best of the others, and how far both are
from the floor.

An experiment asks for it by a table:

    [standing]
    name = "rung"                # the common name of ours
    figure = "cpu_us"
    ours = ["rung epoll", "rung uring"]
    others = ["nginx", "lighttpd"]
    floor = "floor"              # a target that does the least possible work

"Best" is by the median; how far apart two are is the ratio of figures of the same round, as everywhere.
"""
from typing import NamedTuple

import figures
import judge
import view

AHEAD, BEHIND, LEVEL, UNSURE = "ahead", "behind", "level", "not decided"


class Row(NamedTuple):
    scenario: str
    word: str    # whether ours is ahead, behind, ...
    by: str      # the ratio of the other's figure to ours
    ours: str    # the best of ours, or why there is none
    other: str   # the best of the others, or why there is none
    why: str     # a sentence about figures that are missing


def away(result, name, scenario, key, floor):
    """NAME, and how far it is from the floor; without a floor there, its figure."""
    found = judge.ratio(result, name, floor, scenario, key) if floor else None
    if found:
        return f"{name}, {view.amount(found.median)} of the floor"
    mine = judge.figure_of(result, name, scenario, key)
    return f"{name}, {view.unit(key, view.amount(mine.median))}"


def lacking(result, names, scenario):
    """Why none of these targets has a figure in the scenario."""
    return next((why for name in names if (why := judge.cannot(result, name, scenario))), "") or judge.why_missing(
        result, [(name, scenario) for name in names])


def word_of(found, more):
    """found: the ratio of the other's figure to ours; more: the greater figure is the better one."""
    if not found.sure:
        return UNSURE
    if not found.differs():
        return LEVEL
    return AHEAD if (found.median > 1) != more else BEHIND


def row(result, scenario):
    plan = result["plan"]["standing"]
    key, floor = plan["figure"], plan.get("floor")
    ours, other = (judge.best_target(result, plan[side], scenario, key) for side in ("ours", "others"))
    mine = away(result, ours.name, scenario, key, floor) if ours else lacking(result, plan["ours"], scenario)
    theirs = away(result, other.name, scenario, key, floor) if other else lacking(result, plan["others"], scenario)
    found = judge.ratio(result, other.name, ours.name, scenario, key) if ours and other else None
    if not found:
        absent = not ours and all(judge.cannot(result, name, scenario) for name in plan["ours"])
        return Row(scenario, view.CANNOT if absent else view.NONE, view.NONE, mine, theirs, "")
    word = word_of(found, figures.FIGURES[key].better == figures.MORE)
    if word == AHEAD and other.unknown:  # if ours is behind, the figures that are missing do not matter
        word = UNSURE
    return Row(scenario, word, view.interval(found), mine, theirs, ". ".join(filter(None, (ours.unknown, other.unknown))))


def rows(result):
    """Rows for the scenarios that were measured; none, if the experiment does not ask for them."""
    plan = result["plan"].get("standing")
    if not plan:
        return []
    wanted = plan.get("scenarios") or view.scenarios(result)
    return [row(result, scenario) for scenario in wanted if any(one["scenario"] == scenario for one in result["cells"])]


def heads(result):
    """The heads of the columns."""
    words = figures.FIGURES[result["plan"]["standing"]["figure"]].words
    mine = name_of(result)
    return ["scenario", f"{mine} is", f"{words}: best other server / {mine}", mine, "the best other"]


def name_of(result):
    return result["plan"]["standing"].get("name", "ours")


def summary(result):
    """A sentence that says how often ours is ahead, level, behind; or ""."""
    words = [one.word for one in rows(result)]
    said = [f"{word} in {words.count(word)}" for word in (AHEAD, LEVEL, BEHIND, UNSURE) if word in words]
    said = [f"is {', '.join(said)}"] if said else []
    said += [f"does not offer the work of {words.count(view.CANNOT)}"] if view.CANNOT in words else []
    return f"Of {view.counted(len(words), 'scenario')}, {name_of(result)} {' and '.join(said)}." if said else ""
