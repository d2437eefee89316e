# SPDX-License-Identifier: MIT
"""The live table: groups of requests, sorted and filtered; on a terminal it obeys keys and restores the screen."""
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import time

import pytest
from aid import DONE, FILE, LOAD, PATIENCE, TRACE, USAGE, Lies, environment, exactly, request, rung, trace, traced_load, tracing

pytestmark = pytest.mark.usefixtures("traced")
ONE_TABLE = ("--top", "--every", "1h", "--slowest", 0)  # at the end


def talk(server, *asked):
    """Makes a request for each target, answered with its status, on a connection of its own; returns the clients' addresses."""
    clients = []
    for target, status in asked:
        client, there = server.pair()
        clients.append("%s:%d" % client.getsockname())
        client.sendall(request(target))
        exactly(there, len(request(target)))
        answer = b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status
        there.sendall(answer)
        exactly(client, len(answer))
        client.close()
    return clients


def tables(out):
    """The rows of each table by the words of the last column, each with its figures."""
    found = []
    for part in re.split(r"(?m)^port \d+: [0-9.]+ requests/s, ", out)[1:]:
        lines = part.split("\n\n")[0].splitlines()
        assert lines[1].split()[:2] == ["requests/s", "p50"]
        rows = [re.fullmatch(r" *([0-9.]+) +([0-9.]+) +([0-9.]+) +([0-9.]+) +(\d+)%  (- |[a-z]+ \d+%) +(\S.*)", line) for line in lines[2:]]
        assert all(rows), lines
        assert int(lines[0].split()[0]) == len(rows)
        found.append({row[7]: row for row in rows})
    return found


ASKED = (("/a?x=1", 200), ("/a", 404), ("/b", 200), ("/a?y", 200))


@pytest.mark.parametrize("by, names", [("path", ["/a", "/b"]), ("status", ["200", "404"]), ("peer", ["127.0.0.1"])])
def test_rows(by, names):
    with Lies() as server, tracing(*ONE_TABLE, "--by", by, "--sort", "requests", server.port) as runs:
        talk(server, *ASKED)
    assert runs[0].status == DONE
    table, = tables(runs[0].out)
    assert list(table) == names
    rates = [float(row[1]) for row in table.values()]
    assert len(rates) == 1 or rates[0] > 2 * rates[1] > 0  # three requests and one
    assert 99 <= sum(int(row[5]) for row in table.values()) <= 101
    assert all(float(row[2]) <= float(row[3]) <= float(row[4]) for row in table.values())
    assert "4 requests seen" in runs[0].out and "GET /" not in runs[0].out  # the summary, no lines


def test_rows_of_connections():
    with Lies() as server, tracing(*ONE_TABLE, "--by", "connection", "--sort", "name", server.port) as runs:
        clients = talk(server, *ASKED)
    table, = tables(runs[0].out)
    assert {name.split()[1] for name in table} == set(clients) and list(table) == sorted(table)


