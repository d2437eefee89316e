# SPDX-License-Identifier: MIT
"""rung load by HTTP/2: streams, their answers in any order, and every way in which a server can be wrong about them."""
import contextlib
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time

import pytest
from aid import CONNECT, DONE, FAULTS, PATIENCE, USAGE, Liar, always, environment, load, measured, rung
from frames import H2Liar, PingFrame, SettingsFrame
from tls import Certificate, Cutter, TlsLiar

HELLO = b"hello"


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    return Certificate(tmp_path_factory.mktemp("certificate"), "mine")


@pytest.fixture
def truth(tmp_path):
    (tmp_path / "x").write_bytes(HELLO)
    return tmp_path


def fine(run, requests):
    assert run.status == DONE and run.json["errors"]["total"] == 0, run.out
    assert run.json["requests"]["answered"] == requests
    return run.json["http2"]


def h2(*args):
    return measured("--http2", *args)


@contextlib.contextmanager
def serving(site, mine, *args):
    """A rung, with or without TLS."""
    with rung("serve", "-p", 0, *(["--tls", f"{mine.cert},{mine.key}"] if mine else []), *args, site) as server:
        server.url = f"{'https' if mine else 'http'}://127.0.0.1:{server.port}"
        yield server


@pytest.mark.parametrize("streams", [1, 10, 100, 101, 1000])
@pytest.mark.parametrize("engine", ["epoll", "thread", "uring"])
@pytest.mark.parametrize("secure", [False, True], ids=["h2c", "tls"])
# shows U63
def test_both_sides_count_the_same(engine, streams, secure, site, mine):
    with serving(site, secure and mine, "-e", engine) as server:
        run = h2("-n", 1500, "-c", 4, "-t", 2, "--streams", streams, "--check", site, f"{server.url}/a.txt",
                 f"{server.url}/b%20b.bin", f"{server.url}/empty")
        assert fine(run, 1500) == {"streams": streams, "goaway": 0, "goaway_error": None, "rst_stream": 0}
        counted = server.settled()
    assert counted["answers"] == counted["complete"] == 1500 and counted["accepted"] == run.json["connects"]["made"]
    assert run.json["pipeline"] == 1 and (run.json["tls"] is not None) == secure


@pytest.mark.parametrize("options", [
    ["-k", "off"], ["--requests-per-connection", 7], ["--requests-per-connection", 10, "--streams", 4],
    ["--close", "reset", "-k", "off"], ["-R", 3000], ["-R", 3000, "--arrivals", "poisson", "--streams", 3], ["-X", "HEAD"],
    ["-X", "HEAD", "--streams", 5], ["--source", "127.0.0.2,127.0.0.3"], ["--body-check", "--streams", 9], ["--idle", 5],
    ["--think", "1ms", "--streams", 3], ["-H", "Range: bytes=0-9", "--status", 206],
    ["--mix", "conditional=30%,range=30%,missing=30%", "--streams", 8]], ids=str)
@pytest.mark.parametrize("secure", [False, True], ids=["h2c", "tls"])
# shows U63
def test_ways_of_asking(options, secure, site, mine):
    with serving(site, secure and mine) as server:
        run = h2("-n", 700, "-c", 6, "-t", 2, *options, f"{server.url}/a.txt")
        fine(run, 700)
        counted = server.settled()
    assert counted["answers"] == 700 and 0 <= counted["accepted"] - run.json["connects"]["made"] <= 5


def test_over_a_unix_socket(site, tmp_path):
    path = tmp_path / "socket"
    with rung("serve", "-b", f"unix:{path}", site):
        fine(h2("-n", 100, "-c", 4, "--streams", 5, "-u", path, "http://localhost/a.txt"), 100)


