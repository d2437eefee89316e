# SPDX-License-Identifier: MIT
"""https: versions, names, how connections end, plain requests, deadlines and floods.

The whole suite runs over TLS too, where RUNG_ARGS has --tls (lib/arrangements.py); here is what only TLS has.
"""
import hashlib
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest
from lib import client
from lib.crowd import sanitized
from lib.secured import EVERYWHERE, Secured, anyone
from lib.server import BIN, wait_for

pytestmark = [pytest.mark.userspace("TLS"), pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls")]
BODY = b"Hello, world\n"
HELLO = b"GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n"


def make(folder, name, *names):
    """A certificate and its key, as files; returns what --tls takes."""
    cert, key = f"{folder}/{name}.pem", f"{folder}/{name}.key"
    alternatives = ",".join(f"DNS:{one}" for one in names)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3",
                    "-subj", f"/CN={name}", "-addext", f"subjectAltName={alternatives}", "-keyout", key, "-out", cert],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return f"{cert},{key}"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    return {"localhost": make(folder, "localhost", "localhost"), "b": make(folder, "b", "b.example", "*.b.example")}


@pytest.fixture
def secure(start, standard, pairs):
    return start(standard, "--tls", pairs["localhost"])


def trusting(pair):
    return ssl.create_default_context(cafile=pair.partition(",")[0])


def connect(server, **options):
    return socket.create_connection(server.address, timeout=client.PATIENCE, **options)


def wire(server, context=None, name="localhost", session=None):
    """A connection whose certificate is checked by that context."""
    one = client.Wire(server.address, secured=False)
    one.sock = Secured(one.sock, context, name, session)
    return one


def hello(server, context, name="localhost"):
    with wire(server, context, name) as one:
        reply = one.ask("/hello.txt")
        assert reply.status == 200 and reply.body == BODY
        return one.sock


