# SPDX-License-Identifier: MIT
"""kind_instructions.py - instructions that rung executes in user space for a request, and the size of its program.

valgrind counts those of two whole runs, one with `short` requests and one with `long`.  The difference divided by the additional
requests is the cost of one, because starting, warming and stopping cancel.  The kernel's work and the cost of waiting for memory
are not seen.  Unlike times, counts with one connection are the same in every run.
"""
import os

import kind_massif
import measures
from machine import output_of
from rig import CHANGED_S, Broken

PATIENCE_S = 300
PRELOAD = "openat2.so"  # a system call that valgrind lacks


def program_bytes(path):
    """Code and data of a program, without what a debugger reads."""
    try:
        text, data = output_of("size", path).splitlines()[1].split()[:2]
    except (IndexError, ValueError):
        raise Broken(f"size says nothing of {path}") from None
    return int(text) + int(data)


def documents(context, scenario):
    """The folder of measures.documents(), with files that look old: in a file's first second less of it is cached."""
    folder = measures.documents(context, scenario)
    for name in os.listdir(folder):
        os.utime(os.path.join(folder, name), (CHANGED_S, CHANGED_S))
    return folder


def life(context, target, scenario, requests):
    """Instructions in the whole run of a server that answers `requests` requests."""
    folder, out = documents(context, scenario), os.path.join(context.folder, "callgrind.out")
    preload = os.path.join(os.path.dirname(context.rung), PRELOAD)
    if not os.path.exists(preload):
        raise Broken(f"there is no {PRELOAD} for valgrind: make lab-programs")
    wrap = [*kind_massif.mounts_of_its_own(), "valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={out}"]
    with measures.open_target(context, {**target, "env": {"LD_PRELOAD": preload}}, scenario, folder, wrap) as server:
        options = measures.load_options(context, scenario, server.port, folder)
        measures.generate(context, ["-n", str(requests), *options], PATIENCE_S, measures.processors(scenario)[1])
        server.stop()
    return measures.events(out)["Ir"]


def measure(context, target, scenario, _seconds):
    short, long = scenario["short"], scenario["long"]
    more = life(context, target, scenario, long) - life(context, target, scenario, short)
    return {"figures": {"instructions": more / (long - short), "program_bytes": program_bytes(measures.rung_of(context, target))},
            "limiter": None}
