# SPDX-License-Identifier: MIT
"""The lab from end to end with little work: what is measured, resumed, invalid, and left whole when something fails."""
import contextlib
import itertools
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time

import command
import experiment
import machine
import measures
import peers
import pytest
import runner
import scratch
from command import TOP
from rig import Broken, Cannot, lives

BIN = os.path.dirname(os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung"))
PLAN = """title = "T"
question = "Q?"
method = "M."
figures = ["cpu_us"]
rounds = {quick = 2}
seconds = {quick = 0.05}
[[target]]
name = "epoll"
engine = "epoll"
[[target]]
name = "poll"
engine = "poll"
[[scenario]]
name = "two"
connections = 2
[[scenario]]
name = "files, a connection each"
connections = 2
close = true
files = 3
bytes = 100
[[scenario]]
name = "rate"
rate = 200
[[claim]]
says = "They differ by less than a hundred times."
figure = "cpu_us"
of = "poll"
to = "epoll"
expect = "0.01..100"
[[plot]]
kind = "bars"
figure = "cpu_us"
"""


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(PLAN)
    return experiment.load(str(path))


@pytest.fixture
def faked(monkeypatch):
    """A kind that costs nothing, on a machine that loses no time to its host; gives the cells that the kind was asked for."""
    asked = []

    def measure(_context, target, scenario, _seconds):
        asked.append((scenario["name"], target["name"]))
        return {"figures": {"cpu_us": 1}, "limiter": None}
    monkeypatch.setitem(measures.KINDS, "load", measure)
    monkeypatch.setattr(runner.machine, "stolen_s", lambda: 0)
    return asked


def run(plan, out, **more):
    return runner.run("small", plan, "quick", BIN, str(out), **more)


# shows T07
def test_a_small_run(plan, tmp_path):
    result = run(plan, tmp_path / "out")
    assert [one["error"] for one in result["cells"]] == [None] * 12
    assert all(one["figures"]["cpu_us"] > 0 and one["figures"]["per_second"] > 0 for one in result["cells"])
    text = (tmp_path / "out/small.json").read_text()
    assert json.loads(text) == json.loads(json.dumps({**result, "cells": runner.rounded(result["cells"])}))
    assert text.count("\n") < len(json.dumps({**result, "cells": []}, indent=1).splitlines()) + len(result["cells"]) + 4
    assert result["commands"]["poll"].startswith("rung serve FOLDER/") and os.listdir(tmp_path / "out") == ["small.json"]


def test_targets_take_turns(plan, tmp_path, faked):
    run(plan, tmp_path)
    assert [name for scenario, name in faked if scenario == "two"] == ["epoll", "poll", "poll", "epoll"]


def test_a_random_order_is_the_same_in_every_run(plan, tmp_path, faked):
    plan["order"], plan["rounds"] = "random", {"quick": 20}
    run(plan, tmp_path)
    first = [name for scenario, name in faked if scenario == "two"][::2]
    assert {first.count("epoll"), first.count("poll")} & set(range(5, 16)) and first.count("epoll") + first.count("poll") == 20
    assert first != ["epoll", "poll"] * 10
    told = list(faked)
    faked.clear()
    run(plan, tmp_path)
    assert faked == told


def test_what_a_target_does_not_offer_is_no_failure(plan, tmp_path, monkeypatch):
    def measure(_context, target, _scenario, _seconds):
        if target["name"] == "poll":
            raise Cannot("poll does not do that")
        return {"figures": {"cpu_us": 1}, "limiter": None}
    monkeypatch.setitem(measures.KINDS, "load", measure)
    cells = run(plan, tmp_path)["cells"]
    assert {(one["target"], one["error"], one.get("cannot")) for one in cells} == {
        ("epoll", None, None), ("poll", "poll does not do that", True)}


# shows T07
def test_an_interrupted_run_goes_on(plan, tmp_path, faked, monkeypatch):
    fake = measures.KINDS["load"]

    def interrupted(*args):
        if len(faked) == 5:
            raise KeyboardInterrupt
        return fake(*args)
    monkeypatch.setitem(measures.KINDS, "load", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(plan, tmp_path)
    with open(tmp_path / "small.journal", "a", encoding="utf-8") as file:
        file.write('{"target": "epo')  # cut off in the middle
    monkeypatch.setitem(measures.KINDS, "load", fake)
    result = run(plan, tmp_path)
    assert len(faked) == 12 and len(result["cells"]) == 12 and not (tmp_path / "small.journal").exists()


def test_another_plan_begins_anew(plan, tmp_path, faked):
    journal = runner.Journal(str(tmp_path / "small.journal"), {"plan": "another"})
    journal.add({"target": "epoll", "scenario": "two", "round": 0, "took_s": 1})
    journal.close()
    run(plan, tmp_path)
    assert len(faked) == 12


def test_again_forgets(plan, tmp_path, faked, monkeypatch):
    monkeypatch.setattr(machine, "commit", lambda: "same")
    header = {"version": 1, "name": "small", "source": "small", "pace": "quick", "plan": plan, "commit": "same",
              "binaries": runner.binaries_of(plan, BIN)}
    cell = {"target": "epoll", "scenario": "two", "round": 0, "took_s": 1, "error": None, "figures": {}, "limiter": None}
    for again, asked in ((False, 11), (True, 12)):
        faked.clear()
        journal = runner.Journal(str(tmp_path / "small.journal"), header)
        journal.add(cell)
        journal.close()
        run(plan, tmp_path, again=again)
        assert len(faked) == asked


def test_what_was_invalid_is_measured_again(plan, tmp_path, monkeypatch):
    """The cause that ended a run may have made its last cells fail, too."""
    asked = []

    def measure(_context, target, scenario, _seconds):
        asked.append((scenario["name"], target["name"]))
        if len(asked) == 2:
            raise Broken("no room")
        if len(asked) == 3:
            raise KeyboardInterrupt
        return {"figures": {"cpu_us": 1}, "limiter": None}
    monkeypatch.setitem(measures.KINDS, "load", measure)
    with pytest.raises(KeyboardInterrupt):
        run(plan, tmp_path)
    result = run(plan, tmp_path)
    assert len(asked) == 3 + 11 and not [one for one in result["cells"] if one["error"]]
    assert len(result["cells"]) == 12


def test_the_environment_is_part_of_the_command(tmp_path):
    context = measures.Context(BIN, str(tmp_path), "quick")
    context.started({"name": "a", "env": {"LD_PRELOAD": "libx.so", "B": 1}}, ["rung", "serve"])
    context.started({"name": "b", "env": {}}, ["rung", "serve"])
    assert context.commands == {"a": "env LD_PRELOAD=libx.so B=1 rung serve", "b": "rung serve"}


def test_what_is_not_built_is_told_at_once(plan, tmp_path, faked):
    with pytest.raises(runner.Stopped, match="there is no program /nowhere/rung: make all lab-programs"):
        runner.run("small", plan, "quick", "/nowhere", str(tmp_path))
    counted = {**plan, "kind": "program", "target": [{"name": "x", "program": "none"}]}
    with pytest.raises(runner.Stopped, match="there is no program .*/lab/none"):
        runner.run("small", counted, "quick", BIN, str(tmp_path))
    for key, value, path in (("binary", "/nowhere/rung", "/nowhere/rung"), ("build", "release-none", "/release-none/rung")):
        plan["target"][0] = {"name": plan["target"][0]["name"], key: value}
        with pytest.raises(runner.Stopped, match=f"there is no program .*{path}"):
            run(plan, tmp_path)
    assert not faked and not os.path.exists(tmp_path / "small.journal")


@pytest.mark.parametrize("ends", [True, False])
def test_another_file_of_that_name(plan, tmp_path, faked, monkeypatch, ends):
    """The result of the other file, or the journal of its interrupted run, is neither used nor replaced."""
    (tmp_path / "a").mkdir()
    mine, other = str(tmp_path / "small.toml"), str(tmp_path / "a/small.toml")
    out, fake = str(tmp_path / "out"), measures.KINDS["load"]
    if not ends:
        monkeypatch.setitem(measures.KINDS, "load", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with contextlib.suppress(KeyboardInterrupt):
        runner.run(mine, plan, "quick", BIN, out)
    monkeypatch.setitem(measures.KINDS, "load", fake)
    there = f"small.{'json' if ends else 'journal'}"
    with open(f"{out}/{there}", encoding="utf-8") as file:
        text = file.read()
    with pytest.raises(runner.Stopped, match=f"{there} is of another experiment, {mine}: rename one"):
        runner.run(other, plan, "quick", BIN, out)
    with open(f"{out}/{there}", encoding="utf-8") as file:
        assert file.read() == text
    faked.clear()
    assert runner.run(mine, plan, "quick", BIN, out)["command"] == f"rung lab run {mine}" and len(faked) == 12


def test_another_build_is_not_gone_on_with(plan, tmp_path):
    """Binaries are compared, because sources that are not committed have the same commit before and after a change."""
    path = tmp_path / "rung"
    plan["target"][0]["binary"] = str(path)
    found = set()
    for text in ("one", "two"):
        path.write_text(text)
        found.add(runner.binaries_of(plan, BIN))
    path.unlink()
    assert len(found) == 2 and runner.binaries_of(plan, str(tmp_path / "nowhere")) not in found


def test_a_target_that_is_compiled_otherwise(plan, tmp_path, monkeypatch):
    """The target's program is in the folder of its MODE, next to that of the others; an installed lab has no sources to build it from."""
    context = measures.Context(f"{tmp_path}/release", str(tmp_path / "run"), "quick")
    target = {"name": "lto", "build": "release-lto"}
    assert measures.rung_of(context, target) == f"{tmp_path}/release-lto/rung"
    assert measures.rung_of(context, {"name": "plain"}) == f"{tmp_path}/release/rung"
    context.started(target, [f"{tmp_path}/release-lto/rung", "serve"])
    context.started({"name": "plain"}, [f"{tmp_path}/release/rung", "serve"])
    assert context.commands == {"lto": "release-lto/rung serve", "plain": "rung serve"}
    plan["target"].append(target)
    (tmp_path / "release-lto").mkdir()
    found = set()
    for text in ("one", "two"):
        (tmp_path / "release-lto/rung").write_text(text)
        found.add(runner.binaries_of(plan, f"{tmp_path}/release"))
    assert len(found) == 2
    monkeypatch.setattr(runner, "SOURCES", False)
    with pytest.raises(runner.Stopped, match="other builds are built from rung's sources, which are not installed"):
        run(plan, tmp_path)


def test_a_target_that_dies_is_an_invalid_cell(plan, tmp_path, monkeypatch):
    def measure(_context, target, _scenario, _seconds):
        if target["name"] == "poll":
            raise Broken("it died")
        return {"figures": {"cpu_us": 1}, "limiter": None}
    monkeypatch.setitem(measures.KINDS, "load", measure)
    found = {one["target"]: one for one in run(plan, tmp_path)["cells"]}
    assert found["epoll"]["error"] is None
    assert (found["poll"]["error"], found["poll"]["figures"]) == ("it died", {})


@pytest.mark.parametrize("stolen, tries, kept", [([0, 0], 1, 1), ([0, 9, 9, 9], 2, 2), ([0, 90, 90, 110, 110, 170, 170, 200], 4, 2)])
def test_what_the_host_disturbed_is_measured_again(monkeypatch, stolen, tries, kept):
    """A cell is repeated until the host takes hardly any time from it; after four tries the least disturbed is kept."""
    clock, asked = iter(stolen), []
    monkeypatch.setattr(machine, "stolen_s", lambda: next(clock))
    monkeypatch.setattr(runner.time, "monotonic", itertools.count().__next__)
    monkeypatch.setattr(runner.time, "sleep", lambda _: None)
    cell = runner.undisturbed(lambda: asked.append(1) or {"figures": {"cpu_us": len(asked)}, "limiter": None})
    assert (cell["tries"], len(asked), cell["figures"]["cpu_us"]) == (tries, tries, kept)
    assert len(runner.disturbances([cell])) == (tries > 1)


def test_a_host_that_takes_all_the_time_is_not_asked_for_calm_again_and_again(monkeypatch, plan, tmp_path):
    """After three cells without a calm try each cell gets one; when a cell was calm, four again."""
    taken, calm = itertools.count(0, 1000), [True]
    monkeypatch.setattr(machine, "stolen_s", lambda: 0 if calm[0] else next(taken))
    monkeypatch.setattr(runner, "PAUSE_S", 0)

    def measure(*_):
        done.append(calm[0])
        calm[0] = len(done) == 3 * runner.TRIES_MAX + 2
        return {"figures": {"cpu_us": 1}, "limiter": None}
    done, calm[0] = [], False
    monkeypatch.setitem(measures.KINDS, "load", measure)
    tries = [one["tries"] for one in run(plan, tmp_path)["cells"]]
    assert len(tries) >= 8 and tries[:8] == [4, 4, 4, 1, 1, 4, 4, 4][:len(tries)], tries


def test_a_failure_is_no_disturbance(monkeypatch):
    clock = iter([0, 9])
    monkeypatch.setattr(machine, "stolen_s", lambda: next(clock))

    def failing():
        raise Broken("it died")
    cell = runner.undisturbed(failing)
    assert (cell["tries"], cell["error"]) == (1, "it died")


def test_a_server_that_is_killed(plan, tmp_path):
    killer = tmp_path / "rung"
    killer.write_text(f'#!/bin/sh\n(sleep 0.3; kill -9 $$) &\nexec {BIN}/rung "$@"\n')
    killer.chmod(killer.stat().st_mode | stat.S_IXUSR)
    plan["target"][1]["binary"] = str(killer)
    plan["scenario"] = plan["scenario"][:1]
    plan["seconds"]["quick"] = 1
    found = {one["target"]: one["error"] for one in run(plan, tmp_path)["cells"]}
    assert found["epoll"] is None and re.search("requests failed|cannot connect|left with -9", found["poll"])


def test_a_server_that_sends_other_bytes(plan, tmp_path, monkeypatch):
    make = measures.documents

    def changed(context, scenario):
        folder = make(context, scenario)
        other = folder + "-other"
        os.makedirs(other, exist_ok=True)
        for name in os.listdir(folder):
            with open(f"{folder}/{name}", "rb") as source, open(f"{other}/{name}", "wb") as file:
                file.write(source.read()[:-1] + b"!")
        return folder
    monkeypatch.setattr(measures, "documents", changed)
    real = measures.Server
    monkeypatch.setattr(measures, "Server", lambda rung, engine, folder, *rest: real(rung, engine, folder + "-other", *rest))
    plan["scenario"] = plan["scenario"][:1]
    assert all("wrong_body" in one["error"] for one in run(plan, tmp_path)["cells"])


def test_a_full_disk(plan, tmp_path, faked):
    """The earlier result stays, and the message says what to do."""
    (tmp_path / "small.json").write_text("{}")
    code = f"""import sys; sys.path.insert(0, {TOP + "/lab"!r})
import resource, signal, experiment, measures, runner
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
measures.KINDS["load"] = lambda *_: {{"figures": {{"cpu_us": 1}}, "limiter": "x" * 9000}}
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
try:
    runner.run("small", experiment.load({str(tmp_path / "small.toml")!r}), "quick", {BIN!r}, {str(tmp_path)!r})
except runner.Stopped as error:
    print(error)"""
    done = subprocess.run([sys.executable, "-B", "-c", code], text=True, timeout=60, capture_output=True, check=False)
    assert "File too large; the 2 cells before are kept: make room" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "small.json").read_text() == "{}" and not faked
    assert sorted(os.listdir(tmp_path)) == ["small.journal", "small.json", "small.toml"]


def test_a_result_that_finds_no_room_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError):
        command.put(str(tmp_path / "x"), "text")
    assert not os.listdir(tmp_path)


def test_peers_that_are_not_here(plan, monkeypatch):
    """Each target that needs a missing peer is named, and an unknown peer is reported before anything is measured."""
    monkeypatch.setattr(peers, "available", lambda: {"nginx-tuned": "nginx is not installed", "h2o": None})
    plan["target"] = [{"name": "one", "peer": "nginx-tuned"}, {"name": "two", "peer": "nginx-tuned"}, {"name": "h2o", "peer": "h2o"}]
    assert runner.cannot_run(plan) == dict.fromkeys(["one", "two"], "nginx is not installed")
    plan["target"].append({"name": "x", "peer": "nginx"})
    with pytest.raises(runner.Stopped, match="there is no peer nginx; there are nginx-tuned, h2o"):
        runner.cannot_run(plan)


def test_two_runs_at_once(plan, tmp_path, faked):
    with runner.alone(str(tmp_path)), pytest.raises(runner.Stopped, match="another rung lab run is measuring"):
        run(plan, tmp_path)
    assert not faked
    run(plan, tmp_path)
    assert len(faked) == 12


def test_no_place_for_results(plan, tmp_path, faked):
    tmp_path.joinpath("file").write_text("")
    with pytest.raises(runner.Stopped, match="Not a directory|File exists"):
        run(plan, tmp_path / "file")
    assert not faked


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_stop_leaves_no_process(plan, tmp_path, number, monkeypatch):
    """No folder is left, either; if the lab was killed, its next start removes the folder."""
    del plan
    path = tmp_path / "small.toml"
    path.write_text(PLAN.replace("0.05", "5"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    with subprocess.Popen([sys.executable, "-B", "lab/lab.py", "--bin", BIN, "--out", str(tmp_path / "out"), "run", "--no-build",
                           str(path)],
                          cwd=TOP, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)) as process:
        end = time.monotonic() + 20
        pids = []
        while len(pids) < 2 and time.monotonic() < end:
            time.sleep(0.05)
            with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
                pids = file.read().split()
        process.send_signal(number)
        said = process.communicate(timeout=30)[1]
        assert number != signal.SIGINT or "the same command goes on from there" in said
        assert process.returncode == {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGKILL: -9}[number]
    assert pids
    while any(lives(pid) for pid in pids):  # the kernel signals the processes that we did not wait for
        assert time.monotonic() < end + 20
        time.sleep(0.01)
    assert not (tmp_path / "out/small.json").exists()
    assert len(os.listdir(tmp_path / "tmp")) == (number == signal.SIGKILL)
    monkeypatch.setattr(tempfile, "tempdir", None)
    scratch.sweep()
    assert not os.listdir(tmp_path / "tmp")


# shows E17
def test_a_setting_that_cannot_be_had_ends_it(plan, tmp_path):
    """The run ends before anything is measured.  A result describes the machine along with the figures."""
    wanted = {**plan, "settings": {"descriptors": 1 << 40}}
    with pytest.raises(runner.Stopped, match="descriptors cannot be set to .*; nothing was measured"):
        runner.run("small", wanted, "quick", BIN, str(tmp_path), tell=lambda text: None)
    wanted["settings"] = {"descriptors": 1 << 40, "processors": str(min(os.sched_getaffinity(0))), "optional": ["descriptors"]}
    result = runner.run("small", {**wanted, "scenario": plan["scenario"][:1]}, "quick", BIN, str(tmp_path))
    assert "done without" in result["settings"]["descriptors"] and result["settings"]["processors"]
    assert result["machine"]["compiler"] and any("The limit that binds next" in one for one in result["remarks"])
    assert not [one["error"] for one in result["cells"] if one["error"]]
