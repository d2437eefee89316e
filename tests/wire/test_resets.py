# SPDX-License-Identifier: MIT
"""Clients that vanish with a RST or a FIN at any moment harm no other client, and nothing
leaks."""
import random
import threading
import time

import pytest
from lib.client import request
from lib.server import wait_for
from lib.trees import content

REQUESTS = [request("/hello.txt"), request("/size/1048576.bin"), request("/list/"),
            request("/missing"),
            request("/hello.txt", "POST", body=b"x" * 5000),
            request("/hello.txt", "POST", ["Transfer-Encoding: chunked"], b"5\r\nhello\r\n0\r\n\r\n"),
            request("/size/65536.bin", fields=["Range: bytes=0-10,60000-"]), request("/hello.txt") * 50,
            b"GET  / HTTP/1.1\r\n\r\n" + bytes(20000), request("/giant.bin")]


def vanish(server, rng):
    """Send part of something, perhaps read a little, and leave."""
    wire = server.wire(rcvbuf=8192)
    data = rng.choice(REQUESTS)
    try:
        wire.send(data[:rng.choice([0, 1, rng.randrange(len(data)), len(data), len(data)])])
        if rng.random() < 0.5:
            time.sleep(rng.choice([0, 0.0005, 0.003]))
        if rng.random() < 0.3:
            wire.sock.settimeout(0.02)
            try:
                wire.sock.recv(rng.choice([1, 100, 5000]))
            except TimeoutError:
                pass
    except (ConnectionResetError, BrokenPipeError):
        pass
    if rng.random() < 0.75:
        wire.reset()
    else:
        wire.close()


@pytest.mark.core
@pytest.mark.parametrize("seed", range(3))
def test_at_any_moment(start, standard, seed):
    server = start(standard)
    rng = random.Random(seed)
    for target in ("/list/", "/size/65536.bin"):
        server.ask(target)  # files that are opened once and kept are open now
    server.rest()
    before = server.files()
    for _ in range(150):
        vanish(server, rng)
    assert server.ask("/hello.txt").body == b"Hello, world\n"
    server.check_counts()
    wait_for(lambda: server.files() <= before, "as few descriptors as before")


@pytest.mark.core
@pytest.mark.capacity(20)
def test_gone_while_the_answer_is_made(start, standard):
    """The reset and the answer may come in one turn: whichever is handled first, the other has no connection left."""
    server = start(standard)
    for _ in range(40):
        wires = [server.wire() for _ in range(20)]
        for wire in wires:
            wire.send(request("/list/"))
        for wire in wires:
            wire.reset()
    assert server.ask("/hello.txt").body == b"Hello, world\n"
    server.check_counts()


@pytest.mark.long
@pytest.mark.capacity(25)
# shows D05
def test_others_are_unharmed(start, standard):
    """20 resets once killed 20 innocent connections that got the same descriptor numbers."""
    server = start(standard, "--idle-timeout", "1s")
    body, stop, failures, counts = content(65536, 65536), threading.Event(), [], []

    def innocent():
        try:
            with server.wire() as wire:
                count = 0
                while not stop.is_set():
                    assert wire.ask("/size/65536.bin").body == body
                    count += 1
                counts.append(count)
        except Exception as error:  # the test fails with it
            failures.append(error)
    guilty = [server.wire() for _ in range(20)]
    for wire in guilty:
        wire.send(request("/hello.txt")[:17])
    for wire in guilty[:10]:
        wire.reset()
    threads = [threading.Thread(target=innocent, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for wire in guilty[10:]:
        wire.reset()
    rng = random.Random(5)
    end = time.monotonic() + 2.5  # past the deadlines of those that are gone
    while time.monotonic() < end:
        vanish(server, rng)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert not failures and len(counts) == 4 and min(counts) > 5


# shows D23
def test_gone_before_it_is_accepted(start, standard):
    """Connections that were reset in the queue are no error of the listener (abort on any
    accept error)."""
    server = start(standard)
    with server.wire() as wire:
        wire.ask("/hello.txt")
        for i in range(60):
            other = server.wire()
            other.reset() if i % 2 else other.close()
        assert wire.ask("/hello.txt").status == 200
    assert server.ask("/hello.txt").status == 200


def test_half_closed_and_silent(start, standard):
    """After a FIN without a request the connection is closed, not kept."""
    server = start(standard)
    for opening in (b"", request("/hello.txt")):
        with server.wire() as wire:
            wire.send(opening)
            wire.finish()
            if opening:
                assert wire.reply().status == 200
            wire.end()
    server.check_counts()


# shows S03
def test_reader_that_leaves_a_pipe_of_answers(start, standard):
    """Hundreds of answers are due when the client leaves: no SIGPIPE, no endless writing."""
    server = start(standard)
    for i in range(5):
        wire = server.wire(rcvbuf=4096)
        wire.send(request("/size/65536.bin") * 300)
        time.sleep(0.05)
        wire.reset() if i % 2 else wire.close()
    assert server.ask("/hello.txt").status == 200
    server.check_counts()
