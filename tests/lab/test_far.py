# SPDX-License-Identifier: MIT
"""Clients on another machine: here it is another network namespace, with its own link to this one."""
import json
import os
import shutil
import subprocess
import sys

import far
import measures
import pytest
from namespaces import Namespaces
from rig import TOP

RUNG = os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung"
LOAD = os.path.join(os.path.dirname(RUNG), "rung-load")
PLAN = """title = "Far"
question = "Do clients on another machine get the same answers?"
method = "One client, and files of several names."
rounds = {{ quick = 2, full = 2 }}
seconds = {{ quick = 0.3, full = 0.3 }}
kind = "{kind}"
[[target]]
name = "ours"
[[target]]
name = "nginx"
peer = "nginx-tuned"
[[target]]
name = "floor"
program = "floor"
[[scenario]]
name = "one file"
connections = 2
[[scenario]]
name = "many files"
connections = 2
files = 20
[[claim]]
says = "It is answered."
figure = "per_second"
of = "ours"
expect = "> 0"
"""
FLOOR = '[[target]]\nname = "floor"\nprogram = "floor"\n'
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="network namespaces need root, and iproute2's ip")


@pytest.fixture
def machines():
    with Namespaces() as found:
        yield found


def run(machines, tmp_path, client, address, kind="load"):
    """rung lab run on the first machine."""
    text = PLAN.format(kind=kind)
    (tmp_path / "far.toml").write_text(text if kind == "load" else text.replace(FLOOR, ""))
    return subprocess.run([*machines.within(0), sys.executable, "-B", f"{TOP}/lab/lab.py", "--bin", os.path.dirname(RUNG), "--out",
                           str(tmp_path / "out"), "run", "--no-build", "--client", client, "--address", address, str(tmp_path / "far.toml")],
                          capture_output=True, text=True, timeout=200, check=False)


# shows N20, T07
def test_clients_elsewhere(machines, tmp_path):
    """Every server is reached by the given address; the floor, which listens on 127.0.0.1 only, has no figure."""
    client = " ".join([*machines.within(1), LOAD])
    done = run(machines, tmp_path, client, "10.9.0.1")
    result = json.loads((tmp_path / "out/far.json").read_text())
    assert done.returncode == 0, done.stdout + done.stderr
    assert result["client"] == client and result["address"] == "10.9.0.1" and "listens on 127.0.0.1 only" in done.stdout
    cells = [one for one in result["cells"] if one["target"] != "floor" and one["target"] not in result["missing"]]
    assert len(cells) >= 4 and all(one["error"] is None and one["figures"]["per_second"] > 0 for one in cells)
    assert "--bind 10.9.0.1" in result["commands"]["ours"] and "another machine" in (tmp_path / "out/far.html").read_text()


@pytest.mark.parametrize("client, address, kind, words", [
    ("CLIENT", "192.0.2.1", "load", "no server can listen there: Cannot assign requested address"),
    ("CLIENT", "nowhere", "load", "no server can listen there"),
    ("/nowhere/rung-load", "10.9.0.1", "load", "cannot be started"),
    ("sh -c 'exit 7'", "10.9.0.1", "load", "does not start rung load: it left with 7"),
    ("echo hello", "10.9.0.1", "load", "does not start rung load: hello"),
    ("CLIENT", "10.9.0.1", "logged", "logged measures on one machine"),
    ("CLIENT", "", "load", "go together"),
    ("", "10.9.0.1", "load", "go together")])
def test_what_cannot_be(machines, tmp_path, client, address, kind, words):
    """The reason is printed as a sentence, and nothing is measured."""
    done = run(machines, tmp_path, client.replace("CLIENT", " ".join([*machines.within(1), LOAD])), address, kind)
    assert done.returncode in (1, 2) and words in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert not (tmp_path / "out/far.json").exists()


def test_a_shell_gets_words(monkeypatch):
    monkeypatch.setattr(far.Far, "client", ("ssh", "-p", "22", "host", "rung-load"))
    assert far.command(["-H", "a b", "http://x/?y&z"])[-3:] == ["-H", "'a b'", "'http://x/?y&z'"]
    monkeypatch.setattr(far.Far, "client", ("ip", "netns", "exec", "b", "rung-load"))
    assert far.command(["-H", "a b"])[-2:] == ["-H", "a b"]


def test_a_server_may_have_all_processors(monkeypatch):
    """No client shares the server's processors, so they are its limit when they are busy."""
    monkeypatch.setattr(far.Far, "client", ("ssh", "host"))
    mine = sorted(os.sched_getaffinity(0))
    assert measures.processors({"pinned": False}) == (mine, None)
