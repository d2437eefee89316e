# SPDX-License-Identifier: MIT
"""Limits, log and metrics: clients that are slow or want too much, programs that read logs, and Prometheus's own check."""
import json
import os
import re
import signal
import subprocess
import time

import pytest
from conftest import PATIENCE, TEXT, code, curl, head, needs, run, wait_for

pytestmark = needs("curl")


def half(server, seconds):
    """A client that sends half a head and waits: how long it was let, at most `seconds`."""
    began = time.monotonic()
    with subprocess.Popen(["openssl", "s_client", "-quiet", "-connect", f"127.0.0.1:{server.port}"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as client:
        client.stdin.write(b"GET / HTTP/1.1\r\n")
        client.stdin.flush()
        try:
            client.wait(seconds)
        except subprocess.TimeoutExpired:
            client.kill()
    return time.monotonic() - began


@needs("openssl")
def test_head_timeout(serve):
    short, long = serve("--tls", "self", "--head-timeout", "500ms"), serve("--tls", "self", "--head-timeout", "30s")
    assert 0.4 < half(short, PATIENCE) < PATIENCE / 2
    assert half(long, 2) >= 2


@needs("slowhttptest")
@pytest.mark.parametrize("kind", [["-H"], ["-B"], ["-X", "-n", "1", "-z", "32"]], ids=["heads", "bodies", "readers"])
def test_slow_clients(serve, tmp_path, kind):
    """slowhttptest keeps 30 connections busy with little; other clients are served meanwhile, and these are closed."""
    server = serve("--head-timeout", "1s", "--send-timeout", "1s", "--idle-timeout", "1s", "--metrics", "0")
    path = "big.bin" if kind[0] == "-X" else "hello.txt"
    with subprocess.Popen(["slowhttptest", *kind, "-c", "30", "-r", "30", "-i", "1", "-l", "6", "-p", "2", "-u", f"{server.url}/{path}"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as attack:
        while attack.poll() is None:
            assert curl(f"{server.url}/hello.txt") == TEXT
            time.sleep(0.1)
        said = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", attack.stdout.read())
    assert "service available:   YES" in said and "service available:   NO" not in said, said[-1500:]
    if kind[0] == "-X":  # it goes on with what its kernel has
        assert server.metric("rung_connections_expired_total") == 30
    else:
        assert "Exit status:" in said and "No open connections left" in said, said[-1500:]


def test_idle_timeout(serve):
    """curl keeps its connection for a second between two requests: it is open then, or a new one has to be made."""
    made = {}
    for patience in ("200ms", "30s"):
        url = f"{serve('--idle-timeout', patience).url}/hello.txt"
        made[patience] = curl("--rate", "60/m", "-o", os.devnull, "-o", os.devnull, "-w", "%{num_connects} ", url, url).split()
    assert made == {"200ms": ["1", "1"], "30s": ["1", "0"]}


@pytest.mark.parametrize("progress, cut", [("64m", True), ("1k", False)])
def test_send_timeout_and_min_progress(serve, site, progress, cut):
    """A reader of 2 MB a second is too slow for one server, and fast enough for another.  The file is larger than what kernels keep
    for a connection, and the time long enough for them to take more: they do so a megabyte at a time."""
    with open(site / "huge.bin", "wb") as file:
        file.truncate(1 << 30)
    server = serve("--send-timeout", "3s", "--min-progress", progress, "--metrics", "0")
    with subprocess.Popen(["curl", "-s", "--limit-rate", "2m", "-o", os.devnull, f"{server.url}/huge.bin"]) as client:
        try:
            if cut:
                wait_for(lambda: server.metric("rung_answers_broken_total") == 1, "the end of a slow reader")
            else:
                time.sleep(8)
            assert server.metric("rung_answers_broken_total") == cut
        finally:
            client.kill()


def test_max_body(serve, tmp_path):
    server = serve("--max-body", "1000")
    for size, status in ((1000, 405), (1001, 413)):
        (tmp_path / "body").write_text("x" * size)
        assert code("-X", "PUT", "--data-binary", f"@{tmp_path}/body", f"{server.url}/hello.txt") == status


def test_max_connections(serve):
    server = serve("--max-connections", "2", "--metrics", "0")
    assert server.metric("rung_connections_limit") == 2
    assert curl("-Z", "--parallel-max", "12", *[f"{server.url}/hello.txt"] * 12) == TEXT * 12


def test_limit_connections(serve, tmp_path):
    server = serve("--limit-connections", "2")
    slow = [subprocess.Popen(["curl", "-s", "--limit-rate", "1k", "-o", out, f"{server.url}/big.bin"]) for out in (tmp_path / "1", tmp_path / "2")]
    try:
        wait_for(lambda: all(out.exists() and out.stat().st_size for out in (tmp_path / "1", tmp_path / "2")), "two slow downloads")
        wait_for(lambda: code(f"{server.url}/hello.txt") == 429, "a refusal")
        assert code("--interface", "127.0.0.2", f"{server.url}/hello.txt") == 200
    finally:
        for client in slow:
            client.kill()
            client.wait()
    wait_for(lambda: code(f"{server.url}/hello.txt") == 200, "a place")


def test_limit_requests(serve):
    """One more than allowed gets 429; curl waits for as long as Retry-After says, and is served."""
    server = serve("--limit-requests", "1/s:3")
    got = [code(f"{server.url}/hello.txt") for _ in range(4)]
    status, fields = head(f"{server.url}/hello.txt")
    assert got[:3] == [200] * 3 and (status, fields.get("retry-after")) in ((429, "1"), (200, None)) and 429 in [*got, status]
    assert TEXT in curl("--retry", "3", f"{server.url}/hello.txt")
    assert code("--interface", "127.0.0.2", f"{server.url}/hello.txt") == 200


@needs("goaccess")
def test_log_combined(serve, tmp_path):
    """A program that reads the logs of servers takes every line, and its sums are right."""
    server = serve("--log", "combined", "--log-file", tmp_path / "log")
    for _ in range(5):
        curl("-A", 'Agent "quoted" \x1b[31m', f"{server.url}/hello.txt")
    code(f"{server.url}/none"), code(f"{server.url}/q?a=%22%0a")
    server.stop()
    run("goaccess", "--no-global-config", "--log-format=COMBINED", "-o", tmp_path / "report.json", tmp_path / "log")
    said = json.loads((tmp_path / "report.json").read_text())["general"]
    assert (said["total_requests"], said["valid_requests"], said["failed_requests"]) == (7, 7, 0)


@needs("jq")
@pytest.mark.parametrize("form, field", [("json", "took_us"), ("stages", "took_ns")])
def test_log_json(serve, tmp_path, form, field):
    server = serve("--log", form, "--log-file", tmp_path / "log")
    for _ in range(3):
        curl("-A", 'Agent "quoted" \\ \u00fc', f"{server.url}/hello.txt")
    server.stop()
    said = run("jq", "-r", f'select(.status == 200 and .complete) | "\\(.target) \\(.bytes) \\(.{field} | type)"', tmp_path / "log")
    kind = "number" if form == "json" else "object"
    assert said.splitlines() == [f"/hello.txt {len(TEXT)} {kind}"] * 3


def test_log_timed(serve):
    server = serve("--log", "timed")
    curl(f"{server.url}/hello.txt")
    wait_for(lambda: server.out, "a line of the log")
    assert re.search(r'"curl/[^"]*" \d+\.\d{6}$', server.log())


@needs("logrotate")
def test_log_is_rotated(serve, tmp_path):
    """logrotate renames the file and sends SIGHUP, as it does for other servers."""
    (tmp_path / "logs").mkdir(mode=0o755)
    server = serve("--log", "combined", "--log-file", tmp_path / "logs/access.log")
    (tmp_path / "conf").write_text(f"{tmp_path}/logs/access.log {{\n  rotate 3\n  nocreate\n  postrotate\n    kill -HUP {server.pid}\n  endscript\n}}\n")
    os.chmod(tmp_path / "conf", 0o644)
    curl(f"{server.url}/hello.txt")
    wait_for(lambda: (tmp_path / "logs/access.log").stat().st_size, "a line")
    run("logrotate", "-f", "-s", tmp_path / "state", tmp_path / "conf")
    wait_for((tmp_path / "logs/access.log").exists, "the new file")
    curl(f"{server.url}/about.html")
    wait_for(lambda: "/about.html" in (tmp_path / "logs/access.log").read_text(), "its line")
    assert "/hello.txt" in (tmp_path / "logs/access.log.1").read_text()


@needs("promtool")
def test_metrics(serve):
    server = serve("--metrics", "0")
    assert curl(f"{server.url}/hello.txt") == TEXT
    at = re.search(r"metrics at (http://[^/\s]+)/", server.text())[1]
    page = curl("-H", "Accept: text/plain", f"{at}/metrics")
    assert run("promtool", "check", "metrics", given=page) == ""
    assert curl(f"{at}/.rung/health") == "ok\n" and server.metric("rung_requests_total") == 1
    server.signal(signal.SIGUSR1)
    wait_for(lambda: '"requests"' in server.text() or "{" in server.text(), "the counters")
