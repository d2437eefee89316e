# SPDX-License-Identifier: MIT
"""Shared by the test_cli*.py files: rung run to its end, rung run as a server, and folders to serve.

The CLI tests start rung themselves, because most of the runs are meant to fail, and read only what the manual
promises: the line "rung: serving DIR at URL and URL", the messages and the exit codes.
"""
import atexit
import contextlib
import functools
import http.client
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung")
ENGINE = os.environ.get("RUNG_ENGINE") or "epoll"
PATIENCE = 60  # seconds: how long a slow machine may take; nothing waits that long when all is well
ROOT = os.geteuid() == 0
EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_LISTEN, EXIT_MISSING = range(5)
FULL = "/dev/full"


def environment(extra=None):
    return {**{k: v for k, v in os.environ.items() if not k.startswith("RUNG_")}, "RUNG_WORKERS": "1", **(extra or {})}


@functools.lru_cache
def binary_for_others():
    """A copy of rung that any user may run: the checkout may be in a folder that only its owner can enter."""
    folder = tempfile.mkdtemp(prefix="rung-bin-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    return shutil.copy(BIN, folder)


def run(*args, env=None, cwd=None, **options):
    """A run that ends by itself."""
    binary = binary_for_others() if "user" in options else BIN
    return subprocess.run([binary, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment(env), cwd=cwd, timeout=PATIENCE, text=True,
                          errors="backslashreplace", **options)


def wait_for(question, what):
    end = time.monotonic() + PATIENCE
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(0.01)


class Running:
    """A server that was started, and the lines it has printed."""

    def __init__(self, *args, env=None, cwd=None, engine=ENGINE, before=(), **options):
        self.lines, self.more = [], threading.Condition()
        options.setdefault("stdout", subprocess.DEVNULL)
        command = [*before, BIN, "serve", *(["-e", engine] if engine else []), *map(str, args)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        env=environment(env), cwd=cwd, **options)
        self.pid = self.process.pid
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            with self.more:
                self.lines.append(line.decode("utf-8", "backslashreplace").rstrip("\n"))
                self.more.notify_all()
        with self.more:
            self.more.notify_all()

    def said(self, pattern, last=False):
        """Wait for a line that matches; returns the first or the last match."""
        end = time.monotonic() + PATIENCE
        with self.more:
            while True:
                for line in reversed(self.lines) if last else self.lines:
                    match = re.search(pattern, line)
                    if match:
                        return match
                assert self.reader.is_alive() and time.monotonic() < end, f"no {pattern!r} in {self.lines}"
                self.more.wait(0.1)

    def count(self, pattern):
        with self.more:
            return sum(bool(re.search(pattern, line)) for line in self.lines)

    def ready(self):
        self.opening = self.said(r"^rung: serving .* at .*").group()
        self.ports = {int(port) for port in re.findall(r"http://\S+:(\d+)/", self.opening)}
        self.port = min(self.ports, default=None)
        return self

    def get(self, path="/", host="127.0.0.1", method="GET", headers=None, body=None):
        client = http.client.HTTPConnection(host, self.port, timeout=PATIENCE)
        with contextlib.closing(client):
            client.request(method, path, body=body, headers=headers or {})
            answer = client.getresponse()
            answer.body = answer.read()
            return answer

    def send(self, number):
        self.process.send_signal(number)

    def end(self, number=signal.SIGTERM):
        if number:
            self.send(number)
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join(PATIENCE)
        self.process.stderr.close()


@pytest.fixture
def begin(engine):  # pylint: disable=unused-argument
    """begin(options...) -> a server that says it is ready."""
    running = []

    def start(*args, wait=True, **options):
        running.append(Running(*args, **options))
        return running[-1].ready() if wait else running[-1]
    yield start
    for one in running:
        one.kill()
        bad = [line for line in one.lines if re.search(r"Sanitizer|runtime error:|broken promise", line)]
        assert not bad, one.lines


@pytest.fixture
def site(tree):
    with open(f"{tree}/file.txt", "w", encoding="ascii") as file:
        file.write("content\n")
    with open(f"{tree}/.secret", "w", encoding="ascii") as file:
        file.write("hidden\n")
    os.mkdir(f"{tree}/folder")
    with open(f"{tree}/folder/start.html", "w", encoding="ascii") as file:
        file.write("<p>start\n")
    return tree


@pytest.fixture
def large(tree):
    """A file larger than any socket's buffers, which takes no space on the disk."""
    with open(f"{tree}/large", "wb") as file:
        file.truncate(1 << 30)
    return tree


def no_port():
    """A port that has no listener now, below those that the kernel chooses: so no server that starts meanwhile gets it."""
    while True:
        port = random.randrange(10240, 32768)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


def options_table():
    """The rows of `rung options`: name -> its cells."""
    rows = {}
    for line in run("options").stdout.splitlines()[2:]:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        name = re.search(r"--([a-z-]+)", cells[0]).group(1)
        rows[name] = cells
    assert len(rows) >= 20
    return rows


def elf():
    with open(BIN, "rb") as file:
        return file.read(4) == b"\x7fELF"


@contextlib.contextmanager
def stuck_download(server):
    """A client that has requested a large file and reads little of it."""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(4) == b"HTTP"
        yield client


def unix_get(path, target="/file.txt"):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(path)
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        return answer


def log_lines(path, count):
    """The log once it has that many lines."""
    def read():
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            lines = file.read().split(b"\n")
            return len(lines) > count and [line.decode("ascii") for line in lines[:-1]]
    return wait_for(read, f"{count} lines in {path}")


def raw(server, request):
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        client.sendall(request)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        return answer


as_root = pytest.mark.skipif(not ROOT, reason="needs root")
