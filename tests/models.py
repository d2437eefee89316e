#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""models.py [NAME...] - verify the protocol models of docs/models with Spin, and find the bugs planted in each.

The head of a model declares its planted bugs:

    spin:planted NAME EXPECTED  what is wrong      (two spaces end EXPECTED, which Spin's complaint must contain)
    spin:also NAME=VALUE                           verified with other numbers, too
    spin:ltl NAME                                  a property for runs without end, checked with weak fairness

Without a bug the model must be verified, every statement reached; with -DNAME Spin must find the bug.  A comment that
names PATH function() must name a function that is defined there.  `make check-all` runs all of it as the layer models.
"""
import dataclasses
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

FOLDER = "docs/models"
DEPTH_MAX = 1000000
LIMIT_S = 300  # for one search, on a busy machine; alone each takes seconds
NEEDED = {"spin": "spin", "gcc": "gcc"}
NAMED = re.compile(r"(\w+/[\w/]+\.[ch]) (\w+\(\)(?:(?:, | and | or )\w+\(\))*)")


@dataclasses.dataclass
class Variant:
    """One search: the model as it is, with a planted bug, or for a property of endless runs."""
    model: str
    name: str = ""
    expected: str = ""  # complaint for the planted bug; empty: nothing may be found
    ltl: bool = False

    def __str__(self):
        told = f"finds {self.name}" if self.expected else f"verified with {self.name}" if self.name else "verified"
        return f"{os.path.basename(self.model)[:-4]}: {told}"


@dataclasses.dataclass
class Found:
    complaint: str = ""
    states: int = 0
    seconds: float = 0
    unreached: tuple = ()
    broken: str = ""  # the search itself failed


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def variants(path):
    text = text_of(path)
    found = [Variant(path)]
    found += [Variant(path, name) for name in re.findall(r"spin:also (\w+=\w+)", text)]
    found += [Variant(path, name, ltl=True) for name in re.findall(r"spin:ltl (\w+)", text)]
    found += [Variant(path, name, expected) for name, expected in re.findall(r"spin:planted (\w+) (\S.*?)  ", text)]
    return found


# --- Functions that a model names ---------------------------------------------------------------------------

def named(text):
    """[(path, function)] named by the comments."""
    joined = re.sub(r"\s*\n \* ", " ", text)
    return [(path, name) for path, names in NAMED.findall(joined) for name in re.findall(r"(\w+)\(\)", names)]


def defined(source, name):
    """Whether a source defines the function: its name at the end of a line that begins in column 0, then a body."""
    return re.search(rf"^[a-z][\w *]*\b{name}\([^;{{]*\)\s*\{{", source, re.MULTILINE) is not None


def lost(path):
    """Functions that the model names and the sources do not define."""
    pairs = named(text_of(path))
    missing = [f"{where} {name}()" for where, name in pairs
               if not os.path.exists(where) or not defined(text_of(where), name)]
    return missing if pairs else ["it names no function"]


# --- Searching ------------------------------------------------------------------------------------------------

def missing_tool():
    absent = [package for tool, package in NEEDED.items() if not shutil.which(tool)]
    return f"there is no {' and no '.join(absent)}: scripts/setup check installs it" if absent else None


def steps(variant):
    """The commands: to make the verifier, to compile it, to run it."""
    define = [f"-D{variant.name}"] if variant.name else []
    kind = [] if variant.ltl else ["-DSAFETY"]
    return ((["spin", *define, "-a", os.path.abspath(variant.model)]),
            ["gcc", "-O1", "-w", "-DCOLLAPSE", "-DNFAIR=3", *([] if variant.ltl else ["-DNOCLAIM"]), "-o", "pan", *kind, "pan.c"],
            ["./pan", f"-m{DEPTH_MAX}", *(["-a", "-f", "-N", variant.name.lower()] if variant.ltl else [])])


def read(output, seconds):
    """Reads the verifier's output."""
    states = re.search(r"^\s*(\d+) states, stored", output, re.MULTILINE)
    errors = re.search(r"errors: (\d+)", output)
    complaint = re.search(r"^pan:\d+: (.*)$", output, re.MULTILINE)
    if not states or not errors:
        return Found(broken="the verifier did not finish:\n" + output[-2000:])
    if "max search depth too small" in output or "Search not completed" in output and errors[1] == "0":
        return Found(broken="the search is not complete:\n" + output[:2000])
    unreached = tuple(re.findall(r"^\t(\S+\.pml:\d+, state \d+, \".*\")$", output, re.MULTILINE))
    return Found(complaint[1] if complaint else "", int(states[1]), seconds,
                 tuple(line for line in unreached if '"-end-"' not in line))


def search(variant):
    with tempfile.TemporaryDirectory(prefix="rung-model-") as folder:
        for argv in steps(variant):
            began = time.monotonic()
            try:
                ran = subprocess.run(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False)
            except subprocess.TimeoutExpired:
                return Found(broken=f"{argv[0]} did not end within {LIMIT_S} s")
            output = ran.stdout.decode(errors="replace")
            if ran.returncode and argv[0] != "./pan":
                return Found(broken=f"{argv[0]} left with {ran.returncode}:\n{output}")
        return read(output, time.monotonic() - began)


def fault(variant, found):
    """Why the search is not as declared, or an empty string."""
    if found.broken:
        return found.broken
    if variant.expected:
        return "" if variant.expected in found.complaint else \
            f"the planted bug is not found: expected {variant.expected!r}, Spin says {found.complaint or 'nothing'!r}"
    if found.complaint:
        return f"{found.complaint}; spin -t -p replays the trail"
    if found.unreached and not variant.name:
        return "statements that no run reaches:\n" + "\n".join(found.unreached)
    return ""


def models(names=()):
    found = sorted(glob.glob(f"{FOLDER}/*.pml"))
    return [path for path in found if not names or os.path.basename(path)[:-4] in names]


def results(names=()):
    """[(test, fault, figures)], in order."""
    todo = [variant for path in models(names) for variant in variants(path)]
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        found = list(pool.map(search, todo))
    rows = [(str(variant), fault(variant, one), f"{one.states} states, {one.seconds:.1f} s")
            for variant, one in zip(todo, found)]
    for path in models(names):
        missing = lost(path)
        rows.append((f"{os.path.basename(path)[:-4]}: the functions it names are there", "\n".join(missing),
                     f"{len(named(text_of(path)))} functions"))
    return rows


def layer(one):
    """The layer of `make check-all`."""
    if reason := missing_tool():
        one.skip("models", reason)
        return
    for name, wrong, figures in results():
        one.log(f"{name}: {wrong or 'as declared'}: {figures}")
        if wrong:
            one.fail(name, wrong)
        else:
            one.ok(name)
            one.said.append(f"{one.name}: {name}: {figures}")


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    if reason := missing_tool():
        print(f"models: {reason}", file=sys.stderr)
        return 77
    rows = results(sys.argv[1:])
    for name, wrong, figures in rows:
        print(f"{name}: {figures}" + (f": {wrong}" if wrong else ""))
    return int(any(wrong for _, wrong, _ in rows) or not rows)


if __name__ == "__main__":
    sys.exit(main())
