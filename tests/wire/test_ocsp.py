# SPDX-License-Identifier: MIT
"""OCSP stapling: the response in CERT.ocsp is sent with the handshake, if a client would accept it.

One response is made by openssl's responder.  The others are made here, because they need times and signatures that a
responder does not give.  `openssl s_client -status` is the client.
"""
import datetime
import os
import re
import signal
import subprocess
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import ocsp
from lib.client import PATIENCE
from lib.crowd import sanitized
from lib.secured import EVERYWHERE
from lib.server import wait_for

pytestmark = [pytest.mark.userspace("TLS"), pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls"),
              pytest.mark.any_engine("no engine knows of TLS")]
DAY = datetime.timedelta(days=1)
GOOD, REVOKED, UNKNOWN = ocsp.OCSPCertStatus.GOOD, ocsp.OCSPCertStatus.REVOKED, ocsp.OCSPCertStatus.UNKNOWN
PEM = serialization.Encoding.PEM


def now():
    return datetime.datetime.utcnow().replace(microsecond=0)


class Signed:
    """A key, and a certificate signed by another such pair or by itself."""

    def __init__(self, name, by=None, responds=False):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        builder = x509.CertificateBuilder(self.name if not by else by.name, self.name, self.key.public_key(), x509.random_serial_number(),
                                          now() - DAY, now() + 30 * DAY)
        builder = builder.add_extension(x509.BasicConstraints(ca=not by, path_length=None), True)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), False)
        if responds:
            builder = builder.add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.OCSP_SIGNING]), False)
        self.cert = builder.sign(by.key if by else self.key, hashes.SHA256())

    def pem(self):
        return self.cert.public_bytes(PEM)

    def save(self, folder, name, chain=()):
        """What --tls takes."""
        (folder / f"{name}.pem").write_bytes(self.pem() + b"".join(one.pem() for one in chain))
        (folder / f"{name}.key").write_bytes(self.key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return f"{folder}/{name}.pem,{folder}/{name}.key"


AUTHORITY = Signed("authority.example")
LEAF, OTHER = Signed("localhost", AUTHORITY), Signed("b.example", AUTHORITY)


def response(cert=LEAF, by=AUTHORITY, status=GOOD, since=-DAY, until=DAY, certificates=(), digest=None):
    gone = {"revocation_time": now() - DAY, "revocation_reason": None} if status == REVOKED else {"revocation_time": None, "revocation_reason": None}
    builder = ocsp.OCSPResponseBuilder().add_response(
        cert=cert.cert, issuer=AUTHORITY.cert, algorithm=digest or hashes.SHA1(), cert_status=status, this_update=now() + since,
        next_update=until and now() + until, **gone).responder_id(ocsp.OCSPResponderEncoding.HASH, by.cert)
    if certificates:
        builder = builder.certificates([one.cert for one in certificates])
    return builder.sign(by.key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@pytest.fixture
def pair(tmp_path):
    return LEAF.save(tmp_path, "leaf", [AUTHORITY])


def stapled(server, name="localhost", *more):
    """The client's report about the response that it got; None: it got none."""
    host, port = server.address
    done = subprocess.run(["openssl", "s_client", "-connect", f"{host}:{port}", "-servername", name, "-status", *more], input=b"",
                          capture_output=True, timeout=PATIENCE, check=False)
    text = done.stdout.decode()
    assert "BEGIN CERTIFICATE" in text, done.stderr.decode()
    if "OCSP response: no response sent" in text:
        return None
    assert "OCSP Response Status: successful (0x0)" in text, text
    return text


@pytest.mark.core
@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_made_by_a_responder(start, standard, tmp_path, pair, version):
    """The steps of docs/tls.md, and a client that checks the response."""
    AUTHORITY.save(tmp_path, "authority")
    serial = f"{LEAF.cert.serial_number:X}"
    (tmp_path / "index").write_text(f"V\t{(now() + DAY).strftime('%y%m%d%H%M%SZ')}\t\t{serial.zfill(len(serial) + len(serial) % 2)}\tunknown\t/CN=localhost\n")
    subprocess.run(["openssl", "ocsp", "-index", "index", "-CA", "authority.pem", "-rsigner", "authority.pem", "-rkey", "authority.key",
                    "-issuer", "authority.pem", "-cert", "leaf.pem", "-ndays", "3", "-respout", "leaf.pem.ocsp", "-noverify"],
                   cwd=tmp_path, capture_output=True, check=True)
    server = start(standard, "--tls", pair)
    text = stapled(server, "localhost", version, "-CAfile", f"{tmp_path}/authority.pem")
    assert "Cert Status: good" in text and "Verify return code: 0 (ok)" in text
    assert "is not sent" not in server.text()


@pytest.mark.core
def test_without_one(start, standard, pair):
    server = start(standard, "--tls", pair)
    assert stapled(server) is None and "ocsp" not in server.text()


DELEGATE = Signed("responder.example", AUTHORITY, responds=True)
ACCEPTED = {"sha256": lambda: response(digest=hashes.SHA256()), "delegated": lambda: response(by=DELEGATE, certificates=[DELEGATE]),
            "just valid": lambda: response(since=datetime.timedelta(0), until=datetime.timedelta(minutes=10))}


@pytest.mark.parametrize("kind", ACCEPTED)
def test_accepted(start, standard, tmp_path, pair, kind):
    (tmp_path / "leaf.pem.ocsp").write_bytes(ACCEPTED[kind]())
    assert "Cert Status: good" in stapled(start(standard, "--tls", pair))


STRANGER = Signed("stranger.example")
REFUSED = {
    "garbage": (lambda: b"nonsense", "no OCSP response"), "empty": (lambda: b"", "no OCSP response"),
    "cut": (lambda: response()[:-20], "no OCSP response"), "pem": (LEAF.pem, "no OCSP response"),
    "error": (lambda: ocsp.OCSPResponseBuilder.build_unsuccessful(ocsp.OCSPResponseStatus.TRY_LATER).public_bytes(serialization.Encoding.DER),
              "answered with an error"),
    "another certificate": (lambda: response(OTHER), "about another certificate"), "another signer": (lambda: response(by=STRANGER), "has not signed"),
    "a signer of its own": (lambda: response(by=STRANGER, certificates=[STRANGER]), "has not signed"),
    "a certificate's signer": (lambda: response(by=OTHER, certificates=[OTHER]), "has not signed"),
    "changed": (lambda: flipped(response()), "has not signed"),
    "revoked": (lambda: response(status=REVOKED), "not say that the certificate is good"),
    "unknown": (lambda: response(status=UNKNOWN), "not say that the certificate is good"),
    "stale": (lambda: response(since=-3 * DAY, until=-DAY), "stale"), "just stale": (lambda: response(until=datetime.timedelta(seconds=-1)), "stale"),
    "too early": (lambda: response(since=DAY, until=2 * DAY), "not valid yet"), "no end": (lambda: response(until=None), "how long it holds")}


def flipped(data):
    """With another last bit of its signature."""
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.core
@pytest.mark.parametrize("kind", REFUSED)
def test_refused(start, standard, tmp_path, pair, kind):
    """A client would not accept it, so it is not sent; a message says why, and the server serves."""
    make, why = REFUSED[kind]
    (tmp_path / "leaf.pem.ocsp").write_bytes(make())
    server = start(standard, "--tls", pair)
    assert stapled(server) is None
    line = server.wait_said(r"leaf\.pem\.ocsp is not sent")
    assert why in line, line


def test_without_the_issuer(start, standard, tmp_path):
    alone = LEAF.save(tmp_path, "alone")
    (tmp_path / "alone.pem.ocsp").write_bytes(response())
    server = start(standard, "--tls", alone)
    assert stapled(server) is None and "lacks the certificate of its issuer" in server.text()


def test_a_folder_in_its_place(start, standard, tmp_path, pair):
    (tmp_path / "leaf.pem.ocsp").mkdir()
    server = start(standard, "--tls", pair)
    assert stapled(server) is None and "is not sent" in server.text()


def test_each_certificate_has_its_own(start, standard, tmp_path, pair):
    other = OTHER.save(tmp_path, "other", [AUTHORITY])
    (tmp_path / "leaf.pem.ocsp").write_bytes(response())
    (tmp_path / "other.pem.ocsp").write_bytes(response(OTHER))
    server = start(standard, "--tls", pair, "--tls", other)
    for name, one in (("localhost", LEAF), ("b.example", OTHER)):
        assert re.search(r"Serial Number: 0*([0-9A-F]+)", stapled(server, name))[1] == f"{one.cert.serial_number:X}"
    os.unlink(tmp_path / "other.pem.ocsp")
    server = start(standard, "--tls", pair, "--tls", other)
    assert stapled(server) and stapled(server, "b.example") is None


@pytest.mark.core
@pytest.mark.parametrize("options", [[], ["--sandbox", "strict"], pytest.param(["--workers", 2, "--workers-as", "process"], marks=pytest.mark.processes)])
def test_read_again(start, standard, tmp_path, pair, options):
    """SIGHUP reads it with the certificate: one that is new, one that is worse, none."""
    if "strict" in options and sanitized():
        pytest.skip("a sanitizer's build has no sandbox")
    file = tmp_path / "leaf.pem.ocsp"
    server = start(standard, "--tls", pair, *options)

    def reload():
        before = server.text().count("certificates read again")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: server.text().count("certificates read again") > before, "read again")
    assert stapled(server) is None
    file.write_bytes(response())
    reload()
    wait_for(lambda: all(stapled(server) for _ in range(4)), "sent by all")
    file.write_bytes(response(OTHER))
    reload()
    wait_for(lambda: not any(stapled(server) for _ in range(4)), "not sent any more")
    assert "about another certificate" in server.text()
    os.unlink(file)
    reload()
    assert stapled(server) is None


@pytest.mark.long
def test_it_becomes_stale(start, standard, tmp_path, pair):
    """From that second on it is not sent, which is said once."""
    until = datetime.timedelta(seconds=6)
    (tmp_path / "leaf.pem.ocsp").write_bytes(response(until=until))
    end = time.time() + until.total_seconds()
    server = start(standard, "--tls", pair)
    first = stapled(server)
    assert first or time.time() > end - 1
    wait_for(lambda: stapled(server) is None, "not sent any more")
    assert time.time() >= end - 1
    assert stapled(server) is None and stapled(server) is None
    assert server.text().count("has become stale") == 1
