# SPDX-License-Identifier: MIT
"""Validators of files that change within a tick: one that two versions could share is weak (RFC 9110 8.8.1, 8.8.2.2),
so no client ever joins parts of two versions."""
import os
import subprocess
import time

import pytest
from lib.client import date_seconds
from lib.served import wait_for

pytestmark = pytest.mark.any_engine("a file's times decide")

TRIES = 300
HALF = 2048
VERSIONS = [b"a" * 2 * HALF, b"b" * 2 * HALF]


@pytest.fixture(params=["disk", "tmpfs", "ramfs"])
def place(request, tree):
    """A folder on a file system whose times are fine or, as on ramfs and before Linux 6.13, move in ticks."""
    if request.param == "disk":
        yield tree
        return
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    subprocess.run(["mount", "-t", request.param, "-o", "mode=755", "rung-test", tree], check=True)
    try:
        yield tree
    finally:
        subprocess.run(["umount", "--lazy", tree], check=True)  # the server has it open for a moment more


class File:
    """A file that is rewritten in place, with the same size each time."""
    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self.turn = 0

    def rewrite(self):
        self.turn ^= 1
        os.pwrite(self.fd, VERSIONS[self.turn], 0)


@pytest.fixture
def file(place):
    one = File(f"{place}/file")
    one.rewrite()
    yield one
    os.close(one.fd)


def part(wire, first, *fields):
    return wire.ask("/file", fields=[f"Range: bytes={first}-{first + HALF - 1}", *fields])


def strong(wire):
    return wait_for(lambda: (tag := wire.ask("/file", "HEAD")["etag"]).startswith('"') and tag, "its tag is strong")


# shows U05
def test_no_two_versions_are_joined(start, place, file):
    """A part of one version, and the rest of another one from the same tick: If-Range must not accept that."""
    weak = 0
    with start(place).wire() as wire:
        for _ in range(TRIES):
            file.rewrite()
            first = part(wire, 0)
            file.rewrite()
            tag = first["etag"]
            rest = part(wire, HALF, f"If-Range: {tag}")
            assert rest.status == 200, f"{first.body[:1]} joined to {rest.body[:1]} by {tag}"
            if tag.startswith("W/"):
                weak += 1
                # not even for a client that takes the opaque part of a weak tag for a strong one
                assert part(wire, HALF, f"If-Range: {tag[2:]}").status == 200 or strong(wire) == tag[2:]
                assert wire.ask("/file", fields=[f"If-Match: {tag}"]).status == 412
        assert weak, "no tag was weak: was every answer slower than a tick?"


def test_strong_after_the_tick(start, place, file):
    """The tag stays but is strong: ranges are served, and a cache's weak tag is good for 304 (RFC 9110 8.8.3.2)."""
    with start(place).wire() as wire:
        def seen_weak():
            file.rewrite()
            tag = wire.ask("/file")["etag"]
            return tag.startswith("W/") and tag
        weak = wait_for(seen_weak, "a tag is weak at first")
        tag = strong(wire)
        assert weak == f"W/{tag}"
        for condition in (tag, weak):
            assert wire.ask("/file", fields=[f"If-None-Match: {condition}"]).status == 304
        assert wire.ask("/file", fields=[f"If-Match: {tag}"]).status == 200
        assert wire.ask("/file", fields=[f"If-Match: {weak}"]).status == 412
        assert part(wire, HALF, f"If-Range: {weak}").status == 200
        for _ in range(3):  # from a cache, too
            reply = part(wire, HALF, f"If-Range: {tag}")
            assert reply.status == 206 and reply["etag"] == tag
            assert part(wire, 0).body + reply.body == VERSIONS[file.turn]
            assert wire.ask("/file")["etag"] == tag


def test_a_date_is_strong_when_its_second_is_over(start, tree):
    """RFC 9110 8.8.2.2, 13.1.5: while Date is Last-Modified's second another version may get the same date."""
    seen = set()
    with start(tree).wire() as wire:
        def both():
            one = File(f"{tree}/file")
            one.rewrite()
            modified = wire.ask("/file", "HEAD")["last-modified"]
            while True:
                if len(seen) == 0:
                    one.rewrite()
                    os.utime(one.fd, (date_seconds(modified),) * 2)
                reply = part(wire, HALF, f"If-Range: {modified}")
                over = date_seconds(reply["date"]) > date_seconds(modified)
                assert reply["last-modified"] == modified
                assert reply.status == (206 if over else 200), (reply["date"], modified)
                seen.add(reply.status)
                if over:
                    break
                time.sleep(0.01)
            os.close(one.fd)
            return seen == {200, 206}
        wait_for(both, "a request in the same second, and one after it")
