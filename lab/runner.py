# SPDX-License-Identifier: MIT
"""runner.py - an experiment's plan becomes a result: every target in every scenario once a round, in turn.

Each cell goes to a journal as soon as it is measured.  An interrupted run continues from there: valid cells in the journal are
not measured again, as long as plan, pace, sources and binaries are the same.  The result is written whole or not at all.
"""
import contextlib
import datetime
import fcntl
import glob
import hashlib
import json
import os
import random
import shutil
import subprocess
import time

import experiment
import far
import machine
import measures
import scratch
from command import put
from rig import SETUP, SOURCES, Broken, Cannot, bytes_of, raise_descriptors

VERSION = 1
STOLEN_MAX, TRIES_MAX = 0.02, 4  # share of the processors' time that the host took; beyond it a cell is measured again
PAUSE_S = 0.5  # before the next try: hosts take time from guests that have used much
VAIN_MAX = 3  # cells in a row that stayed disturbed after all tries: then one try each, until the host is calm again
COMPARED = {"load", "logged", "calls", "ab", "generators"}  # kinds that compare what is sent with the files


class Stopped(Exception):
    """The run cannot continue; existing files are kept.  The text is a sentence for the user."""


class Journal:
    """Lines of JSON: the first says what is being measured, each of the others is a cell."""

    def __init__(self, path, header, again=False):
        self.path, self.done, self.took_s = path, {}, 0.0
        kept = [] if again else self.read(header)
        for cell in kept:
            self.done[key_of(cell)] = cell
            self.took_s += cell["took_s"]
        try:
            # The file is rewritten: a line that was cut in the middle is not kept.
            put(path, "".join(json.dumps(line) + "\n" for line in [header, *kept]))
            self.file = open(path, "a", encoding="utf-8")  # pylint: disable=consider-using-with
        except OSError as error:
            raise Stopped(f"{path}: {error.strerror}; nothing was measured") from None

    def read(self, header):
        """The cells that are worth keeping.  A failed cell may have failed for the same reason that then ended the run."""
        try:
            with open(self.path, encoding="utf-8") as file:
                lines = file.readlines()
        except OSError:
            return []
        found = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                break  # cut off
        same = found and found[0] == json.loads(json.dumps(header))
        return [cell for cell in found[1:] if not cell.get("error")] if same else []

    def add(self, cell):
        self.done[key_of(cell)] = cell
        self.took_s += cell["took_s"]
        try:
            self.file.write(json.dumps(cell) + "\n")
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            raise Stopped(f"{self.path}: {error.strerror}; the {len(self.done) - 1} cells before are kept: "
                          "make room and run it again, it goes on from there") from None

    def close(self):
        self.file.close()

    def finished(self):
        self.close()
        os.unlink(self.path)


def key_of(cell):
    return cell["target"], cell["scenario"], cell["round"]


# --- Cells --------------------------------------------------------------------------------------------------

FAILURES = (Broken, OSError, subprocess.SubprocessError)


def valid(found):
    return {"error": None, **found}


def invalid(error):
    said = str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
    return {"error": said, "figures": {}, "limiter": None, **({"cannot": True} if isinstance(error, Cannot) else {})}


def attempt(what):
    """The cell that what() returns, or an invalid one: a failure is reported, and the other cells are still measured."""
    try:
        return valid(what())
    except FAILURES as error:
        return invalid(error)


def undisturbed(what, tries_max=TRIES_MAX):
    """A cell during which the host of this virtual machine took hardly any of its processors' time; after some tries, the
    least disturbed one.  The time that the host takes does not depend on the target, so no target is favoured."""
    best = None
    for tries in range(1, tries_max + 1):
        before_s, began = machine.stolen_s(), time.monotonic()
        cell = attempt(what)
        share = (machine.stolen_s() - before_s) / (time.monotonic() - began) / os.cpu_count()
        if best is None or share < best["stolen"] or cell["error"]:
            best = {**cell, "stolen": round(share, 3)}
        best["tries"] = tries
        if share <= STOLEN_MAX or cell["error"] or tries == tries_max:
            break
        time.sleep(PAUSE_S)
    return best


