# SPDX-License-Identifier: MIT
"""machine.py - what a result says of the machine it was measured on."""
import contextlib

from cost import commit, machine as describe  # noqa: F401


def check(_plan):
    return []


@contextlib.contextmanager
def settings(_wanted):
    yield {}
