# SPDX-License-Identifier: MIT
"""The program as people and scripts meet it: options, help, messages, exit codes, signals, log, users, sockets.

It starts rung by itself, for most of these runs are meant to fail, and reads nothing but what the manual
promises: the line "rung: serving DIR at URL and URL", the messages and the exit codes.
"""
import contextlib
import ctypes
import http.client
import json
import os
import pwd
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung")
ENGINE = os.environ.get("RUNG_ENGINE") or "epoll"
PATIENCE = 60  # seconds: how long a slow machine may take; nothing waits that long when all is well
ROOT = os.geteuid() == 0
EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_LISTEN, EXIT_MISSING = range(5)
FULL = "/dev/full"


def environment(extra=None):
    return {**{k: v for k, v in os.environ.items() if not k.startswith("RUNG_")}, **(extra or {})}


def run(*args, env=None, cwd=None, **options):
    """A run that ends by itself."""
    return subprocess.run([BIN, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment(env), cwd=cwd, timeout=PATIENCE, text=True,
                          errors="backslashreplace", **options)


def wait_for(question, what):
    end = time.monotonic() + PATIENCE
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(0.01)


class Running:
    """A server that was started, and the lines it has said."""

    def __init__(self, *args, env=None, cwd=None, engine=ENGINE, **options):
        self.lines, self.more = [], threading.Condition()
        options.setdefault("stdout", subprocess.DEVNULL)
        command = [BIN, "serve", *(["-e", engine] if engine else []), *map(str, args)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        env=environment(env), cwd=cwd, **options)
        self.pid = self.process.pid
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            with self.more:
                self.lines.append(line.decode("utf-8", "backslashreplace").rstrip("\n"))
                self.more.notify_all()
        with self.more:
            self.more.notify_all()

    def said(self, pattern):
        """Wait for a line; the match."""
        end = time.monotonic() + PATIENCE
        with self.more:
            while True:
                for line in self.lines:
                    match = re.search(pattern, line)
                    if match:
                        return match
                assert self.reader.is_alive() and time.monotonic() < end, f"no {pattern!r} in {self.lines}"
                self.more.wait(0.1)

    def count(self, pattern):
        with self.more:
            return sum(bool(re.search(pattern, line)) for line in self.lines)

    def ready(self):
        self.opening = self.said(r"^rung: serving .* at .*").group()
        self.ports = {int(port) for port in re.findall(r"http://\S+:(\d+)/", self.opening)}
        self.port = min(self.ports, default=None)
        return self

    def get(self, path="/", host="127.0.0.1", method="GET", headers=None, body=None):
        client = http.client.HTTPConnection(host, self.port, timeout=PATIENCE)
        with contextlib.closing(client):
            client.request(method, path, body=body, headers=headers or {})
            answer = client.getresponse()
            answer.body = answer.read()
            return answer

    def send(self, number):
        self.process.send_signal(number)

    def end(self, number=signal.SIGTERM):
        if number:
            self.send(number)
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join(PATIENCE)
        self.process.stderr.close()


@pytest.fixture
def begin(engine):  # pylint: disable=unused-argument
    """begin(options...) -> a server that says it is ready."""
    running = []

    def start(*args, wait=True, **options):
        running.append(Running(*args, **options))
        return running[-1].ready() if wait else running[-1]
    yield start
    for one in running:
        one.kill()
        bad = [line for line in one.lines if re.search(r"Sanitizer|runtime error:|broken promise", line)]
        assert not bad, one.lines


@pytest.fixture
def site(tree):
    with open(f"{tree}/file.txt", "w", encoding="ascii") as file:
        file.write("content\n")
    with open(f"{tree}/.secret", "w", encoding="ascii") as file:
        file.write("hidden\n")
    os.mkdir(f"{tree}/folder")
    with open(f"{tree}/folder/start.html", "w", encoding="ascii") as file:
        file.write("<p>start\n")
    return tree


@pytest.fixture
def large(tree):
    """More than any socket's buffers take, and no disk."""
    with open(f"{tree}/large", "wb") as file:
        file.truncate(1 << 30)
    return tree


def no_port():
    """A port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def options_table():
    """The rows of `rung options`: name -> (default, range)."""
    rows = {}
    for line in run("options").stdout.splitlines()[2:]:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        name = re.search(r"--([a-z-]+)", cells[0]).group(1)
        rows[name] = cells
    assert len(rows) >= 20
    return rows


# --- Help and what is generated --------------------------------------------------------------------------


@pytest.mark.core
def test_help_is_one_screen():
    out = run("--help")
    lines = out.stdout.splitlines()
    assert out.returncode == EXIT_DONE and out.stderr == ""
    assert len(lines) <= 40 and max(map(len, lines)) <= 100
    first_option = next(i for i, line in enumerate(lines) if re.match(r" +-", line))
    examples = [i for i, line in enumerate(lines) if re.match(r"  (sudo )?rung\b", line)]
    assert len(examples) >= 3 and max(examples) < first_option  # examples come first
    for same in (["-h"], ["serve", "--help"], ["help", "serve"], ["serve", "-p", "1", "-h"]):
        assert run(*same).stdout == out.stdout
    assert out.stdout in run("help").stdout
    assert "rung engines" in run("help").stdout


def test_help_of_commands():
    assert run("help", "engines").stdout == run("engines", "--help").stdout
    assert run("help", "help").returncode == EXIT_DONE
    out = run("help", "serv")
    assert out.returncode == EXIT_USAGE and "did you mean serve" in out.stderr


def test_every_option_is_everywhere():
    brief, everything = run("--help").stdout, run("--help-all").stdout
    manual, completion = run("man").stdout.replace("\\-", "-"), run("completion").stdout
    for name, cells in options_table().items():
        word = rf"--{name}(?![\w-])"
        assert re.search(word, brief), name
        assert re.search(rf"(?m)^ +(-\w, )?{word}.* {{2}}\S|{word} \S+ \S", everything), name
        assert re.search(rf"(?m)^\.It .*Fl -{name}(?![\w-])", manual), name
        assert re.search(word, completion), name
        variable = "RUNG_" + name.upper().replace("-", "_")
        assert f"`{variable}`" in cells[4] and variable in manual


@pytest.mark.skipif(not shutil.which("mandoc"), reason="mandoc is not installed")
def test_manual_is_clean(tmp_path):
    page = tmp_path / "rung.1"
    page.write_text(run("man").stdout)
    lint = subprocess.run(["mandoc", "-Tlint", str(page)], stdout=subprocess.PIPE, text=True, check=False, timeout=PATIENCE)
    assert lint.stdout == "" and lint.returncode == 0
    text = subprocess.run(["mandoc", "-Tascii", str(page)], stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout
    text = re.sub(rb".\x08", b"", text).decode()
    for part in ("NAME", "SYNOPSIS", "OPTIONS", "SIGNALS", "EXIT STATUS", "ENVIRONMENT", "EXAMPLES", "--head-timeout TIME"):
        assert part in text, part


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_completion(tmp_path):
    script = tmp_path / "rung.bash"
    script.write_text(run("completion").stdout)
    os.mkdir(tmp_path / "pictures")

    def complete(*words):
        line = (f". {script}; COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; _rung; "
                'printf "%s\\n" "${COMPREPLY[@]}"')
        out = subprocess.run(["bash", "--norc", "-c", line], stdout=subprocess.PIPE, cwd=tmp_path, text=True, check=True,
                             timeout=PATIENCE)
        return set(out.stdout.split())
    assert complete("rung", "--head") == {"--head-timeout"}
    assert complete("rung", "--no-h") == {"--no-hidden"}
    assert complete("rung", "--engine", "ep") == {"epoll"}
    assert complete("rung", "-e", "na") == {"naive"}
    assert complete("rung", "--log", "") == {"off", "combined", "json"}
    assert complete("rung", "--listing", "o") == {"on", "off"}
    assert "pictures" in complete("rung", "-q", "pic")
    assert complete("rung", "eng") == {"engines"}
    assert complete("rung", "--log-file", "rung.") == {"rung.bash"}


def test_documented_table_is_current():
    with open(f"{TOP}/docs/serve.md", encoding="utf-8") as file:
        text = file.read()
    table = run("options").stdout
    assert table in text, "docs/serve.md: paste the output of `rung options` between its marks"


# --- Mistakes -------------------------------------------------------------------------------------------


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
    (["--index", ""], ["cannot be empty"]),
    (["one", "two"], ["one DIR too many"]),
    (["-b", "nonsense"], ["not an address", "127.0.0.1"]),
    (["-b", "unix:"], ["unix:"]),
    (["--bind", ""], ["cannot be empty"]),
    (["-b1"] * 9, ["at most 8"]),
    (["no-such-folder/"], ["does not exist", "name a folder"]),
    (["file.txt"], ["not a folder"]),
    (["--user", "no-such-user-here"], ["no such user"] if ROOT else ["only root"]),
    (["--user", "root"], ["that is root"] if ROOT else ["only root"]),
])
def test_mistakes_in_options(site, args, words):
    out = run("serve", "-p", "0", *args, cwd=site)
    assert out.returncode == EXIT_USAGE and out.stdout == ""
    assert out.stderr.startswith("rung: ") and out.stderr.count("\n") == 1, out.stderr
    for word in words:
        assert word in out.stderr, out.stderr


def test_mistaken_words(site):
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


# --- Commands -------------------------------------------------------------------------------------------


def test_version():
    out = run("--version")
    assert out.returncode == EXIT_DONE and re.match(r"rung \d+\.\d+\nengines: .*\bepoll\b", out.stdout)
    assert run("version").stdout == out.stdout


def test_engines():
    rows = json.loads(run("engines", "--json").stdout)
    text = run("engines").stdout
    assert [row["name"] for row in rows][:1] == ["naive"] and len(rows) >= 3
    for row in rows:
        assert set(row) == {"name", "summary", "model", "may_block", "capacity", "available", "reason"}
        assert row["model"] in ("blocking", "readiness", "completion", "none")
        assert row["available"] == (row["reason"] is None)
        assert re.search(rf"(?m)^{row['name']} .*{re.escape(row['summary'])}", text)


def elf():
    with open(BIN, "rb") as file:
        return file.read(4) == b"\x7fELF"


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
    assert ask("x" * 300).returncode == EXIT_USAGE


# --- Listening ------------------------------------------------------------------------------------------


@pytest.mark.core
def test_opening_lines(begin, site):
    server = begin("-p", "0", site)
    match = re.fullmatch(r"rung: serving (\S+) at (.*)", server.opening)
    assert match.group(1) == os.path.realpath(site)
    assert len(server.ports) == 1  # both families, one number
    assert server.said(r"engine").string.startswith(f"rung: engine {ENGINE} (as asked)")
    server.said("Ctrl-C")
    assert server.get("/file.txt").body == b"content\n"
    if "[::1]" in match.group(2):
        assert server.get("/file.txt", host="::1").body == b"content\n"
    assert server.end() == EXIT_DONE
    server.said(r"stopped after [12] answers? on [12] connections?, \d+ bytes sent")


def test_the_engine_is_chosen(begin, site):
    server = begin("-p", "0", site, engine=None)
    assert re.search(r"engine \w+ \(chosen automatically: .+\)", server.said("engine").string)


def test_serve_may_be_left_out(begin, site):
    for command in ([], ["."], ["serve"]):
        process = subprocess.Popen([BIN, *command], cwd=site, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   env=environment({"RUNG_PORT": "0", "RUNG_ENGINE": ENGINE}))
        try:
            assert process.stderr.readline().startswith(b"rung: serving " + os.fsencode(os.path.realpath(site)))
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == EXIT_DONE
            process.stderr.close()


def test_loopback_unless_public(begin, site):
    def reached(server, host):
        try:
            socket.create_connection((host, server.port), PATIENCE).close()
            return True
        except ConnectionRefusedError:
            return False
    private, public = begin("-p", "0", site), begin("-p", "0", "--public", site)
    assert reached(private, "127.0.0.1") and not reached(private, "127.0.0.2")
    assert reached(public, "127.0.0.1") and reached(public, "127.0.0.2")
    assert public.get("/file.txt").status == 200
    named = begin("-p", "0", "-b", "127.0.0.2", site)
    assert reached(named, "127.0.0.2") and not reached(named, "127.0.0.1")


def test_port_taken(begin, site):
    first = begin("-p", "0", "-b", "127.0.0.1", site)
    out = run("serve", "-p", first.port, "-b", "127.0.0.1", site)
    assert out.returncode == EXIT_LISTEN
    match = re.search(rf"port {first.port} on 127\.0\.0\.1 is taken by (.*?); .*try --port (\d+)", out.stderr)
    assert match, out.stderr
    assert f"(pid {first.pid})" in match.group(1)
    second = begin("-p", match.group(2), "-b", "127.0.0.1", site)  # the advice is good
    assert second.port == int(match.group(2))
    assert first.get("/file.txt").status == 200


def test_port_taken_on_one_family_only(begin, site):
    with socket.socket(socket.AF_INET6) as taken:
        try:
            taken.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 here")
        taken.listen()
        port = taken.getsockname()[1]
        out = run("serve", "-p", port, site)
        assert out.returncode == EXIT_LISTEN and f"port {port} on ::1 is taken by" in out.stderr
    assert begin("-p", port, site).ports == {port}


def test_unknown_address(site):
    out = run("serve", "-p", "0", "-b", "192.0.2.77", site)
    assert out.returncode == EXIT_LISTEN and "no such address" in out.stderr


def test_low_port_without_root(site):
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding="ascii") as file:
        if int(file.read()) <= 81:
            pytest.skip("this machine gives low ports to everyone")
    user = {"user": pwd.getpwnam("nobody").pw_uid, "extra_groups": []} if ROOT else {}
    out = run("serve", "-p", "81", "-b", "127.0.0.1", site, **user)
    assert out.returncode == EXIT_LISTEN
    assert "below 1024" in out.stderr and "--user" in out.stderr


def without_ipv6():
    """In the child: a network of its own, with IPv4 on loopback alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x40000000) != 0:  # CLONE_NEWNET
        os._exit(99)
    with open("/proc/sys/net/ipv6/conf/all/disable_ipv6", "w", encoding="ascii") as file:
        file.write("1")
    if os.system("ip link set lo up") != 0:
        os._exit(99)


