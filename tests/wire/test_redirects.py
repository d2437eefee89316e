# SPDX-License-Identifier: MIT
"""Redirects that an option names."""
import io
import os
import tarfile
import zipfile

import pytest
from lib.client import request
from lib.trees import write

pytestmark = pytest.mark.userspace("redirects")
RULES = ["/old.html /new.html", "/blog/* /posts/* 301", "/gone https://example.com/there?a=b 308", "/far/* https://example.com/x/* 307",
         "/caf%C3%A9 /tea", "/there /here#part", "/a.txt /b.txt 301"]
CASES = [("/old.html", 302, "/new.html"), ("/old.html?x=1&y='", 302, "/new.html?x=1&y='"), ("/old.html/", 404, None), ("/old", 404, None),
         ("/blog/2024/a b.html".replace(" ", "%20"), 301, "/posts/2024/a%20b.html"), ("/blog/", 301, "/posts/"), ("/blog", 404, None),
         ("/blog/%3Cscript%3E?q", 301, "/posts/%3Cscript%3E?q"), ("/gone?c=d", 308, "https://example.com/there?a=b"),
         ("/far/x/../y", 307, "https://example.com/x/y"), ("/far//evil.com/", 307, "https://example.com/x/evil.com/"),
         ("/far/%0d%0aX:y", 307, "https://example.com/x/%0D%0AX%3Ay"), ("/caf%c3%a9", 302, "/tea"), ("/x/../old.html", 302, "/new.html"),
         ("/a.txt", 301, "/b.txt"), ("/b.txt", 200, None), ("/.blog/x", 404, None)]


@pytest.fixture
def server(start, tree):
    write(f"{tree}/a.txt", b"never sent\n")
    write(f"{tree}/b.txt", b"sent\n")
    return start(tree, *(word for rule in RULES for word in ("--redirect", rule)))


@pytest.mark.core
@pytest.mark.parametrize("target, status, where", CASES)
# shows H03, U73
def test_redirects(server, target, status, where):
    with server.wire() as wire:
        for method in ("GET", "HEAD"):
            for _ in range(3):
                wire.send(request(target, method))
                head = wire.lines()  # the client's own reader wants a local Location for 301
                assert head[0].split()[1] == str(status).encode()
                found = [line.partition(b": ")[2].decode() for line in head if line.lower().startswith(b"location:")]
                assert found == ([where] if where else [])
                size = next(int(line.split(b": ")[1]) for line in head if line.lower().startswith(b"content-length:"))
                body = wire.take(size) if method == "GET" else b""
                assert b"<script>" not in body and b"never" not in body


SLY = ["/a//evil.example", "/a///evil.example", "/a/.//evil.example", "/a/%2e//evil.example", "/a/x/..//evil.example", "/a/%5cevil.example",
       "/a/\\evil.example", "/a/%09/evil.example", "/a/;/evil.example", "/a/@evil.example", "/a/:80/evil.example", "//evil.example/..//a//evil.example"]


@pytest.mark.core
@pytest.mark.parametrize("target", SLY)
# shows U73
def test_no_other_host(start, tree, target):
    """What a client asks for never becomes the host of a Location: one slash, and then no slash of either kind."""
    rules = ["--redirect", "/a/* /*", "--redirect", "/b/* https://example.com/*"]
    with start(tree, *rules).wire() as wire:
        for path, start_of in ((target, "/"), (target.replace("/a/", "/b/", 1), "https://example.com/")):
            wire.send(request(path))
            head = wire.lines()
            size = next(int(line.split(b": ")[1]) for line in head if line.lower().startswith(b"content-length:"))
            wire.take(size)
            status = int(head[0].split()[1])
            where = [line.partition(b": ")[2].decode() for line in head if line.lower().startswith(b"location:")]
            assert status == 302 and where[0].startswith(start_of) and where[0][len(start_of):][:1] not in ("/", "\\") or status == 400 and not where
            assert "\\" not in "".join(where) and "\t" not in "".join(where)


@pytest.mark.any_engine("the core's limits")
def test_long(server):
    """A target of any length is redirected or refused."""
    with server.wire() as wire:
        for n in (100, 1000, 2500, 3900, 4080, 4095, 4200):
            for query in ("", "?" + "\"" * 500, "?" + "\"" * 3000):
                reply = wire.ask("/blog/" + "!" * (n - 6) + query)
                assert reply.status in (301, 404, 414), (n, len(query), reply.status)
                if reply.status == 301:
                    assert len(reply["location"]) == 7 + 3 * (n - 6) + (3 * len(query) - 2 if query else 0)
        assert wire.ask("/b.txt").body == b"sent\n"


def test_pipelined(server):
    with server.wire() as wire:
        wire.send(b"".join(map(request, ("/old.html", "/b.txt", "/a.txt"))) * 30)
        for _ in range(30):
            assert [wire.reply().status for _ in range(3)] == [302, 200, 301]


HIDING = ["/top/one.txt /new", "/top/moved/* /new/*", "/top/listed/ /new", "/top/README.md /new", "/top/empty /new"]
KEPT = {"top/a.txt", "top/README.txt", "top/listed/b.txt", "top/link", "top/one", "top/moved.txt"}


@pytest.mark.core
def test_what_they_hide(start, tree):
    """A file that is redirected is in no archive of a folder above it, and is no README below a listing; what was found by
    another name still is."""
    for name in ("one.txt", "moved/s.txt", "moved/deep/s.txt", "README.md"):
        write(f"{tree}/top/{name}", b"secret\n")
    for name in KEPT - {"top/link"}:
        write(f"{tree}/{name}", b"kept\n")
    os.mkdir(f"{tree}/top/empty")
    os.symlink("a.txt", f"{tree}/top/link")
    with start(tree, "--archive", "--readme", *(word for rule in HIDING for word in ("--redirect", rule))).wire() as wire:
        for _ in range(3):
            page = wire.ask("/top/").body
            assert b"kept" in page and b"secret" not in page
        with tarfile.open(fileobj=io.BytesIO(wire.ask("/top/?archive=tar").body)) as archive:
            assert {one.name for one in archive if one.isfile()} == KEPT
            assert {one.name for one in archive if one.isdir()} == {"top", "top/listed", "top/empty"}
        with zipfile.ZipFile(io.BytesIO(wire.ask("/top/?archive=zip").body)) as archive:
            assert {name for name in archive.namelist() if not name.endswith("/")} == KEPT
        for path in ("/top/moved/?archive=tar", "/top/moved/deep/?archive=tar", "/top/listed/?archive=tar"):
            assert wire.ask(path).status == 302
    with start(tree, "--archive", "--redirect", "/* /new/*").wire() as wire:
        assert wire.ask("/?archive=tar").status == 302
