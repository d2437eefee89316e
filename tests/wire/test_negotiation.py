# SPDX-License-Identifier: MIT
"""Precompressed siblings by Accept-Encoding (RFC 9110 12.5.3)."""
import os

import pytest
from lib import served
from lib.trees import content, grown, write

pytestmark = pytest.mark.any_engine("the head and the folder decide")

OLD, NEW = 1_600_000_000, 1_600_000_100
CODINGS = {"gzip": "gz", "br": "br", "zstd": "zst"}
ANY = {"gzip", "br", "zstd"}
NONE = {None}


@pytest.fixture(scope="module")
def root():
    import shutil
    import tempfile
    path = tempfile.mkdtemp(prefix="rung-wire-")
    os.chmod(path, 0o755)
    write(f"{path}/all.txt", content("all", 5000), NEW)
    write(f"{path}/index.html", b"<!doctype html><title>x</title>", OLD)
    write(f"{path}/index.html.gz", b"index as gzip", OLD)
    for i, suffix in enumerate(("gz", "br", "zst")):
        write(f"{path}/all.txt.{suffix}", content(suffix, 1000 + i), NEW)
        write(f"{path}/{suffix}.txt", content("x", 3000), OLD)
        write(f"{path}/{suffix}.txt.{suffix}", content(suffix, 2000), OLD)
        write(f"{path}/only.txt.{suffix}", b"no original")
        write(f"{path}/stale.txt.{suffix}", b"stale", OLD)
        os.makedirs(f"{path}/folder.txt.{suffix}")
        os.symlink("/etc/passwd", f"{path}/link.txt.{suffix}")
        os.mkfifo(f"{path}/pipe.txt.{suffix}")
        os.utime(f"{path}/pipe.txt.{suffix}")
        write(f"{path}/fine.txt.{suffix}", b"same second", OLD)
        os.utime(f"{path}/fine.txt.{suffix}", ns=(0, OLD * 10**9 + 5))
    for name in ("stale", "folder", "link", "pipe", "none", "fine"):
        write(f"{path}/{name}.txt", content(name, 400), NEW if name == "stale" else OLD)
    os.utime(f"{path}/fine.txt", ns=(0, OLD * 10**9 + 6))
    write(f"{path}/empty.txt", b"", OLD)
    write(f"{path}/empty.txt.gz", b"gzip of nothing", OLD)
    yield grown(path)
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def coded(root, engine):
    from lib import server
    one = server.Server(root)
    yield one
    one.stop()


def ask(server, target, accept=None, *fields, method="GET"):
    fields = list(fields)
    if accept is not None:
        fields += [f"Accept-Encoding: {line}" for line in ([accept] if isinstance(accept, str) else accept)]
    return server.ask(target, method, fields)


# Accept-Encoding, codings that may be chosen
CHOICES = [
    (None, NONE), ("", NONE), ("identity", NONE), ("gzip", {"gzip"}), ("br", {"br"}),
    ("zstd", {"zstd"}), ("GZIP", {"gzip"}),
    ("x-gzip", {"gzip", None}), ("deflate", NONE), ("compress, deflate", NONE),
    ("gzip, deflate, br, zstd", ANY), ("gzip, br", {"gzip", "br"}),
    ("gzip;q=1, br;q=0.5", {"gzip"}), ("gzip;q=0.5, br;q=1", {"br"}),
    ("br;q=0.9, zstd;q=0.91, gzip;q=0.899", {"zstd"}),
    ("gzip;q=0.001, br;q=0.002", {"br", None}), ("gzip;q=0", NONE), ("gzip;q=0.0", NONE),
    ("gzip;q=0.000", NONE), ("br;q=0, gzip", {"gzip"}),
    ("gzip ; q=1.0", {"gzip"}), ("gzip;q=1.000", {"gzip"}), ("gzip;Q=0", NONE),
    ("identity;q=1, gzip;q=0.5", NONE), ("identity;q=0.5, gzip;q=1", {"gzip"}),
    ("identity;q=0, gzip", {"gzip"}), ("*", ANY | NONE), ("*;q=0.5, gzip;q=1", {"gzip"}),
    ("gzip;q=0, *", {"br", "zstd", None}), ("gzip;q=0, br;q=0, zstd;q=0, *", NONE),
    ("*;q=0, gzip", {"gzip"}), ("*;q=0, identity", NONE), (["gzip;q=0.5", "br"], {"br"}),
    (["deflate", "gzip"], {"gzip"}), (", ,gzip,,", {"gzip"}),
    ("gzipx", NONE), ("xgzip", NONE), ("gzi", NONE), ("gzip;q=2", {"gzip", None}),
    ("gzip;q=-1", {"gzip", None}), ("gzip;q=abc", {"gzip", None}), ("gzip;x=y", {"gzip", None}),
    ("\"gzip\"", NONE), ("gzip br", NONE), ("gzip;q=0.5,gzip;q=0", {"gzip", None}),
]


