#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""plots.py - everything that is made of lab/results, rebuilt without measuring (make plots).

Each result gets a page, its plots as SVG and PNG and its cells as CSV in build/lab, the main plot in docs/lab/img, and the
block of docs/lab/NAME.md.  All together get an index page, the table in docs/lab/README.md, and the table of other documents'
claims in docs/lab/claims.md.  The same results give the same bytes.  --check changes nothing, needs only Python, and complains
about documents and pictures that were not made from these results.  --keep puts results of rung lab run, which are in build/lab,
into lab/results first, compressed: NAME.json.gz.  It refuses results of sources that are no commit.
"""
import argparse
import gzip
import json
import os
import re
import struct
import sys
import tomllib
import zlib

import command
import document
import figures
import reading
import table
import view
from machine import CHANGED
from rig import bytes_of

RESULTS, EXPERIMENTS, DOCUMENTS = "lab/results", "lab/experiments", "docs/lab"
INDEX, MARK = "README.md", "experiments"
CLAIMS = "claims.md"
KEYS = {"version", "name", "plan", "machine", "cells", "missing", "commit", "when"}


class Unfit(Exception):
    """Nothing can be drawn from a file: a sentence says why."""


def plain(path):
    """The bytes of a result, compressed (.gz) or not."""
    data = bytes_of(path)
    return gzip.decompress(data) if path.endswith(".gz") else data


def keep(paths):
    """Put results into lab/results: all of them, or none if one cannot be kept."""
    found = {path: kept_name(path) for path in paths}
    for path, name in found.items():
        write(f"{RESULTS}/{name}.json.gz", gzip.compress(plain(path), mtime=0))  # the same result gives the same bytes


def kept_name(path):
    """The name of a result that can be measured again."""
    result = result_of(path, EXPERIMENTS)
    if result["commit"].endswith(CHANGED):
        raise Unfit(f"{path} is not kept: it was measured with commit {result['commit']}, which are sources that nobody can get "
                    "again; commit them and measure it again")
    return result["name"]


def result_of(path, experiments):
    """experiments: the folder of the experiments, which decide how a result is read now."""
    try:
        found = json.loads(plain(path))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise Unfit(f"{path}: {error}") from None
    if not isinstance(found, dict) or KEYS - set(found):
        raise Unfit(f"{path} is no result of rung lab run")
    found = reading.read(found, experiments)
    asked = [*found["plan"].get("plot", []), *found["plan"].get("claim", [])]
    if unknown := sorted({one["figure"] for one in asked} - set(figures.FIGURES)):
        raise Unfit(f"{path}: lab/figures.py has no figure {', '.join(unknown)}: add a row, or run the experiment again")
    return found


def results(folder, refuse, experiments=EXPERIMENTS):
    """name -> result.  refuse(sentence) is called for each file that is no result."""
    found = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith((".json", ".json.gz")):
            try:
                one = result_of(os.path.join(folder, name), experiments)
                found[one["name"]] = one
            except Unfit as error:
                refuse(str(error))
    return found


def plans(folder):
    """name -> plan of every experiment, {} for one that cannot be read: rung lab says what is wrong with it."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".toml"):
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    found[name[:-5]] = tomllib.load(file)
            except (OSError, ValueError):
                found[name[:-5]] = {}
    return found


def write(path, text):
    """Write bytes or text, whole or not at all; a file that has these bytes already is left alone."""
    data = text if isinstance(text, bytes) else text.encode()
    try:
        if bytes_of(path) == data:
            return
    except OSError:
        pass
    os.makedirs(os.path.dirname(path), exist_ok=True)
    command.put(path, data)


# --- Pages and pictures: these need matplotlib and jinja2 --------------------------------------------------

def draw_one(result, out):
    """Write the files of one result to the folder `out`."""
    import draw  # pylint: disable=import-outside-toplevel
    import page  # pylint: disable=import-outside-toplevel
    name = os.path.join(out, result["name"])
    for number in range(1, len(draw.plots(result)) + 1):
        write(f"{name}-{number}.svg", draw.as_svg(result, number))
        write(f"{name}-{number}.png", draw.as_png(result, number))
    write(f"{name}.csv", page.as_csv(result))
    write(f"{name}.html", page.html(result))


def draw_index(known, found, out):
    import page  # pylint: disable=import-outside-toplevel
    write(os.path.join(out, "index.html"), page.index(known, found))


# --- Documents ----------------------------------------------------------------------------------------------

def documents(found):
    """(path, text as it should be) for each result."""
    for name, result in found.items():
        path = f"{DOCUMENTS}/{name}.md"
        if os.path.exists(path):
            yield path, table.in_page(path, document.markdown(result), f"lab {name}")
        else:
            yield path, document.whole(result)


