#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""compare.py - variants of one server against each other (make compare NAME=pool-queues).

An experiment is a file of lab/experiments/: a question, variants (options of rung serve; the first is the base)
and works (what a client does).  Every variant does every work once in each round, in turn, so that whatever else
the machine does meets all of them; a ratio is always one of two figures of the same round and work.  With
`matrix = FIGURE` that figure alone is shown, variants by works.  A variant with `binary = PATH` is another build
of rung, for a change that is being weighed: such an experiment lies elsewhere, and is named by its path without
the .toml.
"""
import datetime
import os
import random
import sys
import tempfile
import time
import tomllib

import command
import table
from command import TOP
from cost import attempt, commit, machine
from measure import wrk
from rig import PATIENCE_S, Broken, Client, Crowd, Server, cpu_ns, make_folder, raise_descriptors

SECONDS = {"quick": 0.5, "full": 1}
ROUNDS = {"quick": 3, "full": 7}
ASKS_MIN = 100  # of a paced client, for a 99th percentile
REST_S = 2  # how long a resting server is watched


# --- One measurement ---------------------------------------------------------------------------------------

def processors(work):
    """Of the server and of the client, or None: the kernel decides."""
    if not work.get("pinned"):
        return None, None
    mine = sorted(os.sched_getaffinity(0))
    return mine[:1], mine[-1:]


def busy(server, work, seconds):
    with Crowd(server.port) as idle:
        if work.get("idle") and not idle.grow(work["idle"], PATIENCE_S):
            raise Broken(f"{work['idle']} idle connections were not all answered")
        before_us = cpu_ns(server.pid) / 1e3
        requests, took_s, percentiles = wrk(f"{server.port}/file.bin", work["connections"], seconds, work.get("close"),
                                            processors(work)[1])
    usage = server.stop()
    return {"cpu_us": ((usage.ru_utime + usage.ru_stime) * 1e6 - before_us) / requests,
            "per_second": requests / took_s, "p50_us": percentiles["50"], "p99_us": percentiles["99"],
            "switches": (usage.ru_nvcsw + usage.ru_nivcsw) / requests}


def resting(server, work):
    """Processor time and context switches in a second in which nobody asks for anything."""
    with Crowd(server.port) as crowd:
        if not crowd.grow(work["rests"], PATIENCE_S):
            raise Broken(f"{work['rests']} connections were not all answered")
        time.sleep(0.2)
        before_us = cpu_ns(server.pid) / 1e3
        time.sleep(REST_S)
        used_us = cpu_ns(server.pid) / 1e3 - before_us
    server.stop()
    return {"cpu_us_a_second": used_us / REST_S}


def paced(server, work, seconds):
    """The latency of a client that asks now and then, between two requests a rest of no fixed length."""
    took_us = []
    client, end = Client(server.port), time.monotonic() + 2 * seconds
    while time.monotonic() < end or len(took_us) < ASKS_MIN:
        time.sleep(random.uniform(0.5, 1.5) / work["paced"])
        began = time.monotonic()
        client.ask()
        took_us.append((time.monotonic() - began) * 1e6)
    client.close()
    server.stop()
    took_us.sort()
    return {"p50_us": took_us[len(took_us) // 2], "p99_us": took_us[len(took_us) * 99 // 100]}


def measure(rung, folder, variant, work, seconds):
    with open(os.path.join(folder, "index.html"), "rb") as small:
        index = small.read()
    with open(os.path.join(folder, "file.bin"), "wb") as file:
        file.write((index * (work.get("bytes", 1024) // len(index) + 1))[:work.get("bytes", 1024)])
    with Server(variant.get("binary", rung), variant.get("engine", "auto"), folder,
                options=variant.get("options", "").split(), processors=processors(work)[0]) as server:
        if "rests" in work:
            return resting(server, work)
        return paced(server, work, seconds) if "paced" in work else busy(server, work, seconds)


# --- One experiment ----------------------------------------------------------------------------------------

def load(name):
    folder = os.path.join(TOP, "lab", "experiments")
    path = os.path.join(folder, name + ".toml")
    try:
        with open(path, "rb") as file:
            plan = tomllib.load(file)
    except FileNotFoundError:
        known = sorted(file[:-5] for file in os.listdir(folder) if file.endswith(".toml"))
        sys.exit(f"compare: no experiment {name}; there are: {', '.join(known)}")
    except tomllib.TOMLDecodeError as error:
        sys.exit(f"compare: {path}: {error}")
    for key, fields in (("variant", ("name",)), ("work", ("name",))):
        for row in plan.get(key, []) or [{}]:
            for field in fields:
                if field not in row:
                    sys.exit(f"compare: {path}: every [[{key}]] needs a {field}")
    for work in plan["work"]:
        if len({"rests", "connections", "paced"} & set(work)) != 1:
            sys.exit(f"compare: {path}: work '{work['name']}' needs one of connections, paced and rests")
    if not plan.get("question"):
        sys.exit(f"compare: {path}: it has no question")
    if plan.get("matrix", "cpu_us") not in COLUMNS:
        sys.exit(f"compare: {path}: matrix is one of {', '.join(COLUMNS)}")
    return plan


def measured(rung, name, plan, pace, tell):
    began, before = time.time(), os.getloadavg()
    results = {work["name"]: {variant["name"]: [] for variant in plan["variant"]} for work in plan["work"]}
    with tempfile.TemporaryDirectory(prefix="rung-compare-") as folder:
        make_folder(folder)
        for number in range(ROUNDS[pace]):
            for work in plan["work"]:
                for variant in plan["variant"]:
                    tell(f"round {number + 1} of {ROUNDS[pace]}: {work['name']}: {variant['name']}")
                    results[work["name"]][variant["name"]].append(
                        attempt(lambda v=variant, w=work: measure(rung, folder, v, w, SECONDS[pace])))
    return {"name": name, "plan": plan, "pace": pace, "machine": machine(), "commit": commit(),
            "command": f"lab/compare.py {name}" + (" --quick" if pace == "quick" else ""),
            "when": datetime.datetime.fromtimestamp(began, datetime.timezone.utc).isoformat(timespec="seconds"),
            "seconds": round(time.time() - began, 1), "load_before": before, "load_after": os.getloadavg(),
            "works": results, "cannot_run": {},
            "errors": [f"{work}: {variant}: {one['error']}" for work, rows in results.items()
                       for variant, rounds in rows.items() for one in rounds if "error" in one]}


# --- Tables ------------------------------------------------------------------------------------------------

COLUMNS = {"cpu_us": ("CPU a request", " us"), "per_second": ("requests a second", ""),
           "p50_us": ("half within", " us"), "p99_us": ("99 of 100 within", " us"),
           "switches": ("context switches a request", ""),
           "cpu_us_a_second": ("CPU in a second of rest", " us")}


def cell_of(rows, base, variant, key):
    """One figure of one work: of the base as it is, of others as a ratio to that."""
    pairs = [(one.get(key), first.get(key)) for one, first in zip(rows[variant], rows[base])]
    known = [(one, first) for one, first in pairs if one is not None and first is not None]
    if not known:
        return "failed"
    if key == "switches" or variant == base:
        middle = table.median([one for one, _ in known])
        return ("" if key == "switches" else "1 = ") + table.amount(middle, COLUMNS[key][1])
    return table.spread([one / first for one, first in known if first])


def row_of(rows, base, variant):
    return [variant, *(cell_of(rows, base, variant, key) for key in COLUMNS
                       if any(key in one for one in rows[base]))]


def matrix(data, base, key):
    """Variants by works: one figure of each."""
    what = COLUMNS[key][0]
    return (f"{what[0].upper()}{what[1:]}; ratio to {base}: median (least..most) of the rounds",
            [data["plan"].get("of", "variant"), *data["works"]],
            [[variant["name"], *(cell_of(rows, base, variant["name"], key) for rows in data["works"].values())]
             for variant in data["plan"]["variant"]])


def tables(data):
    base = data["plan"]["variant"][0]["name"]
    if key := data["plan"].get("matrix"):
        yield matrix(data, base, key)
        return
    for work, rows in data["works"].items():
        keys = [key for key in COLUMNS if any(key in one for one in rows[base])]
        yield (f"{work[0].upper()}{work[1:]}; ratio to {base}: median (least..most) of the rounds",
               [data["plan"].get("of", "variant"), *(COLUMNS[key][0] for key in keys)],
               [row_of(rows, base, variant) for variant in rows])


# --- The command -------------------------------------------------------------------------------------------

def main():
    parser = command.parser_of("compare", "Variants of one server against each other.")
    parser.add_argument("name", help="of an experiment: lab/experiments/NAME.toml")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    options = parser.parse_args()
    mark = "compare " + options.name
    if options.write:
        table.in_page(options.write, "", mark)
    if options.source:
        data = command.raw("compare", options.source, "works", "plan", "machine", "errors")
    else:
        plan = load(options.name)
        command.need("compare", options.rung, "wrk")
        raise_descriptors()
        data = measured(options.rung, options.name, plan, "quick" if options.quick else "full", command.tell)
        command.tell("")
    print(data["plan"]["question"] + "\n")
    return command.shown("compare", options, data, tables(data), mark)


if __name__ == "__main__":
    command.run("compare", main)
