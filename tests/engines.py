# SPDX-License-Identifier: MIT
"""engines.py - the engines, from their sources: the list in engines/engine.h and the row that each file ends with.

For what has to know the engines before anything is built: the plan of the tests, the documents.  Others ask `rung engines
--json`; a test of tests/make compares the two.
"""
import os
import re
from typing import NamedTuple

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Engine(NamedTuple):
    name: str
    summary: str
    use: str
    model: str
    may_block: bool
    forks: bool
    thread_pool: bool
    capacity: str  # as written

    @property
    def serves(self):
        """Whether it has sockets."""
        return self.model != "none"

    @property
    def is_loop(self):
        """Whether one thread waits for all connections and serves them."""
        return self.serves and not self.may_block and not self.thread_pool

    @property
    def workers_may_be_threads(self):
        """Whether several threads of a process can each run it: it makes no threads or processes of its own for connections."""
        return self.serves and (not self.may_block or self.capacity == "1")


class Wrong(Exception):
    """A message for people: what the sources of an engine lack."""


def text_of(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return file.read()


def names():
    body = re.search(r"#define ENGINES\(X\)((?:.*\\\n)*.*)\n", text_of("engines/engine.h"))[1]
    return re.findall(r"X\((\w+)\)", body)


def engine(name):
    path = f"engines/{name}.c"
    if not os.path.exists(os.path.join(TOP, path)):
        raise Wrong(f"engines/engine.h lists {name}, and there is no {path}")
    row = re.search(rf"(?s)\bconst struct engine engine_{name} = \{{(.*?)\n\}};", text_of(path))
    if not row:
        raise Wrong(f"{path} has no 'const struct engine engine_{name} = {{', which engines/engine.h promises")
    members = dict(re.findall(r"\.(\w+)\s*=\s*((?:\"[^\"]*\"\s*)+|[^,]+),", row[1]))

    def text(member):
        return "".join(re.findall(r"\"([^\"]*)\"", members.get(member, "")))
    if lacking := [f".{member}" for member in ("summary", "use", "model", "run") if member not in members]:
        raise Wrong(f"{path}: engine_{name} does not set {', '.join(lacking)}")
    return Engine(name, text("summary"), text("use"), members["model"].removeprefix("ENGINE_").lower(),
                  *(members.get(flag) == "true" for flag in ("may_block", "forks", "thread_pool")),
                  members.get("capacity", "ENGINE_DESCRIPTORS"))


def rows():
    return [engine(name) for name in names()]