@pytest.mark.skipif(not ROOT or not shutil.which("ip"), reason="needs root and the ip command")
def test_without_ipv6(site):
    server = Running("-p", "0", site, preexec_fn=without_ipv6)
    try:
        server.said("IPv6 is not available|serving")
    except AssertionError:
        if server.process.wait() == 99:
            pytest.skip("network namespaces are not to be had")
        raise
    try:
        assert "[::1]" not in server.ready().opening and "127.0.0.1" in server.opening
        server.said("IPv6 is not available on this machine: ::1 is left out")
        assert server.end() == EXIT_DONE
    finally:
        server.kill()
    named = Running("-p", "0", "-b", "::1", site, preexec_fn=without_ipv6)  # asked for: then it must be there
    try:
        assert named.end(None) == EXIT_LISTEN
    finally:
        named.kill()


# --- Unix sockets -----------------------------------------------------------------------------------------


def unix_get(path, target="/file.txt"):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(path)
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        return answer


def test_unix_socket(begin, site, tmp_path):
    path = f"{tmp_path}/socket"
    server = begin("-b", f"unix:{path}", "--log", "json", "--log-file", tmp_path / "log", site)
    assert server.opening.endswith(f"at unix:{path}")
    assert unix_get(path).endswith(b"\r\n\r\ncontent\n")
    out = run("serve", "-b", f"unix:{path}", site)  # a living server is not pushed aside
    assert out.returncode == EXIT_LISTEN and "another server answers there" in out.stderr
    assert unix_get(path).endswith(b"content\n")
    assert server.end() == EXIT_DONE
    assert not os.path.exists(path)
    assert json.loads((tmp_path / "log").read_text().splitlines()[0])["peer"] == "unix"


