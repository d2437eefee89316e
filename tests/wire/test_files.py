# SPDX-License-Identifier: MIT
"""Files as they are, byte for byte, whatever happens to them while they are sent."""
import os
import re
import time

import pytest
from lib.client import request
from lib.server import ENGINE, wait_for
from lib.trees import GIANT, GIANT_MARKS, SIZES, content, giant_slice, write

any_engine = pytest.mark.any_engine("the name decides")

TYPES = "/etc/mime.types"

PIECE = 1 << 20


@pytest.mark.core
@pytest.mark.parametrize("size", SIZES)
# shows K17
def test_identical(wire, size):
    reply = wire.ask(f"/size/{size}.bin")
    assert reply.length == size and reply.body == content(size, size)
    assert reply["content-type"] == "application/octet-stream"


@pytest.mark.core
# shows D14, N17
def test_slow_reader_gets_everything(site):
    """A body larger than all buffers on the way, for a client that reads in small pieces."""
    with site.wire(rcvbuf=4096) as wire:
        wire.send(request("/size/1048576.bin") + request("/hello.txt"))
        time.sleep(0.2)
        reply = wire.head()
        body = b""
        while len(body) < reply.length:
            body += wire.take(min(1777, reply.length - len(body)))
        assert body == content(1 << 20, 1 << 20)
        assert wire.reply().body == b"Hello, world\n"


@pytest.mark.core
# shows K17
def test_giant(wire):
    """5 GiB: its length, and bytes on both sides of 2 GiB and 4 GiB."""
    assert wire.ask("/giant.bin", "HEAD").length == GIANT
    for first in (0, (2 << 30) - 10, (4 << 30) - 10, GIANT - 20):
        reply = wire.ask("/giant.bin", fields=[f"Range: bytes={first}-{first + 19}"])
        assert reply.status == 206 and reply.body == giant_slice(first, first + 19)
        assert reply["content-range"] == f"bytes {first}-{first + 19}/{GIANT}"


@pytest.mark.long
@pytest.mark.skipif(ENGINE not in ("uring", "thread", "kernel"), reason="the others send as one of these")
# shows K17
def test_giant_whole(start, standard):
    """All 5 GiB, and the next answer behind them."""
    zeros, data = bytes(PIECE), bytearray(PIECE)
    with start(standard).wire() as wire:
        wire.send(request("/giant.bin"))
        assert wire.head().length == GIANT
        for offset in range(0, GIANT, PIECE):
            wire.take_into(data)
            for at, mark in GIANT_MARKS.items():
                if offset - len(mark) < at < offset + PIECE:
                    first, last = max(0, at - offset), min(PIECE, at - offset + len(mark))
                    assert data[first:last] == mark[first - (at - offset):][:last - first]
                    data[first:last] = bytes(last - first)
            assert data == zeros, f"at {offset}"
        assert wire.ask("/hello.txt").body == b"Hello, world\n"


def test_giant_across_two_gib(wire):
    """A transfer that crosses 2 GiB and the signed 32-bit numbers there."""
    first, last = (2 << 30) - (3 << 20), (2 << 30) + (3 << 20)
    reply = wire.ask("/giant.bin", fields=[f"Range: bytes={first}-{last}"])
    assert len(reply.body) == last - first + 1
    assert reply.body[(3 << 20) - 4:][:12] == b"across 2 GiB"
    assert reply.body.count(0) == len(reply.body) - 12 + reply.body[(3 << 20) - 4:][:12].count(0)


@pytest.mark.core
@pytest.mark.parametrize("name", ["fifo", "socket", "device", "fifo?x", "locked/"])
# shows K17
def test_not_a_file(site, standard, name):
    """403 at once: a FIFO without a writer would block for ever, and /dev/zero would never end."""
    if name in ("device",) and not os.path.exists(f"{standard}/special/device"):
        pytest.skip("only root can make a device")
    if name == "locked/" and os.geteuid() == 0:
        pytest.skip("root may read it: test_unreadable has it")
    for method in ("GET", "HEAD"):
        assert site.ask(f"/special/{name}", method).status == 403


@any_engine
# shows D21
def test_unreadable(start, standard):
    """403 for files that the server may not read; as another user where the tests run as root."""
    options = ["--user", "nobody"] if os.geteuid() == 0 else []
    with start(standard, *options).wire() as wire:
        assert wire.ask("/hello.txt").status == 200
        for name in ("unreadable", "locked", "locked/", "locked/x"):
            status = wire.ask(f"/special/{name}").status
            assert status == 403 or (name == "locked" and status == 301), name
        assert wire.ask("/hello.txt").status == 200


@any_engine
def test_types_by_extension(wire):
    """Spot checks; test_every_type has the whole table."""
    assert wire.ask("/hello.txt")["content-type"] == "text/plain; charset=utf-8"
    assert wire.ask("/index/")["content-type"] == "text/html; charset=utf-8"


def database():
    """extension -> the types Debian's media-types gives it."""
    table = {}
    with open(TYPES) as file:
        for line in file:
            words = line.partition("#")[0].split()
            for extension in words[1:]:
                table.setdefault(extension.lower(), set()).add(words[0].lower())
    return table


