# SPDX-License-Identifier: MIT
"""From a target to a file: decoded once, normalised by components, never out of the root."""
import os
import subprocess
import sys
import time

import pytest
from lib.trees import ODD_NAMES, content, quote, write

pytestmark = pytest.mark.any_engine("names are looked up below the engines")

HELLO = b"Hello, world\n"

# target, status, body (None: any)
PATHS = [
    ("/./hello.txt", 200, HELLO), ("/a/../hello.txt", 200, HELLO),
    ("/a/b/../../hello.txt", 200, HELLO),
    ("/a/./b/.././../hello.txt", 200, HELLO), ("/a/b/c/d/e/deep.txt", 200, b"deep\n"),
    ("//hello.txt", 200, HELLO), ("/a//b/c//d/e///deep.txt", 200, b"deep\n"),
    ("/missing/../hello.txt", 200, HELLO),
    ("/%68ello.txt", 200, HELLO), ("/hello%2etxt", 200, HELLO),
    ("/%68%65%6C%6c%6F%2E%74%78%74", 200, HELLO),
    ("/a/%2e%2e/hello.txt", 200, HELLO), ("/a/%2E./hello.txt", 200, HELLO),
    ("/a/.%2e/hello.txt", 200, HELLO),
    ("/%2e/hello.txt", 200, HELLO), ("/plain", 200, b"a name without a dot\n"),
    ("/hello.txt%3fx", 404, None), ("/hello.txt%23x", 404, None), ("/hello.txt%20", 404, None),
    ("/%2568ello.txt", 404, None), ("/a/%252e%252e/hello.txt", 404, None),
    ("/hello.txt;x=y", 404, None),
    ("/HELLO.TXT", 404, None), ("/hello", 404, None), ("/hello.txt.", 404, None),
    ("/a\\..\\hello.txt", 404, None),
    ("/index/", 200, b"<!doctype html><title>index</title>\n"), ("/index/index.html", 200, None),
    # hidden
    ("/.hidden", 404, None), ("/.git/config", 404, None), ("/.git/", 404, None),
    ("/.git", 404, None),
    ("/a/.hidden", 404, None), ("/%2ehidden", 404, None),
    ("/.well-known/security.txt", 200, b"Contact: nobody\n"),
    ("/.well-known/", 200, None), ("/.well-known/../.hidden", 404, None),
    ("/.well-knownx", 404, None),
    ("/...", 404, None), ("/.../hello.txt", 404, None), ("/a/..../hello.txt", 404, None),
    # links
    ("/link/file", 200, HELLO), ("/link/chain", 200, HELLO), ("/link/hidden", 404, None),
    ("/link/dir/b/c/d/e/deep.txt", 200, b"deep\n"),
    # things that cannot be opened
    ("/special/fifo", 403, None), ("/special/socket", 403, None), ("/special/fifo/", 404, None),
]


@pytest.mark.core
@pytest.mark.parametrize("target, status, body", PATHS)
# shows K12
def test_path(wire, target, status, body):
    reply = wire.ask(target)
    assert reply.status == status
    assert body is None or reply.body == body
    assert not reply.closes
    assert wire.ask("/hello.txt").body == HELLO


CLIMBS = ["/..", "/../", "/../hello.txt", "/../../../../../../etc/passwd", "/a/../../etc/passwd",
          "/%2e%2e/etc/passwd",
          "/.%2e/.%2e/etc/passwd", "/%2e./etc/passwd", "/a/b/../../../etc/passwd",
          "//../etc/passwd", "/a/../..",
          "/..%2f..%2fetc/passwd", "/..%5c..%5cetc/passwd", "/%252e%252e/etc/passwd",
          "/..;/etc/passwd",
          "/..%00/etc/passwd", "/%c0%ae%c0%ae/etc/passwd", "/..\\..\\etc\\passwd",
          "/....//....//etc/passwd",
          "/a/" + "../" * 500 + "etc/passwd", "http://localhost/../../etc/passwd", "/etc/passwd",
          "//etc/passwd",
          "/proc/self/root/etc/passwd", "/proc/self/environ"]
ESCAPES = [f"/link/{name}" for name in ("passwd", "out", "out/", "etc", "etc/passwd", "proc",
                                        "climb", "absolute",
                                       "dangling", "loop", "loop/x")]


@pytest.mark.core
@pytest.mark.parametrize("target", CLIMBS + ESCAPES)
# shows D13, K04, U11
def test_no_way_out(site, target):
    """Nothing outside the root is served or redirected to, however it is spelt; and no link leads
    out."""
    reply = site.ask(target)
    assert reply.status in (400, 403, 404), reply
    assert b"root:" not in reply.body


def test_climbing_is_clipped_nowhere(wire):
    """/../hello.txt is not taken for /hello.txt: it climbs above the root."""
    assert wire.ask("/../hello.txt").status in (400, 404)


