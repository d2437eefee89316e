# SPDX-License-Identifier: MIT
"""The memory of all listings together has a limit, and the share of a killed process is released."""
import contextlib
import os
import signal

import pytest
from lib import server as lib
from lib.client import request
from lib.server import wait_for
from lib.trees import write
from rig import lives

LIMIT = 128 << 20           # SITE_LISTINGS_BYTES_MAX
NAMES, LENGTH = 20_000, 250
EACH = NAMES * (LENGTH + 40)
READERS = 8                 # each reads another listing
ROUNDS = LIMIT // (READERS * EACH) + 2
KINDS = [pytest.param(("--workers", 2, "--workers-as", "process"), id="workers",
                      marks=[pytest.mark.processes, pytest.mark.any_engine("the supervisor releases the share")])]
if lib.engine_row()["forks"]:
    KINDS.append(pytest.param((), id="children"))

pytestmark = pytest.mark.userspace("processes that can be killed")


@pytest.fixture
def root(wide_tree):
    write(f"{wide_tree}/hello.txt", b"Hello, world\n")
    os.mkdir(f"{wide_tree}/many")
    folder = os.open(f"{wide_tree}/many", os.O_RDONLY)
    for i in range(NAMES):
        os.close(os.open(f"{i * 7919 % NAMES:05}-abcdefgh".ljust(LENGTH, "-"), os.O_CREAT, 0o644, dir_fd=folder))
    os.close(folder)
    return wide_tree


def readers(server, wires):
    """Clients that have received the first bytes of a sorted listing and read no more."""
    for _, letter in zip(range(READERS), "abcdefgh"):
        wire = wires.enter_context(server.wire(rcvbuf=4096))
        wire.send(request(f"/many/?format=json&filter={letter}"))
        assert wire.head().status == 200
        wire.take(4096)


@pytest.mark.long
@pytest.mark.capacity(2 * READERS)
@pytest.mark.parametrize("options", KINDS)
def test_killed_ones_give_back(start, root, options):
    server = start(root, "--send-timeout", "10m", *options)
    for _ in range(ROUNDS):
        with contextlib.ExitStack() as wires:
            readers(server, wires)
            pids = server.pids()[1:]  # a killed worker's own children end a moment after it
            for pid in lib.children(server.pid):
                os.kill(pid, signal.SIGKILL)
            wait_for(lambda: not any(map(lives, pids)), "all are gone")  # pylint: disable=W0640
    assert b'"sorted":true' in server.ask("/many/?format=json", fields=["Connection: close"]).body
    server.process.terminate()
    server.finish()
