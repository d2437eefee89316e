# SPDX-License-Identifier: MIT
"""Requests that another path answers: --pretty-urls, --spa."""
import os
import time

import pytest
from lib.client import request
from lib.server import wait_for
from lib.trees import write

pytestmark = pytest.mark.userspace("other paths than the one that was asked for")
TIMES = 6  # enough for an answer to be kept
PAGE = b"<!doctype html><title>app</title>\n"
ABOUT = b"<!doctype html><title>about</title>\n"


def settle():
    """A file that has only just changed is not kept in memory."""
    time.sleep(0.05)


def grow(tree):
    write(f"{tree}/index.html", PAGE)
    write(f"{tree}/about.html", ABOUT)
    write(f"{tree}/app.js", b"go()\n")
    write(f"{tree}/.env", b"secret\n")
    write(f"{tree}/.hidden.html", b"secret\n")
    write(f"{tree}/docs/guide.html", b"guide\n")
    write(f"{tree}/blog/post.txt", b"post\n")
    write(f"{tree}/blog.html", b"not this one\n")
    settle()
    return tree


def ask(wire, target, times=TIMES, **how):
    """The answer to each of several requests, which must be the same one."""
    replies = [wire.ask(target, **how) for _ in range(times)]
    same = {(reply.status, reply.body, (reply.get("etag") or "").removeprefix("W/")) for reply in replies}  # a tag becomes strong in time
    assert len(same) == 1, replies
    return replies[0]


SPA = [("/", 200, PAGE), ("/users/7", 200, PAGE), ("/users/", 200, PAGE), ("/v1.2", 200, PAGE), ("/john.doe", 200, PAGE),
       ("/install", 200, PAGE), ("/a/b/c/d?e=f", 200, PAGE), ("/app.js", 200, b"go()\n"), ("/docs/guide.html", 200, b"guide\n"),
       ("/missing.js", 404, None), ("/img/logo.PNG", 404, None), ("/about", 200, PAGE), ("/.env", 404, None), ("/.none", 404, None),
       ("/x/.git/config", 404, None), ("/..%2fetc", 400, None), ("/../etc/passwd", 404, None), ("/about.html/x", 200, PAGE),
       ("/" + "x" * 256, 404, None), ("/.well-known/x", 200, PAGE)]


@pytest.mark.core
@pytest.mark.parametrize("target, status, body", SPA)
# shows U71
def test_spa(start, tree, target, status, body):
    """The index answers a path that is not there, unless it has a hidden name or ends like a file of a known type."""
    with start(grow(tree), "--spa").wire() as wire:
        reply = ask(wire, target)
        assert reply.status == status and (body is None or reply.body == body)
        assert b"secret" not in reply.body


PRETTY = [("/about", 200, ABOUT), ("/about.html", 200, ABOUT), ("/docs/guide", 200, b"guide\n"), ("/about/", 404, None),
          ("/app.js", 200, b"go()\n"), ("/missing", 404, None), ("/.hidden", 404, None), ("/blog", 301, None), ("/", 200, PAGE),
          ("/about.html.html", 404, None), ("/docs/../about", 200, ABOUT), ("/abou%74?x=y", 200, ABOUT), ("/index", 200, PAGE)]


@pytest.mark.core
@pytest.mark.parametrize("target, status, body", PRETTY)
# shows U71
def test_pretty(start, tree, target, status, body):
    with start(grow(tree), "--pretty-urls").wire() as wire:
        reply = ask(wire, target)
        assert reply.status == status and (body is None or reply.body == body)


@pytest.mark.any_engine("the core's limits")
def test_longest_path(start, tree):
    """With .html a path is too long, or just not."""
    with start(grow(tree), "--pretty-urls", "--spa", "--hidden").wire() as wire:
        for n in (4090, 4091, 4095):
            assert wire.ask("/" + "/".join(["y" * 200] * 21)[:n - 1]).status in (200, 404)
        assert ask(wire, "/.none").body == PAGE


def test_off(start, tree):
    with start(grow(tree)).wire() as wire:
        assert ask(wire, "/users/7").status == ask(wire, "/about").status == 404


def test_both(start, tree):
    """A page goes before the index."""
    with start(grow(tree), "--spa", "--pretty-urls").wire() as wire:
        assert ask(wire, "/about").body == ABOUT and ask(wire, "/users/7").body == PAGE
        assert ask(wire, "/docs/guide").body == b"guide\n" and ask(wire, "/docs/none").body == PAGE


