# SPDX-License-Identifier: MIT
"""kind_instructions.py: what a server executes for a request, counted twice the same; and the size of a program."""
import os
import shutil
import subprocess

import kind_instructions
import measures
import pytest
import rig
from command import TOP

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung")))


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_a_count_comes_back(tmp_path):
    subprocess.run(["make", "--no-print-directory", f"BUILD={BUILD}", "lab-programs"], cwd=TOP, check=True,
                   stdout=subprocess.DEVNULL, timeout=100)
    context = measures.Context(f"{BUILD}/release", str(tmp_path), "quick")
    scenario = {"name": "s", "connections": 1, "short": 100, "long": 400}
    first, second = (kind_instructions.measure(context, {"name": "t"}, scenario, 0)["figures"] for _ in range(2))
    assert 500 < first["instructions"] < 50000 and abs(first["instructions"] / second["instructions"] - 1) < 0.02
    piped = kind_instructions.measure(context, {"name": "t"}, {**scenario, "pipeline": 16}, 0)["figures"]
    assert piped["instructions"] < first["instructions"]
    assert 100_000 < first["program_bytes"] < os.path.getsize(f"{BUILD}/release/rung")


def test_what_is_missing(tmp_path):
    with pytest.raises(rig.Broken, match="size says nothing of /nowhere/rung"):
        kind_instructions.program_bytes("/nowhere/rung")
    with pytest.raises(rig.Broken, match="make lab-programs"):
        kind_instructions.life(measures.Context("/nowhere", str(tmp_path), "quick"), {"name": "t"}, {"name": "s"}, 1)
