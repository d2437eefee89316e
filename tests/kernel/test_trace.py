# SPDX-License-Identifier: MIT
"""The path of a request can be seen from outside, by stable function names: docs/kernel.md lists them."""
import os
import re
import subprocess

import left
import pytest
from lib import module

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRACING = "/sys/kernel/tracing"


@pytest.fixture(scope="module")
def tracing():
    if not os.path.exists(f"{TRACING}/available_filter_functions"):
        subprocess.run(["mount", "-t", "tracefs", "none", TRACING], check=True)
    yield
    for name in ("current_tracer", "set_ftrace_filter", "trace"):
        put(name, "nop\n" if name == "current_tracer" else "\n")


def put(name, text):
    with open(f"{TRACING}/{name}", "w", encoding="ascii") as file:
        file.write(text)


def listed():
    """{model, or "all": names} from the document's table."""
    table = re.search(r"<!-- hot -->(.*?)<!-- /hot -->", left.text_of(f"{TOP}/docs/kernel.md"), re.S)[1]
    return {row[0].strip("` "): re.findall(r"`(\w+)`", row[1]) for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \|", table, re.M)}


# shows K11
def test_its_functions_can_be_traced(start, site, tracing):
    """The functions exist, and each is entered when a file is requested: first from disk, and then from memory."""
    server = start(site)
    names = set(listed()["all"] + listed()[module.MODEL])
    there = set(re.findall(rf"^(\w+) \[(?:rung_core|{server.name})\]", left.text_of(f"{TRACING}/available_filter_functions"), re.M))
    assert len(names) > 8 and names <= there, names - there
    put("set_ftrace_filter", "\n".join(sorted(names)) + "\n")
    put("current_tracer", "function")
    for _ in range(3):
        assert server.ask("/hello.txt").status == 200
    seen = set(re.findall(r": (\w+) ", left.text_of(f"{TRACING}/trace")))
    assert names <= seen, names - seen
