# SPDX-License-Identifier: MIT
"""How tests/models.py reads a model's head, the functions that it names, and the output of Spin's verifier."""
import os
import sys

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests"))
import models  # noqa: E402 - found by the line above

HEAD = """/* a.pml - a sample.
 *
 * spin:planted FLUSH !(gone[l])  it forgets one
 * spin:ltl ENDS
 * spin:also TURN=3
 */
/* kernel/kserve.c context_turn() and
 * context_work(), kernel/kopen.c none_such(): drain_workqueue() */
"""
SAID = """pan:1: {0} (at depth 9)
State-vector 120 byte, depth reached 203, errors: {1}
       57 states, stored
unreached in proctype lane
\ta.pml:9, state 4, "skip"
\ta.pml:12, state 7, "-end-"
"""


@pytest.fixture(name="model")
def sample(tmp_path, monkeypatch):
    monkeypatch.chdir(TOP)
    path = tmp_path / "a.pml"
    path.write_text(HEAD)
    return str(path)


def test_the_head_declares_the_searches(model):
    found = models.variants(model)
    assert [(one.name, one.expected, one.ltl) for one in found] == [
        ("", "", False), ("TURN=3", "", False), ("ENDS", "", True), ("FLUSH", "!(gone[l])", False)]


def test_a_function_that_is_gone_is_missed(model):
    assert models.named(HEAD) == [("kernel/kserve.c", "context_turn"), ("kernel/kserve.c", "context_work"),
                                  ("kernel/kopen.c", "none_such")]
    assert models.lost(model) == ["kernel/kopen.c none_such()"]
    assert not models.defined("int f(void);\n    f(1) {\n", "f") and models.defined("static int *f(int a,\n  int b)\n{\n", "f")


def test_a_planted_bug_must_be_found_and_no_other():
    planted, whole = models.Variant("a.pml", "FLUSH", "!(gone[l])"), models.Variant("a.pml")
    found = models.read(SAID.format("assertion violated !(gone[l])", 1), 1)
    assert models.fault(planted, found) == "" and "gone" in models.fault(whole, found)
    assert "not found" in models.fault(planted, models.read(SAID.format("invalid end state", 1), 1))
    clean = models.read(SAID.format("", 0).partition("\n")[2], 1)
    assert "not found" in models.fault(planted, clean) and 'state 4' in models.fault(whole, clean)
    assert "-end-" not in models.fault(whole, clean)


def test_an_incomplete_search_proves_nothing():
    assert models.read("error: max search depth too small\n" + SAID.format("", 0), 1).broken
    assert models.read("pan: out of memory\n", 1).broken
