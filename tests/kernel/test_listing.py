# SPDX-License-Identifier: MIT
"""Listings that are kept in memory: the folder is not read again, and one send carries head and body.  A client that reads
slowly, takes gzip or asks for something else gets the same as without them."""
import gzip
import os
import re
import shutil
import tempfile
import time

import pytest
from lib import crowd, module
from lib.client import request
from lib.trees import write

RESTED_S = 3.1  # a folder that changed in the last two seconds is not kept; whole seconds are compared
LONG, SHORT = "/long/", "/short/"


@pytest.fixture(scope="module")
def folders():
    path = tempfile.mkdtemp(prefix="rung-listing-")
    os.chmod(path, 0o755)
    for name, count in (("short", 10), ("long", 400)):
        os.mkdir(f"{path}/{name}")
        for number in range(count):
            write(f"{path}/{name}/{number:04}.txt", b"x" * number)
    time.sleep(RESTED_S)
    yield path
    shutil.rmtree(path)


def memory(server):
    with open(f"/sys/kernel/debug/{server.name}/cache", encoding="ascii") as file:
        return {key: int(value) for key, value in re.findall(r"^(\w+) (\d+)$", file.read(), re.M)}


def sent(server):
    """The number of sends; the last one is counted a moment after its client has it."""
    return crowd.settled(server, lambda: server.stats()["sends"])


def kept(server, target, **options):
    """The answer once it is in memory."""
    server.ask(target, **options)
    return server.ask(target, **options)


@pytest.mark.parametrize("target", [SHORT, SHORT + "?format=json", SHORT + "?sort=size&order=desc", LONG])
# shows K33, K34
def test_no_second_walk(start, folders, target):
    plain, server = start(folders, "--cache=0"), start(folders)
    for _ in range(5):  # a slow machine may need longer than the two seconds that a listing lives
        first = server.ask(target)
        sends = sent(server)
        before = memory(server)
        again = [server.ask(target) for _ in range(5)]
        after = memory(server)
        if after["expired"] == before["expired"]:
            break
    assert before["walks"] > 0 and before["entries"] == 1 and before["bytes"] > len(first.body)
    assert after == {**before, "hits": before["hits"] + 5}
    assert sent(server) - sends == 5, "one for each: head and body"
    assert {reply.body for reply in again} == {first.body, plain.ask(target).body}
    assert again[0]["Content-Length"] == str(len(first.body)) and again[0].get("Transfer-Encoding") is None
    assert memory(plain)["entries"] == 0 and memory(plain)["walks"] > 0


@pytest.mark.parametrize("most", [64, 1000])
@pytest.mark.parametrize("target", [SHORT, LONG])
# shows K34
def test_in_pieces(start, folders, target, most):
    """With send_bytes there is a call for each piece, and the bytes are the same."""
    body, server = start(folders).ask(target).body, start(folders, f"--send-bytes={most}")
    for again in (False, True):  # made for this request, then kept
        sends = sent(server)
        assert server.ask(target).body == body, again
        assert sent(server) - sends >= len(body) / most


def test_its_head_does_not_tell_whether_it_is_kept(start, folders):
    """RFC 9110 9.3.2: HEAD and GET send the same fields, whichever comes first; also for a listing that is too young, or one
    view of many.  A listing that is too long to be kept never has a length that could be sent."""
    server, fresh = start(folders), f"{folders}/fresh"
    os.mkdir(fresh)
    write(f"{fresh}/file.txt", b"x")
    os.mkdir(f"{folders}/huge")
    for number in range(2500):
        write(f"{folders}/huge/{number:04}{'n' * 100}.txt", b"")

    def heads(target):
        replies = [server.ask(target, method=method) for method in ("HEAD", "GET", "HEAD", "GET")]
        told = [{name: value for name, value in reply.fields.items() if name != "date"} for reply in replies]
        assert all(one == told[0] for one in told)
        return told[0]
    for target in ("/fresh/", SHORT + "?filter=1", SHORT + "?format=json", SHORT):
        assert int(heads(target)["content-length"]) == len(server.ask(target).body)
    for _ in range(2):
        assert heads("/huge/")["transfer-encoding"] == "chunked"
        time.sleep(RESTED_S)
    shutil.rmtree(fresh)
    shutil.rmtree(f"{folders}/huge")


# shows D25, K34
def test_a_slow_reader(start, folders):
    """The listing leaves in many pieces, through a window that is often shut, while others expire and make it again."""
    server = start(folders)
    whole = kept(server, LONG).body
    assert len(whole) > 60_000
    with server.wire(rcvbuf=2048) as wire:
        wire.send(request(LONG))
        time.sleep(2.5)
        server.ask(LONG)
        assert wire.reply().body == whole


# shows D25
def test_nothing_but_the_body_is_kept(start, folders):
    server = start(folders)
    whole = kept(server, SHORT)
    assert whole["Cache-Control"] == "no-cache" and whole["Vary"] == "Accept"
    assert not [name for name in ("ETag", "Last-Modified", "Accept-Ranges", "Connection") if whole.get(name)]
    head = server.ask(SHORT, method="HEAD")
    assert head.status == 200 and head["Content-Length"] == whole["Content-Length"] and head.body == b""
    part = server.ask(SHORT, fields=["Range: bytes=0-3"])
    assert part.status == 200 and part.body == whole.body
    assert server.ask(SHORT, fields=['If-None-Match: "x"']).status == 200
    assert server.ask(SHORT, fields=["If-None-Match: *"]).status == 304
    old = server.ask(SHORT, minor=0)
    assert old["Connection"] == "close" and old.body == whole.body


# shows K38
def test_compressed(start, folders):
    server = start(folders, "--compress=on")
    plain, coded = kept(server, LONG), kept(server, LONG, fields=["Accept-Encoding: gzip"])
    assert plain.get("Content-Encoding") is None and coded["Content-Encoding"] == "gzip"
    assert plain["Vary"] == coded["Vary"] == "Accept, Accept-Encoding"
    assert gzip.decompress(coded.body) == plain.body and len(coded.body) * 8 < len(plain.body)


def test_unloading_beneath_those_who_read_it(start, folders):
    server = start(folders, "--send-timeout", "10m")
    kept(server, LONG)
    wires = [server.wire(rcvbuf=2048) for _ in range(min(50, module.row()["capacity"] - 8))]
    for wire in wires:
        wire.send(request(LONG))
        assert wire.head().status == 200
    began = time.monotonic()
    server.kill()
    assert time.monotonic() - began < 1 + 3 * float(os.environ.get("RUNG_SLOW") or 1)
    crowd.leave(wires)