@pytest.mark.core
@pytest.mark.parametrize("target, location", [
    ("/list", "/list/"), ("/a/b", "/a/b/"), ("/list?sort=name", "/list/?sort=name"),
    ("/list?", None), ("//list", "/list/"),
    ("///a//b", "/a/b/"), ("/a/../list", "/list/"), ("/%6cist", "/list/"),
    ("/link/dir", "/link/dir/"),
    ("http://evil.example/list", "/list/"), ("/.well-known", "/.well-known/")])
# shows H03
def test_folder_gets_its_slash(wire, target, location):
    """301 to the same host, never //elsewhere, the query kept."""
    reply = wire.ask(target)
    assert reply.status == 301
    assert reply["location"] == location or (location is None and reply["location"] in ("/list/",
        "/list/?"))
    assert wire.ask(reply["location"]).status == 200


@pytest.mark.parametrize("target",
                         ["//evil.example", "//evil.example/", "//evil.example/..",
                          "/%2f/evil.example",
                                    "/\\evil.example", "//evil.example/%2e%2e",
                                    "///evil.example/a/.."])
def test_no_open_redirect(wire, target):
    reply = wire.ask(target)
    assert reply.status in (200, 400,
                            404) or not reply["location"].startswith(("//", "/\\", "http"))


def test_redirect_cannot_split_the_head(start, tree):
    """h2o CVE-2016-1133: a folder whose name has CR LF, quotes and more."""
    names = [b"a\r\nX-Evil: 1", b"sp ace", b"\xff", b"%", b"?", b"#", b"\\", b'"', b"<>", b"\n"]
    for name in names:
        os.makedirs(os.fsencode(tree) + b"/" + name)
        write(os.fsencode(tree) + b"/" + name + b"/x", name)
    server = start(tree)
    with server.wire() as wire:
        for name in names:
            reply = wire.ask("/" + quote(name))
            assert reply.status == 301 and "x-evil" not in reply.fields
            assert reply["location"] == "/" + quote(name) + "/"
            assert wire.ask(reply["location"] + "x").body == name


@pytest.mark.core
# shows U04
def test_odd_names(wire):
    for i, name in enumerate(ODD_NAMES):
        if name.startswith(b"."):
            continue
        reply = wire.ask("/odd/" + quote(name))
        assert reply.status == 200 and reply.body == content(f"odd {i}", 100 + i), name
        every = "".join(f"%{byte:02x}" for byte in name)
        assert wire.ask("/odd/" + every).body == reply.body, name


def test_raw_bytes_in_a_target(wire):
    """Raw bytes over 0x7f are taken for the name that they spell, or refused, but never taken for another
    file."""
    reply = wire.ask("/odd/\xff\xfe")
    assert reply.status in (200, 400)
    if reply.status == 200:
        assert reply.body == content(f"odd {ODD_NAMES.index(bytes([255, 254]))}",
                                     100 + ODD_NAMES.index(b"\xff\xfe"))


def test_hidden_can_be_shown(start, standard):
    with start(standard, "--hidden").wire() as wire:
        assert wire.ask("/.hidden").body == b"secret\n"
        assert wire.ask("/.git/config").body == b"secret\n"
        assert wire.ask("/../.hidden").status in (400, 404)
        assert b".hidden" in wire.ask("/").body


def test_hidden_is_not_listed(wire):
    body = wire.ask("/", fields=["Accept: application/json"]).body
    assert b".hidden" not in body and b".git" not in body and b"hello.txt" in body


def test_root_may_be_a_link(start, tree):
    write(f"{tree}/real/file", b"x")
    os.symlink("real", f"{tree}/link")
    assert start(f"{tree}/link").ask("/file").body == b"x"


SWING = """
import itertools, os
for target in itertools.cycle(("real", "../secret")):
    os.symlink(target, "new")
    os.rename("new", "link")
"""


# shows D13, K04
def test_a_link_that_swings(start, tree):
    """The race that nginx and lighttpd lose: a link that points alternately inside and outside never
    leaks."""
    write(f"{tree}/secret/file", b"secret")
    write(f"{tree}/root/real/file", b"public")
    os.symlink("real", f"{tree}/root/link")
    server = start(f"{tree}/root")
    seen, turns, end = set(), 0, time.monotonic() + 60
    with subprocess.Popen([sys.executable, "-c", SWING], cwd=f"{tree}/root") as swing:
        try:
            with server.wire() as wire:
                while turns < 1500 or (len(seen) < 2 and time.monotonic() < end):
                    reply = wire.ask("/link/file")
                    good = reply.status == 200
                    assert reply.body == b"public" if good else reply.status in (403, 404, 503), reply
                    seen.add(good)
                    turns += 1
        finally:
            swing.kill()
    assert len(seen) == 2, "the link did not swing"
