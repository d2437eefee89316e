#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""tidy.py - the house rules that can be counted (STYLE.md), over every file that git knows or would add.

Each complaint is FILE:LINE, what is wrong, and what to do.  --self-test gives it one bad sample for each
rule, and good ones that look similar: a rule that catches nothing is a broken rule.
"""
import os
import re
import subprocess
import sys

LINES_MAX, ENGINE_LINES_MAX, FUNCTION_LINES_MAX, COLUMNS_MAX = 500, 300, 70, 100
PARAMETERS_MAX, KERNEL_PARAMETERS_MAX = 4, 6  # callbacks of the kernel have up to six
CALLED_BACK = {"tools/trace/unwind.c": {"find_file"}, "server/tls_set.c": {"choose_protocol"}, "server/tls_ocsp.c": {"free_staple"},
               "server/tls_store.c": {"ticket_keys"}, "server/tls_keys.c": {"said"}, "server/tls_verify.c": {"judge"}, "server/h2_answer.c": {"read_body", "send_frame"},
               "server/h2_request.c": {"on_header", "on_data"}, "tools/load/h2.c": {"on_header", "on_data"}}  # called by a library, which determines their parameters
DUAL, MIT = "MIT OR GPL-2.0-only", "MIT"
C, PYTHON, SHELL, MAKE, MARKDOWN = range(5)

# From which folders a folder's files may include headers (STYLE.md): a waist has two sides.
MAY_INCLUDE = {
    "core": {"core"},
    "base": {"base", "core"},
    "server": {"server", "base", "core", "engines/engine.h"},
    "engines": {"engines", "server/server.h", "server/queue.h", "server/bench.h", "base", "core"},
    "kernel": {"kernel", "core"},
    "tools": {"tools", "base", "core"},
}
BANNED = {
    "strcpy": "carry the length: memcpy", "strcat": "carry the length: memcpy", "sprintf": "snprintf",
    "vsprintf": "vsnprintf", "gets": "fgets", "strtok": "walk a slice", "strncpy": "memcpy",
    "atoi": "strtoul with its end checked", "atol": "strtoul with its end checked", "alloca": "a bounded array",
    "system": "posix_spawn", "popen": "posix_spawn", "tmpnam": "mkstemp", "mktemp": "mkstemp", "rand": "a seeded generator",
    "gmtime": "gmtime_r", "localtime": "localtime_r", "strerror_r": "strerrordesc_np",
    "usleep": "wait for the condition", "vfork": "fork",
}
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:home|work|root|Users)/(?!me/)[\w.-]")


class Source:
    """A file's lines, and for C the same lines without comments and the insides of literals."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.lines = text.split("\n")
        if self.lines and self.lines[-1] == "":
            self.lines.pop()
        self.folder = path.split("/")[0]
        self.name = os.path.basename(path)
        self.kind = kind_of(path, self.lines[0] if self.lines else "")
        self.bare = blank(text).split("\n") if self.kind == C else []


def kind_of(path, first):
    name = os.path.basename(path)
    if name.endswith((".c", ".h", ".def")):
        return C
    if name.endswith(".py") or "python" in first and first.startswith("#!"):
        return PYTHON
    if name.endswith(".sh") or first.startswith("#!/bin/"):
        return SHELL
    if name in ("Makefile", "Kbuild") or name.endswith(".mk"):
        return MAKE
    return MARKDOWN if name.endswith(".md") else None


LITERAL = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def blank(text):
    """C without its comments and the insides of literals; lines keep their numbers."""
    def spaces(match):
        word = match[0]
        if word[0] in "\"'":
            return word[0] + " " * (len(word) - 2) + word[0]
        return re.sub(r"[^\n]", " ", word)
    return LITERAL.sub(spaces, text)


# --- The rules: each takes a Source and yields (line, what is wrong and what to do) ------------------------