def test_unix_socket_left_behind(begin, site, tmp_path):
    path = f"{tmp_path}/socket"
    dead = begin("-b", f"unix:{path}", site)
    dead.kill()
    assert stat.S_ISSOCK(os.stat(path).st_mode)
    begin("-b", f"unix:{path}", site)
    assert unix_get(path).endswith(b"content\n")


def test_unix_socket_is_no_place_for_a_file(site, tmp_path):
    path = tmp_path / "precious"
    path.write_text("data")
    out = run("serve", "-b", f"unix:{path}", site)
    assert out.returncode == EXIT_LISTEN and path.read_text() == "data"
    out = run("serve", "-b", f"unix:{tmp_path}/none/socket", site)
    assert out.returncode == EXIT_LISTEN and "folder must exist" in out.stderr


def test_unix_socket_paths_have_a_limit(begin, site):
    with contextlib.ExitStack() as stack:
        folder = "/tmp/rung-unix-" + str(os.getpid())
        os.mkdir(folder)
        stack.callback(shutil.rmtree, folder)
        longest = folder + "/" + "x" * (107 - len(folder) - 1)
        out = run("serve", "-b", f"unix:{longest}x", site)
        assert out.returncode == EXIT_LISTEN and "1 to 107" in out.stderr
        server = begin("-b", f"unix:{longest}", site)
        assert unix_get(longest).endswith(b"content\n")
        assert server.end() == EXIT_DONE


