# SPDX-License-Identifier: MIT
"""Trials: a server that withstands them passes, rung among them; and each trial fails for a server with the flaw that
it looks for.  A trial that could not fail would be worth nothing."""
import contextlib
import os
import re
import resource
import shutil
import socket
import subprocess
import time

import pytest
from aid import CONNECT, DONE, FAILED, FAULTS, LOAD, OK, TOP, USAGE, Liar, Request, end, environment, load, rung, start
from mini import Mini
from form import SCHEMA, complaints
from test_rung import SERVING
from tls import Certificate

NAMES = re.findall(r"(?m)^  (\S+) +\S", load("--trial", "list").out)
BRIEFLY = ("pool", "epoll", "uring")  # engines that `make check` tries, too
THREADED = ("thread", "pool", "dispatch", "epoll")  # several threads; epoll is a loop with a helper thread for listings
PATIENT = ("-c", 4, "-d", "400ms", "-T", "20s", "--trial-worst", "20s", "--trial-close", "20s")
BRIEF = ("-c", 4, "-d", "600ms", "-T", "3s", "--trial-worst", "10s", "--trial-close", "2s")


def tried(names, url, *args):
    """Run these trials: the result is JSON that fits its schema, and the exit code agrees with it."""
    run = load("-o", "-", "--trial", names, *args, url)
    assert run.json, f"status {run.status}: {run.err}"
    assert not list(complaints(SCHEMA["$defs"]["trials"], run.json, SCHEMA))
    failed = [one["name"] for one in run.json["trials"] if not one["passed"]]
    assert run.json["failed"] == len(failed) and run.json["passed"] == len(run.json["trials"]) - len(failed)
    assert run.status == (FAULTS if failed else DONE)
    for one in run.json["trials"]:
        for acts in (one["hostile"], one["beside"], one["after"]):
            assert acts["acts"] >= acts["answered"] + acts["closed"] + acts["wrong"]
    return run


def bears(url, *args):
    run = tried("all", url, *PATIENT, *args)
    assert run.status == DONE, [(one["name"], one["why"]) for one in run.json["trials"] if not one["passed"]]
    assert [one["name"] for one in run.json["trials"]] == NAMES
    for one in run.json["trials"]:
        assert one["beside"]["answered"] >= 3 and one["after"]["answered"] == 3
        assert one["hostile"]["acts"] >= 4 or one["name"] == "calm"
    return run


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    return Certificate(tmp_path_factory.mktemp("certificate"), "mine")


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"], marks=[] if row["name"] in BRIEFLY else pytest.mark.long)
                                 for row in SERVING if row["name"] != "naive"])
# shows T05
def test_rung_bears_all(row, site):
    if not row["available"]:
        pytest.skip(row["reason"])
    if "tsan" in LOAD and row["name"] not in THREADED:
        pytest.skip("it has one thread, and the thread sanitizer looks at several")
    with rung("serve", "-p", 0, "-e", row["name"], "--head-timeout", "500ms", site) as server:
        bears(f"http://127.0.0.1:{server.port}/b%20b.bin", "--check", site)
        counted = server.settled()
    assert counted["accepted"] == counted["closed"], counted


def test_over_a_unix_socket(site, tmp_path):
    with rung("serve", "-b", f"unix:{tmp_path}/socket", "--head-timeout", "500ms", site) as server:
        bears("http://any/b%20b.bin", "--check", site, "-u", tmp_path / "socket")
        counted = server.settled()
    assert counted["accepted"] == counted["closed"], counted


@pytest.mark.parametrize("engine", ["epoll", pytest.param("thread", marks=pytest.mark.long)])
# shows U63
def test_rung_bears_all_over_tls(engine, site, mine):
    with rung("serve", "-p", 0, "-e", engine, "--head-timeout", "500ms", "--tls", f"{mine.cert},{mine.key}", site) as server:
        bears(f"https://127.0.0.1:{server.port}/b%20b.bin", "--check", site, "--cacert", mine.cert)
        counted = server.settled()
    assert counted["accepted"] == counted["closed"], counted


