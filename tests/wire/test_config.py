# SPDX-License-Identifier: MIT
"""Options from a file: --config, and rung config, which prints such a file."""
import os
import random
import re
import signal
import threading
import tomllib

import pytest

from cli import (EXIT_DONE, EXIT_FAILED, EXIT_USAGE, FULL, begin, no_port, options_table, run, site)  # noqa: F401

pytestmark = [pytest.mark.any_engine("options are read before an engine runs"),
              pytest.mark.userspace("a command line")]
CLEAN = {"RUNG_WORKERS": ""}  # an empty variable counts as unset


@pytest.fixture
def file(tmp_path):
    """file(text) -> the path of a configuration file."""
    def write(text, name="rung.toml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path
    return write


def effective(*args, env=None):
    """What rung config prints, as Python reads it."""
    out = run("config", *args, env={**CLEAN, **(env or {})})
    assert out.returncode == EXIT_DONE and out.stderr == "", out.stderr
    return tomllib.loads(out.stdout)


# --- What is served -----------------------------------------------------------------------------------------


# shows U79
def test_file_serves(begin, site, file):
    """The folder, the port and what is sent with files come from the file alone."""
    port = no_port()
    path = file(f'# a server\nroot = "{site}"\nport = {port}\nbind = ["127.0.0.1"] # here only\nhidden = true\n'
                f'header = ["X-One: 1", \'*.html X-Two: "2"\']\nmax-age = "1m"\nindex = "start.html"\n')
    server = begin("--config", path)
    assert server.ports == {port}
    answer = server.get("/file.txt")
    assert answer.body == b"content\n" and answer.headers["X-One"] == "1" and answer.headers["X-Two"] is None
    assert answer.headers["Cache-Control"] == "max-age=60"
    assert server.get("/.secret").body == b"hidden\n"
    page = server.get("/folder/")
    assert page.body == b"<p>start\n" and page.headers["X-Two"] == '"2"'


def test_order_of_strength(file):
    """Command line, environment, file, default."""
    path = file('port = 1\nworkers = 2\nindex = "a"\nspa = true\nbind = ["::1"]\nroot = "/x"\nhidden = true\n')
    got = effective("--config", path)
    assert (got["port"], got["workers"], got["index"], got["spa"], got["bind"], got["root"]) == (1, 2, "a", True, ["::1"], "/x")
    assert got["listing"] is True and got["idle-timeout"] == "15s"
    got = effective("--config", path, env={"RUNG_PORT": "3", "RUNG_BIND": "127.0.0.1,127.0.0.2", "RUNG_SPA": "no"})
    assert (got["port"], got["bind"], got["spa"], got["workers"]) == (3, ["127.0.0.1", "127.0.0.2"], False, 2)
    got = effective("--config", path, "-p", "4", "-b", "127.0.0.9", "--no-hidden", "/y", env={"RUNG_PORT": "3"})
    assert (got["port"], got["bind"], got["hidden"], got["root"]) == (4, ["127.0.0.9"], False, "/y")
    assert effective(env={"RUNG_CONFIG": str(path)})["index"] == "a"


def test_file_from_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write():
        with open(path, "w", encoding="ascii") as pipe:
            for part in ("port ", "= 12", "34\n"):
                pipe.write(part)
                pipe.flush()
    thread = threading.Thread(target=write)
    thread.start()
    assert effective("--config", path)["port"] == 1234
    thread.join()


def test_a_reload_does_not_read_it(begin, site, file):
    """SIGHUP reopens the log; the options of a running server stay."""
    path = file(f'root = "{site}"\nheader = ["X-Version: 1"]\nport = 0\n')
    server = begin("--config", path)
    file("this is no file of options\n")
    server.send(signal.SIGHUP)
    server.said("SIGHUP: there is no log")
    assert server.get("/file.txt").headers["X-Version"] == "1"
    assert server.end() == EXIT_DONE


# --- Printing -----------------------------------------------------------------------------------------------


GIVEN = ["-p", "81", "-b", "unix:/tmp/a b", "-b", "::1", "--spa", "--no-hidden", "--listing", "off", "--cache", "1536k",
         "--idle-timeout", "90s", "--head-timeout", "1500ms", "--header", 'X: "\\\t\u00e9"', "--redirect", "/a /b", "--redirect", "/c/* /d/*",
         "-e", "poll", "--workers-as", "process", "--max-body", "4294967295", "--log", "json", "--max-age", "365d", "--min-progress", "1",
         "--auth", "/etc/pass'word\"s", "it's here"]


@pytest.mark.core
@pytest.mark.parametrize("args", [[], GIVEN])
def test_round_trip(file, args):
    """What it prints means the same, and has every option."""
    first = run("config", *args, env=CLEAN)
    assert first.returncode == EXIT_DONE and first.stderr == ""
    again = run("config", "--config", file(first.stdout), env=CLEAN)
    assert again.returncode == EXIT_DONE and again.stdout == first.stdout
    keys = set(re.findall(r"(?m)^#?([a-z-]+) = ", first.stdout))
    assert keys == (set(options_table()) - {"config"}) | {"root"}
    got = tomllib.loads(first.stdout)
    assert got["root"] == ("it's here" if args else ".")
    if args:
        assert got["header"] == ['X: "\\\t\u00e9"'] and got["auth"] == "/etc/pass'word\"s" and got["redirect"] == ["/a /b", "/c/* /d/*"]
        assert got["cache"] == "1536k" and got["head-timeout"] == "1500ms" and got["max-body"] == "4294967295" and got["max-age"] == "365d"


def test_what_cannot_be_printed():
    out = run("config", "--header", b"X: \xff".decode("utf-8", "surrogateescape"))
    assert out.returncode == EXIT_FAILED and out.stdout == "" and "cannot be written as a file" in out.stderr and "UTF-8" in out.stderr
    with open(FULL, "w", encoding="ascii") as full:
        assert run_into(full) == EXIT_FAILED


def run_into(full):
    import subprocess
    from cli import BIN, PATIENCE, environment
    return subprocess.run([BIN, "config"], stdout=full, stderr=subprocess.PIPE, env=environment(), timeout=PATIENCE, check=False).returncode


# --- Mistakes -----------------------------------------------------------------------------------------------


MISTAKES = [
    ("prot = 1", 1, "prot: no such key; did you mean port?"),
    ("\n\nheadr = []", 3, "headr: no such key; did you mean header?"),
    ("rot = 'x'", 1, "rot: no such key; did you mean root?"),
    ("zzzzzz = 1", 1, "zzzzzz: no such key; rung serve --help lists the options"),
    ("gzip = true", 1, "gzip: no such key; here it is compress on|off"),
    ("port = 1\nport = 2", 2, "port is given twice: line 1"),
    ("port = 65536", 1, "port: 65536 is out of range; choose from 0 to 65535"),
    ("port = -1", 1, "port: '-1' is not a number from 0 to 65535"),
    ("port = true", 1, "port: it takes a number, not true or false"),
    ("port = [1]", 1, "port: it takes a number, not an array"),
    ("port = 'x'", 1, "port: 'x' is not a number from 0 to 65535"),
    ("spa = 'on'", 1, "spa: it takes true or false, not text"),
    ("listing = 1", 1, "listing: it takes true or false, not a number"),
    ("idle-timeout = 0", 1, "idle-timeout: 0 is out of range; choose from 100ms to 1d"),
    ("idle-timeout = '5 s'", 1, "idle-timeout: '5 s' is not a time"),
    ("cache = false", 1, 'cache: it takes a number of bytes, or text such as "64k", not true or false'),
    ("engine = 'epol'", 1, "engine: there is no 'epol'; did you mean epoll?"),
    ("engine = epoll", 1, 'epoll is not a value; write text in quotes: "epoll"'),
    ("engine = 1", 1, "engine: it takes text, in quotes, not a number"),
    ("header = 'X: y'", 1, 'header: it takes an array of texts: ["one", "two"], not text'),
    ("header = [\n'X: y',\n1]", 3, 'header: it takes an array of texts: ["one", "two"], not a number'),
    ("bind = []", 1, "bind: it needs at least one item"),
    (f"deny = {['10.0.0.1'] * 9}", 1, "deny: at most 8 of them"),
    ("auth = ''", 1, "auth: it cannot be empty"),
    ("root = 1", 1, "root: it takes the path"),
    ("root = ''", 1, "root: it takes the path"),
    ("config = 'x'", 1, "config: a file names no other file"),
    ("idle-timeout = 1.5", 1, "1.5 is a float, which is not read"),
    ("max-age = 2026-01-01", 1, "2026-01-01 is a date"),
    ("header = '''x'''", 1, "a string of several lines"),
    ("tls.cert = 1", 1, "a dotted key is not read"),
    ("tls = {cert = 1}", 1, "an inline table"),
    ("port 80", 1, "there is no = after port"),
    ("port =", 1, "there is no value"),
    ("[server]\nport = 1", 1, "server: no such table"),
    (b"index = '\xff'", 1, "byte 0xff is not UTF-8"),
    (b"index = 'a\0b'", 1, "control character 0x00"),
    ("index = 'a", 1, "the text has no ' at its end"),
    ("#" * 65537, 1, "the file has more than 65536 bytes"),
]


@pytest.mark.core
@pytest.mark.parametrize("text, line, words", MISTAKES)
# shows U79
def test_mistakes(site, file, text, line, words):
    """The file, the line, what is wrong and what to do; nothing is served."""
    path = file(text)
    for command in ("serve", "config"):
        out = run(command, "--config", path, site)
        assert out.returncode == EXIT_USAGE and out.stdout == "" and out.stderr.count("\n") == 1
        assert out.stderr.startswith(f"rung: {path}:{line}: ") and words in out.stderr, out.stderr


def test_values_that_count_for_nothing_are_checked(file):
    out = run("config", "--config", file("port = 'x'"), "-p", "1")
    assert out.returncode == EXIT_USAGE and "port: 'x' is not a number" in out.stderr


def test_limits(file):
    effective("--config", file("#" * 65536))
    assert effective("--config", file(f"deny = {['10.0.0.1'] * 8}"))["deny"] == ["10.0.0.1"] * 8


def test_no_file(tmp_path):
    for path, why in ((tmp_path / "none", "it does not exist"), (tmp_path, "irectory")):
        out = run("--config", path)
        assert out.returncode == EXIT_USAGE and out.stderr.startswith(f"rung: --config {path}: cannot read it: ") and why in out.stderr
    out = run("--config")
    assert out.returncode == EXIT_USAGE and "--config: it needs a value, FILE" in out.stderr


# --- Python's reader as the oracle -------------------------------------------------------------------------------


ROUNDS = 75
CHARACTERS = "ab z\u00e9\u20ac\U0001f600#=[]{},.'\"\\\t\x01\x7f-_0"
TRICKS = ["\"", "'", "\\", "\n", "\r", "\r\n", "#", "=", ",", "[", "]", "\x00", "\x7f", "\t", "_", "0", "\\u00e9", "\\ud800", "\\x41", "true",
          "1.5", "''", '"""', ".", "{", "}", "port = 1\n", "\u00e9"]
# Messages about TOML that the subset leaves out or that options refuse.
OURS = re.compile(r"is not read|are not read|no such (key|table)|it takes|out of range|is not a (number|size|time)|cannot be empty|"
                  r"at most 8|\\u0000|does not fit|needs at least one")


def text_of(dice, text):
    """The text as one of the two kinds of string."""
    if dice.random() < 0.3 and "'" not in text and not re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text):
        return f"'{text}'"
    out = ""
    for c in text:
        plain = c not in '"\\' and (c == "\t" or (c >= " " and c != "\x7f"))
        escape = f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08X}"
        short = {"\t": "\\t", '"': '\\"', "\\": "\\\\"}.get(c)
        out += c if plain and dice.random() < 0.8 else short if short and dice.random() < 0.7 else escape
    return f'"{out}"'


