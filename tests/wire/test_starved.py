# SPDX-License-Identifier: MIT
"""A server that gets no processor for a while: requests sent in time are answered, though the time has passed when the
server looks."""
import os
import signal
import time

import pytest
from lib.client import request

CROWD = 600  # more clients than a loop gets events for in one turn
IDLE_S = 2


def stopped(server, action, seconds):
    """Do something while the server is stopped for at least that many seconds; returns how long it took."""
    pids = server.pids()
    begin = time.monotonic()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        action()
        took = time.monotonic() - begin
        time.sleep(max(0, seconds - took))
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    return took


@pytest.mark.long
@pytest.mark.userspace("a process, which can be stopped")
def test_asked_in_time(start, standard, engine, enough):
    """Clients that pause between two requests, and send the second one while the server cannot run."""
    server = start(standard, "--idle-timeout", f"{IDLE_S}s", "--head-timeout", "60s", "--max-connections", "1000")
    count, turns = min(100 if engine["may_block"] else CROWD, enough), 0
    while turns < 3:
        wires = [server.wire() for _ in range(count)]
        asked = time.monotonic()
        for wire in wires:
            assert wire.ask("/hello.txt").status == 200
        in_time = []

        def ask_again():
            for wire in wires:
                if time.monotonic() - asked > IDLE_S / 2:
                    break
                wire.send(request("/hello.txt"))
                in_time.append(wire)
        stopped(server, ask_again, IDLE_S + 0.5)
        for i, wire in enumerate(in_time):
            assert wire.reply().status == 200, i
        turns += len(in_time) == count
        count = max(1, count // 2) if len(in_time) < count else count  # on a machine that is this busy
        for wire in wires:
            wire.close()
