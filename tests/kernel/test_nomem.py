# SPDX-License-Identifier: MIT
"""Memory that cannot be had: the n-th allocation fails, for every n, while a module is loaded; and now and then while
it serves.  Only a kernel with fault injection can do that (scripts/debug-kernel)."""
import errno
import os
import threading

import left
import pytest
from lib import module
from lib.client import request
from lib.served import wait_for

FAILSLAB = "/sys/kernel/debug/failslab"
HELLO = b"Hello, world\n"
# What a connection is made of, and what it says: others than who serves and who asks have little to do with these.
SOCKETS = ("TCP", "sock_inode_cache", "skbuff_fclone_cache")
MOST = 2000  # allocations of one loading, far more than there are
pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/fail-nth"),
                                reason="this kernel cannot make allocations fail")
# What fault injection says of each failure that it makes, and what we say of it.
TOLD = "FAULT_INJECTION|rung_|name failslab|Call Trace|CPU:|Hardware|</?TASK>|R[A-Z0-9]+:|^ |Code:|page allocation"


def put(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))


def nth():
    """The file that makes this thread's n-th allocation from now fail.  It reads 0 when that has happened."""
    return f"/proc/self/task/{threading.get_native_id()}/fail-nth"


@pytest.fixture
def failing():
    put(f"{FAILSLAB}/ignore-gfp-wait", "N")
    put("/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N")
    yield
    put(nth(), 0)
    put(f"{FAILSLAB}/probability", 0)
    put(f"{FAILSLAB}/cache-filter", "N")


@pytest.mark.usefixtures("failing")
def test_every_allocation_of_loading(kernel, site):
    """It fails with ENOMEM, or does without; never half."""
    kernel.expects(TOLD)
    module.core()
    refused = 0
    for number in range(1, MOST):
        given = {"root": site, "port": 0, **module.ARGS}
        put(nth(), number)
        try:
            name = module.load("rung_http", given)
        except OSError as error:
            assert error.errno == errno.ENOMEM, (number, error)
            refused += 1
            name = None
        with open(nth(), encoding="ascii") as file:
            spent = int(file.read()) == 0
        put(nth(), 0)
        if name:
            module.unload(name)
        if not spent:
            break
    assert refused > 10 and number < MOST - 1
    assert left.threads() == []


@pytest.mark.usefixtures("failing")
def test_now_and_then_while_it_serves(kernel, start, site):
    """An answer is right or the connection ends; afterwards all is as before."""
    kernel.expects(TOLD)
    server = start(site)
    for cache in SOCKETS:
        put(f"/sys/kernel/slab/{cache}/failslab", 1)
    put(f"{FAILSLAB}/cache-filter", "Y")
    put(f"{FAILSLAB}/times", -1)
    put(f"{FAILSLAB}/probability", 10)
    right = cut = 0
    for number in range(600):
        target = ("/hello.txt", "/list/", "/big.bin")[number % 3]
        try:
            with server.wire() as wire:
                wire.send(request(target))
                reply = wire.reply()
                assert reply.status in (200, 500, 503)
                right += reply.status == 200
        except (OSError, AssertionError):
            cut += 1
    put(f"{FAILSLAB}/probability", 0)
    assert right > 50 and cut + right <= 600
    assert server.ask("/hello.txt").body == HELLO
    wait_for(lambda: server.stats()["open"] == 0, "all have gone")