# shows N01
def test_naive_serves_one_at_a_time(site):
    """The client being served holds up all others, so that even the control fails; afterwards the server answers."""
    with rung("serve", "-p", 0, "-e", "naive", site) as server:
        run = tried("calm", f"http://127.0.0.1:{server.port}/a.txt", "-T", "20s")
    one = run.json["trials"][0]
    assert not one["passed"] and "beside: an answer took" in one["why"] and one["after"]["answered"] == 3


@pytest.mark.skipif(not shutil.which("nginx", path="/usr/sbin:/usr/bin"), reason="nginx is not installed")
def test_nginx_bears_all(site, tmp_path):
    (tmp_path / "conf").write_text(
        ("user root;\n" if os.geteuid() == 0 else "") +  # a user that may read the folder
        f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/errors; worker_processes 1;\n"
        "events { worker_connections 2000; }\n"
        "http { access_log off; client_header_timeout 500ms;\n"
        + "".join(f"  {kind}_temp_path {tmp_path}/{kind};\n"
                  for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        + f"server {{ listen unix:{tmp_path}/socket; root {site}; }} }}\n")
    process = subprocess.Popen([shutil.which("nginx", path="/usr/sbin:/usr/bin"), "-c", f"{tmp_path}/conf"],
                               stderr=subprocess.DEVNULL, env=environment())
    try:
        deadline = time.monotonic() + 20
        while not (tmp_path / "socket").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        bears("http://any/a.txt", "-u", tmp_path / "socket")
    finally:
        process.terminate()
        process.wait(20)


def test_the_honest_one_bears_all():
    with Mini() as server:
        bears(server.url)


class Plain(Liar):
    """An honest, very simple server: answers have no length, so each ends its connection; a 103 comes before."""

    def __init__(self):
        super().__init__(None)

    def serve(self, sock):
        with contextlib.suppress(OSError), sock:
            data = b""
            while b"\r\n\r\n" not in data:
                piece = sock.recv(65536)
                if not piece:
                    return
                data += piece
            request = Request(data.partition(b"\r\n\r\n")[0].decode(), 0)
            status, body = (b"200 OK", b"hello") if request.path == "/x" else (b"404 No", b"no")
            sock.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 " + status + b"\r\nConnection: close\r\n\r\n" +
                         (b"" if request.method == "HEAD" else body))
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass


def test_answers_without_a_length_and_before_the_answer():
    """Whatever is asked first, on many connections."""
    with Plain() as server:
        run = tried("calm,churn,pipeline", server.url, *PATIENT)
    assert run.status == DONE, [(one["name"], one["why"]) for one in run.json["trials"]]


def test_a_reset_that_is_our_own_doing():
    """A server may answer one of many requests, say that it closes, and close: the others then cause a reset."""
    with Liar(lambda sock, _: sock.sendall(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))) as liar:
        run = tried("reset", liar.url, *PATIENT)
    assert run.status == DONE and run.json["trials"][0]["hostile"]["answered"] >= 4, run.out


