# SPDX-License-Identifier: MIT
"""One rung to test: started on a free port, and judged when it is stopped.

stop() fails the test unless the server has closed every descriptor, its counters agree
(accepted = open + closed + lost, and nothing open once every client has gone), it exits with
status 0 on SIGTERM and it has printed nothing that looks like a sanitizer's report or an assertion.

Server is what the tests start: a process, or with RUNG_ENGINE=kernel a module (module.py).
"""
import functools
import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time

from . import module
from .client import PATIENCE
from .served import Served, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../../../lab"))
from rig import children
TOP = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
BIN = os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung")
ENGINE = os.environ.get("RUNG_ENGINE") or "epoll"
ARGS = shlex.split(os.environ.get("RUNG_ARGS") or "")  # another arrangement of workers
SERVING = re.compile(r"rung: serving .* at https?://")
URL = re.compile(r"https?://(127\.0\.0\.1|\[::1\]):(\d+)/")
ALARM = re.compile(r"Sanitizer|runtime error:|[Aa]ssert|core_failed|stack smashing|double free|corrupted")
# One worker unless ARGS say otherwise: each of several would look for the longest-idle connection among its own only.
CLEAN_ENV = {**{k: v for k, v in os.environ.items() if not k.startswith("RUNG_")}, "RUNG_WORKERS": "1"}


@functools.lru_cache
def engine_rows():
    """The rows of `rung engines --json`; of a module its own."""
    if ENGINE == "kernel":
        return [module.row()]
    out = subprocess.run([BIN, "engines", "--json"], stdout=subprocess.PIPE, env=CLEAN_ENV,
                         timeout=30, check=True)
    return json.loads(out.stdout)


def engine_row():
    """This engine's row."""
    rows = {row["name"]: row for row in engine_rows()}
    if ENGINE not in rows:
        raise LookupError(f"rung has no engine {ENGINE}; it has {', '.join(rows)}")
    return rows[ENGINE]


@functools.cache
def one_at_a_time():
    """Whether this engine serves one connection, and all others wait."""
    return engine_row().get("capacity") == 1


def is_loop(row=None):
    """Whether one thread waits for all connections and serves them; of this engine, or of the one with that row."""
    row = row or engine_row()
    return row["model"] in ("readiness", "completion") and not row["may_block"] and not row["thread_pool"]


def workers_may_be_threads():
    """Whether threads of one process can each run this engine: it makes no threads or processes of its own for connections."""
    row = engine_row()
    return not row["may_block"] or row["capacity"] == 1


