# SPDX-License-Identifier: MIT
"""Unloading, at every moment: in bounded time, and nothing of the module is left, however often it is repeated."""
import contextlib
import os
import subprocess
import threading
import time

import left
import pytest
from conftest import has
from lib import crowd, insmod, module
from lib.client import PATIENCE, Wire, request
from lib.served import wait_for
from lib.trees import write

HELLO = b"Hello, world\n"
CYCLES = int(os.environ.get("RUNG_CYCLES") or 50)
TURNS = 5
QUIET_S = 2  # this long after the end of the server no packet is on the way any more
LATE_MOST = 0.05  # of all clients; 3 of 492 were seen
MANY = min(1000, module.row()["capacity"] - 8)
PATIENT = ("--head-timeout", "10m", "--idle-timeout", "10m", "--send-timeout", "10m")
# KSERVE_DRAIN_MS for clients being served, and the time an emulated machine needs to close a thousand.
MOST_S = 1 + 3 * float(os.environ.get("RUNG_SLOW") or 1)


def end_of(wire):
    """How a connection ends; bytes that were on the way may come before.  A reset is a single packet, which a client takes
    only if its sequence number is the next one (RFC 5961, 3.2).  A client that has dropped segments answers with a
    challenge, but not twice in half a second (tcp_send_challenge_ack() in Linux).  If that one is left out, the client
    learns of the end when it sends again."""
    def received():
        while wire.sock.recv(1 << 20):
            pass
        return "ended"
    wire.sock.settimeout(QUIET_S)
    try:
        return received()
    except TimeoutError:
        wire.sock.settimeout(PATIENCE)
    except ConnectionResetError:
        return "reset"
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        wire.send(b"x")
        received()
    return "late"


def unloaded(server, wires):
    """Unloads the module beneath all clients; returns the seconds that took."""
    before = time.monotonic()
    server.kill()
    took = time.monotonic() - before
    ends = [end_of(wire) for wire in wires]
    assert set(ends) <= {"ended", "reset", "late"}
    assert ends.count("late") <= LATE_MOST * len(wires)
    crowd.leave(wires)
    return took


OPENINGS = {"silent": lambda _: b"", "idle": lambda _: request("/hello.txt"),
            "half": lambda _: request("/hello.txt")[:20],
            "half a body": lambda _: b"POST /hello.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"}


@pytest.mark.parametrize("how", OPENINGS)
# shows D16, D31, K07
def test_many_connections(start, site, how, record_property):
    server = start(site, *PATIENT)
    wires = crowd.arrive(server, MANY, OPENINGS[how])
    wait_for(lambda: server.stats()["open"] == MANY, "all are accepted")
    took = unloaded(server, wires)
    record_property("unloading", f"{MANY} {how}: {took:.2f} s")
    assert took < MOST_S


@pytest.mark.parametrize("what", ["rung_http", "rung_echo"])
@pytest.mark.parametrize("count", [63, 64, 65, 128])
# shows E04
def test_a_whole_turn_of_them(start, site, what, count):
    """A work item that has pumped as many connections as a turn allows (64) queues itself again, though the last connection has
    gone: its context must stay until that turn is over, too."""
    if what == "rung_http" or has(what):
        for _ in range(TURNS):
            server = start(site if what == "rung_http" else None, *PATIENT, what=what)
            wires = [server.wire() for _ in range(count)]
            wait_for(lambda: server.stats()["open"] == count, "all are accepted")
            unloaded(server, wires)


@pytest.mark.long
# shows K07
def test_busy_ones(start, site, record_property):
    """In the middle of an answer that the client does not read."""
    server = start(site, *PATIENT)
    wires = [server.wire(rcvbuf=4096) for _ in range(MANY)]
    for wire in wires:
        wire.send(request("/giant.bin"))
        assert wire.head().status == 200
    took = unloaded(server, wires)
    record_property("unloading", f"{len(wires)} busy: {took:.2f} s")
    assert took < 2 * MOST_S  # hundreds of megabytes that were queued are freed, page by page


# shows K07
def test_those_in_the_queue(start, site):
    """Connected, and not yet accepted: all seats are taken."""
    server = start(site, *PATIENT, "--max-connections", "2")
    wires = [server.wire(rcvbuf=4096) for _ in range(2)]
    for wire in wires:
        wire.send(request("/giant.bin"))
        assert wire.head().status == 200
    wires += [server.wire() for _ in range(20)]
    assert unloaded(server, wires) < MOST_S


