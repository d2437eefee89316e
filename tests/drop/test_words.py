# SPDX-License-Identifier: MIT
"""Help, manual, completion and docs/drop.md list the same options; output that cannot be written is a failure."""
import re
import subprocess

import aid
import pytest
from aid import DONE, FAILED, TOP, drop
from words import Words

KEYS = ["form", "version", "netns", "dry_run", "through", "chosen", "dropped", "gone", "refused", "error", "let_be", "pairs",
        "by_state", "by_port", "by_peer", "by_peer_port"]


class TestWords(Words):
    name, least, run = "drop", 10, staticmethod(drop)


def test_help_is_a_screen():
    lines = drop("--help").out.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 100


def test_the_page_has_the_keys():
    with open(f"{TOP}/docs/drop.md", encoding="utf-8") as file:
        page = file.read()
    for key in KEYS:
        assert f"`{key}`" in page, key


def test_keys():
    assert list(drop("--json").json) == KEYS
    assert list(drop("--json", "--list").json) == KEYS + ["sockets"]


@pytest.mark.parametrize("args", [["--help"], ["--json"], ["--man"], []])
def test_output_that_goes_nowhere(args):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([aid.DROP, *args], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == FAILED


def test_rung_becomes_it():
    rung = re.sub(r"rung-drop$", "rung", aid.DROP)
    for words in (["drop", "--help"], ["help", "drop"]):
        done = subprocess.run([rung, *words], stdout=subprocess.PIPE, timeout=60, check=False, text=True)
        assert done.returncode == DONE and done.stdout.startswith("usage: rung drop [OPTION]")
