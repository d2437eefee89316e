# SPDX-License-Identifier: MIT
"""The program as people and scripts meet it: help, manual, completion, mistakes, commands, environment."""
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from cli import (BIN, EXIT_DONE, EXIT_FAILED, EXIT_MISSING, EXIT_USAGE, FULL, PATIENCE, ROOT, TOP, begin, elf,
                 environment, no_port, options_table, run, site)  # noqa: F401 (fixtures among them)

sys.path.append(f"{TOP}/tests")
from words import WIDTH, continued  # noqa: E402 - found by the line above

pytestmark = [pytest.mark.any_engine("options are read before an engine runs"),
              pytest.mark.userspace("a command line")]


# --- Help and generated texts --------------------------------------------------------------------------


@pytest.mark.core
def test_help_is_one_screen():
    out = run("--help")
    lines = out.stdout.splitlines()
    assert out.returncode == EXIT_DONE and out.stderr == ""
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) <= 56, "a screen is full: an option that few need is .rare in its row, and only --help-all explains it"
    first_option = next(i for i, line in enumerate(lines) if re.match(r" +-", line))
    examples = [i for i, line in enumerate(lines) if re.match(r"  (sudo )?rung\b", line)]
    assert len(examples) >= 3 and max(examples) < first_option  # examples come first
    for same in (["-h"], ["help"], ["-p", "1", "-h"]):
        assert run(*same).stdout == out.stdout
    serve = run("serve", "--help").stdout
    assert len(serve.splitlines()) <= 40  # the commands are left out
    for same in (["help", "serve"], ["serve", "-p", "1", "-h"]):
        assert run(*same).stdout == serve
    continued(out.stdout, run("--help-all").stdout)


def commands():
    """{command: purpose} of the one table that main() dispatches by."""
    with open(f"{TOP}/server/commands.def", encoding="utf-8") as file:
        rows = re.findall(r'(?m)^COMMAND\((\w+), \w+, \w+, \w+,\s+"((?:[^"\\]|\\.)*)"\)', file.read())
    assert len(rows) >= 10
    return {name: purpose.replace('\\"', '"') for name, purpose in rows}


def test_every_command_is_everywhere():
    brief, everything, manual, completion = (run(word).stdout for word in ("--help", "--help-all", "man", "completion"))
    part = manual[manual.index(".Sh COMMANDS"):]
    words = re.search(r"local commands='(.*)'", completion)[1].split()
    assert words == list(commands())
    for name, purpose in commands().items():
        for text in (brief, everything):
            assert f"  {name:<12} {purpose}\n" in text, name
        assert re.search(rf'(?m)^\.It Li "rung \[?{name}\b', part), name
        assert re.search(rf"(?m)^ +{name}\) ", completion), name
        out = run("help", name)
        assert out.returncode == EXIT_DONE and out.stdout.startswith("usage: rung") and name in out.stdout, (name, out.stderr)


def test_help_of_commands():
    assert run("help", "engines").stdout == run("engines", "--help").stdout
    for word in ("help", "man"):
        out = run(word, "serv")
        assert out.returncode == EXIT_USAGE and "did you mean serve" in out.stderr and out.stderr.startswith(f"rung: {word}: ")
    assert run("help", "completion").stdout.startswith("usage: rung completion [bash|zsh|fish]\n")
    out = run("completion", "fihs")
    assert out.returncode == EXIT_USAGE and "did you mean fish" in out.stderr
    out = run("completion", "powershell")
    assert out.returncode == EXIT_USAGE and "choose from bash, zsh, fish" in out.stderr
    assert run("completion", "bash").stdout == run("completion").stdout