def test_the_request_as_the_server_sees_it():
    seen = []
    with H2Liar(lambda ask: (seen.append(ask.fields), ask.answer())) as liar:
        fine(h2("-n", 1, "-H", "X-Word:  A b ", f"http://127.0.0.1:{liar.port}/a?b=c:d"), 1)
        fine(h2("-n", 1, "-H", "Host: other", "-H", "User-Agent: me", "-k", "off", liar.url), 1)
    first, second = seen
    assert first[:4] == [(":method", "GET"), (":scheme", "http"), (":authority", f"127.0.0.1:{liar.port}"), (":path", "/a?b=c:d")]
    assert first[4][0] == "user-agent" and first[4][1].startswith("rung-load/") and first[5:] == [("x-word", "A b")]
    assert second == [(":method", "GET"), (":scheme", "http"), (":authority", "other"), (":path", "/x"), ("user-agent", "me")]


# --- Streams ------------------------------------------------------------------------------------------------------------

class Gathered:
    """Answers requests in groups of a size, the last one first; the size is reached only if as many are in flight."""

    def __init__(self, size):
        self.size, self.waiting, self.most = size, [], 0

    def __call__(self, ask):
        self.waiting.append(ask)
        self.most = max(self.most, len(self.waiting))
        if len(self.waiting) == self.size:
            for one in reversed(self.waiting):
                one.answer(one.path.encode())
            self.waiting = []


@pytest.mark.parametrize("asked, allowed, expected", [(1, 100, 1), (8, 100, 8), (8, 8, 8), (9, 8, 8), (1000, 3, 3)])
# shows U63
def test_as_many_streams_as_both_sides_allow(asked, allowed, expected, tmp_path):
    """Answers come in the opposite order, each with a body of its own, and each is compared with its own file."""
    for name in ("x1", "x22", "x333"):
        (tmp_path / name).write_text(f"/{name}")
    gathered = Gathered(expected)
    with H2Liar(gathered, streams=allowed) as liar:
        urls = [f"http://127.0.0.1:{liar.port}/{name}" for name in ("x1", "x22", "x333")]
        fine(h2("-n", 10 * expected, "-c", 1, "--streams", asked, "--check", tmp_path, *urls), 10 * expected)
    assert gathered.most == expected


@pytest.mark.parametrize("streams, usage", [(0, True), (1, False), (1000, False), (1001, True)])
def test_the_bounds_of_streams(streams, usage, site):
    with serving(site, None) as server:
        run = load("--http2", "-n", 10, "-q", "--streams", streams, f"{server.url}/a.txt")
    assert run.status == (USAGE if usage else DONE), run.err


def test_each_stream_has_its_own_latency():
    """One answer takes long, and holds up no other."""
    def answer(ask):
        if ask.number == 5:
            threading.Timer(0.4, ask.answer).start()
        else:
            ask.answer()
    with H2Liar(answer) as liar:
        run = h2("-n", 100, "-c", 1, "--streams", 4, liar.url)
    fine(run, 100)
    assert run.json["service_us"]["max"] >= 400e3 > run.json["service_us"]["p90"]


# shows U63
def test_a_stream_that_is_not_answered_in_time():
    """The stream alone fails, and the server gets RST_STREAM; the connection goes on."""
    with H2Liar(lambda ask: None if ask.number == 5 else ask.answer()) as liar:
        run = h2("-n", 50, "-c", 1, "--streams", 4, "-T", "300ms", liar.url)
        assert run.errors() == {"timed_out": 1} and run.json["requests"]["answered"] == 49
        assert run.json["connects"]["made"] == 1 and run.json["elapsed_s"] >= 0.3
        assert [code for _, code in liar.talks[0].resets] == [8]  # CANCEL
        liar.answer = lambda ask: time.sleep(0.1) or ask.answer()
        fine(h2("-n", 2, "-c", 1, "-T", "20s", liar.url), 2)


def test_a_connection_that_answers_nothing_is_replaced():
    with H2Liar(lambda ask: None if len(liar.talks) == 1 else ask.answer()) as liar:
        run = h2("-n", 20, "-c", 1, "--streams", 4, "-T", "300ms", liar.url)
    assert run.errors() == {"timed_out": 4} and run.json["connects"]["made"] == 2


# --- Lies ---------------------------------------------------------------------------------------------------------------

def split(ask):
    ask.block([(":status", "200"), ("content-length", "5"), ("x-long", "y" * 3000)], piece=700)
    ask.data(HELLO)


