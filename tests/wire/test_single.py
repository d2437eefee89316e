# SPDX-License-Identifier: MIT
"""A single file that is served, and nothing else of its folder."""
import os
import shutil
import subprocess
import time

import pytest
from lib.secured import EVERYWHERE
from lib.trees import write

pytestmark = pytest.mark.userspace("a single file")
TIMES = 6  # enough for an answer to be kept


def settle():
    """A file that has only just changed is not kept in memory."""
    time.sleep(0.05)


def ask(wire, target, times=TIMES, **how):
    """The first answer to several requests, which must be the same one each time; compressed, once that has been made."""
    replies = [wire.ask(target, **how) for _ in range(times)]
    same = {(reply.get("content-encoding"), reply.status, reply.body, (reply.get("etag") or "").removeprefix("W/"))  # strong in time
            for reply in replies}
    assert len(same) == len({coding for coding, *_ in same}) and len({status for _, status, *_ in same}) == 1, replies
    return replies[0]


ONLY = [("/photo.txt", 200), ("/", 200), ("/%70hoto.txt", 200), ("/x/../photo.txt", 200), ("/photo.txt?x", 200), ("/?sort=size", 200),
        ("/photo.txt.gz", 404), ("/other.txt", 404), ("/404.html", 404), ("/index.html", 404), ("/photo.txt/", 404), ("/sub/", 404),
        ("/sub", 404), ("/sub/photo.txt", 404), ("/.secret", 404), ("/PHOTO.TXT", 404), ("/photo", 404),
        ("/..", 404), ("/../photo.txt", 404), ("/photo.txt/../other.txt", 404), ("/.", 200), ("//", 200), ("//photo.txt", 200), ("/photo.txt/.", 404),
        ("/photo.txt%2fother.txt", 400), ("/photo.txt%00", 400), ("/?format=json", 200)]


def one_file(tree):
    write(f"{tree}/photo.txt", b"the file\n" * 100)
    for name in ("photo.txt.gz", "photo.txt.br", "other.txt", "404.html", "index.html", ".secret", "sub/photo.txt", "photo"):
        write(f"{tree}/{name}", b"not served\n")
    settle()
    return f"{tree}/photo.txt"


@pytest.mark.core
@pytest.mark.parametrize("target, status", ONLY)
# shows U70
def test_only_the_file(start, tree, target, status):
    """Nothing else of its folder is sent: no other file, no listing, no sibling, no page for errors."""
    with start(one_file(tree)).wire() as wire:
        for fields in ([], ["Accept-Encoding: br, gzip"]):
            reply = ask(wire, target, fields=fields)
            assert reply.status == status and b"not served" not in reply.body
            if status == 200 and not fields:
                assert reply.body == b"the file\n" * 100 and reply["content-type"].startswith("text/plain")


def test_file_that_changes(start, tree):
    file = one_file(tree)
    with start(file).wire() as wire:
        ask(wire, "/photo.txt")
        write(f"{tree}/new", b"renamed over it\n")
        os.rename(f"{tree}/new", file)
        settle()
        assert ask(wire, "/photo.txt").body == ask(wire, "/").body == b"renamed over it\n"
        os.unlink(file)
        assert ask(wire, "/photo.txt").status == ask(wire, "/").status == 404
        write(f"{file}/inside", b"not served")
        settle()
        assert ask(wire, "/photo.txt/inside").status == ask(wire, "/photo.txt/").status == 404
        shutil.rmtree(file)
        os.symlink("other.txt", file)
        assert ask(wire, "/photo.txt").body == b"not served\n"  # the name is served, and it leads there now


@pytest.mark.parametrize("name, url", [(".bashrc", "/.bashrc"), ("a b\xe9%.txt", "/a%20b%C3%A9%25.txt"), ("index.html", "/index.html")])
def test_names(start, tree, name, url):
    """A hidden file may be named on purpose.  The address that is printed is the file's."""
    write(f"{tree}/{name}", b"x\n")
    server = start(f"{tree}/{name}")
    assert f"/{server.addresses[0][1]}{url}".replace("/", ":", 1) in server.opening and name in server.opening
    with server.wire() as wire:
        assert ask(wire, url).body == ask(wire, "/").body == b"x\n"


@pytest.mark.any_engine("a link is resolved at the start")
def test_link_to_a_file(start, tree):
    file = one_file(tree)
    os.symlink(file, f"{tree}/sub/link")
    with start(f"{tree}/sub/link").wire() as wire:
        assert ask(wire, "/photo.txt").status == 200 and ask(wire, "/link").status == 404


@pytest.mark.any_engine("ranges are the core's")
def test_ranges_of_a_file(start, tree):
    with start(one_file(tree)).wire() as wire:
        assert wire.ask("/", fields=["Range: bytes=4-7"]).body == b"file"


@pytest.mark.any_engine("a client")
@pytest.mark.skipif(EVERYWHERE or not shutil.which("curl"), reason="curl is not installed, or does not know the certificate")
def test_curl(start, tree, tmp_path):
    """curl -OJ at the printed address saves the file under its name."""
    server = start(one_file(tree))
    url = server.opening.rpartition(" at ")[2].split()[0]
    subprocess.run(["curl", "-sSO", "--noproxy", "*", url], cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "photo.txt").read_bytes() == b"the file\n" * 100


@pytest.mark.any_engine("one option with another")
def test_with_others(start, tree):
    """Fields and redirects know the file by its name."""
    with start(one_file(tree), "--header", "*.txt X-A: a", "--redirect", "/old /photo.txt").wire() as wire:
        assert ask(wire, "/")["x-a"] == ask(wire, "/photo.txt")["x-a"] == "a" and ask(wire, "/old").status == 302
        assert "x-a" not in ask(wire, "/other.txt").fields
