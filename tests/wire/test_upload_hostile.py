# SPDX-License-Identifier: MIT
"""Uploads by clients that mean harm, and while the server or its folders change.

Each test ends with all that is on the disk: what was there before, and whole files that were answered by 201.
"""
import gzip
import os
import signal

import pytest
from lib import h2
from lib.client import request
from lib.secured import EVERYWHERE
from lib.server import ENGINE, PATIENCE, engine_row, wait_for
from lib.trees import write
from test_bodies import chunks
from test_upload import BUFFER, CHUNKED, EXPECT, names, send, sending, up  # noqa: F401 - a fixture
from test_upload_form import form, part, post

pytestmark = pytest.mark.userspace("uploads")
UPLOADS = 1024  # of a process at a time: UPLOADS_MAX in server/upload.h
LENGTH = 3 * BUFFER
signals = pytest.mark.userspace("signals")


def begun(wire, server, tree, target="/in/part", sent=LENGTH - 1):
    """An upload that lacks its last byte, whose file is open."""
    wire.send(request(target, "PUT", [f"Content-Length: {LENGTH}"]) + bytes(sent))
    wait_for(lambda: server.open_paths(f"{tree}/in"), "the file is open")


# --- Names ----------------------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.capacity(2)
def test_it_stands_for_nothing_else(up, tree):
    """A compressed copy that a stranger uploads is not sent in the place of a file, whichever of the two is stored first, or is newer."""
    fake, accepts = gzip.compress(b"a lie"), ["Accept-Encoding: gzip, br, zstd"]
    with up.wire() as wire, up.wire() as slow:
        slow.send(request("/in/late.txt.gz", "PUT", [f"Content-Length: {len(fake)}"]) + fake[:-1])
        wait_for(lambda: up.open_paths(f"{tree}/in"), "the file is open")
        for name in ("there.txt.gz", "there.txt.br", "early.txt.gz"):
            assert wire.ask(f"/in/{name}", "PUT", body=fake).status == 201
        for name in ("late.txt", "early.txt"):
            assert wire.ask(f"/in/{name}", "PUT", body=b"the truth").status == 201
        slow.send(fake[-1:])
        assert slow.reply().status == 201
        os.utime(f"{tree}/in/early.txt", (1, 1))
        for name, body in (("there.txt", b"there before\n"), ("late.txt", b"the truth"), ("early.txt", b"the truth")):
            for _ in range(3):
                reply = wire.ask(f"/in/{name}", fields=accepts)
                assert reply.body == body and "content-encoding" not in reply.fields
        assert wire.ask("/in/late.txt.gz").body == fake


@pytest.mark.any_engine("which file answers a path")
def test_copies_elsewhere(up, tree):
    """Compressed copies outside the folder of uploads are still sent."""
    write(f"{tree}/outside.txt.gz", gzip.compress(b"outside\n"))
    reply = up.ask("/outside.txt", fields=["Accept-Encoding: gzip"])
    assert reply["content-encoding"] == "gzip" and gzip.decompress(reply.body) == b"outside\n"


@pytest.mark.any_engine("a name means the same whoever waits for it")
def test_names_in_other_case(start, tree):
    """A file system may take them for the names that are refused."""
    with start(tree, "--upload", ".", "--hidden").wire() as wire:
        for target in ("/INDEX.HTML", "/Index.html", "/404.HTML", "/.WELL-KNOWN", "/.Well-Known/x"):
            assert wire.ask(target, "PUT", body=b"x").status == 403, target
    assert not names(tree)


@pytest.mark.any_engine("a name means the same whoever waits for it")
@pytest.mark.parametrize("target, status", [
    ("/in/%2e%2e/x", 405), ("/in/%2e%2e%2fx", 400), ("/in/..%2f..%2fetc%2fpasswd", 400), ("/in/..%5cx", 403), ("/in/a%5c..%5cb", 201), ("/in//x", 201),
    ("/in/./x", 201), ("/in/x/", 405), ("/in/x/.", 405), ("/in/x/..", 405), ("//in/x", 201), ("/%69n/x", 201), ("/in/x%00.txt", 400), ("/in/%", 400),
    ("/in/x?..%2f/y", 201), ("/in/" + "a/" * 2000 + "x", 404), ("/in/" + "n" * 5000, 404), ("/in/%2fx", 400), ("/in/%25%32%66", 201)])
