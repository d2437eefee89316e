# SPDX-License-Identifier: MIT
"""Certificates of clients (--tls-client-ca): which clients complete a handshake, which alerts the others get, tickets and
reloading.

The clients are Python's, `openssl s_client` and curl.
"""
import datetime
import os
import re
import shutil
import signal
import ssl
import subprocess
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from lib import client
from lib.client import PATIENCE, Wire
from lib.secured import EVERYWHERE, Secured, anyone
from lib.server import BIN, wait_for

from cli import EXIT_USAGE, run
from test_ocsp import DAY, Signed, now
from test_tls import BODY, HELLO, arrangements, hello, pairs, wire  # noqa: F401 (a fixture among them)

pytestmark = [pytest.mark.userspace("TLS"), pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls")]
any_engine = pytest.mark.any_engine("the library judges certificates, and no engine knows of TLS")
VERSIONS = [pytest.param(ssl.TLSVersion.TLSv1_2, id="1.2"), pytest.param(ssl.TLSVersion.TLSv1_3, id="1.3")]


class Client(Signed):
    """A client's certificate, signed by another or by itself, with the times and uses that a test wants."""

    def __init__(self, name, by=None, since=-DAY, until=30 * DAY, usage=x509.ExtendedKeyUsageOID.CLIENT_AUTH, authority=False):
        super().__init__("client.example", by)
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        builder = x509.CertificateBuilder(by.name if by else self.name, self.name, self.key.public_key(), x509.random_serial_number(),
                                          now() + since, now() + until)
        builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), True)
        if not authority:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), False)
        self.cert = builder.sign(by.key if by else self.key, hashes.SHA256())


SECOND = datetime.timedelta(seconds=1)
ROOT, OTHER_ROOT = Client("root", authority=True), Client("other root", authority=True)
BELOW = Client("below", ROOT, authority=True)
ANN, BOB, LEAF = Client("ann", ROOT), Client("bob", OTHER_ROOT), Client("leaf", BELOW)


@pytest.fixture
def ca(tmp_path):
    """ca(certificates...) -> the file of --tls-client-ca, replaced as a whole."""
    def write(*certificates):
        (tmp_path / "new.pem").write_bytes(b"".join(one.pem() for one in certificates))
        os.replace(tmp_path / "new.pem", tmp_path / "ca.pem")
        return f"{tmp_path}/ca.pem"
    return write


@pytest.fixture
def saved(tmp_path):
    """saved(certificate, chain) -> its file and that of its key."""
    def save(one, chain=()):
        return one.save(tmp_path, f"client-{one.cert.serial_number:x}", chain).split(",")
    return save


@pytest.fixture
def context(saved):
    """context(certificate, chain, version) -> a client's, which shows that certificate, or none."""
    def make(one=None, chain=(), version=None):
        made = anyone()
        if version:
            made.minimum_version = made.maximum_version = version
        if one:
            made.load_cert_chain(*saved(one, chain))
        return made
    return make


@pytest.fixture
def secure(start, standard, pairs, ca):  # noqa: F811
    def begin(*certificates, args=()):
        return start(standard, "--tls", pairs["localhost"], "--tls", pairs["b"], "--tls-client-ca", ca(*certificates or (ROOT,)), *args)
    return begin


def refused(server, made, alert):
    """The client gets an alert with the reason, and no answer."""
    with wire(server, made) as one, pytest.raises(ssl.SSLError, match=alert):
        one.send(HELLO)
        while one.sock.recv(1000):
            pass
    assert server.stats()["answers"] == server.stats()["complete"]


# --- Who is served ------------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize("version", VERSIONS)
# shows U64
def test_with_a_certificate_and_without(secure, context, version):
    """With several certificates of the server, whichever the client's name chooses."""
    server = secure()
    for name in ("localhost", "b.example", "unknown.example"):
        hello(server, context(ANN, version=version), name)
    answers = server.stats()["answers"]
    for name in ("localhost", "b.example"):
        with wire(server, context(version=version), name) as one, pytest.raises(ssl.SSLError, match="(?i)certificate_required|handshake_failure"):
            one.send(HELLO)
            one.sock.recv(1000)
    refused(server, context(version=version), "CERTIFICATE_REQUIRED" if version == ssl.TLSVersion.TLSv1_3 else "HANDSHAKE_FAILURE")
    assert server.stats()["answers"] == answers == 3
    hello(server, context(ANN, version=version))


