# SPDX-License-Identifier: MIT
"""Every option of the server is tried by a test of tests/accept, which `make check` does not run: a new one comes with a trial."""
import glob
import os
import re
import subprocess

from conftest import TOP

BUILD = os.environ.get("RUNG_BUILD") or f"{TOP}/build"


def options():
    """The long names, as `rung config` prints them: one a line, those without a value behind a #."""
    said = subprocess.run([f"{BUILD}/debug/rung", "config"], stdout=subprocess.PIPE, timeout=60, check=True, text=True).stdout
    return set(re.findall(r"^(?:# ?)?([a-z][a-z-]+) = ", said, re.M)) - {"root"} | {"config"}


def test_every_option_is_tried():
    text = ""
    for path in glob.glob(f"{TOP}/tests/accept/test_*.py"):
        with open(path, encoding="utf-8") as file:
            text += file.read()
    known = options()
    assert len(known) > 60, known
    missing = sorted(name for name in known if not re.search(rf"""["']--{name}["']""", text))
    assert not missing, f"no test of tests/accept gives {missing}"
