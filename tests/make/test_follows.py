# SPDX-License-Identifier: MIT
"""scripts/follows says which Chinese pages are behind, and refuses those that do not say what they follow."""
import os
import shutil
import subprocess
import sys

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture
def tree(tmp_path):
    """A repository with the script, an English page and the two Chinese ones; runs the script."""
    for folder in ("scripts", "docs/zh-TW"):
        os.makedirs(tmp_path / folder)
    shutil.copy(f"{TOP}/scripts/follows", tmp_path / "scripts/follows")

    def git(*args):
        who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
        return subprocess.run(["git", *args], cwd=tmp_path, check=True, text=True, capture_output=True, env={**os.environ, **who}).stdout

    def change(text):
        (tmp_path / "docs/page.md").write_text(text)
        git("add", "docs/page.md")
        git("commit", "-q", "-m", text)
        return git("rev-parse", "--short", "HEAD").strip()

    def follows(mark):
        for page in ("README.zh-TW.md", "docs/zh-TW/page.md"):
            (tmp_path / page).write_text(f"# 頁\n{mark}\n")
        done = subprocess.run([sys.executable, "scripts/follows"], cwd=tmp_path, text=True, capture_output=True, check=False)
        return done.returncode, done.stdout

    git("init", "-q")
    return change, follows


def test_a_page_that_is_behind_is_reported(tree):
    change, follows = tree
    first = change("one")
    mark = f"<!-- follows docs/page.md {first} -->"
    assert follows(mark) == (0, "2 pages, none behind\n")
    change("two")
    status, said = follows(mark)
    assert status == 77 and f"docs/zh-TW/page.md follows docs/page.md as of {first}: 1 change behind" in said
    assert said.endswith("2 of 2 Chinese pages are behind: scripts/follows names them\n")


@pytest.mark.parametrize("mark, words", [("", "does not say which page"), ("<!-- follows docs/none.md 1234567 -->", "is not there")])
def test_a_page_must_say_what_it_follows(tree, mark, words):
    change, follows = tree
    change("one")
    status, said = follows(mark)
    assert status == 1 and words in said


def test_a_commit_that_a_shallow_clone_lacks(tree):
    change, follows = tree
    change("one")
    status, said = follows("<!-- follows docs/page.md 1234567 -->")
    assert status == 77 and "which this clone does not have" in said


def test_without_its_history(tree, tmp_path):
    change, follows = tree
    first = change("one")
    shutil.rmtree(tmp_path / ".git")
    status, said = follows(f"<!-- follows docs/page.md {first} -->")
    assert status == 77 and said == "whether a page is behind is not known: this is no clone, or there is no git\n"
