# SPDX-License-Identifier: MIT
"""Fixtures of the tests that run inside a guest, alone on it: make check-kernel.

Never run these on a machine that matters: they load modules into its kernel, and mean to break it.  The folder of the
modules is RUNG_MODULES, and RUNG_ARGS are parameters for all of them, as for the wire tests.
"""
import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "wire")]

import left  # noqa: E402
import pytest  # noqa: E402
from lib import insmod, klog, module  # noqa: E402
from lib.trees import content, sparse, write  # noqa: E402

BIG = 4 << 20
GIANT = 1 << 30


def pytest_report_header():
    return f"modules: {module.FOLDER}, {module.MODEL}, Linux {os.uname().release}"


def has(what):
    return os.path.exists(f"{module.FOLDER}/{what}.ko")


@pytest.fixture(scope="session", autouse=True)
def strangers():
    """The leaks of other modules, as left.leaks() has them: they were there before ours."""
    if insmod.loaded() == ["rung_core"]:  # left by an earlier run
        insmod.unload("rung_core")
    assert insmod.loaded() == []
    return left.leaks()


@pytest.fixture(autouse=True)
def kernel():
    """The kernel must not complain during a test, unless the test expects() it."""
    log = klog.Log()
    log.expected = None

    def expects(pattern):
        log.expected = pattern
    log.expects = expects
    yield log
    said = log.complaints(log.expected)
    log.close()
    assert not said, "the kernel complains:\n" + "\n".join(said[:40])


@pytest.fixture(scope="module")
def one_processor():
    """For tests that trace.  The kernel patches its code with a breakpoint that it removes again, and the emulator's second
    processor runs into it afterwards, which no real processor does: Oops: int3, or it runs into it for ever (on 6.12 in most runs,
    on 6.1 in few)."""
    path = "/sys/devices/system/cpu/cpu1/online"
    alone = os.path.exists(path)
    if alone:
        with open(path, "w", encoding="ascii") as file:
            file.write("0")
    yield
    if alone:
        with open(path, "w", encoding="ascii") as file:
            file.write("1")


@pytest.fixture(scope="session")
def site():
    path = tempfile.mkdtemp(prefix="rung-kernel-")
    os.chmod(path, 0o755)
    write(f"{path}/hello.txt", b"Hello, world\n")
    write(f"{path}/big.bin", content("big", BIG))
    sparse(f"{path}/giant.bin", GIANT, {})
    os.makedirs(f"{path}/list")
    for number in range(20):
        write(f"{path}/list/{number}.txt", b"x")
    yield path
    shutil.rmtree(path)


@pytest.fixture
def start():
    """start(root, options...) -> a module that is unloaded at the end, whatever happened to it."""
    running = []

    def begin(*args, **options):
        running.append(module.Module(*args, **options))
        return running[-1]
    yield begin
    for one in running:
        one.kill()
