# SPDX-License-Identifier: MIT
"""Error answers (H03, K18): a page that says what happened, of its own or of the site's, right to
the byte."""
import os

import pytest
from lib.client import request
from lib.trees import write

CAUSES = [("/missing", 404, []), ("/special/fifo", 403, []), ("/%zz", 400, []), ("/list", 301, []),
          ("/alphabet.txt", 416, ["Range: bytes=99-"]), ("/hello.txt", 412, ['If-Match: "x"']),
          ("/hello.txt", 417, ["Expect: wonders"])]


@pytest.mark.core
@pytest.mark.parametrize("target, status, fields", CAUSES)
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


def test_errors_say_what_they_are(wire):
    reply = wire.ask("/missing")
    assert b"404" in reply.body and reply["content-type"].split(";")[0] in ("text/html",
        "text/plain")
    assert "etag" not in reply.fields and "last-modified" not in reply.fields
    assert "accept-ranges" not in reply.fields or reply["accept-ranges"] == "bytes"


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


@pytest.mark.parametrize("kind", ["folder", "fifo", "link", "unreadable"])
def test_own_page_that_is_none(start, tree, kind):
    """What is in its place but no file is not used, and never blocks."""
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


def test_connection_stays_usable(wire):
    """K18: a hundred errors on one connection."""
    for i in range(100):
        reply = wire.ask(f"/missing/{i}")
        assert reply.status == 404 and not reply.closes
    assert wire.ask("/hello.txt").status == 200


def test_root_that_vanishes(start, tree):
    """The folder that is served is removed: 404, not a crash."""
    os.makedirs(f"{tree}/root")
    write(f"{tree}/root/file", b"x")
    server = start(f"{tree}/root")
    assert server.ask("/file").body == b"x"
    os.unlink(f"{tree}/root/file")
    os.rmdir(f"{tree}/root")
    assert server.ask("/file").status == 404
    assert server.ask("/").status in (200, 404)
