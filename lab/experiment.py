# SPDX-License-Identifier: MIT
"""experiment.py - an experiment of lab/experiments as a plan that is known to make sense, or a sentence that says why not.

KEYS says which keys a table may have, of which type, and MUST which it must have.  KINDS says which of them mean something to
a kind of measurement, and which it needs.  A key without a meaning is refused: otherwise the scenario would be measured
without it, under its name.
"""
import difflib
import os
import re
import tomllib
from typing import NamedTuple

import figures
import judge

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(TOP, "lab", "experiments")
ROUNDS = {"quick": 9, "full": 15}  # six have an interval; that of nine leaves out one at each end (judge.py)
SECONDS = {"quick": 0.25, "full": 1}

TEXT, TABLE, TABLES, TEXTS, COUNT, NUMBER, YES_NO, EITHER = str, dict, list, list, int, (int, float), bool, (int, str)
SOURCES = ("khttpd notes", "sehttpd report", "kecho report", "sehttpd assignment", "naughttpd report")
SOURCE = re.compile(rf"({'|'.join(SOURCES)}), .*[^ ]; (text|chart|table)")
NAMES = (str, list)  # one, or each of several
KEYS = {
    "experiment": {"title": TEXT, "question": TEXT, "method": TEXT, "kind": TEXT, "base": TEXT, "of": TEXT, "rounds": TABLE,
                   "figures": TEXTS, "order": TEXT, "standing": TABLE, "seconds": TABLE, "needs": TEXTS, "settings": TABLE, "target": TABLES, "scenario": TABLES,
                   "claim": TABLES, "plot": TABLES},
    "claim": {"document": TEXT, "source": TEXT, "says": TEXT, "figure": TEXT, "of": NAMES, "best_of": TEXTS, "to": NAMES, "to_best": TEXTS,
              "minus": TEXT, "scenario": TEXT, "against": TEXT, "scenarios": TEXTS, "expect": TEXT, "reason": TEXT},
    "standing": {"name": TEXT, "figure": TEXT, "ours": TEXTS, "others": TEXTS, "floor": TEXT, "scenarios": TEXTS},
    "plot": {"kind": TEXT, "figure": TEXT, "to": TEXT, "log": TEXT, "x_label": TEXT, "scenario": TEXT, "scenarios": TEXTS,
             "targets": TEXTS, "title": TEXT, "parts": TEXTS},
    "target": {"name": TEXT, "engine": TEXT, "model": TEXT, "options": TEXT, "env": TABLE, "wrap": TEXT, "binary": TEXT, "build": TEXT,
               "peer": TEXT, "workers": COUNT, "program": TEXT, "args": TEXT, "generator": TEXT, "pinned": YES_NO,
               "scheduler": TEXT, "probe": TEXT, "lines": TEXT, "tracer": TEXT, "not": TEXTS},
    "scenario": {"name": TEXT, "x": NUMBER, "kind": TEXT, "full_only": YES_NO, "seconds": NUMBER, "options": TEXT, "args": TEXT,
                 "connections": COUNT, "threads": COUNT, "clients": COUNT, "idle": COUNT, "rests": COUNT, "floods": COUNT,
                 "silent": COUNT, "calls": COUNT, "after": COUNT, "protocol": TEXT, "processors": COUNT,
                 "rate": NUMBER, "pipeline": COUNT, "close": YES_NO, "requests": COUNT, "times": COUNT, "workers": COUNT,
                 "bytes": EITHER, "files": COUNT, "path": TEXT, "load": TEXT, "warm": YES_NO, "cold": YES_NO,
                 "pinned": YES_NO, "beside": TEXT, "server": TEXT, "kernel": TEXT, "short": COUNT, "long": COUNT,
                 "count_rounds": COUNT, "entries": COUNT, "source": COUNT, "gzip": YES_NO, "once": YES_NO,
                 "folders": COUNT, "crawl": YES_NO, "sample": COUNT, "memory": COUNT, "tls": YES_NO},
}
ORDERS = ("turns", "random")
MUST = {"standing": ("figure", "ours", "others"), "experiment": ("title", "question", "method", "target", "scenario"), "claim": ("figure", "expect"),
        "plot": ("kind", "figure"), "target": ("name",), "scenario": ("name",)}


