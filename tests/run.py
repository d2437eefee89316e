#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""run.py - every test there is, in layers, with totals: what `make check`, `quick`, `coverage` and so on call.

One line per layer: LAYER: N passed, N failed, N skipped (T s, T s of processor).  Layers that leave room for others run
side by side (layer.py).  Then come the tests that failed while others ran and passed alone, the skipped tests
with reasons, the failed tests, a table of engines and their arrangements, and on the very last line the sum.  A layer's whole
output is in build/log/LAYER.txt.  Nothing may hang: every program has a time limit, and a process that outlives its test
is ended and reported.  The status is 0 when at least one test passed and none failed.
"""
import argparse
import glob
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import layers  # noqa: E402
import plan as plans  # noqa: E402
from layer import SEATS, Layer, side_by_side  # noqa: E402
from lib import trees  # noqa: E402


def table(tally):
    """Engine, arrangement and counts, the rows of one engine together, in the order of engine.h."""
    found = [layer for layer in tally if layer.row]
    order = list(dict.fromkeys(layer.row[0] for layer in found))
    rows = [(*layer.row, len(layer.passed), len(layer.failed), len(layer.skipped))
            for layer in sorted(found, key=lambda layer: order.index(layer.row[0]))]
    if not rows:
        return []
    rows.insert(0, ("engine", "arrangement", "passed", "failed", "skipped"))
    wide = [max(len(str(row[at])) for row in rows) for at in range(5)]
    return ["table: " + "  ".join([str(text).ljust(width) for text, width in zip(row[:2], wide)] +
                                  [str(text).rjust(width) for text, width in zip(row[2:], wide[2:])]) for row in rows]


def listed(plan, tally):
    """Prints the end: failures, unsteady tests, skipped tests with reasons, the sum."""
    for layer in tally:
        for name in layer.unsteady:
            print(f"unsteady in {layer.name}: {name} (failed beside others, passed alone)")
    for layer in tally:
        reasons = {}
        for name, reason in layer.skipped:
            reasons.setdefault(reason or "no reason given", []).append(name)
        for reason, names in sorted(reasons.items()):
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            print(f"skipped in {layer.name}: {names[0]}{more}: {reason}")
    for layer in tally:
        for name in layer.failed:
            print(f"failed in {layer.name}: {name}")
    for line in table(tally):
        print(line)
    passed = sum(len(layer.passed) for layer in tally)
    failed = sum(len(layer.failed) for layer in tally)
    skipped = sum(len(layer.skipped) for layer in tally)
    print(f"({plan}, {time.monotonic() - STARTED:.0f} s)")
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 0 if passed and not failed else 1


STARTED = time.monotonic()
MEMORY_FREE = 1 << 30  # bytes that must be free in memory


def in_memory():
    """Keeps the files of `make quick` in memory, where names are made and removed in a fraction of the time; the other plans use a disk."""
    if trees.MEMORY and (free := os.statvfs(trees.MEMORY)).f_bavail * free.f_frsize > MEMORY_FREE:
        os.environ.setdefault("TMPDIR", trees.MEMORY)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build", help="where things are made (build)")
    parser.add_argument("--quick", action="store_true", help="the part that takes less than a minute")
    parser.add_argument("--plan", choices=plans.PLANS, help="which of them (check)")
    parser.add_argument("--coverage", action="store_true", help="how much of core/ the C tests reach")
    parser.add_argument("--only", metavar="PATTERN", help="layers whose name has it, as in '^wire (epoll|pool)$'; of all plans, or of --plan")
    parser.add_argument("--seats", type=int, default=SEATS, metavar="N",
                        help=f"quarters of a processor for layers side by side ({SEATS}); 1: one after the other")
    parser.add_argument("--list", action="store_true", help="names of the layers")
    opt = parser.parse_args()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    os.environ["LC_ALL"] = "C.UTF-8"
    os.environ["WERROR"] = "1"  # for the Makefile: a warning is an error
    if opt.coverage:
        return layers.coverage(opt.build)
    plan = "quick" if opt.quick else opt.plan or "check"
    if opt.quick:
        in_memory()
    todo = [(name, job) for name, wanted_by, job in plans.plan()
            if (opt.only and not opt.plan or plan in wanted_by) and re.search(opt.only or "", name)]
    if opt.list:
        print("\n".join(name for name, _ in todo))
        return 0
    os.makedirs(os.path.join(opt.build, "log"), exist_ok=True)
    for old in glob.glob(os.path.join(opt.build, "log", "*.txt")):
        os.unlink(old)
    # A script starts its background jobs with SIGINT ignored, and programs inherit that: tests that interrupt a
    # program would wait for ever.  A signal with a handler has its default action in a new program.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tally = [Layer(name, opt.build, opt.quick, job) for name, job in todo]
    for layer in side_by_side(tally, opt.seats):
        print("\n".join(layer.said), flush=True)
    return listed(plan, tally)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