def test_targets(up, tree, target, status):
    """However it is written, what is stored is a name in that folder."""
    before = names(tree)
    with up.wire() as wire:
        assert wire.ask(target, "PUT", body=b"x").status == status
    new = sorted(set(names(tree)) - set(before))
    assert len(new) == (status == 201) and all(name.startswith("in/") and name.count("/") == 1 for name in new)


@pytest.mark.any_engine("which site a request is for")
@pytest.mark.parametrize("target", ["http://evil.example/in/x", "http://localhost/in/../../x", "in/x", "*", "http://localhost"])
def test_other_targets(up, tree, target):
    """An absolute target is judged by its own host and path."""
    before = names(tree)
    with up.wire() as wire:
        wire.send(request(target, "PUT", ["Content-Length: 1", "Origin: http://localhost"]) + b"x")
        assert wire.reply().status in (400, 403, 404, 405)
    assert names(tree) == before


# --- Folders that change -------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize("change, status", [("removed", 404), ("renamed", 201), ("a link out", 201), ("taken", 409)])
def test_it_changes_meanwhile(up, tree, tmp_path, change, status):
    """The file goes into the folder that was there when it began, by no other way."""
    os.mkdir(f"{tree}/in/a")
    with up.wire() as wire:
        begun(wire, up, tree, "/in/a/part")
        if change == "removed":
            os.rmdir(f"{tree}/in/a")
        elif change == "taken":
            os.symlink(f"{tmp_path}/out", f"{tree}/in/a/part")
        else:
            os.rename(f"{tree}/in/a", f"{tree}/in/b")
        if change == "a link out":
            os.symlink(tmp_path, f"{tree}/in/a")
        wire.send(b"x")
        assert wire.reply().status == status
    assert not names(tmp_path)
    found = [name for name in names(f"{tree}/in") if "part" in name]
    assert found == {201: ["b/part"], 404: [], 409: ["a/part"]}[status]
    if status == 201:
        assert os.path.getsize(f"{tree}/in/b/part") == LENGTH


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user")
def test_a_folder_that_it_may_not_write(start, tree):
    """Below the folder of uploads, and without its sandbox's rights to all files: 403."""
    for name, mode in (("in", 0o777), ("in/theirs", 0o755)):
        os.mkdir(f"{tree}/{name}")
        os.chmod(f"{tree}/{name}", mode)
    os.chmod(tree, 0o755)
    for above in (os.path.dirname(tree), os.path.dirname(os.path.dirname(tree))):
        os.chmod(above, os.stat(above).st_mode | 0o055)
    with start(tree, "--upload", "in", "--user", "nobody").wire() as wire:
        assert wire.ask("/in/new", "PUT", body=b"x").status == 201
        assert wire.ask("/in/theirs/new", "PUT", body=b"x").status == 403
    assert names(f"{tree}/in") == ["new", "theirs"] and os.stat(f"{tree}/in/new").st_uid != 0


# --- A server that ends ---------------------------------------------------------------------------------------


@signals
@pytest.mark.core
def test_it_ends_when_uploads_have(up, tree):
    """A server that was asked to stop takes the rest of what is coming."""
    with up.wire() as wire:
        begun(wire, up, tree)
        up.process.send_signal(signal.SIGTERM)
        up.wait_said("stopping")
        assert not os.path.exists(f"{tree}/in/part")
        wire.send(b"x")
        assert wire.reply().status == 201
        wire.end()
    up.finish()
    assert os.path.getsize(f"{tree}/in/part") == LENGTH


