# SPDX-License-Identifier: MIT
"""Files that clients store by PUT (--upload).  Forms are in test_upload_form.py.

A file is there when its answer is, whole, or it never is: whatever the client does, nothing else may be on the disk.
"""
import json
import os
import shutil
import subprocess
import threading
import time

import pytest
from lib import mounts
from lib.client import request
from lib.server import wait_for
from lib.trees import content, write
from test_bodies import chunks

pytestmark = pytest.mark.userspace("uploads")
CHUNKED = "Transfer-Encoding: chunked"
EXPECT = "Expect: 100-continue"
BUFFER = 65536  # written at once: server/upload.h
SIZES = [0, 1, BUFFER - 1, BUFFER, BUFFER + 1, 5 * BUFFER, 1_000_000]


def names(folder):
    """All that is below a folder, hidden or not."""
    return sorted(os.path.relpath(os.path.join(path, name), folder) for path, folders, files in os.walk(folder) for name in folders + files)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def put(target, body=b"", fields=()):
    return request(target, "PUT", fields, body) if body else request(target, "PUT", ["Content-Length: 0", *fields])


def send(wire, data):
    """Send while the answer may already be on its way."""
    try:
        wire.send(data)
    except (BrokenPipeError, ConnectionResetError):
        pass


def sending(wire, data):
    """A thread that sends it; the answer may come before it has sent everything."""
    thread = threading.Thread(target=send, args=(wire, data), daemon=True)
    thread.start()
    return thread


@pytest.fixture
def up(start, tree):
    os.mkdir(f"{tree}/in")
    write(f"{tree}/in/there.txt", b"there before\n")
    write(f"{tree}/outside.txt", b"outside\n")
    return start(tree, "--upload", "in", "--upload-max", "2m", "--send-timeout", "60s")


# --- What is stored ------------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize("form", ["length", "chunked"])
def test_stored(up, tree, form):
    with up.wire() as wire:
        for size in SIZES:
            data = content(f"put {size}", size)
            wire.send(put(f"/in/{form}-{size}", data) if form == "length" else
                      request(f"/in/{form}-{size}", "PUT", [CHUNKED]) + chunks(data, 30_000))
            reply = wire.reply()
            assert reply.status == 201 and reply["location"] == f"/in/{form}-{size}" and not reply.closes
            assert read(f"{tree}/in/{form}-{size}") == data
            assert wire.ask(f"/in/{form}-{size}").body == data
    assert names(f"{tree}/in") == sorted([*(f"{form}-{size}" for size in SIZES), "there.txt"])
    assert oct(os.stat(f"{tree}/in/{form}-1").st_mode & 0o777) == oct(0o666 & ~umask())


def umask():
    with open("/proc/self/status", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("Umask:")).split()[1], 8)


@pytest.mark.core
def test_however_it_is_cut(up, tree):
    """The file has the bytes of the body, wherever the request was cut."""
    body = chunks(b"0123456789" * 3, 7, b";x=y", b"A: b\r\n")
    with up.wire() as wire:
        data = request("/in/name", "PUT", [CHUNKED]) + body
        for cut in range(1, len(data)):
            wire.send_cut(data, cut)
            assert wire.reply().status == 201
            assert read(f"{tree}/in/name") == b"0123456789" * 3
            os.unlink(f"{tree}/in/name")


@pytest.mark.core
def test_seen_at_once(up, tree):
    """Listings that are kept in memory, a 404 that is kept, and requests that came with the upload."""
    with up.wire() as wire:
        for turn in range(4):
            for _ in range(3):
                assert wire.ask(f"/in/new{turn}").status == 404
                assert f"new{turn}" not in wire.ask("/in/").body.decode()
                assert f"new{turn}" not in {row["name"] for row in json.loads(wire.ask("/in/?format=json").body)["entries"]}
            wire.send(put(f"/in/new{turn}", b"new") + request(f"/in/new{turn}") + request("/in/") + request("/in/?format=json"))
            assert wire.reply().status == 201
            assert wire.reply().body == b"new"
            assert f"new{turn}" in wire.reply().body.decode()
            assert f"new{turn}" in {row["name"] for row in json.loads(wire.reply().body)["entries"]}


