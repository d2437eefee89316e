#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gen-types.py - content types as C tables, on stdout.

The types are those of Debian's media-types database (/etc/mime.types), overridden by the rows of
core/mime.def.  The output is two arrays, `extensions` and `whole_names`, each sorted by bytes for a binary
search, with names in lower case and the charset already in the type: at run time a type is only looked up,
never put together.

usage: gen-types.py [DATABASE [OWN]]
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent
NAME_MAX = 31  # bounds the buffer for the lower-case copy; the database's longest extension has 25
TOKEN = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9!#$&^_.+-]+\Z", re.IGNORECASE)
TEXT = {"application/json", "application/jsonl", "application/x-ndjson", "application/javascript",
        "application/xml", "application/xml-dtd", "application/toml", "application/yaml", "application/sql"}


def is_text(kind):
    """Whether files of a type are text in UTF-8, unless they say otherwise themselves."""
    kind = kind.lower()
    if kind == "text/rtf":  # an RTF file names its encoding itself
        return False
    return kind.startswith("text/") or kind in TEXT or kind.endswith(("+json", "+xml"))


def with_charset(kind):
    return kind + "; charset=utf-8" if is_text(kind) else kind


def read_database(text):
    """Extension -> type; a name given to two types belongs to the first."""
    found = {}
    for line in text.splitlines():
        kind, *names = line.split("#")[0].split() or [""]
        if not TOKEN.match(kind):
            continue
        for name in names:
            name = name.lower()
            if len(name) <= NAME_MAX and name.isascii() and "." not in name:
                found.setdefault(name, kind)
    return found


def read_own(text):
    """Rows of mime.def: ({extension: type}, {whole name: type}).  A duplicate or misspelt row is an error."""
    tables = {"X": {}, "NAME": {}}
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    for line in filter(None, (line.strip() for line in text.splitlines())):
        row = re.fullmatch(r'(X|NAME)\("([a-z0-9_+-]+)", "([^"]+)"\)', line)
        if not row or len(row[2]) > NAME_MAX or not TOKEN.match(row[3]) or row[2] in tables[row[1]]:
            sys.exit(f"gen-types.py: not a row, or given twice: {line}")
        tables[row[1]][row[2]] = row[3]
    return tables["X"], tables["NAME"]


def write_table(name, rows):
    print(f"static const struct type_row {name}[] = {{")
    for key in sorted(rows):
        print(f'    {{"{key}", "{with_charset(rows[key])}"}},')
    print("};\n")


def main(argv):
    database = pathlib.Path(argv[1] if len(argv) > 1 else "/etc/mime.types")
    own = pathlib.Path(argv[2]) if len(argv) > 2 else HERE / "core" / "mime.def"
    if not database.exists():
        sys.exit(f"gen-types.py: {database} is missing; it comes with Debian's package media-types")
    extensions = read_database(database.read_text(encoding="utf-8"))
    mine, names = read_own(own.read_text(encoding="ascii"))
    extensions.update(mine)
    print("/* Made by scripts/gen-types.py from Debian's media-types and core/mime.def.  Not to be edited. */")
    print(f"enum {{ TYPE_NAME_MAX = {NAME_MAX} }};")
    print("struct type_row {\n    const char *name, *type;\n};\n")
    write_table("extensions", extensions)
    write_table("whole_names", names)


if __name__ == "__main__":
    main(sys.argv)
