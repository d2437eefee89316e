# SPDX-License-Identifier: MIT
"""The kept results of the fault-finding kernels: each cell has a row, also when its result is stale or missing."""
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tests"))
import faults  # noqa: E402 - found by the line above
import guests  # noqa: E402

CELL, OTHER = ("debug-6.12", "churn", "softirq"), ("race-6.1", "drops", "")
NUMBERS = {"cycles": 10, "answers": 2000, "connections": 300, "seconds": 40}
WELL = [["rounds", "", "9 rounds", NUMBERS], ["again", "", "50 times", NUMBERS]]
BAD = [["rounds", "Traceback:\n  another body", "", NUMBERS]]


@pytest.fixture(name="tree")
def sources(tmp_path):
    for folder in faults.SOURCES:
        os.mkdir(tmp_path / folder)
        (tmp_path / folder / "a.c").write_text("int a;\n")
    return tmp_path


def line_of(lines, cell):
    found = [line for line in lines if line.startswith((f"| {cell[0]} |", f"| {cell[0]} (")) and f"| {cell[1]} | {cell[2] or '-'} |" in line]
    assert len(found) == 1, found
    return found[0]


def test_a_run_replaces_the_row_of_its_cell(tmp_path):
    path = str(tmp_path / "faults.json")
    faults.keep(faults.row(CELL, "6.12.9", BAD, ["BUG: KASAN: x"]), path)
    faults.keep(faults.row(OTHER, "6.1.9", WELL, []), path)
    assert [len(one["complaints"]) for one in faults.load(path)] == [2, 0]
    faults.keep(faults.row(CELL, "6.12.9", WELL, []), path)
    first, last = faults.load(path)
    assert faults.key(first) == CELL and faults.key(last) == OTHER and first["complaints"] == []
    assert (first["cycles"], first["answers"], first["connections"], first["seconds"]) == (20, 4000, 600, 80)


def test_runs_that_end_at_once_lose_no_row(tmp_path):
    path = str(tmp_path / "faults.json")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda cell: faults.keep(faults.row(cell, "6", WELL, []), path), faults.cells()))
    assert [faults.key(one) for one in faults.load(path)] == faults.cells()


def test_a_cell_that_was_not_run_is_listed(tmp_path, tree):
    lines = faults.table(str(tmp_path / "none.json"), str(tree))
    assert all("**missing**" in line_of(lines, cell) for cell in faults.cells())
    assert lines[-1].startswith(f"0 of {len(faults.cells())} cells")


@pytest.mark.parametrize("change", ["bytes", "name", "new"])
def test_a_row_of_other_sources_is_stale(tmp_path, tree, change):
    path = tmp_path / "faults.json"
    row = {**faults.row(CELL, "6.12.9", WELL, []), "sources": faults.digest(str(tree))}
    path.write_text(json.dumps({"rows": [row]}))
    fresh = line_of(faults.table(str(path), str(tree)), CELL)
    assert "stale" not in fresh and "| nothing |" in fresh and "| 4,000 |" in fresh
    if change == "bytes":
        (tree / "kernel/a.c").write_text("int b;\n")
    elif change == "name":
        os.rename(tree / "core/a.c", tree / "core/b.c")
    else:
        (tree / "core/b.h").write_text("")
    lines = faults.table(str(path), str(tree))
    assert "**stale**" in line_of(lines, CELL) and lines[-1].startswith("0 of")


def test_complaints_are_counted(tmp_path, tree):
    path = tmp_path / "faults.json"
    path.write_text(json.dumps({"rows": [faults.row(CELL, "6.12.9", BAD, ["BUG: KASAN: x"])]}))
    lines = faults.table(str(path), str(tree))
    assert "**2 complaints**" in line_of(lines, CELL) and lines[-1].endswith("1 had something to complain of.")


def test_a_row_has_bounds():
    row = faults.row(CELL, "6.12.9", [], ["x" * 1000] * 100)
    assert len(row["complaints"]) == faults.COMPLAINTS_MAX and len(row["complaints"][0]) == faults.COMPLAINT_MAX
    assert row["cycles"] == 0 and row["tests"] == 0


def test_a_guest_whose_clock_goes_wrong_is_known():
    assert guests.MISTIMED.search("[    0.048000] tsc: PIT calibration deviates from HPET: 332391 2594894\n")
    assert not guests.MISTIMED.search("[    0.048000] tsc: Detected 2594.894 MHz processor\n")
