# SPDX-License-Identifier: MIT
"""Conditional requests in the order of RFC 9110 13.2.2, in each form of date, in any time
zone."""
import os
import time

import pytest
from lib import served
from lib.client import date_seconds
from lib.trees import REALTIME_COARSE, write

pytestmark = pytest.mark.any_engine("the core compares")

# hello.txt was changed at 1700000000
AT = "Tue, 14 Nov 2023 22:13:20 GMT"
BEFORE = "Tue, 14 Nov 2023 22:13:19 GMT"
AFTER = "Tue, 14 Nov 2023 22:13:21 GMT"
RFC850, ASCTIME = "Tuesday, 14-Nov-23 22:13:20 GMT", "Tue Nov 14 22:13:20 2023"
LATER_OLD_FORMS = ["Wednesday, 15-Nov-23 00:00:00 GMT", "Wed Nov 15 00:00:00 2023"]

# fields (TAG is the file's ETag), status
CASES = [
    (["If-None-Match: TAG"], 304), (["If-None-Match: W/TAG"], 304), (["If-None-Match: *"], 304),
    (['If-None-Match: "x", TAG, "y"'], 304), (['If-None-Match: "x",TAG'], 304),
    (["If-None-Match: , ,TAG"], 304),
    (['If-None-Match: "x"', "If-None-Match: TAG"], 304), (['If-None-Match: "x"'], 200),
    (["If-None-Match: x"], 200),
    (['If-None-Match: ""'], 200), (["If-None-Match: "], 200), (['If-None-Match: "TAG'], 200),
    (['If-None-Match: "a, TAG'], None),
    (["If-Match: TAG"], 200), (["If-Match: *"], 200), (['If-Match: "x", TAG'], 200),
    (['If-Match: "x"', "If-Match: TAG"], 200),
    (['If-Match: "x"'], 412), (["If-Match: W/TAG"], 412), (["If-Match: x"], 412),
    (['If-Match: ""'], 412),
    ([f"If-Modified-Since: {AT}"], 304), ([f"If-Modified-Since: {AFTER}"], 304),
    ([f"If-Modified-Since: {BEFORE}"], 200),
    ([f"If-Modified-Since: {RFC850}"], 304), ([f"If-Modified-Since: {ASCTIME}"], 304),
    ([f"If-Modified-Since: {LATER_OLD_FORMS[0]}"], 304),
    ([f"If-Modified-Since: {LATER_OLD_FORMS[1]}"], 304),
    (["If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT"], 200),
    (["If-Modified-Since: Sun Nov  6 08:49:37 1994"], 200),
    ([f"If-Unmodified-Since: {AT}"], 200), ([f"If-Unmodified-Since: {AFTER}"], 200),
    ([f"If-Unmodified-Since: {BEFORE}"], 412),
    # a value that is not a date is ignored
    (["If-Modified-Since: yesterday"], 200), (["If-Modified-Since: 1700000000"], 200),
    (["If-Modified-Since: "], 200),
    (["If-Modified-Since: Tue, 14 Nov 2023 22:13:20"], 200),
    (["If-Modified-Since: Tue, 14 Nov 2023 22:13:20 CET"], 200),
    (["If-Modified-Since: Tue, 32 Nov 2023 22:13:20 GMT"], 200),
    (["If-Modified-Since: Tue, 14 Nov 2023 25:13:20 GMT"], 200),
    (["If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT; length=5"], 200),
    ([f"If-Modified-Since: {AT}x"], 200),
    (["If-Modified-Since: Tue, 14 nov 2023 22:13:20 GMT"], None),
    (["If-Unmodified-Since: once"], 200),
    ([f"If-Modified-Since: {AT}", f"If-Modified-Since: {AT}"], 200),
    # precedence: If-Match over If-Unmodified-Since, If-None-Match over If-Modified-Since, then both
    # pairs
    (["If-Match: TAG", f"If-Unmodified-Since: {BEFORE}"], 200),
    (['If-Match: "x"', f"If-Unmodified-Since: {AFTER}"], 412),
    (["If-None-Match: TAG", f"If-Modified-Since: {BEFORE}"], 304),
    (['If-None-Match: "x"', f"If-Modified-Since: {AFTER}"], 200),
    (["If-Match: TAG", "If-None-Match: TAG"], 304), (['If-Match: "x"', "If-None-Match: TAG"], 412),
    (["If-Match: TAG", f"If-Modified-Since: {AT}"], 304),
    ([f"If-Unmodified-Since: {BEFORE}", "If-None-Match: TAG"], 412),
    ([f"If-Unmodified-Since: {AT}", f"If-Modified-Since: {AT}"], 304),
    # Range comes last
    (["Range: bytes=0-1", "If-None-Match: TAG"], 304), (["Range: bytes=0-1", 'If-Match: "x"'], 412),
    (["Range: bytes=0-1", "If-Match: TAG"], 206), (["Range: bytes=0-1", 'If-None-Match: "x"'], 206),
    (["Range: bytes=99-", "If-None-Match: TAG"], 304), (["Range: bytes=99-", 'If-Match: "x"'], 412),
    # If-Range: strong comparison, exact date
    (["Range: bytes=0-1", "If-Range: TAG"], 206), (["Range: bytes=0-1", 'If-Range: "x"'], 200),
    (["Range: bytes=0-1", "If-Range: W/TAG"], 200), (["Range: bytes=0-1", f"If-Range: {AT}"], 206),
    (["Range: bytes=0-1", f"If-Range: {AFTER}"], 200),
    (["Range: bytes=0-1", f"If-Range: {BEFORE}"], 200),
    (["Range: bytes=0-1", f"If-Range: {RFC850}"], 206),
    (["Range: bytes=0-1", "If-Range: nonsense"], 200),
    (["Range: bytes=99-", 'If-Range: "x"'], 200), (["Range: bytes=99-", "If-Range: TAG"], 416),
    (["If-Range: TAG"], 200),
]


