# SPDX-License-Identifier: MIT
"""https and HTTP/2, with the programs that people use for them: openssl, curl, nghttp, h2load, a browser."""
import os
import re
import shutil
import signal
import subprocess

import pytest
from conftest import BIN, PATIENCE, TEXT, browser, code, curl, free_port, head, needs, run, shown, wait_for

pytestmark = needs("curl", "openssl")


def s_client(server, *args, status=0):
    return run("openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", *args, given="", status=status)


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_versions(serve, pairs, version):
    server = serve("--tls", pairs("localhost"))
    cert = pairs("localhost").split(",", 1)[0]
    said = s_client(server, f"-tls{version.replace('.', '_')}", "-CAfile", cert, "-verify_hostname", "localhost", "-verify_return_error")
    assert "Verify return code: 0 (ok)" in said and f"New, TLSv{version}" in said
    assert curl("--cacert", cert, "--tls-max", version, f"--tlsv{version}", f"https://localhost:{server.port}/hello.txt") == TEXT
    for old in ("-tls1", "-tls1_1"):
        assert "Cipher is (NONE)" in s_client(server, old, "-cipher", "ALL:@SECLEVEL=0", status=1)


def test_names(serve, pairs):
    server = serve("--tls", pairs("a.test"), "--tls", pairs("b.test"))
    for asked, got in (("a.test", "a.test"), ("b.test", "b.test"), ("c.test", "a.test")):
        assert f"subject=CN = {got}" in s_client(server, "-servername", asked)
        wanted = ["--cacert", pairs(got).split(",", 1)[0], "--resolve", f"{asked}:{server.port}:127.0.0.1", f"https://{asked}:{server.port}/hello.txt"]
        assert curl(*wanted) == TEXT if asked == got else "certificate" in curl(*wanted, status=60)


