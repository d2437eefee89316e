# SPDX-License-Identifier: MIT
"""docs/course.md refers only to things that exist: files, experiments, options, headings, targets of make."""
import os
import re
import subprocess

from conftest import TOP

BIN = os.path.join(TOP, os.environ.get("RUNG_BUILD", "build"), "debug")


def text_of(path):
    with open(f"{TOP}/{path}", encoding="utf-8") as file:
        return file.read()


PAGE = text_of("docs/course.md")


def said(*argv):
    return subprocess.run([f"{BIN}/rung", *argv], cwd=TOP, capture_output=True, text=True, check=True).stdout


def headings(path):
    """The anchors of a page's headings, as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in re.findall(r"(?m)^#+ (.*)$", text_of(path))}


def test_files():
    found = re.findall(r"`((?:core|kernel|server|engines|base|lab|tests|scripts)/[\w/.]+)`", PAGE)
    assert len(found) > 50 and [one for one in found if not os.path.exists(f"{TOP}/{one}")] == []


def test_pages():
    found = re.findall(r"\]\(([\w/.-]+\.md)(?:#([\w-]+))?\)", PAGE)
    assert len(found) > 20 and [one for one in found if one[1] and one[1] not in headings(f"docs/{one[0]}")] == []
    assert all(os.path.exists(f"{TOP}/docs/{path}") for path, _ in found)


def test_experiments():
    known = {line.split()[0] for line in said("lab", "list").splitlines()}
    found = {word for words in re.findall(r"`rung lab run ([a-z -]+)`", PAGE) for word in words.split()}
    assert len(found) > 25 and found - known == set()


def test_options():
    known = said("serve", "--help-all") + said("load", "--help") + said("trace", "--help") + said("trace", "kernel", "--help")
    found = set(re.findall(r"(--[a-z][a-z-]+)", PAGE)) - {"--client", "--address"}  # those are the lab's
    assert found and [one for one in found if one not in known] == []


def test_targets():
    found = re.findall(r"`make ([\w-]+)[ `]", PAGE)
    assert found and [one for one in found if not re.search(rf"(?m)^{one}:", text_of("Makefile"))] == []