def rule_spdx(src):
    if src.kind is None or src.kind == MARKDOWN:
        return
    want = DUAL if src.folder in ("core", "kernel") else MIT
    line = 1 if src.lines and src.lines[0].startswith("#!") else 0
    text = src.lines[line] if len(src.lines) > line else ""
    found = re.match(r"(?:/\*|#|//) SPDX-License-Identifier: (.*?)(?: \*/)?$", text)
    if not found or found[1] != want:
        yield line + 1, f"the first line must say SPDX-License-Identifier: {want}"


def rule_purpose(src):
    """The first screen says what the file is: its own name, then a dash (STYLE.md)."""
    if src.kind != C or src.folder == "tests":
        return
    if not re.search(rf"\b{re.escape(src.name)} - \w", "\n".join(src.lines[:4])):
        yield 2, f"say what it is on the first screen: /* {src.name} - ..."


def rule_file_length(src):
    if src.kind not in (C, PYTHON, SHELL, MAKE):
        return
    most = ENGINE_LINES_MAX if src.folder == "engines" else LINES_MAX
    if len(src.lines) > most:
        yield len(src.lines), f"{len(src.lines)} lines, at most {most}: split it where a reader would"


def rule_columns(src):
    if src.kind == C:
        for number, line in enumerate(src.lines, 1):
            if len(line) > COLUMNS_MAX:
                yield number, f"{len(line)} columns, at most {COLUMNS_MAX}: break the line"


def rule_space(src):
    for number, line in enumerate(src.lines, 1):
        if line != line.rstrip():
            yield number, "trailing space: remove it"
        if "\t" in line and src.kind in (C, PYTHON, SHELL):
            yield number, "a tab: use four spaces"
    if src.text and not src.text.endswith("\n"):
        yield len(src.lines), "no newline at the end: add it"


