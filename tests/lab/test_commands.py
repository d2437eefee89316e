# SPDX-License-Identifier: MIT
"""cost.py as a command: a small run from end to end, and its messages when it cannot run.

A document is never left half written, and never written while figures are missing.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import command
import pytest
from command import TOP
from rig import lives

RUNG = os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung")
PAGE = "before\n<!-- cost -->\nold\n<!-- /cost -->\nafter\n"
TINY = {"rounds": {"calls": 1, "cpu": 1, "idle": 1, "held": 1},
        "calls_short": 5, "calls_more": 20, "seconds": 0.3, "idle_connections": 20}
START = """import sys; sys.dont_write_bytecode = True; sys.path.insert(0, "lab")
import command, cost
cost.QUICK, cost.CONNECTIONS_MAX, cost.CROWD = json.loads(sys.argv.pop(1)), 100, 8
command.run("cost", cost.main)"""
tools = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")


def began(*args, plan=None):
    return subprocess.Popen([sys.executable, "-c", "import json; " + START, json.dumps(plan or TINY), "--quick", *map(str, args)],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=TOP)


def run(*args, **options):
    with began(*args, **options) as process:
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    os.chmod(path, 0o640)
    return path


@tools
# shows U50
def test_a_small_run(page, tmp_path):
    raw = tmp_path / "raw.json"
    status, out, err = run("--rung", RUNG, "--engines", "naive,null", "--json", raw, "--write", page)
    assert status == 0, out + err
    data = json.loads(raw.read_text())
    assert set(data["engines"]) == {"naive", "epoll", "null"} and data["errors"] == []
    epoll, naive = data["engines"]["epoll"], data["engines"]["naive"]
    waits = [one["calls"][0]["by_name"].get("epoll_wait", 0) for one in (epoll, naive)]
    # naive sleeps on a set between connections, not between requests; epoll does, unless requests arrive while others are answered
    assert waits[0] > 0.5 and waits[1] < 0.2
    assert epoll["cpu_one"][0]["requests_per_s"] > 0 and 0.1 < epoll["cpu_one"][0]["total_us"] < 1e5
    assert naive["held"][0]["held"] == 1 and epoll["held"][0]["held"] == 100
    assert "idle" not in naive and epoll["idle"][0]["connections"] == 20
    assert data["engines"]["null"]["cpu_one"][0]["total_us"] > 0
    text = page.read_text()
    assert text.startswith("before\n<!-- cost -->\nRatio to epoll") and text.endswith("<!-- /cost -->\nafter\n")
    assert os.stat(page).st_mode & 0o777 == 0o640 and sorted(os.listdir(tmp_path)) == ["page.md", "raw.json"]
    again = run("--from", raw, "--write", page)  # shown again, without measuring
    assert again == (0, out, "") and page.read_text() == text


@pytest.mark.parametrize("args, words", [
    (["--rung", "/nonexistent/rung"], "there is no /nonexistent/rung: make cost installs and builds"),
    (["--rung", "/bin/echo"], "/bin/echo has no engine epoll that can run"),
    (["--rung", "/bin/false"], "/bin/false has no engine epoll that can run"),
    (["--engines", "epoll,warp,nine", "--rung", RUNG], "no such engine: nine, warp"),
    (["--from", "lab/table.py"], "lab/table.py is not JSON"), (["--from", "/nonexistent"], "No such file"),
    (["--from", os.devnull], "is not JSON")], ids=lambda value: None if isinstance(value, str) else value[-1].rpartition("/")[2])
@tools
def test_nothing_to_be_had(page, args, words):
    status, out, err = run(*args, "--write", page)
    assert status == 1 and out == "" and words in err and "Traceback" not in err, (out, err)
    assert page.read_text() == PAGE


@pytest.mark.parametrize("text", ["[]", "{}", '{"engines": {}}'])
def test_raw_data_of_something_else(tmp_path, text):
    path = tmp_path / "raw.json"
    path.write_text(text)
    status, _, err = run("--from", path)
    assert status == 1 and err == f"cost: {path} is not what cost.py --json writes\n"


def test_a_page_without_a_place_is_told_at_once(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("nothing\n")
    begin = time.monotonic()
    status, out, err = run("--rung", RUNG, "--write", path)
    assert status == 1 and out == "" and "has no place between" in err and time.monotonic() - begin < 5


def fake(tmp_path, engines, serve):
    """A program that lists these engines and runs this script as a server."""
    path = tmp_path / "rung"
    path.write_text(f"#!/bin/sh\n[ \"$1\" = serve ] || {{ echo '{json.dumps(engines)}'; exit; }}\n{serve}\n")
    path.chmod(0o755)
    (tmp_path / "rung-load").symlink_to(os.path.join(os.path.dirname(RUNG), "rung-load"))
    return path


def row(name, **more):
    return {"name": name, "model": "readiness", "capacity": 0, "available": True, "reason": None, **more}


@tools
def test_an_engine_that_cannot_run_here_is_told(page, tmp_path):
    """The reason is printed, and a failure leaves the document unchanged."""
    rung = fake(tmp_path, [row("epoll"), row("uring", available=False, reason="io_uring is off")],
                "echo 'rung: no luck' >&2; exit 1")
    status, out, err = run("--rung", rung, "--engines", "uring", "--write", page)
    assert status == 1 and "uring cannot run here: io_uring is off" in out
    assert "FAILED epoll: calls: Broken: did not start: rung: no luck" in out
    assert f"{page} stays as it was: measurements failed" in err and page.read_text() == PAGE


@tools
@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted(page, tmp_path, number, status):
    """No server outlives the command, and nothing is written."""
    pids = tmp_path / "pids"
    rung = fake(tmp_path, [row("epoll")], f'echo $$ >>{pids}; exec {RUNG} "$@"')
    raw = tmp_path / "raw.json"
    with began("--rung", rung, "--write", page, "--json", raw, plan={**TINY, "seconds": 600}) as process:
        end = time.monotonic() + 30
        while not pids.exists() or not pids.read_text().endswith("\n"):
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == status and out == "" and "Traceback" not in err, err
    if number == signal.SIGINT:
        assert err == "cost: interrupted: nothing was written\n"
    assert page.read_text() == PAGE and not raw.exists()
    while any(map(lives, pids.read_text().split())):  # the kernel signals a server that was just started
        assert time.monotonic() < end + 60
        time.sleep(0.01)


def test_a_file_is_replaced_whole(tmp_path, monkeypatch):
    path = tmp_path / "file"
    command.put(path, "one\n")
    assert path.read_text() == "one\n" and os.stat(path).st_mode & 0o777 == 0o644
    monkeypatch.setattr(os, "replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        command.put(path, "two\n")
    assert path.read_text() == "one\n"


def test_a_reader_that_has_enough():
    """rung lab list | head -1: no complaint about the pipe."""
    lines = 'import command, sys\ncommand.run("lab", lambda: print("line\\n" * 100000))'
    with subprocess.Popen([sys.executable, "-B", "-c", lines], cwd=f"{TOP}/lab", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        assert process.stdout.readline() == "line\n"
        process.stdout.close()
        assert process.stderr.read() == "" and process.wait(timeout=60) == 141
