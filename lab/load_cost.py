#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""load_cost.py - what a request costs rung load, and what it costs wrk, asking the same nginx: make load-cost.

Three questions, none answered by a single clock reading.  Instructions: each generator under callgrind for a short and a
long run; the difference divided by the additional requests, so that starting cancels.  Processor time: user and system of
the generator per request.  Throughput: runs in turns (A B B A ...), the ratio of neighbours, its median and spread.
With --check rung load compares every body while it is measured; wrk checks nothing, and is the same in both tables.
The experiment `generators` has more generators, and no instructions.
"""
import argparse
import datetime
import os
import platform
import shutil
import statistics
import sys

import askers
import measures
import peers
import scratch
from machine import commit, describe
from rig import PATIENCE_S, Broken, make_folder, text_of

PAGE, BEGIN, END = "docs/load.md", "<!-- begin: make load-cost -->\n", "<!-- end -->"
SERVER, SLOW = "nginx-tuned", 20  # under valgrind a generator may take this many times its duration
CONNECTIONS = 10
QUICK = {"rounds": 6, "seconds": 1, "short": 1, "long": 3}
FULL = {"rounds": 20, "seconds": 3, "short": 2, "long": 8}


class Tools:
    """The generators, and the URL that they request."""

    def __init__(self, load, url, folder):
        basic = ["-c", str(CONNECTIONS), "-t", "1"]
        ours = [load, "-o", "-", *basic]
        self.command = {"rung load": ours, "rung load --check": [*ours, "--check", os.path.join(folder, "root")],
                        "wrk": ["wrk", *basic]}
        self.url, self.out = url, os.path.join(folder, "callgrind.out")

    def run(self, tool, seconds, wrap=()):
        found = askers.ask(tool.removesuffix(" --check"), [*wrap, *self.command[tool], "-d", f"{seconds}s"], self.url,
                           patience_s=seconds * SLOW + PATIENCE_S)
        if found.failed:
            raise Broken(f"{tool}: {found.failed} requests failed")
        return found


def instructions(tools, tool, plan):
    """Instructions of the program and its libraries, per request; those of the kernel are not seen."""
    found = []
    for seconds in (plan["short"], plan["long"]):
        answer = tools.run(tool, seconds, ("valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={tools.out}"))
        found.append((answer.done, measures.events(tools.out)["Ir"]))
    return (found[1][1] - found[0][1]) / (found[1][0] - found[0][0])


def turns(tools, rounds, seconds):
    """Requests per second and processor time per request of each tool, round by round."""
    names, found = list(tools.command), []
    for turn in range(rounds):
        answers = {name: tools.run(name, seconds) for name in (names if turn % 2 == 0 else names[::-1])}
        found.append({name: (one.done / one.seconds, one.cpu_us / one.done) for name, one in answers.items()})
    return found


def spread(values, digits=2):
    low, middle, high = (statistics.quantiles(values, n=4, method="inclusive"))
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def table(tools, counted, found):
    rows = ["| | instructions per request | processor time, us | throughput, of wrk's | processor time, of wrk's |",
            "|---|---|---|---|---|"]
    for name in tools.command:
        rate = spread([one[name][0] / one["wrk"][0] for one in found])
        cpu = spread([one[name][1] / one["wrk"][1] for one in found])
        rows.append(f"| {name} | {counted[name]:.0f} | {spread([one[name][1] for one in found], 1)} | "
                    + (f"{rate} | {cpu} |" if name != "wrk" else "1 | 1 |"))
    return rows


def measured(load, plan):
    """(instructions by tool, rows of the table)."""
    with scratch.Folder("load") as folder:
        root = os.path.join(folder, "root")
        os.mkdir(root)
        make_folder(root)
        with peers.Peer(SERVER, root) as server:
            tools = Tools(load, f"http://127.0.0.1:{server.port}/index.html", folder)
            counted = {name: instructions(tools, name, plan) for name in tools.command}
            return counted, table(tools, counted, turns(tools, plan["rounds"], plan["seconds"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--load", required=True, help="the rung-load to measure")
    parser.add_argument("--quick", action="store_true", help="a minute rather than five")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE}")
    opt = parser.parse_args()
    plan = QUICK if opt.quick else FULL
    missing = [name for name in ("wrk", "valgrind") if not shutil.which(name)] + [why for why in [peers.available()[SERVER]] if why]
    if missing:
        print(f"load_cost.py: not installed: {', '.join(missing)} (scripts/setup lab)", file=sys.stderr)
        return 1
    counted, rows = measured(opt.load, plan)
    machine = describe(opt.load)
    rows += ["", f"{datetime.date.today()}, commit {commit()}, {machine['processor']}, {machine['cores']} processors, "
             f"Linux {platform.release()}, {plan['rounds']} rounds of {plan['seconds']} s, {CONNECTIONS} connections on one "
             "thread, a body of 1 KiB; median (quartiles)."]
    print("\n".join(rows))
    if opt.write:
        head, rest = text_of(PAGE).split(BEGIN)
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(head + BEGIN + "\n".join(rows) + "\n" + END + rest.split(END, 1)[1])
    dear = counted["rung load"] > counted["wrk"]
    if dear:
        print("rung load takes more instructions per request than wrk", file=sys.stderr)
    return 1 if dear else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as why:
        print(f"load_cost.py: {why}", file=sys.stderr)
        sys.exit(1)
