# SPDX-License-Identifier: MIT
"""Text that is compressed on the way (RFC 9110 8.4, 12.5.3): made in memory of what is kept, while the file is sent as it is;
never from another state than the file's; with a tag other than the file's, so that no client joins the two."""
import itertools
import os
import random
import re
import time

import cli
import pytest
from lib import codings, served
from lib import server as lib
from lib.trees import write

pytestmark = pytest.mark.userspace("the modules make gzip alone, when told: tests/kernel")
any_engine = pytest.mark.any_engine("a helper makes it, and the head chooses")
OLD, MANY, ASKS = 1_600_000_000, 60, 8
SMALLEST, LARGEST = 512, 256 << 10
TEXT = b"".join(b"<p>paragraph %d of a page that says next to nothing</p>\n" % (i * i) for i in range(300))
CODINGS = ["gzip", "zstd", "br"]
WIRES = 6
WORKERS = [None, pytest.param("process", marks=pytest.mark.processes)]
if lib.workers_may_be_threads():
    WORKERS.append("thread")
DATE = "Sun, 13 Sep 2020 12:26:40 GMT"


def text(size, mark=b""):
    return (mark + TEXT * (size // len(TEXT) + 1))[:size]


@pytest.fixture
def site(tree):
    write(f"{tree}/page.html", TEXT, OLD)
    write(f"{tree}/folder/index.html", TEXT, OLD)
    write(f"{tree}/smallest.txt", text(SMALLEST), OLD)
    write(f"{tree}/smaller.txt", text(SMALLEST - 1), OLD)
    write(f"{tree}/largest.txt", text(LARGEST), OLD)
    write(f"{tree}/larger.txt", text(LARGEST + 1), OLD)
    write(f"{tree}/image.png", TEXT, OLD)
    write(f"{tree}/noise.txt", random.Random(1).randbytes(9000), OLD)
    time.sleep(0.1)  # until their tags are strong: a young file is not compressed
    return tree


@pytest.fixture
def makes(tree):
    """Skips where nothing is compressed."""
    reason = codings.keeps_nothing(tree) or (None if codings.made() else "built without any library that compresses")
    if reason:
        pytest.skip(reason)


def ask(server, path, accept, *fields, method="GET"):
    return server.ask(path, method, [f"Accept-Encoding: {accept}", *fields])


def coded(server, path, coding):
    """The compressed answer once it is made; until then the file is sent."""
    def try_it():
        reply = ask(server, path, coding)
        assert reply.status == 200 and reply["vary"].lower() == "accept-encoding", reply
        assert reply.get("content-encoding") in (None, coding)
        return reply if reply.get("content-encoding") else None
    return served.wait_for(try_it, f"{path} in {coding}")


def fields(reply):
    return {name: value for name, value in reply.fields.items() if name != "date"}


def every_coding():
    return [coding for coding in codings.made() if codings.decodable(coding)]


@pytest.mark.core
# shows U08
def test_made_of_a_file(start, site, makes):
    server = start(site, "--workers", 1)
    plain = ask(server, "/page.html", "identity")
    assert plain.body == TEXT and plain["vary"].lower() == "accept-encoding"
    tags = {plain["etag"]}
    for coding in every_coding():
        first = ask(server, "/page.html", coding)
        assert first.body == TEXT and fields(first) == fields(plain), "the first answer is the file"
        reply = coded(server, "/page.html", coding)
        assert codings.decode(coding, reply.body) == TEXT and len(reply.body) * 8 <= len(TEXT) * 7
        assert reply["content-type"] == plain["content-type"] and reply["last-modified"] == plain["last-modified"]
        assert reply["etag"].startswith('"') and reply["etag"] not in tags
        tags.add(reply["etag"])
        assert fields(ask(server, "/page.html", coding, method="HEAD")) == fields(reply)
        for _ in range(3):
            assert ask(server, "/page.html", coding).body == reply.body
        assert fields(ask(server, "/page.html", "identity")) == fields(plain)
    stats = server.stats()
    assert stats["cache_variants"] == len(tags) - 1 and stats["cache_plain"] == 0


@any_engine
@pytest.mark.core
@pytest.mark.parametrize("path", ["/folder/", "/smallest.txt", "/largest.txt"])
def test_what_is_made(start, site, makes, path):
    server, coding = start(site), codings.made()[0]
    reply = coded(server, path, coding)
    with open(site + (path if path != "/folder/" else "/folder/index.html"), "rb") as file:
        assert codings.is_file(file.read())(reply)


@any_engine
# shows D26, U08
def test_what_is_not_made(start, site, makes):
    server = start(site, "--workers", 1)
    for path in ("/smaller.txt", "/larger.txt", "/image.png", "/noise.txt"):
        for _ in range(ASKS):
            reply = ask(server, path, "gzip, br, zstd")
            assert "content-encoding" not in reply.fields and ("vary" in reply.fields) == (path == "/noise.txt")
    served.wait_for(lambda: ask(server, "/noise.txt", "gzip, br, zstd") and server.stats()["cache_plain"], "it is tried")
    for _ in range(ASKS):
        assert "content-encoding" not in ask(server, "/noise.txt", "gzip, br, zstd").fields
    stats = server.stats()
    assert stats["cache_plain"] == 1 and stats["cache_variants"] == 0, "once"


@pytest.mark.core
def test_engines_that_keep_nothing(start, site):
    """All answers are the same, from the first to the last; and as nothing will be compressed, nothing varies."""
    options = [("--cache", 0), ("--compress", "off")]
    if codings.keeps_nothing(site):
        options.append(())
    for option in options:
        server = start(site, *option)
        for _ in range(ASKS):
            reply = ask(server, "/page.html", "gzip, br, zstd")
            assert reply.body == TEXT and "content-encoding" not in reply.fields and "vary" not in reply.fields


CHOICES = [("gzip", "gzip"), ("br, gzip", "br"), ("gzip;q=0.5, zstd;q=0.6", "zstd"), ("gzip, br;q=0", "gzip"),
           ("gzip, deflate, br, zstd", "br"), ("*", "br"), ("gzip;q=0.1", "gzip"), ("identity, gzip;q=0.9", None),
           ("deflate", None), ("", None), ("*;q=0, gzip", "gzip"), ("identity;q=0, gzip", "gzip"), ("x-gzip", "gzip")]


@any_engine
def test_choice(start, site, makes):
    if len(codings.made()) < 3:
        pytest.skip("built without one of the libraries")
    server = start(site)
    for accept, want in CHOICES:
        for coding in CODINGS:
            coded(server, "/page.html", coding)
        if accept == "identity;q=0, gzip":
            served.wait_for(lambda: ask(server, "/page.html", accept).status == 200, "what it asks for")
        reply = served.wait_for(lambda: (r := ask(server, "/page.html", accept)).get("content-encoding") == want and r, accept)
        assert reply.status == 200 and reply["vary"].lower() == "accept-encoding"


@any_engine
def test_a_sibling_goes_first(start, site, makes):
    """A sibling is sent in its coding, and where no other is there to be sent; others are made for other clients."""
    write(f"{site}/page.html.gz", b"\x1f\x8b the user's own", OLD)
    server = start(site)
    for _ in range(ASKS):
        assert ask(server, "/page.html", "gzip").body == b"\x1f\x8b the user's own"
        assert ask(server, "/page.html", "gzip, br, zstd").body == b"\x1f\x8b the user's own"
    for coding in codings.made():
        if coding != "gzip" and codings.decodable(coding):
            assert codings.is_file(TEXT)(coded(server, "/page.html", coding))
    os.unlink(f"{site}/page.html.gz")
    assert codings.is_file(TEXT)(ask(server, "/page.html", "gzip"))
    if "gzip" in codings.made():
        assert codings.is_file(TEXT)(coded(server, "/page.html", "gzip"))


@any_engine
def test_without_siblings(start, site, makes):
    write(f"{site}/page.html.gz", b"not wanted", OLD)
    server, coding = start(site, "--precompressed", "off"), codings.made()[0]
    assert codings.is_file(TEXT)(coded(server, "/page.html", coding))


# --- Promises of tags -----------------------------------------------------------------------------------------------


@any_engine
@pytest.mark.core
def test_conditions(start, site, makes):
    server, coding = start(site), codings.made()[0]
    plain, made = ask(server, "/page.html", "identity")["etag"], coded(server, "/page.html", coding)["etag"]
    reply = ask(server, "/page.html", coding, f"If-None-Match: {made}")
    assert reply.status == 304 and reply["etag"] == made and reply["vary"].lower() == "accept-encoding"
    assert ask(server, "/page.html", coding, f"If-None-Match: {plain}").status == 200
    assert ask(server, "/page.html", "identity", f"If-None-Match: {made}").status == 200
    assert ask(server, "/page.html", coding, f"If-Match: {made}").status == 200
    assert ask(server, "/page.html", coding, f"If-Match: {plain}").status == 412


@any_engine
def test_a_tag_whose_bytes_are_gone(start, site, makes):
    """Another server has yet to make the bytes, but the client already has them, so they need not be sent."""
    coding = codings.made()[0]
    made = coded(start(site), "/page.html", coding)["etag"]
    plain = re.sub('-(gz|zst|br)-[0-9a-f]+"$', '"', made)
    for cache in ("64m", "0"):
        other = start(site, "--cache", cache)
        for _ in range(ASKS):
            reply = ask(other, "/page.html", coding, f"If-None-Match: {made}")
            assert (reply.status, reply.get("etag")) == ((304, made) if cache != "0" else (200, plain))
    other = start(site)
    assert ask(other, "/page.html", "identity", f"If-None-Match: {made}").status == 200
    write(f"{site}/page.html", TEXT.swapcase(), OLD)
    for _ in range(ASKS):
        reply = ask(other, "/page.html", coding, f"If-None-Match: {made}")
        assert reply.status == 200 and codings.is_file(TEXT.swapcase())(reply)


@any_engine
def test_ranges_join_no_two_codings(start, site, makes):
    server, coding = start(site), codings.made()[0]
    first = ask(server, "/page.html", coding, "Range: bytes=0-99")
    assert first.status == 206 and first.body == TEXT[:100], "nothing is made yet"
    whole = coded(server, "/page.html", coding)
    rest = "Range: bytes=100-"
    for condition in (f"If-Range: {first['etag']}", f"If-Range: {DATE}", 'If-Range: "x"'):
        reply = ask(server, "/page.html", coding, rest, condition)
        assert reply.status == 200 and reply.body == whole.body, condition
        if "x" not in condition:
            assert first["last-modified"] == DATE
    reply = ask(server, "/page.html", coding, rest, f"If-Range: {whole['etag']}")
    assert reply.status == 206 and reply.body == whole.body[100:]
    assert reply["content-encoding"] == coding and reply["etag"] == whole["etag"]
    assert reply["content-range"] == f"bytes 100-{len(whole.body) - 1}/{len(whole.body)}"
    plain = ask(server, "/page.html", "identity", rest, f"If-Range: {whole['etag']}")
    assert plain.status == 200 and plain.body == TEXT, "the other way round"
    assert ask(server, "/page.html", "identity", rest, f"If-Range: {DATE}").status == 200
    assert ask(server, "/page.html", "identity", rest, f"If-Range: {first['etag']}").body == TEXT[100:]


# --- Never stale ----------------------------------------------------------------------------------------------------


def states(path):
    """Make one change after the other: yields the file's bytes from then on, or None."""
    for turn in itertools.count():
        data = text(3000, b"state %d\n" % turn)
        if turn % 4 == 0:
            with open(path, "r+b") as file:
                file.write(data)
            os.utime(path, (OLD, OLD))
        elif turn % 4 == 1:
            os.unlink(path)
            data = None
        else:
            write(path + ".new", data, OLD)
            os.replace(path + ".new", path)
        yield data


@pytest.mark.core
@pytest.mark.parametrize("workers", WORKERS)
def test_never_stale(start, tree, makes, workers, enough):
    """A change at any time: before, while and after the variant is made, by any worker."""
    coding, path, chance = codings.made()[0], f"{tree}/page.html", random.Random(3)
    write(path, text(3000), OLD)
    server = start(tree, *(["--workers", 2, "--workers-as", workers, "--accept", "reuseport"] if workers else []))
    found, wires = {None: 0, coding: 0}, [server.wire() for _ in range(min(enough, WIRES))]
    try:
        for data in itertools.islice(states(path), MANY):
            end = time.monotonic() + chance.choice((0, 0.01, 0.03, 0.06))
            while True:
                reply = wires[sum(found.values()) % len(wires)].ask("/page.html", fields=[f"Accept-Encoding: {coding}"])
                if data is None:
                    assert reply.status == 404
                else:
                    assert codings.is_file(data)(reply), (reply, data[:20], reply.body[:20])
                    found[reply.get("content-encoding")] += 1
                if time.monotonic() > end:
                    break
    finally:
        for wire in wires:
            wire.close()
    assert found[None] and found[coding], found


@any_engine
def test_a_sibling_at_any_moment(start, tree, makes):
    coding, path, chance = codings.made()[0], f"{tree}/page.html", random.Random(4)
    suffix = {"gzip": ".gz", "zstd": ".zst", "br": ".br"}[coding]
    write(path, TEXT, OLD)
    server, made = start(tree), 0
    with server.wire() as wire:
        for turn in range(MANY):
            own = b"own %d" % turn
            for there in (True, False):
                if there:
                    write(path + suffix + ".new", own, OLD)
                    os.replace(path + suffix + ".new", path + suffix)
                else:
                    os.unlink(path + suffix)
                end = time.monotonic() + chance.choice((0, 0.001, 0.005, 0.02))
                while time.monotonic() < end or turn == 0:
                    reply = wire.ask("/page.html", fields=[f"Accept-Encoding: {coding}"])
                    assert reply.body == own if there else codings.is_file(TEXT)(reply), (turn, there, reply)
                    made += not there and reply.get("content-encoding") == coding
                    if turn == 0:
                        break
    assert made


# --- Many -----------------------------------------------------------------------------------------------------------


@any_engine
def test_a_crawl_makes_nothing(start, tree, makes):
    """Each file is requested twice: all are kept, and none is worth compressing."""
    for i in range(MANY):
        write(f"{tree}/{i}.txt", text(2000, b"%d" % i), OLD)
    time.sleep(0.1)
    server = start(tree, "--workers", 1)
    with server.wire() as wire:
        for i in 2 * list(range(MANY)):
            assert wire.ask(f"/{i}.txt", fields=["Accept-Encoding: gzip, br, zstd"]).body == text(2000, b"%d" % i)
    stats = server.stats()
    assert stats["cache_fills"] == MANY and stats["cache_variants"] == stats["cache_plain"] == 0


@any_engine
@pytest.mark.parametrize("cache", ["64m", "512k"])
def test_many_files(start, tree, makes, cache):
    """Many files, also where there is no room for all of them."""
    coding, size = codings.made()[0], 20000
    for i in range(MANY):
        write(f"{tree}/{i}.txt", text(size, b"%d" % i), OLD)
    server = start(tree, "--workers", 1, "--cache", cache)
    with server.wire() as wire:
        for _ in range(ASKS):
            for i in range(MANY):
                reply = wire.ask(f"/{i}.txt", fields=[f"Accept-Encoding: {coding}"])
                assert codings.is_file(text(size, b"%d" % i))(reply)
    if cache == "64m":
        def all_coded():
            return all(ask(server, f"/{i}.txt", coding).get("content-encoding") for i in range(MANY))
        served.wait_for(all_coded, "all are made")
        assert server.stats()["cache_variants"] == MANY


def test_a_stop_meanwhile(start, tree, makes):
    """A stop does not wait for all that could be compressed, and no answer is lost."""
    for i in range(MANY):
        write(f"{tree}/{i}.txt", text(LARGEST, b"%d" % i), OLD)
    time.sleep(0.1)
    server = start(tree, "--workers", 1)
    with server.wire() as wire:
        for i in 3 * list(range(MANY)):
            assert wire.ask(f"/{i}.txt", fields=[f"Accept-Encoding: {codings.made()[0]}"]).status == 200
    server.stop()


@pytest.mark.parametrize("value", ["maybe", "", "gzip", "br, gzip"])
def test_values_that_are_none(site, value):
    out = cli.run("serve", "--port", 0, "--compress", value, site)
    assert out.returncode == 2 and "--compress" in out.stderr, (out.returncode, out.stderr)
