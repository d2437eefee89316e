# SPDX-License-Identifier: MIT
"""A folder on NFS, whose files change behind this machine's page cache: the bytes sent are those that the head describes."""
import contextlib
import glob
import os
import random
import subprocess
import tempfile
import time

import left
import nfs
import pytest
from lib import crowd, insmod
from lib.client import request
from lib.served import wait_for
from lib.trees import content, write
from test_hung import BIG, HELLO, PATIENT, SERVED_S, UNLOADED_S, core_is_free, served

SIZE = 200_000  # would be sent page by page if they were in memory
ROUNDS = 5
SEARCHES = 20


@pytest.fixture
def exported(kernel):
    """(a folder, the same folder as mounted by NFS)."""
    kernel.expects("NFSD|nfsd|FS-Cache|NFS:")
    folder, place = tempfile.mkdtemp(prefix="rung-export-"), tempfile.mkdtemp(prefix="rung-nfs-")
    os.chmod(folder, 0o755)
    nfs.serve(folder)
    nfs.mount(place)
    yield folder, place
    nfs.end(place)


def same_as(body):
    """The round whose bytes these are; an assertion that compares a whole body would take pytest minutes."""
    return next((number for number in range(ROUNDS) if body == content(number, SIZE)), None)


def overwrite(path, data):
    """Overwrites the file in place, so that it stays the same file of the same size."""
    with open(path, "r+b") as file:
        file.write(data)


def test_new_tag_new_bytes(start, exported):
    folder, place = exported
    write(f"{folder}/file.bin", content(0, SIZE))
    server = start(place)
    tags = {}
    for number in range(ROUNDS):
        data = content(number, SIZE)
        overwrite(f"{folder}/file.bin", data)
        for _ in range(3):
            reply = server.ask("/file.bin")
            sent = same_as(reply.body)
            assert sent == number, f"bytes of round {sent} in round {number}, under the tag {reply['ETag']}"
            assert tags.setdefault(reply["ETag"], number) == number
    assert len(tags) == ROUNDS
    server.stop()


def test_ranges_and_a_slow_reader(start, exported):
    """Ranges of the file, and the whole file in many pieces."""
    folder, place = exported
    data = write(f"{folder}/file.bin", content("nfs", 4 * SIZE))
    server = start(place)
    chance = random.Random(13)
    for _ in range(10):
        first = chance.randrange(len(data))
        last = chance.randrange(first, len(data))
        same = server.ask("/file.bin", fields=[f"Range: bytes={first}-{last}"]).body == data[first:last + 1]
        assert same, f"bytes {first} to {last}"
    with server.wire(rcvbuf=4096) as wire:
        wire.send(request("/file.bin"))
        same = wire.reply().body == data
    assert same
    assert server.stats()["pages"] == 0
    server.stop()


def closing():
    """Whether a kernel thread is closing a file of NFS."""
    for path in glob.glob("/proc/[0-9]*/stack"):
        with contextlib.suppress(OSError):
            if "nfs4_do_close" in left.text_of(path):
                return True
    return False


def reading(server, target):
    """A client that has begun to read, and reads no further."""
    wire = server.wire(rcvbuf=4096)
    wire.send(request(target))
    assert wire.head().status == 200
    return wire


def test_files_of_a_dead_server(start, exported):
    """Closing them lasts until the server is alive again.  Neither unloading nor the folder's own files wait for that."""
    folder, place = exported
    root = os.path.dirname(place)
    os.chmod(root, 0o755)
    near = tempfile.mkdtemp(prefix="rung-near-", dir=root)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", near], check=True)
    for path in (f"{folder}/0", f"{folder}/1", f"{near}/file.bin"):
        write(path, content("nfs", 20 * SIZE))
    server = start(root, "--cross-mounts=on", *PATIENT)
    far = [reading(server, f"/{os.path.basename(place)}/{number}") for number in range(2)]
    local = start(near, *PATIENT)
    close = reading(local, "/file.bin")
    crowd.settled(server, lambda: server.stats()["sends"])
    nfs.die()
    try:
        far[0].reset()
        wait_for(closing, "the first file is being closed")
        far[1].reset()
        wait_for(lambda: server.stats()["open"] == 0, "both connections have ended")
        close.reset()
        wait_for(lambda: local.stats()["open"] == 0, "the other as well")
        began = time.monotonic()
        local.kill()
        server.kill()
        assert time.monotonic() - began < UNLOADED_S
        subprocess.run(["umount", near], check=True)
    finally:
        nfs.serve(folder)
        wait_for(lambda: not closing(), "the server lives again")


@pytest.mark.long
# shows D16
def test_searches_of_a_dead_server(kernel, start, exported):
    """Names and listings that wait for it hold up no other request, nor unloading; the rest is freed when it lives again."""
    kernel.expects("NFSD|nfsd|FS-Cache|NFS:|nfs:|not responding|do not answer|does not answer")
    folder, place = exported
    root = os.path.dirname(place)
    os.chmod(root, 0o755)
    write(f"{root}/hello.txt", HELLO)
    write(f"{root}/big.bin", BIG)
    server = start(root, "--cross-mounts=on", *PATIENT)
    nfs.die()
    try:
        wires = [server.wire() for _ in range(SEARCHES)]
        for number, wire in enumerate(wires):
            wire.send(request(f"/{os.path.basename(place)}/{number if number % 2 else ''}"))
        wait_for(lambda: server.stats()["receives"] >= SEARCHES, "all have been heard")
        assert served(server) < SERVED_S
        began = time.monotonic()
        server.kill()
        assert time.monotonic() - began < UNLOADED_S
        crowd.leave(wires)
        assert not core_is_free()
        assert served(again := start(root, *PATIENT)) < SERVED_S
        again.stop()
    finally:
        nfs.serve(folder)
        os.unlink(f"{root}/hello.txt")
        os.unlink(f"{root}/big.bin")
    wait_for(core_is_free, "the rest has gone")
    insmod.core()
