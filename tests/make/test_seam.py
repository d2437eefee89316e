# SPDX-License-Identifier: MIT
"""seam.py finds calls of an engine that the tests do not know; engines.py says what `rung engines --json` says."""
import json
import os
import subprocess

import engines
import pytest
import seam

LOOP = engines.Engine("a", "", "", "readiness", False, False, False, "1")
KNOWN = sorted(seam.REAL)


def said(*calls, row=LOOP):
    """The complaints about an engine that makes these calls, while another one makes all calls that need not fail."""
    files = {"engines/a": ({"engine_a"}, {"loop_open", "memcpy", *calls}), "engines/b": (set(), set(KNOWN)),
             "server/loop": ({"loop_open"}, {"ppoll"})}
    return list(seam.complaints(files, [row]))


@pytest.mark.parametrize("call", ["poll", "epoll_wait", "malloc", "recv", "close", "pthread_mutex_lock", "__errno_location", "memset"])
def test_known_calls(call):
    assert not [line for line in said(call) if "no test lets fail" in line]


def test_a_call_that_cannot_fail_in_a_test():
    fails, simulated = said("poll", "ppoll")
    assert "engines/a.c calls ppoll(), which no test lets fail" in fails and "--wrap=ppoll" in fails
    assert "engines/a.c calls ppoll(), which the simulator does not answer" in simulated


@pytest.mark.parametrize("row", [LOOP._replace(model="completion"), LOOP._replace(may_block=True), LOOP._replace(thread_pool=True)])
def test_the_simulator_has_loops_only(row):
    assert len(said("ppoll", row=row)) == 1


def test_what_the_simulator_lacks_alone():
    line, = said("pipe2")
    assert "which the simulator does not answer" in line and not said("pipe2", row=LOOP._replace(may_block=True))


def test_a_reason_without_a_call(monkeypatch):
    monkeypatch.setitem(seam.REAL, "mlock", "a sample")
    assert said() == ["tests/seam.py: no engine calls mlock(): remove it from REAL"]


def test_sources_and_the_program_agree():
    rung = os.path.join(engines.TOP, os.environ["RUNG_BUILD"], "debug", "rung")
    rows = json.loads(subprocess.run([rung, "engines", "--json"], stdout=subprocess.PIPE, timeout=60, check=True).stdout)
    assert [row["name"] for row in rows] == engines.names() and len(rows) > 10
    for row, ours in zip(rows, engines.rows()):
        for key in set(ours._fields) - {"capacity"}:
            assert row[key] == getattr(ours, key), (row["name"], key)
        assert (row["capacity"] == 1) == (ours.capacity == "1")
