# SPDX-License-Identifier: MIT
"""reading.py - a result as it is read: what was measured is the result's own, what is made of it may be said better later.

Claims, plots and columns are those of the experiment as it is now, if it has the targets and scenarios that were measured:
a claim that is worded or tested better needs no new measurement.  Of another experiment the result keeps its own.
Figures that follow from others are added, and stand in no file of results.
"""
import copy
import os
import tomllib

import experiment
import figures

MEASURED = ("kind", "target", "scenario")
READ = ("title", "question", "of", "base", "figures", "standing", "claim", "plot")
REWORDED = "Claims and plots are those of the experiment as it is now; what was measured is of the commit that is named."


def plan_now(path):
    """The experiment of a file, or None: it is gone, or is none."""
    try:
        with open(path, "rb") as file:
            return experiment.check(tomllib.load(file))
    except (OSError, ValueError, experiment.Wrong):
        return None


def reworded(result, now):
    """The result, with the words of the plan as it is now."""
    was = result["plan"]
    if not now or any(was.get(key) != now.get(key) for key in MEASURED):
        return result
    plan = {key: value for key, value in was.items() if key not in READ}
    plan.update({key: now[key] for key in READ if key in now})
    if plan == was:
        return result
    return {**result, "plan": plan, "remarks": [*(result.get("remarks") or []), REWORDED]}


def with_derived(result):
    """For each valid cell also what figures.DERIVED makes of it, where the plan asks for it."""
    plan = result["plan"]
    asked = {*plan.get("figures", []), *(one["figure"] for key in ("claim", "plot") for one in plan.get(key, []))}
    scenarios = {one["name"]: one for one in plan["scenario"]}
    found = copy.deepcopy(result["cells"])
    for cell in found:
        for key in asked & set(figures.DERIVED):
            value = figures.DERIVED[key](cell.get("figures") or {}, scenarios.get(cell["scenario"], {}))
            if value is not None:
                cell["figures"][key] = value
    return {**result, "cells": found}


def read(result, folder):
    """folder: of the experiments that are ours; of another the result knows the path."""
    source = result.get("source", result["name"])
    path = source if os.path.isabs(source) else os.path.join(folder, source + ".toml")
    return with_derived(reworded(result, plan_now(path)))
