# SPDX-License-Identifier: MIT
"""The digest of an archive in a trailer, for a client that takes trailers (RFC 9110 6.5, RFC 9530)."""
import base64
import contextlib
import hashlib
import os
import shutil

import pytest
from cli import elf
from lib import h2
from lib.client import request
from lib.crowd import sanitized
from lib.secured import EVERYWHERE
from lib.trees import content, write
from test_archive import LAST, READERS, received
from test_clients import run

pytestmark = pytest.mark.userspace("archives")
curl = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
plain_h2 = pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls")
TE = ["TE: trailers", "Connection: TE"]
FILES = {"a.txt": b"one\n" * 1000, "empty": b"", "large.bin": content("large", 3_000_000), "deep/er/b.bin": content("b", 70_000)}


@pytest.fixture
def grown(tree):
    for name, data in FILES.items():
        write(f"{tree}/top/{name}", data)
    os.mkdir(f"{tree}/nothing")
    write(f"{tree}/file.txt", b"file\n")
    return tree


def digest(body, name="sha-256"):
    hashed = hashlib.new(name.replace("-", ""), body).digest()
    return {"repr-digest": f"{name}=:{base64.b64encode(hashed).decode()}:"}


def check(reply, name="sha-256"):
    """A digest of the bytes that came."""
    assert reply.status == 200 and reply["trailer"] == "Repr-Digest" and len(reply.body) > 20
    assert reply.trailers == digest(reply.body, name)


# --- HTTP/1.1 -----------------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("sandbox", ["on", "strict"])
# shows H04
def test_digest(start, grown, kind, sandbox):
    """The digest is of the bytes that came.  Only clients that ask get one, also one after the other on the same connection."""
    if sandbox == "strict" and (sanitized() or not elf()):
        pytest.skip("a sanitizer or valgrind has no sandbox")
    with start(grown, "--archive", "--sandbox", sandbox).wire() as wire:
        for _ in range(2):
            reply = wire.ask(f"/top/?archive={kind}", fields=TE)
            check(reply)
            files = READERS[kind](reply.body)[0]
            assert files == {f"top/{name}": data for name, data in FILES.items()}
            reply = wire.ask(f"/top/?archive={kind}")
            assert "trailer" not in reply.fields and not reply.trailers and READERS[kind](reply.body)[0] == files
            check(wire.ask(f"/top/?archive={kind}", fields=[*TE, "Want-Repr-Digest: sha-256=1, sha-512=2"]), "sha-512")
            check(wire.ask(f"/nothing/?archive={kind}", fields=TE))


@pytest.mark.any_engine("the core reads fields")
def test_asked_for(start, grown):
    """What counts as asking; the unit tests have more of it."""
    path = "/top/?archive=tar"
    with start(grown, "--archive").wire() as wire:
        for fields in (["TE: gzip;q=0.5, trailers", "Connection: keep-alive, te"], ["te: Trailers", "connection: Te"]):
            check(wire.ask(path, fields=fields))
        for wish, name in (("sha-256=10", "sha-256"), ("sha-512=1", "sha-512"), ("unixsum=10, sha-256=1", "sha-256"), ("sha-512=5, sha-256=5", "sha-256")):
            check(wire.ask(path, fields=[*TE, f"Want-Repr-Digest: {wish}"]), name)
        for fields in (["TE: trailers"], ["Connection: TE"], ["TE: gzip", "Connection: TE"], ["Want-Repr-Digest: sha-256=10"],
                       *([*TE, f"Want-Repr-Digest: {wish}"] for wish in ("sha-256=0", "md5=10", "sha-256=0, sha-512=0", "sha-256"))):
            reply = wire.ask(path, fields=fields)
            assert reply.status == 200 and "trailer" not in reply.fields and not reply.trailers, fields
        for other in ("/top/", "/file.txt", "/none/?archive=tar", "/top?archive=tar", "/top/?archive=rar"):  # no archive
            assert "trailer" not in wire.ask(other, fields=TE).fields, other


@pytest.mark.any_engine("the core writes heads")
def test_head(start, grown):
    """HEAD has what GET has."""
    with start(grown, "--archive").wire() as wire:
        for fields in (TE, [], [*TE, "Want-Repr-Digest: sha-256=0"]):
            for kind in READERS:
                get, head = (wire.ask(f"/top/?archive={kind}", method, fields).fields for method in ("GET", "HEAD"))
                assert set(get) == set(head) and get.get("trailer") == head.get("trailer") == ("Repr-Digest" if fields == TE else None)


def test_http_1_0(start, grown):
    """There are no trailers, whatever is asked for."""
    with start(grown, "--archive").wire() as wire:
        reply = wire.ask("/top/?archive=tar", fields=["TE: trailers", "Connection: TE, keep-alive"], minor=0)
        assert "trailer" not in reply.fields and b"Repr-Digest" not in reply.body and set(READERS["tar"](reply.body)[0]) == {f"top/{name}" for name in FILES}
        wire.end()


