#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""lab.py - rung lab: every experiment again, on this machine.

rung lab                       list the experiments
rung lab run NAME ...          measure (two minutes each); --full for longer
rung lab show NAME ...         show what the last run found
rung lab draw                  make its pages and plots again

An interrupted run continues where it stopped when it is started again.
"""
import argparse
import os
import subprocess
import sys

import command
import counts
import experiment
import far
import figures
import judge
import plots
import reading
import runner
import shells
import standing
import table
import view
from command import TOP, tell
from rig import SETUP, SOURCES

WHO = "lab"
WHAT = "Measure again, on this machine, what each way of waiting costs."


def say(text):
    print(f"{WHO}: {text}", file=sys.stderr, flush=True)


# --- On a terminal ------------------------------------------------------------------------------------------

def cell_of(result, target, scenario, figure):
    base, unit = result["plan"]["base"], figures.FIGURES[figure].unit
    if judge.cannot(result, target, scenario):
        return view.CANNOT
    if judge.errors(result, target, scenario):
        return "invalid"
    found = judge.figure_of(result, target, scenario, figure)
    if not found:
        return table.NONE
    if target == base:
        return f"1 = {table.brief(found.median)} {unit}".rstrip()
    against = judge.ratio(result, target, base, scenario, figure)
    if not against:
        return table.brief(found.median)
    said = f"{table.brief(against.median)} ({table.brief(against.low)}..{table.brief(against.high)})"
    return said if against.differs() else said + " ~"


def figures_of(result, scenario):
    """The figures that any target has in that scenario."""
    had = {key for one in result["cells"] if one["scenario"] == scenario for key in one["figures"]}
    return [key for key in figures.shown(result["plan"]) if key in had]


def table_of(result, scenario):
    keys = figures_of(result, scenario)
    targets = [one["name"] for one in result["plan"]["target"] if judge.cells(result, one["name"], scenario)]
    return [result["plan"].get("of", "target"), *(figures.FIGURES[key].words for key in keys)], [
        [target, *(cell_of(result, target, scenario, key) for key in keys)] for target in targets]


def limits(result, scenario, targets):
    """The limits, each with the targets that met it; in one line if it was the same for all."""
    found = {}
    for target in targets:
        found.setdefault(judge.limiter(result, target, scenario), []).append(target)
    found.pop(None, None)
    return [limit if len(found) == 1 else f"{limit}: {', '.join(whose)}" for limit, whose in found.items()]


def verdict_line(told):
    claim, found = told["claim"], told["found"]
    what = claim.get("document") or claim["says"]
    seen = f"{table.brief(found.median)} ({table.brief(found.low)}..{table.brief(found.high)})" if found else told["why"]
    return f"{told['verdict'].upper()}: {what}  [{view.where(told)}: {claim['figure']} {claim['expect']}; found {seen}]"


def show(result):
    print(result["plan"]["question"] + "\n")
    for scenario in result["plan"]["scenario"]:
        head, rows = table_of(result, scenario["name"])
        if rows:
            print(f"{scenario['name']}; ratio to {result['plan']['base']}: median (interval), ~ no significant difference")
            print("\n".join("  " + line for line in table.aligned(head, rows)))
            print("".join(f"  limit: {line}\n" for line in limits(result, scenario["name"], [row[0] for row in rows])))
    for found in counts.tables(result):
        rows = [(name, cells[0].text) for name, cells in found.rows]
        print(found.caption + "\n" + "\n".join("  " + line for line in table.aligned([found.corner, *found.head], rows)) + "\n")
    if found := standing.rows(result):
        rows = [[one.scenario, one.word, one.by, one.ours, one.other] for one in found]
        print(standing.summary(result) + "\n" + "\n".join("  " + line for line in table.aligned(standing.heads(result), rows)) + "\n")
    for told in judge.verdicts(result):
        print(verdict_line(told))
    for what, how in result["settings"].items():
        print(f"SETTING {what}: {how}")
    for remark in result["remarks"]:
        print(f"MACHINE {remark}")
    for name, reason in result["missing"].items():
        print(f"MISSING {name}: {reason}")
    for line in view.cannots(result):
        print(f"NOT OFFERED {line}")
    for line in dict.fromkeys(f"INVALID {one['target']}, {one['scenario']}: {one['error']}"
                              for one in result["cells"] if one["error"] and not one.get("cannot")):
        print(line)


# --- The command --------------------------------------------------------------------------------------------

def list_all(_options):
    status = 0
    for name in experiment.names():
        try:
            print(f"{name:<18} {experiment.load(name)['question']}")
        except experiment.Wrong as error:
            say(error)
            status = 2
    return status


def plans_of(names):
    """{name or path: plan}; each is checked before anything is built or measured."""
    found, called = {}, {}
    for name in names:
        short, path = experiment.name_of(name), os.path.abspath(experiment.place(name))
        if called.get(short) == path:
            continue
        if called.setdefault(short, path) != path:
            say(f"two experiments are called {short}: {called[short]} and {path}; their results would be one file: rename one")
            sys.exit(2)
        try:
            found[name] = experiment.load(name)
        except experiment.Wrong as error:
            say(error)
            sys.exit(2)
    return found


def runnable(plans):
    """The plans that can run here; for the others the reason is printed before anything is built."""
    found = {}
    for name, plan in plans.items():
        try:
            runner.cannot_run(plan)
            found[name] = plan
        except runner.Stopped as error:
            say(f"{experiment.name_of(name)}: {error}")
    return found


def build(binaries, plans):
    """Build the binaries from the sources as they are now, in the folder where make puts them, and those of targets that are
    compiled in another way."""
    folder, mode = os.path.split(binaries)
    more = sorted({target["build"] for plan in plans for target in plan["target"] if "build" in target})
    for mode, what in [(mode, ["all", "lab-programs"]), *((one, ["all"]) for one in more)]:
        if subprocess.run(["make", "-s", "-C", TOP, f"BUILD={folder}", f"MODE={mode}", f"-j{os.cpu_count()}", *what],
                          stdout=sys.stderr, check=False).returncode:
            say(f"make failed, see above; --no-build measures what is in {folder}")
            sys.exit(1)


def run(options):
    plans = plans_of(options.names or experiment.names())
    try:
        far.settle(options.client, options.address)
    except far.Unfit as error:
        say(error)
        return 2
    here = runnable(plans)
    status = 0 if len(here) == len(plans) else 1
    if here and SOURCES and not options.no_build:
        build(options.bin, here.values())
    for name, plan in here.items():
        short = experiment.name_of(name)
        try:
            result = runner.run(name, plan, "full" if options.full else "quick", options.bin, options.out, options.again,
                                lambda text, short=short: tell(f"{short}: {text}"))
        except runner.Stopped as error:
            tell("")
            say(f"{short}: {error}")
            status = 1
            continue
        tell("")
        show(reading.with_derived(result))
        draw(options, [reading.with_derived(result)])
        status = 1 if status or any(one["error"] and not one.get("cannot") for one in result["cells"]) else 0
    draw_index(options)
    return status


def draw(options, results):
    """Draw the pages of results.  If the libraries for drawing are missing, or the disk is full, a result is still whole."""
    try:
        for result in results:
            tell(f"{result['name']}: drawing")
            plots.draw_one(result, options.out)
    except ImportError as error:
        say(f"there are no pages and plots, for {error.name} is not installed: {SETUP} installs it")
    except OSError as error:
        say(f"{options.out}: {error.strerror}; the results are there, rung lab draw makes pages of them")
    tell("")


def draw_index(options):
    try:
        plots.draw_index(plots.plans(experiment.FOLDER), plots.results(options.out, say, experiment.FOLDER), options.out)
        say(f"{os.path.relpath(options.out)}/index.html has all of it")
    except (ImportError, OSError):
        pass  # draw() has said so


def chosen(options):
    """The results of the given names; all results, if none are given."""
    if options.names:
        return [result_of(options, experiment.name_of(name)) for name in options.names]
    found = list(plots.results(options.out, say, experiment.FOLDER).values())
    if not found:
        say(f"there is no result in {options.out}; rung lab run NAME makes one, rung lab list tells the names")
        sys.exit(1)
    return found


def result_of(options, name):
    path = os.path.join(options.out, name + ".json")
    if not os.path.exists(path):
        say(f"there is no {path}; rung lab run {name} makes it")
        sys.exit(1)
    try:
        return plots.result_of(path, experiment.FOLDER)
    except plots.Unfit as error:
        say(error)
        sys.exit(1)


def draw_all(options):
    draw(options, chosen(options))
    draw_index(options)
    return 0


def show_all(options):
    for result in chosen(options):
        show(result)
    return 0


def main():
    binaries = os.path.join(TOP, "build", "release")
    parser = argparse.ArgumentParser(prog="rung lab", description=WHAT)
    parser.add_argument("--bin", default=binaries, type=os.path.abspath, help="folder of the binaries to measure")
    parser.add_argument("--out", default=os.path.join(TOP, "build", "lab"), type=os.path.abspath, help="folder for the results")
    parser.set_defaults(what=list_all)
    known = parser.add_subparsers(metavar="COMMAND", title="commands", description="without one: list")
    known.add_parser("list", help="print the experiments, each with its question").set_defaults(what=list_all)
    running = known.add_parser("run", help="measure the experiments of these names; all, if none is given")
    running.add_argument("names", metavar="NAME", nargs="*", help="name of an experiment, or the path of a .toml")
    pace = running.add_mutually_exclusive_group()
    pace.add_argument("--quick", action="store_true", help="measure for two minutes each (the default)")
    pace.add_argument("--full", action="store_true", help="measure more and longer rounds")
    running.add_argument("--again", action="store_true", help="forget what an interrupted run measured")
    running.add_argument("--no-build", action="store_true", help="measure the binaries as they are, as an installed lab always does")
    running.add_argument("--client", metavar="COMMAND", help="start rung load on another machine by this, such as 'ssh HOST rung-load'")
    running.add_argument("--address", metavar="IP", help="IPv4 address of this machine on which that one reaches the servers")
    running.set_defaults(what=run)
    showing = known.add_parser("show", help="print what the last run found")
    showing.add_argument("names", metavar="NAME", nargs="*")
    showing.set_defaults(what=show_all)
    drawing = known.add_parser("draw", help="make pages and plots of results, without measuring")
    drawing.add_argument("names", metavar="NAME", nargs="*")
    drawing.set_defaults(what=draw_all)
    if shells.generate(parser, known, sys.argv[-1]):
        return 0
    options = parser.parse_args()
    return options.what(options)


if __name__ == "__main__":
    command.run(WHO, main, "what was measured is kept, and the same command goes on from there")
