# SPDX-License-Identifier: MIT
"""run.py counts what happened: a failure may be called unsteady only if other tests ran at the same time."""
import os
import shutil
import subprocess
import time
from types import SimpleNamespace

import guests
import layers as plans
import pytest
import run
from layer import SHOWN_LINES, Layer, seats, side_by_side
from reports import note_pytest

PATIENCE_S = 60


@pytest.fixture
def layers(tmp_path):
    """layers(places, name=job...) -> those layers, run: {name: Layer}."""
    os.makedirs(tmp_path / "log")

    def ran(places=8, **jobs):
        todo = [Layer(name, str(tmp_path), False, job) for name, job in jobs.items()]
        for _ in side_by_side(todo, places):
            pass
        return {layer.name: layer for layer in todo}
    return ran


def late(retried=None, crowded=False):
    """A job whose test fails at first and then passes; its second run creates the file `retried`."""
    def job(layer):
        def once_more():
            if retried:
                retried.write_text(f"{time.monotonic()}")
            return {"t::late": ("passed", "")}
        note_pytest(layer, ({"t::late": ("failed", "too late"), "t::good": ("passed", "")}, 1, ""), once_more, crowded)
    return job


def until(path, ended=None):
    """A job that lasts until the file `path` exists, or half a second without one, and writes into `ended` when it ended."""
    def job(layer):
        end = time.monotonic() + (PATIENCE_S if path else 0.5)
        while time.monotonic() < end and not (path and path.exists()):
            time.sleep(0.01)
        layer.ok("waited")
        if ended:
            ended.write_text(f"{time.monotonic()}")
    return job


def test_a_layer_that_ran_alone_has_failed(layers, tmp_path, capsys):
    found = layers(guest=late(tmp_path / "retried"))["guest"]
    assert (found.failed, found.passed, found.unsteady) == (["t::late"], ["t::good"], [])
    assert not (tmp_path / "retried").exists()
    assert run.listed("check", [found]) == 1
    out = capsys.readouterr().out
    assert "failed in guest: t::late" in out and "unsteady" not in out and out.endswith("1 passed, 1 failed, 0 skipped\n")


@pytest.mark.long
@pytest.mark.parametrize("alone", [True, False])
def test_a_guest_retries_at_once_and_counts_as_others_do(layers, tmp_path, monkeypatch, alone):
    """A guest cannot wait for other layers to end, so it has already repeated its failures.  The second results count only
    if other layers ran at the same time."""
    def booted(*_):
        folder = tmp_path / "shared"
        folder.mkdir()
        for name, text in (("report", "<failure>too late</failure>"), ("again", "")):
            (folder / f"{name}.xml").write_text(f'<testsuite><testcase classname="t" name="late">{text}</testcase></testsuite>')
        return str(folder), SimpleNamespace(status=1, output="", console="", complaints=[]), None
    monkeypatch.setattr(guests, "built", lambda *_: "modules")
    monkeypatch.setattr(guests, "booted", booted)
    monkeypatch.setattr(Layer, "make", lambda *_, **__: True)
    others = {} if alone else {"other": seats(1, until(None))}
    found = layers(guest=seats(1, guests.inside(guests.VERSIONS[0], "event", "core")), **others)["guest"]
    assert (found.failed, found.unsteady) == ((["t::late"], []) if alone else ([], ["t::late"]))


def test_layers_one_after_the_other_are_alone(layers):
    """Each layer takes all seats, or one has ended when the other begins."""
    for found in (layers(one=late(), two=late()), layers(1, one=seats(1, late()), two=seats(1, late()))):
        assert [(layer.failed, layer.unsteady) for layer in found.values()] == [(["t::late"], [])] * 2