class Kind(NamedTuple):
    """Keys that mean something to a kind of measurement, in addition to those of every target and scenario (ALWAYS)."""
    target: set
    scenario: set
    must: tuple = ()      # keys that a target needs
    needs: tuple = ()     # keys that a scenario needs
    binaries: tuple = ()  # programs of ours that it needs
    timed: bool = False   # the experiment may have `seconds`


ALWAYS = {"name", "not", "x", "kind", "full_only"}
RUNG, PEER, PROGRAM = {"engine", "options", "env", "wrap", "binary", "build"}, {"peer", "workers"}, {"program", "args"}
MODULE, LOOKED_AT = {"model", "options"}, {"scheduler", "probe", "lines"}
LINES = ("on", "none")  # of the kernel's log, for each receive of a module; off without the key
MODELS = ("event", "softirq", "cmwq", "kthread")
LOADED = {"connections", "threads", "idle", "rate", "pipeline", "close", "bytes", "files", "path", "load", "warm", "cold", "beside",
          "seconds", "pinned", "options", "entries", "gzip", "once", "folders", "crawl", "memory", "tls"}
RESTING = {"rests", "beside", "pinned", "options"}
ECHOES = {"clients": {"times", "bytes"}, "floods": set(), "connections": {"idle", "bytes"}}  # what clients do: further keys for it
ECHO = Kind({"engine", "options", "wrap", "pinned"}, {"workers", "pinned", *ECHOES, *set().union(*ECHOES.values())},
            binaries=("rung", "rung-load"), timed=True)
# What clients do inside a guest: further keys for it.
INSIDE = {"silent": set(), "calls": {"after", "connections"}, "connections": {"close", "beside", "seconds"}}
KINDS = {
    "load": Kind(RUNG | PEER | PROGRAM, LOADED | RESTING, binaries=("rung", "rung-load"), timed=True),
    "logged": Kind(RUNG | PEER, LOADED, binaries=("rung", "rung-load"), timed=True),
    "calls": Kind(RUNG | PEER, {"close", "pinned", "options", "short", "long"}, binaries=("rung",)),
    "crowd": Kind(RUNG | PEER | PROGRAM, {"clients", "pinned", "options"}, needs=("clients",), binaries=("rung",)),
    "ab": Kind(RUNG | PEER, {"connections", "requests", "bytes", "pinned", "options"}, needs=("connections",), binaries=("rung",)),
    "generators": Kind({"generator"}, {"connections", "bytes", "server", "pinned"}, ("generator",), ("connections",), timed=True),
    "guest": Kind({"engine", "options", "peer"} | PROGRAM | MODULE,
                  {"connections", "close", "bytes", "entries", "source", "load", "args", "kernel", "short", "long"},
                  needs=("connections",), binaries=("rung", "rung-load")),
    "inside": Kind({"engine", "options"} | PEER | MODULE | LOOKED_AT,
                   {"protocol", "bytes", "processors", *INSIDE, *set().union(*INSIDE.values())}, binaries=("rung", "rung-load"), timed=True),
    "instructions": Kind(RUNG, {"connections", "pipeline", "close", "bytes", "entries", "short", "long", "options"},
                         needs=("connections", "short", "long"), binaries=("rung", "rung-load")),
    "massif": Kind({"engine", "options", "wrap"}, {"load", "connections", "close", "short", "long"},
                   needs=("load", "short", "long"), binaries=("rung", "rung-load")),
    "stages": Kind(RUNG | PEER, {"connections", "threads", "rate", "bytes", "files", "beside", "pinned", "options", "sample"},
                   needs=("connections",), binaries=("rung", "rung-load"), timed=True),
    "traced": Kind(RUNG | {"tracer"}, {"connections", "threads", "rate", "bytes", "files", "beside", "pinned", "options"},
                   needs=("connections",), binaries=("rung", "rung-load", "rung-trace"), timed=True),
    "program": Kind(PROGRAM, {"args"}, ("program",)),
    "count": Kind(PROGRAM, {"args", "count_rounds"}, ("program",)),
    "echo": ECHO, "steady": ECHO,
}
PLOTS = ("bars", "stack", "lines", "percentiles", "time")


