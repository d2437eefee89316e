# SPDX-License-Identifier: MIT
"""Short of memory or descriptors, every loop answers alike, with the requested file or 503, and none of its clients is
left without an answer."""
import collections
import re
import resource
import time

import pytest
from lib import crowd
from lib.client import request
from lib.secured import EVERYWHERE
from lib.server import engine_row, is_loop, wait_for
from lib.trees import write

# One thread, one heap, and no stack for each connection: the limit hits the same memory everywhere.
LOOP = is_loop() and not engine_row()["stack_bytes"]
CLIENTS = 100
SPARE = 512 << 10  # bytes beyond what the server has at rest: half a dozen answers at once
HELLO = b"Hello, world\n"

pytestmark = [pytest.mark.userspace("limits of its own"),
              pytest.mark.skipif(not LOOP, reason="its threads and stacks are short of memory first"),
              pytest.mark.skipif(EVERYWHERE, reason="a handshake that gets no memory or descriptor has no answer")]


def data_bytes(pid):
    """Bytes that RLIMIT_DATA counts."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"^VmData:\s+(\d+) kB", file.read(), re.M)[1]) * 1024


def outcomes(server):
    """CLIENTS send a request at once: how many got which status."""
    wires = [server.wire() for _ in range(CLIENTS)]
    for wire in wires:
        wire.send(request("/hello.txt", fields=["Connection: close"]))
    counts = collections.Counter()
    for wire in wires:
        reply = wire.reply()
        assert reply.status == 503 or reply.body == HELLO
        counts[reply.status] += 1
        wire.close()
    return counts


@pytest.fixture
def root(tree):
    write(f"{tree}/hello.txt", HELLO)
    return tree


@pytest.mark.core
@pytest.mark.skipif(crowd.sanitized(), reason="a sanitizer that gets no memory ends the program")
# shows S31
def test_little_memory(start, root):
    server = start(root)
    assert server.ask("/hello.txt", fields=["Connection: close"]).body == HELLO
    limit = data_bytes(server.pid) + SPARE
    resource.prlimit(server.pid, resource.RLIMIT_DATA, (limit, limit))
    for _ in range(5):
        counts = outcomes(server)
        assert counts[200] > CLIENTS / 2, counts
    assert server.stats()["refused"] == 0


@pytest.mark.core
# shows S31
def test_few_descriptors(start, root):
    """When all descriptors are sockets and a file has to be opened, the answer is 503, until some are closed."""
    server = start(root, "--max-connections", "10000", "--head-timeout", "60s", files=32)
    wires = [server.wire() for _ in range(CLIENTS)]
    for wire in wires:
        wire.send(request("/hello.txt", fields=["Connection: close"]))
    for wire in wires:
        try:
            reply = wire.reply()
            assert reply.status == 503 or reply.body == HELLO
        except (ConnectionResetError, AssertionError) as error:  # silent for 40 ms while others waited
            assert isinstance(error, ConnectionResetError) or "stream ended within a line: b''" in str(error)
        wire.close()
    before = server.cpu_seconds()
    time.sleep(1)
    assert server.cpu_seconds() - before < 0.5, "spins"
    wait_for(lambda: server.ask("/hello.txt", fields=["Connection: close"]).status == 200, "a file can be opened again")
