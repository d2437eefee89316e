# SPDX-License-Identifier: MIT
"""The access log of a server with several hosts: which of them answered, and files of their own."""
import json
import os
import re
import signal
import socket

import pytest
from lib import h2 as http2
from lib.client import PATIENCE, Wire, request
from lib.limited import connections
from lib.secured import EVERYWHERE
from lib.server import one_at_a_time, wait_for
from lib.trees import write

from cli import EXIT_DONE, EXIT_USAGE, as_root, begin, log_lines, run  # noqa: F401
from test_cli_log import COMBINED
from test_hosts import NAMES, ask, connect, crowd, file, hosts, make, places, table  # noqa: F401 (fixtures among them)

pytestmark = [pytest.mark.userspace("a configuration file"),
              pytest.mark.skipif(EVERYWHERE, reason="its clients connect for one name and ask for others")]
any_engine = pytest.mark.any_engine("the log is written below the engines")
VHOST = re.compile(r"(\S+):(\d+) " + COMBINED.pattern)
# what is asked for, and the name of the host that has it
ASKED = [("a.example", "a.example"), ("B.Example.:80", "b.example"), ("x.a.example", "a.example"), ("[::1]:8080", "deep.a.example"),
         ("unknown.example", "a.example"), ("www.b.example", "b.example")]


def logged(path, form="combined"):
    return f'log = "{form}"\nlog-file = "{path}"'


def targets(path, count):
    """Which targets the lines of a log in the combined format are about."""
    return [COMBINED.fullmatch(line)[3].split()[1] for line in log_lines(path, count)]


# --- Which host ---------------------------------------------------------------------------------------------


@pytest.mark.core
# shows U60
def test_vhost(hosts, tmp_path):
    """As Apache's vhost_combined: the first name of the host that answered, and the port."""
    log = tmp_path / "log"
    server = hosts(top=logged(log, form="vhost"))
    with server.wire() as wire:
        for number, (host, _) in enumerate(ASKED):
            ask(wire, host, f"/f.txt?{number}")
            log_lines(log, number + 1)  # a line follows its answer, and another thread may be faster
        wire.send(b"nonsense\r\n\r\n")
        assert wire.reply().status == 400
    lines = [VHOST.fullmatch(line) for line in log_lines(log, len(ASKED) + 1)]
    assert all(lines)
    assert [line[1] for line in lines] == [name for _, name in ASKED] + ["a.example"]
    assert {int(line[2]) for line in lines} == {server.address[1]} and lines[1].group(3, 5) == ("127.0.0.1", "GET /f.txt?1 HTTP/1.1")


@any_engine
@pytest.mark.parametrize("form", ["json", "stages", "combined", "timed"])
def test_formats(hosts, tmp_path, form):
    """JSON names the host; combined and timed are what they are without hosts."""
    log = tmp_path / "log"
    with hosts(top=logged(log, form=form)).wire() as wire:
        for number, (host, name) in enumerate(ASKED, 1):
            ask(wire, host)
            line = log_lines(log, number)[-1]
            if form in ("json", "stages"):
                row = json.loads(line)
                assert list(row)[:3] == ["time", "host", "peer"] and row["host"] == name
            else:
                assert COMBINED.match(line) and name not in line


@pytest.mark.core
def test_every_answer_has_its_host(hosts, places, tmp_path):
    """Answers that are no files, too, of requests that arrive together and of clients at the same time."""
    log = tmp_path / "log"
    server = hosts(top=logged(log, form="vhost"))
    kinds = [("/f.txt", "GET"), ("/", "GET"), ("/sub", "GET"), ("/none", "GET"), ("/%00", "GET"), ("/f.txt", "POST"), ("/f.txt", "HEAD"),
             ("/f.txt", "OPTIONS"), ("/large", "GET")]
    asked = [(letter, target, method) for target, method in kinds for letter in "abcba"]

    def work(wire):
        for letter, target, method in asked:
            ask(wire, NAMES[letter][0], f"{target}?{letter}", method)
        wire.send(b"".join(request(f"{target}?{letter}", method, [f"Host: {NAMES[letter][0]}"]) for letter, target, method in asked))
        for _, _, method in asked:
            wire.reply(method)
    clients = 1 if one_at_a_time() else 4
    crowd(server, work, clients)
    lines = [VHOST.fullmatch(line) for line in log_lines(log, 2 * clients * len(asked))]
    assert len(lines) == 2 * clients * len(asked)
    for line in lines:
        letter = line[5].split()[1][-1]
        assert line[1] == NAMES[letter][0], line[0]