def test_both_kinds_of_socket(begin, site, tmp_path):
    server = begin("-p", "0", "-b", "127.0.0.1", "-b", f"unix:{tmp_path}/socket", site)
    assert server.get("/file.txt").status == 200
    assert unix_get(f"{tmp_path}/socket").endswith(b"content\n")


# --- Environment ------------------------------------------------------------------------------------------


@pytest.mark.core
def test_environment(begin, site):
    port = no_port()
    server = begin("-b", "127.0.0.1", site, env={"RUNG_PORT": str(port)})
    assert server.port == port
    env = {"RUNG_PORT": "1", "RUNG_BIND": "127.0.0.1,127.0.0.2", "RUNG_HIDDEN": "yes", "RUNG_LISTING": "off"}
    server = begin("-p", "0", site, env=env)  # the command line is stronger
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


# --- What the options do ------------------------------------------------------------------------------------


def test_options_of_the_site(begin, site):
    plain = begin("-p", "0", site)
    assert plain.get("/.secret").status == 404
    assert plain.get("/folder/").status == 200 and b"start.html" in plain.get("/folder/").body
    assert re.fullmatch(r"rung/\d+\.\d+", plain.get("/").headers["Server"])
    other = begin("-p", "0", "--hidden", "--listing", "off", "--index", "start.html", "--server-name", "off", site)
    assert other.get("/.secret").body == b"hidden\n"
    assert other.get("/folder/").body == b"<p>start\n"
    assert other.get("/").status == 403
    assert other.get("/").headers["Server"] == "rung"