@signals
@pytest.mark.parametrize("how", ["--drain-timeout", "second signal", "SIGKILL"])
def test_it_ends_before_uploads_have(start, tree, how):
    """Nothing of the file is left, not even by a server that had no time for anything."""
    os.mkdir(f"{tree}/in")
    server = start(tree, "--upload", "in", "--drain-timeout", "1s" if how == "--drain-timeout" else "1h", "--send-timeout", "1h")
    with server.wire() as wire:
        begun(wire, server, tree)
        if how == "SIGKILL":
            for pid in reversed(server.pids()):
                os.kill(pid, signal.SIGKILL)
            server.kill()
        else:
            server.process.send_signal(signal.SIGTERM)
            server.wait_said("stopping")
            if how == "second signal":
                server.process.send_signal(signal.SIGTERM)
            server.process.wait(PATIENCE)
            server.finish()
    assert names(tree) == ["in"]


@signals
def test_the_log_is_reopened_meanwhile(start, tree, tmp_path):
    os.mkdir(f"{tree}/in")
    server = start(tree, "--upload", "in", "--log", "json", "--log-file", tmp_path / "log")
    with server.wire() as wire:
        begun(wire, server, tree)
        os.rename(tmp_path / "log", tmp_path / "log.1")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: os.path.exists(tmp_path / "log"), "a new log")
        wire.send(b"x")
        assert wire.reply().status == 201
    assert os.path.getsize(f"{tree}/in/part") == LENGTH


# --- Too many, too much -------------------------------------------------------------------------------------


@pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls")
@pytest.mark.capacity(40)
@pytest.mark.long
def test_uploads_at_a_time(start, tree):
    """UPLOADS_MAX in each process: one more gets 503, and others go on."""
    if engine_row()["forks"] or ENGINE == "select":
        pytest.skip("a process for each connection" if engine_row()["forks"] else "1024 descriptors at most may wait")
    each, clients = 32, []
    server = start(tree, "--upload", ".", "--send-timeout", "1h")
    try:
        for number in range(UPLOADS // each):
            clients.append(h2.Client(server))
            streams = [clients[-1].ask(f"/{number}-{one}", "PUT", ends=False) for one in range(each)]
        wait_for(lambda: len(server.open_paths(f"{tree}/")) >= UPLOADS, "all are begun")
        with server.wire() as wire:
            assert wire.ask("/more", "PUT", body=b"x").status == 503
            assert wire.ask("/").status == 200
            clients[-1].say(streams[-1], b"x")
            assert clients[-1].reply(streams[-1]).status == 201
            assert wire.ask("/more", "PUT", body=b"x").status == 201
    finally:
        for client in clients:
            client.__exit__()
    wait_for(lambda: len(server.open_paths(f"{tree}/")) == 0, "all files are closed")
    assert names(tree) == [f"{UPLOADS // each - 1}-{each - 1}", "more"]


@pytest.mark.capacity(14)
def test_few_descriptors(start, tree):
    """An upload for which none is left is refused before its body, and later ones are not."""
    server = start(tree, "--upload", ".", "--max-connections", "10000", files=48)
    wires = [server.wire() for _ in range(14)]
    said = []
    for wire in wires:  # each has its descriptor before the first file is opened
        assert wire.ask("/missing").status == 404
    for number, wire in enumerate(wires):
        wire.send(request(f"/{number}", "PUT", ["Content-Length: 1", EXPECT]))
        said.append(wire.head().status)
    assert set(said) == ({100} if engine_row()["forks"] else {100, 503})
    for wire, status in zip(wires, said):
        if status == 100:
            wire.send(b"x")
            assert wire.reply().status == 201
        wire.close()
    assert len(names(tree)) == said.count(100)
    wait_for(lambda: server.ask("/last", "PUT", ["Connection: close"], b"x").status in (201, 409), "there are descriptors again")


@pytest.mark.core
@pytest.mark.parametrize("fields, body, status", [
    (["Content-Length: 1", "Content-Length: 2"], b"xx", 400), (["Content-Length: -1"], b"", 400), (["Content-Length: 99999999999999999999"], b"", (400, 413)),
    (["Content-Length: 9223372036854775807", EXPECT], b"", 413), ([CHUNKED], b"fffffffffffffffff\r\n", (400, 413)),
    ([CHUNKED], b"3\r\nabcd\r\n0\r\n\r\n", 400), ([CHUNKED], b"-1\r\n\r\n", 400), ([CHUNKED, "Content-Length: 3"], b"3\r\nabc\r\n0\r\n\r\n", 400),
    (["Transfer-Encoding: gzip, chunked"], b"0\r\n\r\n", (400, 501)), ([CHUNKED], b"3;" + b"x" * 20_000, 400), ([CHUNKED], b"0\r\n" + b"A: b\r\n" * 9_000 + b"\r\n", (400, 431))])
def test_framing(up, tree, fields, body, status):
    """No body that is not what its head says becomes a file."""
    with up.wire() as wire:
        sender = sending(wire, request("/in/new", "PUT", fields) + body)
        reply = wire.reply()
        assert reply.status in (status if isinstance(status, tuple) else (status,)) and reply.closes
        sender.join(PATIENCE)
    wait_for(lambda: not up.open_paths(f"{tree}/in/"), "the file is closed")
    assert names(f"{tree}/in") == ["there.txt"]


@pytest.mark.core
def test_nothing_is_smuggled(up, tree):
    """The body of a refused upload is no request: it is read to its end, or the connection ends."""
    inner = request("/in/smuggled", "PUT", ["Content-Length: 1"]) + b"x"
    for fields, body in ((["Content-Length: %d" % len(inner)], inner), ([CHUNKED], chunks(inner, 10)), (["Content-Length: %d" % len(inner), EXPECT], inner)):
        for target, method in (("/in/there.txt", "PUT"), ("/in/none/x", "PUT"), ("/x", "PUT"), ("/in/", "POST"), ("/in/.x", "PUT")):
            with up.wire() as wire:
                send(wire, request(target, method, fields) + body)
                assert wire.reply().status in (403, 404, 405, 409, 415)
    assert names(f"{tree}/in") == ["there.txt"]


# --- Pages ----------------------------------------------------------------------------------------------------


@pytest.mark.any_engine("what a head means")
def test_a_page_that_was_uploaded(start, tree):
    """docs/serve.md names the field that takes its rights from it."""
    with start(tree, "--upload", ".", "--header", "/* Content-Security-Policy: sandbox").wire() as wire:
        assert wire.ask("/page.html", "PUT", body=b"<script>alert(1)</script>").status == 201
        reply = wire.ask("/page.html")
        assert reply["content-type"].startswith("text/html") and reply["content-security-policy"] == "sandbox" and reply["x-content-type-options"] == "nosniff"


@pytest.mark.any_engine("what a head means")
def test_a_name_is_no_markup(up, tree):
    """Names are text in listings and answers, whatever they look like."""
    name = "\"><img src=x onerror=alert(1)>.txt\u202egnp"
    with up.wire() as wire:
        wire.send(post(form(part(name.replace('"', "%22"), b"x"), part("<b>'&", b"y"))))
        reply = wire.reply()
        assert reply.status == 201 and "<" not in reply["location"] and "\r" not in reply["location"]
        page = wire.ask("/in/").body
        assert b"<img" not in page and b"<b>" not in page


@pytest.mark.any_engine("what a head means")
@pytest.mark.parametrize("cors", [(), ("--cors",)])
def test_a_preflight_allows_no_upload(start, tree, cors):
    """A page of another site may not even ask for a PUT (Fetch, 4.8), and a form that it sends unasked is refused."""
    with start(tree, "--upload", ".", *cors).wire() as wire:
        reply = wire.ask("/new", "OPTIONS", ["Origin: http://evil.example", "Access-Control-Request-Method: PUT"])
        assert "PUT" not in reply.fields.get("access-control-allow-methods", "")
        assert reply.fields.get("access-control-allow-methods", "") != "*" and ("access-control-allow-origin" in reply.fields) == bool(cors)
        wire.send(post(form(part("a", b"x")), ["Origin: http://evil.example"], target="/"))
        assert wire.reply().status == 403
        assert wire.ask("/new", "PUT", ["Sec-Fetch-Site: cross-site"], b"x").status == 403
    assert not names(tree)
