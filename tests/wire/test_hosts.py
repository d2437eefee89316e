# SPDX-License-Identifier: MIT
"""Virtual hosts: each [[host]] of a configuration file has its names, its folder and its options."""
import os
import signal
import ssl
import subprocess
import threading
import time

import pytest
from lib import h2 as http2
from lib.client import Wire, request
from lib.secured import EVERYWHERE, Secured, anyone
from lib.server import ENGINE, one_at_a_time
from lib.trees import content, write

from cli import EXIT_DONE, EXIT_USAGE, begin, run, wait_for  # noqa: F401
from test_auth import basic, hashed

pytestmark = [pytest.mark.userspace("a configuration file"),
              pytest.mark.skipif(EVERYWHERE, reason="its clients connect for one name and ask for others")]
TIMES = 4  # enough for an answer to be kept
NAMES = {"a": ["a.example", "*.a.example"], "b": ["b.example", "www.b.example"], "c": ["deep.a.example", "[::1]", "192.0.2.7"]}


def grow(folder, letter):
    """What all hosts call by the same paths, and one name that no other has."""
    write(f"{folder}/f.txt", f"file of {letter}\n".encode())
    write(f"{folder}/only-{letter}.txt", b"x\n")
    write(f"{folder}/404.html", f"nothing at {letter}\n".encode())
    write(f"{folder}/sub/in-{letter}", b"x\n")
    write(f"{folder}/large", content(letter, 400_000))
    return folder


@pytest.fixture
def places(tree):
    return {letter: grow(f"{tree}/{letter}", letter) for letter in "abc"}


@pytest.fixture
def file(tmp_path):
    def write_file(text):
        path = tmp_path / "rung.toml"
        path.write_text(text)
        return path
    return write_file


def table(names, root, *lines):
    return "\n".join(["[[host]]", f"name = {names}".replace("'", '"'), f'root = "{root}"', *lines, ""])


@pytest.fixture
def hosts(start, file, tree, places):
    """hosts(more, top) -> a server of a, b and c, whose [[host]] have those lines, after those at the top; the command line names
    no folder."""
    def begin_hosts(more=None, top="", args=()):
        text = top + "\n" + "".join(table(NAMES[letter], places[letter], (more or {}).get(letter, "")) for letter in "abc")
        return start(f"--config={file(text)}", *args)  # in the place of a folder
    return begin_hosts


def ask(wire, host, target="/f.txt", method="GET", fields=()):
    return wire.ask(target, method, [f"Host: {host}", *fields])


# --- Which host -----------------------------------------------------------------------------------------------


CHOICE = [("a.example", "a"), ("A.EXAMPLE", "a"), ("a.example:8080", "a"), ("a.example.", "a"), ("a.example.:80", "a"), ("x.a.example", "a"),
          ("x.y.a.example", "a"), ("b.example", "b"), ("www.b.example", "b"), ("ftp.b.example", "a"), ("deep.a.example", "c"),
          ("x.deep.a.example", "a"), ("[::1]", "c"), ("[::1]:80", "c"), ("192.0.2.7:1", "c"), ("xa.example", "a"), ("example", "a"), ("", "a"),
          ("x" * 255, "a"), ("x" * 256, "a"), ("b.example%2e", "a")]


@pytest.mark.core
# shows U60
def test_choice(hosts):
    """By the name itself, otherwise by the longest ending; the first host has all other names."""
    with hosts().wire() as wire:
        for host, letter in 2 * CHOICE:
            reply = ask(wire, host)
            assert reply.status == 200 and reply.body == f"file of {letter}\n".encode(), host
        for target, letter in (("http://b.example/f.txt", "b"), ("HTTP://B.Example:80/f.txt?x", "b"), ("http://other/f.txt", "a"), ("/f.txt", "c")):
            assert ask(wire, "deep.a.example", target).body == f"file of {letter}\n".encode()  # RFC 9112 3.2.2
    server = hosts()
    for lines, body in ((b"GET /f.txt HTTP/1.0\r\n\r\n", b"file of a\n"), (b"GET http://b.example/f.txt HTTP/1.0\r\n\r\n", b"file of b\n"),
                              (b"GET /f.txt HTTP/1.0\r\nHost: b.example\r\n\r\n", b"file of b\n")):
        with server.wire() as wire:
            wire.send(lines)
            assert wire.reply(minor=0).body == body
    with server.wire() as wire:
        wire.send(b"GET /f.txt HTTP/1.1\r\n\r\n")
        assert wire.reply().status == 400


