# SPDX-License-Identifier: MIT
"""sample.py - results that were never measured, for tests of what the lab makes from results."""
import copy
import random

MACHINE = {"processor": "A Processor, 3 GHz", "cores": 2, "memory_mib": 24576, "kernel": "6.1.0", "system": "Debian 12"}
PERCENTILES = (50, 75, 90, 99, 99.9, 99.99, 100)


def plan(targets, scenarios, **more):
    return {"title": "A sample", "question": "Which of these is a sample?", "method": "Numbers are made up.", "kind": "load",
            "base": targets[0], "rounds": {"quick": 6, "full": 12},
            "target": [{"name": name, "options": "--engine epoll"} for name in targets],
            "scenario": [one if isinstance(one, dict) else {"name": one, "connections": 8} for one in scenarios], **more}


def result(made, rounds=6, **more):
    """A result of this plan: the figures of a cell depend only on its names and its round."""
    cells = [cell(target["name"], scenario, number) for number in range(rounds) for scenario in made["scenario"]
             for target in made["target"]]
    return {"version": 1, "name": "sample", "plan": made, "pace": "quick", "machine": dict(MACHINE), "commit": "abc1234",
            "when": "2026-01-02T03:04:05+00:00", "seconds": 61.5, "command": "rung lab run sample",
            "commands": {target["name"]: f"rung serve {target['options']} FOLDER" for target in made["target"]}, "configs": {},
            "same_bytes": "each body was compared with the file", "missing": {}, "settings": {}, "load_before": [0.5, 0.4, 0.3],
            "load_after": [1.5, 1, 0.5], "remarks": [], "cells": cells, **more}


def cell(target, scenario, number):
    name = scenario["name"]
    fixed = random.Random(f"{target}/{name}").uniform(0.7, 1.4) * (1 + scenario.get("x", 1) ** 0.5 / 4)
    noise = random.Random(f"{target}/{name}/{number}").uniform(0.96, 1.04)
    value = fixed * noise
    waits = [[at, round(90 * value * (100 / (100.0001 - at)) ** 0.35, 2)] for at in PERCENTILES]
    return {"target": target, "scenario": name, "round": number, "took_s": 0.5, "error": None,
            "figures": {"cpu_us": 18 * value, "per_second": 45000 / value, "p50_us": waits[0][1], "p99_us": waits[3][1],
                        "calls": 4.0, "rss_kib": 3000 * fixed},
            "limiter": "the server's processor", "percentiles": waits}


def break_cell(made, target, scenario, number, error="the server died"):
    for one in made["cells"]:
        if (one["target"], one["scenario"], one["round"]) == (target, scenario, number):
            one.update(error=error, figures={}, limiter=None)
            one.pop("percentiles", None)


def without(made, target, why):
    made["missing"][target] = why
    made["cells"] = [one for one in made["cells"] if one["target"] != target]


ENGINES = ("naive", "fork", "thread", "pool", "nonblock", "select", "poll", "epoll", "dispatch", "coro", "uring", "null")


def pools():
    """A comparison of a few targets, with claims of every verdict, an invalid cell and a peer that is not installed."""
    names = ["mutex", "lock-free", "mutex, drain all, yield", "nginx, tuned"]
    made = plan(names, ["64 connections, 1 KiB", "1 connection, 1 KiB", "64 connections, 1 MiB, a connection for each request"],
                of="queue", plot=[{"kind": "bars", "figure": "cpu_us"}, {"kind": "bars", "figure": "p99_us"},
                                  {"kind": "percentiles", "figure": "p99_us"}],
                claim=[{"document": "The lock-free pool loses more than 1000 requests a second to the one with a lock.",
                        "figure": "per_second", "of": "lock-free", "to": "mutex", "expect": "< 1"},
                       {"document": "", "says": "Yielding costs at most a third.", "figure": "cpu_us",
                        "of": "mutex, drain all, yield", "to": "mutex", "expect": "0.5..1.34"},
                       {"document": "nginx needs less.", "figure": "cpu_us", "of": "nginx, tuned", "to": "mutex", "expect": "< 1"},
                       {"document": "", "says": "A request takes less than 1 ms.", "figure": "p99_us", "of": "mutex", "expect": "< 1000",
                        "scenario": "1 connection, 1 KiB"}])
    found = result(made, configs={"nginx, tuned": "worker_processes 1;\nevents { use epoll; }\n"},
                   settings={"net.core.somaxconn": "set to 4096, put back to 128"}, remarks=["Turbo was on."])
    break_cell(found, "lock-free", "1 connection, 1 KiB", 2)
    without(found, "nginx, tuned", "nginx is not installed")
    return found


def ladder(names=ENGINES):
    """Lines over the number of connections."""
    made = plan(list(names), [{"name": f"{count} connections", "x": count, "connections": count} for count in (1, 4, 16, 64, 256, 1024)],
                base="epoll" if "epoll" in names else names[0], of="engine",
                plot=[{"kind": "lines", "figure": "cpu_us", "log": "x", "x_label": "connections"},
                      {"kind": "lines", "figure": "p99_us", "log": "xy", "x_label": "connections"},
                      {"kind": "bars", "figure": "per_second"}])
    found = result(made, 12, pace="full")
    break_cell(found, names[1], "16 connections", 1, "65 of 1024 requests failed")
    return found


def standings():
    """One of our servers compared with others and a floor: the floor is left out of one scenario, one server cannot do one."""
    made = plan(["floor", "ours", "theirs", "others"], ["small", "large"], of="server",
                       standing={"figure": "cpu_us", "ours": ["ours"], "others": ["theirs", "others"], "floor": "floor"},
                       plot=[{"kind": "bars", "figure": "cpu_us", "to": "floor", "targets": ["ours", "theirs", "others"]}],
                       claim=[{"says": "At the floor.", "figure": "cpu_us", "of": "ours", "to": "floor", "expect": "0..0.1",
                               "reason": "It does `more` than that."},
                              {"says": "Ahead.", "figure": "cpu_us", "of": ["ours"], "to_best": ["theirs", "others"],
                               "expect": "0..100", "reason": "Never shown."}])
    made["target"][0]["not"] = ["large"]
    found = result(made)
    found["cells"] = [one for one in found["cells"] if (one["target"], one["scenario"]) != ("floor", "large")]
    for number in range(6):
        break_cell(found, "others", "small", number, "others does not do that")
    for one in found["cells"]:
        if one["error"]:
            one["cannot"] = True
    return found


def copied(made):
    return copy.deepcopy(made)
