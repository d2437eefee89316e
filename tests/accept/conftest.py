# SPDX-License-Identifier: MIT
"""Acceptance: each option of the server as its user tries it.  rung is started by its command line, and programs of others ask it
or look at it: curl, wget, openssl, nghttp, a browser, ps, ss, strace.  Nothing here knows rung from inside.

RUNG_BIN names the program, by default the one in build/release; a path is not needed if it is installed: RUNG_BIN=rung.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = shutil.which(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung")
PATIENCE = 60
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
browser = pytest.mark.skipif(not CHROMIUM, reason="not installed: chromium")
ROOT = os.geteuid() == 0
TEXT = "Hello, world\n"
PAGE = "<!doctype html><title>Front</title><p>front page\n"
BIG_BYTES = 8 << 20
SITE = {"index.html": PAGE, "hello.txt": TEXT, "about.html": "<p>about\n", "404.html": "<p>our own page\n", ".secret": "hidden\n",
        "style.css": "body { color: black }\n" * 200, "list/README.md": "# Read *me*\n", "list/one.txt": "1\n", "list/two.txt": "22\n",
        "list/deep/three.txt": "333\n", ".well-known/security.txt": "Contact: x\n"}
ENV = {**{key: value for key, value in os.environ.items() if not key.startswith("RUNG_")}, "LC_ALL": "C.UTF-8", "no_proxy": "*", "NO_PROXY": "*"}


def needs(*programs):
    """Skips a test, with the reason, where a program of others is not installed: scripts/setup check installs them."""
    missing = [name for name in programs if not shutil.which(name)]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def run(*argv, status=0, given=None, timeout=PATIENCE):
    """Runs a program of others to its end: what it printed on both outputs."""
    done = subprocess.run([str(word) for word in argv], input=given, stdin=None if given is not None else subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout, check=False, env=ENV)
    assert status is None or done.returncode == status, (argv, done.returncode, done.stdout[-3000:])
    return done.stdout


def shown(tmp_path, address):
    """The page as a browser has it after its scripts ran, whatever certificate the server has."""
    return run(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server",
               "--disable-background-networking", "--ignore-certificate-errors", f"--user-data-dir={tmp_path}/profile",
               "--virtual-time-budget=20000", "--dump-dom", address, timeout=100)


def curl(*args, status=0):
    return run("curl", "-sS", "--no-progress-meter", "--max-time", PATIENCE, *args, status=status)


def head(*args):
    """The answer's head, as curl shows it after following nothing: (status, {field: value})."""
    lines = [line.strip() for line in curl("-o", os.devnull, "-D", "-", *args).splitlines()]
    fields = [line.split(":", 1) for line in lines if ":" in line and not line.startswith("HTTP/")]
    code = [line for line in lines if line.startswith("HTTP/")][-1].split()[1]
    return int(code), {name.lower(): value.strip() for name, value in fields}


def code(*args):
    return head(*args)[0]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def listening(server, port):
    """The server's listeners on a port, as ss shows them: [(length of the queue, address)]."""
    rows = [line.split() for line in run("ss", "-ltnpH", f"sport = :{port}").splitlines() if f"pid={server.pid}," in line]
    return [(int(row[2]), row[3]) for row in rows]


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"did not come in time: {what}"
        time.sleep(0.02)


class Server:
    """rung as a user starts it.  before: words in front of it, as of strace."""

    def __init__(self, *args, root=None, env=(), before=(), ready="rung: serving "):
        argv = [*before, BIN, *(str(word) for word in args), *([str(root)] if root else [])]
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**ENV, **dict(env)})
        self.said, self.out = [], []
        self.threads = [threading.Thread(target=self.listen, args=pair, daemon=True)
                        for pair in ((self.process.stderr, self.said), (self.process.stdout, self.out))]
        for thread in self.threads:
            thread.start()
        if ready:
            wait_for(lambda: ready in self.text() or self.process.poll() is not None, "the line that says it serves")
            assert ready in self.text(), self.text()

    def listen(self, stream, lines):
        for line in stream:
            lines.append(line)

    def text(self):
        return "".join(self.said)

    def log(self):
        return "".join(self.out)

    @property
    def url(self):
        return re.search(r"(https?://(?:127\.\d+\.\d+\.\d+|\[::1\]):\d+)/", self.text())[1]

    @property
    def port(self):
        return int(self.url.rpartition(":")[2])

    @property
    def pid(self):
        """The process id of rung itself, also if strace started it."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            children = file.read().split()
        with open(f"/proc/{self.process.pid}/comm", encoding="ascii") as file:
            return int(children[0]) if file.read().strip() == "strace" else self.process.pid

    def metric(self, name):
        """The sum of a metric's samples; the server has --metrics 0."""
        at = re.search(r"metrics at (http://[^/\s]+)/", self.text())[1]
        return sum(float(line.split()[-1]) for line in curl(f"{at}/metrics").splitlines()
                   if re.match(rf"{name}(\{{| )", line))

    def signal(self, which):
        os.kill(self.pid, which)

    def stop(self):
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        try:
            status = self.process.wait(PATIENCE)
        finally:
            self.process.kill()
        for thread in self.threads:
            thread.join(PATIENCE)
        return status


@pytest.fixture
def serve(site):
    """serve(OPTION...): a server of the site on a free port of 127.0.0.1, which has to end well."""
    started = []

    def start(*args, root=site, **how):
        words = [str(word) for word in args]
        own = [] if {"-p", "--port", "--config"} & set(words) else ["-p", "0"]
        own += [] if {"-b", "--bind", "--public", "--config"} & set(words) else ["-b", "127.0.0.1"]
        started.append(Server(*own, *words, root=root, **how))
        return started[-1]
    yield start
    statuses = [server.stop() for server in started]
    assert not any(statuses), [server.text() for server in started]


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A folder that is served and never changed."""
    return furnish(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def site(tmp_path):
    return furnish(tmp_path / "site")


def furnish(top):
    for name, text in SITE.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with open(top / "big.bin", "wb") as file:
        file.truncate(BIG_BYTES)
    for folder in (top, *top.parents):
        if str(folder).startswith("/tmp/") and os.access(folder, os.W_OK):
            os.chmod(folder, 0o755)  # pytest keeps its folders to itself, and a server of another user has to get in
    return top


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    """pairs(NAME): CERT,KEY for that name, made by openssl."""
    folder = tmp_path_factory.mktemp("pairs")

    def make(name, suffix=""):
        cert, key = folder / f"{name}{suffix}.pem", folder / f"{name}{suffix}.key"
        if not cert.exists():
            run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                "-addext", f"subjectAltName=DNS:{name}", "-out", cert, "-keyout", key)
        return f"{cert},{key}"
    return make
