# SPDX-License-Identifier: MIT
"""Help, manual, completion and docs/drop.md say the same options; output that nobody can read is a failure."""
import re
import shutil
import subprocess

import aid
import pytest
from aid import DONE, FAILED, TOP, drop

KEYS = ["form", "version", "netns", "dry_run", "through", "chosen", "dropped", "gone", "refused", "error", "let_be", "pairs",
        "by_state", "by_port", "by_peer", "by_peer_port"]


def test_every_option_is_everywhere():
    rows = re.findall(r"--([a-z0-9-]+)", "\n".join(re.split(r"(?<!\\)\|", line)[1]
                                                   for line in drop("--options").out.splitlines()[2:]))
    brief, everything = drop("--help").out, drop("--help-all").out
    manual, completion = drop("--man").out.replace("\\-", "-"), drop("--completion").out
    assert len(rows) >= 10
    for name in rows:
        for text in (brief, everything, completion):
            assert re.search(rf"--{name}(?![\w-])", text), name
        assert re.search(rf"(?m)^\.It .*Fl -{name}(?![\w-])", manual), name
        assert f"RUNG_DROP_{name.upper().replace('-', '_')} " in manual.replace("\n", " "), name


def test_help_is_a_screen():
    lines = drop("--help").out.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 100


def test_the_page_has_the_table():
    with open(f"{TOP}/docs/drop.md", encoding="utf-8") as file:
        page = file.read()
    assert drop("--options").out.strip() in page
    for key in KEYS:
        assert f"`{key}`" in page, key


@pytest.mark.skipif(not shutil.which("mandoc"), reason="mandoc is not installed")
def test_manual_is_clean(tmp_path):
    (tmp_path / "rung-drop.1").write_text(drop("--man").out)
    lint = subprocess.run(["mandoc", "-Tlint", str(tmp_path / "rung-drop.1")], stdout=subprocess.PIPE, text=True,
                          check=False, timeout=60)
    assert lint.stdout == ""


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
