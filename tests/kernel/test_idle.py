# SPDX-License-Identifier: MIT
"""Fifty thousand silent clients: they block no other client, cost no thread and no time, and end when the module is unloaded.

In a guest of its own, whose allocator keeps no records, because memory is measured here.
"""
import resource
import select
import socket
import time

import left
import pytest
from lib import module
from lib.client import request
from lib.served import wait_for
from test_crowd import HELLO, PATIENT, busy_s

MANY = 50_000
A_SOURCE = 10_000   # connections from one address: a third of its ports, so that a free one is found soon
BATCH = 500         # fewer than the listener's queue holds
SPARE = 1000        # descriptors
BYTES_MAX = 16_384  # for a connection, both of its ends, the client's file and the kernel's tables included
UNLOADED_S = 60     # of an emulated machine
TOLD_S = 30         # a FIN is sent again and again, after 200 ms and twice as long each time

pytestmark = pytest.mark.skipif(module.MODEL in module.BLOCKING, reason="it has a worker or a thread for each")


def memory_bytes():
    with open("/proc/meminfo", encoding="ascii") as file:
        rows = {line.split(":")[0]: int(line.split()[1]) << 10 for line in file}
    return rows["MemTotal"] - rows["MemFree"] - rows["Buffers"] - rows["Cached"]


def arrive(server):
    """Opens all connections; every second client asks once before it falls silent."""
    sockets = []
    while len(sockets) < MANY:
        batch = []
        for number in range(len(sockets), len(sockets) + BATCH):
            sock = socket.socket()
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_BIND_ADDRESS_NO_PORT, 1)
            sock.bind((f"127.0.0.{2 + number // A_SOURCE}", 0))
            sock.connect(server.address)
            batch.append(sock)
        for sock in batch[::2]:
            sock.sendall(request("/hello.txt"))
        for sock in batch[::2]:
            assert sock.recv(4096).endswith(HELLO)
        sockets += batch
    return sockets


def told(sock):
    """Requires that the client sees the server's end."""
    try:
        assert sock.recv(1) == b""
    except ConnectionResetError:
        pass


def untold(crowd):
    """Clients that see no end within TOLD_S."""
    waiting, poll = {sock.fileno(): sock for sock in crowd}, select.poll()
    for fd in waiting:
        poll.register(fd, select.POLLIN)
    end = time.monotonic() + TOLD_S
    while waiting and (left_s := end - time.monotonic()) > 0:
        for fd, _ in poll.poll(left_s * 1e3):
            poll.unregister(fd)
            told(waiting.pop(fd))
    return list(waiting.values())


@pytest.mark.timeout(1200)
# shows D03, E21, K25
def test_fifty_thousand(start, site, record_property):
    resource.setrlimit(resource.RLIMIT_NOFILE, (MANY + SPARE, MANY + SPARE))
    server = start(site, *PATIENT, "--backlog", "4096")
    server.ask("/hello.txt")
    before, began = memory_bytes(), time.monotonic()
    crowd = arrive(server)
    wait_for(lambda: server.stats()["open"] == MANY, "all are accepted")
    came_s = time.monotonic() - began
    each = (memory_bytes() - before) / MANY
    asks = []
    for _ in range(20):
        asked = time.monotonic()
        assert server.ask("/hello.txt").body == HELLO
        asks.append(time.monotonic() - asked)
    assert len(left.threads()) <= 4, "threads for connections"
    time.sleep(1)
    alone = busy_s()
    time.sleep(3)
    assert busy_s() - alone < 0.5, "spins"
    for sock in crowd[::MANY // 100 + 1]:  # from anywhere in the crowd
        sock.sendall(request("/hello.txt"))
        assert sock.recv(4096).endswith(HELLO)
    began = time.monotonic()
    server.kill()
    took = time.monotonic() - began
    unaware = len(untold(crowd))
    for sock in crowd:
        sock.close()
    record_property("fifty thousand", f"came in {came_s:.0f} s, {each:.0f} bytes each, a new client's answer "
                                      f"{sorted(asks)[10] * 1e3:.1f} ms (worst {max(asks) * 1e3:.1f}), unloaded in "
                                      f"{took:.1f} s (emulated), {unaware} not told")
    assert each < BYTES_MAX and max(asks) < 2 and took < UNLOADED_S and not unaware
