# SPDX-License-Identifier: MIT
"""kind_inside.py and what runs in its guest: what a round asks of which guest, and how the answers are read; and, marked
long, a guest."""
import json
import os

import experiment
import inside
import kind_guest
import kind_inside
import measures
import modules
import probe
import pytest
from command import TOP
from rig import Broken
from vm import guest, kernel

BIN = os.path.dirname(os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung"))
CACHE = os.path.join(os.path.dirname(BIN), "vm")
EVENT, EPOLL = {"name": "event", "model": "event"}, {"name": "epoll", "engine": "epoll"}
ONE, TWO = {"name": "one", "connections": 1}, {"name": "two", "connections": 1, "processors": 2}
FOUND = {"figures": {"failed": 0}, "limiter": None}


# --- The plan -----------------------------------------------------------------------------------------------

def plan(target=None, scenario=None):
    return {"title": "t", "question": "q?", "method": "m", "kind": "inside", "target": [{**EVENT, **(target or {})}],
            "scenario": [scenario or ONE]}


def test_a_plan():
    assert experiment.check(plan({"options": "wq=bound"}, {"name": "s", "silent": 3, "protocol": "echo", "processors": 2}))


@pytest.mark.parametrize("target, scenario, words", [
    ({"model": "events"}, None, "there is no model events; perhaps event"),
    ({}, {"name": "s", "calls": 10, "connections": 1}, "target event has no probe, the function whose calls scenario s"),
    ({}, {"name": "s", "bytes": 1}, "says not what its clients do: silent, calls, connections"),
    ({}, {"name": "s", "silent": 1, "close": True}, "a key close that means nothing"),
    ({"lines": "off"}, None, "target event: lines are not off"),
    ({"engine": "epoll"}, None, "a key engine that means nothing to it")])
def test_a_plan_that_means_nothing(target, scenario, words):
    with pytest.raises(experiment.Wrong, match=words):
        experiment.check(plan(target, scenario))


# --- A round ------------------------------------------------------------------------------------------------

@pytest.fixture
def context(tmp_path):
    return measures.Context("/b/release", str(tmp_path), "quick", 0.5)


@pytest.fixture
def boots(monkeypatch):
    """Fakes the guests, which do not boot: boots.say(job, its cells) gives their output, as text."""
    class Boots:
        jobs, say, complaints, dies = [], staticmethod(lambda job, cells: ""), [], ""
    boots = Boots()

    def boot(job, _kernel):
        with open(f"{job.share}/job.json", encoding="utf-8") as file:
            asked = json.load(file)
        boots.jobs.append((job, asked))
        with open(f"{job.share}/cells", "w", encoding="utf-8") as file:
            file.write(boots.say(job, asked["cells"]))
        if boots.dies:
            raise Broken(boots.dies)
        return guest.Result(0, "last words", "", boots.complaints, 1)
    boots.jobs = []
    monkeypatch.setattr(kind_inside, "modules_for", lambda version, build, lines=True: f"{build}/kernel-{version}{'' if lines else '-none'}/kernel")
    monkeypatch.setattr(kind_inside.kernel, "fetch", lambda *_: None)
    monkeypatch.setattr(kind_inside.guest, "boot", boot)
    return boots


def line(found, command="insmod x", config=None):
    return json.dumps({**found, "command": command, "config": config}) + "\n"


def test_a_guest_for_each_number_of_processors(context, boots):
    boots.say = lambda job, cells: "".join(line({"found": {"figures": {"failed": job.cpus}, "limiter": None}}) for _ in cells)
    cells = [(EVENT, ONE), (EVENT, TWO), (EPOLL, ONE)]
    assert [one["figures"]["failed"] for one in kind_inside.measure_all(context, 4, cells)] == [1, 2, 1]
    (one, asked), (two, _) = boots.jobs
    assert (one.count, one.cpus, one.seed, two.count, two.cpus) == (True, 1, 5, False, 2) and one.root == "/"
    assert asked == {"binaries": "/b/release", "modules": "/b/kernel-6.1/kernel", "pace": "quick", "seconds": 0.5,
                     "cells": [[EVENT, ONE], [EPOLL, ONE]]}
    assert context.commands == {"event": "insmod x", "epoll": "insmod x"} and context.configs == {}


def test_modules_without_lines(context, boots):
    """Modules without lines are compiled only if a target asks for them."""
    boots.say = lambda job, cells: "".join(line({"found": FOUND}) for _ in cells)
    kind_inside.measure_all(context, 0, [({**EVENT, "lines": "on"}, ONE)])
    kind_inside.measure_all(context, 0, [(EVENT, ONE), ({**EVENT, "lines": "none"}, ONE)])
    assert [asked.get("without_lines") for _, asked in boots.jobs] == [None, "/b/kernel-6.1-none/kernel"]


def test_a_guest_that_died(context, boots):
    """Cells measured before the guest died are kept."""
    boots.say, boots.dies = lambda *_: line({"found": FOUND}) + '{"found": {"fig', "Kernel panic"
    first, second = kind_inside.measure_all(context, 0, [(EVENT, ONE), (EPOLL, ONE)])
    assert first == FOUND and isinstance(second, Broken) and str(second) == "the guest died: Kernel panic"


def test_cells_that_failed_or_are_missing(context, boots):
    boots.say = lambda *_: line({"broken": "no luck"}, None)
    first, second = kind_inside.measure_all(context, 0, [(EVENT, ONE), (EPOLL, ONE)])
    assert str(first) == "no luck" and str(second) == "the guest said nothing about it: last words" and not context.commands
    with pytest.raises(Broken, match="no luck"):
        kind_inside.measure(context, EVENT, ONE, 1)


def test_a_kernel_that_complains(context, boots):
    """When the kernel's trouble began is unknown, so no result of that guest counts."""
    boots.say, boots.complaints = lambda *_: line({"found": FOUND}), ["BUG: bad"]
    (found,) = kind_inside.measure_all(context, 0, [(EVENT, ONE)])
    assert isinstance(found, Broken) and str(found) == "the kernel complains: BUG: bad"


# --- In the guest -------------------------------------------------------------------------------------------

def data(answered=10, **errors):
    return {"requests": {"answered": answered}, "errors": {**errors, "total": sum(errors.values())}}


def test_requests_that_fail_are_all_that_is_known():
    assert inside.failures(data()) == "" and inside.failures(data(0)) == "none was answered"
    why = inside.failures(data(reset=2, closed_early=1))
    assert inside.unserved(data(reset=2, closed_early=1), why) == {
        "figures": {"failed": 3}, "limiter": "requests failed: 2 reset, 1 closed_early"}
    assert inside.unserved(data(0), "none was answered")["figures"] == {"failed": 1}


def test_instructions_of_a_message():
    """The clock of one processor counts them, and that of two does not."""
    ran = {**data(1000), "elapsed_s": 0.5}
    assert inside.instructions(ran, 1)["instructions"] == pytest.approx(500_000) and inside.instructions(ran, 2) == {}


def test_receives_of_a_message():
    assert inside.of_each(100, 500, data(100)) == {"receives": 4} and inside.of_each(None, None, data(100)) == {}
    assert inside.receives(object()) is None


def test_what_the_generator_is_asked(context):
    class Server:
        port = 7
    asked = " ".join(inside.asked(context, Server, {"protocol": "echo", "bytes": 4100, "close": True}, "", 1))
    assert asked == "-c 1 -t 1 -T 30s --message-min 4100 --message-max 4100 -k off echo://127.0.0.1:7"
    assert inside.asked(context, Server, {}, "", 1)[-3:] == ["http://127.0.0.1:7/file.bin", "-T", "30s"]


def test_a_part_of_the_calls(context, monkeypatch):
    monkeypatch.setattr(inside, "traced", lambda *_: [float(number) for number in range(300)])
    found = inside.calls(context, ({"name": "t"}, {"calls": 100, "after": 200}))
    assert found["figures"] == {"call_p50_us": 250, "call_p90_us": 290, "call_p99_us": 299, "call_max_us": 299, "call_mean_us": 249.5}
    assert found["percentiles"][0] == [50, 250] and found["percentiles"][-1] == [100, 299]


def test_how_many_calls_are_traced():
    first, last = {"calls": 100}, {"calls": 50, "after": 300}
    assert inside.traces_of([(EVENT, last), (EVENT, first), (EPOLL, ONE)]) == {"event": (EVENT, first, 350)}


def test_the_kernels_trace():
    text = ("# entries-in-buffer/entries-written: 5/5   #P:1\n"
            "   kworker/0:1-17      [000] d.... 5.000100: left: (a <- b)\n"
            "   kworker/0:1-17      [000] ..... 5.000200: entered: (a)\n"
            "   kworker/u2:0-rung-9 [001] d..1. 5.000210: entered: (a)\n"
            "   kworker/0:1-17      [001] d.... 5.000260: left: (a <- b)\n"
            "   kworker/u2:0-rung-9 [000] ..... 5.000310: left: (a <- b)\n")
    assert probe.durations(text) == pytest.approx([60, 100])


def test_a_trace_with_gaps(tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "TRACING", str(tmp_path))
    (tmp_path / "trace").write_text("# entries-in-buffer/entries-written: 5/9   #P:1\n")
    with pytest.raises(Broken, match="the trace is not whole"):
        probe.whole_trace()
    with pytest.raises(Broken, match="the kernel's nowhere/at does not take 'x': No such file"):
        probe.tell("nowhere/at", "x y")


def test_threads_are_found_by_name():
    with open("/proc/self/comm", encoding="ascii") as file:
        assert os.getpid() in modules.threads(file.read().strip())
    assert modules.threads("no such thread") == []


# --- A guest ------------------------------------------------------------------------------------------------

@pytest.mark.long
def test_a_round_in_a_guest(tmp_path):
    if reason := guest.missing():
        pytest.skip(reason)
    try:
        kernel.fetch(kind_inside.KERNEL, CACHE)
        kind_guest.modules_for(kind_inside.KERNEL, os.path.dirname(BIN))
    except Broken as error:
        pytest.skip(f"no kernel or no modules can be had: {error}")
    context = measures.Context(BIN, str(tmp_path), "quick", 0.05)
    kthread = {"name": "kthread", "model": "kthread", "probe": "kblock_thread_start", "scheduler": "fifo"}
    wrong = {"name": "wrong", "model": "event", "options": "wq=sideways"}
    steady, crowd = {"name": "s", "connections": 4}, {"name": "c", "silent": 50}
    calls, echo = {"name": "k", "calls": 20, "connections": 1}, {"name": "e", "protocol": "echo", "connections": 3, "bytes": 4100}
    long_enough = {**steady, "name": "l", "seconds": 0.5}  # for each thread to be found and given its class while it lives
    cells = [(EVENT, steady), (EPOLL, steady), (kthread, long_enough), (wrong, steady), (EVENT, crowd), (kthread, calls), (EVENT, calls),
             (EVENT, echo), (EPOLL, echo)]
    found = kind_inside.measure_all(context, 0, [({"probe": "no_such", **target}, scenario) for target, scenario in cells])
    bad, unknown = found.pop(3), found.pop(5)
    assert not [one for one in found if isinstance(one, Broken)], found
    assert "wq takes bound or unbound" in str(bad) and "kprobe_events does not take" in str(unknown)
    assert all(one["figures"]["per_second"] > 100 and one["figures"]["failed"] == 0 for one in (*found[:3], *found[5:]))
    assert found[3]["figures"]["held"] == 50 and 0 < found[4]["figures"]["call_p50_us"] <= found[4]["figures"]["call_max_us"]


STARTS = """
import subprocess, sys, time
sys.path.insert(0, "{top}/lab")
import inside
inside.prepare()
with inside.awake():
    folder = inside.settled("{binaries}")
inside.calm()
began = time.monotonic()
for _ in range(20):
    subprocess.run([folder + "/rung-load", "--help"], stdout=subprocess.DEVNULL, check=True)
print(time.monotonic() - began)
"""


@pytest.mark.long
def test_a_program_that_starts_asks_nothing_of_the_emulator(tmp_path):
    """While an idle guest waits for the emulator, its clock jumps from timer to timer: starting a program took up to 800 s of guest time."""
    if reason := guest.missing():
        pytest.skip(reason)
    try:
        found = kernel.fetch(kind_inside.KERNEL, CACHE)
    except Broken as error:
        pytest.skip(f"no kernel can be had: {error}")
    (tmp_path / "starts.py").write_text(STARTS.format(top=TOP, binaries=BIN))
    job = guest.Job("exec /usr/bin/python3 -B /share/starts.py", share=str(tmp_path), root="/", modules=kind_inside.MODULES,
                    memory_mib=kind_inside.MEMORY_MIB, count=True, limit_s=kind_inside.BOOT_S)
    assert float(guest.boot(job, found).output) < 2
