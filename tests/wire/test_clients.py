# SPDX-License-Identifier: MIT
"""Clients that people use: curl, wget, Python's http.client and urllib."""
import hashlib
import http.client
import os
import shutil
import subprocess
import urllib.request

import pytest
from lib.trees import GIANT, ODD_NAMES, content, giant_slice, quote

any_engine = pytest.mark.any_engine("it asks one thing after the other")

ENV = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
curl = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
wget = pytest.mark.skipif(not shutil.which("wget"), reason="wget is not installed")


def run(*command, code=0):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100, env=ENV)
    assert done.returncode == code, (command, done.returncode, done.stderr.decode())
    return done.stdout


@any_engine
@curl
def test_curl_gets_files(site):
    for size in (0, 1, 4097, 1 << 20):
        assert run("curl", "-fsS", site.url(f"/size/{size}.bin")) == content(size, size)


@curl
def test_curl_many_on_one_connection(site):
    urls = [site.url(f"/odd/{quote(name)}") for name in ODD_NAMES]
    out = run("curl", "-fsS", "-w", "%{stderr}", *urls)
    assert out == b"".join(content(f"odd {i}", 100 + i) for i in range(len(ODD_NAMES)))


@any_engine
@curl
def test_curl_head_range_redirect_conditional(site, tree):
    assert b"Content-Length: 13\r\n" in run("curl", "-fsSI", site.url("/hello.txt"))
    assert run("curl", "-fsS", "-r", "3-5", site.url("/alphabet.txt")) == b"def"
    assert run("curl", "-fsS", "-r", "-3", site.url("/alphabet.txt")) == b"xyz"
    assert b"one.txt" in run("curl", "-fsSL", site.url("/list"))
    run("curl", "-fsS", "--etag-save", f"{tree}/etag", "-o", f"{tree}/out", site.url("/hello.txt"))
    code = ["-o", "/dev/null", "-w", "%{http_code}"]
    assert run("curl", "-sS", *code, "--etag-compare", f"{tree}/etag", site.url("/hello.txt")) == b"304"
    assert run("curl", "-sS", *code, "-z", "Tue, 14 Nov 2023 22:13:20 GMT", site.url("/hello.txt")) == b"304"


@any_engine
@curl
# shows U06
def test_curl_resumes(site, tree):
    path = f"{tree}/part"
    with open(path, "wb") as out:
        out.write(content(1 << 20, 1 << 20)[:123_456])
    run("curl", "-fsS", "-C", "-", "-o", path, site.url("/size/1048576.bin"))
    with open(path, "rb") as file:
        assert file.read() == content(1 << 20, 1 << 20)


@curl
@pytest.mark.parametrize("fields", [[], ["-H", "Transfer-Encoding: chunked"], ["-H", "Expect: 100-continue"],
                                    ["-0"], ["-H", "Expect:"]])
def test_curl_posts(site, tree, fields):
    """An upload is refused, and curl can read why: no reset discards the answer, whether the body is small or large."""
    for size in (10, 900_000, 5 << 20):
        path = f"{tree}/upload"
        with open(path, "wb") as out:
            out.write(bytes(size))
        out = run("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--data-binary", f"@{path}", *fields,
                  site.url("/hello.txt"))
        assert out in (b"405", b"413"), size


@any_engine
@curl
def test_curl_path_as_is(site):
    for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd"):
        out = run("curl", "-sS", "--path-as-is", site.url(path))
        assert b"root:" not in out


@any_engine
@wget
# shows K14
def test_wget_mirrors(site, standard, tree):
    """wget makes a recursive copy by following the links of our listings."""
    run("wget", "-q", "-r", "-np", "-nH", "--reject-regex", r"\?", "-P", tree, site.url("/a/"))
    with open(f"{tree}/a/b/c/d/e/deep.txt", "rb") as file:
        assert file.read() == b"deep\n"
    run("wget", "-q", "-r", "-np", "-nH", "-A", "*.bin", "--reject-regex", r"\?", "-P", tree, site.url("/size/"))
    for name in os.listdir(f"{standard}/size"):
        size = int(name.split(".")[0])
        with open(f"{tree}/size/{name}", "rb") as file:
            assert file.read() == content(size, size)


@any_engine
@wget
# shows U06
def test_wget_resumes_and_checks_time(site, tree):
    path = f"{tree}/65536.bin"
    with open(path, "wb") as out:
        out.write(content(65536, 65536)[:1000])
    run("wget", "-q", "-c", "-P", tree, site.url("/size/65536.bin"))
    with open(path, "rb") as file:
        assert file.read() == content(65536, 65536)
    run("wget", "-q", "-N", "-P", tree, site.url("/hello.txt"))
    assert int(os.stat(f"{tree}/hello.txt").st_mtime) == 1_700_000_000
    run("wget", "-q", "-N", "-P", tree, site.url("/hello.txt"))


@any_engine
def test_http_client(site):
    host, port = site.address
    one = http.client.HTTPConnection(host, port, timeout=60)
    for path, status in (("/hello.txt", 200), ("/missing", 404), ("/list/", 200), ("/list", 301)):
        one.request("GET", path)
        reply = one.getresponse()
        body = reply.read()
        assert reply.status == status and (status != 200 or body)
    one.request("GET", "/hello.txt", body=iter([b"a", b"bc"]), encode_chunked=True,
                headers={"Transfer-Encoding": "chunked"})
    assert one.getresponse().read() == b"Hello, world\n"
    one.request("OPTIONS", "*")
    assert one.getresponse().read() == b""
    one.request("HEAD", "/giant.bin")
    reply = one.getresponse()
    assert reply.length == 0 and int(reply.headers["Content-Length"]) == GIANT and reply.read() == b""
    one.request("GET", "/giant.bin", headers={"Range": f"bytes={GIANT - 14}-"})
    assert one.getresponse().read() == giant_slice(GIANT - 14, GIANT - 1)
    one.close()


@any_engine
def test_urllib(site):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(site.url("/size/1048576.bin"), timeout=60) as reply:
        digest = hashlib.sha256(reply.read()).hexdigest()
    assert digest == hashlib.sha256(content(1 << 20, 1 << 20)).hexdigest()
    with opener.open(site.url("/list"), timeout=60) as reply:  # follows the redirect
        assert reply.url.endswith("/list/")


@curl
@pytest.mark.capacity(20)
def test_curl_in_parallel(site, tree):
    urls = []
    for i in range(20):
        urls += ["-o", f"{tree}/{i}", site.url("/size/65536.bin")]
    run("curl", "-fsS", "--parallel", "--parallel-max", "20", *urls)
    for i in range(20):
        with open(f"{tree}/{i}", "rb") as file:
            assert file.read() == content(65536, 65536)