@pytest.mark.core
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions(secure, pairs, version):
    context = trusting(pairs["localhost"])
    context.minimum_version = context.maximum_version = version
    sock = hello(secure, context)
    assert sock.tls.version() == {"TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}[version.name]
    assert sock.tls.compression() is None
    assert re.search("GCM|CHACHA20", sock.tls.cipher()[0])


@pytest.mark.parametrize("setting", ["-tls1", "-tls1_1", "-tls1_2 -cipher AES128-SHA", "-tls1_2 -cipher AES128-GCM-SHA256",
                                     "-tls1_2 -cipher DHE-RSA-AES128-GCM-SHA256"])
def test_weaker_is_refused(secure, setting):
    host, port = secure.address
    done = subprocess.run(["openssl", "s_client", "-connect", f"{host}:{port}", *setting.split()], input=b"",
                          capture_output=True, timeout=client.PATIENCE)
    assert done.returncode and b"Cipher is (NONE)" in done.stdout


@pytest.mark.core
def test_protocols_by_alpn(secure, pairs):
    for offered, chosen in ((["http/1.1"], "http/1.1"), (["spdy/1", "http/1.1"], "http/1.1"), ([], None)):  # h2: test_h2.py
        context = trusting(pairs["localhost"])
        if offered:
            context.set_alpn_protocols(offered)
        assert hello(secure, context).tls.selected_alpn_protocol() == chosen
    context = trusting(pairs["localhost"])
    context.set_alpn_protocols(["spdy/1"])
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        hello(secure, context)


@pytest.mark.core
# shows U14
def test_names_choose(start, standard, pairs):
    server = start(standard, "--tls", pairs["localhost"], "--tls", pairs["b"])
    for name, pair in (("localhost", "localhost"), ("b.example", "b"), ("x.b.example", "b"), ("X.B.Example", "b")):
        hello(server, trusting(pairs[pair]), name)
    other = anyone()
    assert hello(server, other, "unknown.example").tls.getpeercert(True) == hello(server, other).tls.getpeercert(True)
    with pytest.raises(ssl.SSLCertVerificationError):
        hello(server, trusting(pairs["b"]), "x.y.b.example")


def test_the_environment_has_pairs(start, standard, pairs):
    server = start(standard, env={"RUNG_TLS": ",".join(pairs.values())})
    hello(server, trusting(pairs["localhost"]))
    hello(server, trusting(pairs["b"]), "b.example")


@pytest.mark.core
# shows U14
def test_self_names_its_certificate(start, standard):
    server = start(standard, "--tls", "self")
    said = re.search(r"^rung: ((?:[0-9A-F]{2}:){31}[0-9A-F]{2})$", server.text(), re.M)[1]
    with wire(server, anyone()) as one:
        assert one.ask("/hello.txt").body == BODY
        cert = one.sock.tls.getpeercert(True)
    assert hashlib.sha256(cert).hexdigest().upper() == said.replace(":", "")
    trusts = ssl.create_default_context(cadata=ssl.DER_cert_to_PEM_cert(cert))
    hello(server, trusts)
    hello(server, trusts, "127.0.0.1")
    hello(server, trusts, socket.gethostname())
    with pytest.raises(ssl.SSLCertVerificationError):
        hello(server, trusts, "other.example")


def test_sessions_resume(secure, pairs):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = trusting(pairs["localhost"])
        context.minimum_version = context.maximum_version = version
        with wire(secure, context) as one:
            one.ask("/hello.txt")
            session = one.sock.tls.session
        with wire(secure, context, session=session) as one:
            assert one.ask("/hello.txt").status == 200
            assert one.sock.tls.session_reused


# --- Reloading ----------------------------------------------------------------------------------------------


def arrangements():
    yield pytest.param((), id="one worker")
    yield pytest.param(("--workers", "2", "--workers-as", "process"), id="processes", marks=pytest.mark.processes)


def certificate(server, name="localhost"):
    return hello(server, anyone(), name).tls.getpeercert(True)


@pytest.fixture
def own(tmp_path):
    return lambda: make(tmp_path, "own", "localhost")


@pytest.mark.core
@pytest.mark.parametrize("options", arrangements())
@pytest.mark.capacity(2)
def test_reload(start, standard, own, options):
    """New clients get the new certificate; a connection that was open goes on; a session resumes."""
    server = start(standard, "--tls", own(), *options)
    context = anyone()
    with wire(server, context) as old:
        old.ask("/hello.txt")
        before, session = old.sock.tls.getpeercert(True), old.sock.tls.session
        for _ in range(3):
            own()
            said = len(server.said)
            os.kill(server.pid, signal.SIGHUP)
            server.wait_said("certificates read again", said)
            assert old.ask("/hello.txt").status == 200
            now = certificate(server)
            assert now != before
            before = now
    with wire(server, context, session=session) as one:
        assert one.ask("/hello.txt").status == 200 and one.sock.tls.session_reused


def renew_over(folder):
    """Files that take the name of the old ones."""
    make(folder, "new", "localhost")
    for end in ("pem", "key"):
        os.replace(f"{folder}/new.{end}", f"{folder}/own.{end}")


def certbot(folder, number):
    """live/own/cert.pem is a link to ../../archive/own/cert1.pem."""
    for part in ("live", "archive"):
        os.makedirs(f"{folder}/{part}/own", exist_ok=True)
    make(f"{folder}/archive/own", f"cert{number}", "localhost")
    for end in ("pem", "key"):
        os.symlink(f"../../archive/own/cert{number}.{end}", f"{folder}/live/own/new.{end}")
        os.replace(f"{folder}/live/own/new.{end}", f"{folder}/live/own/cert.{end}")
    return f"{folder}/live/own/cert.pem,{folder}/live/own/cert.key"


def kubernetes(folder, number):
    """cert.pem is a link to ..data/cert.pem, and ..data to a folder that changes."""
    os.mkdir(f"{folder}/..{number}")
    make(f"{folder}/..{number}", "cert", "localhost")
    for name, target in (("..data", f"..{number}"), ("cert.pem", "..data/cert.pem"), ("cert.key", "..data/cert.key")):
        os.symlink(target, f"{folder}/new")
        os.replace(f"{folder}/new", f"{folder}/{name}")
    return f"{folder}/cert.pem,{folder}/cert.key"


@pytest.mark.core
@pytest.mark.parametrize("options", arrangements())
@pytest.mark.parametrize("layout", ["renamed", "certbot", "kubernetes"])
# shows U89
def test_renewals(start, standard, tmp_path, own, layout, options):
    """However a renewal replaces files, the server in its sandbox can read them."""
    renew = {"renamed": lambda _: renew_over(tmp_path) if os.path.exists(tmp_path / "own.pem") else own(),
             "certbot": lambda number: certbot(tmp_path, number), "kubernetes": lambda number: kubernetes(tmp_path, number)}[layout]
    server = start(standard, "--tls", renew(1) or own(), *options)
    before = certificate(server)
    for number in (2, 3):
        renew(number)
        said = len(server.said)
        os.kill(server.pid, signal.SIGHUP)
        server.wait_said("certificates read again", said)
        assert certificate(server) != before
        before = certificate(server)


@pytest.mark.parametrize("sandbox", [pytest.param("on", marks=pytest.mark.skipif(sanitized(), reason="it has no sandbox")), "off"])
def test_a_link_to_another_folder(start, standard, tmp_path, own, sandbox):
    """A folder that nothing led to at the start is out of reach of the sandbox; the certificate stays."""
    server = start(standard, "--tls", own(), "--sandbox", sandbox)
    before = certificate(server)
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    make(elsewhere, "own", "localhost")
    for end in ("pem", "key"):
        (tmp_path / f"new.{end}").symlink_to(elsewhere / f"own.{end}")
        os.replace(tmp_path / f"new.{end}", tmp_path / f"own.{end}")
    os.kill(server.pid, signal.SIGHUP)
    server.wait_said("certificates read (again|before stay in use)")
    assert (certificate(server) == before) == (sandbox == "on"), server.text()


@pytest.mark.parametrize("broken", ["missing", "no PEM", "encrypted", "another's"])
# shows U21
def test_a_reload_that_fails_changes_nothing(start, standard, own, pairs, broken):
    server = start(standard, "--tls", own())
    before = certificate(server)
    key = own().partition(",")[2]
    reason = "the key .* is encrypted" if broken == "encrypted" else "does not belong" if broken == "another's" else \
        "cannot use the key .*: (it does not exist|no PEM)"
    if broken == "encrypted":
        subprocess.run(["openssl", "pkey", "-in", key, "-out", f"{key}.new", "-aes256", "-passout", "pass:x"], check=True)
        os.rename(f"{key}.new", key)
    elif broken == "another's":
        shutil.copy(pairs["b"].partition(",")[2], key)
    elif broken == "no PEM":
        with open(key, "w", encoding="ascii") as file:
            file.write("nothing")
    else:
        os.unlink(key)
    os.kill(server.pid, signal.SIGHUP)
    server.wait_said("certificates read before stay in use")
    assert re.search(reason, server.text()), server.text()
    assert certificate(server) == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_a_key_that_only_root_may_read(start, standard, own):
    """The key is read before the rights are given up; afterwards it cannot be read, and the old one stays."""
    pair = own()
    os.chmod(pair.partition(",")[2], 0o600)
    server = start(standard, "--tls", pair, "--user", "nobody")
    before = certificate(server)
    own()
    os.kill(server.pid, signal.SIGHUP)
    server.wait_said("certificates read before stay in use")
    assert "permission denied" in server.text()
    assert certificate(server) == before


def test_self_stays_the_same(start, standard):
    server = start(standard, "--tls", "self")
    before = certificate(server)
    os.kill(server.pid, signal.SIGHUP)
    server.wait_said("certificates read again")
    assert certificate(server) == before


@pytest.mark.parametrize("text, reason", [
    ("/nowhere/c.pem,/nowhere/k.pem", "cannot use the certificate /nowhere/c.pem: it does not exist"),
    ("alone.pem", "name a certificate and its key"), (",", "name a certificate and its key"),
    ("/etc/hostname,/etc/hostname", "no PEM in it")])
def test_what_cannot_be_used_is_said(standard, text, reason):
    done = subprocess.run([BIN, "serve", standard, "--port", "0", "--tls", text], capture_output=True, text=True,
                          timeout=client.PATIENCE)
    assert done.returncode and reason in done.stderr


# --- How it ends --------------------------------------------------------------------------------------------


@pytest.mark.core
def test_the_last_answer_is_followed_by_close_notify(secure):
    for body in ("/hello.txt", "/big.bin", "/"):
        with wire(secure) as one:
            assert one.ask(body, fields="Connection: close").closes
            one.end()
            assert one.sock.ended


@pytest.mark.core
def test_half_close(secure):
    with wire(secure) as one:
        one.send(HELLO + HELLO)
        one.finish()
        assert [one.reply().status for _ in range(2)] == [200, 200]
        one.end()
        assert one.sock.ended


@pytest.mark.core
def test_truncation_is_no_end(secure):
    """Half a request and close_notify is half a request; without it anyone may have cut it off."""
    with wire(secure) as one:
        one.send(HELLO[:20])
        one.finish()
        assert one.reply().status == 400
        one.end()
        assert one.sock.ended
    with wire(secure) as one:
        one.send(HELLO[:20])
        one.sock.raw.shutdown(socket.SHUT_WR)
        assert one.sock.recv(100) == b"" and not one.sock.ended


def test_a_file_that_becomes_shorter(start, tree, pairs):
    with open(f"{tree}/file", "wb") as file:
        file.truncate(1 << 28)
    server = start(tree, "--tls", pairs["localhost"], "--cache", "0")
    with wire(server) as one:
        one.send(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n")
        one.head()
        os.truncate(f"{tree}/file", 1 << 20)
        with pytest.raises(ConnectionResetError):
            while one.sock.recv(1 << 16):
                pass
        assert not one.sock.ended
    wait_for(lambda: server.stats()["broken"] == 1, "it is counted as cut off")


def test_a_forged_record_is_answered_by_an_alert(secure):
    with wire(secure) as one:
        one.ask("/hello.txt")
        one.sock.tls.write(HELLO)
        record = bytearray(one.sock.outgoing.read())
        record[-1] ^= 1
        one.sock.raw.sendall(record)
        with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
            one.sock.recv(100)


# --- Plain requests -----------------------------------------------------------------------------------------


@pytest.mark.core
# shows U15
def test_plain_requests_are_redirected(secure):
    with client.Wire(secure.address, secured=False) as one:
        reply = one.ask("/a%20b?c", fields="Host: h.example:8443")
        assert reply.status == 308 and reply["location"] == "https://h.example:8443/a%20b?c" and reply.closes
        one.end()
    for request in (b"GET / HTTP/1.0\r\n\r\n", b"SSH-2.0-x\r\n\r\n", b"\0\0\0\r\n\r\n", b"\x80.\1\3\1" + bytes(50)):
        with client.Wire(secure.address, secured=False) as one:
            one.send(request)
            one.finish()
            assert one.reply().status == 400
    hello(secure, anyone())


# --- Deadlines and floods -----------------------------------------------------------------------------------


def first_flight():
    """A client's hello, as bytes."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = anyone().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def until_closed(sock, began):
    while True:
        try:
            if not sock.recv(1 << 16):
                return time.monotonic() - began
        except ConnectionResetError:
            return time.monotonic() - began


@pytest.mark.long
@pytest.mark.parametrize("stage", ["silent", "a byte", "half a hello", "no finished", "a dripped hello"])
def test_half_handshakes_have_a_deadline(start, standard, pairs, stage):
    server = start(standard, "--tls", pairs["localhost"], "--head-timeout", "1s", "--idle-timeout", "1h")
    flight = first_flight()
    began = time.monotonic()
    with connect(server) as sock:
        if stage == "a dripped hello":
            sock.settimeout(0.1)
            for at in range(len(flight) - 1):
                sock.sendall(flight[at:at + 1])
                try:
                    if not sock.recv(100):
                        break
                except ConnectionResetError:
                    break
                except TimeoutError:
                    continue
        else:
            sock.sendall(flight[:{"silent": 0, "a byte": 1, "half a hello": 100, "no finished": len(flight)}[stage]])
            until_closed(sock, began)
        assert time.monotonic() - began > 0.9
    wait_for(lambda: server.stats()["expired"] == 1, "its time is up")


@pytest.mark.long
def test_an_idle_one_is_closed_and_a_busy_one_is_not(start, standard, pairs):
    """Requests come at random moments, each within the time, and answers are read slowly."""
    server = start(standard, "--tls", pairs["localhost"], "--idle-timeout", "2s", "--head-timeout", "2s")
    with wire(server) as busy:
        for round in range(8):
            busy.send(HELLO)
            time.sleep(0.8)  # the answer waits for its reader
            assert busy.reply().status == 200
            time.sleep(0.2)
    began = time.monotonic()
    with wire(server) as idle:
        idle.ask("/hello.txt")
        assert until_closed(idle.sock.raw, began) > 1.9


@pytest.mark.capacity(20)
@pytest.mark.long
def test_a_flood_of_half_handshakes(start, standard, pairs):
    """The half handshakes take the slots, and give them up: another client is served."""
    server = start(standard, "--tls", pairs["localhost"], "--max-connections", "16")
    flight, crowd = first_flight(), []
    try:
        for number in range(60):
            crowd.append(connect(server))
            crowd[-1].sendall(flight[:1 + number % len(flight)])
        hello(server, anyone())
    finally:
        for one in crowd:
            one.close()


@pytest.mark.capacity(8)
def test_one_that_fails_harms_no_other(secure):
    """The library keeps errors for each thread: one connection's must not become another's."""
    flight = first_flight()
    with wire(secure) as good:
        for at in range(5, 60):
            assert good.ask("/hello.txt").status == 200
            with connect(secure) as bad:
                bad.sendall(flight[:at] + bytes(len(flight) - at))
                bad.shutdown(socket.SHUT_WR)
                until_closed(bad, 0)


def test_cut_anywhere(secure):
    """A request's record in two pieces, at each byte."""
    with wire(secure) as one:
        one.ask("/hello.txt")
        for at in range(1, 5 + len(HELLO) + 17):
            one.sock.tls.write(HELLO)
            record = one.sock.outgoing.read()
            one.sock.raw.sendall(record[:at])
            time.sleep(0.0005)
            one.sock.raw.sendall(record[at:])
            assert one.reply().body == BODY
