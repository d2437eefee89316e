# SPDX-License-Identifier: MIT
"""Nothing stale in listings: whatever a change does to what a folder shows, a request that is sent after it gets the new
state.  Between two changes a listing is requested so often that it is in memory, and that keeping it has paid off;
otherwise the server would not keep it the next time."""
import contextlib
import json
import os
import subprocess
import threading
from datetime import datetime, timezone
from stat import S_ISDIR, S_ISREG

import pytest
from lib import changes
from lib import server as lib
from lib.client import request

pytestmark = pytest.mark.userspace("the modules keep listings in another way")
any_engine = pytest.mark.any_engine("workers share what the cache has")
ASKS = 20  # more than it takes until keeping a listing pays off
ROUNDS = 8  # of each kind of change
WRITERS, WRITES = 3, 60
FIT = ("ext2/ext3", "xfs", "btrfs", "tmpfs")
OLD = 1_500_000_000
WORKERS = [pytest.param("process", marks=pytest.mark.processes)]
if lib.workers_may_be_threads():
    WORKERS.append("thread")


def row_of(folder, name):
    path = os.path.join(folder, name)
    st, link = os.lstat(path), os.path.islink(path)
    if link:
        try:
            st = os.stat(path)
        except OSError:
            return name, "dead-link", True, None, None
    kind = "folder" if S_ISDIR(st.st_mode) else "file" if S_ISREG(st.st_mode) else "fifo"
    when = datetime.fromtimestamp(int(st.st_mtime), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return name, kind, link, st.st_size if kind == "file" else None, when


def truth(folder, hidden=False):
    """The correct answer for that folder: a status, bytes of its index, or the rows of its listing."""
    if not os.path.isdir(folder):
        return 404
    index = os.path.join(folder, "index.html")
    if os.path.isfile(index):
        if not os.stat(index).st_mode & 0o004:
            return 403
        with open(index, "rb") as file:
            return file.read()
    if not os.stat(folder).st_mode & 0o005 == 0o005:
        return 403
    return sorted(row_of(folder, name) for name in os.listdir(folder) if hidden or not name.startswith("."))


def answer(reply):
    if reply.status != 200:
        return reply.status
    if "json" not in reply["content-type"]:
        return reply.body
    rows = []
    for row in json.loads(reply.body)["entries"]:
        when = None if row["kind"] == "dead-link" else row["modified"]
        rows.append((row["name"], row["kind"], row["link"], row["size_bytes"], when))
    return sorted(rows)


# --- kinds of change: each makes one at a time, in place.folder, and yields ------------------------------------------


def touch(path, when=OLD):
    os.utime(path, (when, when))


def names(place):
    """A file is made, renamed inside, moved out and in, removed; a folder is made and removed."""
    for _ in range(ROUNDS):
        changes.put(place.path("one"), b"1")
        yield
        os.rename(place.path("one"), place.path("two"))
        yield
        os.rename(place.path("two"), place.outside("two"))
        yield
        os.rename(place.outside("two"), place.path("three"))
        yield
        os.unlink(place.path("three"))
        yield
        os.mkdir(place.path("made"))
        yield
        os.rmdir(place.path("made"))
        yield


def sizes(place):
    """A file's size changes by write, by truncation, and through a descriptor that stays open."""
    path = place.path("file")
    changes.put(path, b"x", OLD)
    fd = os.open(path, os.O_WRONLY)
    for i in range(ROUNDS):
        os.pwrite(fd, b"more", 10 * i)
        yield
        os.truncate(path, 3)
        yield
        os.posix_fallocate(fd, 0, 1000 + i)
        yield
        changes.put(place.path(".new"), b"y" * i)
        os.replace(place.path(".new"), path)
        os.close(fd)
        fd = os.open(path, os.O_WRONLY)
        yield
    os.close(fd)


def times(place):
    changes.put(place.path("file"), b"x")
    os.makedirs(place.path("folder"))
    for i in range(ROUNDS):
        touch(place.path("file"), OLD + i)
        yield
        touch(place.path("folder"), OLD + i)
        yield


def inside_a_subfolder(place):
    """The subfolder's time changes with the names in it, without an event of the folder above."""
    below = place.path("below")
    os.makedirs(below)
    for _ in range(ROUNDS):
        for change in (lambda: changes.put(f"{below}/file", b""), lambda: os.rename(f"{below}/file", f"{below}/other"),
                       lambda: os.link(f"{below}/other", f"{below}/link"), lambda: os.unlink(f"{below}/other"),
                       lambda: os.rename(f"{below}/link", place.outside("link")),
                       lambda: os.rename(place.outside("link"), f"{below}/file"),
                       lambda: os.mkdir(f"{below}/folder"), lambda: os.rmdir(f"{below}/folder"),
                       lambda: os.symlink("x", f"{below}/folder"), lambda: os.unlink(f"{below}/folder"),
                       lambda: os.unlink(f"{below}/file")):
            touch(below)
            yield
            change()
            yield


def other_links(place):
    """A file is written to through a name elsewhere, and through a descriptor whose name has been removed."""
    for i in range(ROUNDS):
        changes.put(place.path("file"), b"", OLD)
        os.link(place.path("file"), place.outside("link"))
        yield
        changes.put(place.outside("link"), b"z" * (i + 1))
        yield
        fd = os.open(place.outside("link"), os.O_WRONLY)
        os.unlink(place.outside("link"))
        yield
        os.pwrite(fd, b"end", 100)
        yield
        os.close(fd)
        os.unlink(place.path("file"))
        fd = os.open(place.elsewhere, os.O_TMPFILE | os.O_WRONLY, 0o644)
        changes.call(changes.libc.linkat(changes.HERE, b"/proc/self/fd/%d" % fd, changes.HERE,
                                         place.path("file").encode(), changes.FOLLOW), "linkat")
        yield
        os.pwrite(fd, b"nameless", 50)
        yield
        os.close(fd)


def symbolic_links(place):
    """A link is made, its target changes, and the link is removed."""
    changes.put(place.path("other/target"), b"x")
    for i in range(ROUNDS):
        os.symlink("other/target", place.path("link"))
        yield
        changes.put(place.path("other/target"), b"x" * (i + 2))
        yield
        os.unlink(place.path("other/target"))
        yield
        changes.put(place.path("other/target"), b"")
        yield
        os.unlink(place.path("link"))
        yield


def an_index(place):
    """An index appears and goes, also by rename and as a dangling link's target; then a folder has its name."""
    index = place.path("index.html")
    for i in range(ROUNDS):
        changes.put(index, b"index %d" % i)
        yield
        os.chmod(index, 0)
        yield
        os.rename(index, place.path("no-index"))
        yield
        os.chmod(place.path("no-index"), 0o644)
        os.rename(place.path("no-index"), index)
        yield
        os.unlink(index)
        yield
        os.symlink("leads-to", index)
        yield
        changes.put(place.path("leads-to"), b"index by a link %d" % i)
        yield
        os.unlink(place.path("leads-to"))
        os.unlink(index)
        os.mkdir(index)
        yield
        os.rmdir(index)
        yield


def the_folder_itself(place):
    """The folder is moved away, replaced, removed, made again, and made unreadable and readable."""
    folder, spare = place.folder, place.outside("spare")
    os.makedirs(spare, exist_ok=True)
    changes.put(f"{spare}/spare", b"")
    changes.put(place.path("file"), b"")
    for _ in range(ROUNDS):
        os.rename(folder, place.outside("away"))
        yield
        os.rename(place.outside("away"), folder)
        yield
        changes.exchange(folder, spare)
        yield
        os.chmod(folder, 0o711)
        yield
        os.chmod(folder, 0o755)
        yield
        os.rename(folder, place.outside("kept"))
        os.mkdir(folder)
        yield
        os.rmdir(folder)
        yield
        os.rename(place.outside("kept"), folder)
        yield


def hidden_names(place):
    for i in range(ROUNDS):
        changes.put(place.path(".hidden"), b"x" * i)
        yield
        os.rename(place.path(".hidden"), place.path("shown"))
        yield
        changes.put(place.path("shown"), b"x" * 100)
        yield
        os.unlink(place.path("shown"))
        yield


def a_crowd(place):
    """One of many files changes; then all of them are removed at once."""
    for i in range(200):
        changes.put(place.path(f"file{i}"), b"", OLD)
    for i in range(ROUNDS):
        changes.put(place.path(f"file{i * 23}"), b"one")
        yield
        touch(place.path(f"file{199 - i}"), OLD + i)
        yield
    for i in range(200):
        os.unlink(place.path(f"file{i}"))
    yield


KINDS = [names, other_links, the_folder_itself, sizes, inside_a_subfolder, an_index, symbolic_links, times, hidden_names,
         a_crowd]


@pytest.fixture
def place(tree):
    os.mkdir(f"{tree}/root")
    return changes.Place(f"{tree}/root", f"{tree}/outside", "/top/folder")


def each(server, place, kind, wires, options=()):
    """Requests by one connection, and pipelined by another if there may be two: every answer is the truth."""
    target = request(place.url("?format=json"))
    with contextlib.ExitStack() as stack:
        first = wire = stack.enter_context(server.wire())
        if wires > 1:
            first = stack.enter_context(server.wire())
        for turn, _ in enumerate(kind(place)):
            want = truth(place.folder, "--hidden" in options)
            first.send(target)
            replies = [first.reply()]
            wire.send(target * ASKS)
            replies += [wire.reply() for _ in range(ASKS)]
            for number, reply in enumerate(replies):
                assert answer(reply) == want, (kind.__name__, turn, number, want, answer(reply))


@pytest.mark.core
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind(start, tree, place, kind, enough):
    each(start(f"{tree}/root"), place, kind, enough)


@any_engine
def test_hidden_names_that_are_shown(start, tree, place, enough):
    each(start(f"{tree}/root", "--hidden"), place, hidden_names, enough, ["--hidden"])


@any_engine
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_two_workers(start, tree, place, kind, workers, enough):
    server = start(f"{tree}/root", "--workers", 2, "--workers-as", workers, "--accept", "reuseport")
    each(server, place, kind, enough)


@pytest.mark.core
@pytest.mark.capacity(2 * WRITERS)
def test_many_writers(start, tree, place):
    """All writers in one folder: each sees its own change while others' are under way."""
    failures = []
    server = start(f"{tree}/root")

    def writer(number):
        try:
            path = place.path(f"file{number}")
            with server.wire() as wire:
                for turn in range(WRITES):
                    changes.put(path, b"x" * (turn + 1))
                    wire.send(request(place.url("?format=json")) * ASKS)
                    for i in range(ASKS):
                        sizes = {row[0]: row[3] for row in answer(wire.reply())}
                        assert sizes[f"file{number}"] == turn + 1, (number, turn, i, sizes)
        except Exception as error:  # the test fails with it
            failures.append(error)
    threads = [threading.Thread(target=writer, args=(number,), daemon=True) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
        assert not thread.is_alive()
    assert not failures, failures


@pytest.fixture
def keeps(tree):
    kind = subprocess.run(["stat", "-f", "-c", "%T", tree], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    if lib.engine_row()["forks"]:
        pytest.skip("this engine keeps nothing")
    if kind not in FIT:
        pytest.skip(f"nothing is kept of {kind}")
    if {"--send", "--gather"} & set(lib.ARGS):
        pytest.skip("in this arrangement nothing is kept")


@pytest.mark.core
def test_they_are_kept(start, tree, place, keeps):
    """Each format and view is kept by itself; the length is sent; HEAD agrees with GET; a later change ends all."""
    for i in range(40):
        changes.put(place.path(f"file{i}"), b"x" * i, OLD)
    plain, server = start(f"{tree}/root", "--cache", 0), start(f"{tree}/root")
    views = ["", "?format=json", "?format=text", "?order=desc", "?filter=1", "?filter=2&sort=size"]
    for turn in range(2):
        for view in views:
            want = plain.ask(place.url(view)).body
            with server.wire() as wire:
                for _ in range(ASKS):
                    reply = wire.ask(place.url(view))
                    assert (reply.status, reply.body) == (200, want), (turn, view)
                assert int(reply["content-length"]) == len(want)
                head = wire.ask(place.url(view), "HEAD")
                assert head["content-length"] == reply["content-length"]
                assert head["content-type"] == reply["content-type"]
                assert "etag" not in reply.fields and "last-modified" not in reply.fields
        stats = server.stats()
        assert stats["cache_fills"] - stats["cache_ends"] == len(views), (turn, stats)
        changes.put(place.path("file1"), b"another size", OLD)
