# SPDX-License-Identifier: MIT
"""lab/programs/timers: every scheme against a model, its memory, threads at the same time, and the answer to wrong
arguments."""
import glob
import json
import os
import re
import shutil
import subprocess

import pytest
from command import TOP

BIN = os.path.dirname(os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung"))
with open(f"{TOP}/lab/programs/timers/timers.h", encoding="ascii") as header:
    SCHEMES = re.findall(r"X\((\w+)\)", re.search(r"#define SCHEMES\(X\)((?:.*\\\n)*.*)\n", header.read())[1])
LISTS = ("unsorted", "sorted")  # beyond 10 000 timers they take minutes


@pytest.fixture(scope="module", name="timers")
def built():
    build = os.path.dirname(BIN)
    subprocess.run(["make", "--no-print-directory", f"BUILD={build}", "lab-programs"], cwd=TOP, check=True,
                   stdout=subprocess.DEVNULL, timeout=300)

    def run(*args, program=f"{build}/release/lab/timers", before=()):
        return subprocess.run([*before, program, *map(str, args)], text=True, timeout=120, capture_output=True, check=False)
    return run


@pytest.mark.parametrize("scheme", SCHEMES)
# shows K26, K29
def test_a_million_operations_are_as_the_model_says(timers, scheme):
    done = timers(scheme, "check", 1000000)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("scheme", SCHEMES)
# shows K28
def test_prolonging_takes_no_memory(timers, scheme):
    done = timers(scheme, "memory", 100000)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("operation", ["start", "stop", "restart", "update", "expire", "serve"])
# shows K29
def test_every_operation_is_measured(timers, scheme, operation):
    done = timers(scheme, operation, 100, 2)
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["units"] == 256 and told["ns"] > 0


@pytest.mark.parametrize("timers_count, status", [(10000, 0), (10001, 3)])
@pytest.mark.parametrize("scheme", LISTS)
def test_a_list_ends_where_it_would_take_minutes(timers, scheme, timers_count, status):
    done = timers(scheme, "stop", timers_count, 1)
    assert done.returncode == status
    assert status == 0 or done.stderr.startswith("not run: ") and done.stdout == ""


# shows K27
def test_many_add_and_one_expires(timers):
    """No timer is lost, and none expires twice."""
    done = timers("locked_heap", "shared", 4, 50000)
    assert done.returncode == 0 and json.loads(done.stdout)["expired"] > 0, done.stderr


# shows K27
def test_no_race(timers, tmp_path):
    """The thread sanitizer finds no race; without the lock it does, which shows that it would."""
    program = tmp_path / "timers"
    made = subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=thread", "-pthread", "-o", program,
                           *glob.glob("lab/programs/timers/*.c"), "core/wheel.c", "base/failed.c"], cwd=TOP, timeout=120,
                          capture_output=True, text=True, check=False)
    if made.returncode or not shutil.which("setarch"):
        pytest.skip("the thread sanitizer is not to be had: " + made.stderr[-100:])
    ask = ("shared", 4, 10000)
    done = timers("locked_heap", *ask, program=program, before=["setarch", "-R"])
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    done = timers("heap", *ask, program=program, before=["setarch", "-R", "env", "TSAN_OPTIONS=halt_on_error=1"])
    assert "data race" in done.stderr


@pytest.mark.parametrize("args", [(), ("heap",), ("heap", "start"), ("heap", "start", "63"), ("heap", "start", "-1"),
                                  ("heap", "start", "1000", "x"), ("pile", "start", "1000"), ("heap", "stir", "1000"),
                                  ("locked_heap", "shared", "65"), ("heap", "check", "0")])
def test_a_wrong_question(timers, args):
    done = timers(*args)
    assert done.returncode == 2 and done.stderr.startswith("usage: timers SCHEME") and done.stdout == ""
