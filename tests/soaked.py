# SPDX-License-Identifier: MIT
"""soaked.py - long runs of soak.py, kept in the tree: a row for each engine, replaced by a later run that is long enough."""
import datetime
import os
import subprocess

import kept

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KEPT = os.path.join(TOP, "lab/results/soak/soak.json")
LEAST_S = 3600  # shorter runs are not kept: `make check` has those


def git(*args):
    return subprocess.run(["git", "-C", TOP, *args], check=False, text=True, capture_output=True).stdout.strip()


def commit():
    """The commit of the sources; changed sources have none, so their run gets no row."""
    return "" if git("status", "--porcelain", "--", "core", "base", "server", "engines", "tests/soak.py") else git("rev-parse", "--short", "HEAD")


def row(engine, workers, told, of):
    """of: the commit at the start of the run."""
    return {"engine": engine, "workers": workers, **told, "commit": of, "kernel": os.uname().release,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M")}


def why_not(new):
    """Why a run is not kept, or None."""
    if new["seconds"] < LEAST_S:
        return f"it took {new['seconds']} s of the {LEAST_S} that a kept run has"
    return None if new["commit"] else "the sources have changes that are not committed"


def key(one):
    return one["engine"], one["workers"]


def keep(new, path=KEPT):
    kept.replace(path, new, key, key)


def table(path=KEPT):
    """Lines of Markdown."""
    lines = ["| engine | workers | hours | answers | connections | wrong | KiB, first third | KiB, last third | counters agreed | failed | when |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|"]
    rows = kept.load(path)
    for one in rows:
        lines.append(f"| `{one['engine']}` | {one['workers']} | {one['seconds'] / 3600:.1f} | {one['answers']:,} | {one['connections']:,} | "
                     f"{one['wrong']} | {one['first_kib']:,} | {one['last_kib']:,} | {one['censuses']} times | {len(one['failed'])} of "
                     f"{one['judged']} | {one['date']}, {one['commit']}, Linux {one['kernel']} |")
    return lines if rows else ["No run is kept yet."]
