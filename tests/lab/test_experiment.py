# SPDX-License-Identifier: MIT
"""The files of lab/experiments: all of them make sense, and one that makes none is refused with a sentence."""
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
    ('says = "A is cheaper."', 'document = "A is cheaper."', "`document`, what some document said, and `source`"),
    ('says = "A is cheaper."', 'says = "A is cheaper."\nsource = "kecho report, Experiment; chart"', "`document`, what some document said, and `source`"),
    ('says = "A is cheaper."', 'document = "A."\nsource = "kecho report, Experiment"', "is none such as"),
    ('says = "A is cheaper."', 'document = "A."\nsource = "our notes, Experiment; text"', "is none such as"),
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
    ('of = "a"', 'of = ["a", "c"]', "[[claim]] number 1: there is no c"),
    ('of = "a"', 'of = []', "needs `of`, a target or several"),
    ('of = "a"', 'of = "a"\nbest_of = ["b"]', "needs `of`, a target or several"),
    ('to = "b"', 'to = ["c"]', "[[claim]] number 1: there is no c"),
    ('to = "b"', 'to = "b"\nminus = "b"', "has more than one of `to`, for a ratio"),
    ('to = "b"', 'to_best = ["b", "z"]', "there is no z"),
    ('to = "b"', 'to = "b"\nto_best = ["b"]', "has more than one of `to`, for a ratio"),
    ('title = "T"', 'title = "T"\norder = "alphabet"', "order: there is no alphabet"),
    ('title = "T"', 'title = "T"\nstanding = {figure = "cpu_us", ours = ["a"]}', "[standing] has no others"),
    ('title = "T"', 'title = "T"\nstanding = {figure = "cpu", ours = ["a"], others = ["b"]}', "[standing]: there is no cpu"),
    ('title = "T"', 'title = "T"\nstanding = {figure = "cpu_us", ours = ["a"], others = ["z"]}', "[standing]: there is no z"),
    ('title = "T"', 'title = "T"\nstanding = {figure = "cpu_us", ours = ["a"], others = ["b"], floor = "z"}', "there is no z"),
    ('title = "T"', 'title = "T"\nstanding = {figure = "cpu_us", ours = ["a"], others = ["b"], scenarios = ["z"]}', "there is no z"),
    ('kind = "bars"', 'kind = "bars"\nto = "z"', "there is no z"),
    ('kind = "bars"', 'kind = "lines"\nto = "b"', "only bars are drawn of a ratio"),
    ('kind = "bars"', 'kind = "stack"', "`parts` are figures that add up to `figure`"),
    ('kind = "bars"', 'kind = "bars"\nparts = ["calls"]', "`parts` are figures that add up to `figure`"),
    ('kind = "bars"', 'kind = "stack"\nparts = ["cals"]', "there is no cals; perhaps calls"),
    ('kind = "bars"', 'kind = "stack"\nparts = ["calls"]\nlog = "x"', "parts do not add up on a logarithmic axis"),

    ('to = "b"', 'minus = "c"', "[[claim]] number 1: there is no c"),
    ('name = "s"', 'name = "s"\ncount_rounds = 4', "a key count_rounds that means nothing to kind load"),
    ('name = "s"', 'name = "s"\nrests = 5\nconnections = 2', "a key connections that means nothing to kind load"),
    ('name = "s"', 'name = "s"\nkind = "calls"\nbytes = 9', "a key bytes that means nothing to kind calls"),
    ('name = "s"', 'name = "s"\nkind = "echo"', "says not what its clients do"),
    ('name = "s"', 'name = "s"\nkind = "echo"\nclients = 3\nidle = 4', "a key idle that means nothing to kind echo"),
    ('name = "a"', 'name = "a"\nworkers = 2', "target a has a key workers that means nothing to it as kind load"),
    ('name = "a"', 'name = "a"\npeer = "h2o"\noptions = "-e epoll"', "target a has a key options that means nothing to it"),
    ('name = "s"', 'name = "s"\nkind = "calls"\n[[target]]\nname = "c"\nprogram = "timers"',
     "target c has a key program that means nothing to it as kind calls"),
    ('name = "a"', 'name = "a"\nmodel = "event"', "target a has a key model that means nothing to it as kind load"),
    ('title = "T"', 'title = "T"\nkind = "guest"', "scenario s has no connections, which its kind needs"),
    ('name = "s"', 'name = "s"\nkind = "guest"\nconnections = 2\n[[target]]\nname = "c"\nmodel = "event"\nengine = "epoll"',
     "target c has a key engine that means nothing to it as kind guest"),
    ('name = "s"', 'name = "s"\noptions = "-e epoll"\n[[target]]\nname = "c"\npeer = "h2o"',
     "target c is not ours, and scenario s has options for it"),
    ('title = "T"', 'title = "T"\nkind = "calls"\nseconds = {quick = 1}', "a key seconds that means nothing to its kind"),
    ('title = "T"', 'title = "T"\nkind = "count"', "target a has no program, which its kind needs"),
    ('title = "T"', 'title = "T"\nkind = "crowd"', "scenario s has no clients, which its kind needs"),
    ('title = "T"', 'title = "T"\nrounds = {quick = 6.5}', "rounds is for quick and full"),
    ('title = "T"', 'title = "T"\nfigures = [1]', "figures: there is no 1"),
    ('to = "b"', 'scenarios = [["s"]]', "there is no ['s']"),
])
def test_wrong(tmp_path, old, new, told):
    assert told in wrong(tmp_path, old, new)


