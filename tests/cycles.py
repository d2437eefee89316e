# SPDX-License-Identifier: MIT
"""cycles.py [FOLDER] - no two files need each other, directly or by way of others.

FOLDER has the objects of a build, in folders as the sources are (build/debug).  A file needs another if it uses a
symbol that only the other one defines.  A table of functions counts too; #include lines do not show that need.  Files
that need each other are understood, tested and moved only together.  build/kernel has the objects of the modules, if
scripts/kernel-compile has made them.
"""
import glob
import os
import subprocess
import sys

FOLDERS = ("core", "base", "server", "engines", "tools", "kernel")
UNDEFINED = "Uwv"  # letters of nm


def objects(folder):
    """{file without its ending: (defined, used)} of all objects of the product whose source is there.  X_absent.c takes
    the place of X.c in a build that lacks a library, so it counts as X."""
    paths = {}
    for name in FOLDERS:
        for path in glob.glob(os.path.join(folder, name, "**/*.o"), recursive=True):
            source = os.path.relpath(path, folder)[:-2]
            if os.path.exists(source + ".c") and not source.endswith(".bpf"):
                paths[path] = source.removesuffix("_absent")
    files = {name: (set(), set()) for name in paths.values()}
    text = subprocess.run(["nm", "--extern-only", "-A", *paths], check=True, text=True, capture_output=True).stdout if paths else ""
    for line in text.splitlines():
        path, _, rest = line.partition(":")
        letter, symbol = rest.split()[-2:]
        files[paths[path]][letter in UNDEFINED].add(symbol)
    return files


def program(name):
    """The folder of a tool's file: tools are linked with core/ and base/, never with each other.  "" for other files."""
    return name.rpartition("/")[0] if name.startswith("tools/") else ""


def needs(files):
    """{file: {file it needs: symbols}}."""
    makers = {(program(name), symbol): name for name, (defined, _) in files.items() for symbol in defined}
    found = {name: {} for name in files}
    for name, (_, used) in files.items():
        for symbol in used:
            maker = makers.get((program(name), symbol)) or makers.get(("", symbol))
            if maker not in (None, name):
                found[name].setdefault(maker, set()).add(symbol)
    return found


def reached(arrows, start):
    seen, ahead = set(), [start]
    while ahead:
        for name in arrows[ahead.pop()]:
            if name not in seen:
                seen.add(name)
                ahead.append(name)
    return seen


def circles(arrows):
    """The sets of files of which each reaches each other."""
    reach = {name: reached(arrows, name) for name in arrows}
    found = []
    for name in sorted(arrows):
        if name in reach[name] and not any(name in one for one in found):
            found.append({other for other in reach[name] if name in reach[other]})
    return found


def complaints(arrows):
    """Lines: each circle, and the symbols that close it."""
    for one in circles(arrows):
        yield "these files need each other: " + ", ".join(sorted(one))
        for name in sorted(one):
            for other in sorted(one & set(arrows[name])):
                yield f"  {name} needs {other}: {', '.join(sorted(arrows[name][other]))}"


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "build/debug"
    files = objects(folder)
    if not files:
        sys.exit(f"cycles.py: {folder} has no objects; run make MODE=debug first")
    wrong = list(complaints(needs(files)))
    print("\n".join(wrong) or f"{len(files)} files, no circles")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
