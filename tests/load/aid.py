# SPDX-License-Identifier: MIT
"""Shared by the tests of rung load: a run of rung load, a rung to send requests to, and servers that lie.

A Liar is a server in a few lines of Python.  A function gives its answers: it gets the socket and the number of the
request (counted over all connections, from 0) and sends any bytes; a false return value ends the connection.
"""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import form

TOP = form.TOP
RUNG = os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung")
LOAD = os.path.abspath(os.environ.get("RUNG_LOAD") or f"{os.path.dirname(RUNG)}/rung-load")
PATIENCE = 60
DONE, FAILED, USAGE, CONNECT, _, FAULTS, LIMIT = range(7)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def environment():
    return {**{k: v for k, v in os.environ.items() if not k.startswith("RUNG_")}, "RUNG_WORKERS": "1"}


class Run:
    """A run that has ended: its exit status, its output, and the JSON if it was requested."""

    def __init__(self, process, out, err):
        self.status, self.out, self.err = process.returncode, out.decode(), err.decode()
        assert not re.search(r"Sanitizer|runtime error:|broken promise", self.err), self.err
        self.json = form.read(self.out) if self.out.startswith("{") else None

    def errors(self):
        """The kinds of errors that were counted."""
        return {key: n for key, n in self.json["errors"].items() if n and key != "total"}


def start(*args, **options):
    return subprocess.Popen([LOAD, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=environment(), **options)


def end(process, patience=PATIENCE):
    try:
        return Run(process, *process.communicate(timeout=patience))
    finally:
        process.kill()


def load(*args):
    return end(start(*args))


def measured(*args):
    """A run whose result is JSON; its counts add up."""
    run = load("-o", "-", *args)
    assert run.json, f"status {run.status}: {run.err}"
    count = run.json["requests"]
    assert count["sent"] == count["answered"] + count["lost"] + count["unanswered"], run.out
    assert sum(run.json["status"].values()) in (0, count["answered"])
    assert run.json["service_us"]["count"] == count["answered"]
    return run


@contextlib.contextmanager
def rung(*args):
    """Start a rung and stop it at the end: yields an object with port and counters()."""
    process = subprocess.Popen([RUNG, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, env=environment(), text=True)

    class Server:
        port = None

        def counters(self):
            process.send_signal(signal.SIGUSR1)
            for line in process.stderr:
                if line.startswith("{"):
                    return json.loads(line)
            raise AssertionError("no counters")

        def settled(self):
            """The counters once every connection has ended."""
            deadline = time.monotonic() + PATIENCE
            while (now := self.counters())["open"]:
                assert time.monotonic() < deadline, now
                time.sleep(0.01)
            return now
    try:
        first = process.stderr.readline()
        found = re.search(r"(?:https?://|echo://|at )127\.0\.0\.1:(\d+)", first)
        Server.port = int(found[1]) if found else None
        assert found or "unix:" in first, first
        yield Server()
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def at_once(sock):
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Liar:
    def __init__(self, answer, backlog=128, listener=None):
        self.answer, self.count, self.lock = answer, 0, threading.Lock()
        self.listener = listener or socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/x"
        self.open = set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock = self.listener.accept()[0]
                self.open.add(sock)
                threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        with contextlib.suppress(OSError), sock:
            at_once(sock)
            data, alive = b"", True
            while alive:
                while b"\r\n\r\n" not in data:
                    piece = sock.recv(65536)
                    if not piece:
                        return
                    data += piece
                data = data.partition(b"\r\n\r\n")[2]
                with self.lock:
                    number, self.count = self.count, self.count + 1
                alive = self.answer(sock, number)
        self.open.discard(sock)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for sock in list(self.open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def always(data, stay=True):
    """An answer function that always sends the same bytes."""
    def answer(sock, _):
        sock.sendall(data)
        return stay
    return answer


def at(wanted, lie, honest=OK):
    """Honest except for one request; lie: bytes, or a function of the socket that returns whether to keep it open."""
    def answer(sock, number):
        if number != wanted:
            sock.sendall(honest)
            return True
        if callable(lie):
            return lie(sock)
        sock.sendall(lie)
        return True
    return answer


class Witness(Liar):
    """An honest server that records its requests: reply(request) returns the answer's bytes; the requests are kept as
    Request objects, in the order in which they arrived."""

    def __init__(self, reply, listener=None):
        self.asked, self.connections = [], 0
        super().__init__(None, listener=listener)
        self.url, self.reply = f"http://127.0.0.1:{self.port}", reply

    def serve(self, sock):
        with contextlib.suppress(OSError), sock:
            at_once(sock)
            with self.lock:
                self.connections = connection = self.connections + 1
            data = b""
            while piece := sock.recv(65536):
                *heads, data = (data + piece).split(b"\r\n\r\n")
                for head in heads:
                    request = Request(head.decode(), connection)
                    with self.lock:
                        self.asked.append(request)
                    sock.sendall(self.reply(request))
        self.open.discard(sock)

    def paths(self):
        return [request.path for request in self.asked]


class Request:
    def __init__(self, head, connection):
        first, *lines = head.split("\r\n")
        self.method, self.path, _ = first.split(" ")
        self.names = [line.partition(":")[0].lower() for line in lines]
        self.field = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.at, self.connection = time.monotonic(), connection


def reply(status, body=b"", **fields):
    """An answer as bytes; a '_' in a field's name becomes '-'."""
    lines = [f"HTTP/1.1 {status} Any", *(f"{name.replace('_', '-')}: {value}" for name, value in fields.items())]
    if status not in (204, 304):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
