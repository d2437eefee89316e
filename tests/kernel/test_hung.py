# SPDX-License-Identifier: MIT
"""A file system below the folder that does not answer: it is left out, or only clients that ask for it wait; the module is
unloaded in bounded time, and the rest is freed when the file system has answered or died."""
import contextlib
import errno
import os
import re
import select
import signal
import subprocess
import time

import left
import pytest
from lib import crowd, fuse, insmod, module
from lib.client import request
from lib.served import served_beside, wait_for
from lib.trees import content, write

HELLO = b"Hello, world\n"
BIG = content("hung", 3 << 20)
ASKED = b"/hung/file"
# More clients than may wait for it at once (KFAR_PLACES, KSEATS_WAIT_SHARE).
MANY = 300
PLACES = 32  # KFAR_PLACES
SLOW = float(os.environ.get("RUNG_SLOW") or 1)
SERVED_S = 3 * SLOW
WAITED_S = 10 * SLOW
# KSERVE_DRAIN_MS, KSERVE_STUCK_MS, and the time to reset MANY connections.
UNLOADED_S = 6 + 3 * SLOW
PATIENT = ("--idle-timeout", "10m", "--send-timeout", "10m", "--cache", "0")


@pytest.fixture
def folder(tmp_path):
    """A folder to serve, with an empty one in it for a mount."""
    os.chmod(tmp_path, 0o755)
    os.chmod(tmp_path.parent, 0o755)
    write(f"{tmp_path}/hello.txt", HELLO)
    write(f"{tmp_path}/big.bin", BIG)
    os.mkdir(f"{tmp_path}/hung")
    yield str(tmp_path)


@pytest.fixture
def hung(folder):
    """hung(opcodes that are answered) -> the file system mounted in the folder."""
    mounted = []

    def mount(answered=()):
        mounted.append(fuse.Mounted(f"{folder}/hung", answered))
        wait_for(lambda: fuse.INIT in mounted[-1].asked(), "it is mounted")
        return mounted[-1]
    yield mount
    for one in mounted:
        one.end()


def served(server):
    return served_beside(server, HELLO, BIG)


def asking(server, count):
    """Clients that ask for a file that never comes."""
    wires = [server.wire() for _ in range(count)]
    for wire in wires:
        wire.send(request(ASKED.decode()))
    wait_for(lambda: server.stats()["receives"] >= count, "all have been heard")
    return wires