def in_pieces(ask):
    ask.head(103, link="</a>")
    ask.head(content_length=5)
    ask.data(b"", end=False)
    ask.send(PingFrame(0, opaque_data=b"12345678"))
    ask.data(b"he", end=False, padding=9)
    ask.raw(b"\0\0\7\x77\0\0\0\0\1unknown")  # a frame of no known type
    ask.data(b"llo", end=False)
    ask.send(SettingsFrame(0, settings={1: 4096}))
    ask.data(b"")


def with_trailer(ask):
    ask.head(content_length=5)
    ask.data(HELLO, end=False)
    ask.block([("x-sum", "1")], end=True)


HONEST = {
    "with a length": lambda ask: ask.answer(),
    "without a length": lambda ask: (ask.head(), ask.data(HELLO)),
    "interim head, empty and padded frames, a ping, settings": in_pieces,
    "a trailer": with_trailer,
    "continuation frames": split,
    "not modified": lambda ask: ask.head(304, end=True, content_length=5),
}


@pytest.mark.parametrize("name", HONEST)
# shows U63
def test_honest_servers_are_believed(name, truth):
    with H2Liar(HONEST[name]) as liar:
        fine(h2("-n", 60, "-c", 2, "--streams", 3, "--check", truth, liar.url), 60)


def with_length(length, body):
    return lambda ask: (ask.head(content_length=length), ask.data(body))


def fields(*extra):
    return lambda ask: (ask.block([(":status", "200"), ("content-length", "5"), *extra]), ask.data(HELLO))


LIES = {
    "a wrong byte": (lambda ask: ask.answer(b"hullo"), "wrong_body"),
    "another length": (lambda ask: ask.answer(b"hell"), "wrong_length"),
    "another length, not announced": (lambda ask: (ask.head(), ask.data(b"hello!")), "wrong_length"),
    "another status": (lambda ask: ask.answer(status=500), "bad_status"),
    "less than announced": (with_length(5, b"hell"), "bad_framing"),
    "more than announced": (with_length(5, b"hello!"), "bad_framing"),
    "a name in capitals": (fields(("X-Name", "a")), "bad_framing"),
    "a field of HTTP/1": (fields(("connection", "close")), "bad_framing"),
    "no status": (lambda ask: ask.block([("content-length", "0")], end=True), "bad_framing"),
    "two lengths": (fields(("content-length", "6")), "bad_framing"),
    "a head that is too long": (fields(*[("x-long", "y" * 4000)] * 9), "bad_framing"),
    "reset before the head": (lambda ask: ask.reset(), "stream_reset"),
    "reset in the body": (lambda ask: (ask.head(content_length=5), ask.data(b"he", end=False), ask.reset()), "stream_reset"),
    "reset without an error, in the body": (lambda ask: (ask.head(), ask.data(b"he", end=False), ask.reset(0)), "stream_reset"),
    "refused": (lambda ask: ask.reset(7), "unprocessed"),
}


@pytest.mark.parametrize("name", LIES)
# shows U63
def test_one_bad_answer_is_one_error(name, truth):
    """The request in question alone fails; its connection and the other streams go on."""
    lie, error = LIES[name]
    with H2Liar(lambda ask: lie(ask) and None if ask.number == 17 else ask.answer()) as liar:
        run = h2("-n", 60, "-c", 1, "--streams", 3, "--check", truth, liar.url)
    assert run.errors() == {error: 1} and run.status == FAULTS
    assert run.json["connects"]["made"] == 1 and run.json["examples"][0]["url"].endswith("/x")
    assert run.json["http2"]["rst_stream"] == (1 if error in ("stream_reset", "unprocessed") else 0)


def test_a_status_that_is_allowed_is_no_error():
    with H2Liar(lambda ask: ask.answer(status=500)) as liar:
        fine(h2("-n", 20, "--status", 500, liar.url), 20)


def breaks(ask):
    ask.raw(b"\x00\x00\x08\x06\x00\x00\x00\x00\x01" + b"x" * 8)  # PING on a stream: an error of the connection


