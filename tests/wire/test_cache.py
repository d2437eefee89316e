# SPDX-License-Identifier: MIT
"""The cache shows only in the counters: every answer is the one that a server without a cache gives, and no more is kept
than --cache allows."""
import ctypes
import os
import shutil
import signal
import subprocess
import time

import cli
import pytest
from cli import begin  # noqa: F401 (a fixture)
from lib import codings, strace
from lib import server as lib
from lib.client import request
from lib.crowd import sanitized
from lib.served import wait_for

pytestmark = pytest.mark.userspace("the modules keep their own")
any_engine = pytest.mark.any_engine("the cache is below the engines")
BATCH = 16  # BATCH_MAX of server/server.h
ASKS = 5  # enough requests for an answer to be kept, and to be sent from memory
PAGE, MANY, PAGE_BYTES, CACHE_BYTES = b"<p>page</p>\n" * 90, 100, 8192, 256 << 10


@pytest.fixture
def site(tree):
    os.makedirs(f"{tree}/folder/deep")
    for name, data in (("page.html", PAGE), ("page.html.gz", b"\x1f\x8b not really"), ("folder/index.html", b"index"),
                       ("empty.txt", b""), ("long.bin", bytes(300 << 10)), ("folder/deep/text.txt", b"0123456789" * 99)):
        with open(f"{tree}/{name}", "wb") as file:
            file.write(data)
    return tree


def rows(tag):
    for path in ("/page.html", "/folder/", "/folder/deep/text.txt", "/empty.txt", "/long.bin", "/folder", "/folder/deep",
                 "/none", "/page.html/none", "/folder/none/", "/folder//index.html?a=b", "/%66older/"):
        yield "GET", path, []
        yield "HEAD", path, []
    for fields in (["Accept-Encoding: gzip"], ["Accept-Encoding: gzip;q=0"], ["Accept-Encoding: br, gzip;q=0.5"],
                   ["Accept-Encoding: *"], ["Accept-Encoding: identity;q=0"], ["Range: bytes=2-5"], ["Range: bytes=-7"],
                   ["Range: bytes=0-1,4-5"], ["Range: bytes=99999-"], [f"If-None-Match: {tag}"], ['If-None-Match: "x"'],
                   [f"If-Match: {tag}"], ['If-Match: "x"'], ["If-None-Match: *"], [f"If-Range: {tag}", "Range: bytes=1-2"],
                   ['If-Range: "x"', "Range: bytes=1-2"], ["If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"],
                   ["If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT"], ["Connection: close"]):
        yield "GET", "/page.html", fields
        yield "HEAD", "/page.html", fields
    yield "GET", "/none", ["Accept: text/html"]
    yield "POST", "/page.html", []


def seen(reply):
    """The whole reply except what changes from one answer to the next: the date, and the boundary between ranges."""
    fields, body = {name: value for name, value in reply.fields.items() if name != "date"}, reply.body
    _, found, mark = (reply.get("content-type") or "").partition("boundary=")
    if found:
        fields["content-type"] = fields["content-type"].replace(mark, "B")
        body = body.replace(mark.encode(), b"B")
    return reply.status, reply.reason, fields, body


def ask(server, method, path, fields):
    with server.wire() as wire:
        return seen(wire.ask(path, method, fields))


@any_engine
@pytest.mark.core
def test_as_if_nothing_were_kept(start, site):
    plain, keeping = start(site, "--cache", 0), start(site, "--compress", "off")

    def settled():
        tags = {ask(server, "HEAD", "/page.html", [])[2]["etag"] for server in (plain, keeping)}
        return tags.pop() if len(tags) == 1 and next(iter(tags)).startswith('"') else None
    tag = wait_for(settled, "both say the same strong tag")
    for row in rows(tag):
        want = ask(plain, *row)
        for turn in range(ASKS):
            assert ask(keeping, *row) == want, (row, turn)


def without_inotify():
    """Called in the child: become a user that may have no inotify instance."""
    user = os.geteuid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000) != 0:  # CLONE_NEWUSER
        raise OSError(ctypes.get_errno(), "no namespace of its own")
    for name, text in (("/proc/self/setgroups", "deny"), ("/proc/self/uid_map", f"0 {user} 1"),
                       ("/proc/sys/user/max_inotify_instances", "0")):
        with open(name, "w", encoding="ascii") as file:
            file.write(text)


def test_no_inotify_instance_is_left(begin, site):  # noqa: F811
    """The server still serves, and says that nothing is kept and what helps."""
    try:
        subprocess.run(["true"], preexec_fn=without_inotify, check=True)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("user namespaces are not allowed")
    server = begin("-p", "0", site, preexec_fn=without_inotify)
    for _ in range(ASKS):
        assert server.get("/page.html").status == 200
    if not lib.engine_row()["forks"]:
        server.said(r"answers are not kept in memory: .*; raise fs\.inotify\.max_user_instances")


