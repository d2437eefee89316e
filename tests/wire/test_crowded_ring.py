# SPDX-License-Identifier: MIT
"""uring receives into 128 buffers: if the bytes of many clients arrive at once, most clients have to wait for one."""
import os
import re
import signal

import pytest
from lib import server as lib
from lib.client import request
from lib.trees import content

MANY = 1000
SIZE = 4096
TURNS = 4


def completions(pid):
    """How many completions the server's ring has reported, or None if it has no ring."""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as file:
            if found := re.search(r"^CqTail:\s*(\d+)$", file.read(), re.MULTILINE):
                return int(found[1])
    return None


pytestmark = [pytest.mark.skipif(lib.ENGINE != "uring", reason="only uring has buffers that all sessions share"),
              pytest.mark.capacity(MANY)]


def all_at_once(server, wires, meanwhile=lambda: None):
    """Each client sends a request while the server is stopped, so that the server finds all of them at once."""
    os.kill(server.pid, signal.SIGSTOP)
    for wire in wires:
        wire.send(request(f"/size/{SIZE}.bin"))
    meanwhile()
    os.kill(server.pid, signal.SIGCONT)


def test_who_finds_no_buffer_asks_once_more(start, standard):
    """A receive is not retried with every batch that serves others: a request would cost more, the more there are."""
    server = start(standard, "--workers", 1)
    wires = [server.wire() for _ in range(MANY)]
    for wire in wires:
        wire.ask(f"/size/{SIZE}.bin")
    before = completions(server.pid)
    if before is None:
        pytest.skip("this kernel does not tell of a ring's completions")
    all_at_once(server, wires)
    for wire in wires:
        assert wire.reply().body == content(SIZE, SIZE)
    assert 2 * MANY <= completions(server.pid) - before < 3.2 * MANY  # received, sent, and one failed attempt


def test_each_has_its_turn(start, standard, tmp_path):
    """Each client sends four requests, each of which nearly fills a buffer.  A session that was just answered could
    take a buffer before the sessions that wait for one, but those are answered first."""
    log = tmp_path / "log"
    server = start(standard, "--workers", 1, "--log", "combined", "--log-file", log)
    wires = [server.wire() for _ in range(MANY)]
    padding = [f"Padding: {'x' * 7000}", f"Padding: {'x' * 7000}"]
    os.kill(server.pid, signal.SIGSTOP)
    for i, wire in enumerate(wires):
        wire.send(TURNS * request(f"/hello.txt?{i}", fields=padding))
    os.kill(server.pid, signal.SIGCONT)
    for wire in wires:
        for _ in range(TURNS):
            assert wire.reply().status == 200
    os.kill(server.pid, signal.SIGTERM)
    server.finish()
    asked = re.findall(r"hello\.txt\?(\d+) ", log.read_text())
    assert len(asked) == TURNS * MANY
    assert len(set(asked[:MANY + MANY // 4])) > 0.9 * MANY


@pytest.mark.parametrize("turns", [1, 3])
def test_some_leave_while_they_wait(start, standard, turns):
    server = start(standard, "--workers", 1)
    for _ in range(turns):
        wires = [server.wire() for _ in range(MANY)]
        for wire in wires:
            wire.ask(f"/size/{SIZE}.bin")
        all_at_once(server, wires, lambda: [wire.close() for wire in wires[::2]])  # pylint: disable=cell-var-from-loop
        for wire in wires[1::2]:
            assert wire.reply().body == content(SIZE, SIZE)
            wire.close()


def test_a_stop_while_they_wait(start, standard):
    """Requests sent before the stop are answered."""
    server = start(standard, "--workers", 1)
    wires = [server.wire() for _ in range(MANY)]
    for wire in wires:
        wire.ask(f"/size/{SIZE}.bin")
    all_at_once(server, wires, lambda: os.kill(server.pid, signal.SIGTERM))
    for wire in wires:
        assert wire.reply().body == content(SIZE, SIZE)
        wire.close()
    server.finish()


# shows D33
def test_time_is_up_while_they_wait(start, standard):
    """Clients send half a request, many more than there are buffers: each is closed in time."""
    server = start(standard, "--workers", 1, "--head-timeout", "1s")
    wires = [server.wire() for _ in range(MANY)]
    os.kill(server.pid, signal.SIGSTOP)
    for wire in wires:
        wire.send(b"GET / HTTP/1.1\r\n")
    os.kill(server.pid, signal.SIGCONT)
    for wire in wires:
        wire.end()
        wire.close()
    assert server.stats()["expired"] == MANY
