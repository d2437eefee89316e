# SPDX-License-Identifier: MIT
"""The stages that the server reports itself: when it accepted, parsed, found and compressed; and servers that do not report them."""
import os
import socket
import time

import pytest
from aid import FILE, PATIENCE, SMALL, Lies, adds_up, engine_rows, exactly, request, rung, traced_load, tracing

ENGINES = [row["name"] for row in engine_rows() if row["model"] != "none"]
SAID = ("parsed", "found")


@pytest.fixture(autouse=True)
def probed(traced):  # pylint: disable=unused-argument
    """Skips the test if the tracer says that the server was built without its trace points."""
    with rung("epoll") as port, tracing("--json", port) as runs:
        pass
    lacks = [line for line in runs[0].summary["lacks"] if "rung:answer" in line]
    if lacks:
        pytest.skip(lacks[0])


def get(port, *heads):
    """Sends requests on one connection, and reads until the server closes it."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        for head in heads:
            client.sendall(head)
        client.shutdown(socket.SHUT_WR)
        while piece := client.recv(1 << 16):
            answer += piece
    return answer


@pytest.mark.parametrize("engine", ENGINES)
# shows S13
def test_every_engine_says_it(engine):
    """Every engine reports the stages of every request, in order, and for the first one of a connection when it was accepted."""
    with rung(engine) as port:
        run, served = traced_load(port, "-c", 1 if engine == "naive" else 4, "-n", 200)
    assert served == run.summary["seen"] == run.summary["answered"] == 200
    assert not [line for line in run.summary["lacks"] if "rung:" in line], run.summary["lacks"]
    for one in run.requests:
        adds_up(one)
        took = one["took_ns"]
        assert all(isinstance(took[name], int) and took[name] > 0 for name in SAID), one
        assert took["compressed"] is None, one
        assert (took["accepted"] is None) == (one["ordinal"] > 1), one
    assert run.summary["stages"]["accepted"]["missing"] == run.summary["stages"]["compressed"]["missing"] == 0


def test_a_connection_waits_to_be_accepted():
    """naive serves one client at a time and gives a silent one a moment.  The next client's wait is the stage, counted once."""
    moment = 20e6  # less than the server's limit
    with rung("naive") as port, tracing("--json", port) as runs:
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as first:
            first.sendall(request(FILE))
            first.recv(1 << 16)
            get(port, request(FILE))
    one = max(runs[0].requests, key=lambda one: one["took_ns"]["accepted"])
    adds_up(one)
    assert len(runs[0].requests) == 2 and one["took_ns"]["accepted"] > moment and one["server_ns"] > moment
    assert one["took_ns"]["head"] == 0


def test_accept_is_a_system_call():
    """For a server without trace points, accepting is seen as the system call."""
    with Lies() as server, tracing("--json", server.port) as runs:
        client = socket.create_connection(server.address, PATIENCE)
        time.sleep(0.05)
        there = server.listener.accept()[0]
        client.sendall(request())
        exactly(there, len(request()))
        there.sendall(SMALL)
        exactly(client, len(SMALL))
        client.close()
        there.close()
    lacks = [line for line in runs[0].summary["lacks"] if "sys_exit_accept4" in line]
    if lacks:
        pytest.skip(lacks[0])
    one, = runs[0].requests
    adds_up(one)
    assert one["took_ns"]["accepted"] > 50e6 and one["total_ns"] - one["took_ns"]["accepted"] >= one["server_ns"]


def test_pipelined_requests_have_their_own():
    with rung("epoll") as port, tracing("--json", port) as runs:
        paths = [FILE, "/nothing", FILE, "/shelf/", FILE, "/", "/nothing", FILE]
        answer = get(port, b"".join(map(request, paths)))
    assert answer.count(b"HTTP/1.1 ") == 8
    assert [one["target"] for one in runs[0].requests] == paths
    parsed = []
    for one in runs[0].requests:
        took = one["took_ns"]
        assert isinstance(took["parsed"], int) and isinstance(took["found"], int), one
        parsed.append(one["arrived_ns"] + sum(took[name] for name in ("head", "woken", "running", "read", "parsed")
                                              if isinstance(took[name], int)))
    assert parsed == sorted(parsed) and len(set(parsed)) == 8


