# SPDX-License-Identifier: MIT
"""kind_logged.py - kind logged: kind load, where LOG in a target's options is a file.  Its lines are counted
afterwards, because a server that should log but does not would be the fastest.
"""
import os

import measures
from rig import Broken


def measure(context, target, scenario, seconds):
    path = os.path.join(context.folder, "log")
    options = target.get("options", "")
    with open(path, "wb"):
        pass  # a cell before this one may have failed, and its lines are not ours
    found = measures.load(context, {**target, "options": options.replace("LOG", path)}, scenario, seconds)
    if "LOG" in options:
        with open(path, "rb") as file:
            lines = sum(1 for _ in file)
        os.unlink(path)
        if lines < found["figures"]["per_second"] * seconds:
            raise Broken(f"{lines} lines were logged, and more requests answered")
    return found