def functions(src):
    """(first line, last line, name, parameters) of each function defined; bodies open and close in column 0."""
    start = None
    for number, line in enumerate(src.bare, 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start and line.rstrip() == "}":
            head = start - 1
            while head > 1 and not re.search(r"[;}/]\s*$|^\s*$|^#", src.bare[head - 2]):
                head -= 1
            text = " ".join(src.bare[head - 1:start - 1])
            if found := re.search(r"(\w+)\s*\((.*)\)\s*$", text):
                yield head, number, found[1], parameters(found[2])
            start = None


def parameters(text):
    depth, count = 0, 1
    for char in text:
        depth += {"(": 1, ")": -1}.get(char, 0)
        count += char == "," and depth == 0
    return 0 if text.strip() in ("", "void") else count


def rule_functions(src):
    if src.kind != C:
        return
    for first, last, name, count in functions(src):
        if last - first + 1 > FUNCTION_LINES_MAX:
            yield first, f"{name}() has {last - first + 1} lines, at most {FUNCTION_LINES_MAX}: name its parts"
        most = KERNEL_PARAMETERS_MAX if src.folder == "kernel" else PARAMETERS_MAX
        if count > most and src.folder != "tests" and name not in CALLED_BACK.get(src.path, ()):
            yield first, f"{name}() takes {count} parameters, at most {most}: gather them in a struct"


def rule_includes(src):
    allowed = MAY_INCLUDE.get(src.folder)
    if src.kind != C or src.name.endswith(".def"):
        return
    for number, line in enumerate(src.lines, 1):
        found = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if not found:
            continue
        if found[1] == "<":
            if src.folder == "core" and src.name != "env.h":
                yield number, f"core/ has no system headers: <{found[2]}> belongs behind env.h"
            continue
        if "../.." in found[2] and src.folder not in ("tests", "tools", "lab"):
            yield number, "../.. : include within two folders' reach"
            continue
        target = os.path.normpath(os.path.join(os.path.dirname(src.path), found[2]))
        if allowed is not None and target.split("/")[0] not in allowed and target not in allowed:
            yield number, f"{src.folder}/ must not see {target}: depend downward (ARCHITECTURE.md, the waist)"
        if src.path in ("engines/engine.h",) and target == "server/inside.h":
            yield number, "engines see server/server.h and nothing behind it"


def rule_engines(src):
    if src.folder == "engines" and src.kind == C:
        for number, line in enumerate(src.lines, 1):
            if re.search("http", line, re.IGNORECASE):
                yield number, "an engine names HTTP: if it wants to know, the waist is wrong"


def rule_core(src):
    if src.kind != C or src.folder != "core" or src.name == "env.h":
        return
    guard = re.sub(r"\W", "_", "core_" + src.name).upper()
    for number, line in enumerate(src.bare, 1):
        if re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b", line) and not re.match(rf"#ifndef {guard}$", line.strip()):
            yield number, "a condition in core/: only env.h knows where it is compiled"


def rule_language(src):
    if src.kind != C:
        return
    for number, line in enumerate(src.bare, 1):
        if src.name.endswith(".c") and re.match(r"\s*extern\b", line):
            yield number, "extern in a .c file: declare it in the header of the file that defines it"
        if re.match(r"\s*typedef\b", line):
            yield number, "typedef: say struct, enum or the plain type"
        for found in re.finditer(r"(?<![\w.>])(\w+)\s*\(", line):
            if found[1] in BANNED:
                yield number, f"{found[1]}() is banned: use {BANNED[found[1]]}"
        if re.match(r"\s*goto\s+retry\b", line):
            yield number, "goto backwards: write a loop"


def rule_paths(src):
    for number, line in enumerate(src.lines, 1):
        if MACHINE_PATH.search(line):
            yield number, "a path of somebody's machine: make it relative, or a temporary folder"


NO_NOUN = set("""about after as at because before but by for from how if in into it of off on or so than that then they to
               until what when where which while who with""".split())
VERBS = set("""accept add allow ask become choose close compare connect drop exit give keep let list make print raise read require
             say send serve show take tell use wait write""".split())


def helps(src):
    """(line, whether the option takes a value, its help) for every option and module parameter of the file."""
    for found in re.finditer(r"\.help\s*=\s*\"([^\"]*)\"", src.text):
        row = src.text[:found.start()]
        kind = re.search(r"(?:\bX\(|OPTION_)(\w+),(?!.*(?:\bX\(|OPTION_)\w+,)", row, re.DOTALL)
        yield row.count("\n") + 1, bool(kind) and kind[1] != "FLAG", found[1]
    for found in re.finditer(r"\n(?:SHARED(?:_BODY)?|MODULE_PARM_DESC|KPARAM_NUMBER)\((\w+,(?:[^\"]*\"[\w-]+\",)?[^\"]*)\"([^\"]*)\"",
                             src.text):
        yield src.text[:found.end()].count("\n") + 1, True, found[2]


def rule_help(src):
    """Help begins with the noun that the value stands for; help of an option without a value begins with a verb."""
    if src.kind != C or src.folder == "tests":
        return
    for number, takes_value, text in helps(src):
        word = re.split(r"[\s,;]", text)[0]
        if not re.match(r"[A-Za-z]", word) or word.endswith(":") or word in NO_NOUN:
            yield number, f"help begins with '{word}': begin with the noun that the value stands for"
        elif takes_value and word in VERBS:
            yield number, f"help of a value begins with the verb '{word}': begin with the noun that the value stands for"


RULES = [rule_spdx, rule_purpose, rule_file_length, rule_columns, rule_space, rule_functions, rule_includes,
         rule_engines, rule_core, rule_language, rule_paths, rule_help]


# --- Rules over the whole tree ------------------------------------------------------------------------------

def limits_tested(sources):
    """Every limit of core/limits.h is named in some test: a test checks both sides of it."""
    header = sources.get("core/limits.h")
    if not header:
        return
    tests = "\n".join(src.text for path, src in sources.items()
                      if path.startswith("tests/") and path != "tests/tidy.py")
    for number, line in enumerate(header.bare, 1):
        if (found := re.match(r"\s+([A-Z][A-Z0-9_]+)\s*=", line)) and not re.search(rf"\b{found[1]}\b", tests):
            yield header.path, number, f"no test names {found[1]}: test on both sides of it"


OPTION = re.compile(r"(?m)^(?:X\(\w+, (\w+),[^;]*?\.name = \"([\w-]+)\"|SHARED(?:_BODY)?\(\w+, (\w+), \"([\w-]+)\")")


def options_tested(sources):
    """Every option of the server is read by one of its files, and given in some wire test; the modules read those of the core."""
    tests = "\n".join(src.text for path, src in sources.items() if path.startswith("tests/wire/"))
    server = "\n".join("\n".join(src.bare) for path, src in sources.items() if re.match(r"server/\w+\.c$", path))
    kernel = "\n".join("\n".join(src.bare) for path, src in sources.items() if path.startswith("kernel/"))
    for path in ("server/options.def", "core/options.def"):
        for found in OPTION.finditer(sources[path].text if path in sources else ""):
            line, field, name = sources[path].text[:found.start()].count("\n") + 1, found[1] or found[3], found[2] or found[4]
            if not re.search(rf"(?:->|\.){field}\b", server):
                yield path, line, f"no file of server/ reads {field}: use it, or remove the row of --{name}"
            if path.startswith("core/") and not re.search(rf"\b{field}\.value\b", kernel):
                yield path, line, f"no file of kernel/ reads {field}.value: kparams_fill() of kernel/kparams.h does it for the others"
            if not re.search(rf"--(?:no-)?{name}(?![\w-])", tests):
                yield path, line, f"no test of tests/wire/ gives --{name}: test what it does, on both sides of its limits"


def wire_documented(sources):
    """docs/http.md says which wire test shows which rule; a file that it does not name shows nothing."""
    page = sources.get("docs/http.md")
    for path in sources:
        if re.match(r"tests/wire/test_\w+\.py$", path) and page and os.path.basename(path) not in page.text:
            yield page.path, 1, f"{path} is not mentioned: say which rules it shows"


def documents_true(sources):
    """A path that a document names in backticks is a file of the tree, a built one, or a folder."""
    folders = {path[:at + 1] for path in sources for at in range(len(path)) if path[at] == "/"}
    for page in (src for src in sources.values() if src.kind == MARKDOWN):
        for number, line in enumerate(page.lines, 1):
            for path in re.findall(r"`(\w[\w.-]*/[\w./-]*)`", line):
                if path not in sources and path not in folders and not path.startswith("build/"):
                    yield page.path, number, f"there is no {path}: name the file that is there"
            for name in re.findall(r"`(test_\w+\.py)`", line):
                if "tests/wire/" + name not in sources:
                    yield page.path, number, f"there is no tests/wire/{name}: name the test that is there"


def complaints(sources):
    for path, src in sorted(sources.items()):
        for rule in RULES:
            for number, text in rule(src):
                yield path, number, text
    yield from limits_tested(sources)
    yield from options_tested(sources)
    yield from wire_documented(sources)
    yield from documents_true(sources)


def tree():
    """The text of files that are committed or would be."""
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], check=True,
                           capture_output=True, text=True).stdout.split("\n")
    found = {}
    for path in filter(None, names):
        if path.startswith(("LICENSES/", "tests/fuzz/corpus/")) or not os.path.isfile(path) or os.path.islink(path):
            continue
        with open(path, "rb") as file:
            data = file.read()
        if b"\0" not in data and not path.endswith((".svg", ".dict")):
            found[path] = Source(path, data.decode(errors="replace"))
    return found


