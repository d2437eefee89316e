# SPDX-License-Identifier: MIT
"""Bodies that are kept in memory are sent as the pages that hold them, and a socket keeps these pages until the client has
acknowledged them: the entry, the file, the client and the module may disappear before that, and each byte stays as it was."""
import os

import pytest
from lib import insmod, module
from lib.client import request
from lib.served import wait_for
from lib.trees import content, write
from test_memory import at_hand_bytes, meminfo, used_bytes

SIZE = 200_000  # less than a send buffer on loopback holds; the entry needs 49 pages
CLIENTS = 16
OTHERS = 40     # bodies that need memory, and would get any free page
ROUNDS = 150    # with other contents: 30 MB, if no page were ever given back
SPARE = 12 << 20
UNREAD = 1600   # clients that do not read a small answer
UNREAD_BYTES_MAX = 32 << 10  # for each: a page, and slabs that grow; with 32 KiB to copy into it was 51 KB


@pytest.fixture
def folder(tmp_path):
    os.chmod(tmp_path, 0o755)
    os.chmod(tmp_path.parent, 0o755)
    return tmp_path


def replace(folder, data):
    write(f"{folder}/new", data)
    os.rename(f"{folder}/new", f"{folder}/body.bin")


def kept(server):
    """Asks until the answer comes from memory, and returns the body."""
    def hit():
        before = insmod.stats_of(server.name, "cache")["hits"]
        body.append(server.ask("/body.bin").body)
        return insmod.stats_of(server.name, "cache")["hits"] > before
    body = []
    wait_for(hit, "it is kept")
    return body[-1]


def asked(server, count=CLIENTS):
    """Clients that have asked but read nothing: for the module these answers are complete."""
    done = server.stats()["complete"]
    wires = [server.wire(rcvbuf=4096) for _ in range(count)]
    for wire in wires:
        wire.send(request("/body.bin"))
    wait_for(lambda: server.stats()["complete"] == done + count, "sockets have all of it")
    return wires


def crowd_out(server, folder):
    """Other bodies take the place of the kept one, and use the free memory."""
    for number in range(OTHERS):
        write(f"{folder}/{number}", bytes([number]) * SIZE)
    wait_for(lambda: all(server.ask(f"/{number}").status == 200 for number in range(OTHERS))
             and insmod.stats_of(server.name, "cache")["evicted"] > 0, "others are kept")


def test_the_entry_goes(start, folder):
    first, second = content("first", SIZE), content("second", SIZE)
    replace(folder, first)
    server = start(folder, "--cache", str(8 * SIZE))
    assert kept(server) == first
    wires = asked(server)
    pages = server.stats()["pages"]
    assert pages >= CLIENTS * (SIZE >> 12), "nothing was copied"
    replace(folder, second)
    assert kept(server) == second
    crowd_out(server, folder)
    for wire in wires:
        assert wire.reply().body == first
        wire.close()
    server.check_counts()


def test_the_module_goes(start, folder):
    body = content("last", SIZE)
    replace(folder, body)
    server = start(folder)
    assert kept(server) == body
    wires = asked(server)
    server.kill()
    for number in range(OTHERS):
        write(f"{folder}/{number}", bytes([number]) * SIZE)
    for wire in wires:
        assert wire.reply().body == body
        wire.end()


def free_bytes():
    """A body is allocated as one block, and its pages are freed one by one, to the list of the processor that frees them."""
    rows = meminfo()
    return rows["MemFree"] + rows["Cached"] + rows["SReclaimable"] + at_hand_bytes()


@pytest.mark.long
def test_clients_go(start, folder):
    """Clients reset in the middle, each time with another entry: its pages are given back."""
    server = start(folder)
    for number in range(ROUNDS):
        if number == ROUNDS // 10:
            before = free_bytes()
        body = content(f"round {number}", SIZE)
        replace(folder, body)
        wires = [server.wire(rcvbuf=4096) for _ in range(4)]
        for wire in wires:
            wire.send(request("/body.bin") * 2)
            assert wire.head().status == 200
        for wire in wires:
            wire.reset()
        if number % 10 == 0:
            assert kept(server) == body
    wait_for(lambda: server.stats()["open"] == 0, "all have gone")
    wait_for(lambda: free_bytes() > before - SPARE, "memory comes back")
    server.check_counts()


@pytest.mark.skipif(module.MODEL in module.BLOCKING, reason="each connection has a page fragment of its own")
def test_a_small_answer_takes_a_page(start, folder, record_property):
    """The head is copied where the server may wait for a file system; the page is not shared with other answers there."""
    replace(folder, b"x" * 100)
    server = start(folder, "--cache", "0", "--idle-timeout", "10m", "--head-timeout", "10m")
    wires = [server.wire() for _ in range(UNREAD)]
    wait_for(lambda: server.stats()["open"] == UNREAD, "all are accepted")
    used = used_bytes()
    for wire in wires:
        wire.send(request("/body.bin"))
    wait_for(lambda: server.stats()["complete"] == UNREAD, "all are answered")
    each = (used_bytes() - used) / UNREAD
    record_property("unread", f"{each:.0f} bytes each")
    for wire in wires:
        assert wire.reply().body == b"x" * 100
        wire.close()
    assert each < UNREAD_BYTES_MAX