@pytest.mark.any_engine("a name is compared before an engine is asked for anything")
def test_top_of_the_file(start, file, tree, places):
    """A folder at the top of the file, or on the command line, is for all names that no host has."""
    write(f"{tree}/top/f.txt", b"file of top\n")
    path = file(f'root = "{tree}/top"\nheader = ["X-Top: 1"]\n' + table(["a.example"], places["a"], 'header = ["X-A: 1"]') +
                table(["b.example"], places["b"]))
    for server in (start(places["c"], "--config", path), start(f"--config={path}")):
        letter = "c" if server.root == places["c"] else "top"
        with server.wire() as wire:
            for host, want, fields in (("a.example", "a", {"x-a"}), ("b.example", "b", {"x-top"}), ("other", letter, {"x-top"})):
                reply = ask(wire, host)
                assert reply.body == f"file of {want}\n".encode()
                assert {name for name in ("x-a", "x-top") if reply.get(name)} == fields


# --- Never mixed ----------------------------------------------------------------------------------------------


def check_all(wire, places):
    """Files, listings, redirects, error pages and what is not there, of each host in turn on one connection."""
    for letter in places:
        host = NAMES[letter][0]
        reply = ask(wire, host)
        assert reply.status == 200 and reply.body == f"file of {letter}\n".encode()
        assert ask(wire, host, "/large").body == content(letter, 400_000)
        others = [other for other in places if other != letter]
        for target, word in (("/", "only"), ("/sub/", "in")):
            listing = ask(wire, host, target, fields=["Accept: application/json"]).body.decode()
            assert f"{word}-{letter}" in listing and not any(f"{word}-{other}" in listing for other in others)
        assert ask(wire, host, f"/only-{letter}.txt").status == 200
        for other in others:
            reply = ask(wire, host, f"/only-{other}.txt")
            assert reply.status == 404 and reply.body == f"nothing at {letter}\n".encode()
        reply = ask(wire, host, "/sub")
        assert reply.status == 301 and reply.get("location") == "/sub/"
        reply = ask(wire, host, "/f.txt", "POST")
        assert reply.status == 405
        reply = ask(wire, host, "/%00")  # refused before a file is looked for
        assert reply.status == 400


@pytest.mark.core
@pytest.mark.parametrize("args", [[], ["--cache", "0"]])
# shows U60
def test_never_mixed(hosts, places, args):
    """Three hosts have the same paths, kept in memory or not."""
    server = hosts(args=args)
    for _ in range(2):
        with server.wire() as wire:
            for _ in range(TIMES):
                check_all(wire, places)


def test_a_change_counts_for_its_host_alone(hosts, places):
    with hosts().wire() as wire:
        for turn in range(TIMES):
            for _ in range(TIMES):
                assert [ask(wire, NAMES[letter][0]).body for letter in "ac"] == [b"file of a\n", b"file of c\n"]
                ask(wire, "b.example")
            write(f"{places['b']}/f.txt", b"version %d\n" % turn)
            assert ask(wire, "b.example").body == b"version %d\n" % turn
            os.mkdir(f"{places['c']}/new-{turn}")
            assert f"new-{turn}" in ask(wire, "deep.a.example", "/").body.decode()
            assert "new-" not in ask(wire, "a.example", "/").body.decode()


def test_a_change_before_requests_that_arrive_together(hosts, places):
    """The cache of each host looks for changes, though another one has looked since the requests arrived."""
    both = b"".join(request("/f.txt", fields=[f"Host: {NAMES[letter][0]}"]) for letter in "ab")
    with hosts().wire() as wire:
        for turn in range(TIMES):
            time.sleep(0.05)  # a file that has only just changed is not kept in memory
            for _ in range(TIMES):
                wire.send(both)
                wire.reply()
                wire.reply()
            write(f"{places['b']}/f.txt", b"version %d\n" % turn)
            wire.send(both)
            assert wire.reply().body == b"file of a\n" and wire.reply().body == b"version %d\n" % turn


