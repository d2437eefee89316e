# SPDX-License-Identifier: MIT
"""Memory that cannot be had: the n-th allocation fails, for every n, while a module is loaded; and now and then while
it serves.  Only a kernel with fault injection can do that (scripts/debug-kernel)."""
import errno
import os
import threading

import left
import pytest
from lib import klog, module
from lib.served import wait_for

FAULTS = [f"/sys/kernel/debug/{what}" for what in ("failslab", "fail_page_alloc")]
HELLO = b"Hello, world\n"
# The last three are the network's words for it: no socket, no buffer, no entry in the table of ports.
REFUSALS = (errno.ENOMEM, errno.ENFILE, errno.ENOBUFS, errno.EADDRINUSE)
MOST = 2000  # allocations of one loading, far more than there are
pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/fail-nth"),
                                reason="this kernel cannot make allocations fail")
# Much is said of memory that cannot be had, by the kernel and by us.  Nobody is alarmed.
TOLD = f"^(?!.*({klog.ALARM.pattern}))"
SLOW = float(os.environ.get("RUNG_SLOW") or 1)


def put(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))


def nth():
    """The file that makes this thread's n-th allocation from now fail.  It reads 0 when that has happened."""
    return f"/proc/self/task/{threading.get_native_id()}/fail-nth"


def ours():
    """Where code of our modules lies: from the first to the end of the last."""
    with open("/proc/modules", encoding="ascii") as file:
        rows = [line.split() for line in file if line.startswith("rung_")]
    return min(int(row[5], 16) for row in rows), max(int(row[5], 16) + int(row[1]) for row in rows)


@pytest.fixture
def failing():
    for fault in FAULTS:
        put(f"{fault}/ignore-gfp-wait", "N")
        put(f"{fault}/verbose", 0)  # a trace for each would run over the log
    yield
    put(nth(), 0)
    for fault in FAULTS:
        put(f"{fault}/probability", 0)


@pytest.mark.usefixtures("failing")
def test_every_allocation_of_loading(kernel, site):
    """It fails, and says why, or does without; never half."""
    kernel.expects(TOLD)
    module.core()
    refused = 0
    for number in range(1, MOST):
        given = {"root": site, "port": 0, **module.ARGS}
        put(nth(), number)
        try:
            name = module.load("rung_http", given)
        except OSError as error:
            assert error.errno in REFUSALS, (number, error)
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
@pytest.mark.parametrize("percent", [1, 10])
def test_now_and_then_while_it_serves(kernel, start, site, percent):
    """Of what is asked for in our name, whoever asks.  An answer is right or the connection ends, and nobody waits for
    ever; afterwards all is as before."""
    kernel.expects(TOLD)
    server = start(site)
    sizes = {target: len(server.ask(target).body) for target in ("/hello.txt", "/list/", "/big.bin")}
    for fault in FAULTS:
        for name, value in zip(("require-start", "require-end"), ours()):
            put(f"{fault}/{name}", value)
        put(f"{fault}/times", -1)
        put(f"{fault}/probability", percent)
    put(f"{FAULTS[1]}/min-order", 0)
    right = cut = 0
    for number in range(600):
        target = list(sizes)[number % len(sizes)]
        try:
            with server.wire(timeout=10 * SLOW) as wire:
                reply = wire.ask(target)
        except TimeoutError as error:
            raise AssertionError(f"{target} is neither answered nor cut off") from error
        except OSError:
            cut += 1
            continue
        except AssertionError as error:
            if "stream ended" not in str(error):
                raise
            cut += 1
            continue
        assert reply.status in (200, 500, 503)
        assert reply.status != 200 or len(reply.body) == sizes[target]
        right += reply.status == 200
    for fault in FAULTS:
        put(f"{fault}/probability", 0)
    assert right > 50 and right < 600
    assert server.ask("/hello.txt").body == HELLO
    wait_for(lambda: server.stats()["open"] == 0, "all have gone")