def test_precompressed(begin, site):
    with open(f"{site}/file.txt.gz", "wb") as file:
        file.write(b"pressed")
    accept = {"Accept-Encoding": "gzip"}
    assert begin("-p", "0", site).get("/file.txt", headers=accept).headers["Content-Encoding"] == "gzip"
    off = begin("-p", "0", "--precompressed", "off", site).get("/file.txt", headers=accept)
    assert off.headers["Content-Encoding"] is None and off.body == b"content\n"


def test_max_body(begin, site):
    server = begin("-p", "0", "--max-body", "1k", site)
    assert server.get("/file.txt", body=b"x" * 1024).status == 200
    assert server.get("/file.txt", body=b"x" * 1025).status == 413


def test_head_timeout(begin, site):
    server = begin("-p", "0", "--head-timeout", "200ms", site)
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        client.sendall(b"GET / HTTP/1.1\r\n")
        while client.recv(65536):
            pass  # whatever is said before the end


def test_idle_timeout(begin, site):
    server = begin("-p", "0", "--idle-timeout", "200ms", site)
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        client.sendall(b"GET /file.txt HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        assert answer.endswith(b"content\n")


def test_quiet(begin, site):
    port = no_port()
    server = begin("-q", "-b", "127.0.0.1", "-p", port, site, wait=False)
    server.port = port

    def serves():
        with contextlib.suppress(OSError):
            return server.get("/file.txt").status == 200
    wait_for(serves, "the quiet server answers")
    assert server.end(signal.SIGINT) == EXIT_DONE
    assert server.lines == []
    assert run("-q", "--port", "70000").stderr != ""
    assert run("serve", "-q", f"{site}/none").stderr != ""


def limits(pid):
    with open(f"/proc/{pid}/limits", encoding="ascii") as file:
        return re.search(r"Max open files\s+(\d+)\s+(\d+)", file.read()).groups()


def test_descriptors_are_raised(begin, site):
    def low():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))
    server = begin("-p", "0", site, preexec_fn=low)
    if elf():  # a wrapper may keep some for itself
        assert limits(server.pid) == ("512", "512")
    assert server.get("/file.txt").status == 200


