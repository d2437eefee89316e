# SPDX-License-Identifier: MIT
"""The access log: formats, hostile bytes, reopening, and what happens when it cannot be written."""
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from cli import (PATIENCE, EXIT_DONE, EXIT_FAILED, FULL, begin, large, raw, run, site, stuck_download,
                 log_lines, wait_for)  # noqa: F401 (fixtures among them)

pytestmark = pytest.mark.userspace("a command line")
SLOW_S = 0.3
any_engine = pytest.mark.any_engine("the log is written below the engines")


COMBINED = re.compile(r'(\S+) - - \[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000)\] "((?:[^"\\]|\\x[0-9a-f]{2})*)" '
                      r'(\d{3}) (\d+) "((?:[^"\\]|\\x[0-9a-f]{2})*)" "((?:[^"\\]|\\x[0-9a-f]{2})*)"')


@pytest.mark.core
# shows U16
def test_log_combined(begin, site, tmp_path):
    path = tmp_path / "log"
    server = begin("-p", "0", "--log", "combined", "--log-file", path, site)
    server.get("/file.txt?q=1", headers={"User-Agent": 'a "b" \\c', "Referer": "http://x/\x80"})
    log_lines(path, 1)  # a line follows its answer, and another thread may be faster
    server.get("/none", method="HEAD")
    lines = [COMBINED.fullmatch(line) for line in log_lines(path, 2)]
    assert all(lines) and len(lines) == 2
    assert lines[0].group(1, 3, 4, 5, 6, 7) == ("127.0.0.1", "GET /file.txt?q=1 HTTP/1.1", "200", "8", "http://x/\\x80",
                                                "a \\x22b\\x22 \\x5cc")
    assert lines[1].group(3, 4, 5, 6) == ("HEAD /none HTTP/1.1", "404", "0", "-")


# shows U85
def test_log_timed(begin, site, large, tmp_path):
    """The seconds stand behind a line that is otherwise combined, and count the time in which a client does not read."""
    path = tmp_path / "log"
    server = begin("-p", "0", "--log", "timed", "--log-file", path, site)
    server.get("/file.txt")
    log_lines(path, 1)
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        client.recv(4)
        time.sleep(SLOW_S)
    rows = [re.fullmatch(COMBINED.pattern + r" (\d+\.\d{6})", line) for line in log_lines(path, 2)]
    assert all(rows) and float(rows[0][8]) < 60 and rows[0][4] == rows[1][4] == "200"
    assert SLOW_S <= float(rows[1][8]) < 60


# shows U16
def test_log_json(begin, site, tmp_path):
    path = tmp_path / "log"
    server = begin("-p", "0", "--log", "json", "--log-file", path, site)
    hostile = bytes(c for c in range(0x20, 256) if c != 0x7f)
    low, high = hostile[:120], hostile[120:]
    raw(server, b"GET /file.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\nUser-Agent: " + low
        + b"\r\nReferer: " + high + b"\r\n\r\n")
    row = json.loads(log_lines(path, 1)[0])
    assert list(row) == ["time", "peer", "method", "target", "status", "bytes", "complete", "took_us", "referer", "agent"]
    assert 0 <= row.pop("took_us") < 60_000_000
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row.pop("time"))
    assert row.pop("agent").encode("latin-1") == low.strip(b" ")
    assert row.pop("referer").encode("latin-1") == high
    assert row == {"peer": "127.0.0.1", "method": "GET", "target": "/file.txt", "status": 200, "bytes": 8, "complete": True}