@pytest.mark.capacity(2)
# shows U93
def test_not_seen_before(up, tree):
    data = content("part", 300_000)
    with up.wire() as wire, up.wire() as other:
        wire.send(request("/in/part", "PUT", [f"Content-Length: {len(data)}"]) + data[:-1])
        for _ in range(3):
            assert other.ask("/in/part").status == 404
            assert b"part" not in other.ask("/in/?format=text").body
        assert names(f"{tree}/in") == ["there.txt"]
        wire.send(data[-1:])
        assert wire.reply().status == 201
        assert other.ask("/in/part").body == data


def test_curl(up, tree, tmp_path):
    """A client that asks first if the file is large."""
    if not shutil.which("curl"):
        pytest.skip("no curl")
    for size in (10, 1_500_000):
        data = write(f"{tmp_path}/up-{size}", content(f"curl {size}", size))
        done = subprocess.run(["curl", "-sSk", "-o", "/dev/null", "-w", "%{http_code}", "-T", f"{tmp_path}/up-{size}", up.url("/in/")],
                              stdout=subprocess.PIPE, timeout=60, check=True)
        assert done.stdout == b"201" and read(f"{tree}/in/up-{size}") == data


def test_below_the_folder(up, tree):
    os.makedirs(f"{tree}/in/a/b c")
    with up.wire() as wire:
        assert wire.ask("/in/a/b%20c/d%20e", "PUT", body=b"x")["location"] == "/in/a/b%20c/d%20e"
        assert read(f"{tree}/in/a/b c/d e") == b"x"
        assert wire.ask("/in/a/./../a/b%20c/x", "PUT", body=b"x").status == 201  # what it means, by the rules of every path
        assert names(f"{tree}/in/a") == ["b c", "b c/d e", "b c/x"]


@pytest.mark.parametrize("named", [".", "./", "/", "in/..x"])
def test_how_the_folder_is_named(start, tree, named):
    os.makedirs(f"{tree}/in/..x")
    server = start(tree, "--upload", named, "--hidden")
    at = "/in/..x/" if "x" in named else "/"
    with server.wire() as wire:
        assert wire.ask(f"{at}new", "PUT", body=b"x").status == 201
        assert wire.ask("/in/new", "PUT", body=b"x").status == (405 if "x" in named else 201)


# --- What is not ----------------------------------------------------------------------------------------------


@pytest.mark.core
def test_off_by_default(start, tree):
    with start(tree).wire() as wire:
        for method in ("PUT", "POST"):
            reply = wire.ask("/name" if method == "PUT" else "/", method, body=b"x")
            assert reply.status == 405 and reply["allow"] == "GET, HEAD, OPTIONS"
        assert b"<form method" not in wire.ask("/").body
    assert not names(tree)


@pytest.mark.core
# shows U93
def test_nothing_is_replaced(up, tree):
    os.mkdir(f"{tree}/in/folder")
    os.mkfifo(f"{tree}/in/fifo")
    os.symlink("nowhere", f"{tree}/in/dead")
    os.symlink("there.txt", f"{tree}/in/link")
    before = names(tree)
    with up.wire() as wire:
        for name in ("there.txt", "folder", "fifo", "dead", "link"):
            assert wire.ask(f"/in/{name}", "PUT", body=b"x").status == 409
            assert wire.ask(f"/in/{name}", "PUT", ["If-None-Match: *"], b"x").status == 412
            assert wire.ask(f"/in/{name}", "PUT", ['If-Match: "a"'], b"x").status == 412
        assert wire.ask("/in/new", "PUT", ["If-Match: *"], b"x").status == 412
        assert names(tree) == before
        assert wire.ask("/in/new", "PUT", ["If-None-Match: *"], b"x").status == 201
    assert read(f"{tree}/in/there.txt") == b"there before\n" and not os.path.lexists(f"{tree}/in/nowhere")