def test_more_connections_than_descriptors(begin, site):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
    server = begin("-p", "0", "--max-connections", "5000", site, preexec_fn=few)
    server.said(r"--max-connections 5000: \d+ descriptors are enough for \d+")
    modest = begin("-p", "0", "--max-connections", "100", site, preexec_fn=few)
    assert modest.end() == EXIT_DONE
    assert modest.count("--max-connections") == 0


# --- Signals ------------------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stop(begin, site, number):
    server = begin("-p", "0", site)
    assert server.get("/file.txt").status == 200
    assert server.end(number) == EXIT_DONE
    server.said("stopping: ")
    server.said("stopped after 1 answer on 1 connection, ")


@contextlib.contextmanager
def stuck_download(server):
    """A client that has asked for much and takes little."""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(4) == b"HTTP"
        yield client


def test_stop_has_a_deadline(begin, large):
    server = begin("-p", "0", "--drain-timeout", "300ms", "--send-timeout", "1h", large)
    with stuck_download(server):
        assert server.end() == EXIT_DONE
    server.said(r"stopping: 1 connection open, given at most 300ms to finish")


def test_second_signal_stops_at_once(begin, large):
    server = begin("-p", "0", "--drain-timeout", "1h", "--send-timeout", "1h", large)
    with stuck_download(server):
        server.send(signal.SIGTERM)
        server.said("stopping: 1 connection open, given at most 1h")
        assert server.process.poll() is None
        assert server.end(signal.SIGINT) == EXIT_DONE
    server.said("stopping at once")


def test_counters(begin, site):
    server = begin("-p", "0", site)
    server.get("/file.txt")
    server.send(signal.SIGUSR1)
    counters = json.loads(server.said(r'^\{.*"accepted".*\}$').string)
    assert counters["accepted"] == 1 and counters["answers"] == 1 and counters["bytes"] > 100
    assert server.get("/file.txt").status == 200


def test_signals_from_the_start(site):
    """A signal that comes before everything is open ends it like any other."""
    for wait_ms in (0, 5, 20):
        server = Running("-p", "0", site)
        time.sleep(wait_ms / 1000)
        server.send(signal.SIGTERM)
        assert server.end(None) in (EXIT_DONE, -signal.SIGTERM)
        server.kill()


# --- Log ------------------------------------------------------------------------------------------------------

COMBINED = re.compile(r'(\S+) - - \[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000)\] "((?:[^"\\]|\\x[0-9a-f]{2})*)" '
                      r'(\d{3}) (\d+) "((?:[^"\\]|\\x[0-9a-f]{2})*)" "((?:[^"\\]|\\x[0-9a-f]{2})*)"')


def log_lines(path, count):
    """The log once it has that many lines."""
    def read():
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            lines = file.read().split(b"\n")
            return len(lines) > count and [line.decode("ascii") for line in lines[:-1]]
    return wait_for(read, f"{count} lines in {path}")


def raw(server, request):
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        client.sendall(request)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        return answer


