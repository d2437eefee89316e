# SPDX-License-Identifier: MIT
"""reading.py - a result as it is read: the measurements are the result's own, but claims and plots may be improved later.

Claims, plots and columns are those of the experiment as it is now, if it has the targets and scenarios that were measured:
a claim that is worded or tested better needs no new measurement.  If the experiment has others, the result keeps its own.
Figures that follow from others are added here; no file of results contains them.
"""
import copy
import os
import tomllib

import experiment
import figures

MEASURED = ("kind", "target", "scenario")
READ = ("title", "question", "of", "base", "figures", "standing", "claim", "plot")
REWORDED = "Claims and plots come from the current experiment file; the measurements are from the named commit."


def plan_now(path):
    """The experiment in a file; None if the file is gone or is no experiment."""
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
    """The result with the figures that figures.DERIVED derives for each valid cell, if the plan asks for them."""
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
    """folder: that of our experiments; for another experiment the result has the path."""
    source = result.get("source", result["name"])
    path = source if os.path.isabs(source) else os.path.join(folder, source + ".toml")
    return with_derived(reworded(result, plan_now(path)))
