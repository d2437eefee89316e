#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""cost.py - what each engine costs, relative to epoll (make cost; docs/cost.md says how to read it).

Four questions: system calls per request, processor time per request, memory per idle connection, connections
held at once.  The engines take turns (A B C A B C ...), so that other work of the machine affects all of
them; a ratio always compares two figures of the same round.
"""
import datetime
import json
import os
import re
import subprocess
import sys
import time

import command
import kind_calls
import kind_crowd
import measures
import scratch
import table
from machine import commit, describe, output_of
from rig import Broken, Crowd, raise_descriptors

BASE = "epoll"
CROWD = 50      # connections that are kept busy, if every engine has room for them
CONNECTIONS_MAX = 10000
DESCRIPTORS_SPARE = 1000  # of this program and of a server, in addition to its connections
IDLE_MIN = 16   # fewer connections than this do not fill a page each
QUICK = {"rounds": {"calls": 2, "cpu": 4, "idle": 2, "held": 1},
         "calls_short": 200, "calls_more": 500, "seconds": 0.6, "idle_connections": 900}
FULL = {"rounds": {"calls": 5, "cpu": 9, "idle": 5, "held": 3},
        "calls_short": 200, "calls_more": 2000, "seconds": 2, "idle_connections": 900}


def shown_command(options):
    """The command without the paths of this machine."""
    return " ".join(["lab/cost.py", *(["--quick"] if options.quick else []),
                     *(["--engines", options.engines] if options.engines else [])])


# --- One measurement each: a kind of the lab ---------------------------------------------------------------

def target_of(engine):
    return {"name": engine, "engine": engine}


def calls(context, engine, short, more):
    found = kind_calls.measure(context, target_of(engine), {"name": "calls", "short": short, "long": short + more}, 0)
    return {"by_name": next(iter(found["counts"].values())), "total": found["figures"]["calls"]}


def cpu(context, engine, connections, seconds):
    figures = measures.load(context, target_of(engine), {"name": "cpu", "connections": connections}, seconds)["figures"]
    return {"connections": connections, "total_us": figures["cpu_us"], "requests_per_s": figures["per_second"]}


def served(context, engine):
    return measures.open_target(context, target_of(engine), {"name": "rest"}, measures.documents(context, {}))


def idle(context, engine, connections):
    with served(context, engine) as server:
        parts, there, _ = kind_crowd.rested(server, connections)
    if there < connections:
        raise Broken(f"of {connections} connections {there} are held")
    return {"connections": connections, "bytes": {part: count / connections for part, count in parts.items()}}


def held(context, engine, bound):
    with served(context, engine) as server, Crowd(server.port) as crowd:
        kind_crowd.filled(crowd, bound)
        return {"bound": bound, "held": crowd.alive(kind_crowd.HOLD_PATIENCE_S)}


def null_told(out):
    """Nanoseconds by part, of the first script that engine null replays."""
    scripts = re.split(r"^\S.*ns per request$", out, flags=re.MULTILINE)
    parts = dict(re.findall(r"^  (\w+) +(\d+)  ", scripts[1], re.MULTILINE)) if len(scripts) > 1 else {}
    if not parts:
        raise Broken(f"engine null says nothing: {out!r}")
    return {name: float(ns) for name, ns in parts.items()}


def floor(context):
    """The cost of a request without sockets, by engine null; it includes opening the file."""
    out = subprocess.run([context.rung, "serve", measures.documents(context, {}), "--engine", "null"], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True, timeout=60, check=True).stdout
    parts = null_told(out)
    return {"parts_ns": parts, "total_us": sum(parts.values()) / 1e3}


# --- Measuring ---------------------------------------------------------------------------------------------

def tasks(rows, plan, bound):
    """(sweep, key, function): function(context, row) is called for each engine in turn; an engine with None is left out."""
    rooms = [row["capacity"] for row in rows if row["capacity"] > 1]
    crowd = min([CROWD, *rooms])  # the same for all, or the ratios would compare different work

    def room(row, most):
        return min(row["capacity"] or most, most)

    return [
        ("calls", "calls", lambda context, row: calls(context, row["name"], plan["calls_short"], plan["calls_more"])),
        ("cpu", "cpu_one", lambda context, row: cpu(context, row["name"], 1, plan["seconds"])),
        ("cpu", "cpu_crowd", lambda context, row: cpu(context, row["name"], crowd, plan["seconds"])
         if room(row, crowd) == crowd else None),
        ("idle", "idle", lambda context, row: idle(context, row["name"], room(row, plan["idle_connections"]))
         if room(row, plan["idle_connections"]) >= IDLE_MIN else None),
        ("held", "held", lambda context, row: held(context, row["name"], bound)),
    ]


def attempt(what):
    """The result of what(), or {"error": why not}: one engine's failure is reported, and the others are still measured."""
    try:
        return what()
    except (Broken, OSError, subprocess.SubprocessError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def sweep(context, plan, rows, bound, tell):
    """Every engine's results: name -> key -> one for each round."""
    results = {row["name"]: {} for row in rows}
    for number in range(max(plan["rounds"].values())):
        for kind, key, function in tasks(rows, plan, bound):
            if number >= plan["rounds"][kind]:
                continue
            for row in rows:
                tell(f"round {number + 1} of {plan['rounds'][kind]}: {key} {row['name']}")
                result = attempt(lambda f=function, r=row: f(context, r))
                if result is not None:
                    results[row["name"]].setdefault(key, []).append(result)
    return results


def floors(context, plan, tell):
    """Like sweep(), for engine null, which has no sockets: only its processor time means something."""
    found = []
    for number in range(plan["rounds"]["cpu"]):
        tell(f"round {number + 1}: null")
        found.append(attempt(lambda: floor(context)))
    return {"cpu_one": found}


def errors(results):
    return [f"{name}: {key}: {one['error']}" for name, keys in results.items()
            for key, rounds in keys.items() for one in rounds if "error" in one]


def measured(options, tell):
    """Everything: the raw data of one whole run."""
    try:
        every = json.loads(output_of(options.rung, "engines", "--json"))
    except ValueError:
        every = []  # the program is not rung
    if not any(row["name"] == BASE and row["available"] for row in every):
        sys.exit(f"cost: {options.rung} has no engine {BASE} that can run: nothing to compare with")
    wanted = set(options.engines.split(",")) | {BASE} if options.engines else {row["name"] for row in every}
    if unknown := wanted - {row["name"] for row in every}:
        sys.exit(f"cost: no such engine: {', '.join(sorted(unknown))}")
    command.need("cost", os.path.join(os.path.dirname(options.rung), "rung-load"))
    rows = [row for row in every if row["name"] in wanted and row["available"]]
    bound = min(CONNECTIONS_MAX, raise_descriptors() - DESCRIPTORS_SPARE)
    began, load, plan = time.time(), os.getloadavg(), QUICK if options.quick else FULL
    with scratch.Folder("cost") as folder:
        context = measures.Context(os.path.dirname(options.rung), folder, "quick")
        context.rung = options.rung
        results = sweep(context, plan, [row for row in rows if row["model"] != "none"], bound, tell)
        for row in rows:
            if row["model"] == "none":
                results[row["name"]] = floors(context, plan, tell)
    return {
        "about": "rung: what each engine costs", "base": BASE, "machine": describe(options.rung), "commit": commit(),
        "version": output_of(options.rung, "version"), "command": shown_command(options), "plan": plan,
        "when": datetime.datetime.fromtimestamp(began, datetime.timezone.utc).isoformat(timespec="seconds"),
        "seconds": round(time.time() - began, 1), "load_before": load, "load_after": os.getloadavg(),
        "cannot_run": {row["name"]: row["reason"] for row in every
                       if row["name"] in wanted and not row["available"]},
        "engines": results, "errors": errors(results),
    }


# --- The command -------------------------------------------------------------------------------------------

def main():
    parser = command.parser_of("cost", "What each engine costs, relative to epoll.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: less than two minutes")
    parser.add_argument("--engines", metavar="A,B", help="only these (and epoll)")
    options = parser.parse_args()
    if options.write:
        table.in_page(options.write, "", "cost")
    if options.source:
        data = command.raw("cost", options.source, "engines", "machine", "errors")
    else:
        command.need("cost", options.rung, "strace")
        data = measured(options, command.tell)
        command.tell("")
    return command.shown("cost", options, data, table.tables(data), "cost")


if __name__ == "__main__":
    command.run("cost", main)
