# SPDX-License-Identifier: MIT
"""rung load over https: the same counts and checks as without TLS, handshakes counted, and every failure in plain words."""
import contextlib
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import time

import pytest
from aid import CONNECT, DONE, FAULTS, OK, PATIENCE, USAGE, Liar, always, at, environment, load, measured, rung
from tls import Certificate, Cutter, TlsLiar

HELLO = b"hello"


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    return Certificate(tmp_path_factory.mktemp("certificate"), "mine")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return Certificate(tmp_path_factory.mktemp("certificate"), "other", "DNS:elsewhere.example")


@contextlib.contextmanager
def secured(site, mine, *args):
    with rung("serve", "-p", 0, "--tls", f"{mine.cert},{mine.key}", *args, site) as server:
        server.url = f"https://127.0.0.1:{server.port}"
        yield server


def fine(run, requests):
    assert run.status == DONE and run.json["errors"]["total"] == 0, run.out
    assert run.json["requests"]["answered"] == requests
    tls, made = run.json["tls"], run.json["connects"]["made"]
    assert tls["full"] + tls["resumed"] == run.json["handshake_us"]["count"]
    assert at_the_end(made - run.json["handshake_us"]["count"], run)
    return tls


def at_the_end(connections, run):
    """Whether that many connections may have been on their way when the others had the last answers."""
    return 0 <= connections <= run.json["connections"] - 1


@pytest.mark.parametrize("engine", ["epoll", "thread", "uring"])
# shows U63
def test_both_sides_count_the_same(engine, site, mine):
    with secured(site, mine, "-e", engine) as server:
        run = measured("-n", 1500, "-c", 8, "-t", 2, "--check", site, "--cacert", mine.cert, f"{server.url}/a.txt",
                       f"{server.url}/b%20b.bin", f"{server.url}/empty")
        tls = fine(run, 1500)
        counted = server.settled()
    assert counted["answers"] == counted["complete"] == 1500 and counted["accepted"] == run.json["connects"]["made"]
    assert tls["full"] == run.json["connects"]["made"] >= 8 and tls["resumed"] == tls["others"] == 0 and tls["verified"]
    assert tls["version"] == "TLSv1.3" and tls["cipher"].startswith("TLS_")
    assert run.json["handshake_us"]["min"] > 0


@pytest.mark.parametrize("options", [
    ["-k", "off"], ["--requests-per-connection", 7], ["--pipeline", 16], ["--requests-per-connection", 10, "--pipeline", 4],
    ["--close", "reset", "-k", "off"], ["-R", 3000], ["-R", 3000, "--arrivals", "poisson", "--pipeline", 3], ["-X", "HEAD"],
    ["--source", "127.0.0.2,127.0.0.3"], ["--body-check"], ["--idle", 5], ["--think", "1ms"],
    ["-H", "Range: bytes=0-9", "--status", 206], ["--mix", "conditional=30%,range=30%,missing=30%"]], ids=str)
# shows U63
def test_ways_of_asking(options, site, mine):
    with secured(site, mine) as server:
        run = measured("-n", 700, "-c", 6, "-t", 2, *options, f"{server.url}/a.txt")
        fine(run, 700)
        counted = server.settled()
    assert counted["answers"] == 700 and at_the_end(counted["accepted"] - run.json["connects"]["made"], run)
    if options[:2] == ["-k", "off"]:
        assert counted["accepted"] >= 700


def test_what_is_received_is_counted_in_plain(site, mine):
    """Heads and bodies, as without TLS: records are the library's matter."""
    with secured(site, mine) as server, rung("serve", "-p", 0, site) as plain:
        one = measured("-n", 50, "-c", 1, f"{server.url}/b%20b.bin")
        two = measured("-n", 50, "-c", 1, f"http://127.0.0.1:{plain.port}/b%20b.bin")
    assert one.json["received_bytes"] == two.json["received_bytes"] > 50 * 128000
    assert two.json["tls"] is None and "handshake_us" not in two.json


