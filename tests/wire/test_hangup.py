# SPDX-License-Identifier: MIT
"""SIGHUP: closing the terminal stops the server that was started there; from any other sender it reopens the log."""
import contextlib
import fcntl
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import termios
import time

import pytest

from cli import BIN, ENGINE, EXIT_DONE, PATIENCE, begin, environment, log_lines, site, wait_for  # noqa: F401 (fixtures)
from lib.server import workers_may_be_threads

pytestmark = pytest.mark.userspace("a terminal")
HANGUP_S = 5  # server/signals.c: SIGHUP may come from a terminal this long after it was closed


@pytest.fixture
def terminal():
    """The two ends of a terminal: ours, and the one that programs have."""
    ends = list(pty.openpty())

    def close():
        while ends:
            os.close(ends.pop())
    yield ends, close
    close()


def on(ends):
    """Popen's options for a program that owns the terminal, as the first one in a window does."""
    def own():
        fcntl.ioctl(ends[1], termios.TIOCSCTTY, 0)
    return {"start_new_session": True, "preexec_fn": own, "pass_fds": ends[1:]}


WORKERS = [pytest.param(["-w", "1"], id="one"),
           pytest.param(["-w", "2", "--workers-as", "process"], id="processes", marks=pytest.mark.processes)]
if workers_may_be_threads():
    WORKERS.append(pytest.param(["-w", "2", "--workers-as", "thread"], id="threads"))


@pytest.mark.parametrize("arranged", WORKERS)
def test_a_closed_terminal_stops_the_server(begin, site, terminal, arranged):
    ends, close = terminal
    server = begin("-p", "0", *arranged, site, **on(ends))
    assert server.get("/file.txt").status == 200
    close()
    server.said("the terminal was closed")
    assert server.end(None) == EXIT_DONE
    assert server.count("stopping at once") == 0
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", server.port), PATIENCE):
        pass


@pytest.mark.parametrize("arranged", WORKERS)
def test_on_an_open_terminal_the_log_is_reopened(begin, site, terminal, tmp_path, arranged):
    """SIGHUP comes from another program, as when logs are rotated."""
    log = tmp_path / "log"
    server = begin("-p", "0", *arranged, "--log", "json", "--log-file", log, site, **on(terminal[0]))
    os.write(terminal[0][0], b"typed\n")
    os.rename(log, tmp_path / "log.1")
    server.send(signal.SIGHUP)
    server.said("log reopened")
    assert server.get("/file.txt").status == 200
    log_lines(log, 1)


def test_nohup_survives_the_terminal(begin, site, terminal, tmp_path):
    ends, close = terminal
    options = on(ends)
    own = options["preexec_fn"]

    def ignoring():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        own()
    server = begin("-p", "0", "--log", "json", "--log-file", tmp_path / "log", site, **{**options, "preexec_fn": ignoring})
    close()
    server.said("log reopened")  # the signal has come
    assert server.get("/file.txt").status == 200 and server.count("stopping") == 0


# --- Under a shell ------------------------------------------------------------------------------------------

class Shell:
    """An interactive bash on the terminal, and a server that it starts."""

    def __init__(self, terminal, folder, line):
        (self.ends, self.close), self.said = terminal, folder / "said"
        self.said.write_text("")
        self.bash = subprocess.Popen(["bash", "--norc", "--noprofile", "-i"], stdin=self.ends[1], stdout=self.ends[1],
                                     stderr=self.ends[1], cwd=folder, env=environment({"TERM": "dumb", "HISTFILE": ""}), **on(self.ends))
        self.type(line.format(rung=f"'{BIN}' serve -e {ENGINE} -p 0", said=self.said))
        wait_for(lambda: self.has(r"serving .* at "), "it serves")
        self.port = int(re.search(r"http://\S+?:(\d+)/", self.text())[1])
        self.pid = wait_for(self.server, "a process serves")

    def type(self, line):
        os.write(self.ends[0], line.encode() + b"\n")

    def text(self):
        return self.said.read_text()

    def has(self, pattern):
        """Also empties the terminal: a shell that cannot write waits."""
        if self.ends:
            os.set_blocking(self.ends[0], False)
            with contextlib.suppress(OSError):
                os.read(self.ends[0], 65536)
        return re.search(pattern, self.text())

    def server(self):
        """The process whose standard error is our file: the first of them, which the shell has started."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.path.samefile(f"/proc/{pid}/fd/2", self.said):
                    found.append(int(pid))
        return min(found, default=None)

    def serves(self):
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", self.port), PATIENCE) as wire:
            wire.sendall(b"GET /file.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return wire.recv(100).startswith(b"HTTP/1.1 200 ")
        return False

    def gone(self):
        return not os.path.exists(f"/proc/{self.pid}/fd/0")

    def end(self):
        if self.bash.poll() is None:
            self.bash.kill()
        self.bash.wait()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        wait_for(self.gone, "the server has ended")


@pytest.fixture
def shell(terminal, tmp_path, site):
    if not shutil.which("bash"):
        pytest.skip("bash is not installed")
    shells = []

    def start(line):
        shells.append(Shell(terminal, tmp_path, line.replace("SITE", f"'{site}'")))
        return shells[-1]
    yield start
    for one in shells:
        one.end()


@pytest.mark.parametrize("ampersand", ["", " &"], ids=["foreground", "background"])
def test_a_shell_passes_the_hangup_on(shell, ampersand):
    one = shell("{rung} SITE 2>{said} >/dev/null" + ampersand)
    assert one.serves()
    one.close()
    wait_for(one.gone, "the server has ended")
    assert one.has("the terminal was closed") and not one.serves()


def test_nohup_under_a_shell(shell):
    one = shell("nohup {rung} SITE 2>{said} >/dev/null </dev/null &")
    one.close()
    one.bash.wait(PATIENCE)
    wait_for(lambda: one.has("no log to reopen"), "bash has passed it on")
    assert one.serves() and not one.has("stopping")


@pytest.mark.long
def test_a_server_that_was_left_running_reopens_its_log(shell, tmp_path):
    """The shell ends, its jobs keep running, and the terminal is gone.  Some time later SIGHUP reopens the log again."""
    log = tmp_path / "log"
    one = shell(f"{{rung}} --log json --log-file {log} SITE 2>{{said}} >/dev/null & disown")
    one.type("exit")
    one.bash.wait(PATIENCE)
    one.close()
    time.sleep(HANGUP_S + 1)
    assert one.serves()
    os.kill(one.pid, signal.SIGHUP)
    wait_for(lambda: one.has("log reopened"), "the log is reopened")
    assert one.serves() and not one.has("stopping")