def disturbances(cells):
    """What was done about disturbed cells, as a remark."""
    again = [one for one in cells if one.get("tries", 1) > 1]
    spoilt = [one for one in cells if one.get("stolen", 0) > STOLEN_MAX]
    if not again:
        return []
    return [f"{len(again)} of {len(cells)} cells were measured again, because the host of this virtual machine had taken more than "
            f"{STOLEN_MAX:.0%} of its processors' time meanwhile: up to {TRIES_MAX} times, unless that had just been in vain. "
            f"{len(spoilt)} are kept disturbed."]


def turns(plan, pace, missing):
    """Every (round, scenario, target) in the order of measuring.  Each round begins with another target.  The plan may ask
    for a random order, the same in every run: then no target always follows the same other one."""
    targets = [one for one in plan["target"] if one["name"] not in missing]
    for number in range(plan["rounds"][pace]):
        first = number % len(targets) if targets else 0
        for scenario in plan["scenario"]:
            if pace == "full" or not scenario.get("full_only"):
                mine = targets[first:] + targets[:first]
                if plan.get("order") == "random":
                    random.Random(f"{number} {scenario['name']}").shuffle(mine)
                for target in mine:
                    if scenario["name"] not in target.get("not", []):
                        yield number, scenario, target


def note(context, journal, turn, took_s, cell):
    number, scenario, target = turn
    name = target["name"]
    journal.add({"target": name, "scenario": scenario["name"], "round": number, "took_s": round(took_s, 3), **cell,
                 "command": context.commands.get(name), "config": context.configs.get(name)})


def measure_rounds(context, kind, left, journal, tell):
    """For a kind that measures a round's cells at once: the time is divided equally among the cells."""
    whole = measures.whole_round(kind)
    for number in sorted({number for number, _, _ in left}):
        mine = [turn for turn in left if turn[0] == number]
        tell(f"round {number + 1}: {len(mine)} cells together")
        began = time.monotonic()
        try:
            found = whole(context, number, [(target, scenario) for _, scenario, target in mine])
        except FAILURES as error:
            found = [error] * len(mine)
        took_s = (time.monotonic() - began) / len(mine)
        for turn, one in zip(mine, found):
            note(context, journal, turn, took_s, invalid(one) if isinstance(one, Exception) else valid(one))


def measure_cells(context, plan, journal, missing, tell):
    """Measure all cells that are not in the journal: first those of kinds that measure a round's cells at once."""
    pace = context.pace
    every = list(turns(plan, pace, missing))
    left = [(n, s, t) for n, s, t in every if (t["name"], s["name"], n) not in journal.done]
    together = [kind for kind in sorted(kinds_of(plan)) if measures.whole_round(kind)]
    for kind in together:
        measure_rounds(context, kind, [turn for turn in left if experiment.kind_of(plan, turn[1]) == kind], journal, tell)
    vain, alone = 0, [turn for turn in left if experiment.kind_of(plan, turn[1]) not in together]
    for at, turn in enumerate(alone, len(every) - len(alone) + 1):
        _, scenario, target = turn
        tell(f"{at} of {len(every)}: {scenario['name']}: {target['name']}")
        began, kind = time.monotonic(), measures.kind(experiment.kind_of(plan, scenario))
        cell = undisturbed(lambda k=kind, t=target, s=scenario: k(context, t, s, plan["seconds"][pace]),
                           TRIES_MAX if vain < VAIN_MAX else 1)
        vain = vain + 1 if cell["stolen"] > STOLEN_MAX else 0
        note(context, journal, turn, time.monotonic() - began, cell)