def test_over_a_unix_socket(site, mine, tmp_path):
    path = tmp_path / "socket"
    with rung("serve", "-b", f"unix:{path}", "--tls", f"{mine.cert},{mine.key}", site):
        fine(measured("-n", 100, "-c", 4, "-u", path, "--cacert", mine.cert, "https://localhost/a.txt"), 100)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
# shows U63
def test_sessions_are_resumed_when_asked(version, mine):
    context = mine.context()
    context.maximum_version = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}[version]
    with TlsLiar(always(OK), context) as liar:
        tls = fine(measured("-n", 40, "-c", 2, "-t", 2, "-k", "off", "--resume", "on", liar.url), 40)
        assert tls["version"] == version and tls["full"] == 2 and tls["resumed"] >= 38
        tls = fine(measured("-n", 40, "-c", 2, "-t", 2, "-k", "off", liar.url), 40)
        assert tls["full"] >= 40 and tls["resumed"] == 0


def test_one_ticket_resumes_many_sessions(site, mine):
    """rung sends one, and none to a client that has shown it: the same ticket serves each new connection."""
    with secured(site, mine, "--workers", 2, "--workers-as", "process") as server:
        tls = fine(measured("-n", 40, "-c", 1, "-k", "off", "--resume", "on", f"{server.url}/a.txt"), 40)
    assert tls["full"] == 1 and tls["resumed"] >= 39


def test_the_name_is_said_and_an_address_is_not(mine):
    said = []
    context = mine.context()
    context.sni_callback = lambda sock, name, _: said.append(name)
    with TlsLiar(always(OK), context) as liar:
        for host in ("localhost", "127.0.0.1"):
            fine(measured("-n", 1, "-4", "--cacert", mine.cert, f"https://{host}:{liar.port}/x"), 1)
    assert said == ["localhost", None]


def test_the_report_for_people(mine):
    with TlsLiar(always(OK), mine.context()) as liar:
        run = load("-n", 20, "-c", 2, liar.url)
    assert re.search(r"handshake +\S+ [um]s", run.out)
    assert re.search(r"tls +TLSv1.3, TLS_\w+; 2 full handshakes, 0 resumed; certificates not verified", run.out), run.out


# --- Failures ---------------------------------------------------------------------------------------------------------

def refused(run, words, **errors):
    """A run without any connection: exit code, words, and the same words and counts in JSON."""
    assert run.status == CONNECT and words in run.err, run.err


def counted(run, words, *kinds):
    """Some connection was up; the others failed in this way."""
    assert set(run.errors()) == set(kinds) and words in run.json["greeting_error"], run.out


# shows U63
def test_an_untrusted_certificate(mine, other):
    with TlsLiar(always(OK), mine.context()) as liar:
        refused(load("-n", 1, "--cacert", other.cert, liar.url), "its certificate is not trusted: self-signed certificate")
        fine(measured("-n", 1, "--cacert", mine.cert, liar.url), 1)
        fine(measured("-n", 1, liar.url), 1)


def test_a_certificate_of_another_name(mine, other):
    with TlsLiar(always(OK), other.context()) as liar:
        refused(load("-n", 1, "-4", "--cacert", other.cert, f"https://localhost:{liar.port}"), "not trusted: hostname mismatch")
        refused(load("-n", 1, "--cacert", other.cert, liar.url), "not trusted: IP address mismatch")


