# SPDX-License-Identifier: MIT
"""A folder as one tar or zip, made while it is sent (--archive)."""
import contextlib
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import threading
import time
import zipfile

import pytest
from cli import EXIT_MISSING, EXIT_USAGE, elf, run
from lib import h2
from lib.client import PATIENCE, request
from lib.crowd import sanitized
from lib.secured import EVERYWHERE
from lib.server import children, wait_for
from lib.trees import ODD_NAMES, content, quote, write
from test_auth import basic, hashed

pytestmark = pytest.mark.userspace("archives")
LONG = "n" * 200 + "/" + "m" * 200
FILES = {"a.txt": b"one\n" * 1000, "empty": b"", "large.bin": content("large", 3_000_000), "deep/er/b.bin": content("b", 70_000),
         "deep/index.html": b"<p>index\n", "sp ace/\u00e9\u4e2d.txt": b"two\n", LONG: b"long\n"}
TYPES = {"tar": "application/x-tar", "tar.gz": "application/gzip", "zip": "application/zip"}
LAST = b"0\r\n\r\n"  # a whole answer ends with the last chunk
AT_ONCE = 16


def grow(tree):
    for name, data in FILES.items():
        write(f"{tree}/top/{name}", data)
    write(f"{tree}/top/.hidden", b"secret\n")
    write(f"{tree}/top/.git/config", b"secret\n")
    write(f"{tree}/outside", b"outside\n")
    write(f"{tree}/top/locked", b"secret\n")
    os.chmod(f"{tree}/top/locked", 0)
    os.mkdir(f"{tree}/top/closed")
    write(f"{tree}/top/closed/file", b"secret\n")
    os.chmod(f"{tree}/top/closed", 0o700 if os.geteuid() == 0 else 0)
    os.mkdir(f"{tree}/top/nothing")
    os.mkfifo(f"{tree}/top/fifo")
    for name, target in (("link", "a.txt"), ("loop", ".."), ("etc", "/etc"), ("passwd", "/etc/passwd"), ("up", "../../../../../../etc/passwd"),
                         ("sly", ".hidden"), ("dead", "none")):
        os.symlink(target, f"{tree}/top/{name}")
    for name in ("a.txt", "large.bin"):
        os.utime(f"{tree}/top/{name}", (1_600_000_000,) * 2)
    return tree


@pytest.fixture
def grown(tree):
    yield grow(tree)
    os.chmod(f"{tree}/top/closed", 0o755)


EXPECTED = {**{f"top/{name}": data for name, data in FILES.items()}, "top/link": FILES["a.txt"]}
FOLDERS = {"top", "top/deep", "top/deep/er", "top/sp ace", "top/nothing", "top/" + "n" * 200}


