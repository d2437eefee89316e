# SPDX-License-Identifier: MIT
"""How an answer is sent: each way sends the same bytes, whatever happens to the file; and what
Nagle's algorithm, the cork and deferred accepting do to the time it takes.

A delay of the kernel's never ends before it is due, and a busy machine only adds to it.  So where there is a delay,
even the fastest of many answers has it, and where there is none, the fastest does not.
"""
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import pytest
from cli import EXIT_USAGE, run
from lib import server as lib
from lib.client import Wire, byteranges, request
from lib.server import wait_for
from lib.trees import content, sparse, write

HOW = {
    "copy": "--send copy", "mmap": "--send mmap", "sendfile": "--send sendfile", "splice": "--send splice",
    "apart": "--gather off", "corked": "--tcp-cork on --tcp-nodelay off",
    "copy apart": "--send copy --gather off", "mmap corked": "--send mmap --gather off --tcp-cork on",
    "splice apart": "--send splice --gather off --tcp-nodelay off --tcp-cork on",
}
SIZES = [0, 1, 4095, 4096, 4097, 16384, 65535, 65536, 65537, 262143, 262144, 262145, (1 << 20) + 3]
GIANT = (2 << 30) + (4 << 20)
MARKS = {0: b"first", (2 << 30) - 4: b"across 2 GiB", GIANT - 4: b"last"}
BIG, CUT = 20 << 20, (16 << 20) + 123  # more than all buffers on the way hold, and an end beyond the bytes in them
HELLO = b"Hello, world\n"
BYTES = content("big", BIG)
DELAYED_MS = 25  # an acknowledgement waits 40 ms for something to go with


@pytest.fixture(scope="module")
def sizes(engine):
    if engine["model"] == "completion":
        pytest.skip("the kernel sends for it: there is one way")
    root = tempfile.mkdtemp(prefix="rung-wire-")
    os.chmod(root, 0o755)
    for size in SIZES:
        write(f"{root}/{size}", content(size, size))
    write(f"{root}/hello.txt", HELLO)
    os.mkdir(f"{root}/list")
    sparse(f"{root}/giant", GIANT, MARKS)
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="module", params=HOW)
def sending(request, sizes):  # pylint: disable=redefined-outer-name
    one = lib.Server(sizes, *HOW[request.param].split())
    yield one
    one.stop()


@pytest.fixture(params=HOW)
def changing(request, start, engine, tree):
    """A server and a file that will change while it is sent."""
    if engine["model"] == "completion":
        pytest.skip("the kernel sends for it: there is one way")
    big = write(f"{tree}/big", BYTES)
    write(f"{tree}/hello.txt", HELLO)
    return start(tree, *HOW[request.param].split()), big


# --- The same bytes ----------------------------------------------------------------------------------------

# shows N12, N13, S29, S33
def test_every_size(sending):
    with sending.wire() as wire:
        for size in SIZES:
            assert wire.ask(f"/{size}", "HEAD").length == size
            assert wire.ask(f"/{size}").body == content(size, size)


def test_pipelined(sending):
    """All requests in one go, from a client that reads late and little at a time."""
    with sending.wire(rcvbuf=8192) as wire:
        wire.send(b"".join(request(f"/{size}") + request(f"/{size}", "HEAD") for size in SIZES))
        time.sleep(0.05)
        for size in SIZES:
            assert wire.reply().body == content(size, size)
            assert wire.reply("HEAD").length == size


def test_ranges(sending):
    size = SIZES[-1]
    whole = content(size, size)
    spans = [(0, 0), (1, 5000), (4095, 4096), (16383, 99999), (300000, 700000), (size - 3, size - 1)]
    with sending.wire() as wire:
        for first, last in spans:
            reply = wire.ask(f"/{size}", fields=[f"Range: bytes={first}-{last}"])
            assert reply.status == 206 and reply.body == whole[first:last + 1]
        reply = wire.ask(f"/{size}", fields=["Range: bytes=" + ",".join(f"{first}-{last}" for first, last in spans)])
        assert [part[4] for part in byteranges(reply)] == [whole[first:last + 1] for first, last in spans]