def test_the_slowest_path_first():
    """By default the first row is the one whose answers took the most time in total; its costliest stage is the wait."""
    with Lies() as server, tracing(*ONE_TABLE, server.port) as runs:
        talk(server, ("/quick", 200), ("/quick", 200))
        client, there = server.pair()
        client.sendall(request("/slow"))
        exactly(there, len(request("/slow")))
        assert not select.select([there], [], [], 0.3)[0]  # the server thinks
        there.sendall(b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n")
        client.recv(100)
        client.close()
    table, = tables(runs[0].out)
    assert list(table) == ["/slow", "/quick"]
    slow = table["/slow"]
    assert slow[6].startswith("out ") and float(slow[2]) >= 290000 and float(slow[4]) >= 300000


def test_a_wait_to_be_accepted():
    """The wait from the head's arrival is part of the answer's time, and the costliest stage if a server accepts late."""
    with Lies() as server, tracing("--json", server.port) as lines, tracing(*ONE_TABLE, server.port) as runs:
        with socket.create_connection(server.address) as client:
            client.sendall(request("/late"))
            time.sleep(0.2)  # the server does something else
            with server.listener.accept()[0] as there:
                exactly(there, len(request("/late")))
                there.sendall(b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n")
                exactly(client, 37)
    if not lines[0].requests[0]["took_ns"]["accepted"]:
        pytest.skip("accept4() is not seen here")
    (row,), = (table.values() for table in tables(runs[0].out))
    assert row[6].startswith("accepted ") and float(row[2]) > 190000


@pytest.mark.parametrize("args, names", [(("--status", "404"), ["/a"]), (("--path", "/b"), ["/b"]), (("--slower", "60000000"), None),
                                         (("--peer", "127.0.0.*"), ["/a", "/b"]), (("--peer", "127.0.0.2"), None)])
# shows U41
def test_filters(args, names):
    with Lies() as server, tracing(*ONE_TABLE, "--sort", "name", *args, server.port) as runs:
        talk(server, *ASKED)
    assert [list(table) for table in tables(runs[0].out)] == ([names] if names else [])


def test_filter_by_port():
    """An address with its port selects one connection."""
    with Lies() as server:
        client, there = server.pair()
        with tracing("--json", "--peer", "%s:%d" % client.getsockname(), server.port) as runs:
            talk(server, ("/other", 200))
            client.sendall(request("/this"))
            exactly(there, len(request("/this")))
            there.sendall(b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n")
            exactly(client, 37)
            client.close()
    one, = runs[0].requests
    assert one["target"] == "/this" and runs[0].summary["seen"] == 2


def test_filter_by_ipv6():
    with rung("epoll", "--bind", "::1") as port:
        for pattern, shown in (("::1", 5), ("::2", 0)):
            run, _ = traced_load(port, "-c", 1, "-n", 5, url=f"http://[::1]:{port}{FILE}", options=("--peer", pattern))
            assert run.summary["shown"] == shown and run.summary["seen"] == 5


def test_each_while_has_a_table():
    with rung("epoll") as port, tracing("--top", "--every", "100ms", port) as runs:
        done = subprocess.run([LOAD, "-q", "-c", "2", "-R", "500", "-d", "1s", f"http://127.0.0.1:{port}{FILE}"], check=False,
                              env=environment(), timeout=PATIENCE)
    assert done.returncode == 0
    with_rows = [table for table in tables(runs[0].out) if table]
    assert len(with_rows) > 2 and all(list(table) == [FILE] for table in with_rows)


def test_more_rows_than_are_shown():
    """Without a terminal up to 20 rows are printed; if there are more, 19 and the number of the others."""
    with Lies() as server, tracing(*ONE_TABLE, server.port) as runs:
        talk(server, *((f"/{number}", 200) for number in range(20)))
    assert len(tables(runs[0].out)[0]) == 20
    with Lies() as server, tracing(*ONE_TABLE, server.port) as runs:
        talk(server, *((f"/{number}", 200) for number in range(21)))
    assert len(re.findall(r"(?m)%  +\S+ /\d+$|% +/\d+$", runs[0].out)) == 19 and " and 2 more\n" in runs[0].out


@pytest.mark.parametrize("args, words", [(("--top", "--json"), "choose one"), (("--by", "age"), "--by"), (("--every", "99ms"), "--every")])
def test_usage(args, words):
    with Lies() as server:
        run = trace(*args, server.port)
    assert run.status == USAGE and words in run.err


# --- On a terminal ------------------------------------------------------------------------------------------


class Terminal(contextlib.ExitStack):
    """A trace with its own terminal of 80 columns and 12 rows."""

    def __init__(self, *args):
        super().__init__()
        self.ours, self.theirs = pty.openpty()
        self.callback(os.close, self.ours)
        self.callback(os.close, self.theirs)
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 80, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        self.said = b""

        def own():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = self.enter_context(subprocess.Popen(
            [TRACE, "--top", "--every", "100ms", *map(str, args)], stdin=self.theirs, stdout=self.theirs, stderr=self.theirs,
            env={**environment(), "TERM": "xterm"}, preexec_fn=own))  # pylint: disable=subprocess-popen-preexec-fn
        self.callback(self.process.kill)

    def until(self, pattern):
        """Reads until the output matches the pattern."""
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.said, re.DOTALL)):
            ready, _, _ = select.select([self.ours], [], [], max(0, deadline - time.monotonic()))
            assert ready, self.said[-2000:]
            self.said += os.read(self.ours, 65536)
        self.said = self.said[found.end():]
        return found

    def ended(self):
        """Asserts that the trace restored the screen, printed its summary, ended well and restored the terminal's settings."""
        self.until(rb"\x1b\[\?25h\x1b\[\?1049l")
        self.until(rb"microseconds in each stage")
        assert self.process.wait(PATIENCE) == DONE
        assert termios.tcgetattr(self.theirs) == self.before


# shows U41
def test_on_a_terminal_keys_sort_and_q_ends():
    with rung("epoll") as port, Terminal(port) as terminal, \
            subprocess.Popen([LOAD, "-q", "-c", "2", "-R", "200", "-d", "60s", f"http://127.0.0.1:{port}{FILE}"], env=environment()) as load:
        terminal.until(rb"\x1b\[\?1049h")
        terminal.until(rb"by path, [^\x1b]*\x1b\[K\r\n[^\x1b]*\(now time\)[^/]*/s[^/]*/shelf/")
        assert not termios.tcgetattr(terminal.theirs)[3] & (termios.ECHO | termios.ICANON)
        for key, order in ((b"9", b"p99"), (b"r", b"requests"), (b"N", b"name"), (b"5", b"p50"), (b"t", b"time")):
            os.write(terminal.ours, key)
            terminal.until(rb"\(now " + order)
        for by in (b"connection", b"peer", b"status", b"path"):
            os.write(terminal.ours, b"g")
            terminal.until(rb"by " + by)
        os.write(terminal.ours, b"\x1a\x1czq")  # keys that would stop or kill the program do nothing
        terminal.ended()
        load.terminate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_on_a_terminal_a_signal_ends_it(number):
    with Lies() as server, Terminal(server.port) as terminal:
        terminal.until(rb"0\.0 requests/s")
        if number == signal.SIGINT:
            os.write(terminal.ours, b"\x03")
        else:
            terminal.process.send_signal(number)
        terminal.ended()


def test_on_a_terminal_lines_are_cut():
    """Lines and rows are cut to the terminal's size; more would make the screen scroll."""
    with Lies() as server, Terminal(server.port) as terminal:
        terminal.until(rb"0\.0 requests/s")
        talk(server, *((f"/{number}" + "x" * 100, 200) for number in range(12)))
        terminal.said = b""
        screen = terminal.until(rb"\x1b\[H(port(?:(?!\x1b\[H).)*?xxx(?:(?!\x1b\[H).)*)\x1b\[J")[1]
        os.write(terminal.ours, b"q")
        terminal.ended()
    lines = screen.decode().replace("\x1b[K", "").split("\r\n")
    assert len(lines) <= 12 and max(map(len, lines)) == 80 and lines[-1] == ""


def test_a_terminal_that_cannot_draw(monkeypatch):
    """With TERM=dumb, as in an editor, tables follow each other and no key is read."""
    with Lies() as server:
        monkeypatch.setenv("TERM", "dumb")
        ours, theirs = pty.openpty()
        with subprocess.Popen([TRACE, "--top", "--every", "100ms", "-d", "350ms", str(server.port)], stdin=theirs, stdout=theirs,
                              stderr=subprocess.DEVNULL, env=environment()) as process:
            assert process.wait(PATIENCE) == DONE
        said = os.read(ours, 65536)
        os.close(ours)
        os.close(theirs)
    assert b"\x1b" not in said and said.count(b"requests/s, ") >= 1