# --- The test of the tests ----------------------------------------------------------------------------------

HEAD = "/* SPDX-License-Identifier: MIT */\n/* a.c - a sample. */\n"
CORE_HEAD = "/* SPDX-License-Identifier: MIT OR GPL-2.0-only */\n/* a.c - a sample. */\n"
LONG = HEAD + "int f(void)\n{\n" + "    g();\n" * 80 + "}\n"
BAD = [  # path, text, what the complaint must contain
    ("base/a.c", "int x;\n", "SPDX"),
    ("core/a.c", HEAD, "SPDX"),
    ("base/a.c", HEAD.replace("a.c", "b.c"), "first screen"),
    ("base/a.c", HEAD + "\n" * 500, "at most 500"),
    ("engines/a.c", HEAD + "\n" * 300, "at most 300"),
    ("base/a.c", LONG, "at most 70"),
    ("base/a.c", HEAD + "int f(int a, int b, int c, int d, int e)\n{\n}\n", "takes 5 parameters"),
    ("base/a.c", HEAD + "int f(int a,\n      int b, int (*c)(int, int), int d, int e)\n{\n}\n", "takes 5 parameters"),
    ("kernel/a.c", CORE_HEAD + "int f(int a, int b, int c, int d, int e, int f, int g)\n{\n}\n", "takes 7 parameters"),
    ("base/a.c", HEAD + "int " + "x" * 100 + ";\n", "columns"),
    ("base/a.c", HEAD + "int x; \n", "trailing space"),
    ("base/a.c", HEAD + "\tint x;\n", "a tab"),
    ("base/a.c", HEAD + "int x;", "no newline"),
    ("core/a.c", CORE_HEAD + "#include <stdio.h>\n", "no system headers"),
    ("core/a.c", CORE_HEAD + '#include "../base/net.h"\n', "must not see"),
    ("base/a.c", HEAD + '#include "../server/server.h"\n', "must not see"),
    ("engines/a.c", HEAD + '#include "../server/inside.h"\n', "must not see"),
    ("kernel/a.c", CORE_HEAD + '#include "../server/server.h"\n', "must not see"),
    ("server/a.c", HEAD + '#include "../engines/naive.c"\n', "must not see"),
    ("base/a.c", HEAD + '#include "../../x/y.h"\n', "../.."),
    ("tools/load/a.c", HEAD + '#include "../../server/server.h"\n', "must not see"),
    ("engines/a.c", HEAD + "/* knows Http */\n", "names HTTP"),
    ("core/a.c", CORE_HEAD + "#ifdef __KERNEL__\n#endif\n", "a condition in core/"),
    ("core/a.h", CORE_HEAD.replace("a.c", "a.h") + "#ifndef OTHER_H\n#endif\n", "a condition in core/"),
    ("base/a.c", HEAD + "extern int x;\n", "extern"),
    ("base/a.c", HEAD + "typedef int y;\n", "typedef"),
    *[("base/a.c", f"{HEAD}int x = {name}(y);\n", f"{name}() is banned") for name in BANNED],
    *[("server/a.def", HEAD.replace("a.c", "a.def") + f'X(NUMBER, a, .help = "{text}")\n', "help begins with")
      for text in ("of a pool; 0: 32", "0: one for each", "... and at most", "that run the engine", "off: never")],
    ("server/a.def", HEAD.replace("a.c", "a.def") + 'X(FLAG, b, .help = "x")\nX(TEXT, a,\n  .help = "connect to it")\n', "the verb"),
    ("core/a.def", CORE_HEAD.replace("a.c", "a.def") + '\nSHARED(TIME, a, "a", 1, 2, 3,\n       "for a head", "More.")\n', "begins with 'for'"),
    ("kernel/a.c", CORE_HEAD + 'MODULE_PARM_DESC(a,\n                 "so much");\n', "begins with 'so'"),
    ("docs/a.md", "see /" + "home/someone/x\n", "somebody's machine"),
]
GOOD = [
    ("base/a.c", HEAD + '/* extern typedef strcpy( */\nconst char *x = "strcpy(a)";\n'),
    ("base/a.c", HEAD + "int my_rand(int a, int (*b)(int, int), int c, int d)\n{\n    return b(a, c);\n}\n"),
    ("kernel/a.c", CORE_HEAD + "int f(int a, int b, int c, int d, int e, int f)\n{\n}\n"),
    ("core/a.h", CORE_HEAD.replace("a.c", "a.h") + '#ifndef CORE_A_H\n#define CORE_A_H\n#include "env.h"\n#endif\n'),
    ("server/a.c", HEAD + '#include "../engines/engine.h"\n#include <stdio.h>\n'),
    ("engines/a.c", HEAD + "x" * 0 + "\n" * 290),
    ("tools/load/a.c", HEAD + '#include "../../core/hist.h"\n#include "load.h"\n'),
    ("server/a.def", HEAD.replace("a.c", "a.def") + 'X(NUMBER, b, .help = "x")\nX(FLAG, a, .help = "list it")\n'),
    ("server/a.def", HEAD.replace("a.c", "a.def") + 'X(NUMBER, a, .name = "for",\n  .help = "time of a head")\n'),
    ("core/a.def", CORE_HEAD.replace("a.c", "a.def") + '\nSHARED(TIME, a, "for-a", 1, 2, 3,\n       "time", "For it.")\n'),
    ("scripts/a.sh", "#!/bin/bash\n# SPDX-License-Identifier: MIT\n"),
]