def s_client(server, *args, version="-tls1_3"):
    """What openssl's client says: its output and its errors."""
    host, port = server.address
    command = ["openssl", "s_client", "-connect", f"{host}:{port}", "-servername", "localhost", version, "-ign_eof", *args]
    done = subprocess.run(command, input=HELLO.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), capture_output=True, timeout=PATIENCE, check=False)
    return done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


# certificate, what the client sends after it, number of the alert in TLS 1.2 and 1.3 (RFC 8446 6), what the server says
REFUSED = {
    "none": (None, (), 40, 116, "no certificate"),
    "another authority": (BOB, (), 48, 48, "unable to get local issuer certificate (CN=bob)"),
    "itself": (Client("self"), (), 48, 48, "self-signed certificate (CN=self)"),
    "expired": (Client("late", ROOT, until=-SECOND), (), 45, 45, "certificate has expired (CN=late)"),
    "not valid yet": (Client("early", ROOT, since=DAY), (), 42, 42, "certificate is not yet valid (CN=early)"),
    "a server's": (Client("server", ROOT, usage=x509.ExtendedKeyUsageOID.SERVER_AUTH), (), 43, 43, "unsuitable certificate purpose (CN=server)"),
    "a gap in its chain": (LEAF, (), 48, 48, "unable to get local issuer certificate (CN=leaf)"),
    "signed by one that is no authority": (Client("by ann", ANN), (ANN,), 48, 48, "invalid CA certificate (CN=by ann)"),
}
SERVED = {"a root's": (ANN, (), [ROOT]), "through an authority below": (LEAF, (BELOW,), [ROOT]), "of an authority below": (LEAF, (), [BELOW]),
          "the second authority's": (BOB, (), [ROOT, OTHER_ROOT]), "just valid": (Client("new", ROOT, since=-SECOND), (), [ROOT]),
          "itself in the file": (BOB, (), [ROOT, BOB])}


@pytest.mark.core
@pytest.mark.parametrize("kind", REFUSED)
def test_refused(secure, saved, kind):
    one, chain, old, new, why = REFUSED[kind]
    server = secure()
    shown = []
    if one:
        cert, key = saved(one, chain)
        shown = ["-cert", cert, "-key", key, *(["-cert_chain", cert] if chain else [])]
    for version, number in (("-tls1_2", old), ("-tls1_3", new)):
        said = len(server.said)
        out, err = s_client(server, *shown, version=version)
        assert f"SSL alert number {number}\n" in err and "Hello, world" not in out, err
        assert server.wait_said("was refused", said) == f"rung: client 127.0.0.1 was refused: {why}"
        wait_a_line()
    assert server.stats()["answers"] == 0


def wait_a_line():
    """Until the next client that is refused has a line of its own."""
    time.sleep(1.05)


@any_engine
@pytest.mark.parametrize("name, shown", [('x")\nrung: "stopping', r'CN=x\x5c\x22)\x5c0Arung: \x5c\x22stopping'), ("\x1b[2J\u2028", r"CN=\x5c1B[2J\x5cE2\x5c80\x5cA8"),
                                         ("%s%n" * 16, "CN=" + "%s%n" * 16)])
def test_a_hostile_name(secure, context, name, shown):
    """The text of a certificate is the client's: it makes no lines, and drives no terminal."""
    server = secure()
    with wire(server, context(Client(name, OTHER_ROOT))) as one, pytest.raises(ssl.SSLError, match="(?i)unknown_ca"):
        one.send(HELLO)
        one.sock.recv(1000)
    assert server.wait_said("was refused") == f"rung: client 127.0.0.1 was refused: unable to get local issuer certificate ({shown})"


@any_engine
def test_a_long_name(secure, context):
    """A long name is cut, and the cut shows."""
    long = Client("x", OTHER_ROOT)
    long.name = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATIONAL_UNIT_NAME, "y" * 64)] * 40)
    builder = x509.CertificateBuilder(OTHER_ROOT.name, long.name, long.key.public_key(), x509.random_serial_number(), now() - DAY, now() + DAY)
    long.cert = builder.sign(OTHER_ROOT.key, hashes.SHA256())
    server = secure()
    with wire(server, context(long)) as one, pytest.raises(ssl.SSLError, match="(?i)unknown_ca"):
        one.send(HELLO)
        one.sock.recv(1000)
    said = server.wait_said("was refused")
    assert said.endswith("yyy...)") and 200 < len(said) < 400


