# SPDX-License-Identifier: MIT
"""rung_echo: the bytes of a client are returned exactly, in order; and it unloads as well as the other module."""
import json
import os
import subprocess
import sys
import threading
import time

import pytest
from conftest import has
from lib import module
from lib.served import wait_for
from lib.trees import content

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "trace"))
import aid  # noqa: E402 - found by the line above

pytestmark = pytest.mark.skipif(not has("rung_echo"), reason="there is no rung_echo here")
SIZES = [1, 8, 64, 4090, 4095, 4096, 4097, 4100, 16384, 65537, 1_000_000]
MANY = min(600, module.row()["capacity"] - 8)


@pytest.fixture
def echo(start):
    return start(None, what="rung_echo")


# shows E02
def test_a_message_has_no_body_to_limit(echo):
    parameters = os.listdir(f"/sys/module/{echo.name}/parameters")
    assert "min_progress" in parameters and "max_body" not in parameters


@pytest.mark.parametrize("name, value, reads", [("backlog", "7", "7"), ("wq", "bound", "bound"), ("wq", "unbound", "unbound"), ("highpri", "1", "Y"),
                                                ("idle_timeout", "4000", "4000"), ("max_connections", "9", "9")])
# shows E02
def test_a_parameter_is_taken_and_can_be_read(start, name, value, reads):
    echo = start(None, f"--{name}={value}", what="rung_echo")
    assert module.parameter(echo.name, name) == reads and module.parameter(echo.name, "model") == module.MODEL
    with echo.wire() as wire:
        assert exchanged(wire, b"to and fro") == b"to and fro"


def exchanged(wire, data):
    sender = threading.Thread(target=wire.send, args=(data,))
    sender.start()
    got = wire.take(len(data))
    sender.join(60)
    return got


@pytest.mark.parametrize("make", [lambda size: content("echo", size), bytes, lambda size: b"\0\xff" * (size // 2 + 1)],
                         ids=["any", "zeros", "both"])
# shows D01, E01, E15
def test_every_size(echo, make):
    """Lengths are passed along, never measured.  A naive module that measures one sends its stack, or crashes."""
    with echo.wire() as wire:
        for size in SIZES:
            data = make(size)
            assert exchanged(wire, data) == data


# shows E01
def test_cut_anywhere(echo):
    data = content("cut", 3000)
    with echo.wire() as wire:
        for at in range(0, 3000, 7):
            wire.send(data[at:at + 7])
        assert wire.take(3000) == data


# shows E01, E08, E13, E14
def test_half_closed(echo):
    """Bytes sent before the end are still returned, and then the end."""
    data = content("half", 300_000)
    with echo.wire() as wire:
        sender = threading.Thread(target=lambda: (wire.send(data), wire.finish()))
        sender.start()
        assert wire.take(len(data)) == data
        wire.end()
        sender.join(60)
    stats = echo.check_counts()
    assert stats["accepted"] == stats["ends"] == 1


# shows E08, E13
def test_counters_are_what_the_load_did(echo):
    """Messages that arrive whole: one receive and one send for each; the end of a client is counted apart, not as a receive."""
    clients, messages = 4, 400
    run = json.loads(subprocess.run(
        [aid.LOAD, "-o", "-", "-t", "1", "-c", str(clients), "-n", str(messages), "--message-min", "10", "--message-max", "1000",
         f"echo://127.0.0.1:{echo.port}"], capture_output=True, text=True, check=True, timeout=60).stdout)
    stats = echo.check_counts()
    assert run["requests"]["answered"] == messages
    assert stats["accepted"] == stats["closed"] == stats["ends"] == clients
    assert stats["receives"] == stats["sends"] == messages
    assert stats["bytes"] == run["received_bytes"]
    assert not any(stats[name] for name in ("receive_errors", "send_errors", "accept_errors", "no_buffer", "refused")), stats


# shows E13
def test_errors_are_counted(echo):
    """Clients that reset while an answer is on its way to them, or before their bytes were read."""
    chunk = bytes(1 << 16)
    for _ in range(20):
        with echo.wire(rcvbuf=4096) as wire:
            wire.sock.settimeout(0.2)
            try:
                while True:
                    wire.sock.send(chunk)
            except TimeoutError:
                wire.reset()
    stats = echo.check_counts()
    assert stats["send_errors"] + stats["receive_errors"] >= 20, stats


# shows E22
def test_who_never_reads(echo):
    """The server stops reading from that client, so it takes only what its windows hold; the others are served."""
    chunk, said, before = bytes(1 << 16), 0, echo.stats()["buffer_bytes"]
    with echo.wire() as wire, echo.wire() as other:
        wire.sock.settimeout(1)
        with pytest.raises(TimeoutError):
            while said < 256 << 20:
                said += wire.sock.send(chunk)
        assert said < 64 << 20
        assert echo.stats()["buffer_bytes"] - before <= 2 * (80 << 10), "of the module's own, for two clients"
        assert exchanged(other, b"and I?") == b"and I?"
    echo.check_counts()


# shows E03
def test_silent_ones_keep_nobody_out(echo):
    wires = [echo.wire() for _ in range(MANY)]
    with echo.wire() as wire:
        assert exchanged(wire, b"still there?") == b"still there?"
    for wire in wires:
        wire.close()
    echo.check_counts()


# shows E04
def test_unload_beneath_them(echo):
    wires = [echo.wire() for _ in range(min(100, MANY))]
    for number, wire in enumerate(wires):
        wire.send(bytes(1 + 1000 * (number % 3)))
    before = time.monotonic()
    echo.kill()
    assert time.monotonic() - before < 3
    for wire in wires:
        wire.close()