# shows U22
def test_page_of_each_command():
    """A program prints its own, a command with options its own, and the others are on that of rung."""
    whole = run("man").stdout
    for name in commands():
        out = run("man", name)
        title = re.search(r"(?m)^\.Dt (\S+) 1$", out.stdout)[1].lower()
        assert out.returncode == EXIT_DONE and title in ("rung", f"rung-{name}"), name
        assert (title == "rung") == (out.stdout == whole) and (title == "rung") == (
            name in ("serve", "help", "version", "man", "completion", "options")), name
    for args, page in ((("trace", "sniff"), "RUNG-TRACE-SNIFF"), (("trace",), "RUNG-TRACE")):
        assert f".Dt {page} 1\n" in run("man", *args).stdout
    assert run("help", "trace", "sniff").stdout == run("trace", "sniff", "--help").stdout != ""


# shows D20, N19
def test_every_option_is_everywhere():
    brief, everything = run("--help").stdout, run("--help-all").stdout
    manual, completion = run("man").stdout.replace("\\-", "-"), run("completion").stdout
    zsh, fish = run("completion", "zsh").stdout, run("completion", "fish").stdout
    for name, cells in options_table().items():
        word = rf"--{name}(?![\w-])"
        assert re.search(word, brief), name
        assert re.search(rf"(?m)^ +(-\w, )?{word}.*(?: {{2}}|\n {{28}})\S", everything), name
        assert re.search(rf"(?m)^\.It .*Fl -{name}(?![\w-])", manual), name
        assert re.search(word, completion) and re.search(word, zsh) and f" -l {name} " in fish, name
        variable = "RUNG_" + name.upper().replace("-", "_")
        assert f"`{variable}`" in cells[4] and variable in manual