def own_rows():
    """The rows that core/mime.def adds to the database."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../../core/mime.def")) as file:
        return dict(re.findall(r'^X\("([^"]+)", *"([^"]+)"\)', file.read(), re.M))


@any_engine
@pytest.mark.skipif(not os.path.exists(TYPES),
                    reason=f"no {TYPES}: package media-types is not installed")
# shows K22, U03
def test_every_type(start, wide_tree):
    """Each extension of the database and of our own rows, in small and capital letters."""
    table = {e: t for e, t in database().items() if re.fullmatch(r"[a-z0-9+_-]{1,30}", e)}
    table.update({extension: {kind} for extension, kind in own_rows().items()})
    assert len(table) > 1000
    for extension in table:
        for name in {f"x.{extension}", f"x.{extension.upper()}"}:
            os.close(os.open(f"{wide_tree}/{name}", os.O_CREAT, 0o644))
    with start(wide_tree).wire() as wire:
        for extension, kinds in table.items():
            for name in {f"x.{extension}", f"x.{extension.upper()}"}:
                kind, _, rest = wire.ask(f"/{name}", "HEAD")["content-type"].partition(";")
                assert kind.lower() in kinds, name
                assert rest in ("", " charset=utf-8") and bool(rest) >= kind.startswith("text/"), name


# shows K22, U03
def test_unknown_types(start, tree):
    for name in ("x.qqqq", "x.", "x.txt.qqqq", "plain", ".x.txt.", "x.tx", "x.txtt"):
        write(f"{tree}/{name}", b"x")
    with start(tree, "--hidden").wire() as wire:
        for name in ("x.qqqq", "x.", "x.txt.qqqq", "plain", "x.tx", "x.txtt"):
            assert wire.ask(f"/{name}")["content-type"] == "application/octet-stream", name


# --- files that change while they are sent
# --------------------------------------------------------------

BIG = 24 << 20  # more than the socket buffers of both sides hold


def begin(server, name):
    """A transfer under way: head and first bytes read, most of it still to be sent."""
    wire = server.wire(rcvbuf=65536)
    wire.send(request(name) + request("/hello.txt"))
    reply = wire.head()
    assert reply.status == 200 and reply.length == BIG
    return wire, wire.take(65536)


def rest_of(wire):
    """All that still arrives, up to the end or a reset."""
    data = [wire.rest]
    wire.rest = b""
    while True:
        try:
            piece = wire.sock.recv(1 << 20)
        except ConnectionResetError:
            piece = b""
        if not piece:
            return b"".join(data)
        data.append(piece)


def assert_holed(got, big, size):
    """Beyond size, only the file's own bytes or zeros: a page on its way to the socket belongs to the
    page cache, and truncation clears it. But never bytes of anything else."""
    for start in range(size & ~4095, len(got), 4096):
        page, was = got[start:start + 4096], big[start:start + 4096]
        if page != was:
            assert all(now in (0, then) for now,
                       then in zip(page, was)), f"foreign bytes at {start}"


@pytest.fixture
def changing(start, tree):
    big = write(f"{tree}/big.bin", content("big", BIG))
    write(f"{tree}/hello.txt", b"Hello, world\n")
    return start(tree), big


@pytest.mark.core
@pytest.mark.parametrize("size", [0, 65536, BIG // 2, BIG - 1])
# shows N13
def test_truncated(changing, tree, size):
    """No SIGBUS, no padding, and the next answer never takes the place of missing bytes: the short file is
    sent, and the connection closed."""
    server, big = changing
    wire, first = begin(server, "/big.bin")
    with wire:
        os.truncate(f"{tree}/big.bin", size)
        got = first + rest_of(wire)
    assert len(got) < BIG and got[:size] == big[:min(size, len(got))]
    assert_holed(got, big, size)
    assert server.ask("/hello.txt").body == b"Hello, world\n"


@pytest.mark.parametrize("how", ["replace", "delete", "grow"])
def test_replaced(changing, tree, how):
    """Another file takes its place, or none, or it grows: this answer is still of the
    first."""
    server, big = changing
    wire, first = begin(server, "/big.bin")
    with wire:
        if how == "replace":
            write(f"{tree}/big.bin", content("other", BIG))
        elif how == "delete":
            os.unlink(f"{tree}/big.bin")
        else:
            with open(f"{tree}/big.bin", "ab") as out:
                out.write(content("more", 1 << 20))
        assert first + wire.take(BIG - len(first)) == big
        assert wire.reply().body == b"Hello, world\n"
        reply = wire.ask("/big.bin", "HEAD")
        assert reply.status == (404 if how == "delete" else 200)
        assert how == "delete" or reply.length == BIG + (1 << 20) * (how == "grow")


def test_seen_at_once(start, tree):
    """A change on disk shows in the next answer, body and validators alike."""
    with start(tree).wire() as wire:
        tags = set()
        for i in range(30):
            body = write(f"{tree}/file", content(i, 100))
            reply = wire.ask("/file")
            assert reply.body == body
            tags.add(reply["etag"])
        assert len(tags) == 30
        os.unlink(f"{tree}/file")
        assert wire.ask("/file").status == 404


# shows D23
def test_descriptors_come_back(start, standard):
    """Every kind of answer, many times; the server holds no more files than before."""
    server = start(standard)
    targets = ["/hello.txt", "/missing", "/list", "/list/", "/special/fifo", "/index/", "/link/etc",
               "/giant.bin"]
    with server.wire() as wire:
        wire.ask("/hello.txt")
        server.rest()
        before = server.files()
        for i in range(400):
            wire.ask(targets[i % len(targets)],
                     "HEAD" if "giant" in targets[i % len(targets)] else "GET",
                     ["Range: bytes=0-1,3-4"] if i % 3 else [])
        wait_for(lambda: server.files() <= before, "as few descriptors as before")