@pytest.mark.core
def test_conditions_and_ranges(start, tree):
    """The answer is the file's own: validators, ranges, Vary, HEAD, compressed siblings."""
    grow(tree)
    write(f"{tree}/about.html.gz", b"not really gzip")
    with start(tree, "--spa", "--pretty-urls").wire() as wire:
        for path, file in (("/about", "/about.html"), ("/users/7", "/index.html")):
            time.sleep(1.1)  # until the tag is strong
            whole = ask(wire, file)
            assert ask(wire, path)["etag"] == whole["etag"] and wire.ask(path)["last-modified"] == whole["last-modified"]
            assert wire.ask(path, "HEAD").length == whole.length
            assert ask(wire, path, fields=[f'If-None-Match: {whole["etag"]}']).status == 304
            part = ask(wire, path, fields=["Range: bytes=2-4"])
            assert part.status == 206 and part.body == whole.body[2:5]
            assert ask(wire, path, fields=["Range: bytes=999-"]).status == 416
        coded = ask(wire, "/about", fields=["Accept-Encoding: gzip"])
        assert coded["content-encoding"] == "gzip" and coded.body == b"not really gzip" and "ccept-" in coded["vary"]


@pytest.mark.core
def test_changes_count_at_once(start, tree):
    """Each change of what answers a path counts for the next request, whatever was kept in memory."""
    grow(tree)
    with start(tree, "--spa", "--pretty-urls").wire() as wire:
        def seen(body):
            settle()
            assert ask(wire, "/new").body == body
        seen(PAGE)
        write(f"{tree}/index.html", b"second index\n")
        seen(b"second index\n")
        write(f"{tree}/new.html", b"a page\n")
        seen(b"a page\n")
        write(f"{tree}/new.html", b"another page\n")
        seen(b"another page\n")
        write(f"{tree}/new", b"a file\n")
        seen(b"a file\n")
        os.unlink(f"{tree}/new")
        seen(b"another page\n")
        os.mkdir(f"{tree}/new")
        settle()
        assert ask(wire, "/new").status == 301
        os.rmdir(f"{tree}/new")
        os.rename(f"{tree}/new.html", f"{tree}/old.html")
        seen(b"second index\n")
        os.unlink(f"{tree}/index.html")
        settle()
        assert ask(wire, "/new").status == 404
        write(f"{tree}/404.html", b"own page\n")
        settle()
        assert ask(wire, "/new").body == b"own page\n"
        write(f"{tree}/404.html", b"another one\n")
        assert ask(wire, "/new").body == b"another one\n"


def test_links(start, tree):
    """A link out of the folder, or to a hidden name, is treated as without the options."""
    grow(tree)
    os.symlink("/etc/passwd", f"{tree}/out.html")
    os.symlink(".env", f"{tree}/sly.html")
    os.symlink("about.html", f"{tree}/same.html")
    with start(tree, "--pretty-urls").wire() as wire:
        assert ask(wire, "/out").status == 403 and ask(wire, "/sly").status == 404 and ask(wire, "/same").body == ABOUT


def test_folders_are_no_pages(start, tree):
    """A folder of the page's name: its address would not be the client's, and would grow with each redirect."""
    write(f"{tree}/about.html/inside.txt", b"x\n")
    write(f"{tree}/index.html/inside.txt", b"x\n")
    settle()
    with start(tree, "--spa", "--pretty-urls").wire() as wire:
        assert ask(wire, "/about").status == ask(wire, "/users/7").status == 404
        assert ask(wire, "/about.html").status == 301 and ask(wire, "/about.html/inside.txt").body == b"x\n"


@pytest.mark.parametrize("health, status", [([], 404), (["--health"], 200)])
def test_beside_health(start, tree, health, status):
    with start(grow(tree), "--spa", *health).wire() as wire:
        wait_for(lambda: wire.ask("/.rung/health").status == status, "health")
        assert ask(wire, "/.rung/health").status == status and ask(wire, "/users/7").body == PAGE


def test_pipelined(start, tree):
    with start(grow(tree), "--spa", "--pretty-urls").wire() as wire:
        wire.send(b"".join(request(path) for path in ("/about", "/users/7", "/app.js", "/none.js", "/docs/")) * 20)
        for _ in range(20):
            found = [wire.reply() for _ in range(5)]
            assert [reply.status for reply in found] == [200, 200, 200, 404, 200]
            assert [reply.body for reply in found[:3]] == [ABOUT, PAGE, b"go()\n"]
