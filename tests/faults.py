# SPDX-License-Identifier: MIT
"""faults.py - the complaints of kernels built to find faults about the modules: kept in the tree, cell by cell.

A cell is a kernel, a program (tests/kernel/churn.py and similar ones, or life: all tests there) and a model.  The result of a run replaces the row of
its cell, so cells can be run at different times.  A row names the tested sources by a digest of kernel/ and
core/: if they have changed since, the row is stale, and table() says so; a cell without a row is missing, and is listed too.
"""
import datetime
import hashlib
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TOP, "lab"), os.path.join(TOP, "tests")]
import kept  # noqa: E402 - found by the line above
from vm import kernel  # noqa: E402 - found by the line above

KEPT = os.path.join(TOP, "lab/results/kernels/faults.json")
SOURCES = ("kernel", "core")  # folders that a module is compiled from
MODELS = ("event", "softirq", "cmwq", "kthread")
COMPLAINTS_MAX, COMPLAINT_MAX = 20, 200  # number of lines kept, and of characters in each
NUMBERS = ("tests", "cycles", "answers", "connections", "seconds")
DIGITS = 12  # of a digest


def programs(version):
    """{program: models} of a kernel; a model is empty where a module has none."""
    if version in kernel.PACKAGES:
        return {"life": MODELS}
    found = {"churn": MODELS, "drops": ("",)}
    return {**found, "nomem": MODELS} if version.startswith("debug-") else found


# shows K36
def cells():
    """(kernel, program, model), in the order of the table."""
    return [(version, program, model) for version in (*kernel.PACKAGES, *kernel.BUILT) for program, models in programs(version).items()
            for model in models]


# --- Rows -----------------------------------------------------------------------------------------------------

def digest(top=TOP):
    """A digest of the names and bytes of all sources that a module is compiled from."""
    found = hashlib.sha256()
    for folder in SOURCES:
        for name in sorted(os.listdir(os.path.join(top, folder))):
            path = os.path.join(top, folder, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    found.update(f"{folder}/{name}\0".encode() + hashlib.sha256(file.read()).digest())
    return found.hexdigest()[:DIGITS]


def commit():
    try:
        return subprocess.run(["git", "-C", TOP, "rev-parse", f"--short={DIGITS}", "HEAD"], check=True, text=True,
                              capture_output=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def row(cell, release, chapters, complaints):
    """The row of a run.  chapters: as churn.tell() writes them, [[name, fault, words, numbers]]."""
    wrong = [f"{name}: {fault}" for name, fault, *_ in chapters if fault] + list(complaints)
    numbers = {name: sum(one[3].get(name, int(name == "tests")) for one in chapters) for name in NUMBERS}
    return {"kernel": cell[0], "program": cell[1], "model": cell[2], "release": release, "sources": digest(),
            "commit": commit(), "chapters": {name: words for name, _, words, *_ in chapters if words}, "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M"), **numbers,
            "complaints": [" ".join(line.split())[:COMPLAINT_MAX] for line in wrong[:COMPLAINTS_MAX]]}


def key(one):
    return one["kernel"], one["program"], one["model"]


def load(path=KEPT):
    return kept.load(path)


def keep(new, path=KEPT):
    """Replaces the row of the same cell."""
    order = {cell: number for number, cell in enumerate(cells())}
    kept.replace(path, new, key, lambda one: (order.get(key(one), len(order)), key(one)))


# --- The table --------------------------------------------------------------------------------------------------

def state(one, sources):
    """The state of a row, or of a cell without one."""
    if not one:
        return "**missing**: not run"
    said = f"**{len(one['complaints'])} complaints**" if one["complaints"] else "nothing"
    return said if one["sources"] == sources else f"{said}; **stale**: the sources have changed since"


def table(path=KEPT, top=TOP):
    """Lines of Markdown: every cell, with or without a row."""
    rows, sources = {key(one): one for one in load(path)}, digest(top)
    lines = ["| kernel | program | model | tests | loaded | answers | connections | s | the kernel said | when |",
             "|---|---|---|---:|---:|---:|---:|---:|---|---|"]
    for cell in cells():
        one = rows.get(cell)
        numbers = [f"{one[name]:,}" if one else "" for name in NUMBERS]
        version = f"{cell[0]} ({one['release']})" if one else cell[0]
        lines.append("| " + " | ".join([version, cell[1], cell[2] or "-", *numbers, state(one, sources),
                                        f"{one['date']}, {one['commit']}" if one else ""]) + " |")
    fresh = [cell for cell in cells() if cell in rows and rows[cell]["sources"] == sources]
    return [*lines, "", f"{len(fresh)} of {len(cells())} cells were run with the sources of this tree; "
            f"{sum(bool(rows[cell]['complaints']) for cell in cells() if cell in rows)} had something to complain of."]