def cut(ask):
    ask.head(content_length=5)
    ask.data(b"he", end=False)
    return False


# shows U63
@pytest.mark.parametrize("lie, errors", [(breaks, {"bad_framing"}), (cut, {"closed_early", "reset"})])
def test_a_broken_connection_loses_its_streams(lie, errors):
    """The streams in flight are lost, and no others; the next connection does the rest."""
    with H2Liar(lambda ask: lie(ask) if ask.number == 17 else ask.answer()) as liar:
        run = h2("-n", 60, "-c", 1, "--streams", 3, liar.url)
    assert run.errors() and set(run.errors()) <= errors and 1 <= run.json["errors"]["total"] <= 3, run.out
    assert run.json["connects"]["made"] == 2


# shows U63
def test_goaway_without_losses():
    """A server that goes after ten answers of each connection, and says so: that is no error."""
    def answer(ask):
        if ask.stream == 19:
            ask.goaway(19)
        ask.answer()
    with H2Liar(answer) as liar:
        run = h2("-n", 95, "-c", 1, liar.url)
    assert fine(run, 95)["goaway"] == 9 and run.json["http2"]["goaway_error"] is None
    assert run.json["connects"] == {"made": 10, "closed_while_idle": 9}


def test_goaway_that_leaves_requests_unprocessed():
    def answer(ask):
        if ask.number == 9:
            ask.goaway(ask.stream - 4, 11)
        elif ask.stream <= 15 or ask.number > 12:
            ask.answer()
    with H2Liar(answer) as liar:
        run = h2("-n", 60, "-c", 1, "--streams", 3, "-T", "2s", liar.url)
    assert set(run.errors()) == {"unprocessed"} and 1 <= run.errors()["unprocessed"] <= 3, run.out
    assert run.json["http2"]["goaway_error"] == "ENHANCE_YOUR_CALM" and run.json["connects"]["made"] == 2


def test_the_report_for_people():
    with H2Liar(lambda ask: ask.reset(11) if ask.number == 3 else ask.answer()) as liar:
        run = load("--http2", "-n", 20, "-c", 1, "--streams", 2, liar.url)
    assert "http/2     up to 2 streams a connection; 0 GOAWAY, 1 RST_STREAM" in run.out
    assert re.search(r"errors +1 requests whose stream was reset \(RST_STREAM\), the first of http://127", run.out)


def test_samples_have_a_line_for_each_stream(tmp_path):
    with H2Liar(lambda ask: ask.reset() if ask.number == 3 else ask.answer()) as liar:
        h2("-n", 50, "-c", 2, "--streams", 4, "--samples", tmp_path / "samples", liar.url)
    lines = (tmp_path / "samples").read_text().splitlines()
    assert len(lines) == 51 and sum(line.endswith(",stream_reset") for line in lines) == 1


@pytest.mark.parametrize("piece", [1, 9, 1000])
@pytest.mark.parametrize("secure", [False, True], ids=["h2c", "tls"])
def test_frames_in_pieces(piece, secure, site, mine):
    with serving(site, secure and mine) as server, Cutter(server.port, piece) as cutter:
        path = "a.txt" if piece == 1 else "b%20b.bin"
        fine(h2("-n", 6, "-c", 2, "--streams", 3, "--check", site, f"{server.url[:server.url.index(':')]}://127.0.0.1:"
                f"{cutter.own_port}/{path}"), 6)


# --- Servers without HTTP/2 -----------------------------------------------------------------------------------------------

def refused(run, words):
    assert run.status == CONNECT and words in run.err, run.err


@pytest.mark.parametrize("names, words", [(["http/1.1"], "it chose HTTP/1.1 in place of HTTP/2 (ALPN)"),
                                          ([], "it chose no protocol (ALPN); does it speak HTTP/2?")])
# shows U63
def test_the_protocol_that_a_server_chooses(names, words, mine):
    context = mine.context()
    if names:
        context.set_alpn_protocols(names)
    with TlsLiar(always(b""), context) as liar:
        refused(load("--http2", "-n", 1, liar.url), words)
    context = mine.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with H2Liar(lambda ask: ask.answer(), context=context) as liar:
        fine(h2("-n", 20, "--cacert", mine.cert, liar.url), 20)


