# SPDX-License-Identifier: MIT
"""The tests of lab/.  They import the modules of lab/ and measure the binary that RUNG_BIN names."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(os.path.dirname(HERE)), "lab"), os.path.dirname(HERE)]


def pytest_configure(config):
    config.addinivalue_line("markers", "long: boots a guest; only -m long runs it")


def pytest_collection_modifyitems(config, items):
    if not config.option.markexpr:
        items[:] = [item for item in items if not item.get_closest_marker("long")]
