# SPDX-License-Identifier: MIT
"""The dashboard for Grafana and the table of docs/metrics.md name what a server shows."""
import http.client
import json
import os
import re
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUNG = os.path.join(os.path.abspath(os.environ.get("RUNG_BUILD") or f"{TOP}/build"), "debug", "rung")  # built before this layer begins


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """What a server with the engine coro and a host shows, which has every family."""
    folder = tmp_path_factory.mktemp("empty")
    (folder / "rung.toml").write_text(f'[[host]]\nname = ["a.example"]\nroot = "{folder}"\n', encoding="ascii")
    command = [RUNG, "serve", "-e", "coro", "-p", "0", "--metrics", "0", "--config", f"{folder}/rung.toml"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        said = next(line for line in server.stderr if "metrics at" in line)
        host, port = re.search(r"http://(.*):(\d+)/", said).groups()
        client = http.client.HTTPConnection(host, int(port), timeout=60)
        client.request("GET", "/metrics", headers={"Accept": "text/plain"})
        text = client.getresponse().read().decode()
        client.close()
        server.terminate()
        server.communicate(timeout=60)
    return text


def test_the_dashboard_asks_for_what_is_there(page):
    with open(f"{TOP}/scripts/grafana/rung.json", encoding="ascii") as file:
        board = json.load(file)
    shown = set(re.findall(r"^(rung_\w+)", page, re.M))
    labels = set(re.findall(r'(\w+)="', page)) | {"job", "instance", "le"}
    exprs = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    exprs += [row["query"] for row in board["templating"]["list"]]
    asked = {name for expr in exprs for name in re.findall(r"\brung_\w+", expr)}
    assert len(board["panels"]) > 10 and asked <= shown, asked - shown
    used = {name for panel in board["panels"] for target in panel["targets"] for name in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])}
    used |= {name for expr in exprs for group in re.findall(r"(?:by|on|group_left) \(([\w, ]+)\)", expr) for name in group.split(", ")}
    assert used <= labels, used - labels
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    for expr in exprs:
        assert expr.count("(") == expr.count(")") and expr.count("{") == expr.count("}"), expr


def test_the_dashboard_leaves_little_out(page):
    """The dashboard draws all families except a few internals of the cache, the start and the coroutine's stack."""
    with open(f"{TOP}/scripts/grafana/rung.json", encoding="ascii") as file:
        drawn = set(re.findall(r"\brung_\w+", file.read()))
    families = set(re.findall(r"^# TYPE (rung_\w+)", page, re.M))
    left_out = {name for name in families if not any(one.startswith(name) for one in drawn)}
    assert left_out == {"rung_start_time_seconds", "rung_stack_most_bytes", "rung_cache_wholes_total", "rung_cache_variants_total",
                        "rung_cache_plain_total"}


def test_the_table_of_the_document(page):
    helps = dict(re.findall(r"^# HELP (rung_\w+) (.*)$", page, re.M))
    kinds = dict(re.findall(r"^# TYPE (rung_\w+) (\w+)$", page, re.M))
    with open(f"{TOP}/docs/metrics.md", encoding="ascii") as file:
        rows = re.findall(r"^\| `(rung_\w+)` \| (\w+) \| (.*) \|$", file.read(), re.M)
    assert [(name, text) for name, _, text in rows] == list(helps.items())
    assert {name: "gauge" if kind == "info" else kind for name, kind, _ in rows} == kinds