def test_no_http2_without_tls():
    with Liar(None) as liar:
        liar.serve = lambda sock: (sock.recv(3), sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), sock.recv(65536))
        refused(load("--http2", "-n", 1, liar.url), "it answers with HTTP/1, not HTTP/2")
        liar.serve = lambda sock: (sock.recv(3), sock.sendall(b"220 mail.example ESMTP\r\n"), sock.recv(65536))
        refused(load("--http2", "-n", 1, liar.url), "it does not speak HTTP/2")
        liar.serve = lambda sock: (sock.recv(65536), sock.shutdown(socket.SHUT_WR), sock.recv(65536))
        refused(load("--http2", "-n", 1, liar.url), "it closed the connection before any SETTINGS")
        liar.serve = lambda sock: time.sleep(2)
        refused(load("--http2", "-n", 1, "-T", "300ms", liar.url), "it sent no SETTINGS in time")


@pytest.mark.parametrize("words, said", [
    (["--http2", "echo://127.0.0.1:1"], "have no frames"), (["--http2", "--pipeline", 2, "http://127.0.0.1:1"], "--streams"),
    (["--streams", 2, "http://127.0.0.1:1"], "add --http2"), (["--http2", "-H", "TE: trailers", "http://127.0.0.1:1"], "matter of HTTP/1"),
    (["--http2", "-H", "upgrade: x", "http://127.0.0.1:1"], "matter of HTTP/1"),
    (["--http2", "--streams", 2, "-k", "off", "http://127.0.0.1:1"], "--keep-alive on"),
    (["--http2", "--trial", "calm", "http://127.0.0.1:1"], "--http2 means nothing to trials")], ids=str)
def test_what_makes_no_sense(words, said):
    run = load("-n", 1, *words) if "--trial" not in words else load(*words)
    assert run.status == USAGE and said in run.err, run.err


# --- Other servers --------------------------------------------------------------------------------------------------------

def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


@contextlib.contextmanager
def running(words, port):
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
    deadline = time.monotonic() + PATIENCE
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE):
                break
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_nginx(mine, site, tmp_path):
    """nginx ends a connection after keepalive_requests, by GOAWAY."""
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    if not nginx or "http_v2_module" not in subprocess.run([nginx, "-V"], capture_output=True, text=True, check=True, timeout=30).stderr:
        pytest.skip("there is no nginx with HTTP/2")
    port = free_port()
    (tmp_path / "nginx.conf").write_text(f"""
        daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/error.log;
        events {{ }}
        http {{ access_log off; client_body_temp_path {tmp_path}/b; proxy_temp_path {tmp_path}/p; fastcgi_temp_path {tmp_path}/f;
                uwsgi_temp_path {tmp_path}/u; scgi_temp_path {tmp_path}/s; keepalive_requests 100;
                server {{ listen 127.0.0.1:{port} ssl http2; root {site}; ssl_certificate {mine.cert};
                          ssl_certificate_key {mine.key}; }} }}""")
    with running([nginx, "-p", str(tmp_path), "-e", f"{tmp_path}/error.log", "-c", f"{tmp_path}/nginx.conf"], port):
        run = h2("-n", 450, "-c", 1, "--check", site, "--cacert", mine.cert, f"https://127.0.0.1:{port}/a.txt")
        assert fine(run, 450)["goaway"] == 4 and run.json["connects"]["made"] == 5
        run = h2("-n", 90, "-c", 1, "--streams", 10, "--check", site, f"https://127.0.0.1:{port}/b%20b.bin")
        fine(run, 90)


def test_nghttpd(mine, site):
    if not shutil.which("nghttpd"):
        pytest.skip("nghttpd is not installed")
    port = free_port()
    with running(["nghttpd", "-d", str(site), str(port), mine.key, mine.cert], port):
        fine(h2("-n", 500, "-c", 3, "--streams", 20, "--check", site, f"https://127.0.0.1:{port}/a.txt",
                f"https://127.0.0.1:{port}/b%20b.bin"), 500)
