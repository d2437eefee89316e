# SPDX-License-Identifier: MIT
"""Help, manual, completion and docs/trace.md say the same options."""
from aid import trace
from words import Words


class TestWords(Words):
    name, least, run = "trace", 10, staticmethod(trace)
