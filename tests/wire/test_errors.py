# SPDX-License-Identifier: MIT
"""Error answers: a page that says what happened, rung's own or the site's, correct to
the byte."""
import os
import shutil
import time

import pytest
from lib import strace
from lib.client import request
from lib.trees import write

any_engine = pytest.mark.any_engine("the core writes the page")

CAUSES = [("/missing", 404, []), ("/special/fifo", 403, []), ("/%zz", 400, []), ("/list", 301, []),
          ("/alphabet.txt", 416, ["Range: bytes=99-"]), ("/hello.txt", 412, ['If-Match: "x"']),
          ("/hello.txt", 417, ["Expect: wonders"])]


@pytest.mark.core
@pytest.mark.parametrize("target, status, fields", CAUSES)
# shows H03, K18
def test_each_by_its_cause(site, target, status, fields):
    with site.wire() as wire:
        get = wire.ask(target, fields=fields)
        assert get.status == status and get.length == len(get.body)
        if get.closes:
            wire.end()
    with site.wire() as wire:
        if status == 416:
            return  # Range is for GET alone
        head = wire.ask(target, "HEAD", fields)
        assert head.status == status and not head.body
        if not head.closes:
            assert wire.ask("/hello.txt").body == b"Hello, world\n"
        get.fields.pop("date"), head.fields.pop("date")
        assert get.fields == head.fields


@pytest.mark.userspace("system calls that another process can make fail")
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is needed")
# shows H03
def test_a_disk_that_fails(start, tree):
    """The answer is 500, and the connection stays open."""
    write(f"{tree}/hello.txt", b"hello")
    write(f"{tree}/other.txt", b"other")
    server = start(tree)
    with server.wire() as wire:
        assert wire.ask("/other.txt").body == b"other"
        with strace.failing(server, "openat2", "error=EIO"):
            reply = wire.ask("/hello.txt")
        assert reply.status == 500 and b"500" in reply.body and reply.length == len(reply.body)
        assert wire.ask("/hello.txt").body == b"hello"


@any_engine
def test_errors_say_what_they_are(wire):
    reply = wire.ask("/missing")
    assert b"404" in reply.body and reply["content-type"].split(";")[0] in ("text/html",
        "text/plain")
    assert "etag" not in reply.fields and "last-modified" not in reply.fields
    assert "accept-ranges" not in reply.fields or reply["accept-ranges"] == "bytes"


@any_engine
@pytest.mark.parametrize("path, home", [
    ("/missing", "./"), ("/a/b//missing?/", "./../../../"), ("/" * 17 + "x", "./" + "../" * 16), ("/" * 18 + "x", "/"),
    ("/..", "./"), ("/%zz/x", "./../"), ("http://h/none/b", "./../")])
def test_way_home(wire, path, home):
    """The link of the page leads to the top folder, whatever is in front of rung."""
    assert f'<a href="{home}">' in wire.ask(path, fields=["Accept: text/html"]).body.decode()


@any_engine
# shows U18
def test_own_page(start, tree):
    """404.html of the root: its body, the status 404, no validators of its own that a cache could
    use."""
    page = write(f"{tree}/404.html", b"<!doctype html><title>gone</title>" + b"x" * 5000)
    write(f"{tree}/sub/404.html", b"not this one")
    write(f"{tree}/hello.txt", b"hello")
    with start(tree).wire() as wire:
        for target in ("/missing", "/sub/missing", "/hello.txt/", "/.hidden"):
            reply = wire.ask(target)
            assert reply.status == 404 and reply.body == page
            assert reply["content-type"].startswith("text/html")
        assert wire.ask("/missing", fields=["Range: bytes=0-1"]).body == page
        assert wire.ask("/missing", fields=["If-None-Match: *"]).status == 404
        head = wire.ask("/missing", "HEAD")
        assert head.status == 404 and head.length == len(page)
        assert wire.ask("/404.html").status == 200
        assert wire.ask("/hello.txt").body == b"hello"
        wire.send(request("/missing") * 20)
        assert all(wire.reply().body == page for _ in range(20))
        os.unlink(f"{tree}/404.html")
        reply = wire.ask("/missing")
        assert reply.status == 404 and reply.body != page


REFUSALS = {"412": (request("/hello.txt", fields=['If-Match: "x"']), 412),
            "416": (request("/hello.txt", fields=["Range: bytes=99-"]), 416),
            "405": (request("/hello.txt", "DELETE"), 405), "501": (request("/hello.txt", "BREW"), 501),
            "no request": (b"BAD\r\n\r\n", 400), "cut short": (b"GET /hello.txt HT", 400),
            "too long": (request("/" + "x" * 9000), 414), "a bad path": (request("/%zz"), 400),
            "a bad chunk": (request("/hello.txt", "POST", ["Transfer-Encoding: chunked"], b"x\r\n"), 400),
            "too large": (request("/hello.txt", "POST", ["Content-Length: 99999999"]), 413),
            "half a body": (request("/hello.txt", fields=["Content-Length: 10"]), 400)}


@any_engine
@pytest.mark.core
@pytest.mark.parametrize("data, status", REFUSALS.values(), ids=REFUSALS)
# shows K21
def test_own_page_of_every_cause(start, tree, data, status):
    """The site's page is sent even if no file was looked for, or if the requested file is in memory."""
    page = write(f"{tree}/{status}.html", b"<!doctype html><title>no</title>")
    write(f"{tree}/hello.txt", b"hello")
    server = start(tree)
    with server.wire() as wire:
        for _ in range(3):
            time.sleep(0.05)  # a file that has only just changed is not kept in memory
            assert wire.ask("/hello.txt").body == b"hello"
        wire.send(data)
        if status == 400:
            wire.finish()
        reply = wire.reply()
        assert reply.status == status and reply.body == page


@any_engine
@pytest.mark.parametrize("kind", ["folder", "fifo", "link", "unreadable"])
def test_own_page_that_is_none(start, tree, kind):
    """Anything in its place that is not a file is not used, and never blocks."""
    path = f"{tree}/404.html"
    if kind == "folder":
        os.makedirs(path)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        os.symlink("/etc/passwd", path)
    else:
        write(path, b"x")
        os.chmod(path, 0)
    reply = start(tree).ask("/missing")
    assert reply.status == 404 and b"root:" not in reply.body


@any_engine
# shows K18
def test_connection_stays_usable(wire):
    """A hundred errors on one connection."""
    for i in range(100):
        reply = wire.ask(f"/missing/{i}")
        assert reply.status == 404 and not reply.closes
    assert wire.ask("/hello.txt").status == 200
