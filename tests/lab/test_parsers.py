# SPDX-License-Identifier: MIT
"""The parsers that the lab compares: each must give what the corpus says, with the input cut anywhere, before it is measured."""
import glob
import json
import os
import re
import shutil
import subprocess

import pytest

PROGRAM = os.path.join(os.path.dirname(os.environ["RUNG_BIN"]), "lab", "parsers")
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lab/programs/parsers")
OURS = ["switch", "switch-plain", "goto", "direct", "memchr", "words", "rung"]


def parsers(*args, ok=0, program=PROGRAM):
    run = subprocess.run([program, *args], capture_output=True, text=True, timeout=50, check=False)
    assert run.returncode == ok, run.stderr
    return run


def here():
    """Names of the parsers that can run here; ours always can."""
    lines = parsers("list").stdout.splitlines()
    names = [line.split()[0] for line in lines if "cannot run here" not in line]
    assert names[:len(OURS)] == OURS and len(lines) == len(OURS) + 3
    return names


# shows K32, S24
def test_all_give_the_same():
    run = parsers("check")
    assert json.loads(run.stdout) == {"parsers": len(here()), "wrong": 0} and run.stderr == ""


@pytest.mark.parametrize("corpus", ["lines", "heads"])
def test_times_are_counted_in_rows(corpus):
    for name in here():
        assert json.loads(parsers(name, corpus, "0").stdout) == json.loads(parsers(name, corpus, "1").stdout)
        assert json.loads(parsers(name, corpus, "1").stdout)["units"] > 1000


def test_builds_where_no_other_parser_is_installed(tmp_path):
    """If the headers of other parsers are hidden, ours are still built, and the others say why they cannot run."""
    alone = str(tmp_path / "parsers")
    library = os.path.join(os.path.dirname(os.environ["RUNG_BIN"]), "librung.a")
    built = subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-Wundef", "-DOURS_ALONE",
                            *sorted(glob.glob(f"{SOURCES}/*.c")), library, "-o", alone],
                           capture_output=True, text=True, timeout=200, check=False)
    assert built.returncode == 0, built.stderr
    lines = parsers("list", program=alone).stdout.splitlines()
    for name, package in (("http-parser", "libhttp-parser-dev"), ("llhttp", "node-llhttp")):
        line, = [line for line in lines if line.split()[0] == name]
        assert re.search(rf"; cannot run here: its (header|source) was not there when this was built: {package}$", line)
        assert f"parsers: {name} cannot run here: its" in parsers(name, "lines", program=alone, ok=1).stderr
    assert json.loads(parsers("check", program=alone).stdout)["wrong"] == 0
    assert [line.split()[0] for line in lines if "cannot run here" not in line][:len(OURS)] == OURS


def test_a_time_is_measured():
    assert 0 < json.loads(parsers("words", "lines").stdout)["ns"] < 1e6


@pytest.mark.parametrize("args", [[], ["list", "x"], ["check", "lines"], ["nobody", "lines"], ["switch"], ["switch", "words"],
                                  ["switch", "lines", "x"], ["switch", "lines", "1x"], ["switch", "lines", "1", "2"]])
def test_what_is_not_understood_is_said(args):
    assert re.match(r"usage: parsers |parsers: \S+ is no number of times", parsers(*args, ok=2).stderr)


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_no_parser_looks_beyond_what_it_is_fed():
    """Each piece is fed from its own block of memory."""
    run = subprocess.run(["valgrind", "-q", "--error-exitcode=9", PROGRAM, "check"], capture_output=True, text=True,
                         timeout=100, check=False)
    assert run.returncode == 0, run.stderr