# shows N14, S29, U84
def test_beyond_two_gib(sending):
    """A range that crosses 2 GiB, in full, and the last bytes."""
    first, last = (2 << 30) - 300000, (2 << 30) + 300000
    with sending.wire() as wire:
        body = wire.ask("/giant", fields=[f"Range: bytes={first}-{last}"]).body
        assert body == bytes(300000 - 4) + MARKS[(2 << 30) - 4] + bytes(300001 - 8)
        assert wire.ask("/giant", fields=["Range: bytes=-6"]).body == b"\0\0last"


# --- Files that change -------------------------------------------------------------------------------------

def begin(server):
    wire = server.wire(rcvbuf=65536)
    wire.send(request("/big") + request("/hello.txt"))
    assert wire.head().length == BIG
    return wire, wire.take(65536)


# shows N12, N13, N14
def test_cut(changing, tree):
    """Exactly the bytes that the file still has, then the end; never a signal, zeros or the next answer."""
    server, big = changing
    wire, got = begin(server)
    with wire:
        os.truncate(f"{tree}/big", CUT)
        got += wire.take(CUT - len(got))
        assert got == big[:CUT]
        try:
            assert not wire.more(), wire.rest[:80]
        except ConnectionResetError:
            pass  # the second request was never read
    assert server.ask("/hello.txt").body == HELLO


@pytest.mark.parametrize("how", ["replace", "delete"])
def test_exchanged(changing, tree, how):
    server, big = changing
    wire, got = begin(server)
    with wire:
        if how == "replace":
            write(f"{tree}/big", content("other", 1000))
        else:
            os.unlink(f"{tree}/big")
        assert got + wire.take(BIG - len(got)) == big
        assert wire.reply().body == HELLO


def test_pipes_are_few(start, sizes, engine):
    """One pipe for each thread of a loop or a pool, empty for the next answer, however often a client left early.  A
    thread that serves one connection has a pipe only while it does."""
    server = start(sizes, "--send", "splice")
    stdio = set(server.open_paths("pipe:"))
    for _ in range(20):
        with server.wire(rcvbuf=4096) as wire:
            wire.send(request("/giant"))
            wire.take(100)
        assert server.ask(f"/{SIZES[-1]}").body == content(SIZES[-1], SIZES[-1])
    server.rest()
    kept = set(server.open_paths("pipe:")) - stdio
    assert len(kept) <= (0 if engine["may_block"] else 32 if engine["thread_pool"] else 1)


# --- Packets -----------------------------------------------------------------------------------------------

def fastest_ms(ask, count=30):
    """The fastest of the last ten of count answers: at first the client's kernel acknowledges at once."""
    times = []
    for _ in range(count):
        begun = time.monotonic()
        ask()
        times.append(1000 * (time.monotonic() - begun))
    return min(times[-10:])


@pytest.mark.parametrize("cork", ["on", "off"])
@pytest.mark.parametrize("nodelay", ["on", "off"])
# shows N16
def test_the_stall(start, sizes, nodelay, cork):
    """Head and body as two small segments.  With neither option, the second waits for the first's acknowledgement."""
    server = start(sizes, "--gather", "off", "--tcp-nodelay", nodelay, "--tcp-cork", cork)
    with server.wire() as wire:
        def ask():  # after a pause, as on a busy machine, a kernel acknowledges at once again, without this option
            wire.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            wire.ask("/hello.txt")
        fastest = fastest_ms(ask)
    assert (fastest > DELAYED_MS) == (nodelay == cork == "off"), fastest


def test_one_call_needs_neither(start, sizes):
    server = start(sizes, "--tcp-nodelay", "off")
    with server.wire() as wire:
        assert fastest_ms(lambda: wire.ask("/hello.txt")) < DELAYED_MS


@pytest.mark.parametrize("what", ["pipelined", "error", "last", "list"])
# shows N16
def test_nothing_is_left_in_the_cork(start, sizes, what):
    """Corked bytes would be sent only after 200 ms.  A batch, a lingering end, an end that the client requested, and a
    listing, which waits for its folder."""
    server = start(sizes, "--tcp-cork", "on")

    def pipelined():
        with server.wire() as wire:
            wire.send(7 * request("/hello.txt"))
            assert [wire.reply().body for _ in range(7)] == 7 * [HELLO]

    def error():
        with server.wire() as wire:
            wire.send(b"nonsense\r\n\r\n")
            assert wire.reply().status == 400

    def last():
        with server.wire() as wire:
            assert wire.ask("/hello.txt", fields=["Connection: close"]).body == HELLO

    def folder():
        with server.wire() as wire:
            for _ in range(3):
                assert wire.ask("/list/").status == 200
    assert fastest_ms({"pipelined": pipelined, "error": error, "last": last, "list": folder}[what]) < 100