@pytest.mark.skipif(not shutil.which("mandoc"), reason="mandoc is not installed")
def test_manual_is_clean(tmp_path):
    page = tmp_path / "rung.1"
    for name in ("echo", "engines", "doctor", "lab", "serve"):
        page.write_text(run("man", name).stdout)
        lint = subprocess.run(["mandoc", "-Tlint", str(page)], stdout=subprocess.PIPE, text=True, check=False, timeout=PATIENCE)
        assert lint.stdout == "" and lint.returncode == 0
    text = subprocess.run(["mandoc", "-Tascii", "-Owidth=200", str(page)], stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout
    text = re.sub(rb".\x08", b"", text).decode()
    for part in ("NAME", "SYNOPSIS", "OPTIONS", "SIGNALS", "EXIT STATUS", "ENVIRONMENT", "EXAMPLES", "--head-timeout TIME"):
        assert part in text, part


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_completion(tmp_path):
    script = tmp_path / "rung.bash"
    script.write_text(run("completion").stdout)
    os.mkdir(tmp_path / "pictures")
    os.mkdir(tmp_path / "my music")

    def complete(*words):
        line = (f". {script}; set -u; COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; _rung; "
                'printf "%s\\n" "${COMPREPLY[@]}"')
        out = subprocess.run(["bash", "--norc", "-c", line], stdout=subprocess.PIPE, cwd=tmp_path, text=True, check=True,
                             timeout=PATIENCE)
        return set(filter(None, out.stdout.split("\n")))
    assert complete("rung", "--head-") == {"--head-timeout"}
    assert complete("rung", "--no-h") == {"--no-health", "--no-hidden"}
    assert complete("rung", "--engine", "ep") == {"epoll"}
    assert complete("rung", "-e", "na") == {"naive"}
    assert complete("rung", "--log", "") == {"off", "combined", "json", "stages", "timed", "vhost"}
    assert complete("rung", "--listing", "o") == {"on", "off"}
    assert "pictures" in complete("rung", "-q", "pic")
    assert complete("rung", "eng") == {"engines"} and complete("rung", "my") == {"my music"}
    assert set(commands()) | {"pictures"} <= complete("rung", "") and "pictures" in complete("rung", "serve", "")
    assert complete("rung", "--engine", "=", "ur") == {"uring"} and "naive" in complete("rung", "--engine", "=")
    assert complete("rung", "help", "lo") == {"load"} and complete("rung", "help", "load", "l") == set()
    assert complete("rung", "echo", "--engine", "ur") == {"uring"} and complete("rung", "echo", "--lis") == set()
    assert complete("rung", "serve", "--lis") == {"--listing", "--listing-max"}
    assert complete("rung", "doctor", "--j") == {"--json"} and complete("rung", "version", "") == set()
    assert complete("rung", "--user", "roo") == {"root"}
    if elf():  # the programs in the same folder complete their own options
        assert complete(BIN, "load", "--find") == {"--find-knee"} and complete(BIN, "drop", "-p", "80", "--net") == {"--netns"}
        assert complete(BIN, "trace", "sn") == {"sniff"} and complete(BIN, "trace", "sniff", "--inter") == {"--interface"}
        assert complete(BIN, "trace", "80", "--slowe") == {"--slower", "--slowest"} and complete(BIN, "trace", "sniff", "--slowe") == set()
        assert complete(BIN, "lab", "sh") == {"show"} and complete(BIN, "lab", "run", "echo-f") == {"echo-flood"}
        assert complete(BIN, "lab", "run", "--ag") == {"--again"}
    assert complete("rung", "--log-file", "rung.") == {"rung.bash"}


@pytest.mark.core
# shows D20
def test_documented_table_is_current():
    with open(f"{TOP}/docs/serve.md", encoding="utf-8") as file:
        text = file.read()
    table = run("options").stdout
    assert table in text, "docs/serve.md: its table of options is out of date: make docs"


# --- Mistakes ------------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize("args, words", [
    (["--prot", "1"], ["--prot", "did you mean --port?"]),
    (["--head-timeuot=1"], ["did you mean --head-timeout?"]),
    (["--index-file=x"], ["--index-file", "no such option"]),
    (["-port", "1"], ["two dashes", "--port"]),
    (["-Z"], ["-Z: no such option", "--help"]),
    (["--port"], ["needs a value", "N"]),
    (["--port", "65536"], ["65536", "0 to 65535"]),
    (["--port", "http"], ["'http' is not a number", "0 to 65535"]),
    (["--port", "-1"], ["'-1' is not a number"]),
    (["--port="], ["--port"]),
    (["--engine", "eppol"], ["did you mean epoll?"]),
    (["--engine", "apache"], ["auto", "epoll", "naive"]),
    (["--idle-timeout", "99ms"], ["99ms is out of range", "100ms to 1d"]),
    (["--idle-timeout", "5 s"], ["not a time"]),
    (["--head-timeout", "61m"], ["out of range", "1h"]),
    (["--drain-timeout", "99999999999999999999"], ["out of range"]),
    (["--min-progress", "0"], ["out of range", "1 to 1g"]),
    (["--min-progress", "2x"], ["not a size"]),
    (["--max-body", "4g"], ["out of range"]),
    (["--backlog", "0"], ["1 to 65535"]),
    (["--listing", "perhaps"], ["neither on nor off"]),
    (["--no-listing"], ["--listing off"]),
    (["--quiet=yes"], ["takes no value"]),
    (["--log", "jsn"], ["did you mean json?"]),
    (["--log-file", "x"], ["--log combined"]),
    (["--index", "a/b"], ["not a path"]),
    (["--index", "a" * 256], ["at most 255 bytes"]),
    (["--index", ""], ["cannot be empty"]),
    (["--header", "x"], ["'Name: value'"]), (["--header", "X-A:"], ["empty"]), (["--header", "X-A: b "], ["space"]),
    (["--header", "X-A: b\rc"], ["control"]), (["--header", "X-A: b\r\nSet-Cookie: c"], ["control"]), (["--header", "X-A: b\nc"], ["control"]),
    (["--header", "X\r\nA: b"], ["'Name: value'"]), (["--header", "X-A: b\x7f"], ["control"]),
    (["--header", "Content-Type: x"], ["itself"]), (["--header", "*.css vary: x"], ["itself"]),
    (["--header", "*.css"], ["'Name: value'"]), (["--header", ": x"], ["'Name: value'"]), (["--header", "X-A: " + "v" * 1020], ["1024 bytes"]),
    (["--header", "a b c: d"], ["'Name: value'"]),
    (["--redirect", "/a"], ["FROM TO"]), (["--redirect", "/a b"], ["TO is"]), (["--redirect", "a /b"], ["FROM is"]), (["--redirect", "/a //b"], ["TO is"]),
    (["--redirect", "/a/* /b"], ["both"]), (["--redirect", "/a /b/*"], ["both"]), (["--redirect", "/a* /b/*"], ["ends with '/*'"]),
    (["--redirect", "/a/* https://b.example*"], ["ends with '/*'"]), (["--redirect", "/a javascript:x"], ["TO is"]),
    (["--redirect", "/a https:///b"], ["TO is"]), (["--redirect", "/a /b 303"], ["301, 302"]), (["--redirect", "/a /b 302 x"], ["301, 302"]),
    (["--redirect", "/../a /b"], ["FROM is"]), (["--redirect", '/a /"b'], ["TO is"]), (["--redirect", "/a /b\r\nX-A:c"], ["TO is"]),
    (["--redirect", "/a/* //*"], ["ends with '/*'"]), (["--redirect", "/a /\\b.example"], ["TO is"]), (["--redirect", "/a /" + "b" * 1024], ["TO is"]),
    (["--allow", "x"], ["10.0.0.0/8"]), (["--allow", "10.0.0.0/33"], ["10.0.0.0/8"]), (["--deny", "10.0.0.1/8"], ["are 0"]),
    (["--deny", "fd00::/129"], ["--deny"]), (["--deny", "10.0.0.0/"], ["--deny"]), (["--allow", "10.0.0.0/-1"], ["--allow"]), (["--allow", "1.2.3"], ["--allow"]),
    (["--allow", "10.0.0.1,"], ["--allow"]), (["--allow", ",".join(["10.0.0.1"] * 65)], ["more than 64"]),
    (["--auth", "none-such"], ["none-such", "does not exist"]), (["--auth", "file.txt"], ["line 1", "NAME:HASH"]), (["--auth", "/dev/null"], ["no line"]),
    (["one", "two"], ["one PATH too many"]),
    (["-b", "nonsense"], ["not an address", "127.0.0.1"]),
    (["-b", "unix:"], ["unix:"]),
    (["--bind", ""], ["cannot be empty"]),
    (["-b1"] * 9, ["at most 8"]),
    (["no-such-folder/"], ["does not exist", "name a folder"]),
    (["/dev/null"], ["neither a folder nor a file"]), (["file.txt", "--spa"], ["--spa", "single file"]),
    (["file.txt", "--pretty-urls"], ["--pretty-urls", "single file"]),
    (["--user", "no-such-user-here"], ["no such user"] if ROOT else ["only root"]),
])
# shows N19, S02, U90
def test_mistakes_in_options(site, args, words):
    out = run("serve", "-p", "0", *args, cwd=site)
    assert out.returncode == EXIT_USAGE and out.stdout == ""
    assert out.stderr.startswith("rung: ") and out.stderr.count("\n") == 1, out.stderr
    for word in words:
        assert word in out.stderr, out.stderr