def said_in(path):
    """The fingerprint in a PNG of the result that it was drawn from, or ''."""
    data, at = bytes_of(path), 8
    while at + 8 <= len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"tEXt" and (found := re.match(rb"Result\0(.*)", data[at + 8:at + 8 + size], re.DOTALL)):
            return found[1].decode("latin-1")
        at += 12 + size
    return ""


def text_of(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def unexplained(result, text):
    """Open verdicts of a result of which the hand-written part of its document says nothing."""
    own = re.sub(r"<!-- (lab \S+) -->.*?<!-- /\1 -->", "", text, flags=re.DOTALL)
    said = {"undecided": r"[Nn]ot decided", "not measured": r"[Nn]ot measured"}
    return [verdict for verdict, count in view.tally(result) if count and verdict in said and not re.search(said[verdict], own)]


def stale(known, found):
    """Sentences about documents that are out of date.  Rows of experiments that were never run are not checked, so that adding
    an experiment does not require drawing."""
    for path, text in documents(found):
        if text_of(path) != text:
            yield f"{path} does not say what {RESULTS} says: make plots"
    for name, result in found.items():
        if result["commit"].endswith(CHANGED):
            yield f"{RESULTS}/{name}.json.gz was measured with commit {result['commit']}, so that nobody can repeat it: measure it again"
        path, when = f"{DOCUMENTS}/{name}.md", document.minute(result)
        if os.path.exists(path) and document.answered(text_of(path))[0] != when:
            yield f"{path}: read its answer against the run of {when}, mend it, and write <!-- answer {when} --> above it"
        for verdict in unexplained(result, text_of(path)):
            yield f"{path} has verdicts '{verdict}' and does not say why: write a paragraph that begins with **Not decided:** or **Not measured:**"
    if run_rows(text_of(f"{DOCUMENTS}/{INDEX}")) != run_rows(document.index(known, found)):
        yield f"{DOCUMENTS}/{INDEX} does not say what {RESULTS} says: make plots"
    path = f"{DOCUMENTS}/{CLAIMS}"
    if text_of(path) != table.in_page(path, document.said(known, found), "claims"):
        yield f"{path} does not say what {EXPERIMENTS} and {RESULTS} say: make plots"
    for result in found.values():
        path = f"{DOCUMENTS}/{document.picture(result)}"
        if pictured(result) and (not os.path.exists(path) or said_in(path) != view.fingerprint(result)):
            yield f"{path} is not drawn from {RESULTS}/{result['name']}.json.gz: make plots"


def run_rows(text):
    """Headings and rows of experiments that were run."""
    return [line for line in text.split("\n") if re.match(r"### |\| \[.*\]\([\w.-]+\.md\) \|", line)]


def pictured(result):
    return document.picture(result) in document.markdown(result)


def make(known, found, out):
    for number, result in enumerate(found.values(), 1):
        command.tell(f"{number} of {len(found)}: {result['name']}")
        draw_one(result, out)
        if pictured(result):
            write(f"{DOCUMENTS}/{document.picture(result)}", bytes_of(os.path.join(out, f"{result['name']}-1.png")))
    command.tell("")
    for path, text in documents(found):
        write(path, text)
    path = f"{DOCUMENTS}/{INDEX}"
    write(path, table.in_page(path, document.index(known, found), MARK))
    path = f"{DOCUMENTS}/{CLAIMS}"
    write(path, table.in_page(path, document.said(known, found), "claims"))
    draw_index(known, found, out)


def main():
    parser = argparse.ArgumentParser(prog="plots.py", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", default="build/lab", help="the folder of the pages")
    parser.add_argument("--check", action="store_true", help="only say which documents are out of date")
    parser.add_argument("--keep", nargs="+", default=[], metavar="FILE", help="take these results into lab/results first")
    options = parser.parse_args()
    out, kept = os.path.abspath(options.out), [os.path.abspath(path) for path in options.keep]
    os.chdir(command.TOP)
    try:
        keep(kept)
    except Unfit as error:
        sys.exit(f"plots: {error}")
    known, found = plans(EXPERIMENTS), results(RESULTS, lambda text: sys.exit(f"plots: {text}"))
    if options.check:
        complaints = list(stale(known, found))
        print("\n".join(complaints) or f"{view.counted(len(found), 'result')}, and the documents say the same")
        return 1 if complaints else 0
    make(known, found, out)
    print(f"{os.path.relpath(out)}/index.html: {view.counted(len(found), 'result')}, "
          f"{view.counted(len(set(known) - set(found)), 'experiment')} not run yet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
