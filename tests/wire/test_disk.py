# SPDX-License-Identifier: MIT
"""A disk that is slow, or that does not answer: only clients that request files on it have to wait.

The disk is a file system in user space (lib/fuse.py), which answers a read later or never.  A loop has one thread for all
clients, which would wait too.  Like a library for such file systems, it answers some requests at once: finding, opening and
closing a file, and that it does not support poll.
"""
import contextlib
import errno
import os
import time

import pytest
from lib import fuse, mounts
from lib.client import Sloppy, request
from lib.crowd import sanitized
from lib.served import served_beside
from lib.server import engine_row, is_loop, wait_for
from lib.trees import content, write

HELLO, BIG = b"Hello, world\n", content("beside", 3 << 20)
NAMES = ["small", "file", "large"]  # copied with its head; sent in one transfer; in many
LATER_S = 0.5
CLIENTS = 40  # more than there are helpers (FETCH_HELPERS)
# A loop whose helpers read for it; the ring reads by itself.
LOOP = is_loop() and engine_row()["model"] == "readiness"

pytestmark = [pytest.mark.userspace("tests/kernel/test_hung.py has them of the modules"),
              pytest.mark.skipif(not mounts.may() or not os.path.exists("/dev/fuse"), reason="needs root, /dev/fuse and the right to mount"),
              pytest.mark.capacity(8)]


@pytest.fixture
def slow(tree):
    """slow(requests that the disk answers in addition to those for finding, opening and closing a file) -> a mount in the
    served folder."""
    write(f"{tree}/hello.txt", HELLO)
    write(f"{tree}/big.bin", BIG)
    mounted = []
    mounts.own()  # a mount below the folder empties the cache of each server that sees it

    def mount(*answered, place="slow"):
        os.makedirs(f"{tree}/{place}", exist_ok=True)
        mounted.append(fuse.Mounted(f"{tree}/{place}", [*fuse.FOUND, fuse.FLUSH, f"{fuse.POLL}={errno.ENOSYS}", *answered]))
        wait_for(lambda: fuse.INIT in mounted[-1].asked(), "it is mounted")
        os.stat(f"{tree}/{place}")  # cached from now on: a listing of the folder above needs it
        return mounted[-1]
    yield mount
    for one in mounted:
        one.end()


def others(server):
    return served_beside(server, HELLO, BIG)


def asking(server, mount, name, count=1):
    """Clients that request that file, once the disk has been asked for its bytes."""
    wires = [server.wire() for _ in range(count)]
    before = mount.asked().count(fuse.READ)
    for wire in wires:
        wire.send(request(f"/slow/{name}"))
    wait_for(lambda: mount.asked().count(fuse.READ) > before, "its bytes were asked for")
    return wires


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
# shows S29
def test_others_are_served(start, tree, slow, name):
    """Other clients are served while one waits for bytes that never arrive."""
    mount = slow()
    server = start(tree)
    wire, = asking(server, mount, name)
    assert others(server) < 2
    assert server.stats()["open"] >= 1 and server.stats()["expired"] == 0
    mount.die()  # the read fails, and the client's connection is closed
    with contextlib.suppress(ConnectionError), wire:
        while wire.sock.recv(65536):
            pass
    assert others(server) < 2
    server.check_counts()


@pytest.mark.long
@pytest.mark.parametrize("cached", [[], [fuse.DIRECT]], ids=["cached", "direct"])
@pytest.mark.parametrize("name", NAMES)
# shows S29
def test_what_comes_late_is_whole(start, tree, slow, name, cached):
    """A late answer is whole, and so are the next one on the connection and the same one again, from memory or not."""
    mount = slow(f"{fuse.READ}~{0.02 if name == 'large' else LATER_S}", *cached)
    server = start(tree)
    wire, = asking(server, mount, name)
    assert others(server) < LATER_S or name == "large"
    with wire:
        reply = wire.reply()
        whole = reply.body == fuse.content(name)
        assert reply.status == 200 and whole
        assert wire.ask("/hello.txt").body == HELLO
        whole = wire.ask(f"/slow/{name}").body == fuse.content(name)
        assert whole
    server.check_counts()


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_read_that_fails(start, tree, slow, name):
    """The read fails after a while: the client is cut off, and no other client waits for the read to fail again."""
    mount = slow(f"{fuse.READ}={errno.EIO}~{LATER_S}")
    server = start(tree)
    wire, = asking(server, mount, name)
    assert others(server) < LATER_S
    with pytest.raises((Sloppy, ConnectionError)), wire:
        wire.reply()
    server.check_counts()
    if LOOP:
        assert mount.asked().count(fuse.READ) <= 2  # the kernel retries a page that could not be read ahead