@contextlib.contextmanager
def echo_server(*options):
    """A running rung echo; yields its address."""
    command = [lib.BIN, "echo", "-e", lib.ENGINE, "-p", "0", "-b", "127.0.0.1", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=lib.CLEAN_ENV) as process:
        try:
            said = process.stderr.readline()
            assert "127.0.0.1" in said, said
            yield "127.0.0.1", int(said.rsplit(":", 1)[1].strip("/\n"))
            assert process.poll() is None, "it has ended"
        finally:
            process.terminate()
            process.stderr.read()


@contextlib.contextmanager
def echoing(*options):
    with echo_server(*options) as address, Wire(address, secured=False) as wire:
        yield wire


@pytest.mark.userspace("a command line")
def test_echo_is_corked_too(engine):
    if engine["model"] == "completion":
        pytest.skip("the kernel sends for it: there is no cork")
    with echoing("--tcp-cork", "on") as wire:
        def once():
            wire.send(b"to and fro")
            assert wire.take(10) == b"to and fro"
        assert fastest_ms(once) < 100


@pytest.mark.core
@pytest.mark.userspace("a command line: rung echo is a process; tests/kernel asks rung_echo")
# shows D24, E07, E23
def test_echo():
    """rung echo runs on every engine, though it has no options for sending files: those keep their defaults."""
    with echoing() as wire:
        for size in 1, 16384, 16385, 300000:
            sender = threading.Thread(target=wire.send, args=(BYTES[:size],))
            sender.start()
            assert wire.take(size) == BYTES[:size]
            sender.join(30)


# --- Accepting ---------------------------------------------------------------------------------------------

def test_deferred(start, sizes):
    """A silent client is accepted only after a while; a client that sends something is accepted at once."""
    server = start(sizes, "--defer-accept", "1s")
    with server.wire() as silent:
        time.sleep(0.3)
        assert server.stats()["accepted"] == 0
        silent.send(request("/hello.txt"))
        assert silent.reply().body == HELLO
    assert server.stats()["accepted"] == 1
    with server.wire():
        wait_for(lambda: server.stats()["accepted"] == 2, "accepted though silent")


def test_not_deferred(start, sizes):
    server = start(sizes)
    with server.wire():
        wait_for(lambda: server.stats()["accepted"] == 1, "accepted though silent")


# --- Refused -----------------------------------------------------------------------------------------------

@pytest.mark.userspace("a command line")
@pytest.mark.parametrize("options", ["--send copy", "--gather off", "--tcp-nodelay off", "--tcp-cork on",
                                     "--defer-accept 1s", "--congestion reno"])
def test_without_sockets(tree, options):
    out = run("serve", "-e", "null", *options.split(), tree)
    assert out.returncode == EXIT_USAGE and "it has no sockets" in out.stderr


@pytest.mark.userspace("a command line")
@pytest.mark.parametrize("option", ["--send", "--gather"])
def test_without_files(option):
    out = run("echo", "-p", "0", option, "on")
    assert out.returncode == EXIT_USAGE and f"{option}: no such option" in out.stderr


@pytest.mark.core
@pytest.mark.userspace("a command line: rung echo is a process; tests/kernel asks rung_echo")
# shows D24, E07
def test_echo_bears_resets(enough):
    """Clients leave with a reset: in the middle of a message, with an answer unread, with nothing sent."""
    others = max(0, min(8, enough - 1))
    with echo_server() as address:
        for turn in range(5):
            wires = [Wire(address, secured=False) for _ in range(others)]
            for number, wire in enumerate(wires):
                if number % 4 < 3:
                    wire.send(BYTES[:1 + 30000 * (number % 4)])
                if number % 4 == 0:
                    assert wire.take(1) == BYTES[:1]
            for wire in wires:
                wire.reset()
            with Wire(address, secured=False) as wire:  # naive serves one at a time: those before have gone
                wire.send(BYTES[turn:2000])
                assert wire.take(2000 - turn) == BYTES[turn:2000]
