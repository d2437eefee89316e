# SPDX-License-Identifier: MIT
"""experiment.py - an experiment of lab/experiments as a plan that is known to make sense, or a sentence that says why not.

KEYS says which keys a table may have, of which type, and MUST which it must have.  A key that means nothing is refused: the
scenario would be measured without it, under its name.  What a scenario or a target must have further depends on the kind
of measurement: NEEDS says it.
"""
import difflib
import os
import tomllib

import figures
import judge

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(TOP, "lab", "experiments")
ROUNDS = {"quick": 9, "full": 15}  # six have an interval; of nine it leaves one at each end out (judge.py)
SECONDS = {"quick": 0.25, "full": 1}

TEXT, TABLE, TABLES, TEXTS, COUNT, NUMBER, YES_NO, EITHER = str, dict, list, list, int, (int, float), bool, (int, str)
KEYS = {
    "experiment": {"title": TEXT, "question": TEXT, "method": TEXT, "kind": TEXT, "base": TEXT, "of": TEXT, "rounds": TABLE,
                   "figures": TEXTS, "seconds": TABLE, "needs": TEXTS, "settings": TABLE, "target": TABLES, "scenario": TABLES,
                   "claim": TABLES, "plot": TABLES},
    "claim": {"document": TEXT, "says": TEXT, "figure": TEXT, "of": TEXT, "to": TEXT, "scenario": TEXT, "against": TEXT,
              "scenarios": TEXTS, "expect": TEXT},
    "plot": {"kind": TEXT, "figure": TEXT, "log": TEXT, "x_label": TEXT, "scenario": TEXT, "scenarios": TEXTS,
             "targets": TEXTS, "title": TEXT},
    "target": {"name": TEXT, "engine": TEXT, "options": TEXT, "env": TABLE, "wrap": TEXT, "binary": TEXT, "peer": TEXT,
               "workers": COUNT, "program": TEXT, "args": TEXT, "generator": TEXT, "pinned": YES_NO, "not": TEXTS},
    "scenario": {"name": TEXT, "x": NUMBER, "kind": TEXT, "full_only": YES_NO, "seconds": NUMBER, "options": TEXT, "args": TEXT,
                 "connections": COUNT, "threads": COUNT, "clients": COUNT, "idle": COUNT, "rests": COUNT, "floods": COUNT,
                 "rate": NUMBER, "pipeline": COUNT, "close": YES_NO, "requests": COUNT, "times": COUNT, "workers": COUNT,
                 "bytes": EITHER, "files": COUNT, "path": TEXT, "load": TEXT, "warm": YES_NO, "cold": YES_NO,
                 "pinned": YES_NO, "beside": TEXT, "server": TEXT, "kernel": TEXT, "short": COUNT, "long": COUNT,
                 "count_rounds": COUNT},
}
MUST = {"experiment": ("title", "question", "method", "target", "scenario"), "claim": ("figure", "of", "expect"),
        "plot": ("kind", "figure"), "target": ("name",), "scenario": ("name",)}
# Of a kind: what each target, what each scenario.
NEEDS = {"program": (("program",), ()), "count": (("program",), ()), "crowd": ((), ("clients",)), "ab": ((), ("connections",)),
         "generators": (("generator",), ("connections",)), "guest": ((), ("connections",)),
         "massif": ((), ("load", "short", "long"))}
PLOTS = ("bars", "lines", "percentiles", "time")


class Wrong(Exception):
    """A file that is no experiment: what is wrong with it, as a sentence."""


def names():
    return sorted(file[:-5] for file in os.listdir(FOLDER) if file.endswith(".toml"))


def near(word, known):
    found = difflib.get_close_matches(str(word), known, 1)
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
        if known and not fits(value, known[key]):
            raise Wrong(f"{where}: {key} must be a {type_words(known[key])}, and is {value!r}")


def fits(value, wanted):
    """Of that type; yes and no are no numbers here, and what is counted is not negative."""
    if isinstance(value, bool):
        return wanted is bool
    return isinstance(value, wanted) and not (isinstance(value, (int, float)) and value < 0)


def type_words(wanted):
    return " or ".join(one.__name__ for one in (wanted if isinstance(wanted, tuple) else (wanted,)))


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


def check_needs(plan):
    for scenario in plan["scenario"]:
        of_target, of_scenario = NEEDS.get(scenario.get("kind", plan.get("kind", "load")), ((), ()))
        for key in of_scenario:
            if key not in scenario:
                raise Wrong(f"scenario {scenario['name']} has no {key}, which its kind needs")
        for target in plan["target"]:
            for name in target.get("not", []):
                need_name(name, [one["name"] for one in plan["scenario"]], f"target {target['name']}: not")
            for key in of_target:
                if key not in target:
                    raise Wrong(f"target {target['name']} has no {key}, which its kind needs")


def check_pace(plan, key, least, kind):
    for pace, value in plan.get(key, {}).items():
        if pace not in ROUNDS or not fits(value, kind) or value < least:
            raise Wrong(f"{key} is for quick and full, each at least {least}; not {pace} = {value!r}")


def check(plan):
    check_table("experiment", plan, "the file")
    targets, scenarios = check_names(plan["target"], "target"), check_names(plan["scenario"], "scenario")
    need_name(plan.get("base", targets[0]), targets, "base")
    for name in plan.get("figures", []):
        need_name(name, list(figures.FIGURES), "figures")
    check_needs(plan)
    check_pace(plan, "rounds", 1, int)
    check_pace(plan, "seconds", 0.01, (int, float))
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
