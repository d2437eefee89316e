# SPDX-License-Identifier: MIT
"""The tests of lab/: its modules are found beside it, and what it measures is RUNG_BIN."""
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "lab"))