def test_keys_of_two_kinds(tmp_path):
    """A target that is asked in two ways may have a key that means something to one of them; the keys of an unknown kind are not checked."""
    path = tmp_path / "e.toml"
    path.write_text(GOOD.replace('name = "s"', 'name = "s"\n[[scenario]]\nname = "t"\nkind = "echo"\nconnections = 2')
                    .replace('name = "a"', 'name = "a"\npinned = false'))
    assert experiment.load(str(path))
    path.write_text(GOOD.replace('name = "s"', 'name = "s"\nkind = "mine"\ncount_rounds = 3'))
    assert experiment.load(str(path))


def lab(*args):
    return subprocess.run([sys.executable, "-B", "lab/lab.py", *map(str, args)], cwd=TOP, text=True, timeout=60,
                          capture_output=True, check=False)


def test_two_of_one_name_are_refused(tmp_path):
    """The results of both would be one file."""
    for folder in ("one", "two"):
        os.mkdir(tmp_path / folder)
        (tmp_path / folder / "e.toml").write_text(GOOD)
    done = lab("--out", tmp_path, "run", tmp_path / "one/e.toml", tmp_path / "two/e.toml")
    assert done.returncode == 2 and done.stdout == ""
    assert f"two experiments are called e: {tmp_path}/one/e.toml and {tmp_path}/two/e.toml" in done.stderr


def test_what_is_missing_is_told_before_anything_is_built(tmp_path):
    """--bin names a folder that does not exist, so make would fail."""
    (tmp_path / "e.toml").write_text(GOOD.replace('title =', 'needs = ["no-such-command"]\ntitle ='))
    (tmp_path / "f.toml").write_text(GOOD.replace('title =', 'kind = "none"\ntitle ='))
    done = lab("--bin", tmp_path / "none/release", "--out", tmp_path / "out", "run", tmp_path / "e.toml", tmp_path / "f.toml")
    assert done.returncode == 1 and not os.path.exists(tmp_path / "none")
    assert "lab: e: there is no no-such-command: scripts/setup lab" in done.stderr
    assert "lab: f: there is no kind none" in done.stderr


def test_a_broken_one_does_not_end_the_list(tmp_path, monkeypatch, capsys):
    import lab as command  # pylint: disable=import-outside-toplevel
    monkeypatch.setattr(experiment, "FOLDER", str(tmp_path))
    for name, text in (("a", GOOD), ("b", "title = "), ("c", GOOD.replace('title = "T"', ""))):
        (tmp_path / f"{name}.toml").write_text(text)
    (tmp_path / "d.toml").write_text(GOOD)
    assert command.list_all(None) == 2
    out, err = capsys.readouterr()
    assert [line.split() for line in out.splitlines()] == [["a", "Q?"], ["d", "Q?"]]
    assert "b.toml is not TOML" in err and "c.toml: the file has no title" in err


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