@pytest.mark.parametrize("first", [True, False])
def test_beside_another_layer_it_runs_again_alone(layers, tmp_path, capsys, first):
    ended, retried = tmp_path / "ended", tmp_path / "retried"
    jobs = {"wire": seats(1, late(retried)), "other": seats(1, until(None, ended))}
    found = layers(**(jobs if first else dict(reversed(jobs.items()))))
    assert (found["wire"].failed, found["wire"].unsteady) == ([], ["t::late"])
    assert float(retried.read_text()) > float(ended.read_text())
    assert run.listed("check", list(found.values())) == 0
    assert "unsteady in wire: t::late (failed beside others, passed alone)" in capsys.readouterr().out


def test_tests_side_by_side_run_again_alone(layers, tmp_path):
    """The tests of one layer crowd each other too, and another layer may start before they run again."""
    ended, retried = tmp_path / "ended", tmp_path / "retried"
    found = layers(wire=late(retried, crowded=True), other=until(None, ended))
    assert (found["wire"].failed, found["wire"].unsteady) == ([], ["t::late"])
    assert float(retried.read_text()) > float(ended.read_text())


def test_what_fails_twice_has_failed(layers):
    def job(layer):
        again = {"t::late": ("failed", "")}
        note_pytest(layer, ({"t::late": ("failed", "")}, 1, ""), lambda: again)
    found = layers(wire=seats(1, job), other=seats(1, until(None)))
    assert (found["wire"].failed, found["wire"].unsteady) == (["t::late"], [])


@pytest.mark.parametrize("reason", ("E   assert 1 == 2", "[   LINE   ] --- tests/unit/site.c:9: error: Failure!",
                                    "the kernel complains: WARNING: at kernel/kcache.c:9"))
def test_a_long_failure_begins_with_its_reason(tmp_path, reason):
    os.makedirs(tmp_path / "log")
    layer = Layer("wire", str(tmp_path), False, None)
    layer.fail("t::long", "\n".join(["before", reason, *["line"] * SHOWN_LINES]))
    layer.fail("t::short", "def test()\nE   assert 3 == 4")
    assert layer.said[:3] == ["FAILED in wire: t::long", f"    {reason}", f"    ... 2 lines before: {layer.log_path}"]
    assert layer.said[3:] == ["    line"] * SHOWN_LINES + ["FAILED in wire: t::short", "    def test()", "    E   assert 3 == 4"]


def test_a_layer_that_dies_or_leaves_a_process_has_failed(layers, monkeypatch):
    monkeypatch.setattr("layer.GRACE_S", 1)

    def left(layer):
        layer.ok("started")
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "1000"])
    found = layers(dead=seats(1, lambda _: os._exit(3)), left=seats(1, left))
    assert found["dead"].failed == ["its process has died: status 3"]
    assert found["left"].failed == ["left running: sleep 1000"] and found["left"].passed == ["started"]


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("clang"), reason="clang is not installed")
@pytest.mark.parametrize("crashes", [False, True])
def test_a_crash_under_a_fuzzer_has_failed(layers, tmp_path, monkeypatch, crashes):
    """The target ends at the first input, or never."""
    for folder in ("asan", "fuzz"):
        os.makedirs(tmp_path / folder / "tests/fuzz")
    (tmp_path / "asan/tests/fuzz/target").symlink_to("/bin/true")
    (tmp_path / "target.c").write_text(f"int LLVMFuzzerTestOneInput(void) {{ if ({int(crashes)}) __builtin_trap(); return 0; }}\n")
    subprocess.run(["clang", "-fsanitize=fuzzer", "-o", tmp_path / "fuzz/tests/fuzz/target", tmp_path / "target.c"], check=True)
    monkeypatch.setattr(plans, "targets", lambda: ["target"])
    monkeypatch.setattr(Layer, "make", lambda *_, **__: True)
    found = layers(fuzz=lambda layer: plans.fuzzed(layer, 1, 1, clang=True))["fuzz"]
    assert (len(found.passed), len(found.failed), len(found.skipped)) == ((1, 1, 0) if crashes else (2, 0, 0))