@pytest.mark.core
@pytest.mark.parametrize("accept, allowed", CHOICES)
# shows U07
def test_choice(coded, root, accept, allowed):
    reply = ask(coded, "/all.txt", accept)
    coding = reply.get("content-encoding")
    assert reply.status == 200 and coding in allowed
    path = f"{root}/all.txt" + (f".{CODINGS[coding]}" if coding else "")
    with open(path, "rb") as file:
        assert reply.body == file.read()
    assert reply["content-type"] == "text/plain; charset=utf-8"
    assert reply["vary"].lower() == "accept-encoding"


@pytest.mark.parametrize("accept",
                         ["identity;q=0", "*;q=0", "identity;q=0, gzip;q=0, br;q=0, zstd;q=0"])
def test_nothing_acceptable(coded, accept):
    """RFC 9110 12.5.3: 406, a coding that was not excluded, or the plain file nevertheless."""
    reply = ask(coded, "/all.txt", accept)
    assert reply.status in (200, 406)


@pytest.mark.core
# shows U07
def test_variants_differ(coded):
    """Each variant has its own tag and length, so that no cache takes one for another."""
    replies = {accept: ask(coded, "/all.txt", accept) for accept in ("identity", "gzip", "br",
        "zstd")}
    assert len({reply["etag"] for reply in replies.values()}) == 4
    assert {reply.length for reply in replies.values()} == {5000, 1000, 1001, 1002}
    assert all(reply.get("vary") for reply in replies.values())


@pytest.mark.parametrize("accept", ["identity", "gzip", "br", "zstd"])
def test_conditions_of_variants(coded, accept):
    tag = ask(coded, "/all.txt", accept)["etag"]
    reply = ask(coded, "/all.txt", accept, f"If-None-Match: {tag}")
    assert reply.status == 304 and reply["etag"] == tag and reply["vary"]
    for other in {"identity", "gzip", "br", "zstd"} - {accept}:
        assert ask(coded, "/all.txt", other, f"If-None-Match: {tag}").status == 200
        assert ask(coded, "/all.txt", other, "Range: bytes=0-9", f"If-Range: {tag}").status == 200
    reply = ask(coded, "/all.txt", accept, "Range: bytes=0-9", f"If-Range: {tag}")
    assert reply.status == 206 and len(reply.body) == 10
    assert reply.get("content-encoding") == (None if accept == "identity" else accept)
    head, get = ask(coded, "/all.txt", accept, method="HEAD"), ask(coded, "/all.txt", accept)
    head.fields.pop("date"), get.fields.pop("date")
    assert head.fields == get.fields


@pytest.mark.parametrize("suffix", ["gz", "br", "zst"])
def test_one_sibling(coded, root, suffix):
    coding = {v: k for k, v in CODINGS.items()}[suffix]
    reply = ask(coded, f"/{suffix}.txt", "gzip, br, zstd")
    assert reply["content-encoding"] == coding and reply.length == 2000
    assert ask(coded, f"/{suffix}.txt")["vary"].lower() == "accept-encoding"
    for other in ANY - {coding}:
        assert "content-encoding" not in ask(coded, f"/{suffix}.txt", other).fields


@pytest.mark.parametrize("name", ["stale", "folder", "link", "pipe", "none", "fine"])
def test_siblings_that_do_not_count(coded, name):
    """A sibling that is older (even by a nanosecond), a folder, a link that leaves the root, a pipe that would
    block."""
    reply = ask(coded, f"/{name}.txt", "gzip, br, zstd")
    assert reply.status == 200 and "content-encoding" not in reply.fields
    assert reply.body == content(name, 400)


def test_siblings_are_files_of_their_own(coded):
    reply = ask(coded, "/all.txt.gz", "gzip")
    assert reply.status == 200 and reply.body == content("gz", 1000)
    assert "content-encoding" not in reply.fields and reply["content-type"] == "application/gzip"
    assert ask(coded, "/only.txt", "gzip, br, zstd").status == 404


def test_index(coded):
    reply = ask(coded, "/", "gzip")
    assert reply.body == b"index as gzip" and reply["content-type"].startswith("text/html")


def test_switched_off(start, root):
    """Without siblings, and without compression on the way, for which the answer would vary as well."""
    reply = ask(start(root, "--precompressed", "off", "--compress", "off"), "/all.txt", "gzip, br, zstd")
    assert reply.body == content("all", 5000) and "vary" not in reply.fields


def test_no_sibling_no_vary(coded):
    """The file is also too small to be compressed on the way."""
    assert "vary" not in ask(coded, "/none.txt", "gzip").fields


def test_one_that_comes_later(coded, root):
    """The server remembers for a second that a file has no siblings."""
    write(f"{root}/later.txt", content("later", 400), OLD)
    reply = ask(coded, "/later.txt", "gzip")
    assert "content-encoding" not in reply.fields and "vary" not in reply.fields
    write(f"{root}/later.txt.gz", b"come later", OLD)
    served.wait_for(lambda: ask(coded, "/later.txt", "gzip").body == b"come later", "it counts")
    assert ask(coded, "/later.txt")["vary"].lower() == "accept-encoding"
    os.unlink(f"{root}/later.txt.gz")
    assert ask(coded, "/later.txt", "gzip").body == content("later", 400), "gone at once"