def test_a_refusal_was_only_parsed():
    with rung("epoll") as port, tracing("--json", port) as runs:
        assert b" 501 " in get(port, b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n")
    one, = runs[0].requests
    assert isinstance(one["took_ns"]["parsed"], int) and one["took_ns"]["found"] is None


@pytest.mark.parametrize("engine", ("epoll", "coro", "uring", "poll"))
def test_what_a_helper_finds(engine, tmp_path):
    """Another thread reads a long listing; the stage found lasts until the listing is finished."""
    for number in range(900):
        (tmp_path / f"{number:04}").touch()
    with rung(engine, "--cache", "0", "--listing", "on", folder=tmp_path) as port, tracing("--json", port) as runs:
        assert b"0899" in get(port, request("/"))
    one, = runs[0].requests
    adds_up(one)
    assert one["took_ns"]["found"] > 100e3, one  # reading nine hundred names takes longer than this


def test_a_coding(tmp_path):
    """A file that the server compressed for one client is reported so; the same file for another client is not."""
    (tmp_path / "long.txt").write_text("the same again and again\n" * 400)
    old = time.time() - 60
    os.utime(tmp_path / "long.txt", (old, old))
    plain, coded = request("/long.txt"), request("/long.txt", b"Accept-Encoding: gzip\r\n")
    with rung("epoll", folder=tmp_path) as port, tracing("--json", port) as runs:
        deadline = time.monotonic() + PATIENCE
        while b"Content-Encoding: gzip" not in get(port, coded):  # a mount anywhere empties the cache, and the server compresses again
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert b"Content-Encoding" not in get(port, plain)
    *_, first, second = runs[0].requests
    assert isinstance(first["took_ns"]["compressed"], int) and second["took_ns"]["compressed"] is None
    adds_up(first)


def test_a_connection_from_before():
    """The connection was accepted before the trace began, so the tracer must use the server's ordinals, not its own."""
    with rung("epoll") as port, socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        for _ in range(3):
            client.sendall(request(FILE))
            client.recv(1 << 16)
        with tracing("--json", port) as runs:
            for _ in range(3):
                client.sendall(request(FILE))
                client.recv(1 << 16)
            time.sleep(0.1)
    assert len(runs[0].requests) == 3 and runs[0].summary["late"] == 1
    for one in runs[0].requests:
        assert all(isinstance(one["took_ns"][name], int) for name in SAID) and one["took_ns"]["accepted"] is None, one


def test_a_server_without():
    """The stages of such a server are missing, not zero, and a sentence says why."""
    with Lies() as server, tracing("--json", server.port) as runs:
        client, there = server.pair()
        client.sendall(request())
        exactly(there, len(request()))
        there.sendall(b"HTTP/1.1 204 X\r\n\r\n")
        exactly(client, 18)
        client.close()
    one, = runs[0].requests
    assert all(one["took_ns"][name] is None for name in (*SAID, "compressed"))
    assert runs[0].summary["stages"]["parsed"]["missing"] == 1
    assert any("parsed, found and compressed" in line and "no trace point rung:answer" in line for line in runs[0].summary["lacks"])


def test_left_out():
    with rung("epoll") as port:
        run, served = traced_load(port, "-c", 2, "-n", 50, options=("--without", "probe", "--without", "accepting"))
    assert served == run.summary["seen"] == 50
    assert all(one["took_ns"][name] is None for one in run.requests for name in ("accepted", *SAID, "compressed"))
    assert len(run.summary["lacks"]) == 3 and run.summary["stages"]["accepted"]["missing"] == 2