LONG = "n" * 255
# target, status
NAMES = [
    ("/in/" + LONG, 201), ("/in/" + LONG + "n", 414), ("/in/%FF%FE", 201), ("/in/a%2Bb&c;d", 201), ("/in/...", 403), ("/in/a.", 201),
    ("/in/", 405), ("/in", 405), ("/", 405), ("/outside.txt", 405), ("/new", 405), ("/inn/new", 405), ("/in/../new", 405), ("/in/../../new", 404),
    ("/in/a%2Fb", 400), ("/in/a%00b", 400), ("/in/%0A", 400), ("/in/a%7F", 400), ("/in/%C0%AF", 400), ("/in/%zz", 400),
    ("/in/.hidden", 403), ("/in/.well-known/a", 403), ("/in/.git/config", 403), ("/in/none/new", 404), ("/in/there.txt/new", 404),
    ("/in/index.html", 403), ("/in/404.html", 201), ("/in/there.txt.gz", 201), ("/in/there.txt.br", 201), ("/in/new.tar.gz", 201), ("/in/.gz", 403),
]


@pytest.mark.any_engine("a name means the same whoever waits for it")
@pytest.mark.parametrize("target, status", NAMES, ids=[row[0][:20] for row in NAMES])
def test_names(up, tree, target, status):
    before = names(tree)
    with up.wire() as wire:
        assert wire.ask(target, "PUT", body=b"x").status == status
        if status != 201:
            assert names(tree) == before
        assert wire.ask("/in/there.txt").body == b"there before\n"


@pytest.mark.any_engine("a name means the same whoever waits for it")
def test_pages_and_hidden_names_at_the_top(start, tree):
    """A file that would be sent in the place of another is refused; --hidden allows all names except .well-known."""
    os.makedirs(f"{tree}/.well-known/acme-challenge")
    os.makedirs(f"{tree}/.open")
    with start(tree, "--upload", ".", "--hidden", "--index", "home.htm").wire() as wire:
        for target, status in (("/404.html", 403), ("/500.html", 403), ("/home.htm", 403), ("/index.html", 201), ("/404.htm", 201),
                               ("/.well-known/acme-challenge/token", 403), ("/.well-known/x", 403), ("/.open/.file", 201), ("/.file", 201)):
            assert wire.ask(target, "PUT", body=b"x").status == status, target
        assert wire.ask("/missing").body != b"x"


@pytest.mark.core
def test_links_are_not_followed(start, tree, tmp_path):
    for at, to in (("in/out", str(tmp_path)), ("in/up", ".."), ("in/self", "real"), ("link", "in"), ("in/abs", f"{tree}/in/real")):
        os.makedirs(f"{tree}/in/real", exist_ok=True)
        os.symlink(to, f"{tree}/{at}")
    before = names(tree)
    with start(tree, "--upload", ".").wire() as wire:
        for target in ("/in/out/x", "/in/up/x", "/in/self/x", "/link/x", "/in/abs/x"):
            assert wire.ask(target, "PUT", body=b"x").status == 403
        assert names(tree) == before and not names(tmp_path)
        assert wire.ask("/in/real/x", "PUT", body=b"x").status == 201


@pytest.mark.any_engine("what a head means")
@pytest.mark.parametrize("field, status", [
    ("Content-Range: bytes 0-0/2", 400), ("Content-Encoding: gzip", 415), ("Content-Encoding: identity", 201),
    ("Origin: http://localhost", 201), ("Origin: http://LOCALHOST", 201), ("Origin: http://evil.example", 403), ("Origin: null", 403),
    ("Origin: http://localhost:80", 403), ("Origin: localhost", 403), ("Origin: http://localhost.evil.example", 403),
    ("Sec-Fetch-Site: same-origin", 201), ("Sec-Fetch-Site: none", 201), ("Sec-Fetch-Site: same-site", 403), ("Sec-Fetch-Site: cross-site", 403),
    ("Sec-Fetch-Site: same-origin\r\nOrigin: https://proxy.example", 201), ("Sec-Fetch-Site: cross-site\r\nOrigin: http://localhost", 403),
    ("Origin: http://localhost\r\nOrigin: http://localhost", 403)])
def test_fields(up, tree, field, status):
    with up.wire() as wire:
        assert wire.ask("/in/new", "PUT", [field], b"x").status == status
    assert os.path.exists(f"{tree}/in/new") == (status == 201)