def taken_out(cells, key):
    """Remove a key from all cells, and return its value for each target: it is the same in all cells of a target."""
    found = {}
    for cell in cells:
        if value := cell.pop(key, None):
            found[cell["target"]] = value
    return found


def cannot_run(plan):
    """{target that cannot run here: why}.  Stopped: nothing of the plan can be measured here."""
    for kind in kinds_of(plan):
        if not measures.kind(kind):
            raise Stopped(f"there is no kind {kind}: neither in measures.py nor as kind_{kind}.py")
    try:
        far.check(kinds_of(plan))
    except far.Unfit as error:
        raise Stopped(f"{error}") from None
    found = {}
    wanted = {one["name"]: one["peer"] for one in plan["target"] if "peer" in one}
    if wanted:
        import peers  # pylint: disable=import-outside-toplevel
        reasons = peers.available()
        if unknown := sorted(set(wanted.values()) - set(reasons)):
            raise Stopped(f"there is no peer {unknown[0]}; there are {', '.join(reasons)}")
        found = {name: reasons[peer] for name, peer in wanted.items() if reasons[peer]}
    for key, what in (("model", "kernel modules"), ("build", "other builds")):
        if not SOURCES and any(key in one for one in plan["target"]):
            raise Stopped(f"{what} are built from rung's sources, which are not installed: run it in their folder")
    for tool in plan.get("needs", []):
        if not shutil.which(tool):
            raise Stopped(f"there is no {tool}: {SETUP} installs what the lab needs")
    return found


def check_built(plan, binaries):
    """Raise Stopped if a program is missing: otherwise each of its cells would be invalid, one after another."""
    known = [experiment.KINDS[name] for name in kinds_of(plan) if name in experiment.KINDS]
    others = {"peer", "program", "generator", "binary", "build", "model"}
    wanted = {"rung": any("rung" in kind.binaries for kind in known) and any(not others & set(one) for one in plan["target"]),
              "rung-load": any("rung-load" in kind.binaries for kind in known),
              **{"lab/" + one["program"]: True for one in plan["target"] if "program" in one}}
    paths = [os.path.join(binaries, name) for name, is_wanted in wanted.items() if is_wanted]
    for path in [*paths, *other_rungs(plan, binaries)]:
        if not os.access(path, os.X_OK):
            raise Stopped(f"there is no program {path}: make all lab-programs builds those of these sources")


def other_rungs(plan, binaries):
    """Paths of the rung programs other than `rung` in the folder of binaries."""
    return [*(one["binary"] for one in plan["target"] if "binary" in one),
            *(os.path.join(os.path.dirname(binaries), one["build"], "rung") for one in plan["target"] if "build" in one)]


# --- The whole ----------------------------------------------------------------------------------------------

def kinds_of(plan):
    """The kinds of a plan's cells; a scenario may have a kind of its own."""
    return {experiment.kind_of(plan, scenario) for scenario in plan["scenario"]}


def binaries_of(plan, binaries):
    """A hash of all programs that may be measured: the commit does not change with uncommitted changes, and programs may be
    built again between two starts."""
    found = hashlib.sha256()
    mine = [path for path in glob.glob(os.path.join(binaries, "lab", "*")) if os.path.isfile(path) and os.access(path, os.X_OK)]
    for path in [os.path.join(binaries, "rung"), os.path.join(binaries, "rung-load"), *sorted(mine), *other_rungs(plan, binaries)]:
        if os.path.exists(path):
            found.update(bytes_of(path))
    return found.hexdigest()[:16]


def same_bytes(plan):
    if not kinds_of(plan) & COMPARED:
        return ""
    return ("before each cell that asks for files every target was asked for all of them, and each body compared with the file, "
            "byte by byte")


def text_of(result):
    """JSON with a line for each cell, so that it can be read and compared with another result."""
    head = json.dumps({**result, "cells": []}, indent=1)
    assert head.endswith('"cells": []\n}')
    return head.removesuffix("]\n}") + "\n" + ",\n".join(json.dumps(rounded(cell)) for cell in result["cells"]) + "\n]}\n"