class Process(Served):
    def __init__(self, root, *args, user=None, files=None, env=None, engine=ENGINE, passed=()):
        self.root = os.fspath(root)
        self.said, self.lines_seen = [], threading.Condition()

        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        command = [BIN, "serve", self.root, "--engine", engine, *ARGS, *map(str, args)]
        self.secured = "--tls" in command
        if not any(str(arg).startswith(("--port", "-p", "unix:")) for arg in args):
            command += ["--port", "0"]
        if passed:  # listeners, as systemd passes them
            command = ["bash", "-c", 'LISTEN_PID=$$ exec "$@"' + "".join(f" {to}<&{s.fileno()}" for to, s in enumerate(passed, 3)),
                       "bash", *command]
            env = {"LISTEN_FDS": str(len(passed)), **(env or {})}
        # Only with preexec_fn does subprocess copy the memory of the tests, instead of using vfork().
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env={**CLEAN_ENV, **(env or {})}, user=user, extra_groups=[] if user else None,
                                        pass_fds=[s.fileno() for s in passed], preexec_fn=limit if files else None)
        self.pid = self.process.pid
        self.out = []
        self.readers = [threading.Thread(target=self.listen, args=pair, daemon=True)
                        for pair in ((self.process.stderr, self.said), (self.process.stdout, self.out))]
        for reader in self.readers:
            reader.start()
        try:
            first = SERVING.pattern if self.wants_port(args) else "rung: serving "
            self.opening = self.wait_said(first)
            self.sockets = set(self.open_paths("socket:"))  # listeners; clients come later
        except AssertionError:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"did not start: {command}\n" + self.text()) from None
        self.addresses = [(host.strip("[]"), int(port)) for host, port in URL.findall(self.opening)]
        self.ended = False

    @staticmethod
    def wants_port(args):
        return not any("unix:" in str(arg) for arg in args)

    # --- what it says
    # --------------------------------------------------------------------------------

    def listen(self, pipe, lines):
        for line in pipe:
            with self.lines_seen:
                lines.append(line.decode("utf-8", "backslashreplace").rstrip("\n"))
                self.lines_seen.notify_all()
        with self.lines_seen:
            self.lines_seen.notify_all()

    def text(self):
        return "\n".join(self.said[-200:])

    def wait_said(self, pattern, start=0):
        """The first line of stderr, from line start on, that has the pattern."""
        end = time.monotonic() + PATIENCE
        with self.lines_seen:
            while True:
                for line in self.said[start:]:
                    if re.search(pattern, line):
                        return line
                if not self.readers[0].is_alive() or time.monotonic() > end:
                    raise AssertionError(f"stderr has no {pattern!r}:\n" + self.text())
                self.lines_seen.wait(0.2)

    # --- looking at it from outside
    # --------------------------------------------------------------------

    def pids(self):
        """The server's process, its workers, and their children."""
        found = [self.pid]
        for pid in found:  # the list grows in the loop
            found += children(pid)
        return found

    def states(self):
        """The state of each thread of its processes, a letter (proc(5)).  A process is examined before its children
        are looked for."""
        found, pids = {}, [self.pid]
        for pid in pids:  # the list grows in the loop
            try:
                for task in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{task}/stat", "rb") as file:
                        found[pid, task] = file.read().rpartition(b")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                found[pid, ""] = b"gone"
            pids += children(pid)
        return found

    def rest(self):
        """Wait until every thread sleeps and has made all it needs, threads and children included.  Counts taken sooner
        (files, memory, time) may be of a worker that is still starting."""
        def asleep():
            look = self.states()
            return set(look.values()) == {b"S"} and look.keys() == self.states().keys()
        wait_for(asleep, "all workers at rest")

    def files(self):
        """Descriptors of all its processes."""
        count = 0
        for pid in self.pids():
            try:
                count += len(os.listdir(f"/proc/{pid}/fd"))
            except FileNotFoundError:
                pass
        return count

    def open_paths(self, prefix):
        """The targets of its descriptors that begin with the prefix."""
        paths = []
        for pid in self.pids():
            try:
                for fd in os.listdir(f"/proc/{pid}/fd"):
                    path = os.readlink(f"/proc/{pid}/fd/{fd}")
                    paths += [path] if path.startswith(prefix) else []
            except FileNotFoundError:
                pass  # closed meanwhile
        return paths

    def leaks(self):
        """Sockets beyond the listeners, and files of the folder."""
        sockets = [path for path in self.open_paths("socket:") if path not in self.sockets]
        files = self.open_paths(os.path.realpath(self.root).rstrip("/") + "/")
        return files + sockets

    def cpu_seconds(self):
        ticks = 0
        for pid in self.pids():
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def wake_ups(self):
        """How often its threads have gone to sleep voluntarily."""
        count = 0
        for pid in self.pids():
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/status") as file:
                    count += int(re.search(r"\nvoluntary_ctxt_switches:\s*(\d+)", file.read())[1])
        return count

    def memory(self):
        """Bytes its processes occupy; what they share is counted once."""
        total = 0
        for pid in self.pids():
            try:
                with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                    total += int(re.search(r"^Pss:\s+(\d+) kB", file.read(), re.M)[1]) * 1024
            except (FileNotFoundError, ProcessLookupError):
                pass  # a child that has just gone
        return total

    def stats(self):
        """The counters: SIGUSR1 makes the server print them as one line of JSON."""
        start = len(self.said)
        os.kill(self.pid, signal.SIGUSR1)
        line = self.wait_said(r'\{.*"accepted"', start)
        return json.loads(line[line.index("{"):])

    # --- ending it
    # -----------------------------------------------------------------------------------

    def stop(self):
        if self.ended:
            return
        self.ended = True
        try:
            assert self.process.poll() is None, f"died with {self.process.returncode}:\n" + self.text()
            self.check_counts()
            wait_for(lambda: not self.leaks(), "every file and socket closed")
            self.process.send_signal(signal.SIGTERM)
            self.finish()
        finally:
            self.kill()

    def finish(self):
        """Wait until the process ends as requested, and judge its end."""
        self.ended = True
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("does not end after SIGTERM:\n" + self.text()) from None
        for reader in self.readers:
            reader.join(PATIENCE)
        assert code == 0, f"left with {code}:\n" + self.text()
        self.check_words()

    def check_words(self):
        bad = [line for line in self.said if ALARM.search(line)]
        assert not bad, self.text()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.ended = True


Server = module.Module if ENGINE == "kernel" else Process
