# SPDX-License-Identifier: MIT
"""words.py - help, manual, completion and page of a tool list the same options: tests for any tool that has an aid
module with its run, and a folder of tests.

    class TestWords(Words):
        name, least, run = "load", 25, staticmethod(load)
"""
import os
import re
import shutil
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


WIDTH = 80  # columns of a terminal


def continued(brief, everything):
    """Help is no wider than a terminal; the meaning of an option on the first screen fits on its line."""
    for line in (brief + everything).splitlines():
        assert len(line) <= WIDTH, line
    assert not re.search(r"(?m)^ {28}\S.*", brief), re.findall(r"(?m)^ {28}\S.*", brief)
    assert re.search(r"(?m)^ {28}\S.*", everything)


class Words:
    name = least = run = None  # the tool, the least number of options it has, what runs it: run(argument).out

    def said(self, what):
        return self.run(what).out

    def test_every_option_is_everywhere(self):
        table = [re.split(r"(?<!\\)\|", line)[1] for line in self.said("--options").splitlines()[2:]]
        rows = re.findall(r"--([a-z0-9-]+)", "\n".join(table))
        brief, everything = self.said("--help"), self.said("--help-all")
        completion, zsh, fish = self.said("--completion"), self.said("--completion=zsh"), self.said("--completion=fish")
        assert completion == self.said("--completion=bash")
        manual = self.said("--man").replace("\\-", "-")
        assert len(rows) >= self.least
        for row in rows:
            for text in (brief, everything, completion, zsh):
                assert re.search(rf"--{row}(?![\w-])", text), row
            assert re.search(rf" -l {row} ", fish), row
            assert re.search(rf"(?m)^\.It .*Fl -{row}(?![\w-])", manual), row
            assert f"RUNG_{self.name}_{row}".upper().replace("-", "_") + " " in manual.replace("\n", " "), row

    def test_help_fits_a_terminal(self):
        continued(self.said("--help"), self.said("--help-all"))

    def test_the_page_has_the_table(self):
        with open(f"{TOP}/docs/{self.name}.md", encoding="utf-8") as file:
            assert self.said("--options").strip() in file.read()

    def test_manual_is_clean(self, tmp_path):
        if not shutil.which("mandoc"):
            pytest.skip("mandoc is not installed")
        page = tmp_path / f"rung-{self.name}.1"
        page.write_text(self.said("--man"))
        lint = subprocess.run(["mandoc", "-Tlint", str(page)], stdout=subprocess.PIPE, text=True, check=False, timeout=60)
        assert lint.stdout == ""