def test_no_tls_there():
    with Liar(always(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")) as liar:
        liar.serve = lambda sock: sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        refused(load("-n", 1, liar.url.replace("http", "https")), "it does not speak TLS; is it http://?")


def test_refused_handshakes(mine):
    context = mine.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")  # and its key is not RSA
    with TlsLiar(always(OK), context) as liar:
        refused(load("-n", 1, liar.url), "it refused the handshake: handshake failure")


def test_no_common_protocol(mine):
    """A server that knows other protocols by ALPN, and none that is offered."""
    port = free_port()
    with s_server(mine, port, "-alpn", "ftp"):
        refused(load("-n", 1, f"https://127.0.0.1:{port}/"), "it speaks none of the offered protocols (ALPN)")


def test_closed_and_reset_during_the_handshake():
    with Liar(None) as liar:
        url = liar.url.replace("http", "https")
        liar.serve = lambda sock: (sock.recv(9), sock.shutdown(socket.SHUT_WR), sock.recv(65536))
        refused(load("-n", 1, url), "it closed the connection during the handshake")

        def reset(sock):
            sock.recv(9)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        liar.serve = reset
        refused(load("-n", 1, url), "it reset the connection during the handshake")


def test_a_handshake_that_takes_too_long(mine):
    with TlsLiar(always(OK), mine.context()) as liar:
        wrapped = liar.serve
        liar.serve = lambda sock: (time.sleep(1), wrapped(sock))
        refused(load("-n", 1, "-T", "300ms", liar.url), "its handshake took too long")
        fine(measured("-n", 1, "-T", "20s", liar.url), 1)


def test_failures_after_the_start_are_counted(mine):
    """The first two connections are fine; later ones meet a server that no longer speaks TLS."""
    with TlsLiar(always(OK), mine.context()) as liar:
        wrapped, met = liar.serve, []

        def serve(sock):
            met.append(sock)
            if len(met) <= 2 or len(met) > 4:
                wrapped(sock)
            else:
                sock.sendall(b"220 mail\r\n")
                sock.close()
        liar.serve = serve
        run = measured("-n", 10, "-c", 2, "-k", "off", liar.url)
        counted(run, "it does not speak TLS", "not_tls")
        assert run.errors() == {"not_tls": 2} and run.status == FAULTS and run.json["requests"]["answered"] == 10


def test_a_client_certificate_is_wanted(mine):
    """TLS 1.3 says so only after the client's part of the handshake: the request is lost."""
    context = mine.context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(mine.cert)
    with TlsLiar(always(OK), context) as liar:
        run = measured("-n", 3, "-c", 1, liar.url)
        assert set(run.errors()) <= {"tls_broken", "reset", "closed_early"} and run.json["requests"]["lost"] == 3


def garbage(sock):
    """Bytes beneath TLS, in the middle of an answer."""
    sock.sendall(OK[:-2])
    os.write(sock.fileno(), b"\x17\x03\x03\x00\x20" + b"x" * 32)
    return True


LIES = {
    "a wrong byte": (at(7, OK.replace(b"hello", b"hullo")), {"wrong_body": 1}),
    "another length": (at(7, OK.replace(b"5", b"4")[:-1]), {"wrong_length": 1}),
    "another status": (at(7, b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), {"bad_status": 1}),
    "no HTTP": (at(7, b"HTTQ/1.1 200 OK\r\n\r\n"), {"bad_framing": 1}),
    "more than was asked for": (at(7, OK + b"more"), {"excess": 1}),
    "a bad record": (at(7, garbage), {"tls_broken": 1}),
    "an end before the answer": (at(7, lambda sock: sock.unwrap() and False), {"closed_early": 1}),
}


@pytest.mark.parametrize("name", LIES)
# shows U63
def test_bad_answers_are_counted_as_without_tls(name, mine, tmp_path):
    (tmp_path / "x").write_bytes(HELLO)
    answer, errors = LIES[name]
    with TlsLiar(answer, mine.context()) as liar:
        run = measured("-n", 30, "-c", 1, "--check", tmp_path, liar.url)
    assert run.errors() == errors and run.status == FAULTS
    assert sum(run.json["requests"][key] for key in ("answered", "lost")) == 30


@pytest.mark.parametrize("announced", [True, False])
def test_an_answer_without_length_ends_with_close_notify(announced, mine):
    """Anyone could have cut the connection; only close_notify says that nothing is missing (RFC 9112 9.8)."""
    def answer(sock, _):
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\nhello")
        if announced:
            with contextlib.suppress(OSError, ssl.SSLError):
                sock.unwrap()
        return False
    with TlsLiar(answer, mine.context()) as liar:
        run = measured("-n", 10, "-c", 1, liar.url)
    assert run.errors() == ({} if announced else {"short_body": 10})


@pytest.mark.parametrize("piece", [1, 7, 16384])
def test_records_in_pieces(piece, site, mine):
    with secured(site, mine) as server, Cutter(server.port, piece) as cutter:
        path = "a.txt" if piece == 1 else "b%20b.bin"
        run = measured("-n", 6, "-c", 2, "--check", site, f"https://127.0.0.1:{cutter.own_port}/{path}")
        fine(run, 6)


@pytest.mark.parametrize("words, said", [
    (["--cacert", "/nonexistent", "https://127.0.0.1:1/"], "cannot read certificates in PEM from /nonexistent"),
    (["--cacert", __file__, "https://127.0.0.1:1/"], "cannot read certificates in PEM from"),
    (["--cacert", "x", "http://127.0.0.1:1/"], "the URL is not https://"),
    (["--resume", "on", "http://127.0.0.1:1/"], "the URL is not https://"),
    (["https://127.0.0.1:1/", "http://127.0.0.1:1/"], "do not go together")], ids=str)
def test_what_makes_no_sense(words, said):
    run = load("-n", 1, *words)
    assert run.status == USAGE and said in run.err, run.err


# --- Other servers ----------------------------------------------------------------------------------------------------

def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def until_it_listens(process, port):
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE):
            return
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)


