# SPDX-License-Identifier: MIT
"""scripts/options writes the tables of options that programs print into the documents, and says when one is out of date."""
import os
import shutil
import subprocess

import pytest
from conftest import TOP

HEAD = "| option | default |\n|---|---|\n"


@pytest.fixture
def place(tmp_path):
    """place(row, page): a program that prints a table with that row, and docs/a.md -> (status, output, page) of scripts/options."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "docs").mkdir()
    shutil.copy(f"{TOP}/scripts/options", tmp_path / "scripts")

    def run(row, page, *words):
        rung, path = tmp_path / "rung", tmp_path / "docs/a.md"
        rung.write_text(f"#!/bin/sh\n[ \"$1\" = options ] || exit 2\nprintf '{HEAD}{row}'\n".replace("\n|", "\\n|"))
        os.chmod(rung, 0o755)
        path.write_text(page)
        done = subprocess.run([tmp_path / "scripts/options", *words, tmp_path], capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr, path.read_text()
    return run


def page(rows, begin="<!-- begin: rung options -->\n"):
    return f"# A\n\n{begin}{HEAD}{rows}<!-- end -->\n\nmore\n"


def test_an_option_more(place):
    old, new = page("| a | 1 |\n"), page("| a | 1 |\n| b | 2 |\n")
    row = "| a | 1 |\n| b | 2 |\n"
    assert place(row, old, "--check") == (1, "docs/a.md: its table of options is out of date: make docs\n", old)
    assert place(row, old) == (0, "docs/a.md: renewed\n", new)
    assert place(row, new, "--check") == (0, "1 tables, as the programs print them\n", new)


def test_marks_that_lead_nowhere(place):
    for begin, words in (("<!-- begin: rung-x options -->\n", "rung-x is not there: make MODE=debug all"),
                         ("<!-- begin: rung optoins -->\n", "'rung optoins' prints no table of options")):
        status, said, _ = place("| a | 1 |\n", page("", begin), "--check")
        assert status == 1 and words in said
    status, said, _ = place("| a | 1 |\n", page("| a | 1 |\n", "").replace("| default |", "| default | range |"), "--check")
    assert status == 1 and "without a mark" in said