def self_test():
    wrong = 0
    for path, text, expected in BAD:
        said = [words for _, _, words in complaints({path: Source(path, text)})]
        if not any(expected in words for words in said):
            print(f"not caught in {path}: {expected!r}; said {said}\n{text[-200:]}")
            wrong += 1
    for path, text in GOOD:
        for said in complaints({path: Source(path, text)}):
            print(f"a good sample is refused: {said}")
            wrong += 1
    limits = Source("core/limits.h", CORE_HEAD + "enum {\n    A_MAX = 1,\n    B_MAX = 2,\n};\n")
    test = Source("tests/unit/a.c", HEAD + "int x = A_MAX;\n")
    page = Source("docs/http.md", "| `test_c.py` | `base/none.c` | `core/limits.h` |\n")
    whole = {src.path: src for src in (limits, test, page)}
    whole["tests/wire/test_b.py"] = Source("tests/wire/test_b.py", "# SPDX-License-Identifier: MIT\nstart('--no-used', '--max')\n")
    for src in (Source("server/options.def", 'X(FLAG, used, .name = "used")\nX(FLAG, lost, .letter = \'l\',\n  .name = "used-not")\n'),
                Source("core/options.def", 'SHARED_BODY(TIME, max, "max-x", 1)\nSHARED(TIME, used, "used", 1)\n'),
                Source("kernel/a.c", "x = used.value + max;\n"), Source("server/a.c", "x = o->used + o->max; /* o->lost */\n")):
        whole[src.path] = src
    said = " ".join(words for _, _, words in complaints(whole))
    for expected, there in (("B_MAX", True), ("A_MAX", False), ("test_b.py is not mentioned", True),
                            ("no tests/wire/test_c.py", True), ("no base/none.c", True), ("no core/limits.h", False),
                            ("server/ reads lost", True), ("server/ reads used", False), ("server/ reads max", False), ("gives --used-not", True),
                            ("gives --used:", False), ("gives --max-x", True),
                            ("reads max.value", True), ("reads used.value", False)):
        if (expected in said) != there:
            print(f"over the tree: {expected!r} {'not caught' if there else 'refused'}: {said}")
            wrong += 1
    print(f"{len(BAD) + len(GOOD) + 14 - wrong} of {len(BAD) + len(GOOD) + 14} samples judged right")
    return 1 if wrong else 0


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    found = list(complaints(tree()))
    for path, number, text in found:
        print(f"{path}:{number}: {text}")
    print(f"{len(found)} complaints" if found else "tidy")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