class Wrong(Exception):
    """A file is no experiment: a sentence says what is wrong with it."""


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
    """Whether a value has that type; yes and no are no numbers here, and numbers are not negative."""
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
    if bool(claim.get("document")) != bool(claim.get("source")):
        raise Wrong(f"{where}: `document`, what some document said, and `source`, which one and where, go together")
    if claim.get("source") and not SOURCE.fullmatch(claim["source"]):
        raise Wrong(f"{where}: source: '{claim['source']}' is none such as 'kecho report, Experiment; chart': one of {', '.join(SOURCES)}, "
                    "its section, and whether text, chart or table say it")
    if not claim.get("of") and not claim.get("best_of") or "of" in claim and "best_of" in claim:
        raise Wrong(f"{where} needs `of`, a target or several that it is true of, or `best_of`, several of which one is enough")
    if len({"to", "to_best", "minus"} & set(claim)) > 1:
        raise Wrong(f"{where} has more than one of `to`, for a ratio, `to_best`, for one to the best of several, and `minus`, "
                    "for a difference")
    need_name(claim["figure"], list(figures.FIGURES), where)
    for name in [*judge.named(claim, "of"), *judge.named(claim, "best_of"), *judge.named(claim, "to"), *judge.named(claim, "to_best"),
                 *judge.named(claim, "minus")]:
        need_name(name, targets, where)
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
    for name in [*plot.get("targets", []), *([plot["to"]] if "to" in plot else [])]:
        need_name(name, targets, where)
    if (plot["kind"] == "stack") != bool(plot.get("parts")):
        raise Wrong(f"{where}: `parts` are figures that add up to `figure`, of kind stack, which needs them")
    for name in plot.get("parts", []):
        need_name(name, list(figures.FIGURES), where)
    if "parts" in plot and ("log" in plot or figures.FIGURES[plot["figure"]].log):
        raise Wrong(f"{where}: parts do not add up on a logarithmic axis")
    if "to" in plot and plot["kind"] != "bars":
        raise Wrong(f"{where}: only bars are drawn of a ratio (`to`)")
    for name in [plot.get("scenario", scenarios[0]), *plot.get("scenarios", [])]:
        need_name(name, scenarios, where)


def check_standing(plan, targets, scenarios):
    table, where = plan["standing"], "[standing]"
    check_table("standing", table, where)
    need_name(table["figure"], list(figures.FIGURES), where)
    for name in [*table["ours"], *table["others"], *([table["floor"]] if "floor" in table else [])]:
        need_name(name, targets, where)
    for name in table.get("scenarios", []):
        need_name(name, scenarios, where)


def kind_of(plan, scenario):
    return scenario.get("kind", plan.get("kind", "load"))


def meant(scenario, kind):
    """Keys that mean something in this scenario: what its clients do decides which other keys it may have."""
    if kind is KINDS["load"]:
        return RESTING if "rests" in scenario else LOADED
    for mine, roles, more in ((ECHO, ECHOES, {"workers", "pinned"}), (KINDS["inside"], INSIDE, {"protocol", "bytes", "processors"})):
        if kind is mine:
            role = next((one for one in roles if one in scenario), None)
            if not role:
                raise Wrong(f"scenario {scenario['name']} says not what its clients do: {', '.join(roles)}")
            return {role, *more, *roles[role]}
    return kind.scenario