@pytest.mark.skipif(lib.ENGINE not in ("epoll", "uring"), reason="it answers each request before it receives the next")
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is needed")
@pytest.mark.skipif(sanitized(), reason="a sanitizer and strace do not go together")
def test_one_look_serves_a_batch(start, site, tmp_path):
    """Requests of several clients have arrived: the server checks once for all of them whether a file has changed."""
    server = start(site, "-w", "1")
    wires = [server.wire() for _ in range(BATCH)]
    for wire in wires:
        for _ in range(ASKS):
            assert wire.ask("/empty.txt").status == 200
    log = tmp_path / "calls"
    with strace.attached(server, "-e", "trace=ioctl", "-o", log):
        for pid in server.pids():
            os.kill(pid, signal.SIGSTOP)
        for wire in wires:
            wire.send(request("/empty.txt"))
        for pid in server.pids():
            os.kill(pid, signal.SIGCONT)
        assert all(wire.reply().status == 200 for wire in wires)
    looks = log.read_text().count("FIONREAD")
    assert 1 <= looks <= BATCH // 4, looks


def memory_kib(server):
    """Private memory of the server's process."""
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon:"))


def kept(server):
    stats = server.stats()
    return stats["cache_fills"] - stats["cache_ends"]


@pytest.fixture
def keeps(site):
    """Skips where no answer is kept."""
    reason = codings.keeps_nothing(site)
    if reason:
        pytest.skip(reason)


def test_hits_are_counted(start, site, keeps):
    server = start(site, "--workers", 1)
    with server.wire() as wire:
        for _ in range(ASKS):
            assert wire.ask("/page.html").body == PAGE
        before = server.stats()
        assert before["cache_fills"] == 1 and before["cache_hits"] == ASKS - 2 and not before["cache_ends"], before
        with open(f"{site}/page.html", "ab") as file:
            file.write(b"more")
        assert wire.ask("/page.html").body == PAGE + b"more"
        after = server.stats()
        assert after["cache_ends"] == 1 and after["cache_hits"] == before["cache_hits"], after


def test_no_more_than_it_may(start, tree, site, keeps):
    """Many files that do not fit: some of them are kept, but never more than there is room for."""
    for i in range(MANY):
        with open(f"{tree}/many{i}", "wb") as file:
            file.write(bytes([i]) * PAGE_BYTES)
    server = start(tree, "--workers", 1, "--cache", CACHE_BYTES)
    with server.wire() as wire:
        for turn in range(ASKS):
            for i in range(MANY):
                assert wire.ask(f"/many{i}").body == bytes([i]) * PAGE_BYTES
            assert kept(server) * PAGE_BYTES <= CACHE_BYTES, turn
        assert kept(server) * PAGE_BYTES > CACHE_BYTES // 2
        for _ in range(ASKS):
            assert wire.ask("/long.bin").length == 300 << 10
    assert kept(server) * PAGE_BYTES <= CACHE_BYTES


@any_engine
def test_a_crawl_leaves_what_is_popular(start, wide_tree, keeps):
    """Files requested once take neither more memory nor the place of files that are requested all the time."""
    popular, folders, each = 40, 40, 250
    for folder in range(folders):
        os.mkdir(f"{wide_tree}/{folder}")
        for i in range(each):
            with open(f"{wide_tree}/{folder}/{i}", "wb") as file:
                file.write(b"%5d" % i * 200)
    for i in range(popular):
        with open(f"{wide_tree}/popular{i}", "wb") as file:
            file.write(b"%5d" % i * 200)
    server = start(wide_tree, "--workers", 1, "--cache", CACHE_BYTES)
    with server.wire() as wire:
        def ask_popular():
            for i in range(popular):
                assert wire.ask(f"/popular{i}").body == b"%5d" % i * 200
        time.sleep(2)  # young files are kept for an instant only
        for _ in range(ASKS):
            ask_popular()
        before, fills = memory_kib(server), server.stats()["cache_fills"]
        hits = server.stats()["cache_hits"]
        for folder in range(folders):
            for i in range(each):
                assert wire.ask(f"/{folder}/{i}").body == b"%5d" % i * 200
            ask_popular()
    stats = server.stats()
    assert stats["cache_hits"] - hits == folders * popular, stats
    assert stats["cache_fills"] - fills <= folders * each // 100, stats
    assert sanitized() or memory_kib(server) - before < 2048


@any_engine
def test_nothing_is_kept_without_room(start, site, keeps):
    server = start(site, "--cache", 0)
    for _ in range(ASKS):
        assert ask(server, "GET", "/page.html", [])[0] == 200
    assert not kept(server)


@any_engine
@pytest.mark.parametrize("size", ["-1", "x", "1x", "4k4", "1e3", "", " ", "0x10", "99999999999999999999", "17179869184g"])
def test_sizes_that_are_none(site, size):
    out = cli.run("serve", "--port", 0, "--cache", size, site)
    assert out.returncode == 2 and "--cache" in out.stderr, (out.returncode, out.stderr)


@any_engine
@pytest.mark.parametrize("size", ["0", "1", "4095", "4k", "64M", "1g", "17179869183g"])
def test_sizes(start, site, size):
    """Sizes from 0 to the largest that can be counted: a size is a limit, and no memory is taken in advance."""
    server = start(site, "--cache", size)
    for _ in range(ASKS):
        assert ask(server, "GET", "/page.html", [])[0] == 200