HOSTILE = ['b.example"', "b.example\\n", "b.example 200", 'x","host":"b.example', "b.example\x1b[2J", "b.example\x7f", "default", "%s%n", "b" * 300,
           "b.example\x00", "../b.example", "*.a.example", ".b.example", "b.example, a.example", "b.example:80:80"]


@any_engine
@pytest.mark.parametrize("form", ["vhost", "json"])
def test_hostile_names(hosts, tmp_path, form):
    """The text of a client's field Host is never in the log: a line has a name of the configuration, and is one line."""
    log = tmp_path / "log"
    server = hosts(top=logged(log, form=form))
    for number, name in enumerate(HOSTILE, 1):
        with server.wire() as wire:
            wire.send(b"GET /f.txt HTTP/1.1\r\nHost: " + name.encode() + b"\r\n\r\n")
            assert wire.reply().status in (200, 400)
        line = log_lines(log, number)[-1]
        assert (json.loads(line)["host"] if form == "json" else VHOST.fullmatch(line)[1]) in ("a.example", "deep.a.example"), name
    assert len(log_lines(log, len(HOSTILE))) == len(HOSTILE)


def test_streams(hosts, tmp_path):
    """Streams of one connection for several hosts."""
    log = tmp_path / "log"
    server = hosts(top=logged(log, form="json"))
    with http2.Client(server, secured=False) as client:
        streams = [client.ask(f"/large?{letter}", authority=NAMES[letter][0]) for letter in "abcacb"]
        assert all(client.reply(stream).status == 200 for stream in streams)
    for row in map(json.loads, log_lines(log, len(streams))):
        assert row["host"] == NAMES[row["target"][-1]][0]


@any_engine
def test_the_site_at_the_top(start, file, tree, places, tmp_path):
    """The site is called default; a server without hosts has that name in vhost alone."""
    write(f"{tree}/top/f.txt", b"file of top\n")
    log = tmp_path / "log"
    server = start(f"{tree}/top", "--config", file(logged(log, form="json") + "\n" + table(["a.example"], places["a"])))
    with server.wire() as wire:
        ask(wire, "a.example")
        log_lines(log, 1)
        ask(wire, "other.example")
    assert [json.loads(line)["host"] for line in log_lines(log, 2)] == ["a.example", "default"]
    for form in ("vhost", "json"):
        plain = tmp_path / form
        server = start(f"{tree}/top", "--log", form, "--log-file", plain)
        with server.wire() as wire:
            ask(wire, "a.example")
        line = log_lines(plain, 1)[0]
        assert VHOST.fullmatch(line).group(1, 2) == ("default", str(server.address[1])) if form == "vhost" else "host" not in json.loads(line)


@any_engine
def test_one_host_alone(start, file, places, tmp_path):
    log = tmp_path / "log"
    path = file(logged(log, form="json") + "\n" + table(["a.example"], places["a"]))
    with start(f"--config={path}").wire() as wire:
        ask(wire, "other.example")
    assert json.loads(log_lines(log, 1)[0])["host"] == "a.example"


@any_engine
def test_a_host_that_is_called_default(file, tree, places):
    """The site at the top has that name already, if there is one."""
    text = table(["Default", "x.example"], places["a"])
    out = run("--config", file("port = 0\n" + text), tree)
    assert out.returncode == EXIT_USAGE and ":3: name: 'Default' is what logs and metrics call the site at the top" in out.stderr
    assert run("config", "--config", file(text)).returncode == EXIT_DONE
    for names, root in ((["x.example", "default"], f'root = "{tree}"\n'), (["default"], "")):
        out = run("--config", file(f'bind = ["192.0.2.1"]\n{root}' + table(names, places["a"])))
        assert "name:" not in out.stderr and out.returncode not in (EXIT_DONE, EXIT_USAGE)  # no such address here: names are fine


@any_engine
def test_a_unix_socket_has_no_port(hosts, tmp_path):
    log, path = tmp_path / "log", tmp_path / "socket"
    hosts(top=logged(log, form="vhost"), args=["-b", f"unix:{path}"])
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(str(path))
        client.sendall(request("/f.txt", fields=["Host: b.example"]))
        assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert log_lines(log, 1)[0].startswith("b.example:0 ")


