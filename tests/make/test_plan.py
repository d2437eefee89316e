# SPDX-License-Identifier: MIT
"""`make check-all` runs each wire test on each engine, or on two of them where the engine makes no difference; `make check` runs
each on one engine, and the core cases on most."""
import ast
import glob
import itertools
import json
import os
import re
import subprocess

import layers
import plan
import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MARKS = ("any_engine", "core", "further", "long", "processes")  # a layer may choose by these
# Names by which a test asks which engine there is, or is skipped where the engine serves too few connections.
ASKS_ENGINE = {"ENGINE", "engine_row", "is_loop", "workers_may_be_threads", "capacity", "one_at_a_time"}


def engines_of(marks, wanted_by):
    """The engines of the release build whose layer in that plan runs a test with these marks."""
    found = set()
    for _, plans, job in plan.plan():
        engine, mode, wanted = getattr(job, "whole", None) or ("", "", "")
        if wanted_by in plans and mode == "release" and eval(wanted or "True", {name: name in marks for name in MARKS}):
            found.add(engine)
    return found


@pytest.mark.parametrize("marks", [marks for count in range(len(MARKS) + 1) for marks in itertools.combinations(MARKS, count)])
def test_each_wire_test_is_in_the_plans(marks):
    wanted = plan.IN_FULL if "any_engine" in marks else layers.engine_names()
    assert engines_of(marks, "all") == set(wanted)
    assert engines_of(marks, "check") & {"uring"}
    if "core" in marks and not {"any_engine", "further", "long"} & set(marks):
        assert engines_of(marks, "check") == set(wanted) - set(plan.LIKE_SELECT)


def test_each_engine_is_in_check():
    for engine in layers.engine_names():
        assert [name for name, plans, _ in plan.plan() if "check" in plans and re.match(rf"wire {engine}( core| short)?$", name)], engine


def test_each_arrangement_is_in_the_plans():
    names = [name for name, _, _ in plan.plan()]
    assert len(set(names)) == len(names)
    for engine, name in plan.CHECK_ARRANGED:
        assert [plans for found, plans, _ in plan.plan() if found == f"wire {engine} {name}"] == [("check", "all")]


def test_the_two_differ():
    """One of the engines that run everything may block, and the other never does."""
    rung = os.path.join(os.environ["RUNG_BUILD"], "debug", "rung")
    out = subprocess.run([rung, "engines", "--json"], stdout=subprocess.PIPE, timeout=60, check=True).stdout
    assert {row["may_block"] for row in json.loads(out) if row["name"] in plan.IN_FULL} == {True, False}


def marked(tree):
    """The test functions of a file that are marked any_engine, themselves or by the file."""
    named = [node.value for node in tree.body if isinstance(node, ast.Assign) and names(node.targets[0]) == {"pytestmark"}]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            if "any_engine" in "".join(map(ast.unparse, named + node.decorator_list)):
                yield node


def names(node):
    return {part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else part.arg
            for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute, ast.arg))}


def test_marked_ones_do_not_ask_which_engine():
    """Otherwise a test might be skipped on the two, and run nowhere."""
    count = 0
    for path in sorted(glob.glob(f"{TOP}/tests/wire/test_*.py")):
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        for node in marked(tree):
            count += 1
            assert not names(node) & ASKS_ENGINE, f"{os.path.basename(path)} {node.name}"
    assert count > 100