REFUSED_LINE = re.compile(r"rung: client 127\.0\.0\.1 was refused(?:, and (\d+) more since the last such line)?: no certificate")


@pytest.mark.core
@pytest.mark.parametrize("options", arrangements())
@pytest.mark.capacity(2)
def test_lines_are_few(secure, context, options):
    """Clients cannot fill the log: a line in a second at most, of all workers together, and it counts those that have none."""
    server = secure(args=options)
    made = context()
    begun = time.monotonic()
    for _ in range(30):
        refused(server, made, "CERTIFICATE_REQUIRED")
    wait_a_line()
    took = time.monotonic() - begun
    said = len(server.said)
    refused(server, made, "CERTIFICATE_REQUIRED")
    server.wait_said("was refused", said)
    lines = [REFUSED_LINE.fullmatch(line) for line in server.said if "was refused" in line]
    assert all(lines) and len(lines) + sum(int(line[1] or 0) for line in lines) == 31
    assert len(lines) <= took + 2


@any_engine
def test_other_failures_say_nothing(secure, context, start, standard, pairs):  # noqa: F811
    """A handshake that breaks for another reason is not the certificate's fault."""
    for server in (secure(), start(standard, "--tls", pairs["localhost"])):
        made = context(ANN)
        made.set_alpn_protocols(["spdy/1"])
        with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
            hello(server, made)
        with Wire(server.address, secured=False) as one:
            one.send(b"\x16\x03\x01\x00\x05hello")
            while one.sock.recv(1000):
                pass
        assert "was refused" not in server.text()


@pytest.mark.core
@pytest.mark.parametrize("kind", SERVED)
def test_served(secure, saved, kind):
    one, chain, authorities = SERVED[kind]
    server = secure(*authorities)
    cert, key = saved(one, chain)
    for version in ("-tls1_2", "-tls1_3"):
        out, err = s_client(server, "-cert", cert, "-key", key, *(["-cert_chain", cert] if chain else []), version=version)
        assert "Hello, world" in out, err
        names = re.search(r"Acceptable client certificate CA names\n((?:.* ?= ?.*\n)+)", out)[1].splitlines()
        assert [name.replace(" ", "") for name in names] == ["CN=" + authority.cert.subject.rfc4514_string()[3:].replace(" ", "") for authority in authorities]


