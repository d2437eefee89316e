# SPDX-License-Identifier: MIT
"""How the bytes of a request arrive: pipelined, one at a time, before the trace began, with the handshake's last packet."""
import http.client
import socket
import struct
import time

import pytest
from aid import FILE, PATIENCE, SMALL, Lies, adds_up, exactly, request, rung, traced_load, tracing

pytestmark = pytest.mark.usefixtures("traced")


ENGINES = ("epoll", "uring", "thread", "dispatch", "coro")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("depth", (2, 16))
def test_pipelined(engine, depth):
    with rung(engine) as port:
        run, served = traced_load(port, "-c", 2, "-n", 320, "--pipeline", depth)
    count = run.summary
    assert count["seen"] == count["answered"] == served == 320, count
    assert not any(count[name] for name in ("merged", "late", "lost_events", "gaps")), count
    for one in run.requests:
        adds_up(one)
        assert one["status"] == 200


def test_a_byte_at_a_time():
    """One request: its head is complete with its last byte, and the server's time begins there."""
    head = request("/one")
    with Lies() as server, tracing("--json", server.port) as runs:
        client, there = server.pair()
        for byte in head:
            client.sendall(bytes([byte]))
            exactly(there, 1)
        there.sendall(SMALL)
        exactly(client, len(SMALL))
        client.close()
    one, = runs[0].requests
    adds_up(one)
    assert one["target"] == "/one" and one["status"] == 200 and one["answer_bytes"] == len(SMALL)
    assert one["took_ns"]["head"] > 0 and runs[0].summary["gaps"] == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_reads_bytes(engine):
    """Our engines look at a head again with each of its bytes: two requests on a connection, a byte at a time."""
    with rung(engine) as port, tracing("--json", port) as runs:
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(2):
                for byte in request(FILE):
                    client.sendall(bytes([byte]))
                    time.sleep(0.001)
                answer = http.client.HTTPResponse(client)
                answer.begin()
                assert answer.status == 200 and answer.read()
    assert [one["ordinal"] for one in runs[0].requests] == [1, 2] and runs[0].summary["gaps"] == 0
    for one in runs[0].requests:
        adds_up(one)
        assert one["target"] == FILE and one["status"] == 200 and one["ended"] == "answered"
        assert one["took_ns"]["head"] > 1000000 * (len(request(FILE)) - 1), one
        assert isinstance(one["took_ns"]["read"], int) and isinstance(one["took_ns"]["parsed"], int), one


def test_begun_before_the_trace():
    """If the first half of a head was not seen, that request is left out, and the next one is whole."""
    first, second = request("/first"), request("/second")
    with Lies() as server:
        client, there = server.pair()
        client.sendall(first[:9])
        exactly(there, 9)
        with tracing("--json", server.port) as runs:
            client.sendall(first[9:])
            exactly(there, len(first) - 9)
            there.sendall(SMALL)
            exactly(client, len(SMALL))
            client.sendall(second)
            exactly(there, len(second))
            there.sendall(SMALL)
            exactly(client, len(SMALL))
            client.close()
    one, = runs[0].requests
    assert one["target"] == "/second" and one["status"] == 200 and one["ended"] == "answered"
    assert runs[0].summary["late"] == 1
    adds_up(one)


def test_bytes_with_the_handshake():
    """A client that delays its acknowledgement sends its request with it, to a socket that does not exist yet."""
    with Lies() as server, tracing("--json", server.port) as runs:
        with socket.socket() as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)
            client.connect(server.address)
            client.sendall(request("/early"))
            there = server.listener.accept()[0]
            exactly(there, len(request("/early")))
            there.sendall(SMALL)
            exactly(client, len(SMALL))
            there.close()
    one, = runs[0].requests
    assert one["target"] == "/early" and one["ended"] == "answered" and runs[0].summary["late"] == 0
    assert isinstance(one["took_ns"]["read"], int)
    adds_up(one)


def test_cut_off():
    with Lies() as server, tracing("--json", server.port) as runs:
        client, there = server.pair()
        client.sendall(request("/cut"))
        exactly(there, len(request("/cut")))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset ends the server's socket at once
        client.close()
        with pytest.raises(ConnectionResetError):
            there.recv(1)
    one, = runs[0].requests
    assert one["ended"] == "cut" and one["status"] is None and one["took_ns"]["out"] is None
    assert one["server_ns"] is None and runs[0].summary["cut"] == 1


def test_a_long_answer_until_the_end():
    """An answer without a length ends with the connection."""
    with Lies() as server, tracing("--json", server.port) as runs:
        client, there = server.pair()
        client.sendall(b"GET /old HTTP/1.0\r\n\r\n")
        exactly(there, 21)
        body = b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 300000
        there.sendall(body)
        there.close()
        exactly(client, len(body))
        assert client.recv(1) == b""
        client.close()
    one, = runs[0].requests
    assert one["ended"] == "answered" and one["answer_bytes"] == len(body)
    adds_up(one)


@pytest.mark.parametrize("pause", [0, 1.2])
def test_a_place_that_was_lost(pause):
    """Three answers are in a packet too long to be kept, so two are not found.  After a second of silence the next ones are."""
    large = b"HTTP/1.1 200 OK\r\nContent-Length: 30000\r\n\r\n" + b"x" * 30000
    with Lies() as server, tracing("--json", server.port) as runs:
        client, there = server.pair()
        client.sendall(request("/1") + request("/2") + request("/3"))
        exactly(there, 3 * len(request("/1")))
        there.sendall(large + SMALL + SMALL)
        exactly(client, len(large + SMALL + SMALL))
        for name in ("/4", "/5"):
            time.sleep(pause)
            client.sendall(request(name))
            exactly(there, len(request(name)))
            there.sendall(SMALL)
            exactly(client, len(SMALL))
        client.close()
    endings = {one["target"]: one["ended"] for one in runs[0].requests}
    assert runs[0].summary["gaps"] == 1 and len(endings) == 5, endings
    assert [endings[name] == "answered" for name in sorted(endings)] == [True, False, False, pause > 0, pause > 0], endings