@pytest.mark.core
@pytest.mark.parametrize("fields, status", CASES, ids=[" & ".join(row[0]) for row in CASES])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
# shows H03, S07, U05
def test_conditions(wire, method, fields, status):
    plain = wire.ask("/hello.txt")
    tag = plain["etag"]
    assert not tag.startswith("W/") and plain["last-modified"] == AT
    reply = wire.ask("/hello.txt", method, [field.replace("TAG", tag) for field in fields])
    if method == "HEAD" and status in (206, 416):
        status = 200  # Range is defined for GET only (RFC 9110 14.2)
    assert status in (None, reply.status)
    if reply.status in (200, 206, 304):
        assert reply["etag"] == tag
    if reply.status == 304:
        assert reply["last-modified"] == AT and not reply.body
    if method == "GET":
        wanted = {200: plain.body, 206: plain.body[:2]}
        assert reply.body == wanted.get(reply.status, reply.body)
    assert wire.ask("/alphabet.txt").status == 200


@pytest.mark.parametrize("fields",
                         [['If-Match: "x"'], ["If-Match: *"], ["If-None-Match: *"],
                          [f"If-Unmodified-Since: {BEFORE}"]])
def test_only_where_it_would_be_a_success(wire, fields):
    """RFC 9110 13.2.1: an answer that would be neither 2xx nor 412 stays what it is."""
    assert wire.ask("/missing", fields=fields).status == 404
    assert wire.ask("/list", fields=fields).status == 301
    assert wire.ask("/special/fifo", fields=fields).status == 403


@pytest.mark.userspace("an environment")
@pytest.mark.parametrize("zone",
                         ["UTC", "Asia/Tokyo", "America/Los_Angeles", "Asia/Kathmandu", "JUNK-27"])
# shows D21, S07
def test_any_time_zone(start, standard, zone):
    """The date in an answer, sent back, leads to 304, whatever time zone the server has."""
    with start(standard, env={"TZ": zone}).wire() as wire:
        reply = wire.ask("/hello.txt")
        assert reply["last-modified"] == AT
        assert wire.ask("/hello.txt",
                        fields=[f"If-Modified-Since: {reply['last-modified']}"]).status == 304
        assert wire.ask("/hello.txt", fields=[f"If-Modified-Since: {BEFORE}"]).status == 200


@pytest.mark.core
def test_tag_tells_every_change(start, tree):
    """nginx's second-resolution tag repeats within a second: ours has size, nanoseconds, inode and
    ctime."""
    path, seen = f"{tree}/file", {}
    with start(tree).wire() as wire:
        def note(what):
            tag = wire.ask("/file")["etag"].removeprefix("W/")
            assert tag not in seen, f"{what} looks like {seen.get(tag)}"
            seen[tag] = what
            now = time.clock_gettime(REALTIME_COARSE)
            # ctime moves in ticks of that clock: two changes within one look alike
            served.wait_for(lambda: time.clock_gettime(REALTIME_COARSE) > now, "a tick")
        write(path, b"one", mtime=1_600_000_000)
        note("first")
        write(path, b"two", mtime=1_600_000_000)
        note("another file, same size and mtime")
        with open(path, "r+b") as out:
            out.write(b"tri")
        os.utime(path, (1_600_000_000, 1_600_000_000))
        note("written in place, mtime put back")
        os.utime(path, ns=(0, 1_600_000_000_000_000_001))
        note("a nanosecond later")
        with open(path, "ab") as out:
            out.write(b"!")
        os.utime(path, ns=(0, 1_600_000_000_000_000_001))
        note("a byte longer")
        tag = wire.ask("/file")["etag"]
        assert wire.ask("/file")["etag"].removeprefix("W/") == tag.removeprefix("W/")


@pytest.mark.parametrize("mtime", [0, 1, 951_827_696, 2_147_483_648, 1_000_000_000])
def test_strange_times(start, tree, mtime):
    write(f"{tree}/file", b"x", mtime=mtime)
    with start(tree).wire() as wire:
        wire.send(b"GET /file HTTP/1.1\r\nHost: x\r\n\r\n")
        reply = wire.head()
        assert wire.take(1) == b"x"
        if reply.get("last-modified"):
            # RFC 9110 8.8.2.1: not later than Date
            assert date_seconds(reply["last-modified"]) == min(mtime, date_seconds(reply["date"]))


@pytest.mark.parametrize("mtime", [-1, -86400 * 365 * 100])
def test_before_the_epoch(start, tree, mtime):
    write(f"{tree}/file", b"x", mtime=mtime)
    with start(tree).wire() as wire:
        assert wire.ask("/file").body == b"x"
        assert wire.ask("/file", fields=[f"If-Modified-Since: {AT}"]).status in (200, 304)
