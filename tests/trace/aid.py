# SPDX-License-Identifier: MIT
"""Helpers for the tests of rung trace: traces of a server, loads, a server that answers as a test wants."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUNG = os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung")
LOAD = f"{os.path.dirname(RUNG)}/rung-load"
TRACE = os.path.abspath(os.environ.get("RUNG_TRACE") or f"{os.path.dirname(RUNG)}/rung-trace")
PATIENCE = 60
DONE, FAILED, USAGE, _, MISSING = range(5)
STAGES = ("accepted", "head", "woken", "running", "read", "parsed", "found", "compressed", "out", "done", "acked")
FILE = "/shelf/hello.txt"
SMALL = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def environment():
    return {key: value for key, value in os.environ.items() if not key.startswith("RUNG_")}


def engine_rows():
    """`rung engines --json`"""
    return json.loads(subprocess.run([RUNG, "engines", "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment(),
                                     timeout=PATIENCE, check=True).stdout)


class Run:
    """A trace that has ended."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        assert not re.search(r"Sanitizer|runtime error:|broken promise", err), err
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        self.requests = [line for line in lines if "summary" not in line]
        self.summary = lines[-1]["summary"] if lines and "summary" in lines[-1] else None


def trace(*args, **options):
    done = subprocess.run([TRACE, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env=environment(), timeout=PATIENCE, check=False, **options)
    return Run(done.returncode, done.stdout, done.stderr)


@contextlib.contextmanager
def tracing(*args):
    """A trace that has begun; it is interrupted at the end, and the list then holds its run."""
    runs = []
    with subprocess.Popen([TRACE, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=environment()) as process:
        lines = [process.stderr.readline()]
        while lines[-1].startswith("rung: missing: "):
            lines.append(process.stderr.readline())
        said = "".join(lines)
        assert "tracing port" in lines[-1], said + process.stderr.read()
        out = []
        reader = threading.Thread(target=lambda: out.append(process.stdout.read()), daemon=True)
        reader.start()
        try:
            yield runs
        finally:
            process.send_signal(signal.SIGINT)
            err = process.stderr.read()
            process.wait(PATIENCE)
            reader.join(PATIENCE)
            process.kill()
        runs.append(Run(process.returncode, out[0], said + err))


def traced_load(port, *args, url=None, options=()):
    """Runs a load during a trace; returns the trace's run and the number of answers that the load counted."""
    with tracing("--json", *options, port) as runs:
        done = subprocess.run([LOAD, "-o", "-", "-t", "1", *map(str, args), url or f"http://127.0.0.1:{port}{FILE}"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment(), timeout=PATIENCE,
                              check=False)
        assert done.returncode == 0, done.stderr
    return runs[0], json.loads(done.stdout)["requests"]["answered"]


@contextlib.contextmanager
def rung(engine, *args, folder=f"{TOP}/www", program=(RUNG,), echo=False):
    """Runs a server for a folder, or one that echoes; yields its port."""
    what = ["echo"] if echo else ["serve", folder]
    with subprocess.Popen([*map(str, program), *what, "--engine", engine, "--port", "0", *map(str, args)], text=True,
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**environment(), "RUNG_WORKERS": "1"}) as process:
        try:
            lines = []
            while not lines or not (found := re.search(r"(?:http|echo)://[^ ]*:(\d+)/", lines[-1])):
                lines.append(process.stderr.readline())
                assert lines[-1], lines
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield int(found[1])
        finally:
            process.terminate()
            process.wait(PATIENCE)


class Lies(contextlib.ExitStack):
    """A listener; serve() gives each connection to a function in a thread."""

    def __init__(self, host="127.0.0.1"):
        super().__init__()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = self.enter_context(socket.create_server((host, 0), family=family))
        self.address = self.listener.getsockname()
        self.port = self.address[1]

    def pair(self):
        """Makes a connection and returns both ends: the client's, the server's."""
        client = socket.create_connection(self.address[:2], PATIENCE)
        server = self.listener.accept()[0]
        for end in (client, server):
            end.settimeout(PATIENCE)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.enter_context(client), self.enter_context(server)


def exactly(end, count):
    data = b""
    while len(data) < count:
        piece = end.recv(count - len(data))
        assert piece, data
        data += piece
    return data


def request(path="/", more=b""):
    return b"GET %s HTTP/1.1\r\nHost: a\r\n%s\r\n" % (path.encode(), more)


def adds_up(one):
    """Asserts that no known stage of a request is negative, and that together they are the whole."""
    took = one["took_ns"]
    assert tuple(took) == STAGES
    known = [ns for ns in took.values() if isinstance(ns, int)]
    assert all(ns >= 0 for ns in known) and sum(known) == one["total_ns"], one
    if one["server_ns"] is not None:
        at = STAGES.index
        inside = sum(took[name] for name in STAGES[at("woken"):at("done") + 1] if isinstance(took[name], int))
        assert 0 <= one["server_ns"] - inside <= (took["accepted"] or 0), one
    for name in ("woken", "running"):
        assert took[name] is None or took[name] == "busy" or took[name] > 0, one
