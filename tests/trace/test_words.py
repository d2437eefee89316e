# SPDX-License-Identifier: MIT
"""Help, manual, completion and docs/trace.md list the same options and the same stages."""
from aid import STAGES, trace
from words import TOP, Words


class TestWords(Words):
    name, least, run = "trace", 10, staticmethod(trace)

    def test_every_stage_is_explained(self):
        manual = " ".join(self.said("--man").split())
        with open(f"{TOP}/docs/trace.md", encoding="utf-8") as file:
            page = file.read()
        for stage in STAGES:
            assert f"; {stage} (" in manual and f"\n| `{stage}` | " in page, stage