FLAWS = [  # trial, flaw, pattern of the reason for failing, further options
    ("calm", "stalls", "beside: an answer took", ("--trial-worst", "1s")),
    ("calm", "garbles", "beside: .* bodies with other bytes", ()),
    ("slow-reader", "garbles what comes together", "hostile: 4 of 4 wrong: reading slowly: .* other bytes", ("-d", "2s")),
    ("slow-reader", "one at a time", "beside: no client could ask|beside: .* nothing came", ("-d", "4s")),
    ("slow-writer", "waits for ever", "hostile: 2 of 4 wrong: the server still holds", ()),
    ("slow-writer", "only whole requests", "hostile: .*: the request was slow, and whole: ", ("-T", "500ms")),
    ("half-open", "waits for ever", "hostile: 4 of 4 wrong: the server still holds", ()),
    ("half-open", "greets", "hostile: 4 of 4 wrong: being refused: answered with 200", ()),
    ("half-request", "waits for ever", "hostile: 4 of 4 wrong: the server still holds", ()),
    ("half-request", "500 for silence", "hostile: 4 of 4 wrong: being refused: answered with 500", ()),
    ("half-close", "takes half a close for a whole one", "hostile: .*closed the connection before the answer", ()),
    ("half-close", "stays behind an end", "hostile: 4 of 4 wrong: answered, but not closed", ()),
    ("reset", "resets", "hostile: 4 of 4 wrong: reading before our reset: the server reset the connection", ()),
    ("reset", "dies of a reset", "afterwards: 3 of 3 wrong: .* Connection refused", ()),
    ("reset-early", "dies of a reset", "afterwards: 3 of 3 wrong: .* Connection refused", ()),
    ("churn", "tires", "hostile: .*one request on a connection: ", ()),
    ("churn", "does not close", "hostile: 4 of 4 wrong: answered, but not closed", ()),
    ("pipeline", "swaps", "hostile: 4 of [0-9]+ wrong: pipelining: answer ", ()),
    ("pipeline", "forgets what else came", "hostile: 4 of 4 wrong: pipelining: ", ()),
    ("pipeline-cut", "dies of a reset", "afterwards: 3 of 3 wrong: .* Connection refused", ()),
    ("nonsense", "500 for nonsense", "hostile: .*being refused: answered with 500", ()),
    ("nonsense", "believes anything", "hostile: .*being refused: answered with 200", ()),
    ("nonsense", "waits when it does not understand", "hostile: 4 of 4 wrong: the server still holds", ()),
    ("huge-head", "takes any head", "hostile: 4 of 4 wrong: the server took 16 MiB", ("--trial-close", "30s")),
    ("idle-crowd", "twenty at most", "beside: ", ("--trial-worst", "1s", "-d", "3s")),
]


@pytest.mark.parametrize("name, flaw, said, more", FLAWS, ids=lambda value: value if isinstance(value, str) else "")
# shows T05
def test_each_trial_can_fail(name, flaw, said, more):
    with Mini(flaw) as server:
        options = {**dict(zip(BRIEF[::2], BRIEF[1::2])), **dict(zip(more[::2], more[1::2]))}
        run = tried(name, server.url, *[word for pair in options.items() for word in pair])
    assert run.status == FAULTS and re.search(said, run.json["trials"][0]["why"]), run.json["trials"][0]["why"]


SECURE_FLAWS = [row for row in FLAWS if row[1] in (
    "stalls", "garbles", "garbles what comes together", "waits for ever", "only whole requests", "greets", "500 for silence",
    "stays behind an end", "does not close", "forgets what else came", "500 for nonsense", "believes anything", "takes any head")]


@pytest.mark.long
@pytest.mark.parametrize("name, flaw, said, more", SECURE_FLAWS, ids=lambda value: value if isinstance(value, str) else "")
# shows U63
def test_trials_can_fail_over_tls(name, flaw, said, more, mine):
    with Mini(flaw, mine.context()) as server:
        options = {**dict(zip(BRIEF[::2], BRIEF[1::2])), **dict(zip(more[::2], more[1::2]))}
        run = tried(name, server.url, *[word for pair in options.items() for word in pair])
    assert run.status == FAULTS and re.search(said, run.json["trials"][0]["why"]), run.json["trials"][0]["why"]


@pytest.mark.long
def test_the_honest_one_bears_all_over_tls(mine):
    with Mini(context=mine.context()) as server:
        bears(server.url)


def test_trials_need_a_handshake(mine, tmp_path):
    other = Certificate(tmp_path, "other")
    with Mini() as server:
        run = load("--trial", "calm", server.url.replace("http", "https"))
        assert run.status == CONNECT and "cannot connect" in run.err and "wrong version number" in run.err, run.err
    with Mini(context=mine.context()) as server:
        run = load("--trial", "calm", "--cacert", other.cert, server.url)
        assert run.status == CONNECT and "not trusted: self-signed certificate" in run.err, run.err


# shows T05
def test_every_trial_is_shown_to_fail():
    assert {row[0] for row in FLAWS} == set(NAMES) and len(NAMES) >= 14


def test_the_page_names_all():
    with open(f"{TOP}/docs/load.md", encoding="utf-8") as file:
        page = file.read()
    for name, words in re.findall(r"(?m)^  (\S+) +(.+)$", load("--trial", "list").out):
        assert f"| `{name}` | {words} |" in page, name