@pytest.mark.parametrize("args, words", [
    (["--directory", "x"], "rung DIR"), (["-d", "x"], "rung DIR"), (["--cgi"], "no programs"), (["--tls-cert", "x"], "--tls CERT,KEY"),  # Python
    (["--host", "x"], "here it is --bind ADDR"), (["--cert", "x"], "--tls CERT,KEY"), (["--enable-cors"], "here it is --cors"), (["-o"], "no browser"),  # npx
    (["-l", "3000"], "--port N"), (["--single"], "--spa"), (["--no-clipboard"], "clipboard"), (["--gzip"], "--compress on|off: on by default"),
    (["--root", "x"], "rung DIR"), (["--browse"], "--listing on|off: on by default"), (["--access-log"], "--log combined"),  # Caddy
    (["-c", "x"], "configuration file"), (["--basic-auth", "x"], "--auth FILE"), (["-t"], "rung DIR"), (["-s", "reload"], "--spa"),  # nginx
    (["--interfaces", "x"], "--bind ADDR"), (["--route-prefix", "x"], "rewrites no paths"), (["--qrcode"], "--public"), (["--upload-files"], "changes or deletes nothing"),  # miniserve
    (["--document-root", "x"], "rung DIR"), (["--addr", "x"], "--bind ADDR"), (["--daemon"], "foreground"), (["-S", "x"], "--port N"),
])
# shows U90
def test_options_of_other_servers(site, args, words):
    out = run(*args, cwd=site)
    assert out.returncode == EXIT_USAGE and out.stdout == ""
    assert out.stderr.startswith(f"rung: {args[0]}: no such option; ") and words in out.stderr and out.stderr.count("\n") == 1


