# SPDX-License-Identifier: MIT
"""rung_echo: what is said comes back, to the byte, in order; and it leaves as well as the other."""
import os
import threading
import time

import pytest
from conftest import has
from lib import module
from lib.served import wait_for
from lib.trees import content

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
    """A length is counted, never measured.  A naive module that measures it sends its stack, or dies."""
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
    """What was said before the end still comes back, and then the end."""
    data = content("half", 300_000)
    with echo.wire() as wire:
        sender = threading.Thread(target=lambda: (wire.send(data), wire.finish()))
        sender.start()
        assert wire.take(len(data)) == data
        wire.end()
        sender.join(60)
    stats = echo.check_counts()
    assert stats["accepted"] == stats["ends"] == 1


# shows E22
def test_who_never_reads(echo):
    """It is not read from any more, and takes what its windows hold; the others are served."""
    chunk, said = bytes(1 << 16), 0
    with echo.wire() as wire, echo.wire() as other:
        wire.sock.settimeout(1)
        with pytest.raises(TimeoutError):
            while said < 256 << 20:
                said += wire.sock.send(chunk)
        assert said < 64 << 20
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