def test_the_table():
    with Mini("waits for ever") as server:
        run = load("--trial", "half-open,calm", "--seed", 7, *BRIEF, server.url)
    lines = run.out.splitlines()
    assert run.status == FAULTS and "seed 7" in lines[0] and "4 hostile clients for 600 ms" in lines[0]
    assert re.match(r"  calm +passed  beside: \d+, worst ", lines[2]), run.out
    assert re.match(r"  half-open +FAILED  hostile: 4 of 4 wrong: ", lines[3]) and len(lines) == 6
    assert lines[5] == "1 passed, 1 failed"


@pytest.mark.parametrize("words, said", [
    (["--trial", ",", "URL"], "names none"), (["--trial", "list,list", "URL"], "names none"),
    (["--trial", "calm", "-k", "off", "URL"], "--keep-alive means"), (["--trial", "x" * 1024, "URL"], "longer than all"),
    (["--trial", "calm", "--close", "reset", "URL"], "--close means"),
    (["--trial", "half-opne", "127.0.0.1:1"], "did you mean half-open"), (["--trial", "all"], "no URL is given"),
    (["--trial", "all", "-R", 5, "URL"], "--rate means nothing"), (["--trial", "all", "-n", 5, "URL"], "--requests means"),
    (["--trial", "all", "-c", 1001, "URL"], "at most 1000"), (["--trial", "all", "URL", "URL"], "one URL"),
    (["--trial", "all", "--fail-if", "errors>0", "URL"], "--fail-if means"), (["--trial", "all", "ECHO"], "one URL"),
], ids=str)
def test_mistakes(words, said):
    with Mini() as server:
        echo = server.url.replace("http", "echo").removesuffix("/x")
        run = load(*[{"URL": server.url, "ECHO": echo}.get(word, word) for word in words])
    assert run.status == USAGE and said in run.err and run.out == "" and run.err.count("\n") == 1, run.err


def test_chance_comes_from_the_seed():
    """Runs with the same seed send the same nonsense, as far as both got; another seed gives other nonsense."""
    def heard(seed):
        seen = []
        with Mini() as server:
            server.malformed = lambda head: Mini.malformed(head) and not seen.append(head)
            assert tried("nonsense", server.url, *PATIENT, "-c", 1, "--seed", seed).status == DONE
        return seen[:4]
    first, again, other = heard(1), heard(1), heard(2)
    assert len(first) == 4 and first == again and first != other


def test_descriptors_on_both_sides():
    def asked(files):
        return end(start("--trial", "idle-crowd", "-c", 2, "-d", "100ms", "--trial-worst", "20s", server.url,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))))
    with Mini() as server:
        assert asked(166).status == DONE
        short = asked(165)
    assert short.status == USAGE and "2 hostile clients need 166 descriptors" in short.err


def test_clients_on_both_sides():
    """A thousand hostile clients are allowed; test_mistakes has one more."""
    with Mini() as server:
        assert tried("calm", server.url, "-c", 1000, "-d", "200ms", "--trial-worst", "20s", "-T", "20s").status == DONE


def test_what_cannot_be_tried(tmp_path):
    nobody = load("--trial", "all", "http://127.0.0.1:1/")
    assert nobody.status == CONNECT and "Connection refused" in nobody.err and nobody.out == ""
    for lie, said in ((b"nonsense\r\n\r\n", "no answer to compare with"),
                      (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", "answers with 404")):
        with Liar(lambda sock, _, lie=lie: sock.sendall(lie)) as liar:
            run = load("--trial", "all", liar.url)
        assert run.status == FAULTS and said in run.err and run.err.count("\n") == 1
    (tmp_path / "x").write_bytes(b"not its body")
    with Mini() as server:
        run = load("--trial", "calm", "--check", tmp_path, server.url)
        assert run.status == FAULTS and "other bytes" in run.err
        run = load("--trial", "calm", "-d", "100ms", "-o", "/dev/full", server.url)
        assert run.status == FAILED and "cannot write" in run.err
