# SPDX-License-Identifier: MIT
"""What is served, and what is sent with it: asked by curl, wget, a browser and the programs that unpack, hash and compress."""
import gzip
import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import BIG_BYTES, PAGE, SITE, TEXT, browser, code, curl, head, needs, run, shown, wait_for

pytestmark = needs("curl")


def test_a_folder_without_any_option(serve):
    server = serve()
    assert curl(f"{server.url}/") == PAGE and curl(f"{server.url}/hello.txt") == TEXT
    assert "one.txt" in curl(f"{server.url}/list/")
    status, fields = head(f"{server.url}/hello.txt")
    assert status == 200 and fields["content-type"].startswith("text/plain") and fields["etag"] and fields["last-modified"]
    assert code("-H", f"If-None-Match: {fields['etag']}", f"{server.url}/hello.txt") == 304
    assert code("-r", "0-1,3-4", f"{server.url}/hello.txt") == 206 and code("-r", "99-", f"{server.url}/hello.txt") == 416
    assert (code(f"{server.url}/none"), curl(f"{server.url}/none")) == (404, SITE["404.html"])


def test_a_single_file(serve, site):
    server = serve(root=site / "hello.txt")
    assert curl(f"{server.url}/") == TEXT and curl(f"{server.url}/hello.txt") == TEXT and code(f"{server.url}/about.html") == 404