def check_scenario(scenario, name):
    kind, where = KINDS[name], f"scenario {scenario['name']}"
    for key in kind.needs:
        if key not in scenario:
            raise Wrong(f"{where} has no {key}, which its kind needs")
    known = meant(scenario, kind)
    for key in scenario:
        if key not in ALWAYS | known:
            raise Wrong(f"{where} has a key {key} that means nothing to kind {name}" + near(key, sorted(known)))


def known_of(target, kind):
    """Keys that mean something for a target: a server that is not ours takes no option of ours, nor does a program."""
    for key, mine in (("peer", PEER), ("program", PROGRAM), ("model", MODULE | LOOKED_AT)):
        if key in target and key in kind.target:
            return mine & kind.target
    return kind.target - PEER - PROGRAM - LOOKED_AT


def check_target(target, asked):
    """asked: [(scenario, name of its kind)] for this target."""
    where = f"target {target['name']}"
    for _, name in asked:
        for key in KINDS[name].must:
            if key not in target:
                raise Wrong(f"{where} has no {key}, which its kind needs")
    known = set().union(*(known_of(target, KINDS[name]) for _, name in asked))
    for key in target:
        if asked and key not in ALWAYS | known:
            raise Wrong(f"{where} has a key {key} that means nothing to it as kind {asked[0][1]}" + near(key, sorted(known)))
    if target.get("model", MODELS[0]) not in MODELS:
        raise Wrong(f"{where}: there is no model {target['model']}" + near(target["model"], MODELS))
    if target.get("lines", LINES[0]) not in LINES:
        raise Wrong(f"{where}: lines are not {target['lines']}" + near(target["lines"], LINES))
    for scenario, _ in asked:
        if "calls" in scenario and "probe" not in target:
            raise Wrong(f"{where} has no probe, the function whose calls scenario {scenario['name']} looks at")
        if "peer" in target and "options" in scenario:
            raise Wrong(f"{where} is not ours, and scenario {scenario['name']} has options for it: "
                        "leave the scenario out by the target's `not`")


def check_kinds(plan):
    """Check that each key means something where it is used.  A kind that KINDS does not know may have any key."""
    names, unknown = [one["name"] for one in plan["scenario"]], False
    for scenario in plan["scenario"]:
        if kind_of(plan, scenario) in KINDS:
            check_scenario(scenario, kind_of(plan, scenario))
        else:
            unknown = True
    for target in plan["target"]:
        left_out = target.get("not", [])
        for name in left_out:
            need_name(name, names, f"target {target['name']}: not")
        if not unknown:
            check_target(target, [(one, kind_of(plan, one)) for one in plan["scenario"] if one["name"] not in left_out])
    if "seconds" in plan and not unknown and not any(KINDS[kind_of(plan, one)].timed for one in plan["scenario"]):
        raise Wrong("the file has a key seconds that means nothing to its kind, which is not timed")


def check_pace(plan, key, least, kind):
    for pace, value in plan.get(key, {}).items():
        if pace not in ROUNDS or not fits(value, kind) or value < least:
            raise Wrong(f"{key} is for quick and full, each at least {least}; not {pace} = {value!r}")


def check(plan):
    check_table("experiment", plan, "the file")
    targets, scenarios = check_names(plan["target"], "target"), check_names(plan["scenario"], "scenario")
    need_name(plan.get("base", targets[0]), targets, "base")
    need_name(plan.get("order", ORDERS[0]), ORDERS, "order")
    if "standing" in plan:
        check_standing(plan, targets, scenarios)
    for name in plan.get("figures", []):
        need_name(name, list(figures.FIGURES), "figures")
    check_kinds(plan)
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


def name_of(name):
    return os.path.basename(name).removesuffix(".toml")


def place(name):
    """The path of an experiment: name is one of lab/experiments, or the path of a file elsewhere."""
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