def number_of(dice, n):
    return dice.choice([str(n), f"+{n}", hex(n), oct(n), bin(n), f"{n:_}", f"0x{n:04_X}"])


def some_file(dice):
    """A file of the subset, with all its liberties."""
    def blank():
        return dice.choice(["", " ", "\t", "  "])

    def end():
        return blank() + dice.choice(["", "", "# \u00e9 ' \" ] x"]) + dice.choice(["\n", "\n", "\r\n", "\n\n"])

    def some_text():
        return "".join(dice.choice(CHARACTERS) for _ in range(dice.randint(1, 12)))

    def array(items):
        gap = [blank() + dice.choice(["", end(), end() + end()]) for _ in range(2 * len(items) + 1)]
        inside = "".join(f"{gap[2 * i]}{item}{gap[2 * i + 1]}," for i, item in enumerate(items))
        return "[" + (inside if dice.random() < 0.5 else inside.removesuffix(",")) + gap[-1] + "]"
    values = {"root": lambda: text_of(dice, some_text()), "log-file": lambda: text_of(dice, some_text()),
              "listing-max": lambda: number_of(dice, dice.randint(1, 10_000_000)), "port": lambda: number_of(dice, dice.randint(0, 65535)),
              "spa": lambda: dice.choice(["true", "false"]), "listing": lambda: dice.choice(["true", "false"]),
              "redirect": lambda: array([text_of(dice, some_text()) for _ in range(dice.randint(0, 8))])}
    keys = dice.sample(sorted(values), dice.randint(0, len(values)))
    return "".join(end() * dice.randint(0, 1) + blank() + dice.choice([key, f'"{key}"', f"'{key}'"]) + blank() + "=" + blank() + values[key]() + end()
                   for key in keys)


@pytest.mark.parametrize("seed", range(4))
def test_same_as_python(file, seed):
    dice = random.Random(seed)
    for _ in range(ROUNDS):
        text = some_file(dice)
        want, got = tomllib.loads(text), effective("--config", file(text))
        assert {key: got[key] for key in want} == want, text


@pytest.mark.parametrize("seed", range(4))
def test_same_mistakes_as_python(file, seed):
    """A file with a mistake in it is refused by both, unless what makes it wrong here is no part of what is read."""
    dice, refused = random.Random(seed), 0
    for _ in range(ROUNDS):
        text = some_file(dice)
        for _ in range(dice.randint(1, 3)):
            at, cut = dice.randint(0, len(text)), dice.choice([0, 0, 1, 2])
            text = text[:at] + dice.choice(TRICKS) * dice.randint(0, 1) + text[at + cut:]
        out = run("config", "--config", file(text), env=CLEAN)
        try:
            want = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            assert out.returncode == EXIT_USAGE, text
            refused += 1
            continue
        if out.returncode == EXIT_USAGE:
            assert OURS.search(out.stderr), (text, out.stderr)
            continue
        got = tomllib.loads(out.stdout)
        assert {key: got[key] for key in want} == want, text
    assert refused > ROUNDS // 4