@needs("wget")
def test_wget_mirrors_and_resumes(serve, site, tmp_path):
    server = serve()
    run("wget", "-q", "-r", "-np", "-nH", "-P", tmp_path / "copy", f"{server.url}/list/")
    for name in ("one.txt", "two.txt", "deep/three.txt"):
        assert (tmp_path / "copy/list" / name).read_text() == SITE[f"list/{name}"]
    with open(tmp_path / "big.bin", "wb") as file:
        file.truncate(BIG_BYTES // 3)
    run("wget", "-q", "-c", "-O", tmp_path / "big.bin", f"{server.url}/big.bin")
    assert (tmp_path / "big.bin").read_bytes() == (site / "big.bin").read_bytes()


@needs("jq")
def test_listing(serve):
    server = serve("--index", "none.html")
    listed = curl("-H", "Accept: application/json", f"{server.url}/list/")
    assert subprocess.run(["jq", "-e", "."], input=listed, text=True, stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert "one.txt" in curl("-H", "Accept: text/plain", f"{server.url}/list/") and ".secret" not in curl(f"{server.url}/")
    assert code(f"{serve('--listing', 'off').url}/list/") == 403


def test_listing_max(serve):
    limits = {number: curl(f"{serve('--listing-max', number).url}/list/?sort=size&order=desc") for number in (4, 3)}
    assert re.search(r"(?s)README\.md.*two\.txt.*one\.txt", limits[4])
    assert limits[3].count(".txt") >= 2 and limits[3] != limits[4]
    text = curl("-H", "Accept: text/plain", f"{serve('--listing-max', 3).url}/list/")
    assert "# not sorted" in text


def test_index(serve):
    server = serve("--index", "about.html")
    assert curl(f"{server.url}/") == SITE["about.html"]


def test_hidden(serve):
    without, with_it = serve(), serve("--hidden")
    assert code(f"{without.url}/.secret") == 404 and code(f"{without.url}/.well-known/security.txt") == 200
    assert curl(f"{with_it.url}/.secret") == SITE[".secret"]


@browser
def test_readme(serve, tmp_path):
    assert re.search(r"<h1>Read <em>me</em></h1>", shown(tmp_path, f"{serve('--readme').url}/list/"))
    assert "<em>me</em>" not in curl(f"{serve().url}/list/")


@needs("unzip", "tar")
def test_archive(serve, tmp_path):
    server = serve("--archive")
    for kind in ("zip", "tar.gz", "tar"):
        curl("-o", tmp_path / f"a.{kind}", f"{server.url}/list/?archive={kind}")
    assert "No errors detected" in run("unzip", "-t", tmp_path / "a.zip")
    assert "list/deep/three.txt" in run("unzip", "-l", tmp_path / "a.zip").split()
    for kind in ("tar.gz", "tar"):
        assert "list/deep/three.txt" in run("tar", "-tf", tmp_path / f"a.{kind}").split()
    assert "?archive=zip" not in curl(f"{serve().url}/list/")


def test_routes(serve):
    pretty, spa = serve("--pretty-urls"), serve("--spa")
    assert curl(f"{pretty.url}/about") == SITE["about.html"] and code(f"{spa.url}/about") == 200
    assert curl(f"{spa.url}/users/7") == PAGE and code(f"{spa.url}/app.js") == 404 and code(f"{pretty.url}/users/7") == 404


@needs("gzip", "brotli", "zstd")
def test_precompressed(serve, site, tmp_path):
    """Files that the programs of these formats made, and curl unpacks."""
    (site / "style.css.gz").write_bytes(gzip.compress(b"ready-made\n"))
    on, off = serve(), serve("--precompressed", "off", "--compress", "off")
    assert curl("--compressed", f"{on.url}/style.css") == "ready-made\n" and curl(f"{on.url}/style.css") == SITE["style.css"]
    assert curl("--compressed", f"{off.url}/style.css") == SITE["style.css"]
    for word, unpack in (("br", ["brotli", "-dc"]), ("zstd", ["zstd", "-dqc"])):
        ending = {"br": "br", "zstd": "zst"}[word]
        run(unpack[0], "-k", "-o", site / f"style.css.{ending}", site / "style.css")
        assert head("-H", f"Accept-Encoding: {word}", f"{on.url}/style.css")[1]["content-encoding"] == word
        curl("-H", f"Accept-Encoding: {word}", "-o", tmp_path / word, f"{on.url}/style.css")
        assert run(*unpack, tmp_path / word) == SITE["style.css"]


def test_compress_and_cache(serve):
    server, off = serve("--metrics", "0"), serve("--compress", "off")

    def coding():
        return head("-H", "Accept-Encoding: gzip", f"{server.url}/style.css")[1].get("content-encoding")
    wait_for(lambda: coding() == "gzip", "a compressed answer")
    assert curl("--compressed", f"{server.url}/style.css") == SITE["style.css"] and server.metric("rung_cache_hits_total") > 0
    for _ in range(4):
        assert "content-encoding" not in head("-H", "Accept-Encoding: gzip", f"{off.url}/style.css")[1]
    none = serve("--cache", "0", "--metrics", "0")
    assert all(curl(f"{none.url}/hello.txt") == TEXT for _ in range(4)) and none.metric("rung_cache_hits_total") == 0


def test_a_change_counts_at_once(serve, site):
    server = serve()
    for text in ("a\n", "bb\n", "ccc\n"):
        (site / "hello.txt").write_text(text)
        assert [curl(f"{server.url}/hello.txt") for _ in range(3)] == [text] * 3


# shows U85
def test_fields(serve):
    server = serve("--header", "*.css Cache-Control: max-age=7", "--header", "X-From: rung", "--max-age", "1h", "--security-headers",
                   "--server-name", "off", "--server-timing")
    css, text = head(f"{server.url}/style.css")[1], head(f"{server.url}/hello.txt")[1]
    assert css["cache-control"] == "max-age=7" and text["cache-control"] == "max-age=3600" and text["x-from"] == "rung"
    assert text["x-frame-options"] and text["content-security-policy"] and text["referrer-policy"]
    assert text["server"] == "rung" and re.search(r"found;dur=[0-9.]+", text["server-timing"])
    plain = head(f"{serve().url}/hello.txt")[1]
    assert re.match(r"rung/[0-9.]+", plain["server"]) and not {"x-frame-options", "server-timing", "x-from"} & plain.keys()


@browser
@pytest.mark.parametrize("option, word", [(["--cors"], "got Hello, world"), ([], "refused")])
def test_cors(serve, site, tmp_path, option, word):
    """A page of one server reads a file of another, and a browser decides whether it may."""
    other = serve(*option)
    (site / "asks.html").write_text(f"<p id=out>nothing<script>fetch('{other.url}/hello.txt').then(a => a.text()).then("
                                    "t => out.textContent = 'got ' + t, () => out.textContent = 'refused')</script>")
    assert f'<p id="out">{word}' in shown(tmp_path, f"{serve().url}/asks.html")


@browser
@pytest.mark.parametrize("option, seen", [(["--security-headers"], False), ([], True)])
def test_frames_of_other_sites(serve, site, tmp_path, option, seen):
    """A browser shows the site in a frame of another one, unless the site forbids it."""
    framed = serve(*option)
    (site / "index.html").write_text("<script>parent.postMessage('inside', '*')</script>")
    other = site / "frame.html"
    other.write_text(f"<p id=out>nothing</p><script>onmessage = e => out.textContent = e.data</script><iframe src='{framed.url}/'></iframe>")
    assert ('<p id="out">inside' in shown(tmp_path, f"{serve().url}/frame.html")) == seen


@needs("wget")
def test_redirects(serve, tmp_path):
    server = serve("--redirect", "/old /hello.txt", "--redirect", "/blog/* /list/* 301")
    assert curl("-L", f"{server.url}/old") == TEXT and curl("-L", f"{server.url}/blog/one.txt") == SITE["list/one.txt"]
    assert code(f"{server.url}/old") == 302 and code(f"{server.url}/blog/one.txt") == 301
    run("wget", "-q", "-O", tmp_path / "out", f"{server.url}/blog/two.txt")
    assert (tmp_path / "out").read_text() == SITE["list/two.txt"]


HASHES = {"htpasswd": ["htpasswd", "-nbB", "ada", "secret"], "openssl": ["openssl", "passwd", "-6", "secret"],
          "mkpasswd": ["mkpasswd", "-m", "yescrypt", "secret"]}


@needs("wget")
@pytest.mark.parametrize("tool", HASHES)
def test_auth(serve, tmp_path, tool):
    """The hash is made by the program that administrators use."""
    if not shutil.which(tool):
        pytest.skip(f"not installed: {tool}")
    made = run(*HASHES[tool]).strip()
    (tmp_path / "users").write_text((made if made.startswith("ada:") else f"ada:{made}") + "\n")
    server = serve("--auth", tmp_path / "users")
    status, fields = head(f"{server.url}/hello.txt")
    assert status == 401 and fields["www-authenticate"].startswith("Basic ")
    assert curl("-u", "ada:secret", f"{server.url}/hello.txt") == TEXT
    assert code("-u", "ada:wrong", f"{server.url}/hello.txt") == 401 and code("-u", "eve:secret", f"{server.url}/none") == 401
    run("wget", "-q", "--user", "ada", "--password", "secret", "-O", tmp_path / "out", f"{server.url}/hello.txt")
    assert (tmp_path / "out").read_text() == TEXT


def test_allow_and_deny(serve):
    server = serve("--allow", "127.0.0.0/30", "--deny", "127.0.0.2")
    assert [code("--interface", f"127.0.0.{last}", f"{server.url}/hello.txt") for last in (1, 2, 3, 4)] == [200, 403, 200, 403]


def test_configuration(serve, site, tmp_path):
    path = tmp_path / "rung.toml"
    path.write_text(f"root = '{site}'\nport = 0\nbind = ['127.0.0.1']\nlisting = false\nheader = ['X-From: file']\n")
    server = serve("--config", path, root=None)
    assert head(f"{server.url}/hello.txt")[1]["x-from"] == "file" and code(f"{server.url}/list/") == 403


def test_a_mistake_in_a_configuration(tmp_path):
    from conftest import BIN
    (tmp_path / "bad.toml").write_text("port = 0\nprot = 1\n")
    assert "bad.toml:2: prot: no such key; did you mean port?" in run(BIN, "--config", tmp_path / "bad.toml", status=2)
    assert "did you mean --port?" in run(BIN, "--prot", "1", status=2)
    assert "port = 81" in run(BIN, "config", "-p", "81").splitlines()


@needs("openssl")
def test_virtual_hosts(serve, site, tmp_path, pairs):
    """Names choose the folder and the certificate, which curl verifies."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "hello.txt").write_text("other\n")
    path = tmp_path / "rung.toml"
    path.write_text("port = 0\nbind = ['127.0.0.1']\n" + "".join(
        f"[[host]]\nname = ['{name}']\nroot = '{root}'\ntls = ['{pairs(name)}']\n" for name, root in (("a.test", site), ("b.test", other))))
    server = serve("--config", path, root=None)
    for name, text in (("a.test", TEXT), ("b.test", "other\n")):
        assert curl("--cacert", pairs(name).split(",", 1)[0], "--resolve", f"{name}:{server.port}:127.0.0.1", f"https://{name}:{server.port}/hello.txt") == text
    wrong = ["--cacert", pairs("a.test").split(",", 1)[0], "--resolve", f"b.test:{server.port}:127.0.0.1", f"https://b.test:{server.port}/"]
    assert "certificate" in curl(*wrong, status=60)


def test_json_of_a_listing_is_what_is_there(serve, site):
    """Odd names go through a parser of others and back through curl."""
    for name in ("a b.txt", "per%20cent.txt", "qu\"ote.txt", "line\nend.txt", "\u00fcber.txt", "#hash?.txt"):
        (site / "list" / name).write_text(name)
    server = serve()
    listed = json.loads(curl("-H", "Accept: application/json", f"{server.url}/list/"))
    rows = listed if isinstance(listed, list) else next(value for value in listed.values() if isinstance(value, list))
    names = {row["name"].rstrip("/") for row in rows}
    assert names == set(os.listdir(site / "list"))
    page = curl(f"{server.url}/list/")
    for link in re.findall(r'href="((?:\./)?[^"?#/]+\.txt)"', page):
        assert code("--path-as-is", f"{server.url}/list/{link.removeprefix('./')}") == 200