def rounded(value):
    """Six digits are more than any measurement has."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


@contextlib.contextmanager
def alone(out):
    """Make the folder of results if needed, and lock it: two runs would mix their journals and disturb each other."""
    with contextlib.ExitStack() as stack:
        try:
            os.makedirs(out, exist_ok=True)
            fd = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, fd)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Stopped(f"another rung lab run is measuring for {out}: wait until it ends") from None
        except OSError as error:
            raise Stopped(f"{out}: {error.strerror}; nothing was measured") from None
        yield


def source_of(name):
    """How a result names the file of its experiment: one of ours by its name, because our folder differs between machines."""
    path = os.path.abspath(experiment.place(name))
    return os.path.basename(path)[:-5] if os.path.dirname(path) == experiment.FOLDER else path


def check_source(out, name, source):
    """Two files of one name would be taken for one experiment: the later result would replace the earlier one."""
    for ending in (".json", ".journal"):
        try:
            with open(os.path.join(out, name + ending), encoding="utf-8") as file:
                there = json.loads(file.readline() if ending == ".journal" else file.read()).get("source", source)
        except (OSError, ValueError, AttributeError):
            continue
        if there != source:
            raise Stopped(f"{out}/{name}{ending} is of another experiment, {there}: rename one of the two, "
                          "or give another folder by --out")


def run(name, plan, pace, binaries, out, again=False, tell=lambda text: None):
    """Measure; the result, which is also in OUT/NAME.json.  name: that of an experiment of ours, or the path of a file."""
    with alone(out):
        return run_alone(experiment.name_of(name), source_of(name), (plan, pace, again), binaries, out, tell)


def run_alone(name, source, asked, binaries, out, tell):
    plan, pace, again = asked
    missing = cannot_run(plan)
    check_built(plan, binaries)
    check_source(out, name, source)
    scratch.sweep()
    described = machine.describe(os.path.join(binaries, "rung"))
    raise_descriptors()
    began, before = time.time(), os.getloadavg()
    header = {"version": VERSION, "name": name, "source": source, "pace": pace, "plan": plan, "commit": machine.commit(),
              "binaries": binaries_of(plan, binaries),
              **({"client": " ".join(far.Far.client), "address": far.Far.address} if far.Far.client else {})}
    journal = Journal(os.path.join(out, name + ".journal"), header, again)
    if journal.done:
        tell(f"goes on: {len(journal.done)} cells were measured before")
    try:
        with scratch.Folder("run") as folder, machine.settings(plan.get("settings", {})) as set_to:
            context = measures.Context(binaries, folder, pace, plan["seconds"][pace])
            remarks = machine.check(plan)
            measure_cells(context, plan, journal, missing, tell)
    except machine.Refused as error:
        raise Stopped(f"{error}; nothing was measured") from None
    finally:
        journal.close()
    cells = sorted(journal.done.values(), key=lambda one: one["round"])
    result = {**header, "machine": described, "command": f"rung lab run {source}" + ("" if pace == "quick" else " --full"),
              "when": datetime.datetime.fromtimestamp(began, datetime.timezone.utc).isoformat(timespec="seconds"),
              "seconds": round(journal.took_s, 1), "commands": taken_out(cells, "command"), "configs": taken_out(cells, "config"),
              "same_bytes": same_bytes(plan), "missing": missing, "settings": set_to, "load_before": before,
              "load_after": os.getloadavg(), "remarks": [*remarks, *disturbances(cells)],
              "cells": cells}
    try:
        put(os.path.join(out, name + ".json"), text_of(result))
    except OSError as error:
        raise Stopped(f"{out}: {error.strerror}; every cell is in {journal.path}: make room and run it again") from None
    journal.finished()
    return result