@pytest.mark.core
def test_log_combined(begin, site, tmp_path):
    path = tmp_path / "log"
    server = begin("-p", "0", "--log", "combined", "--log-file", path, site)
    server.get("/file.txt?q=1", headers={"User-Agent": 'a "b" \\c', "Referer": "http://x/\x80"})
    server.get("/none", method="HEAD")
    lines = [COMBINED.fullmatch(line) for line in log_lines(path, 2)]
    assert all(lines) and len(lines) == 2
    assert lines[0].group(1, 3, 4, 5, 6, 7) == ("127.0.0.1", "GET /file.txt?q=1 HTTP/1.1", "200", "8", "http://x/\\x80",
                                                "a \\x22b\\x22 \\x5cc")
    assert lines[1].group(3, 4, 5, 6) == ("HEAD /none HTTP/1.1", "404", "0", "-")


def test_log_json(begin, site, tmp_path):
    path = tmp_path / "log"
    server = begin("-p", "0", "--log", "json", "--log-file", path, site)
    hostile = bytes(c for c in range(0x20, 256) if c != 0x7f)
    raw(server, b"GET /file.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\nUser-Agent: " + hostile + b"\r\n\r\n")
    row = json.loads(log_lines(path, 1)[0])
    assert list(row) == ["time", "peer", "method", "target", "status", "bytes", "complete", "referer", "agent"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row.pop("time"))
    agent = row.pop("agent").encode("latin-1")
    assert agent == hostile.strip(b" ")
    assert row == {"peer": "127.0.0.1", "method": "GET", "target": "/file.txt", "status": 200, "bytes": 8, "complete": True,
                   "referer": ""}


@pytest.mark.parametrize("form", ["combined", "json"])
@pytest.mark.parametrize("request_bytes", [
    b"\x00\x01\x02\r\n\r\n", b"GET /\n\x1b[31m HTTP/1.1\r\n\r\n", b"GET /\" 200 0 \"fake HTTP/1.1\r\n\r\n",
    b"GET /%0a%0d127.0.0.1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"\"\\\r\n\r\n", b"\xff\xfe\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: a\x07b\r\n\r\n", b"GET " + b"/" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /" + b"%22" * 2600 + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nReferer: " + b"\xe9" * 3000 + b"\r\n\r\n",
])
def test_log_of_hostile_requests(begin, site, tmp_path, form, request_bytes):
    """One line for the request, whatever it was, and it can be read back."""
    path = tmp_path / "log"
    server = begin("-p", "0", "--log", form, "--log-file", path, site)
    assert raw(server, request_bytes).startswith(b"HTTP/1.1 ")
    server.get("/file.txt")
    lines = log_lines(path, 2)
    assert len(lines) == 2
    for line in lines:
        assert len(line) < 4096 and re.fullmatch(r"[ -~]*", line)
        assert json.loads(line) if form == "json" else COMBINED.fullmatch(line), line


def test_log_tells_what_was_cut_off(begin, large, tmp_path):
    path = tmp_path / "log"
    server = begin("-p", "0", "--log", "json", "--log-file", path, large)
    with stuck_download(server):
        pass
    row = json.loads(log_lines(path, 1)[0])
    assert row["complete"] is False and 0 < row["bytes"] < 1 << 30


def test_log_on_stdout(begin, site):
    server = begin("-p", "0", "--log", "json", site, stdout=subprocess.PIPE)
    server.get("/file.txt")
    with server.process.stdout as out:
        assert json.loads(out.readline())["target"] == "/file.txt"  # while it runs: nothing waits in a buffer


def test_log_opened_anew(begin, site, tmp_path):
    path, old = tmp_path / "log", tmp_path / "log.1"
    server = begin("-p", "0", "--log", "combined", "--log-file", path, site)
    server.get("/file.txt?1")
    log_lines(path, 1)
    os.rename(path, old)
    server.get("/file.txt?2")
    assert "?2" in log_lines(old, 2)[1]
    server.send(signal.SIGHUP)
    server.said("log opened anew")
    server.get("/file.txt?3")
    assert "?3" in log_lines(path, 1)[0] and len(log_lines(old, 2)) == 2
    os.unlink(path)
    os.mkdir(path)
    server.send(signal.SIGHUP)
    server.said("cannot open the log anew")
    assert server.get("/file.txt?4").status == 200


def test_log_that_cannot_be_opened(site, tmp_path):
    out = run("serve", "-p", "0", "--log", "json", "--log-file", tmp_path, site)
    assert out.returncode == EXIT_FAILED and "cannot open the log" in out.stderr and "--log-file" in out.stderr