def test_error_pages(hosts, places):
    """A refused request that names its host gets the page of that host; one that is not understood the first one's."""
    for letter, place in places.items():
        write(f"{place}/405.html", f"not this way at {letter}\n".encode())
        write(f"{place}/400.html", f"not understood at {letter}\n".encode())
    server = hosts()
    with server.wire() as wire:
        for letter in "abcba":
            assert ask(wire, NAMES[letter][0], method="POST").body == f"not this way at {letter}\n".encode()
            assert ask(wire, NAMES[letter][0], "/%00").body == f"not understood at {letter}\n".encode()
    with server.wire() as wire:
        ask(wire, "b.example")
        wire.send(b"GET /f.txt HTTP/1.1\r\nHost: b.example\r\nBroken field: 1\r\n\r\n")
        assert wire.reply().body == b"not understood at a\n"


def crowd(server, work, clients):
    """Several clients at once; each fails by itself."""
    failed = []

    def client():
        try:
            with server.wire() as wire:
                work(wire)
        except AssertionError as failure:
            failed.append(failure)
    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]


def test_crowd(hosts, places):
    """Clients of all hosts at once, whose listings are made on a helper thread, share loops."""
    def work(wire):
        for _ in range(TIMES):
            check_all(wire, places)
    crowd(hosts(), work, 1 if one_at_a_time() else 8)


def test_pipelined(hosts, places):
    """Requests for several hosts that arrive together."""
    asked = [letter for letter in "abcacb" for _ in range(TIMES)]
    with hosts().wire() as wire:
        wire.send(b"".join(request("/f.txt", fields=[f"Host: {NAMES[letter][0]}"]) for letter in asked))
        for letter in asked:
            assert wire.reply("GET").body == f"file of {letter}\n".encode()


# --- Options of one host --------------------------------------------------------------------------------------


OPTIONS = {
    "a": 'header = ["X-A: 1", "*.txt X-Text: 1"]\nspa = true\nindex = "f.txt"\ncors = true',
    "b": 'listing = false\nredirect = ["/old /new 301"]\nmax-age = "1h"\nhidden = true\nsecurity-headers = true',
    "c": 'deny = ["127.0.0.1", "::1"]',
}


@pytest.mark.core
@pytest.mark.any_engine("options of a site are those of a server with one, tested with every engine")
# shows U60
def test_options(hosts, places):
    write(f"{places['b']}/.dot", b"dot\n")
    write(f"{places['a']}/.dot", b"dot\n")
    with hosts(OPTIONS).wire() as wire:
        for _ in range(TIMES):
            reply = ask(wire, "a.example")
            assert (reply.get("x-a"), reply.get("x-text"), reply.get("cache-control")) == ("1", "1", None)
            assert reply.get("access-control-allow-origin") == "*"
            assert ask(wire, "a.example", "/").body == b"file of a\n"
            assert ask(wire, "a.example", "/users/7").body == b"file of a\n"
            assert ask(wire, "a.example", "/.dot").status == 404
            assert ask(wire, "a.example", "/x.txt").get("access-control-allow-origin") == "*"
            reply = ask(wire, "a.example", "/f.txt", "OPTIONS")
            assert reply.status == 200 and reply.get("access-control-allow-headers")
            reply = ask(wire, "b.example")
            assert (reply.get("x-a"), reply.get("cache-control"), reply.get("access-control-allow-origin")) == (None, "max-age=3600", None)
            assert reply.get("x-frame-options") == "SAMEORIGIN"
            assert ask(wire, "b.example", "/").status == 403 and ask(wire, "b.example", "/users/7").status == 404
            assert ask(wire, "b.example", "/.dot").body == b"dot\n"
            assert not ask(wire, "b.example", "/f.txt", "OPTIONS").get("access-control-allow-headers")
            reply = ask(wire, "c.example.invalid", "/old")
            assert reply.status == 200  # the first host's --spa
            assert ask(wire, "deep.a.example").status == 403
    with hosts(OPTIONS).wire() as wire:
        wire.send(request("/old", fields=["Host: b.example"]))
        assert wire.lines()[0].split()[1] == b"301"


