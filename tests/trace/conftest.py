# SPDX-License-Identifier: MIT
"""The tests of rung trace: RUNG_TRACE names the program, RUNG_BIN the server, whose folder also holds the load generator."""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
pytest.register_assert_rewrite("words")
import aid  # noqa: E402 - found by the line above


@pytest.fixture(scope="session")
def lacking():
    """The program's reason why it cannot trace here, or None if it can."""
    with aid.Lies() as server:
        run = aid.trace("-d", "10ms", server.port)
    return None if run.status == aid.DONE else run.err.strip()


@pytest.fixture
def traced(lacking):
    """Skips the test where the kernel or the rights do not allow tracing."""
    if lacking:
        pytest.skip(lacking)
