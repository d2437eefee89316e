# SPDX-License-Identifier: MIT
"""Listeners that are not handed over: the next server fails, or it is not one; and what other users may do."""
import array
import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import pytest
from lib.handover import MAGIC, PARCEL, Next, ticks
from lib.server import engine_row

from cli import (as_root, EXIT_DONE, EXIT_LISTEN, EXIT_USAGE, PATIENCE, Running, begin, large, site,  # noqa: F401
                 stuck_download, wait_for)

pytestmark = pytest.mark.userspace("a process")

PROCESSES = ["--workers", "2", "--workers-as", "process"]


@pytest.fixture
def path(tmp_path):
    return f"{tmp_path}/handover"


@pytest.fixture
def public_path():
    """A path that every user can reach and make, which none in pytest's folders is."""
    folder = tempfile.mkdtemp(prefix="rung-handover-")
    os.chmod(folder, 0o777)
    yield f"{folder}/handover"
    shutil.rmtree(folder)


def test_next_server_fails(begin, site, path):
    """One that ends before it serves changes nothing, and the one after that gets the listeners."""
    first = begin("-p", "0", "--handover", path, site)
    failed = Running("-p", "0", "--handover", path, "--log", "json", "--log-file", "/nowhere/log", site)
    failed.said("cannot open the log")
    failed.end(None)
    first.said(r"process \d+ took the listeners and ended; serving goes on")
    assert first.get("/file.txt").status == 200
    begin("-p", "0", "--handover", path, site)
    assert first.end(None) == EXIT_DONE


def test_other_arrangement(begin, site, path):
    """As many listeners as workers are needed if each has its own: the next server says so, and the first goes on."""
    first = begin("-p", "0", "--handover", path, site)
    other = Running("-p", "0", "--handover", path, *PROCESSES, "--accept", "reuseport", site)
    other.said("both servers need the same --accept and --workers")
    assert other.end(None) == EXIT_LISTEN
    first.said("serving goes on")
    assert first.get("/file.txt").status == 200


def test_listeners_of_systemd(site, path):
    with socket.create_server(("127.0.0.1", 0)) as one:
        code = f"exec \"$@\" 3<&{one.fileno()}"
        server = Running("--handover", path, site, pass_fds=[one.fileno()],
                         before=["bash", "-c", f"export LISTEN_FDS=1 LISTEN_PID=$$; {code}", "bash"])
        server.said("leave it out")
        assert server.end(None) == EXIT_USAGE


@pytest.mark.any_engine("the thread for signals does it all")
def test_first_server_hangs(begin, site, path):
    """The next server does not wait for ever, and a first one that goes on later goes on serving."""
    first = begin("-p", "0", "--handover", path, site)
    first.send(signal.SIGSTOP)
    other = Running("-p", "0", "--handover", path, site)
    other.said("it does not answer; the server that has them goes on")
    assert other.end(None) == EXIT_LISTEN
    first.send(signal.SIGCONT)
    assert first.get("/file.txt").status == 200
    begin("-p", "0", "--handover", path, site)
    assert first.end(None) == EXIT_DONE


def test_one_after_the_other(begin, site, path):
    """While a next server starts, another one waits, without work for the first; it comes when that one has ended."""
    first = begin("-p", "0", "--handover", path, site)
    one = Next(path)
    third = Running("-p", "0", "--handover", path, site)
    wait_for(lambda: os.path.exists(f"/proc/{third.pid}/wchan") and sleeping(third), "it waits")
    before = ticks(first)
    time.sleep(0.5)
    assert ticks(first) - before <= 5
    assert first.get("/file.txt").status == 200
    one.end()
    try:
        third.ready()
        assert first.end(None) == EXIT_DONE
        assert third.get("/file.txt").status == 200
        assert third.end() == EXIT_DONE
    finally:
        third.kill()


def sleeping(server):
    with open(f"/proc/{server.pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] == b"S"


def test_stopped_while_the_next_one_starts(begin, site, path):
    """The listeners of the next server still take clients: they got no filter, were not shut down, and wait where they were."""
    first = begin("-p", "0", "--handover", path, site)
    one = Next(path)
    try:
        assert first.end() == EXIT_DONE
        with socket.create_connection(("127.0.0.1", first.port), PATIENCE) as client:
            client.sendall(b"hello")
            served = [each for each in one.sockets[1:] if each.family == socket.AF_INET][0]
            served.settimeout(PATIENCE)
            peer, _ = served.accept()
            assert peer.recv(5) == b"hello"
            peer.close()
        assert os.path.exists(path)
    finally:
        one.end()


def test_socket_of_another_program(site, path):
    """The program that answers there is not rung: it is refused, and left alone."""
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        other.listen()
        server = Running("-p", "0", "--handover", path, site)
        peer, _ = other.accept()
        peer.send(b"hello" * 10)
        peer.close()
        server.said("cannot take the listeners over")
        assert server.end(None) == EXIT_LISTEN
    assert os.path.exists(path)


@pytest.mark.parametrize("name, said", [("/nowhere/handover", "cannot use --handover"), ("/tmp/" + "n" * 200, "cannot use --handover")])
def test_bad_path(site, name, said):
    server = Running("-p", "0", "--handover", name, site)
    server.said(said)
    assert server.end(None) == EXIT_LISTEN


@as_root
def test_only_its_own_user(begin, site, public_path):
    """Another user is sent nothing."""
    server = begin("-p", "0", "--handover", public_path, site)
    os.chmod(public_path, 0o666)
    code = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
            "print(len(socket.recv_fds(s, 100, 100)[1]))")
    for user, count in ((65534, "0"), (0, r"[1-9]\d*")):
        out = subprocess.run(["/usr/bin/python3", "-c", code, public_path], user=user, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True)
        assert re.fullmatch(count, out.stdout.strip())
    assert server.get("/file.txt").status == 200


