# SPDX-License-Identifier: MIT
"""Every option of the server is tried by a test of this folder: a new one has to come with a trial."""
import glob
import os
import re

from conftest import run, BIN

HERE = os.path.dirname(os.path.abspath(__file__))


def options():
    """The long names, as `rung config` prints them: one a line, those without a value behind a #."""
    return set(re.findall(r"^(?:# ?)?([a-z][a-z-]+) = ", run(BIN, "config"), re.M)) - {"root"} | {"config"}


def test_every_option_is_tried():
    text = ""
    for path in glob.glob(f"{HERE}/test_*.py"):
        with open(path, encoding="utf-8") as file:
            text += file.read()
    known = options()
    assert len(known) > 60, known
    missing = sorted(name for name in known if not re.search(rf"""["']--{name}["']""", text))
    assert not missing, f"no test of tests/accept gives {missing}"