@contextlib.contextmanager
def running(words, port):
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env=environment())
    try:
        until_it_listens(process, port)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


def s_server(mine, port, *args):
    return running(["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", mine.cert, "-key", mine.key, "-www", "-quiet",
                    *args], port)


@pytest.mark.parametrize("args, version, cipher", [
    (["-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"], "TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"], "TLSv1.3", "TLS_AES_128_GCM_SHA256")], ids=["1.2", "1.3"])
# shows U63
def test_openssl_s_server(args, version, cipher, mine):
    """openssl s_server answers as HTTP/1.0 and closes; its page and our report name the same version and cipher."""
    port = free_port()
    with s_server(mine, port, *args):
        run = measured("-n", 20, "-c", 1, "--cacert", mine.cert, f"https://127.0.0.1:{port}/")
    tls = fine(run, 20)
    assert (tls["version"], tls["cipher"], tls["full"]) == (version, cipher, run.json["connects"]["made"])


def test_nginx(mine, site, tmp_path):
    if not shutil.which("nginx", path="/usr/sbin:/usr/bin"):
        pytest.skip("nginx is not installed")
    port = free_port()
    (tmp_path / "nginx.conf").write_text(f"""
        daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/error.log;
        events {{ }}
        http {{ access_log off; client_body_temp_path {tmp_path}/b; proxy_temp_path {tmp_path}/p; fastcgi_temp_path {tmp_path}/f;
                uwsgi_temp_path {tmp_path}/u; scgi_temp_path {tmp_path}/s;
                server {{ listen 127.0.0.1:{port} ssl; root {site}; ssl_certificate {mine.cert}; ssl_certificate_key {mine.key};
                          ssl_session_cache shared:a:1m; ssl_protocols TLSv1.2 TLSv1.3; }} }}""")
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    with running([nginx, "-p", str(tmp_path), "-e", f"{tmp_path}/error.log", "-c", f"{tmp_path}/nginx.conf"], port):
        url = f"https://127.0.0.1:{port}/a.txt"
        assert fine(measured("-n", 500, "-c", 4, "--check", site, "--cacert", mine.cert, url), 500)["full"] == 4
        tls = fine(measured("-n", 50, "-c", 1, "-k", "off", "--resume", "on", url), 50)
        assert tls["resumed"] >= 49