@as_root
def test_server_of_another_user(site, public_path):
    """A socket that another user has put there gets no say in what is served."""
    code = ("import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(flush=True); "
            "sys.stdin.read()")
    command = ["/usr/bin/python3", "-c", code, public_path]
    with subprocess.Popen(command, user=65534, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"\n"
        server = Running("-p", "0", "--handover", public_path, site)
        server.said("cannot take the listeners over: it belongs to another user")
        assert server.end(None) == EXIT_LISTEN
        other.stdin.close()


# What a false server sends: the fields of the parcel after its magic, and what the descriptors are.
FALSE = {
    "no descriptors at all": ((0, 1, 0, 0), ""),
    "fewer than it says": ((2, 1, 0, 2), "L"),
    "more than it says": ((1, 1, 0, 1), "LL"),
    "more than there are in all": ((1, 1, 0, 2), "LL"),
    "a huge number": ((0xffffffff, 1, 0, 1), "L"),
    "more metrics than descriptors": ((1, 1, 1, 1), "L"),
    "two metrics": ((4, 1, 2, 4), "LLLL"),
    "a connection": ((2, 1, 0, 2), "LC"),
    "a datagram socket": ((2, 1, 0, 2), "LD"),
    "a file": ((2, 1, 0, 2), "LF"),
    "a control socket that is a file": ((2, 1, 0, 2), "FL"),
}


@pytest.mark.any_engine("listeners are taken before it runs")
@pytest.mark.parametrize("what", FALSE)
def test_false_server(site, path, what):
    fields, kinds = FALSE[what]
    with contextlib.ExitStack() as stack:
        control = stack.enter_context(socket.socket(socket.AF_UNIX))
        control.bind(path)
        control.listen()
        made = {"L": lambda: socket.create_server(("127.0.0.1", 0)), "C": lambda: socket.socketpair()[0],
                "D": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM), "F": lambda: open("/dev/null", "rb")}
        fds = [stack.enter_context(made[kind]()).fileno() for kind in kinds]
        server = Running("-p", "0", "--handover", path, site)
        peer, _ = control.accept()
        with peer:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            peer.sendmsg([struct.pack(PARCEL, MAGIC, *fields)], rights)
            server.said("cannot take the listeners over")
            assert server.end(None) == EXIT_LISTEN


def inodes_of(path):
    with open("/proc/net/unix", encoding="utf-8") as file:
        return {f"socket:[{words[6]}]" for words in map(str.split, file) if len(words) > 7 and words[7] == path}


def held(pid):
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return found


def below(pid):
    """The children of a process, and their children."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
            for child in map(int, file.read().split()):
                found += [child, *below(child)]
    return found


@pytest.mark.parametrize("processes", [[], PROCESSES], ids=["one", "processes"])
def test_workers_have_no_part_in_it(begin, large, path, processes):
    """A worker process, or the child of a connection, could answer the next server itself: it has none of these sockets."""
    server = begin("-p", "0", "--handover", path, *processes, large)
    with stuck_download(server):
        sockets = wait_for(lambda: inodes_of(path), "it listens")
        assert held(server.pid) & sockets
        children = below(server.pid)
        assert bool(children) == (bool(processes) or engine_row()["forks"])
        for pid in children:
            wait_for(lambda pid=pid: not held(pid) & sockets, "it has closed what it got by its birth")


@pytest.mark.any_engine("what handles signals does it all")
def test_stopped_and_the_next_one_ends(begin, large, path):
    """Then no process has the listeners, and a server that is started opens its own."""
    first = begin("-p", "0", "--handover", path, "--drain-timeout", "60s", large)
    one = Next(path)
    with stuck_download(first):
        first.send(signal.SIGTERM)
        first.said("stopping: ")
        one.end()
        first.said(r"process \d+ took the listeners and ended$")
        begin("-p", "0", "--handover", path, large)
    assert first.end(None) == EXIT_DONE
    assert os.path.exists(path)
