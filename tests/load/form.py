# SPDX-License-Identifier: MIT
"""The published schema of the output of rung load -o, and the parts of a result that do not fit it."""
import json
import os
import re

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(f"{TOP}/docs/load-schema.json", encoding="utf-8") as published:
    SCHEMA = json.load(published)


def read(text):
    """Parse a result as JSON; it must not contain NaN and must fit the schema."""
    def refuse(word):
        raise AssertionError(f"{word} is no JSON")
    value = json.loads(text, parse_constant=refuse)
    assert not list(complaints(SCHEMA, value, SCHEMA)), list(complaints(SCHEMA, value, SCHEMA))
    return value


def complaints(schema, value, root, where="$"):
    """The parts of the JSON that do not fit.  Supports only as much of JSON Schema as docs/load-schema.json uses."""
    known = {"$schema", "title", "description", "$defs", "$ref", "type", "properties", "required", "additionalProperties",
             "items", "enum", "const", "minimum", "pattern", "oneOf"}
    assert set(schema) <= known, f"{where}: {set(schema) - known} is not looked at"
    if "$ref" in schema:
        yield from complaints(root["$defs"][schema["$ref"].rpartition("/")[2]], value, root, where)
    if "oneOf" in schema:
        nearest, *others = sorted((list(complaints(one, value, root, where)) for one in schema["oneOf"]), key=len)
        yield from nearest
        if not all(others):
            yield f"{where}: it is two things at once"
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "number": (int, float), "integer": int,
             "null": type(None)}
    wanted = schema.get("type", [])
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if wanted and not any(isinstance(value, types[t]) and (t == "boolean" or not isinstance(value, bool)) for t in wanted):
        yield f"{where}: {value!r} is not {wanted}"
    if value is None:
        return
    if "enum" in schema and value not in schema["enum"] or "const" in schema and value != schema["const"]:
        yield f"{where}: {value!r}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{where}: {value!r} is not {schema['pattern']}"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{where}: {value} < {schema['minimum']}"
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from complaints(schema["items"], item, root, f"{where}[{i}]")
    if isinstance(value, dict):
        rows, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        yield from (f"{where}: no {key}" for key in schema.get("required", []) if key not in value)
        for key, item in value.items():
            if key not in rows and more is False:
                yield f"{where}: {key} is unknown"
            elif key in rows or isinstance(more, dict):
                yield from complaints(rows.get(key, more), item, root, f"{where}.{key}")
