# SPDX-License-Identifier: MIT
"""Fixtures of the wire tests. They run against one binary and one engine: RUNG_BIN, RUNG_ENGINE,
and RUNG_ARGS for another arrangement of workers.  RUNG_ENGINE=kernel: see lib/module.py."""
import os
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pytest  # noqa: E402
from lib import klog, server, trees  # noqa: E402

# Under nohup, SIGHUP is ignored, and the servers would inherit that; a signal with a handler gets its default in them.
signal.signal(signal.SIGHUP, lambda *_: None)
ROW_STEP = 8
LONG_STEP = 8


def pytest_report_header():
    return f"rung: {server.BIN}, engine {server.ENGINE}" + (f", {server.ARGS}" if server.ARGS else "")


def pytest_make_parametrize_id(val):
    """A short name for a case whose value may have a hundred kilobytes."""
    if isinstance(val, (str, bytes)) and len(val) > 80:
        short = val[:60] if isinstance(val, str) else val[:60].decode("latin-1")
        return short.encode("unicode_escape").decode() + f"... ({len(val)})"
    return None


def pytest_terminal_summary(terminalreporter):
    """The values that tests measured, whichever process ran them."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            terminalreporter.write_line(f"{name}: {text}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """In each table, the first row and then every ROW_STEP-th row are a sample: only those are core in a table marked core, and
    the others are marked further."""
    seen = {}
    for item in items:
        if hasattr(item, "callspec"):
            name = item.nodeid.partition("[")[0]
            if seen.setdefault(name, 0) % ROW_STEP:
                item.own_markers = [mark for mark in item.own_markers if mark.name != "core"]
                item.add_marker("further")
            seen[name] += 1
    items[:] = spread(items)


def spread(items):
    """Workers get runs of neighbouring tests, so tests marked long must be neither neighbours nor last: every
    LONG_STEP-th of them, then the ones after those, are spread evenly over the first half."""
    long = [item for item in items if item.get_closest_marker("long")]
    rest = [item for item in items if not item.get_closest_marker("long")]
    step, order = len(rest) // 2 // max(1, len(long)), []
    for number, item in enumerate(one for first in range(LONG_STEP) for one in long[first::LONG_STEP]):
        order += [item, *rest[number * step:(number + 1) * step]]
    return order + rest[len(long) * step:]


@pytest.fixture(scope="session")
def engine():
    row = server.engine_row()
    if not row["available"]:
        pytest.skip(f"engine {row['name']} cannot run here: {row['reason']}")
    return row


@pytest.fixture(autouse=True)
def enough(request, engine):
    """Skip a test that needs more connections at once than the engine serves."""
    needs = request.node.get_closest_marker("capacity")
    has = engine["capacity"] or 10000  # 0: as many as there are descriptors
    if needs and needs.args[0] > has:
        pytest.skip(f"needs {needs.args[0]} connections at once; engine {engine['name']} serves {has}")
    return has


@pytest.fixture(scope="session")
def kernel_log():
    """The log of this machine's kernel, if the kernel is under test."""
    log = klog.Log() if server.ENGINE == "kernel" else None
    yield log
    if log:
        log.close()


@pytest.fixture(autouse=True)
def kernel_is_silent(request, kernel_log):
    """No test may make the kernel complain, even if another test at the same time is to blame.  Also skips tests of
    things that a kernel does not have."""
    only = request.node.get_closest_marker("userspace")
    if kernel_log and only:
        pytest.skip(f"only a process has {only.args[0]}")
    yield
    if kernel_log:
        said = kernel_log.complaints()
        assert not said, "the kernel complains:\n" + "\n".join(said[:40])


def folder(where=None):
    path = tempfile.mkdtemp(prefix="rung-wire-", dir=where)
    os.chmod(path, 0o755)
    return path


@pytest.fixture(scope="session")
def standard():
    """The tree of trees.standard(); no test changes it."""
    path = folder()
    yield trees.grown(trees.standard(os.path.join(path, "tree")))
    os.chmod(f"{path}/tree/special/locked", 0o755)  # without root it could not be removed
    shutil.rmtree(path)


@pytest.fixture
def tree():
    """An empty folder of the test's own."""
    path = folder()
    yield path
    shutil.rmtree(path)


@pytest.fixture
def wide_tree():
    """A tree like the one above, but in memory, for thousands of names."""
    path = folder(trees.MEMORY)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def site(standard, engine):
    """One server of the standard tree for all tests that need nothing special of it."""
    one = server.Server(standard)
    yield one
    one.stop()


@pytest.fixture
def start(engine):
    """start(root, options...) -> a server of the test's own, stopped and judged at its end."""
    running = []

    def begin(*args, **options):
        running.append(server.Server(*args, **options))
        return running[-1]
    yield begin
    failures = []
    for one in running:
        try:
            one.stop()
        except AssertionError as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


@pytest.fixture
def wire(site):
    with site.wire() as one:
        yield one