def test_passwords(hosts, tmp_path):
    """Each host has its own; a helper thread checks those of all."""
    for letter in "ab":
        (tmp_path / f"pass-{letter}").write_text(f"ann:{hashed('secret of ' + letter)}\n")
    server = hosts({letter: f'auth = "{tmp_path}/pass-{letter}"' for letter in "ab"})
    with server.wire() as wire:
        for _ in range(TIMES):
            for letter in "ab":
                host, other = NAMES[letter][0], "ab".replace(letter, "")
                assert ask(wire, host).status == 401
                reply = ask(wire, host, fields=basic("ann", f"secret of {letter}"))
                assert reply.status == 200 and reply.body == f"file of {letter}\n".encode()
                assert ask(wire, host, fields=basic("ann", f"secret of {other}")).status == 401
            assert ask(wire, "deep.a.example").status == 200


@pytest.mark.any_engine("which host is asked for does not depend on it")
def test_health(hosts):
    """The path that --health adds is that of every host, and clients that a host refuses do not get it."""
    with hosts({"c": OPTIONS["c"]}, top="health = true").wire() as wire:
        for _ in range(TIMES):
            for host, letter in (("b.example", "b"), ("a.example", "a")):
                assert ask(wire, host, "/.rung/health").status == 200
                assert ask(wire, host).body == f"file of {letter}\n".encode()
            assert ask(wire, "deep.a.example", "/.rung/health").status == 403


@pytest.mark.any_engine("which file answers")
def test_single_file(start, file, places):
    path = file(table(["a.example"], places["a"]) + table(["b.example"], f"{places['b']}/f.txt"))
    with start(f"--config={path}").wire() as wire:
        for _ in range(TIMES):
            assert ask(wire, "b.example", "/").body == b"file of b\n" and ask(wire, "b.example").status == 200
            reply = ask(wire, "b.example", "/404.html")
            assert reply.status == 404 and b"nothing at" not in reply.body
            assert ask(wire, "a.example", "/none").body == b"nothing at a\n"


# --- Processes, reload, handover ------------------------------------------------------------------------------


@pytest.mark.skipif(ENGINE == "null", reason="no sockets")
def test_processes(hosts, places):
    server = hosts(args=["--workers", "2", "--workers-as", "process"])
    for _ in range(4):
        with server.wire() as wire:
            check_all(wire, places)


def test_reload_and_handover(begin, file, tmp_path, places):
    """SIGHUP reopens the log and changes nothing else; the next server reads the file, with a host more."""
    log, path = tmp_path / "log", f"{tmp_path}/handover"
    top = f'port = 0\nbind = ["127.0.0.1"]\nlog = "combined"\nlog-file = "{log}"\nhandover = "{path}"\n'
    text = top + table(NAMES["a"], places["a"]) + table(NAMES["b"], places["b"])
    first = begin("--config", file(text))

    def got(server, letter):
        return server.get("/f.txt", headers={"Host": NAMES[letter][0]}).body
    assert got(first, "b") == b"file of b\n" and got(first, "c") == b"file of a\n"
    file(text + table(NAMES["c"], places["c"]))
    os.rename(log, f"{log}.1")
    first.send(signal.SIGHUP)
    first.said("log reopened")
    assert got(first, "b") == b"file of b\n" and got(first, "c") == b"file of a\n"
    wait_for(lambda: "/f.txt" in log.read_text(), "the log is written again")
    second = begin("--config", tmp_path / "rung.toml")
    assert second.ports == first.ports
    first.said(rf"process {second.pid} serves now")
    assert first.end(None) == EXIT_DONE
    assert [got(second, letter) for letter in "abc"] == [b"file of a\n", b"file of b\n", b"file of c\n"]
    assert second.end() == EXIT_DONE


# --- TLS ------------------------------------------------------------------------------------------------------


def make(folder, name, *names):
    """A certificate for those names and its key; returns what --tls takes."""
    cert, key = f"{folder}/{name}.pem", f"{folder}/{name}.key"
    alternatives = ",".join(one if ":" in one else f"DNS:{one}" for one in names)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3",
                    "-subj", f"/CN={name}", "-addext", f"subjectAltName={alternatives}", "-keyout", key, "-out", cert],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return f"{cert},{key}"