# shows U85
def test_log_stages(begin, site, tmp_path):
    """Times by the names of rung trace: each since the stage before, null where a request has no such stage."""
    path = tmp_path / "log"
    server = begin("-p", "0", "--log", "stages", "--log-file", path, site)
    for count, target in enumerate(("/file.txt", "/none", "/file.txt"), 1):
        server.get(target)
        log_lines(path, count)  # a line follows its answer, and another thread may be faster
    raw(server, b"BREW / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    rows = [json.loads(line) for line in log_lines(path, 4)]
    assert [row["status"] for row in rows] == [200, 404, 200, 501]
    assert list(rows[0]) == ["time", "peer", "method", "target", "status", "bytes", "complete", "parsed_ns", "took_ns", "referer", "agent"]
    assert [row["parsed_ns"] for row in rows] == sorted(row["parsed_ns"] for row in rows)
    for row in rows:
        took = row["took_ns"]
        assert list(took) == ["found", "compressed", "done"] and took["compressed"] is None and took["done"] > 0
        assert (took["found"] is None) == (row["status"] == 501) and took["found"] != 0


@any_engine
@pytest.mark.parametrize("form", ["combined", "timed", "json", "stages"])
@pytest.mark.parametrize("request_bytes", [
    b"\x00\x01\x02\r\n\r\n", b"GET /\n\x1b[31m HTTP/1.1\r\n\r\n", b"GET /\" 200 0 \"fake HTTP/1.1\r\n\r\n",
    b"GET /%0a%0d127.0.0.1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"\"\\\r\n\r\n", b"\xff\xfe\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: a\x07b\r\n\r\n", b"GET " + b"/" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /" + b"%22" * 2600 + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nReferer: " + b"\xe9" * 3000 + b"\r\n\r\n",
])
# shows U13
def test_log_of_hostile_requests(begin, site, tmp_path, form, request_bytes):
    """One line for the request, whatever it was, and the line can be parsed."""
    path = tmp_path / "log"
    server = begin("-p", "0", "--log", form, "--log-file", path, site)
    assert raw(server, request_bytes).startswith(b"HTTP/1.1 ")
    server.get("/file.txt")
    lines = log_lines(path, 2)
    assert len(lines) == 2
    for line in lines:
        assert len(line) < 4096 and re.fullmatch(r"[ -~]*", line)
        assert COMBINED.match(line) if form in ("combined", "timed") else json.loads(line), line
        assert form != "combined" or COMBINED.fullmatch(line), line


def test_log_tells_what_was_cut_off(begin, large, tmp_path):
    path = tmp_path / "log"
    server = begin("-p", "0", "--log", "json", "--log-file", path, large)
    with stuck_download(server):
        pass
    row = json.loads(log_lines(path, 1)[0])
    assert row["complete"] is False and 0 < row["bytes"] < 1 << 30


def test_log_on_stdout(begin, site):
    server = begin("-p", "0", "--log", "json", site, stdout=subprocess.PIPE)
    server.get("/file.txt")
    with server.process.stdout as out:
        assert json.loads(out.readline())["target"] == "/file.txt"  # while it runs: nothing waits in a buffer


# shows U16
def test_log_opened_anew(begin, site, tmp_path):
    path, old = tmp_path / "log", tmp_path / "log.1"
    server = begin("-p", "0", "--log", "combined", "--log-file", path, site)
    server.get("/file.txt?1")
    log_lines(path, 1)
    os.rename(path, old)
    server.get("/file.txt?2")
    assert "?2" in log_lines(old, 2)[1]
    server.send(signal.SIGHUP)
    server.said("log reopened")
    server.get("/file.txt?3")
    assert "?3" in log_lines(path, 1)[0] and len(log_lines(old, 2)) == 2
    os.unlink(path)
    os.mkdir(path)
    server.send(signal.SIGHUP)
    server.said("cannot reopen the log")
    assert server.get("/file.txt?4").status == 200


@any_engine
def test_log_that_cannot_be_opened(site, tmp_path):
    out = run("serve", "-p", "0", "--log", "json", "--log-file", tmp_path, site)
    assert out.returncode == EXIT_FAILED and "cannot open the log" in out.stderr and "--log-file" in out.stderr


@pytest.mark.skipif(not os.path.exists(FULL), reason="no /dev/full")
def test_log_on_a_full_disk(begin, site):
    server = begin("-p", "0", "--log", "combined", "--log-file", FULL, site)
    for _ in range(5):
        assert server.get("/file.txt").status == 200
    server.said("cannot write the log: the disk is full")
    assert server.end() == EXIT_DONE
    assert server.count("cannot write the log") == 1


def test_log_whose_reader_has_gone(begin, site):
    server = begin("-p", "0", "--log", "combined", site, stdout=subprocess.PIPE)
    server.process.stdout.close()
    for _ in range(3):
        assert server.get("/file.txt").status == 200
    server.said("cannot write the log: the reader has gone")
    assert server.end() == EXIT_DONE
    assert server.count("cannot write the log") == 1


def test_log_to_a_pipe_nobody_reads(begin, site, tmp_path):
    """The server waits neither at the start for a reader, nor later for one that has stopped reading."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    out = run("serve", "-p", "0", "--log", "json", "--log-file", path, site)
    assert out.returncode == EXIT_FAILED and "no process reads it" in out.stderr
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        server = begin("-p", "0", "--log", "json", "--log-file", path, site)
        line = raw(server, b"GET /" + b"x" * 3000 + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert line.startswith(b"HTTP/1.1 404")
        wait_for(lambda: raw(server, b"GET /" + b"x" * 3000 + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                 and server.count("cannot write the log"), "the pipe is full")
        assert server.get("/file.txt").status == 200
    finally:
        os.close(reader)


def test_log_on_stdout_that_nobody_reads(begin, site):
    """The pipe fills up: lines are lost, but no answer is, and the server still stops."""
    server = begin("-p", "0", "--log", "json", site, stdout=subprocess.PIPE)
    with server.process.stdout as out:
        for _ in range(60):
            assert raw(server, b"GET /" + b"x" * 3000 + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        server.said("cannot write the log: it takes no more for now")
        assert json.loads(out.readline())["status"] == 404
        while server.count("the log can be written again") == 0:  # as soon as there is room again
            os.read(out.fileno(), 65536)
            server.get("/file.txt")
        assert server.end() == EXIT_DONE