def test_mistaken_words(site):
    for word, port in (("0", True), ("65535", True), ("65536", False), ("80a", False)):
        out = run(word, cwd=site)
        assert out.returncode == EXIT_USAGE and (f"did you mean rung --port {word}?" in out.stderr) == port, out.stderr
    out = run("sreve", cwd=site)
    assert out.returncode == EXIT_USAGE and "did you mean rung serve?" in out.stderr
    out = run("xyzzy", cwd=site)
    assert out.returncode == EXIT_USAGE and "neither a folder nor a command" in out.stderr
    out = run("xyzzy/", cwd=site)
    assert out.returncode == EXIT_USAGE and "does not exist" in out.stderr
    out = run("engines", "all", cwd=site)
    assert out.returncode == EXIT_USAGE and "only options are taken" in out.stderr


def test_control_characters_do_not_reach_the_terminal(site):
    out = run("serve", "\x1b[31mred\n/", cwd=site)
    assert out.returncode == EXIT_USAGE
    assert "\x1b" not in out.stderr and out.stderr.count("\n") == 1


@pytest.mark.skipif(not os.path.exists(FULL), reason="no /dev/full")
def test_help_that_cannot_be_written():
    with open(FULL, "wb") as full:
        out = subprocess.run([BIN, "--help"], stdout=full, stderr=subprocess.PIPE, env=environment(), timeout=PATIENCE,
                             check=False)
    assert out.returncode == EXIT_FAILED and b"the disk is full" in out.stderr


# --- Commands ------------------------------------------------------------------------------------------


def test_version():
    out = run("--version")
    assert out.returncode == EXIT_DONE and re.match(r"rung \d+\.\d+\nengines: .*\bepoll\b", out.stdout)
    assert run("version").stdout == out.stdout


def test_engines():
    rows = json.loads(run("engines", "--json").stdout)
    text = run("engines").stdout
    assert [row["name"] for row in rows][:1] == ["naive"] and len(rows) >= 3
    for row in rows:
        assert set(row) == {"name", "summary", "use", "model", "may_block", "forks", "thread_pool", "capacity", "stack_bytes",
                            "auto", "available", "reason"}
        assert row["model"] in ("blocking", "readiness", "completion", "none")
        assert row["available"] == (row["reason"] is None)
        assert re.search(rf"(?m)^{row['name']} .*{re.escape(row['summary'])}", text)
        stack = re.search(rf"(?m)^{row['name']} .*\n.*\n.*; stack of each: (\d+) KiB$", text)
        assert re.search(rf"(?m)^{row['name']} .*\n +use it when {re.escape(row['use'])}$", text)
        assert row["stack_bytes"] == (int(stack[1]) << 10 if stack else 0)
    assert {row["name"] for row in rows if row["stack_bytes"]} == {"thread", "coro"}
    assert max(map(len, text.splitlines())) <= WIDTH
    chosen = re.search(r"--engine auto, the default, chooses (\w+) here", text)[1]
    assert [chosen] == [row["name"] for row in rows if row["auto"] and row["available"]]