# --- Files --------------------------------------------------------------------------------------------------


WORKERS = [pytest.param([], id="one worker"),
           pytest.param(["--workers", "2", "--workers-as", "process"], id="processes", marks=pytest.mark.processes)]


@pytest.mark.core
@pytest.mark.parametrize("args", WORKERS)
# shows U60
def test_files_of_their_own(hosts, tmp_path, args):
    """a has a file, b has no log, and c writes to that of the server; after a signal all are opened again, in the sandbox."""
    for name in ("all", "own"):
        (tmp_path / name).mkdir()
    every, own = tmp_path / "all/log", tmp_path / "own/log"
    server = hosts({"a": f'log-file = "{own}"', "b": 'log = "off"'}, logged(every), args)
    for turn in (1, 2):
        for letter in "abc" * 3:
            with server.wire() as wire:
                ask(wire, NAMES[letter][0], f"/f.txt?{letter}")
        assert targets(own, 3) == 3 * ["/f.txt?a"] and targets(every, 3) == 3 * ["/f.txt?c"]
        for path in (every, own):
            os.rename(path, f"{path}.{turn}")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: server.text().count("log reopened") == turn, "log reopened")


@any_engine
def test_one_that_cannot_be_reopened(hosts, tmp_path):
    """A message names the log, its lines go to the old file, and the others are reopened."""
    logs = {letter: tmp_path / letter for letter in "ab"}
    server = hosts({letter: logged(log) for letter, log in logs.items()})
    for log in logs.values():
        os.rename(log, f"{log}.1")
    logs["a"].mkdir()
    server.process.send_signal(signal.SIGHUP)
    assert f"cannot reopen the log {logs['a']}: " in server.wait_said("cannot reopen the log")
    wait_for(logs["b"].exists, "the next log is reopened, after the message")
    with server.wire() as wire:
        for host in ("a.example", "b.example"):
            ask(wire, host)
    assert targets(f"{logs['a']}.1", 1) == targets(logs["b"], 1) == ["/f.txt"]
    assert not os.path.getsize(f"{logs['b']}.1") and "log reopened" not in server.text()


@any_engine
def test_two_formats_in_one_file(hosts, tmp_path):
    log = tmp_path / "log"
    server = hosts({"a": 'log = "json"', "b": 'log = "vhost"'}, logged(log))
    with server.wire() as wire:
        for number, letter in enumerate("abcab", 1):
            ask(wire, NAMES[letter][0], f"/f.txt?{letter}")
            log_lines(log, number)
    lines = log_lines(log, 5)
    assert [json.loads(line)["target"] for line in (lines[0], lines[3])] == 2 * ["/f.txt?a"]
    assert [VHOST.fullmatch(line)[1] for line in (lines[1], lines[4])] == 2 * ["b.example"]
    assert COMBINED.fullmatch(lines[2])[3] == "GET /f.txt?c HTTP/1.1"


@any_engine
def test_a_log_of_one_host_alone(hosts, tmp_path):
    log = tmp_path / "log"
    with hosts({"b": logged(log)}).wire() as wire:
        for letter in "acba":
            ask(wire, NAMES[letter][0], f"/f.txt?{letter}")
    assert targets(log, 1) == ["/f.txt?b"]


@pytest.mark.core
@pytest.mark.parametrize("args", WORKERS)
def test_after_a_live_upgrade(begin, file, places, tmp_path, args):
    """The next server writes to the same files, and a signal makes it open them again."""
    text = "".join(table(NAMES[letter][:1], places[letter], logged(tmp_path / letter, form="combined")) for letter in "ab")
    options = ["-p", "0", "--handover", tmp_path / "next", "--config", file(text), *args]
    servers = [begin(*options)]

    def ask_both(server, query):
        for letter in "ab":
            assert server.get(f"/f.txt?{query}", headers={"Host": NAMES[letter][0]}).body == f"file of {letter}\n".encode()
    ask_both(servers[0], 1)
    servers.append(begin(*options))
    assert servers[0].end(None) == EXIT_DONE
    ask_both(servers[1], 2)
    for letter in "ab":
        assert targets(tmp_path / letter, 2) == ["/f.txt?1", "/f.txt?2"]
        os.rename(tmp_path / letter, tmp_path / f"{letter}.old")
    servers[1].send(signal.SIGHUP)
    servers[1].said("log reopened")
    ask_both(servers[1], 3)
    for letter in "ab":
        assert targets(tmp_path / letter, 1) == ["/f.txt?3"] and len(targets(tmp_path / f"{letter}.old", 2)) == 2