@pytest.fixture
def secure(hosts, tmp_path):
    """a and b share a certificate's names, c has another; all begin with their own."""
    pairs = {"a": make(tmp_path, "a", "a.example", "*.a.example", "b.example", "IP:192.0.2.7"), "c": make(tmp_path, "c", "deep.a.example")}
    return hosts({letter: f'tls = ["{pair}"]\nsecurity-headers = true' for letter, pair in pairs.items()})


def connect(server, name, protocols=()):
    """A connection for that name, and the certificate's."""
    one = Wire(server.address, secured=False)
    context = anyone()
    context.set_alpn_protocols(list(protocols))
    one.sock = Secured(one.sock, context, name)
    return one


MISDIRECTED = [
    ("a.example", "a.example", 200, "a"), ("a.example", "b.example", 200, "b"), ("a.example", "x.a.example", 200, "a"),
    ("a.example", "other.example", 200, "a"),  # the site of this connection's name
    ("a.example", "x.y.a.example", 200, "a"), ("a.example", "192.0.2.7", 200, "c"), ("a.example", "[::1]", 421, None),
    ("a.example", "www.b.example", 421, None), ("x.a.example", "B.EXAMPLE.:443", 200, "b"),
    ("b.example", "a.example", 200, "a"), ("www.b.example", "www.b.example", 200, "b"),
    ("other.example", "www.b.example", 421, None), (None, "www.b.example", 200, "b"), (None, "deep.a.example", 200, "c"),
]


@pytest.mark.core
# shows U60
def test_misdirected(secure):
    """RFC 9110 15.5.20: a request for the site of a name that the connection's certificate does not cover."""
    for name, host, status, letter in MISDIRECTED:
        with connect(secure, name) as wire:
            for _ in range(2):
                reply = ask(wire, host)
                assert reply.status == status, (name, host)
                assert letter is None or reply.body == f"file of {letter}\n".encode()
            assert ask(wire, host, method="OPTIONS").status == status and ask(wire, host, "/none").status == (404 if status == 200 else 421)
            assert ask(wire, name or "a.example").status == 200  # the connection goes on


def test_misdirected_streams(secure):
    """Clients of HTTP/2 use a connection for several names."""
    with http2.Client(secure, secured=True, name="a.example") as client:
        streams = [(client.ask("/f.txt", authority=host), status, letter) for name, host, status, letter in MISDIRECTED if name == "a.example"]
        for stream, status, letter in streams:
            reply = client.reply(stream)
            assert reply.status == status and (letter is None or reply.body == f"file of {letter}\n".encode())


@pytest.mark.any_engine("which certificate the library takes")
def test_certificates_by_name(secure, tmp_path):
    for name, cert in (("a.example", "a"), ("deep.a.example", "c"), ("www.b.example", "a")):
        with connect(secure, name) as wire:
            reply = ask(wire, name)
            assert reply.status == 200
            shown = ssl.DER_cert_to_PEM_cert(wire.sock.tls.getpeercert(True))
            # deep.a.example is one of *.a.example, too: the first certificate that covers a name is shown
            assert shown.strip() in ((tmp_path / f"{cert}.pem").read_text(), (tmp_path / "a.pem").read_text().strip())
            assert bool(reply.get("strict-transport-security")) == (name != "www.b.example")


# --- Mistakes -------------------------------------------------------------------------------------------------


