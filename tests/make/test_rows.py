# SPDX-License-Identifier: MIT
"""The page of rows (scripts/rows): marks become links, and a row without a mark is reported."""
import importlib.machinery
import importlib.util
import os

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROW = """[[row]]
id = "K01"
title = "It serves"
of = ["khttpd notes"]
"""


@pytest.fixture
def rows(tmp_path, monkeypatch, capsys):
    """Runs the script on a tree of given files, with its options: (status, output, page)."""
    loader = importlib.machinery.SourceFileLoader("rows", f"{TOP}/scripts/rows")
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("rows", loader))
    loader.exec_module(module)
    before = os.getcwd()

    def run(files, *options):
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        (tmp_path / "docs").mkdir(exist_ok=True)
        monkeypatch.setattr("sys.argv", ["rows", *options])
        with pytest.raises(SystemExit) as ended:
            module.main(str(tmp_path))
        page = tmp_path / "docs/rows.md"
        return ended.value.code, capsys.readouterr().out, page.read_text() if page.exists() else ""
    yield run
    os.chdir(before)


@pytest.mark.parametrize("path, text, link", [
    ("tests/wire/test_a.py", "import os\n\n\n\n\n# shows K01\ndef test_it():\n    pass\n", "[test_a.py](../tests/wire/test_a.py) test_it"),
    ("tests/wire/test_a.py", "\n\n\n\n@mark\n# shows K01\ndef test_it():\n", "[test_a.py](../tests/wire/test_a.py) test_it"),
    ("tests/wire/test_a.py", "# SPDX\n\"\"\"Words.\"\"\"\n# shows K01\nimport os\ndef test_it():\n", "[test_a.py](../tests/wire/test_a.py)"),
    ("tests/unit/a.c", "/* a */\n\n\n\n/* shows K01 */\nstatic void it_is_so(void **state)\n{\n}\n", "[a.c](../tests/unit/a.c) it_is_so"),
    ("docs/a.md", "# A page\n\n## Why, then?\n<!-- shows K01 -->\n", "[Why, then?](a.md#why-then)"),
    ("lab/experiments/a.toml", "# SPDX\n# shows K01\n", "[a](../lab/experiments/a.toml), no result kept")])
def test_a_mark_becomes_a_link(rows, path, text, link):
    status, said, page = rows({"tests/rows.toml": ROW, path: text})
    assert (status, said) == (0, "docs/rows.md: renewed\n")
    assert f"| K01 | It serves | khttpd notes | {link} |\n" in page and "**1 of 1 rows are shown; of 0 something is missing; of 0 a part cannot" in page


def test_verdicts_of_an_experiment(rows):
    page = rows({"tests/rows.toml": ROW, "lab/experiments/a.toml": "\n# shows K01\n", "docs/lab/a.md": "# A\n",
                 "docs/lab/README.md": "| [A](a.md) | Why? | 3 confirmed, 1 contradicted | 2026 |\n"})[2]
    assert "| [a](lab/a.md): 3 confirmed, 1 contradicted |" in page


def test_nothing_shows_it(rows):
    status, said, _ = rows({"tests/rows.toml": ROW})
    assert status == 1 and "nothing shows K01 (It serves), and it does not say what is missing" in said
    status, said, page = rows({"tests/rows.toml": ROW + 'missing = "All of it."\n'})
    assert status == 0 and "| **Missing:** All of it. |" in page and "**0 of 1 rows are shown; of 1 something is missing; of 0 a part cannot" in page
    status, said, page = rows({"tests/rows.toml": ROW + 'cannot = "It needs four processors."\n'})
    assert status == 0 and "| **Cannot be shown here:** It needs four processors. |" in page
    assert "**0 of 1 rows are shown; of 0 something is missing; of 1 a part cannot" in page


def test_a_row_that_there_is_not(rows):
    status, said, _ = rows({"tests/rows.toml": ROW, "tests/a.py": "# shows K01, K02\n"})
    assert status == 1 and "there is no row K02 in tests/rows.toml" in said


def test_the_same_name_twice(rows):
    status, said, _ = rows({"tests/rows.toml": ROW + ROW, "tests/a.py": "# shows K01\n"})
    assert status == 1 and "two rows are called K01" in said


def test_a_page_that_is_old(rows):
    files = {"tests/rows.toml": ROW, "tests/a.py": "# shows K01\n"}
    assert rows(files, "--check")[:2] == (1, "docs/rows.md is not up to date: make docs\n")
    assert rows(files)[0] == 0 and rows(files, "--check")[:2] == (0, "")