@pytest.mark.any_engine("what a head means")
def test_allow(up):
    with up.wire() as wire:
        for target, allow in (("/in/new", "GET, HEAD, OPTIONS, PUT"), ("/in/", "GET, HEAD, OPTIONS, POST"), ("/new", "GET, HEAD, OPTIONS"),
                              ("*", "GET, HEAD, OPTIONS")):
            assert wire.ask(target, "OPTIONS")["allow"] == allow
            if target != "*":
                assert wire.ask(target, "DELETE")["allow"] == allow


# --- Limits ----------------------------------------------------------------------------------------------------


@pytest.mark.core
def test_size_limit(start, tree):
    with start(tree, "--upload", ".", "--upload-max", "100000").wire() as wire:
        assert wire.ask("/exact", "PUT", body=content("a", 100_000)).status == 201
        wire.send(request("/exact-chunked", "PUT", [CHUNKED]) + chunks(content("b", 100_000), 9_999))
        assert wire.reply().status == 201
        wire.send(request("/more", "PUT", ["Content-Length: 100001", EXPECT]))  # and no byte of the body
        reply = wire.reply()
        assert reply.status == 413 and reply.closes and not reply.continues
    assert names(tree) == ["exact", "exact-chunked"]


@pytest.mark.parametrize("size", [100_001, 3_000_000])
def test_size_limit_in_the_middle(start, tree, size):
    """A body that does not say how long it is."""
    with start(tree, "--upload", ".", "--upload-max", "100000").wire() as wire:
        sender = sending(wire, request("/more", "PUT", [CHUNKED]) + chunks(bytes(size), 9_999))
        reply = wire.reply()
        assert reply.status == 413 and reply.closes
        sender.join(30)
    assert not names(tree)


def test_larger_than_other_bodies(start, tree):
    """--max-body is for bodies that are thrown away."""
    with start(tree, "--upload", ".", "--max-body", "10").wire() as wire:
        assert wire.ask("/new", "PUT", body=bytes(3_000_000)).status == 201
        assert wire.ask("/new", "PUT", body=bytes(10)).status == 409
        wire.send(request("/new", "PUT", ["Content-Length: 11"]))
        reply = wire.reply()
        assert reply.status == 409 and reply.closes


@pytest.mark.core
def test_continue(up, tree):
    """RFC 9110 10.1.1: the body is asked for only if it is wanted."""
    with up.wire() as wire:
        wire.send(request("/in/new", "PUT", [EXPECT, "Content-Length: 3"]))
        assert wire.head().status == 100
        wire.send(b"abc")
        assert wire.reply().status == 201
        wire.send(request("/in/new", "PUT", [EXPECT, "Content-Length: 3"]))
        reply = wire.reply()
        assert reply.status == 409 and not reply.continues and reply.closes
        wire.end()
    assert read(f"{tree}/in/new") == b"abc"


@pytest.mark.core
def test_connection_stays(up, tree):
    """After an upload, and after a refusal whose body is short or chunked."""
    with up.wire() as wire:
        for turn in range(3):
            assert wire.ask(f"/in/{turn}", "PUT", body=b"x").status == 201
            assert wire.ask(f"/in/{turn}", "PUT", body=b"yy").status == 409
            wire.send(request(f"/in/{turn}", "PUT", [CHUNKED]) + chunks(bytes(50_000)) + request("/in/there.txt"))
            assert wire.reply().status == 409
            assert wire.reply().body == b"there before\n"
            assert wire.ask("/x", "PUT").status == 405
        assert not wire.ask("/in/end", "PUT", body=b"x", minor=0).fields["connection"] == "keep-alive"
        wire.end()


def test_http10(up, tree):
    with up.wire() as wire:
        assert wire.ask("/in/old", "PUT", ["Connection: keep-alive"], b"x", minor=0).status == 201
        assert wire.ask("/in/old", minor=0).body == b"x"