def goes(name):
    return left.text_of(f"/sys/module/{name}/initstate").strip() == "going"


def test_who_has_begun_to_ask_is_answered(start, site):
    """The answer says that it was the last one."""
    server = start(site, *PATIENT)
    whole = request("/hello.txt")
    with server.wire() as wire:
        wire.send(whole[:20])
        wait_for(lambda: server.stats()["receives"] == 1, "it has come")
        leaving = threading.Thread(target=server.kill)
        leaving.start()
        wait_for(lambda: goes(server.name), "it is being unloaded")
        wire.send(whole[20:])
        reply = wire.reply()
        assert reply.body == HELLO and reply["connection"] == "close"
        wire.end()
        leaving.join()
    assert not os.path.exists(f"/sys/module/{server.name}")


# shows D16
def test_under_load(start, site):
    """While clients connect, ask, and leave, each as fast as it can."""
    server = start(site)
    done, wrong, ending = [], [], threading.Event()

    def client():
        while True:
            try:
                with server.wire() as wire:
                    for target in ("/hello.txt", "/big.bin", "/list/", "/hello.txt"):
                        assert wire.ask(target).status == 200
                        done.append(target)
            except (OSError, AssertionError) as error:
                if not ending.is_set():
                    wrong.append(error)
                return
    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(done) > 40 or wrong, "some are served")
    ending.set()
    server.kill()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in threads)
    with pytest.raises(ConnectionRefusedError):
        Wire(server.address)


def visit(server, busy=True):
    """Makes some traffic that leaves everything in the middle, or (busy=False) no client that must be waited for."""
    wires = [server.wire() for _ in range(4)]
    for target in ("/hello.txt", "/list/", "/missing"):
        wires[0].ask(target)
    if busy:
        wires[1].send(request("/giant.bin"))
        wires[1].head()
        wires[2].send(request("/hello.txt")[:9])
    wires[3].send(request("/hello.txt") * 3)
    wires[3].reply()
    return wires


# shows K01
def test_again_and_again(start, site, record_property):
    """Loads and unloads CYCLES times with traffic; then every count is what it was after the first few."""
    before, began = None, time.monotonic()
    for number in range(CYCLES + 3):
        server = start(site)
        wires = visit(server, number % 5 == 0)
        server.kill()
        crowd.leave(wires)
        if number == 2:  # the kernel's own pools and caches are filled
            time.sleep(1)
            before, began = left.at_rest(), time.monotonic()
    record_property("unloading", f"{CYCLES} times in {time.monotonic() - began:.1f} s")
    assert left.more(before) == {}
    assert left.threads() == []


# shows K07, K23
def test_nothing_of_ours_is_left(start, site, strangers):
    """The allocator records for every object which code asked for it: no object was asked for by a module that is gone."""
    if not left.can_tell():
        pytest.skip("the kernel does not keep who allocated: slub_debug=U on its command line makes it")
    server = start(site)
    wires = visit(server)
    assert left.leaks(strangers), "while it is loaded something must be seen, or nothing ever would"
    server.kill()
    crowd.leave(wires)
    insmod.unload("rung_core")
    end = time.monotonic() + 15
    while left.leaks(strangers) and time.monotonic() < end:
        left.receive()
        time.sleep(0.2)
    assert left.leaks(strangers) == []
    insmod.core()


# shows K23
def test_the_mount_is_free(start, tmp_path):
    """Every file and folder is given back, whatever was done with it.  While the module serves, the folder is in use."""
    place = f"{tmp_path}/mount"
    os.mkdir(place)
    os.chmod(tmp_path, 0o755)
    os.chmod(tmp_path.parent, 0o755)
    subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    try:
        os.mkdir(f"{place}/list")
        write(f"{place}/hello.txt", HELLO)
        with open(f"{place}/giant.bin", "wb") as file:
            file.truncate(1 << 30)
        server = start(place)
        wires = visit(server)
        assert subprocess.run(["umount", place], check=False, capture_output=True).returncode != 0
        server.kill()
        crowd.leave(wires)
    finally:
        done = subprocess.run(["umount", place], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