def test_self(serve, tmp_path):
    """The fingerprint that rung prints is the one that openssl calculates; with that certificate curl is content."""
    server = serve("--tls", "self")
    made = re.search(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", s_client(server), re.S)[0]
    (tmp_path / "cert.pem").write_text(made)
    said = run("openssl", "x509", "-in", tmp_path / "cert.pem", "-noout", "-fingerprint", "-sha256")
    assert said.strip().rpartition("=")[2] in server.text()
    assert curl("--cacert", tmp_path / "cert.pem", f"{server.url}/hello.txt") == TEXT
    curl(f"{server.url}/hello.txt", status=60)


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_sessions_resume(serve, tmp_path, version):
    server = serve("--tls", "self", "--workers", "2", "--workers-as", "process")
    with subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", version, "-ign_eof", "-sess_out", tmp_path / "session"],
                          stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
        client.stdin.write(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        client.stdin.close()
        assert client.wait(PATIENCE) == 0
    for _ in range(4):
        assert "Reused, " in s_client(server, version, "-sess_in", tmp_path / "session")


def test_reload(serve, pairs):
    """A renewed certificate counts for new connections; one that cannot be read changes nothing, and a message says which."""
    cert, key = pairs("localhost", "-live").split(",")
    server = serve("--tls", f"{cert},{key}")

    def subject():
        return re.search(r"subject=(.*)", s_client(server))[1]
    assert subject() == "CN = localhost"
    for one, source in zip((cert, key), pairs("renewed.test").split(",")):
        shutil.copy(source, one)
    server.signal(signal.SIGHUP)
    wait_for(lambda: subject() == "CN = renewed.test", "the renewed certificate")
    with open(key, "w", encoding="ascii") as file:
        file.write("no key\n")
    server.signal(signal.SIGHUP)
    wait_for(lambda: key in server.text(), "a message that names the key")
    assert subject() == "CN = renewed.test"


def test_plain_requests_are_redirected(serve):
    server = serve("--tls", "self")
    plain = server.url.replace("https:", "http:")
    status, fields = head(f"{plain}/hello.txt")
    assert (status, fields["location"]) == (308, f"{server.url}/hello.txt")
    assert curl("-k", "-L", f"{plain}/hello.txt") == TEXT


@needs("systemd-socket-activate")
# shows U88
def test_a_port_that_redirects(site):
    """The recipe of docs/tls.md: two listeners are passed, and a client of the first without TLS is sent to the second."""
    plain, secure = free_port(), free_port()
    with subprocess.Popen(["systemd-socket-activate", "-l", f"127.0.0.1:{plain}", "-l", f"127.0.0.1:{secure}", BIN, "--tls", "self", str(site)],
                          stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            words = ["--connect-to", f"a.test:80:127.0.0.1:{plain}", "--connect-to", f"a.test:443:127.0.0.1:{secure}"]
            wait_for(lambda: "front page" in curl("-k", f"https://127.0.0.1:{secure}/", status=None), "the server")
            status, fields = head(*words, "http://a.test/hello.txt?q=1")
            assert (status, fields["location"]) == (308, "https://a.test/hello.txt?q=1")
            assert curl("-k", "-L", *words, "http://a.test/hello.txt") == TEXT
        finally:
            server.terminate()
            assert server.wait(PATIENCE) == 0


def test_redirect_http(serve):
    plain = free_port()
    server = serve("--tls", "self", "--redirect-http", plain)
    status, fields = head(f"http://127.0.0.1:{plain}/hello.txt?q=1")
    assert (status, fields["location"]) == (308, f"{server.url}/hello.txt?q=1")
    assert curl("-k", "-L", f"http://127.0.0.1:{plain}/hello.txt") == TEXT


def signed(folder, name, authority):
    """A key, and a certificate of that authority: the options of curl that present them."""
    run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-out", folder / "req",
        "-keyout", folder / f"{name}.key")
    cert, key = authority.split(",")
    run("openssl", "x509", "-req", "-in", folder / "req", "-CA", cert, "-CAkey", key, "-set_serial", "7", "-days", "2", "-out", folder / f"{name}.pem")
    return ["--cert", folder / f"{name}.pem", "--key", folder / f"{name}.key"]


def test_certificates_of_clients(serve, pairs, tmp_path):
    ours, others = pairs("authority"), pairs("other")
    server = serve("--tls", "self", "--tls-client-ca", ours.split(",", 1)[0])
    assert curl("-k", *signed(tmp_path, "known", ours), f"{server.url}/hello.txt") == TEXT
    for options in ([], signed(tmp_path, "unknown", others)):
        assert "alert" in curl("-k", *options, f"{server.url}/hello.txt", status=56)


@pytest.mark.parametrize("when", ["large", "always"])
def test_records_by_the_kernel(serve, site, when):
    """Where the kernel cannot, as rung doctor says, rung makes them: a client sees the same."""
    (site / "random.bin").write_bytes(os.urandom(3_000_000))
    server = serve("--tls", "self", "--ktls", when, "--metrics", "0")
    curl("-k", "--http1.1", "-o", site / "copy", f"{server.url}/random.bin")
    assert (site / "copy").read_bytes() == (site / "random.bin").read_bytes()
    assert curl("-k", f"{server.url}/hello.txt") == TEXT
    assert server.metric("rung_connections_tls_kernel_total") >= os.path.exists("/proc/net/tls_stat")


def test_strict_transport(serve, pairs):
    server, self_made = serve("--tls", pairs("localhost"), "--security-headers"), serve("--tls", "self", "--security-headers")
    assert "max-age=" in head("-k", f"{server.url}/")[1]["strict-transport-security"]
    assert "strict-transport-security" not in head("-k", f"{self_made.url}/")[1]


def test_stapling(serve, tmp_path, pairs):
    """openssl answers for an authority, and openssl asks whether the answer came with the handshake."""
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=authority", "-out", tmp_path / "ca.pem",
        "-keyout", tmp_path / "ca.key")
    run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost", "-out", tmp_path / "req",
        "-keyout", tmp_path / "key.pem")
    run("openssl", "x509", "-req", "-in", tmp_path / "req", "-CA", tmp_path / "ca.pem", "-CAkey", tmp_path / "ca.key", "-set_serial", "7", "-days", "2",
        "-out", tmp_path / "own.pem")
    (tmp_path / "cert.pem").write_text((tmp_path / "own.pem").read_text() + (tmp_path / "ca.pem").read_text())
    (tmp_path / "index").write_text("V\t491231235959Z\t\t07\tunknown\t/CN=localhost\n")
    run("openssl", "ocsp", "-issuer", tmp_path / "ca.pem", "-cert", tmp_path / "own.pem", "-reqout", tmp_path / "question")
    run("openssl", "ocsp", "-index", tmp_path / "index", "-CA", tmp_path / "ca.pem", "-rsigner", tmp_path / "ca.pem", "-rkey", tmp_path / "ca.key",
        "-reqin", tmp_path / "question", "-respout", tmp_path / "cert.pem.ocsp", "-ndays", "1")
    server = serve("--tls", f"{tmp_path}/cert.pem,{tmp_path}/key.pem")
    assert "Cert Status: good" in s_client(server, "-status")
    assert curl("--cert-status", "--cacert", tmp_path / "ca.pem", f"https://localhost:{server.port}/hello.txt") == TEXT
    os.unlink(tmp_path / "cert.pem.ocsp")
    assert "OCSP response: no response sent" in s_client(serve("--tls", f"{tmp_path}/cert.pem,{tmp_path}/key.pem"), "-status")


def test_http2_with_curl(serve):
    server, plain = serve("--tls", "self", "--log", "combined"), serve()
    assert curl("-k", "--http2", "-w", "%{http_version}", f"{server.url}/hello.txt") == TEXT + "2"
    assert curl("-k", "--http1.1", "-w", "%{http_version}", f"{server.url}/hello.txt") == TEXT + "1.1"
    assert curl("--http2-prior-knowledge", "-w", "%{http_version}", f"{plain.url}/hello.txt") == TEXT + "2"
    wait_for(lambda: len(server.out) == 2, "two lines of the log")
    assert ["HTTP/2" in line for line in server.out] == [True, False]
    assert code("-k", "--http2", f"{server.url}/none") == 404
    assert "ALPN protocol: h2" in s_client(server, "-alpn", "h2,http/1.1")


@needs("nghttp", "h2load")
def test_http2_with_nghttp(serve, site):
    server = serve("--tls", "self")
    said = run("nghttp", "-ns", *(f"{server.url}/{name}" for name in ("hello.txt", "style.css", "big.bin")))
    assert said.count(" 200 ") == 3
    said = run("h2load", "-n", "2000", "-c", "4", "-m", "20", f"{server.url}/hello.txt")
    assert "2000 succeeded, 0 failed, 0 errored, 0 timeout" in said


@browser
def test_a_browser(serve, tmp_path):
    server = serve("--tls", "self", "--log", "combined")
    said = shown(tmp_path, f"{server.url}/list/")
    assert "one.txt" in said and any("GET /list/ HTTP/2" in line for line in server.out)
