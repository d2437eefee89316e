# SPDX-License-Identifier: MIT
"""spread.py: every connection is counted at a worker, a thundering herd is seen where there is one, and steering is even."""
import json
import os
import subprocess
import sys

from command import TOP

RUNG = os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung")


def spread(*args):
    done = subprocess.run([sys.executable, "-B", "lab/spread.py", *map(str, args)], cwd=TOP, text=True, timeout=200,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stdout + done.stderr


# shows N09
def test_what_is_counted_obeys_the_rules(tmp_path):
    raw, page = tmp_path / "raw.json", tmp_path / "page.md"
    page.write_text("before\n<!-- spread -->\n<!-- /spread -->\n")
    status, said = spread("--rung", RUNG, "--engines", "epoll,poll", "--json", raw, "--write", page)
    assert status == 0, said
    rows = {(engine, accept): (list(map(int, counts.split())), float(woken), sum(map(int, crowd.split())))
            for engine, accept, _, counts, woken, crowd, _ in json.loads(raw.read_text())["rows"]}
    assert all(sum(counts) == crowd == 200 for counts, _, crowd in rows.values())
    assert rows["poll", "shared"][1] > 2 > rows["epoll", "shared"][1] >= 0.9  # four workers: a herd, and none
    assert min(rows["epoll", "reuseport"][0]) > 15
    assert "| `epoll` | shared | 4 |" in page.read_text()
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) == 2 and cpus[0] % 2 != cpus[1] % 2 and os.sysconf("SC_NPROCESSORS_CONF") == 2:
        assert rows["epoll", "steered"][0] == rows["poll", "steered"][0] == [100, 100]


def test_a_server_that_does_not_start():
    status, said = spread("--rung", "/bin/true", "--engines", "epoll")
    assert status == 1 and "FAILED epoll, shared: did not start" in said