def was_refused(wire):
    """Whether the client got only a 503, because the limit of waiting clients was reached; otherwise it must have been cut off."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while more := wire.sock.recv(1 << 16):
            said += more
    assert len(said) < fuse.SIZE
    return said.startswith(b"HTTP/1.1 503")


def core_is_free():
    try:
        insmod.unload("rung_core")
    except OSError as error:
        assert error.errno == errno.EWOULDBLOCK
        return False
    return True


@pytest.mark.parametrize("answered", [(), pytest.param(fuse.FOUND, marks=pytest.mark.long)], ids=["nothing", "no byte"])
# shows D16, S29
def test_the_others_are_served(kernel, start, folder, hung, answered, record_property):
    """The module can be unloaded, and loaded again, beneath waiting clients."""
    kernel.expects("do not answer|does not answer")
    start(folder).stop()
    hung(fuse.FOUND).end()  # the kernel keeps some objects after the first use
    before = left.at_rest()
    silent = hung(answered)
    server = start(folder, "--cross-mounts=on", *PATIENT)
    wires = asking(server, MANY)
    wait_for(lambda: len(silent.asked()) > 8, "some wait for it")
    longest, seats = served(server), server.stats()["seats"]
    began = time.monotonic()
    server.kill()
    took = time.monotonic() - began
    record_property("hung", f"others waited {longest:.2f} s at most, unloading took {took:.2f} s")
    assert longest < SERVED_S and took < UNLOADED_S
    refused = sum(was_refused(wire) for wire in wires)
    assert refused == (max(0, MANY - seats // 2) if module.MODEL in module.BLOCKING else 0)
    crowd.leave(wires)
    assert not core_is_free()
    assert any("file system that does not answer" in line for line in kernel.complaints())
    again = start(folder, *PATIENT)
    assert served(again) < SERVED_S
    again.stop()
    silent.die()
    wait_for(core_is_free, "the rest has gone")
    assert any("has answered" in line for _, line in kernel.records())
    silent.end()
    insmod.core()
    assert left.more(before) == {}


def one_waits(server, number):
    """Returns when `number` clients have a place to wait in: a request that has only been received may be overtaken."""
    if module.MODEL in module.BLOCKING:
        wait_for(lambda: server.stats()["receives"] >= number, "it has been heard")
    else:
        wait_for(lambda: server.stats()["far"] >= 2 * number, "it is in the queue of other mounts")


def refused_one(wires):
    """The client that has been answered, removed from the waiting ones."""
    ready = select.select([wire.sock for wire in wires], [], [], WAITED_S)[0]
    assert len(ready) == 1, f"{len(ready)} of {len(wires)} were answered"
    return wires.pop([wire.sock for wire in wires].index(ready[0]))


def test_half_of_the_seats_are_for_others(start, folder, hung):
    """Clients that ask for a file that never comes take no more seats than that: if one more asks, one is answered 503."""
    silent = hung()
    server = start(folder, "--cross-mounts=on", "--max-connections", "40", *PATIENT)
    most, wires = server.stats()["seats"] // 2, []
    for number in range(most + 8):
        wires.append(server.wire())
        wires[-1].send(request(ASKED.decode()))
        if number < most:
            one_waits(server, number + 1)
        else:
            refused = refused_one(wires)
            assert refused.reply().status == 503
            refused.close()
    assert len(wires) == most and served(server) < SERVED_S
    silent.die()
    for wire in wires:
        assert wire.reply().status == 500
    crowd.leave(wires)
    server.stop()


# shows S29
def test_a_folder_that_hangs(kernel, start, folder, hung):
    """The folder itself hangs, not a mount below it: clients wait, are answered when it goes on, and the module can be unloaded."""
    kernel.expects("do not answer|does not answer")
    slow = hung((*fuse.FOUND, fuse.READ))
    server = start(f"{folder}/hung", *PATIENT)
    assert server.ask("/small").body == fuse.content("small")
    slow.process.send_signal(signal.SIGSTOP)
    wires = [server.wire() for _ in range(2 * PLACES)]
    for number, wire in enumerate(wires):
        wire.send(request(f"/file{number}"))
    assert server.ask("*", "OPTIONS").status < 300
    slow.process.send_signal(signal.SIGCONT)
    for wire in wires:
        assert wire.reply().body == fuse.content("file")
    slow.process.send_signal(signal.SIGSTOP)
    before = server.stats()["receives"]
    for number, wire in enumerate(wires):
        wire.send(request(f"/other{number}"))
    wait_for(lambda: server.stats()["receives"] >= before + len(wires), "all have been heard")
    began = time.monotonic()
    server.kill()
    assert time.monotonic() - began < UNLOADED_S
    crowd.leave(wires)
    assert not core_is_free()
    slow.die()
    wait_for(core_is_free, "the rest has gone")
    insmod.core()


def test_when_it_dies_all_are_answered(start, folder, hung):
    """The answer is an error, and the connection goes on."""
    silent = hung()
    server = start(folder, "--cross-mounts=on", *PATIENT)
    wires = asking(server, 20)
    silent.die()
    for wire in wires:
        assert wire.reply().status == 500
        assert wire.ask("/hello.txt").body == HELLO
    crowd.leave(wires)
    server.stop()


# shows K04
def test_mounts_are_not_crossed(start, folder, hung):
    """Without the option, no request asks the file system anything, whether by name, by link or in a listing."""
    silent = hung()
    os.symlink("hung/file", f"{folder}/link")
    before = len(silent.asked())
    server = start(folder, *PATIENT)
    for target in (ASKED.decode(), "/hung/", "/link"):
        assert server.ask(target).status == 403
    assert b'href="./hung/"' in server.ask("/").body
    assert silent.asked()[before:] == []
    server.stop()


def test_mounts_that_are_crossed(start, folder):
    place = f"{folder}/hung"
    subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    try:
        write(f"{place}/file", BIG)
        os.symlink("hung/file", f"{folder}/link")
        plain, crossing = start(folder), start(folder, "--cross-mounts=on")
        for target in (ASKED.decode(), "/hung/", "/link"):
            assert plain.ask(target).status == 403
            assert crossing.ask(target).status == 200
        same = crossing.ask("/link").body == BIG
        assert same
        assert b"file" in crossing.ask("/hung/").body
        plain.stop()
        crossing.stop()
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.skipif(not os.path.isdir("/sys/kernel/debug/tracing"), reason="debugfs has no tracefs in this kernel")
def test_an_automount_point(start, folder):
    """A mount point counts as a mount before anything is mounted there; debugfs has one, for tracefs."""
    place, mode = f"{folder}/hung", ["mount", "-o", "remount,mode={}", "/sys/kernel/debug"]
    subprocess.run(["mount", "-t", "debugfs", "none", place], check=True)
    subprocess.run([word.format(755) for word in mode], check=True)
    try:
        plain, crossing = start(place), start(place, "--cross-mounts=on")
        for target in ("/tracing/", "/tracing/README"):
            assert plain.ask(target).status == 403
        assert f" {place}/tracing " not in left.text_of("/proc/self/mountinfo")
        crossing.ask("/tracing/README")
        assert f" {place}/tracing " in left.text_of("/proc/self/mountinfo")
        plain.stop()
        crossing.stop()
    finally:
        subprocess.run(["umount", "-R", place], check=True)
        subprocess.run([word.format(700) for word in mode], check=True)


def test_a_read_that_says_again(start, folder, hung):
    """EAGAIN of the file system does not come from the socket: it is an error like others, and ends the answer."""
    hung((*fuse.FOUND, f"{fuse.READ}={errno.EAGAIN}"))
    server = start(folder, "--cross-mounts=on", *PATIENT)
    with server.wire() as wire:
        wire.send(request(ASKED.decode()))
        assert not was_refused(wire)
    assert served(server) < SERVED_S
    server.stop()


@pytest.mark.skipif(module.MODEL in module.BLOCKING, reason="each connection has its own place to wait in")
def test_clients_that_left_before_their_turn(start, folder, hung):
    """The file system is asked only for clients that have a place, not for those that left while they waited for one."""
    silent = hung((*fuse.FOUND, fuse.READ))
    server = start(folder, "--cross-mounts=on", *PATIENT)
    silent.process.send_signal(signal.SIGSTOP)
    wires = asking(server, 3 * PLACES)
    wait_for(lambda: server.stats()["far"] >= 2 * len(wires), "each waits in the queue of other mounts")
    for wire in wires:
        wire.reset()
    silent.process.send_signal(signal.SIGCONT)
    wait_for(lambda: fuse.OPEN in silent.asked(), "those that have a place are looked for")
    server.check_counts()
    assert silent.asked().count(fuse.OPEN) <= PLACES
    server.stop()


def test_unloading_that_is_killed(kernel, start, folder, hung):
    """The call ends anyway, and the rest is freed when the file system has died."""
    kernel.expects("do not answer|does not answer")
    silent = hung()
    server = start(folder, "--cross-mounts=on", *PATIENT)
    wires = asking(server, 4)
    wait_for(lambda: len(silent.asked()) > 1, "one waits for it")
    unloading = os.fork()
    if not unloading:
        insmod.unload(server.name)
        os._exit(0)
    server.ended = True
    wait_for(lambda: re.search(rf"^{server.name} .* Unloading ", left.text_of("/proc/modules"), re.M), "it is being unloaded")
    os.kill(unloading, signal.SIGKILL)
    wait_for(lambda: os.waitpid(unloading, os.WNOHANG)[0], "it has ended", UNLOADED_S)
    assert not core_is_free()
    crowd.leave(wires)
    silent.die()
    wait_for(core_is_free, "the rest has gone")
    insmod.core()


@pytest.mark.skipif(module.MODEL not in module.BLOCKING, reason="it has no context for each connection")
def test_half_of_the_seats(start, folder, hung):
    """Half of the seats may wait for it (KSEATS_WAIT_SHARE); further requests are refused.  When it has died, the seats are free."""
    silent = hung()
    server = start(folder, "--cross-mounts=on", "--max-connections", "10", *PATIENT)
    waiting = asking(server, 5)
    wait_for(lambda: server.ask(ASKED.decode()).status == 503, "half of the seats are taken")
    assert server.ask("/hello.txt").body == HELLO
    crowd.leave(waiting[:0])
    silent.die()
    for wire in waiting:
        assert wire.reply().status == 500
        assert wire.ask(ASKED.decode()).status == 500
    crowd.leave(waiting)
    server.stop()