def read_tar(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = archive.getmembers()
        assert {one.uid for one in members} == {0} and {one.mode for one in members} <= {0o644, 0o755} and {one.uname for one in members} == {""}
        assert all(one.isfile() or one.isdir() for one in members) and len({one.name for one in members}) == len(members)
        times = {one.name: one.mtime for one in members}
        return {one.name: archive.extractfile(one).read() for one in members if one.isfile()}, {one.name for one in members if one.isdir()}, times


def read_zip(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert len(set(names)) == len(names)
        return {name: archive.read(name) for name in names if not name.endswith("/")}, {name[:-1] for name in names if name.endswith("/")}, {}


READERS = {"tar": read_tar, "tar.gz": read_tar, "zip": read_zip}


def received(server, path, minor=1):
    """All bytes of an answer until the connection's end."""
    data = []
    with server.wire() as wire:
        wire.send(request(path, minor=minor, fields=["Connection: close"]))
        with contextlib.suppress(ConnectionResetError):
            while more := wire.sock.recv(1 << 20):
                data.append(more)
    return b"".join(data)


def holes(path, size):
    write(path, b"")
    os.truncate(path, size)


def opened(server, kind="tar"):
    """A connection that has asked for an archive and received the beginning of the answer; and its status."""
    wire = server.wire()
    wire.send(request(f"/top/?archive={kind}"))
    return wire, int(wire.lines()[0].split()[1])


# --- What it has --------------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize("sandbox", ["on", "strict"])
@pytest.mark.parametrize("kind", READERS)
# shows U62
def test_contents(start, grown, kind, sandbox):
    """What a visitor could ask for, and nothing else: nothing hidden or locked, no link to a folder or out of it, no owner."""
    if sandbox == "strict" and (sanitized() or not elf()):
        pytest.skip("a sanitizer or valgrind has no sandbox")
    with start(grown, "--archive", "--sandbox", sandbox).wire() as wire:
        for _ in range(2):
            reply = wire.ask(f"/top/?archive={kind}")
            assert reply.status == 200 and reply["content-type"] == TYPES[kind] and reply["transfer-encoding"] == "chunked"
            assert reply["content-disposition"] == f"attachment; filename=\"top.{kind}\"; filename*=UTF-8''top.{kind}"
            assert reply["accept-ranges"] == "none" and reply["cache-control"] == "no-cache"
            assert "etag" not in reply.fields and "last-modified" not in reply.fields and "vary" not in reply.fields
            files, folders, times = READERS[kind](reply.body)
            assert files == EXPECTED and folders == FOLDERS and b"secret" not in reply.body and b"root:" not in reply.body
            assert not times or times["top/a.txt"] == times["top/large.bin"] == 1_600_000_000
        assert wire.ask("/outside").body == b"outside\n"  # the connection goes on


@pytest.mark.core
def test_requests(start, grown):
    with start(grown, "--archive").wire() as wire:
        head = wire.ask("/top/?archive=tar", "HEAD")
        assert head.status == 200 and "filename=\"top.tar\"" in head["content-disposition"] and not head.body
        for fields in (["Range: bytes=0-9"], ["If-None-Match: \"x\""], ["Accept-Encoding: gzip, br"]):  # each archive is another one
            assert read_tar(wire.ask("/top/?archive=tar", fields=fields).body)[0] == EXPECTED
        moved = wire.ask("/top?archive=tar")
        assert moved.status == 301 and moved["location"] == "/top/?archive=tar"
        for path, status in (("/none/", 404), ("/top/.git/", 404), ("/top/etc/", 403), ("/top/a.txt/", 404), ("/top/closed/", 403)):
            assert wire.ask(f"{path}?archive=zip").status == status, path
        assert wire.ask("/outside?archive=tar").body == b"outside\n"
        for query in ("archive=rar", "archive=", "archive", "archive=tar&x", "x&archive=tar", "archive=TAR", "archive=tar.", "archive=tar.g"):
            assert wire.ask(f"/top/?{query}")["content-type"].startswith("text/html"), query
        root = wire.ask("/?archive=zip")
        assert "filename=\"files.zip\"" in root["content-disposition"]
        files = read_zip(root.body)[0]
        assert files["files/outside"] == b"outside\n" and files["files/top/a.txt"] == FILES["a.txt"]
        assert set(read_tar(wire.ask("/top/deep/?archive=tar").body)[0]) == {"deep/index.html", "deep/er/b.bin"}  # the folder has an index
        assert wire.ask("/top/loop/?archive=tar", "HEAD").status == 200  # a link that is asked for by name is followed


def test_http_1_0(start, grown):
    """The end of the connection is the end of the archive."""
    head, _, body = received(start(grown, "--archive"), "/top/?archive=tar", minor=0).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ") and b"\r\nTransfer-Encoding" not in head and read_tar(body)[0] == EXPECTED


@pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls")
def test_http_2(start, grown):
    server = start(grown, "--archive")
    with h2.Client(server) as client:
        streams = [client.ask(f"/top/?archive={kind}") for kind in READERS]
        for stream, read in zip(streams, READERS.values()):
            assert read(bytes(client.reply(stream).body))[0] == EXPECTED
        assert client.get("/top/?archive=zip", "HEAD").status == 200


@pytest.mark.core
@pytest.mark.parametrize("kind", READERS)
def test_names(start, tree, kind):
    """A name has the bytes that the file has.  A zip says which names are UTF-8, and Python reads the others as code page 437."""
    for number, name in enumerate(ODD_NAMES):
        write(os.fsencode(f"{tree}/top/") + name, b"%d\n" % number)
    with start(tree, "--archive").wire() as wire:
        files = READERS[kind](wire.ask(f"/top/?archive={kind}").body)[0]
    expected = {}
    for number, name in enumerate(ODD_NAMES):
        try:
            text = name.decode()
        except UnicodeDecodeError:
            text = name.decode("cp437") if kind == "zip" else os.fsdecode(name)
        expected[f"top/{text}"] = b"%d\n" % number
    assert files == expected


@pytest.mark.any_engine("the core writes fields")
def test_name_for_saving(start, tree):
    """The name has both forms of RFC 6266: one in ASCII, one of any bytes."""
    shown = {b"sp ace": ("sp ace", "sp%20ace"), "\u00e9\u4e2d".encode(): ("_____", "%C3%A9%E4%B8%AD"), b'a"b\\c%d': ("a_b_c_d", "a%22b%5Cc%25d"),
             b"\xff\n\x7f": ("___", "%FF%0A%7F"), b"n" * 255: ("n" * 255,) * 2, b"\xff" * 255: ("_" * 255, "%FF" * 255)}
    for name in shown:
        os.mkdir(os.fsencode(f"{tree}/") + name)
    with start(tree, "--archive").wire() as wire:
        for name, (plain, coded) in shown.items():
            reply = wire.ask(f"/{quote(name)}/?archive=tar.gz", "HEAD")
            assert reply["content-disposition"] == f"attachment; filename=\"{plain}.tar.gz\"; filename*=UTF-8''{coded}.tar.gz"


@pytest.mark.any_engine("programs that unpack")
@pytest.mark.skipif(not shutil.which("unzip"), reason="unzip is not installed")
def test_unpacked(start, grown, tmp_path):
    """tar and unzip make of it what the folder has."""
    with start(grown, "--archive").wire() as wire:
        for kind, command in (("tar", ["tar", "-xf"]), ("tar.gz", ["tar", "-xzf"]), ("zip", ["unzip", "-q"])):
            (tmp_path / kind).mkdir()
            (tmp_path / f"a.{kind}").write_bytes(wire.ask(f"/top/?archive={kind}").body)
            subprocess.run([*command, tmp_path / f"a.{kind}"], cwd=tmp_path / kind, check=True, timeout=PATIENCE, env={**os.environ, "LC_ALL": "C.UTF-8"})
            for name, data in EXPECTED.items():
                assert (tmp_path / kind / name).read_bytes() == data


# --- When there is one --------------------------------------------------------------------------------------


@pytest.mark.any_engine("options")
def test_off(start, tree):
    """Without the option there is none."""
    write(f"{tree}/top/a", b"a")
    with start(tree).wire() as wire:
        assert wire.ask("/top/?archive=zip")["content-type"].startswith("text/html") and b"archive=" not in wire.ask("/top/").body


@pytest.mark.any_engine("options")
def test_refused_at_the_start(tree, tmp_path):
    """Where no folder could be downloaded, and where the library is none."""
    write(f"{tree}/file", b"a")
    write(f"{tmp_path}/libarchive.so.13", b"no library")
    for args, env, code, said in ((["--listing", "off", tree], None, EXIT_USAGE, "--listing off"), ([f"{tree}/file"], None, EXIT_USAGE, "a single file"),
                                  ([tree], {"LD_LIBRARY_PATH": str(tmp_path)}, EXIT_MISSING, "libarchive13")):
        done = run("serve", "-p", 0, "--archive", *args, env=env)
        assert done.returncode == code and "--archive: " in done.stderr and said in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.any_engine("the core writes links")
def test_links_of_a_listing(start, tree):
    write(f"{tree}/top/a", b"a")
    with start(tree, "--archive").wire() as wire:
        for _ in range(6):  # it is kept meanwhile
            links = re.findall(r'<a rel="nofollow" href="(\?archive=[\w.]+)" download>', wire.ask("/top/").body.decode())
            assert links == ["?archive=zip", "?archive=tar.gz"]
        assert read_zip(wire.ask("/top/" + links[0]).body)[0] == read_tar(wire.ask("/top/" + links[1]).body)[0] == {"top/a": b"a"}
        assert b"archive" not in wire.ask("/top/?format=json").body


def test_hidden_if_asked(start, grown):
    with start(grown, "--archive", "--hidden").wire() as wire:
        files = read_tar(wire.ask("/top/?archive=tar").body)[0]
        assert files == {**EXPECTED, "top/.hidden": b"secret\n", "top/.git/config": b"secret\n", "top/sly": b"secret\n"}


@pytest.mark.any_engine("options that refuse")
def test_who_may(start, grown, tmp_path):
    """--auth, --allow and --deny hold for archives, too."""
    passwords = tmp_path / "passwords"
    passwords.write_text(f"ann:{hashed('secret')}\n")
    with start(grown, "--archive", "--auth", passwords).wire() as wire:
        assert wire.ask("/top/?archive=zip").status == 401 and wire.ask("/top/?archive=zip", "HEAD").status == 401
        assert wire.ask("/top/?archive=zip", fields=basic("ann", "wrong")).status == 401
        assert read_zip(wire.ask("/top/?archive=zip", fields=basic("ann", "secret")).body)[0] == EXPECTED
    for options in (["--deny", "127.0.0.0/8,::1"], ["--allow", "10.0.0.0/8"]):
        with start(grown, "--archive", *options).wire() as wire:
            assert wire.ask("/top/?archive=zip").status == 403


@pytest.mark.parametrize("cache", ["64m", "0"])
def test_always_new(start, tree, cache):
    """Nothing of an archive is kept: each has the files as they are."""
    write(f"{tree}/top/a.txt", b"")
    with start(tree, "--archive", "--cache", cache).wire() as wire:
        for turn in range(5):
            write(f"{tree}/top/a.txt", b"turn %d\n" % turn)
            write(f"{tree}/top/new{turn}", b"n")
            files = read_tar(wire.ask("/top/?archive=tar").body)[0]
            assert files["top/a.txt"] == b"turn %d\n" % turn and f"top/new{turn}" in files


# --- Limits -------------------------------------------------------------------------------------------------


def test_depth(start, tree):
    """64 folders in each other are walked; with one more the answer is cut off, because it would not be whole."""
    server = start(tree, "--archive")
    os.makedirs(f"{tree}/top/" + "d/" * 63)
    assert received(server, "/top/?archive=tar").endswith(LAST)
    os.mkdir(f"{tree}/top/" + "d/" * 64)
    assert not received(server, "/top/?archive=tar").endswith(LAST)
    assert received(server, "/top/d/?archive=tar").endswith(LAST)


@pytest.mark.long
@pytest.mark.any_engine("the list of a zip")
def test_list_of_a_zip(start, wide_tree):
    """A tar has any number of names; the list of a zip, which is kept until its end, has 16 MiB."""
    folder = f"{wide_tree}/top/{'f' * 250}"
    os.makedirs(folder)
    each = 100 + len(f"top/{'f' * 250}/") + 200
    fit = (16 << 20) // each - 1  # one entry less: the two folders have shorter names
    for number in range(fit):
        os.close(os.open(f"{folder}/{number:0200}", os.O_CREAT, 0o644))
    server = start(wide_tree, "--archive")
    with server.wire() as wire:
        assert len(read_zip(wire.ask("/top/?archive=zip").body)[0]) == fit
    for number in range(2):
        os.close(os.open(f"{folder}/more{number:0196}", os.O_CREAT, 0o644))
    assert not received(server, "/top/?archive=zip").endswith(LAST)
    assert received(server, "/top/?archive=tar").endswith(LAST)


@pytest.mark.long
@pytest.mark.capacity(30)
def test_at_most_sixteen(start, tree):
    """More get 503 until one has ended, whatever the processes are.  Other requests are served meanwhile."""
    holes(f"{tree}/top/large", 1 << 30)
    server = start(tree, "--archive")
    open_ones = []
    for number in range(AT_ONCE + 1):
        wire, status = opened(server, list(READERS)[number % 3])
        assert status == (200 if number < AT_ONCE else 503), number
        open_ones.append(wire)
    with server.wire() as wire:
        assert wire.ask("/top/").status == 200
    open_ones.pop(0).close()

    def again():
        wire, status = opened(server)
        open_ones.append(wire)
        return status == 200
    wait_for(again, "a place for one more")
    for wire in open_ones:
        wire.close()


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.any_engine("processes that are killed")
def test_places_of_a_process_that_was_killed(start, tree):
    holes(f"{tree}/top/large", 1 << 30)
    server = start(tree, "--archive", "--workers", 2, "--workers-as", "process", engine="epoll")
    open_ones = [opened(server) for _ in range(AT_ONCE + 1)]
    assert [status for _, status in open_ones] == [200] * AT_ONCE + [503]
    for pid in children(server.pid):
        os.kill(pid, signal.SIGKILL)
    for wire, _ in open_ones:
        wire.close()

    def again():
        with contextlib.suppress(OSError, AssertionError):
            wire, status = opened(server)
            wire.close()
            return status == 200
        return False
    wait_for(again, "the places of the dead processes")
    server.process.terminate()
    server.finish()


# --- What ends it early -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", READERS)
def test_file_that_shrinks(start, tree, kind):
    """The size of a file is sent before its bytes; if they are not there any more, the answer is cut off."""
    write(f"{tree}/top/large.txt", content("s", 1 << 20) * 64)
    server = start(tree, "--archive")
    wire, status = opened(server, kind)
    assert status == 200
    wire.take(100_000)  # of the file
    os.truncate(f"{tree}/top/large.txt", 1000)
    data = b""
    with wire, contextlib.suppress(ConnectionResetError):
        while more := wire.sock.recv(1 << 20):
            data = (data + more)[-100:]
    assert not data.endswith(LAST)
    with server.wire() as wire:
        assert wire.ask("/top/large.txt").length == 1000


@pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls")
@pytest.mark.parametrize("secured", [False, True])
def test_file_that_shrinks_http_2(start, tree, secured):
    """The stream is reset; the connection stays."""
    write(f"{tree}/top/large.bin", content("s", 1 << 20) * 16)
    server = start(tree, "--archive", *(["--tls", "self"] if secured else []))
    with h2.Client(server) as client:
        h2.cut_off(client, "/top/?archive=tar", f"{tree}/top/large.bin")
        assert client.get("/top/large.bin").length == 1000


@pytest.mark.parametrize("how", ["grows", "goes"])
def test_file_that_grows_or_goes(start, tree, how):
    """A file that grows is sent with the length that was announced; one that is removed is sent to its end."""
    data = write(f"{tree}/top/file.bin", content("g", 1 << 20) * 32)
    server = start(tree, "--archive")
    with server.wire() as wire:
        wire.send(request("/top/?archive=tar", fields=["Connection: close"]))
        assert wire.head().status == 200
        body = wire.take(100_000)
        if how == "grows":
            with open(f"{tree}/top/file.bin", "ab") as file:
                file.write(b"more")
        else:
            os.unlink(f"{tree}/top/file.bin")
        parts = [body, wire.rest]
        while more := wire.sock.recv(1 << 20):
            parts.append(more)
    tar, chunked, at = [], b"".join(parts), 0
    while at < len(chunked) - len(LAST):
        end = chunked.index(b"\r\n", at)
        size = int(chunked[at:end], 16)
        tar.append(chunked[end + 2:end + 2 + size])
        at = end + 2 + size + 2
    assert chunked.endswith(LAST) and read_tar(b"".join(tar))[0] == {"top/file.bin": data}


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("how", ["close", "reset"])
def test_client_that_leaves(start, tree, kind, how):
    """The work ends, and its descriptors are closed: the end of the test counts them."""
    holes(f"{tree}/top/large.txt", 4 << 30)
    server = start(tree, "--archive")
    for _ in range(6):
        wire, status = opened(server, kind)
        assert status == 200
        getattr(wire, how)()
    with server.wire() as wire:
        assert wire.ask("/top/").status == 200
    wait_for(lambda: not server.open_paths(f"{tree}/top/large.txt"), "the file closed")


def test_client_that_does_not_read(start, tree):
    """The deadline of other answers."""
    holes(f"{tree}/top/large", 1 << 40)
    server = start(tree, "--archive", "--send-timeout", "300ms")
    wire, status = opened(server)
    assert status == 200
    with wire:
        wait_for(lambda: not server.open_paths(f"{tree}/top/large"), "the file closed")


@pytest.mark.any_engine("how a server stops")
def test_stop(start, tree):
    """A server that stops gives an archive as long as any other answer."""
    holes(f"{tree}/top/large", 1 << 40)
    server = start(tree, "--archive", "--drain-timeout", "200ms")
    wire, status = opened(server)
    assert status == 200
    with wire:
        server.process.send_signal(signal.SIGTERM)
        server.finish()


# --- What it costs ------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.capacity(4)
@pytest.mark.parametrize("kind, size", [("tar", 256 << 20), ("tar.gz", 64 << 20), ("zip", 256 << 20)])
def test_memory_and_others(start, tree, kind, size):
    """256 MiB take no more memory than a megabyte, and other clients are answered while it is sent."""
    holes(f"{tree}/top/large", size)
    write(f"{tree}/small.txt", b"small\n")
    write(f"{tree}/list/a", b"a")
    server = start(tree, "--archive", "--cache", "0")
    done, most, answers, enough = [], 0, 0, threading.Event()

    def fetch():
        with server.wire() as other:
            other.send(request(f"/top/?archive={kind}", fields=["Connection: close"]))
            last = other.take(100_000)
            enough.wait(PATIENCE)
            while more := other.sock.recv(1 << 20):
                last = (last + more)[-5:]
            done.append(last)
    with server.wire() as wire:
        assert wire.ask("/small.txt").body == b"small\n"
        before = server.memory()
        thread = threading.Thread(target=fetch)
        thread.start()
        while thread.is_alive():
            assert wire.ask("/small.txt").body == b"small\n" and wire.ask("/list/").status == 200
            answers += 1
            if answers == 5:
                enough.set()
            most = max(most, server.memory())
            time.sleep(0.01)
        thread.join()
    assert done == [LAST] and answers >= 5
    assert sanitized() or most - before < 8 << 20, (before, most)