HOST = '[[host]]\nname = ["a.example"]\nroot = "."\n'
MISTAKES = [
    (HOST + "port = 1", 4, "port: it is for the whole server; write it above the first [[host]]"),
    *((HOST + f"{key} = 1", 4, f"{key}: it is for the whole server") for key in ("engine", "workers", "metrics", "sandbox", "cache", "bind", "handover", "config")),
    (HOST + "spaa = true", 4, "spaa: no such key; did you mean spa?"),
    (HOST + "names = 1", 4, "names: no such key; did you mean name?"),
    (HOST + "spa = 1", 4, "spa: it takes true or false, not a number"),
    (HOST + "spa = true\nspa = true", 5, "spa is given twice: line 4"),
    (HOST + "root = 'x'", 4, "root is given twice"),
    ("[[host]]\nroot = '.'\n", 1, "host: it has no name"),
    ("port = 0\n[[host]]\nname = ['a']\n" + HOST, 2, "host: it has no root"),
    ("[[host]]\nname = 'a'\nroot = '.'", 2, "name: it takes an array of names"),
    ("[[host]]\nname = []\nroot = '.'", 2, "name: it takes an array of names"),
    ("[[host]]\nname = ['a', 1]\nroot = '.'", 2, "name: it takes an array of names"),
    ("[[host]]\nname = [\n'a',\n'a b']\nroot = '.'", 4, "'a b' is not a name of a host"),
    ("[[host]]\nname = ['a:80']\nroot = '.'", 2, "without a port"),
    (HOST + "[[host]]\nname = ['x', 'A.example.']\nroot = '.'", 5, "'A.example.' is given twice"),
    ("[host]\nname = ['a']", 1, "host: no such table; the only one is [[host]]"),
    ("[[hots]]\n", 1, "hots: no such table"),
    (HOST + "[server]\n", 4, "server: no such table"),
    ("port = 0\n" + HOST * 65, 194, "host: at most 64 of them"),
]


@pytest.mark.any_engine("options are read before an engine runs")
@pytest.mark.parametrize("text, line, words", MISTAKES)
def test_mistakes(file, tree, text, line, words):
    path = file(text)
    out = run("--config", path, cwd=tree)
    assert out.returncode == EXIT_USAGE and out.stdout == "" and out.stderr.count("\n") == 1, out.stderr
    assert out.stderr.startswith(f"rung: {path}:{line}: ") and words in out.stderr, out.stderr


@pytest.mark.any_engine("options are read before an engine runs")
@pytest.mark.parametrize("lines, code, words", [("index = 'a/b'", 2, "--index 'a/b'"), ("header = ['x']", 2, "--header"), ("auth = '/none'", 2, "--auth"),
                                                ("deny = ['x']", 2, "--deny"), ("tls = ['x']", 2, "--tls x: name a certificate")])
def test_mistakes_of_sites(file, tree, lines, code, words):
    out = run("--config", file(HOST + HOST.replace("a.ex", "b.ex") + lines), "-p", "0", cwd=tree)
    assert out.returncode == code and words in out.stderr, out.stderr
    assert "tls" in lines or f"{tree}" in out.stderr or ":4: this is about that [[host]]" in out.stderr


@pytest.mark.any_engine("options are read before an engine runs")
def test_root_of_a_host_that_is_not_there(file, tree):
    out = run("--config", file(HOST.replace('"."', '"none"')), cwd=tree)
    assert out.returncode == EXIT_USAGE and "cannot serve 'none'" in out.stderr and ":1: this is about that [[host]]" in out.stderr


@pytest.mark.any_engine("options are read before an engine runs")
def test_most_hosts(start, file, tree):
    """64 hosts, each with its folder and its cache."""
    text = ""
    for i in range(64):
        write(f"{tree}/{i}/f.txt", b"%d\n" % i)
        text += table([f"h{i}.example"], f"{tree}/{i}")
    with start(f"--config={file(text)}").wire() as wire:
        for _ in range(3):
            for i in range(64):
                assert ask(wire, f"h{i}.example").body == b"%d\n" % i


@pytest.mark.any_engine("options are read before an engine runs")
def test_round_trip(file, places):
    """rung config prints hosts, and of their options those that are not as at the top."""
    text = 'header = ["X: 1"]\nspa = true\n' + table(NAMES["a"], places["a"], "header = []") + table(NAMES["b"], places["b"], 'index = "x"', "spa = true")
    first = run("config", "--config", file(text), "--max-age", "1m")
    assert first.returncode == EXIT_DONE and first.stderr == ""
    assert first.stdout.endswith(table(NAMES["a"], places["a"], "header = []").replace("'", '"') + "\n" + table(NAMES["b"], places["b"], 'index = "x"'))
    assert run("config", "--config", file(first.stdout)).stdout == first.stdout
