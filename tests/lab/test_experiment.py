# SPDX-License-Identifier: MIT
"""A file of lab/experiments: all that are there make sense, and what makes none is told in a sentence."""
import os
import subprocess
import sys

import experiment
import pytest
from command import TOP

GOOD = """title = "T"
question = "Q?"
method = "M."
[[target]]
name = "a"
[[target]]
name = "b"
[[scenario]]
name = "s"
[[claim]]
says = "A is cheaper."
figure = "cpu_us"
of = "a"
to = "b"
expect = "< 1"
[[plot]]
kind = "bars"
figure = "cpu_us"
"""


def wrong(tmp_path, old, new):
    path = tmp_path / "e.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(experiment.Wrong) as found:
        experiment.load(str(path))
    assert str(path) in str(found.value)
    return str(found.value)


@pytest.mark.parametrize("name", experiment.names())
def test_ours(name):
    plan = experiment.load(name)
    assert plan["question"].endswith("?") and plan["claim"] and plan["plot"]


def test_defaults(tmp_path):
    path = tmp_path / "e.toml"
    path.write_text(GOOD)
    plan = experiment.load(str(path))
    assert (plan["kind"], plan["base"], plan["rounds"]["quick"]) == ("load", "a", 9)


@pytest.mark.parametrize("old, new, told", [
    ('question = "Q?"', "", "the file has no question"),
    ("title =", "titel = 1\ntitle =", "a key titel that means nothing; perhaps title"),
    ('title = "T"', "title = 1", "title must be a str"),
    ('name = "b"', 'name = "a"', "two targets are called a"),
    ('name = "b"', "x = 1", "[[target]] number 2 has no name"),
    ('of = "a"', 'of = "c"', "[[claim]] number 1: there is no c"),
    ('figure = "cpu_us"', 'figure = "cpu"', "there is no cpu; perhaps cpu_us"),
    ('expect = "< 1"', 'expect = "1"', "expect: '1' is none of"),
    ('says = "A is cheaper."', "", "needs `document`"),
    ('kind = "bars"', 'kind = "pie"', "[[plot]] number 1: there is no pie"),
    ('title = "T"', 'base = "c"\ntitle = "T"', "base: there is no c"),
    ('title = "T"', 'title = "T"\nrounds = {quik = 3}', "rounds is for quick and full"),
    ('title = "T"', 'title = "T"\nseconds = {quick = 0}', "each at least 0.01"),
    ('title = "T"', 'title = "T', "is not TOML"),
    ('name = "s"', 'name = "s"\nconections = 5', "number 1 has a key conections that means nothing; perhaps connections"),
    ('name = "s"', 'name = "s"\nconnections = "5"', "connections must be a int, and is '5'"),
    ('name = "s"', 'name = "s"\nidle = -1', "idle must be a int, and is -1"),
    ('name = "s"', 'name = "s"\nclose = 1', "close must be a bool, and is 1"),
    ('name = "s"', 'name = "s"\nidle = true', "idle must be a int, and is True"),
    ('name = "a"', 'name = 1', "name must be a str, and is 1"),
    ('name = "a"', 'name = "a"\nengin = "epoll"', "has a key engin that means nothing; perhaps engine"),
    ('name = "a"', 'name = "a"\nnot = ["t"]', "target a: not: there is no t"),
    ('title = "T"', 'title = "T"\nkind = "count"', "target a has no program, which its kind needs"),
    ('title = "T"', 'title = "T"\nkind = "crowd"', "scenario s has no clients, which its kind needs"),
    ('title = "T"', 'title = "T"\nrounds = {quick = 6.5}', "rounds is for quick and full"),
    ('title = "T"', 'title = "T"\nfigures = [1]', "figures: there is no 1"),
    ('to = "b"', 'scenarios = [["s"]]', "there is no ['s']"),
])
def test_wrong(tmp_path, old, new, told):
    assert told in wrong(tmp_path, old, new)


def test_none_of_that_name():
    done = subprocess.run([sys.executable, "-B", "lab/lab.py", "run", "pool-queue"], cwd=TOP, text=True, timeout=60,
                          capture_output=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == "lab: there is no experiment pool-queue; perhaps pool-queues\n"


def test_the_list():
    done = subprocess.run([sys.executable, "-B", "lab/lab.py"], cwd=TOP, text=True, timeout=60, capture_output=True,
                          check=False)
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == experiment.names()
    assert not [name for name in experiment.names() if not os.path.isfile(f"{TOP}/lab/experiments/{name}.toml")]