@pytest.mark.long
@pytest.mark.skipif(not LOOP, reason="elsewhere each answer is sent by itself")
def test_finished_answers_do_not_wait(start, tree, slow):
    """Answers pipelined before one that the disk holds up are sent, whether its file is in memory or not."""
    slow()
    server = start(tree)
    with server.wire() as wire:
        wire.send(request("/hello.txt") + request("/slow/small") + request("/hello.txt"))
        began = time.monotonic()
        assert wire.reply().body == HELLO and time.monotonic() - began < 2
        wire.reset()
    server.check_counts()


@pytest.mark.long
@pytest.mark.skipif(not LOOP, reason="the others have a thread or a process for each, and run out of them")
def test_a_dead_server_leaves_helpers_to_another(start, tree, slow):
    """Another mount still gets helpers, and a file in memory needs none."""
    dead, well = slow(), slow(fuse.READ, place="well")
    os.mkdir(f"{tree}/memory")
    mounts.mount("none", f"{tree}/memory", "tmpfs")
    try:
        write(f"{tree}/memory/file", BIG)
        server = start(tree)
        wires = asking(server, dead, "file", CLIENTS)
        wait_for(lambda: server.stats()["answers"] >= CLIENTS, "all have been heard")
        for target, right in (("/well/large", fuse.content("large")), ("/memory/file", BIG), ("/well/small", fuse.content("small"))):
            began = time.monotonic()
            same = server.ask(target).body == right
            assert same and time.monotonic() - began < 2, target
        assert others(server) < 2
        for wire in wires:
            wire.reset()
        dead.die()
        server.check_counts()
    finally:
        mounts.unmount(f"{tree}/memory")


@pytest.mark.long
@pytest.mark.skipif(not LOOP, reason="a thread, a process or the ring that waits for the disk cannot be called off")
@pytest.mark.parametrize("options", [(), ("--tls", "self")], ids=["plain", "tls"])
@pytest.mark.parametrize("name", NAMES)
def test_given_up(start, tree, slow, name, options):
    """A client that gets nothing for --send-timeout is cut off, and the server stops though its helper still waits."""
    mount = slow()
    server = start(tree, "--send-timeout", "1s", *options)
    wire, = asking(server, mount, name)
    wait_for(lambda: server.stats()["expired"] == 1, "it is cut off")
    wire.close()
    server.check_counts()
    assert others(server) < 2
    if sanitized():
        mount.die()  # a sanitizer that looks for leaks stops all threads first, and this one only stops when its read is over
    server.process.terminate()
    server.finish()
    mount.die()


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_clients_that_leave(start, tree, slow, name):
    """Bytes for clients that have left arrive later; they are not sent to new clients."""
    mount = slow(f"{fuse.READ}~{LATER_S}")
    server = start(tree, "--send-timeout", "2s")
    for wire in asking(server, mount, name, 3):
        wire.reset()
    for _ in range(3):
        assert server.ask("/hello.txt").body == HELLO
    assert server.check_counts()["accepted"] >= 6


@pytest.mark.long
@pytest.mark.skipif(not LOOP, reason="the others have a thread or a process for each, and run out of them")
# shows S29
def test_a_dead_disk_leaves_helpers_to_the_others(start, tree, slow):
    """More clients of a dead disk than there are helpers; a file that has left memory is still sent."""
    mount = slow()
    server = start(tree)
    wires = asking(server, mount, "file", CLIENTS)
    wait_for(lambda: server.stats()["answers"] >= CLIENTS, "all have been heard")
    for turn in range(3):
        with open(f"{tree}/big.bin", "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert others(server) < 2, turn
    for wire in wires:
        wire.reset()
    mount.die()
    server.check_counts()