def test_tls(start, grown):
    with start(grown, "--archive", *([] if EVERYWHERE else ["--tls", "self"])).wire() as wire:
        for kind in READERS:
            check(wire.ask(f"/top/?archive={kind}", fields=TE))
            assert not wire.ask(f"/top/?archive={kind}").trailers


@pytest.mark.parametrize("kind", READERS)
def test_cut_off(start, tree, kind):
    """An archive that cannot be finished has neither a last chunk nor a trailer."""
    write(f"{tree}/top/large.txt", content("s", 1 << 20) * 64)
    server = start(tree, "--archive")
    with server.wire() as wire:
        wire.send(request(f"/top/?archive={kind}", fields=TE))
        assert wire.head()["trailer"] == "Repr-Digest"
        wire.take(100_000)
        os.truncate(f"{tree}/top/large.txt", 1000)
        data = b""
        with contextlib.suppress(ConnectionResetError):
            while more := wire.sock.recv(1 << 20):
                data = (data + more)[-300:]
    assert not data.endswith(b"\r\n\r\n") and b"Repr-Digest" not in data and not data.endswith(LAST)
    with server.wire() as wire:
        check(wire.ask(f"/top/?archive={kind}", fields=TE))


def test_connection_ends(start, grown):
    """Connection may name both TE and close."""
    server = start(grown, "--archive")
    with server.wire() as wire:
        check(wire.ask("/top/?archive=tar", fields=["TE: trailers", "Connection: close, TE"]))
        wire.end()
    assert received(server, "/top/?archive=tar").endswith(b"\r\n" + LAST)  # as ever without


# --- HTTP/2 -------------------------------------------------------------------------------------------------


@plain_h2
@pytest.mark.parametrize("secured", [False, True])
def test_http_2(start, grown, secured):
    server = start(grown, "--archive", *(["--tls", "self"] if secured else []))
    with h2.Client(server) as client:
        streams = [client.ask(f"/top/?archive={kind}", fields=[("te", "trailers")]) for kind in READERS]
        without = client.ask("/top/?archive=tar")
        longer = client.ask("/top/?archive=zip", fields=[("te", "trailers"), ("want-repr-digest", "sha-512=1")])
        nothing = client.ask("/nothing/?archive=tar", fields=[("te", "trailers")])
        for stream in (*streams, nothing):
            check(client.reply(stream))
        check(client.reply(longer), "sha-512")
        reply = client.reply(without)
        assert "trailer" not in reply.fields and not reply.trailers
        head = client.get("/top/?archive=zip", "HEAD", fields=[("te", "trailers")])
        assert head["trailer"] == "Repr-Digest" and not head.trailers and not head.body
        assert client.get("/file.txt", fields=[("te", "trailers")]).body == b"file\n"
        check(client.get("/top/?archive=tar", fields=[("te", "trailers")], body=b"x" * 70_000))
        assert not client.resets


@plain_h2
@pytest.mark.any_engine("frames of a body")
@pytest.mark.parametrize("window", [1, 7, 100, 1000])
def test_http_2_small_windows(start, grown, window):
    """Frames of any size, the last of which may end within a chunk's framing."""
    with h2.Client(start(grown, "--archive"), window=window) as client:
        for kind in READERS:
            check(client.get(f"/nothing/?archive={kind}", fields=[("te", "trailers")]))


@plain_h2
def test_http_2_cut_off(start, tree):
    """The stream is reset, without a trailer; the connection stays."""
    write(f"{tree}/top/large.bin", content("s", 1 << 20) * 16)
    server = start(tree, "--archive")
    with h2.Client(server) as client:
        assert not h2.cut_off(client, "/top/?archive=tar", f"{tree}/top/large.bin", fields=[("te", "trailers")]).trailers
        check(client.get("/top/?archive=tar", fields=[("te", "trailers")]))


# --- A client that people use -------------------------------------------------------------------------------


@curl
@pytest.mark.any_engine("another client")
@pytest.mark.parametrize("version", [pytest.param("--http1.1"), pytest.param("--http2-prior-knowledge", marks=plain_h2)])
def test_curl(start, grown, tmp_path, version):
    """curl writes trailers where it writes heads."""
    server = start(grown, "--archive")
    for kind in READERS:
        run("curl", "-fsSk", version, "-H", "TE: trailers", "-H", "Connection: TE", "-D", tmp_path / "head", "-o", tmp_path / "body",
            server.url(f"/top/?archive={kind}"))
        name, _, value = (tmp_path / "head").read_text().split("\n")[-2].strip().partition(": ")
        assert {name.lower(): value} == digest((tmp_path / "body").read_bytes())