@pytest.mark.core
@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
@pytest.mark.parametrize("http", ["--http1.1", "--http2"])
def test_curl(secure, saved, http):
    server = secure()
    host, port = server.address
    command = ["curl", "-sS", "-k", http, f"https://{host}:{port}/hello.txt"]
    cert, key = saved(ANN)
    done = subprocess.run([*command, "--cert", cert, "--key", key], capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0 and done.stdout == BODY, done.stderr
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode and not done.stdout and b"certificate required" in done.stderr, done.stderr


@any_engine
def test_a_long_chain(secure, context):
    """Up to 64 KiB of a handshake, as without certificates of clients."""
    server = secure()
    one = len(ssl.PEM_cert_to_DER_cert(ROOT.pem().decode()))
    hello(server, context(ANN, [ROOT] * (60_000 // one)))
    with wire(server, context(ANN, [ROOT] * (70_000 // one))) as wire_of, pytest.raises((ssl.SSLError, OSError, client.Sloppy)):
        wire_of.ask("/hello.txt")
    hello(server, context(ANN))


NAMES_BYTES_MAX = 32768  # of server/tls_verify.c


def named(size):
    """An authority whose name has that many bytes (DER)."""
    one = Client("x" * (size - 13), authority=True)
    assert len(one.name.public_bytes()) == size
    return one


@any_engine
def test_the_most_authorities(secure, saved, context, ca, standard, pairs, tmp_path):  # noqa: F811
    """The authorities' names are a part of each handshake, and of limited size (RFC 8446 4.2.4)."""
    each = named(77)
    many = [each] * ((NAMES_BYTES_MAX - 100) // 79)
    last = NAMES_BYTES_MAX - 19 - 79 * len(many) - 2 - 2  # each has two bytes for its length
    server = secure(ROOT, *many, named(last // 2), named(last - last // 2))
    hello(server, context(ANN))
    ca(ROOT, *many, named(last // 2), named(last - last // 2 + 1))
    os.kill(server.pid, signal.SIGHUP)
    server.wait_said("certificates read before stay in use")
    why = f"--tls-client-ca: cannot use {tmp_path}/ca.pem: the names of its authorities have more than {NAMES_BYTES_MAX} bytes"
    assert why in server.text()
    hello(server, context(ANN))
    done = run("serve", standard, "--port", "0", "--tls", pairs["b"], "--tls-client-ca", f"{tmp_path}/ca.pem")
    assert done.returncode == 1 and why in done.stderr


@any_engine
def test_the_servers_chain_is_its_own(start, standard, tmp_path, ca, context):
    """The authority of clients has signed the server's certificate, too; it is not sent with that."""
    pair = Signed("localhost", ROOT).save(tmp_path, "server")
    server = start(standard, "--tls", pair, "--tls-client-ca", ca(ROOT))
    out, _ = s_client(server, "-showcerts")
    assert re.findall(r"^ *(\d+) s:(.*)$", out, re.M) == [("0", "CN = localhost")], out
    hello(server, context(ANN))


@any_engine
def test_plain_requests_and_self(start, standard, ca, context):
    server = start(standard, "--tls", "self", "--tls-client-ca", ca(ROOT))
    with Wire(server.address, secured=False) as one:
        assert one.ask("/hello.txt", fields="Host: h.example:8443").status == 308
    hello(server, context(ANN))
    refused(server, context(), "CERTIFICATE_REQUIRED")


# --- Tickets ------------------------------------------------------------------------------------------------


def session_of(server, made):
    with wire(server, made) as one:
        assert one.ask("/hello.txt").status == 200
        return one.sock.tls.session


def resumes(server, made, session):
    with wire(server, made, session=session) as one:
        assert one.ask("/hello.txt").body == BODY
        return one.sock.tls.session_reused


@pytest.mark.core
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("options", arrangements())
@pytest.mark.capacity(2)
def test_a_session_keeps_its_client(secure, context, version, options):
    """The client is not asked again, on whichever worker, not even after a reload that changes nothing."""
    server = secure(args=options)
    made = context(ANN, version=version)
    session = session_of(server, made)
    assert all(resumes(server, made, session) for _ in range(4))
    reload(server)
    assert all(resumes(server, made, session) for _ in range(4))


def chain_until(end, which):
    """A client's certificate and the authorities above it, of which one ends then."""
    until = {name: 30 * DAY for name in ("root", "below", "client")}
    until[which] = end - now()
    root = Client("root", until=until["root"], authority=True)
    below = Client("below", root, until=until["below"], authority=True)
    return Client("client", below, until=until["client"]), below, root


@pytest.mark.long
@pytest.mark.capacity(2)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("which", ["client", "below", "root"])
def test_a_session_ends_with_its_certificates(secure, context, version, which):
    """A session is resumed, with a new ticket each time, until a certificate of the chain has expired."""
    end = now() + 5 * SECOND
    one_of, below, root = chain_until(end, which)
    server = secure(root)
    made = context(one_of, [below], version=version)
    session = session_of(server, made)
    while now() < end - 2 * SECOND:
        with wire(server, made, session=session) as one:
            assert one.ask("/hello.txt").status == 200 and one.sock.tls.session_reused
            session = one.sock.tls.session
        time.sleep(0.3)
    wait_for(lambda: now() > end, "it has expired")
    with wire(server, made, session=session) as one, pytest.raises(ssl.SSLError, match="(?i)certificate.expired"):
        one.send(HELLO)
        one.sock.recv(1000)


# --- Reloading ----------------------------------------------------------------------------------------------


def reload(server):
    said = len(server.said)
    os.kill(server.pid, signal.SIGHUP)
    server.wait_said("certificates read again", said)


@pytest.mark.core
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("options", arrangements())
@pytest.mark.capacity(2)
# shows U64
def test_reload(secure, context, ca, version, options):
    """Other authorities count for all new connections, and for those that would resume; a connection that was open goes on."""
    server = secure(args=options)
    ann, bob = context(ANN, version=version), context(BOB, version=version)
    of_ann = session_of(server, ann)
    with wire(server, ann) as old:
        old.ask("/hello.txt")
        ca(ROOT, OTHER_ROOT)
        reload(server)
        assert old.ask("/hello.txt").body == BODY
    assert not resumes(server, ann, of_ann)  # it shows its certificate again
    of_ann, of_bob = session_of(server, ann), session_of(server, bob)
    assert resumes(server, ann, of_ann) and resumes(server, bob, of_bob)
    ca(OTHER_ROOT)
    reload(server)
    for _ in range(4):  # each worker
        with wire(server, ann, session=of_ann) as one, pytest.raises(ssl.SSLError, match="(?i)unknown_ca"):
            one.send(HELLO)
            one.sock.recv(1000)
        hello(server, bob)


BROKEN = {"missing": (lambda path: os.unlink(path), "it does not exist"), "empty": (lambda path: open(path, "wb").close(), "no PEM in it"),
          "a key": (lambda path: shutil.copy(path.replace("ca.pem", "key"), path), "no PEM in it"),
          "cut": (lambda path: os.truncate(path, 2 * len(ROOT.pem()) - 100), "certificate 2 in it cannot be read"),
          "garbage": (lambda path: spoil(path), "certificate 1 in it cannot be read")}


def spoil(path):
    with open(path, "wb") as file:
        file.write(ROOT.pem().replace(b"-----\nMI", b"-----\n!!"))


@any_engine
@pytest.mark.parametrize("kind", BROKEN)
def test_a_reload_that_fails_changes_nothing(secure, context, ca, tmp_path, pairs, kind):  # noqa: F811
    """A file that cannot be used is refused at the start, too."""
    spoil_it, why = BROKEN[kind]
    shutil.copy(pairs["b"].split(",")[1], tmp_path / "key")
    server = secure(ROOT, ROOT)
    spoil_it(f"{tmp_path}/ca.pem")
    os.kill(server.pid, signal.SIGHUP)
    server.wait_said("certificates read before stay in use")
    assert f"--tls-client-ca: cannot use {tmp_path}/ca.pem: {why}" in server.text()
    hello(server, context(ANN))
    refused(server, context(), "CERTIFICATE_REQUIRED")
    done = run("serve", tmp_path, "--port", "0", "--tls", pairs["b"], "--tls-client-ca", f"{tmp_path}/ca.pem")
    assert done.returncode == 1 and why in done.stderr


@any_engine
@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_a_file_that_only_root_may_read(start, standard, pairs, ca, context):  # noqa: F811
    path = ca(ROOT)
    os.chmod(path, 0o600)
    server = start(standard, "--tls", pairs["localhost"], "--tls-client-ca", path, "--user", "nobody")
    hello(server, context(ANN))
    os.kill(server.pid, signal.SIGHUP)
    server.wait_said("certificates read before stay in use")
    hello(server, context(ANN))


# --- Hosts --------------------------------------------------------------------------------------------------


@any_engine
def test_hosts_share_the_authorities(start, standard, pairs, ca, context, tmp_path):  # noqa: F811
    path = tmp_path / "rung.toml"
    host = '[[host]]\nname = ["{}"]\nroot = "{}"\ntls = ["{}"]\n'
    path.write_text(f'tls-client-ca = "{ca(ROOT)}"\n' + host.format("localhost", standard, pairs["localhost"]) + host.format("b.example", standard, pairs["b"]))
    server = start(f"--config={path}")
    for name in ("localhost", "b.example", "x.b.example"):
        with wire(server, context(ANN), name) as one:
            assert one.ask("/hello.txt", fields=f"Host: {name}").status == 200
        refused(server, context(), "CERTIFICATE_REQUIRED")


@any_engine
def test_mistakes(standard, pairs, ca, tmp_path):  # noqa: F811
    done = run("serve", standard, "--port", "0", "--tls-client-ca", ca(ROOT))
    assert done.returncode == EXIT_USAGE and "--tls-client-ca: without TLS no client shows a certificate; add --tls" in done.stderr
    path = tmp_path / "rung.toml"
    path.write_text(f'[[host]]\nname = ["a.example"]\nroot = "{standard}"\ntls-client-ca = "{ca(ROOT)}"\n')
    done = run("serve", "--config", path)
    assert done.returncode == EXIT_USAGE and ":4: tls-client-ca: it is for the whole server" in done.stderr
    done = run("echo", "--tls-client-ca", ca(ROOT))
    assert done.returncode == EXIT_USAGE and "--tls-client-ca" in done.stderr
