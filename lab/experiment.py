# SPDX-License-Identifier: MIT
"""experiment.py - an experiment of lab/experiments as a plan that is known to make sense, or a sentence that says why not.

KEYS says which keys a table may have, of which type, and which it must have.  What a scenario or a target further needs
depends on the kind of measurement: those keys are checked by the kind.
"""
import difflib
import os
import tomllib

import figures
import judge

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(TOP, "lab", "experiments")
ROUNDS = {"quick": 6, "full": 12}  # six is the least that has an interval (judge.py)
SECONDS = {"quick": 0.4, "full": 1}

TEXT, TABLE, TABLES, TEXTS = str, dict, list, list
KEYS = {
    "experiment": {"title": TEXT, "question": TEXT, "method": TEXT, "kind": TEXT, "base": TEXT, "of": TEXT, "rounds": TABLE,
                   "figures": TEXTS, "seconds": TABLE, "needs": TEXTS, "settings": TABLE, "target": TABLES, "scenario": TABLES,
                   "claim": TABLES, "plot": TABLES},
    "claim": {"document": TEXT, "says": TEXT, "figure": TEXT, "of": TEXT, "to": TEXT, "scenario": TEXT, "against": TEXT,
              "scenarios": TEXTS, "expect": TEXT},
    "plot": {"kind": TEXT, "figure": TEXT, "log": TEXT, "x_label": TEXT, "scenario": TEXT, "scenarios": TEXTS,
             "targets": TEXTS, "title": TEXT},
}
MUST = {"experiment": ("title", "question", "method", "target", "scenario"), "claim": ("figure", "of", "expect"),
        "plot": ("kind", "figure"), "target": ("name",), "scenario": ("name",)}
PLOTS = ("bars", "lines", "percentiles", "time")


class Wrong(Exception):
    """A file that is no experiment: what is wrong with it, as a sentence."""


def names():
    return sorted(file[:-5] for file in os.listdir(FOLDER) if file.endswith(".toml"))


def near(word, known):
    found = difflib.get_close_matches(word, known, 1)
    return f"; perhaps {found[0]}" if found else f"; there are {', '.join(known)}"


def check_table(kind, table, where):
    if not isinstance(table, dict):
        raise Wrong(f"{where} is not a table")
    for key in MUST[kind]:
        if not table.get(key):
            raise Wrong(f"{where} has no {key}")
    known = KEYS.get(kind)
    for key, value in table.items():
        if known and key not in known:
            raise Wrong(f"{where} has a key {key} that means nothing" + near(key, list(known)))
        if known and not isinstance(value, known[key]):
            raise Wrong(f"{where}: {key} must be a {known[key].__name__}, and is {value!r}")


def check_names(rows, kind):
    found = []
    for number, row in enumerate(rows, 1):
        check_table(kind, row, f"[[{kind}]] number {number}")
        if row["name"] in found:
            raise Wrong(f"two {kind}s are called {row['name']}")
        found.append(row["name"])
    return found


def need_name(name, known, where):
    if name not in known:
        raise Wrong(f"{where}: there is no {name}" + near(name, known))


def check_claim(claim, targets, scenarios, where):
    check_table("claim", claim, where)
    if not claim.get("document") and not claim.get("says"):
        raise Wrong(f"{where} needs `document`, what some document said, or `says`, what we claim")
    need_name(claim["figure"], list(figures.FIGURES), where)
    for key in ("of", "to"):
        need_name(claim.get(key, targets[0]), targets, where)
    for name in [claim.get("scenario", scenarios[0]), claim.get("against", scenarios[0]), *claim.get("scenarios", [])]:
        need_name(name, scenarios, where)
    try:
        judge.expectation(claim["expect"])
    except ValueError as error:
        raise Wrong(f"{where}: expect: {error}") from None


def check_plot(plot, targets, scenarios, where):
    check_table("plot", plot, where)
    need_name(plot["kind"], PLOTS, where)
    need_name(plot["figure"], list(figures.FIGURES), where)
    for name in plot.get("targets", []):
        need_name(name, targets, where)
    for name in [plot.get("scenario", scenarios[0]), *plot.get("scenarios", [])]:
        need_name(name, scenarios, where)


def check_pace(plan, key, least):
    for pace, value in plan.get(key, {}).items():
        if pace not in ROUNDS or not isinstance(value, (int, float)) or value < least:
            raise Wrong(f"{key} is for quick and full, each at least {least}; not {pace} = {value!r}")


def check(plan):
    check_table("experiment", plan, "the file")
    targets, scenarios = check_names(plan["target"], "target"), check_names(plan["scenario"], "scenario")
    need_name(plan.get("base", targets[0]), targets, "base")
    for name in plan.get("figures", []):
        need_name(name, list(figures.FIGURES), "figures")
    check_pace(plan, "rounds", 1)
    check_pace(plan, "seconds", 0.01)
    for number, claim in enumerate(plan.get("claim", []), 1):
        check_claim(claim, targets, scenarios, f"[[claim]] number {number}")
    for number, plot in enumerate(plan.get("plot", []), 1):
        check_plot(plot, targets, scenarios, f"[[plot]] number {number}")
    plan.setdefault("kind", "load")
    plan.setdefault("base", targets[0])
    plan["rounds"] = {**ROUNDS, **plan.get("rounds", {})}
    plan["seconds"] = {**SECONDS, **plan.get("seconds", {})}
    return plan


def place(name):
    """A name of lab/experiments, or the path of a file elsewhere."""
    return name if name.endswith(".toml") else os.path.join(FOLDER, name + ".toml")


def load(name):
    path = place(name)
    try:
        with open(path, "rb") as file:
            return check(tomllib.load(file))
    except FileNotFoundError:
        raise Wrong(f"there is no experiment {name}{near(name, names())}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Wrong(f"{path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise Wrong(f"{path} is not TOML: {error}") from None
    except Wrong as error:
        raise Wrong(f"{path}: {error}") from None
