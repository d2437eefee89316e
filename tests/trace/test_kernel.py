# SPDX-License-Identifier: MIT
"""rung trace kernel where it cannot trace, and its help; its tracing is tested in a guest (tests/kernel)."""
import os
import re
import subprocess

import pytest
from aid import DONE, FAILED, MISSING, TOP, TRACE, USAGE, environment, trace
from words import Words


def kernel(*args, **options):
    return trace("kernel", *args, **options)


def tracers():
    for place in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing"):
        if os.access(f"{place}/available_tracers", os.R_OK):
            with open(f"{place}/available_tracers", encoding="ascii") as file:
                return file.read().split()
    return None


def test_a_kernel_without_the_tracer():
    if os.geteuid() != 0 or "function_graph" in (tracers() or ()):
        pytest.skip("this kernel has function_graph, or its tracer is not ours to ask")
    run = kernel("-d", "1s")
    assert run.status == MISSING and "one with CONFIG_FUNCTION_GRAPH_TRACER is needed, as Debian's is" in run.err and not run.out
    if tracers():
        assert f"this kernel has no function_graph tracer, only: {' '.join(tracers())};" in run.err


def test_without_the_rights():
    if os.geteuid() != 0 or not tracers():
        pytest.skip("only root can become another user; and there must be a tracer to be refused")
    done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", "--bounding-set=-all", TRACE, "kernel", "-d", "1s"],
                          capture_output=True, text=True, timeout=60, env=environment(), check=False)
    if "ailed to execute" in done.stderr:
        pytest.skip("nobody may not run the program where it lies")
    assert done.returncode == FAILED and "rung trace kernel needs root" in done.stderr, done.stderr


@pytest.mark.parametrize("args, words", [(("8080",), "only options are taken"), (("--depth", "51"), "out of range"), (("--run", ""), "cannot be empty")])
def test_usage(args, words):
    run = kernel(*args)
    assert run.status == USAGE and words in run.err and not run.out


# shows K11
def test_the_list_is_that_of_the_page():
    with open(f"{TOP}/docs/kernel.md", encoding="utf-8") as file:
        table = re.search(r"<!-- hot -->(.*?)<!-- /hot -->", file.read(), re.S)[1]
    rows = {row[0].strip("` "): re.findall(r"`(\w+)`", row[1]) for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \|", table, re.M)}
    run = kernel("--list")
    listed = {name: functions.split() for name, functions in (line.split(": ") for line in run.out.splitlines())}
    assert run.status == DONE and listed == {name: found for name, found in rows.items() if found}


class TestWords(Words):
    name, least, run = "trace", 9, staticmethod(kernel)

    def test_every_option_is_everywhere(self, monkeypatch):
        monkeypatch.setattr(self, "name", "trace_kernel", raising=False)
        super().test_every_option_is_everywhere()

    def test_help_fits_a_terminal(self):
        for line in (self.said("--help") + self.said("--help-all")).splitlines():
            assert len(line) <= 80, line