def test_doctor():
    """The text has each check of --json too, with advice where it is not fine."""
    rows, text = json.loads(run("doctor", "--json").stdout), run("doctor").stdout
    assert len(rows) >= 10 and max(map(len, text.splitlines())) <= WIDTH
    for row in rows:
        assert set(row) == {"name", "value", "fine", "meaning", "advice"}
        line = rf"(?m)^ {' ok  ' if row['fine'] else 'LIMIT'} +{re.escape(row['name'])} .*\n +{re.escape(row['meaning'])}$"
        assert re.search(line, text), row
        assert (f"-> {row['advice']}" in text) == (not row["fine"]), row
    low = subprocess.run(["bash", "-c", f"ulimit -n 256; exec {BIN} doctor"], stdout=subprocess.PIPE, env=environment(), text=True,
                         timeout=PATIENCE, check=True).stdout
    assert re.search(r"(?m)^ LIMIT descriptors +256 of at most 256\n.*\n +-> raise it", low) and "met first" in low


def test_doctor_where_limits_are_hidden():
    """A container without /proc/sys: what cannot be read is said, and is no limit."""
    if subprocess.run(["unshare", "-m", "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("needs the right to mount")
    hidden = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc/sys && exec "$0" doctor --json', BIN]
    rows = json.loads(subprocess.run(hidden, stdout=subprocess.PIPE, env=environment(), text=True, timeout=PATIENCE, check=True).stdout)
    known = {row["name"]: row for row in rows}
    for name in ("net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog", "net.ipv4.ip_local_port_range"):
        path = f"/proc/sys/{name.replace('.', '/')}"
        assert known[name]["value"] == f"not known: {path} cannot be read" and known[name]["fine"]


@pytest.mark.skipif(not elf(), reason="the binary is behind a wrapper here")
def test_neighbours(tmp_path):
    copy = shutil.copy(BIN, tmp_path / "rung")
    neighbour = tmp_path / "rung-hello"
    neighbour.write_text('#!/bin/sh\necho "$0" "$@"\nexit 7\n')
    env = environment()

    def ask(*args):
        return subprocess.run([copy, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True, cwd=tmp_path,
                              timeout=PATIENCE, check=False)
    assert ask("hello").returncode == EXIT_USAGE  # not executable
    neighbour.chmod(0o755)
    out = ask("hello", "a b", "--port")
    assert out.returncode == 7 and out.stdout == f"{neighbour} a b --port\n"
    assert ask("../hello").returncode == EXIT_USAGE
    out = ask("lab")
    assert out.returncode == EXIT_MISSING and out.stderr.startswith(f"rung: rung lab needs the program {copy}-lab, which is missing:")
    assert ask("x" * 300).returncode == EXIT_USAGE


# --- Environment ---------------------------------------------------------------------------------------


@pytest.mark.core
# shows S02
def test_environment(begin, site):
    port = no_port()
    server = begin("-b", "127.0.0.1", site, env={"RUNG_PORT": str(port)})
    assert server.port == port
    env = {"RUNG_PORT": "1", "RUNG_BIND": "127.0.0.1,127.0.0.2", "RUNG_HIDDEN": "yes", "RUNG_LISTING": "off"}
    server = begin("-p", "0", site, env=env)  # the command line takes precedence
    assert "127.0.0.2" in server.opening and "[::1]" not in server.opening
    assert server.get("/.secret").status == 200 and server.get("/").status == 403
    server = begin("-p", "0", "--no-hidden", "--listing", "on", site, env=env)
    assert server.get("/.secret").status == 404 and server.get("/").status == 200


def test_mistakes_in_the_environment(site):
    out = run("serve", site, env={"RUNG_PORT": "many"})
    assert out.returncode == EXIT_USAGE and "RUNG_PORT: 'many' is not a number" in out.stderr
    out = run("serve", site, env={"RUNG_HIDDEN": "perhaps"})
    assert out.returncode == EXIT_USAGE and "RUNG_HIDDEN" in out.stderr
    assert run("--help", env={"RUNG_PORT": "many"}).returncode == EXIT_DONE
    assert run("serve", "--log-file=x", env={"RUNG_LOG": ""}, cwd=site).returncode == EXIT_USAGE