@as_root
@any_engine
def test_as_another_user(hosts, tree):
    """Each is opened and reopened with the rights of the user that the server has become."""
    folder = f"{tree}/logs"
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    server = hosts({"a": logged(f"{folder}/a"), "b": logged(f"{folder}/b")}, 'user = "nobody"')
    for turn in (1, 2):
        with server.wire() as wire:
            for letter in "ab":
                ask(wire, NAMES[letter][0])
        for letter in "ab":
            log = f"{folder}/{letter}"
            assert targets(log, 1) == ["/f.txt"] and os.stat(log).st_uid != 0
            os.rename(log, f"{log}.{turn}")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: server.text().count("log reopened") == turn, "log reopened")


@any_engine
def test_files_without_a_log(file, places, tmp_path):
    """A file that would get no line is a mistake, in a host and at the top; one that a host uses is none."""
    own = f'log-file = "{tmp_path}/own"'
    host = table(["a.example"], places["a"])
    for text, line in ((host + own, 1), (f"{own}\n{host}", 2), (logged(tmp_path / "log") + "\n" + host + own + '\nlog = "off"\n', 3)):
        out = run("--config", file(text), "--port", "0")
        assert out.returncode == EXIT_USAGE and f"--log-file {tmp_path}/own: no log is kept" in out.stderr, text
        assert f":{line}: this is about that [[host]]" in out.stderr
    out = run("--config", file(own), places["a"])
    assert out.returncode == EXIT_USAGE and "no log is kept" in out.stderr and "[[host]]" not in out.stderr
    for text in (own + "\n" + host + 'log = "json"\n', host + own + '\nlog = "json"\n'):
        out = run("--config", file('bind = ["192.0.2.1"]\n' + text))
        assert "no log is kept" not in out.stderr and out.returncode not in (EXIT_DONE, EXIT_USAGE)  # no such address here


@any_engine
def test_round_trip(file, places):
    text = 'log = "combined"\n' + table(["a.example"], places["a"], 'log = "off"') + table(["b.example"], places["b"], 'log-file = "x"')
    first = run("config", "--config", file(text))
    assert first.returncode == EXIT_DONE and first.stdout.endswith('log-file = "x"\n') and first.stdout.count('log = "off"') == 1
    assert run("config", "--config", file(first.stdout)).stdout == first.stdout


# --- Answers for which nothing is looked for ----------------------------------------------------------------


@pytest.mark.core
def test_redirected_to_https(hosts, tmp_path):
    """The fields of that answer, and the log, are those of the host that it is for, whichever was asked for last."""
    log = tmp_path / "log"
    fields = {letter: f'header = ["X-Host: {letter}"]' for letter in "abc"}
    pair = make(tmp_path, "all", "a.example", "b.example", "deep.a.example")
    server = hosts(fields, f'tls = ["{pair}"]\n' + logged(log, form="vhost"))
    for number, letter in enumerate("abcbac", 1):
        with connect(server, "a.example") as wire:
            assert ask(wire, "a.example").get("x-host") == "a"
        log_lines(log, 2 * number - 1)  # another thread may write the next line first
        with Wire(server.address, secured=False) as wire:
            reply = ask(wire, NAMES[letter][0])
            assert reply.status == 308 and reply.get("x-host") == letter
        assert VHOST.fullmatch(log_lines(log, 2 * number)[-1])[1] == NAMES[letter][0]


@pytest.mark.core
@pytest.mark.capacity(2)
def test_one_connection_too_many(hosts, places, tmp_path):
    """The connection gets the page of the host that it asks for."""
    log = tmp_path / "log"
    for letter, place in places.items():
        write(f"{place}/429.html", f"too many for {letter}\n".encode())
    server = hosts(top=logged(log, form="vhost"), args=connections(1))
    with server.wire() as first:
        for number, letter in enumerate("abcbac", 1):
            ask(first, NAMES["b"][0])
            log_lines(log, 2 * number - 1)
            with server.wire() as wire:
                reply = ask(wire, NAMES[letter][0])
                assert reply.status == 429 and reply.body == f"too many for {letter}\n".encode()
            assert VHOST.fullmatch(log_lines(log, 2 * number)[-1])[1] == NAMES[letter][0]
