# SPDX-License-Identifier: MIT
"""The tests of rung drop: RUNG_DROP names the program, RUNG_DROP_THROUGH the way that it must take, RUNG_DROP_KO the
module's file if the module may be loaded and unloaded.

Each test is in a network namespace of its own: it holds no other sockets, and none of this machine's is at risk.
"""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
pytest.register_assert_rewrite("words")
import space  # noqa: E402 - found by the line above
from aid import Listener, drop  # noqa: E402


def pytest_sessionstart():
    """Runs the program once, because a guest loads it slowly and TIME-WAIT lasts only a minute."""
    drop("--help")


@pytest.fixture(autouse=True)
def own_space():
    if os.geteuid() != 0:
        pytest.skip("only root can make network namespaces here")
    try:
        with space.fresh():
            yield
    except PermissionError:
        pytest.skip("network namespaces cannot be made here")


@pytest.fixture
def there(own_space):  # pylint: disable=unused-argument
    """The pair of a socket that exists; all sockets must still be there at the end."""
    with Listener() as listener:
        listener.end(3)
        before = space.sockets()
        yield space.sockets("time-wait")[1].pair
        assert space.sockets() == before
