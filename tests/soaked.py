# SPDX-License-Identifier: MIT
"""soaked.py - long runs of soak.py, kept in the tree: a row for each engine, replaced by a later run that was as long."""
import datetime
import json
import os
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KEPT = os.path.join(TOP, "lab/results/soak/soak.json")
LEAST_S = 3600  # shorter runs are not kept: `make check` has those


def git(*args):
    return subprocess.run(["git", "-C", TOP, *args], check=False, text=True, capture_output=True).stdout.strip()


def commit():
    """Of the sources; what was built of others has no row."""
    return "" if git("status", "--porcelain", "--", "core", "base", "server", "engines", "tests/soak.py") else git("rev-parse", "--short", "HEAD")


def row(engine, workers, told, of):
    """of: the commit when it began."""
    return {"engine": engine, "workers": workers, **told, "commit": of, "kernel": os.uname().release,
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M")}


def load(path=KEPT):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return json.load(file)["rows"]


def why_not(new):
    """Why a run is not kept, or None."""
    if new["seconds"] < LEAST_S:
        return f"it took {new['seconds']} s of the {LEAST_S} that a kept run has"
    return None if new["commit"] else "the sources have changes that are not committed"


def keep(new, path=KEPT):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    rows = [one for one in load(path) if (one["engine"], one["workers"]) != (new["engine"], new["workers"])] + [new]
    rows.sort(key=lambda one: (one["engine"], one["workers"]))
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(json.dumps({"version": 1, "rows": rows}, indent=1) + "\n")
    os.rename(path + ".new", path)


def table(path=KEPT):
    """Lines of Markdown."""
    lines = ["| engine | workers | hours | answers | connections | wrong | KiB, first third | KiB, last third | counters agreed | failed | when |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|"]
    rows = load(path)
    for one in rows:
        lines.append(f"| `{one['engine']}` | {one['workers']} | {one['seconds'] / 3600:.1f} | {one['answers']:,} | {one['connections']:,} | "
                     f"{one['wrong']} | {one['first_kib']:,} | {one['last_kib']:,} | {one['censuses']} times | {len(one['failed'])} of "
                     f"{one['judged']} | {one['date']}, {one['commit']}, Linux {one['kernel']} |")
    return lines if rows else ["No run is kept yet."]
