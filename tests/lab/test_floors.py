# SPDX-License-Identifier: MIT
"""The floor sends one answer to whatever arrives, on epoll and on io_uring: whole, of any size, to any number of requests."""
import os
import socket
import subprocess
import time

import floors
import measures
import peers
import pytest
from command import TOP
from rig import Broken, Cannot, lives

BIN = os.path.dirname(os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung"))
FLOOR = os.path.join(BIN, "lab", "floor")
REQUEST = b"GET /whatever HTTP/1.1\r\nHost: x\r\n\r\n"
HOW = ["epoll", "uring"]
HEAD_BYTES = len("HTTP/1.1 200 OK\r\nServer: floor\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Type: text/html\r\n"
                 "Content-Length: 1048576\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nETag: \"0123456789abcdef\"\r\n"
                 "Accept-Ranges: bytes\r\n\r\n")


@pytest.fixture
def context(tmp_path):
    return measures.Context(BIN, str(tmp_path), "quick")


def target(how):
    return {"name": "floor", "program": "floor", "args": how}


def answers(port, asked, length):
    """What the server sends for these bytes: the first `length` bytes, or all until the end (None)."""
    with socket.create_connection(("127.0.0.1", port), 10) as wire:
        wire.sendall(asked)
        found = b""
        while length is None or len(found) < length:
            if not (data := wire.recv(1 << 16)):
                break
            found += data
        if length is not None:
            wire.settimeout(0.05)
            with pytest.raises(TimeoutError):
                wire.recv(1)  # nothing more arrives
        return found


def parted(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.decode().split("\r\n"), body


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("size", [0, 1024, 65536, 65537, 1 << 20])
def test_a_file_is_sent_whole(context, how, size):
    """Files up to 64 KiB are sent from memory; on epoll, larger ones by sendfile()."""
    path = os.path.join(context.folder, "body")
    with open(path, "wb") as file:
        file.write(os.urandom(size))
    with floors.Floor(FLOOR, [path, "keep", how]) as server:
        head, _ = parted(answers(server.port, REQUEST, size + HEAD_BYTES - len("1048576") + len(str(size))))
        assert head[0] == "HTTP/1.1 200 OK" and f"Content-Length: {size}" in head
        whole = answers(server.port, REQUEST, len("\r\n".join(head)) + 4 + size)
        with open(path, "rb") as file:
            assert parted(whole)[1] == file.read()
        server.stop()


@pytest.mark.parametrize("how", HOW)
def test_it_closes_after_the_answer(context, how):
    with floors.Floor(FLOOR, ["10", "close", how]) as server:
        for _ in range(3):
            head, body = parted(answers(server.port, REQUEST, None))
            assert "Connection: close" in head and body == b"x" * 10
        server.stop()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("count", [1, 16, 63, 64])
def test_requests_in_a_row_are_counted(how, count):
    with floors.Floor(FLOOR, ["5", "pipelined", how]) as server:
        one = len(answers(server.port, REQUEST, 1))
        found = answers(server.port, b"G\r\n\r\n" * count, count * one)
        assert found.count(b"HTTP/1.1 200 OK") == count and len(found) == count * one
        server.stop()


@pytest.mark.parametrize("how", HOW)
def test_without_counting_a_receive_is_one_request(how):
    with floors.Floor(FLOOR, ["5", "keep", how]) as server:
        one = len(answers(server.port, REQUEST, 1))
        assert len(answers(server.port, REQUEST * 3, one)) == one
        server.stop()


@pytest.mark.parametrize("how", HOW)
def test_it_is_measured_as_a_server(context, how):
    for scenario in ({"connections": 4}, {"connections": 4, "close": True}, {"connections": 4, "pipeline": 16},
                     {"connections": 2, "bytes": 1 << 20}, {"connections": 4, "files": 20}, {"connections": 4, "idle": 200}):
        found = measures.load(context, target(how), {"name": "s", **scenario}, 0.05)
        assert found["figures"]["cpu_us"] > 0 and found["figures"]["per_second"] > 0
    assert context.commands["floor"].startswith("lab/floor ")


def test_what_it_has_no_answer_for(context):
    for scenario in ({"entries": 3}, {"gzip": True}):
        with pytest.raises(Cannot, match="floor sends one fixed answer"):
            measures.load(context, target("epoll"), scenario, 0.05)


@pytest.mark.parametrize("words, told", [
    (["none", "keep"], "did not start: floor: none: No such file"), (["10", "open"], "did not start: usage: floor PORT"),
    (["16777217", "keep"], "did not start: floor: 16777217: File too large"), (["1", "keep", "select"], "did not start: usage")])
def test_it_does_not_start(words, told):
    with pytest.raises(Broken, match=told):
        floors.Floor(FLOOR, words)


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        done = subprocess.run([FLOOR, str(stranger.getsockname()[1]), "1", "keep"], capture_output=True, text=True, timeout=20,
                              check=False)
    assert done.returncode == 1 and done.stderr == "floor: cannot listen: Address already in use\n"


@pytest.mark.parametrize("how", HOW)
def test_it_is_ended_without_being_asked(how):
    with pytest.raises(KeyError), floors.Floor(FLOOR, ["1", "keep", how]) as server:
        raise KeyError
    assert not lives(server.pid)


def test_killed_while_measured():
    with floors.Floor(FLOOR, ["1", "keep"]) as server:
        os.kill(server.pid, 9)
        end = time.monotonic() + 10
        while lives(server.pid) and time.monotonic() < end:
            time.sleep(0.005)
        with pytest.raises(Broken, match="floor left with -9"):
            server.stop()
    assert not peers.listening(server.port)
