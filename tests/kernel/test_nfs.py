# SPDX-License-Identifier: MIT
"""A folder on NFS, whose files change behind this machine's page cache: what is sent is what the head says."""
import os
import random
import tempfile

import nfs
import pytest
from lib.client import request
from lib.trees import content, write

SIZE = 200_000  # sent page by page, were they in memory
ROUNDS = 5


@pytest.fixture
def exported(kernel):
    """(a folder, the same as NFS shows it)."""
    kernel.expects("NFSD|nfsd|FS-Cache|NFS:")
    folder, place = tempfile.mkdtemp(prefix="rung-export-"), tempfile.mkdtemp(prefix="rung-nfs-")
    os.chmod(folder, 0o755)
    nfs.serve(folder)
    nfs.mount(place)
    yield folder, place
    nfs.end(place)


def same_as(body):
    """The round whose bytes these are; comparing so many in an assertion would take pytest minutes."""
    return next((number for number in range(ROUNDS) if body == content(number, SIZE)), None)


def overwrite(path, data):
    """In its place, so that it stays the same file of the same size."""
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
    """Parts of it, and a whole that leaves in many pieces."""
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
