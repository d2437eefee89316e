# SPDX-License-Identifier: MIT
"""kind_inside.py - our kernel modules and servers in user space, timed inside a guest with a Debian kernel.

A round is one boot: measure_all() takes its cells into a guest that has this machine's files as its root, and
lab/inside.py measures one after another there.  A scenario says how many `processors`:

    1  (the default)  the guest's clock is its count of instructions (guest.py): whatever else this machine does, the
       same work takes the same time.  Nothing runs at the same time as anything else, and a cache miss costs nothing.
    2  the guest's clock is this machine's.  Two things do happen at once, but other work of this machine affects every
       figure, and an emulated instruction costs ten or thirty times what it should.  Such scenarios need another boot.

Either way a figure means something only in comparison with another of the same round.

A target is a `model` of ours in the kernel (`options`: parameters of the module), an `engine` of ours in user space, or a
`peer`.  `lines` of a model: "on", it logs a line for each receive; "none", it is compiled without that; it is off otherwise.  What its clients do: `connections` send requests without a pause; `silent` ones send nothing, while others connect;
`calls` looks at one function of the kernel (`probe` of the target) while connections are made.
"""
import json
import os
import tempfile

from kind_guest import KERNEL, build_of, by_boot, cache_of, modules_for, the_only
from rig import Broken, text_of
from vm import guest, kernel

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
MEMORY_MIB = 1536
MODULES = ("tcp_diag",)   # peers.py needs it to find out which process listens
BOOT_S, CELL_S = 300, 60  # time limits, in this machine's time


def described(context, cells):
    """The job for lab/inside.py, as JSON."""
    job = {"binaries": os.path.dirname(os.path.abspath(context.rung)), "cells": cells, "pace": context.pace,
           "modules": os.path.abspath(modules_for(KERNEL, build_of(context))), "seconds": context.seconds}
    if any(target.get("lines") == "none" for target, _ in cells):
        job["without_lines"] = os.path.abspath(modules_for(KERNEL, build_of(context), False))
    return json.dumps(job)


def told(context, folder, cells):
    """The results that the guest wrote, as far as it got."""
    path, found = os.path.join(folder, "cells"), []
    for line in text_of(path).splitlines() if os.path.exists(path) else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            break  # cut off
    for (target, _), one in zip(cells, found):
        for what, known in (("command", context.commands), ("config", context.configs)):
            if one[what]:
                known.setdefault(target["name"], one[what])
    return [one["found"] if "found" in one else Broken(one["broken"]) for one in found]


def rest(found, cells, why):
    """The results, filled up with the reason why for each cell that was not measured."""
    return [*found, *[Broken(why)] * (len(cells) - len(found))]


def booted(context, number, cells, processors):
    """Measure [(target, scenario)] in one guest; the result of each, or Broken."""
    with tempfile.TemporaryDirectory(dir=context.folder) as share:
        with open(os.path.join(share, "job.json"), "w", encoding="utf-8") as file:
            file.write(described(context, cells))
        job = guest.Job(f"exec {PYTHON} -B '{HERE}/inside.py'", share=share, root="/", modules=MODULES, memory_mib=MEMORY_MIB,
                        cpus=processors, count=processors == 1, seed=number + 1, nice=0,
                        limit_s=BOOT_S + CELL_S * len(cells))
        try:
            result = guest.boot(job, kernel.fetch(KERNEL, cache_of(context)))
        except Broken as error:
            return rest(told(context, share, cells), cells, f"the guest died: {error}")
        if result.complaints:  # which cells they affect is not known
            raise Broken(f"the kernel complains: {result.complaints[0]}")
        return rest(told(context, share, cells), cells, f"the guest said nothing about it: {result.output.strip()[-400:]}")


def measure_all(context, number, cells):
    """A round's cells, all of them: what measure() would return for each, or Broken."""
    return by_boot(cells, lambda scenario: scenario.get("processors", 1),
                   lambda processors, mine: booted(context, number, mine, processors))


def measure(context, target, scenario, _seconds):
    """One cell alone, in a guest of its own."""
    return the_only(measure_all(context, 0, [(target, scenario)]))
