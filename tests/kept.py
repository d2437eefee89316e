# SPDX-License-Identifier: MIT
"""kept.py - results that are kept in the tree as rows of JSON, each replaced by a later one of the same key."""
import fcntl
import json
import os


def load(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return json.load(file)["rows"]


def replace(path, new, key, order):
    """key, order: functions of a row.  Two runs may end at once."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        rows = [one for one in (json.loads(text)["rows"] if text else []) if key(one) != key(new)] + [new]
        rows.sort(key=order)
        file.truncate(0)
        file.write(json.dumps({"version": 1, "rows": rows}, indent=1) + "\n")
