# SPDX-License-Identifier: MIT
"""counts.py - counts by name (kind_calls.py) as tables: a line for each target, its names and how often.

A cell has them as "counts": {caption: {name: number}}.  A number is the median of the rounds; a name that a round does not
have counts as 0 there.
"""
import statistics

import judge
import view

LEAST = 0.05
HOW = "which, and how often where not once"


def times(name, number):
    """A name that counts once has no number."""
    said = f"{number:.2f}".rstrip("0").rstrip(".")
    return name if said == "1" else f"{name} × {said}"


def medians(cells, caption):
    """{name: median}, of the names that are not too rare."""
    rows = [one["counts"].get(caption, {}) for one in cells]
    found = {name: statistics.median([row.get(name, 0) for row in rows]) for name in {name for row in rows for name in row}}
    return {name: found[name] for name in sorted(found) if found[name] >= LEAST}


def words(result, target, scenario, caption):
    if judge.errors(result, target, scenario):
        return "invalid"
    found = medians([one for one in judge.cells(result, target, scenario) if "counts" in one], caption)
    return ", ".join(times(name, number) for name, number in found.items()) or "none"


def tables(result):
    """A table for each caption of each scenario; a caption that scenarios share has one table."""
    seen = set()
    for scenario in (one["name"] for one in result["plan"]["scenario"]):
        captions = {caption: 1 for one in result["cells"] if one["scenario"] == scenario for caption in one.get("counts") or {}}
        for caption in captions:
            if caption not in seen:
                seen.add(caption)
                yield view.Table(caption, result["plan"].get("of", "target"), [HOW], [
                    (name, [view.Cell(words(result, name, scenario, caption))])
                    for name in view.targets(result) if judge.cells(result, name, scenario)])