@pytest.mark.skipif(not mounts.may(), reason="mounts need root")
@pytest.mark.parametrize("form", ["length", "chunked"])
def test_no_room(start, tree, form):
    """A full disk: before the body if the length is known, and nothing is left of what was written."""
    mounts.own()
    os.mkdir(f"{tree}/in")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", f"{tree}/in"], check=True)
    try:
        server = start(tree, "--upload", "in")
        with server.wire() as wire:
            if form == "length":
                wire.send(request("/in/new", "PUT", ["Content-Length: 2000000", EXPECT]))
                reply = wire.reply()
                assert not reply.continues
            else:
                sender = sending(wire, request("/in/new", "PUT", [CHUNKED]) + chunks(bytes(2_000_000), 9_999))
                reply = wire.reply()
                sender.join(30)
            assert reply.status == 507 and reply.closes
        assert not names(f"{tree}/in")
        with server.wire() as wire:
            assert wire.ask("/in/small", "PUT", body=bytes(500_000)).status == 201
        server.stop()
    finally:
        mounts.unmount(f"{tree}/in")


# --- Clients that leave ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["close", "reset", "finish"])
@pytest.mark.parametrize("sent", [0, 1, BUFFER, 5 * BUFFER - 1])
def test_client_leaves(up, tree, end, sent):
    with up.wire() as wire:
        wire.send(request("/in/part", "PUT", [f"Content-Length: {5 * BUFFER}"]) + bytes(sent))
        if sent:
            wait_for(lambda: up.open_paths(f"{tree}/in/"), "the file is open")
        getattr(wire, end)()
        if end == "finish":
            reply = wire.reply()
            assert reply.status == 400 and reply.closes
    wait_for(lambda: not up.open_paths(f"{tree}/in/"), "the file is closed")
    assert names(f"{tree}/in") == ["there.txt"]
    with up.wire() as wire:
        assert wire.ask("/in/part", "PUT", body=b"again").status == 201


def test_slow_client(start, tree):
    """A body that makes no progress: the limits of every body."""
    server = start(tree, "--upload", ".", "--send-timeout", "300ms", "--min-progress", "1000")
    with server.wire() as wire:
        wire.send(request("/slow", "PUT", ["Content-Length: 100000"]))
        began, sent = time.monotonic(), 0
        while time.monotonic() - began < 1.5:  # 10,000 bytes a second are enough
            wire.send(bytes(500))
            sent += 500
            time.sleep(0.05)
        wire.send(bytes(100_000 - sent))
        assert wire.reply().status == 201
        wire.send(request("/stalls", "PUT", ["Content-Length: 100000"]) + bytes(50_000))
        wire.end()
    assert names(tree) == ["slow"]


@pytest.mark.capacity(2)
@pytest.mark.core
def test_race(up, tree):
    """Two uploads of one name at a time: the first that is complete has it, and the other is refused."""
    one, two = content("one", 200_000), content("two", 200_000)
    for turn in range(5):
        with up.wire() as first, up.wire() as second:
            for wire, data in ((first, one), (second, two)):
                wire.send(request(f"/in/{turn}", "PUT", [f"Content-Length: {len(data)}"]) + data[:-1])
            wait_for(lambda: len(up.open_paths(f"{tree}/in/")) >= 2, "both files are open")
            second.send(two[-1:])
            assert second.reply().status == 201
            first.send(one[-1:])
            assert first.reply().status == 409
            assert first.ask(f"/in/{turn}").body == two


@pytest.mark.capacity(8)
def test_crowd(up, tree):
    """Eight clients at once, each with a name of its own and one that all want."""
    won, said = [], []

    def client(number):
        try:
            with up.wire() as wire:
                for turn in range(6):
                    data = content(f"{number} {turn}", 150_000)
                    assert wire.ask(f"/in/{number}-{turn}", "PUT", body=data).status == 201
                    assert wire.ask(f"/in/{number}-{turn}").body == data
                    if wire.ask(f"/in/all-{turn}", "PUT", body=data).status == 201:
                        won.append((turn, data))
        except Exception as error:  # shown below
            said.append(error)
    threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not said
    assert sorted(turn for turn, _ in won) == list(range(6))
    for turn, data in won:
        assert read(f"{tree}/in/all-{turn}") == data
    assert len(names(f"{tree}/in")) == 8 * 6 + 6 + 1
