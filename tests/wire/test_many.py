# SPDX-License-Identifier: MIT
"""Many clients at once: each gets its own bytes, and all of them."""
import random
import selectors
import socket
import threading

import pytest
from lib.client import request
from lib.trees import SIZES, content

MANY = 200


@pytest.mark.core
@pytest.mark.capacity(MANY)
def test_two_hundred_at_once(site):
    """All connected, all sending requests; the answers are read in another order."""
    rng = random.Random(3)
    wires = [site.wire() for _ in range(MANY)]
    for turn in range(3):
        sizes = [rng.choice(SIZES[:-1]) for _ in wires]
        for wire, size in zip(wires, sizes):
            wire.send(request(f"/size/{size}.bin"))
        for i in rng.sample(range(MANY), MANY):
            assert wires[i].reply().body == content(sizes[i], sizes[i]), (turn, i)
    for wire in wires:
        wire.close()


@pytest.mark.capacity(MANY)
def test_requests_cut_and_interleaved(site):
    """The heads of two hundred clients arrive in pieces, a piece of each in turn."""
    wires = [site.wire() for _ in range(MANY)]
    data = [request(f"/size/{SIZES[i % 5]}.bin", fields=[f"X-Number: {i}"]) for i in range(MANY)]
    for start in range(0, max(map(len, data)), 16):
        for wire, bytes_of in zip(wires, data):
            if start < len(bytes_of):
                wire.send(bytes_of[start:start + 16])
    for i, wire in enumerate(wires):
        assert wire.reply().body == content(SIZES[i % 5], SIZES[i % 5])
        wire.close()


@pytest.mark.core
@pytest.mark.capacity(16)
def test_mixed_work(site):
    """Large and small, listings and errors, kept and closed connections, all at the same time."""
    failures = []

    def client(seed):
        rng = random.Random(seed)
        try:
            wire = site.wire()
            for _ in range(25):
                size = rng.choice(SIZES)
                kind = rng.randrange(5)
                if kind == 0:
                    assert wire.ask("/odd/").status == 200
                elif kind == 1:
                    assert wire.ask(f"/missing/{seed}").status == 404
                elif kind == 2:
                    wire.send(request(f"/size/{size}.bin") * 3)
                    for _ in range(3):
                        assert wire.reply().body == content(size, size)
                elif kind == 3:
                    wire.close()
                    wire = site.wire()
                else:
                    assert wire.ask(f"/size/{size}.bin").body == content(size, size)
            wire.close()
        except Exception as error:  # the test fails with it
            failures.append((seed, error))
    threads = [threading.Thread(target=client, args=(seed,), daemon=True) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
        assert not thread.is_alive()
    assert not failures


@pytest.mark.capacity(2)
def test_fairness(site):
    """A client that pipelines without end does not keep another from its answer."""
    stop = threading.Event()

    def greedy():
        with site.wire() as wire:
            sender = threading.Thread(target=pour, args=(wire,), daemon=True)
            sender.start()
            while not stop.is_set():
                wire.sock.recv(1 << 20)
            wire.sock.shutdown(socket.SHUT_RDWR)  # close alone would leave the sender waiting
            sender.join(30)

    def pour(wire):
        try:
            while not stop.is_set():
                wire.send(request("/size/65536.bin") * 50)
        except OSError:
            pass
    thread = threading.Thread(target=greedy, daemon=True)
    thread.start()
    with site.wire() as wire:
        for _ in range(50):
            assert wire.ask("/hello.txt").body == b"Hello, world\n"
    stop.set()
    thread.join(30)


# shows D08, N04, S16
def test_queue_of_clients(site):
    """However many clients the engine serves at once, all that wait in the queue are served in the
    end."""
    data = request("/hello.txt", fields=["Connection: close"])
    with selectors.DefaultSelector() as selector:
        for _ in range(60):
            wire = site.wire()
            wire.send(data)  # at once: one that says nothing gives its place up to those that wait
            selector.register(wire.sock, selectors.EVENT_READ, wire)
        while selector.get_map():
            ready = selector.select(60)
            assert ready, f"{len(selector.get_map())} clients wait for ever"
            for key, _ in ready:
                selector.unregister(key.fileobj)
                assert key.data.reply().body == b"Hello, world\n"
                key.data.end()
                key.data.close()