@pytest.mark.skipif(not os.path.exists(FULL), reason="no /dev/full")
def test_log_on_a_full_disk(begin, site):
    server = begin("-p", "0", "--log", "combined", "--log-file", FULL, site)
    for _ in range(5):
        assert server.get("/file.txt").status == 200
    server.said("cannot write the log: the disk is full")
    assert server.end() == EXIT_DONE
    assert server.count("cannot write the log") == 1


def test_log_whose_reader_has_gone(begin, site):
    server = begin("-p", "0", "--log", "combined", site, stdout=subprocess.PIPE)
    server.process.stdout.close()
    for _ in range(3):
        assert server.get("/file.txt").status == 200
    server.said("cannot write the log: the reader has gone")
    assert server.end() == EXIT_DONE
    assert server.count("cannot write the log") == 1


# --- Users and folders --------------------------------------------------------------------------------------

as_root = pytest.mark.skipif(not ROOT, reason="needs root")


@as_root
def test_user(begin, site):
    server = begin("-p", "0", "--user", "nobody", site)
    assert server.get("/file.txt").status == 200
    nobody = pwd.getpwnam("nobody")
    with open(f"/proc/{server.pid}/status", encoding="ascii") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    assert set(status["Uid"].split()) == {str(nobody.pw_uid)}
    assert set(status["Gid"].split()) == {str(nobody.pw_gid)}
    assert set(status["Groups"].split()) <= {str(nobody.pw_gid)}
    assert status["NoNewPrivs"] == "1"
    for capabilities in ("CapEff", "CapPrm", "CapAmb"):
        assert int(status[capabilities], 16) == 0
    assert server.end() == EXIT_DONE


@as_root
def test_user_reads_with_its_own_rights(begin, site):
    os.chmod(f"{site}/file.txt", 0o600)
    assert begin("-p", "0", site).get("/file.txt").status == 200
    assert begin("-p", "0", "--user", "nobody", site).get("/file.txt").status == 403
    os.chmod(site, 0o700)
    out = run("serve", "-p", "0", "--user", "nobody", site)
    assert out.returncode == EXIT_FAILED and "permission denied" in out.stderr and "nobody" in out.stderr


@as_root
def test_user_takes_a_low_port_along(begin, site):
    port = next((port for port in range(1023, 900, -1) if port_is_free(port)), None)
    if not port:
        pytest.skip("no low port is free")
    server = begin("-p", port, "-b", "127.0.0.1", "--user", "nobody", site)
    assert server.port == port and server.get("/file.txt").status == 200


def port_is_free(port):
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


@as_root
def test_user_needs_root(site):
    out = run("serve", "-p", "0", "--user", "daemon", site, user=pwd.getpwnam("nobody").pw_uid, extra_groups=[])
    assert out.returncode == EXIT_USAGE and "only root" in out.stderr


@as_root
def test_unreadable_folder(site):
    os.chmod(site, 0o700)
    out = run("serve", "-p", "0", site, user=pwd.getpwnam("nobody").pw_uid, extra_groups=[])
    assert out.returncode in (EXIT_USAGE, EXIT_FAILED) and "permission denied" in out.stderr


def test_folder_with_an_odd_name(begin, tree):
    odd = os.path.join(os.fsencode(tree), b"a b\n\xff'%")
    os.mkdir(odd)
    with open(odd + b"/file", "w", encoding="ascii") as file:
        file.write("odd")
    process = subprocess.Popen([BIN, b"serve", b"-e", ENGINE.encode(), b"-p", b"0", odd], stdin=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, env=environment())
    try:
        line = process.stderr.readline()
        port = int(re.search(rb"127\.0\.0\.1:(\d+)/", line).group(1))
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
            client.request("GET", "/file")
            assert client.getresponse().read() == b"odd"
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == EXIT_DONE
        process.stderr.close()


def test_folder_by_symlink(begin, site, tmp_path):
    link = tmp_path / "link"
    os.symlink(site, link)
    server = begin("-p", "0", link)
    assert f"serving {os.path.realpath(site)} at" in server.opening
    assert server.get("/file.txt").status == 200
