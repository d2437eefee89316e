# SPDX-License-Identifier: MIT
"""Readiness is reported once: an answer received in several steps, and anything behind it, is read to the end."""
import socket
import struct
import time

import pytest
from aid import DONE, Liar, always, measured, reply, rung

SCRATCH = 65536  # bytes of one receive
IN_A_ROW = 16    # receives before the other connections have their turn


def answer_of(size, **fields):
    """An answer that has size bytes, including its head."""
    head = len(reply(200, b"", **fields)) - 1
    body = size - head - len(str(size))
    data = reply(200, bytes(i * 7 % 251 for i in range(body)), **fields)
    assert abs(len(data) - size) <= 1
    return data if len(data) == size else reply(200, data[-body - size + len(data):], **fields)


@pytest.mark.parametrize("receives", [1, 2, IN_A_ROW, IN_A_ROW + 1, 5 * IN_A_ROW])
@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("close", [False, True], ids=["stay", "close"])
def test_answers_that_fill_receives(receives, more, close):
    """The receives filled exactly, a byte less, and a byte more; then the next answer, or the end of the stream."""
    data = answer_of(receives * SCRATCH + more, **({"Connection": "close"} if close else {}))
    with Liar(always(data, stay=not close)) as liar:
        run = measured("-n", 8, "-c", 2, "--body-check", "-T", "20s", liar.url)
    assert run.errors() == {} and run.status == DONE and run.json["received_bytes"] == 8 * len(data)
    assert run.json["connects"]["made"] == (8 if close else 2)


@pytest.mark.parametrize("size", [5, SCRATCH, 20 * SCRATCH])
def test_an_end_behind_an_answer_that_stays(size):
    """The server closes without announcing it: noticed at once, not after the time-out."""
    data = answer_of(size) if size > 5 else reply(200, b"hello")

    def answer(sock, number):
        sock.sendall(data)
        time.sleep(0.01 if number % 2 else 0)
        return False
    with Liar(answer) as liar:
        run = measured("-n", 40, "-c", 2, "-T", "20s", liar.url)
    assert run.json["elapsed_s"] < 15 and set(run.errors()) <= {"closed_early", "reset"}
    assert run.json["requests"]["sent"] == 40


@pytest.mark.parametrize("size", [5, SCRATCH, 3 * SCRATCH])
def test_a_reset_behind_an_answer(size):
    data = answer_of(size) if size > 5 else reply(200, b"hello")

    def answer(sock, _):
        sock.sendall(data)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False
    with Liar(answer) as liar:
        run = measured("-n", 40, "-c", 2, "-T", "20s", liar.url)
    assert run.json["elapsed_s"] < 15 and set(run.errors()) <= {"closed_early", "reset", "short_body"}
    assert run.json["requests"]["sent"] == 40


def test_sending_is_held_up_and_goes_on():
    """Messages larger than a socket's send buffer, each echoed while the next one waits."""
    with rung("echo", "-p", 0) as server:
        run = measured("-n", 60, "-c", 3, "--pipeline", 4, "--message-min", "900k", "--message-max", "1m", "-T", "20s",
                       f"echo://127.0.0.1:{server.port}")
    assert run.errors() == {} and run.status == DONE and run.json["requests"]["answered"] == 60
