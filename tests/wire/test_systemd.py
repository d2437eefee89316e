# SPDX-License-Identifier: MIT
"""Started by systemd: listeners that it opened and keeps (sd_listen_fds(3)), and messages to it (sd_notify(3)).  A stand-in
plays systemd's part; where systemd's own systemd-socket-activate is installed, it does, too."""
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
from cli import as_root, unix_get
from lib.client import PATIENCE, Wire
from lib.server import BIN, CLEAN_ENV, ENGINE, engine_row, one_at_a_time
from lib.served import wait_for

pytestmark = pytest.mark.userspace("systemd starts no modules")
KINDS = [pytest.param([], id="one worker"), pytest.param(["--workers", "2", "--workers-as", "process"], id="processes")]
if not engine_row()["may_block"]:
    KINDS.append(pytest.param(["--workers", "2"], id="threads"))
BACKLOG = 64


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as one:
        yield one


@pytest.fixture
def notified(tmp_path):
    """systemd's side of NOTIFY_SOCKET: its path, and a function that waits for the next datagram's lines."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.bind(str(tmp_path / "notify"))
        one.settimeout(PATIENCE)
        yield str(tmp_path / "notify"), lambda: one.recv(4096).decode().split("\n")


def get(address, path="/hello.txt"):
    with socket.create_connection(address, PATIENCE) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
        client.settimeout(PATIENCE)
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize("kind", KINDS)
# shows U19
def test_it_serves_on_what_was_passed(start, standard, listener, kind):
    server = start(standard, *kind, passed=[listener])
    assert server.addresses == [listener.getsockname()]
    assert get(listener.getsockname()).startswith(b"HTTP/1.1 200 ")


def test_the_listener_outlives_it(start, standard, listener):
    """No client is refused while the server is restarted: clients wait in the queue of the listener."""
    first = start(standard, passed=[listener])
    assert get(listener.getsockname()).startswith(b"HTTP/1.1 200 ")
    first.stop()
    with socket.create_connection(listener.getsockname(), PATIENCE) as client:
        client.sendall(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        start(standard, passed=[listener])
        client.settimeout(PATIENCE)
        assert client.recv(4096).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("kind", KINDS)
def test_a_first_request_that_is_late(start, standard, listener, kind):
    """Stopped, it waits for the first request of a client that it has accepted."""
    server = start(standard, *kind, passed=[listener])
    with socket.create_connection(listener.getsockname(), PATIENCE) as late:
        late.settimeout(PATIENCE)
        time.sleep(0.2)  # it is accepted, by an engine that has a thread for it
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        late.sendall(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n")
        answer = late.recv(4096)
        assert answer.startswith(b"HTTP/1.1 200 ") and b"\r\nConnection: close\r\n" in answer
        server.finish()


@pytest.mark.parametrize("asked", [False, True])
def test_a_silent_client_delays_a_stop_for_a_moment(start, standard, listener, asked):
    """Unless it was answered once: then its next request may come to the next server, on another connection."""
    server = start(standard, passed=[listener])
    with socket.create_connection(listener.getsockname(), PATIENCE) as silent:
        silent.settimeout(PATIENCE)
        if asked:
            silent.sendall(b"HEAD /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n")
            assert silent.recv(4096).startswith(b"HTTP/1.1 200 ")
        time.sleep(0.2)
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert silent.recv(1) == b""
        took = time.monotonic() - begin
        assert took < 0.6 if asked else 0.7 < took < 4  # --drain-timeout is 5 s
        server.finish()


@pytest.mark.skipif(ENGINE != "uring", reason="other engines take no wake-up once their process has ended")
def test_a_ring_that_ends_late_keeps_no_client_waiting(start, standard, listener):
    """The kernel ends the ring of a killed process a moment later, and meanwhile the ring may take the wake-up that a client
    brings.  The ring of a stopped process does the same for as long as a test wants."""
    first = start(standard, passed=[listener])
    assert get(listener.getsockname()).startswith(b"HTTP/1.1 200 ")
    os.kill(first.pid, signal.SIGSTOP)
    try:
        start(standard, passed=[listener])
        begin = time.monotonic()
        for _ in range(3):  # at the first one it may not wait yet
            assert get(listener.getsockname()).startswith(b"HTTP/1.1 200 ")
            time.sleep(0.1)
        assert time.monotonic() - begin < PATIENCE / 4
    finally:
        os.kill(first.pid, signal.SIGCONT)


@pytest.mark.long
def test_restarted_under_load_without_a_refusal(start, standard, listener):
    """Clients that connect for each request lose none to a restart: each is answered whole, by the old or by the new one."""
    with open(f"{standard}/hello.txt", "rb") as file:
        whole = file.read()
    over, wrong, answered = threading.Event(), [], [0]

    def ask_on():
        while not over.is_set():
            try:
                reply = get(listener.getsockname())
                if reply.startswith(b"HTTP/1.1 200 ") and reply.endswith(whole):
                    answered[0] += 1
                else:
                    wrong.append(reply[:100])
            except OSError as error:
                wrong.append(repr(error))
    server = start(standard, passed=[listener])
    askers = [threading.Thread(target=ask_on) for _ in range(4)]
    for asker in askers:
        asker.start()
    for _ in range(3):
        seen = answered[0]
        wait_for(lambda: answered[0] > seen + 20, "answers")
        server.stop()
        server = start(standard, passed=[listener])
    over.set()
    for asker in askers:
        asker.join()
    assert not wrong, wrong[:5]


def test_two_of_them(start, standard, listener, tmp_path):
    """The second is a Unix socket: its name is systemd's, and stays."""
    with socket.socket(socket.AF_UNIX) as second:
        second.bind(str(tmp_path / "s"))
        second.listen(BACKLOG)
        server = start(standard, passed=[listener, second])
        assert get(listener.getsockname()).startswith(b"HTTP/1.1 200 ")
        assert unix_get(str(tmp_path / "s"), "/hello.txt").startswith(b"HTTP/1.1 200 ")
        server.stop()
        assert os.path.exists(tmp_path / "s")


@as_root
def test_as_another_user(start, standard, tmp_path, listener):
    """--user: the socket is not given away."""
    with socket.socket(socket.AF_UNIX) as second:
        second.bind(str(tmp_path / "s"))
        second.listen(BACKLOG)
        server = start(standard, "--user", "nobody", passed=[listener, second])
        assert get(listener.getsockname()).startswith(b"HTTP/1.1 200 ")
        server.stop()
        assert os.stat(tmp_path / "s").st_uid == 0


def test_options_of_its_own(standard, listener):
    """Options for connections are set on passed listeners, too: a small answer does not wait for an acknowledgement."""
    assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
    with serving(standard, [listener]):
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


def serving(root, sockets, **env):
    return Activated([BIN, "serve", root, "--engine", ENGINE], sockets, env)


class Activated:
    """A server started with listeners, for refusals and without the judgement of the fixtures."""
    def __init__(self, command, sockets, env):
        redirects = "".join(f" {to}<&{s.fileno()}" for to, s in enumerate(sockets, 3))
        self.process = subprocess.Popen(
            ["bash", "-c", f'LISTEN_PID=${{PID:-$$}} exec "$@"{redirects}', "bash", *map(str, command)],
            env={**CLEAN_ENV, "LISTEN_FDS": str(len(sockets)), **env}, pass_fds=[s.fileno() for s in sockets], text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __enter__(self):
        self.process.stderr.readline()
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0

    def refused(self):
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said


@pytest.mark.any_engine("it is refused before an engine runs")
@pytest.mark.parametrize("count, words", [("0", None), ("9", "from 1 to 8"), ("x", "from 1 to 8"), ("-1", "from 1 to 8"),
                                          ("2", "descriptor 4, .*it is not open")])
def test_a_bad_count(standard, listener, count, words):
    started = serving(standard, [listener], LISTEN_FDS=count, RUNG_PORT="0")
    if words is None:  # none were passed: it opens its own
        with started:
            return
    status, said = started.refused()
    assert status == 3 and re.search(words, said), (status, said)


@pytest.mark.any_engine("it is refused before an engine runs")
def test_what_is_no_listener(standard, listener):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams, socket.create_connection(listener.getsockname()) as stream:
        status, said = serving(standard, [datagrams]).refused()
        assert status == 3 and "ListenStream=" in said, said
        status, said = serving(standard, [stream]).refused()
        assert status == 3 and "Accept=no" in said, said


@pytest.mark.any_engine("it is refused before an engine runs")
def test_another_process_was_meant(standard, listener):
    """LISTEN_PID of a parent: the variables are not for this process, which opens its own listener."""
    with serving(standard, [listener], PID="1", RUNG_PORT="0"):
        listener.settimeout(0.2)
        with socket.create_connection(listener.getsockname(), PATIENCE):
            listener.accept()[0].close()  # no other process takes it


@pytest.mark.skipif(one_at_a_time(), reason="it has one worker")
def test_a_listener_for_each_worker(standard, listener):
    started = Activated([BIN, "serve", standard, "--engine", ENGINE, "--workers", "2", "--workers-as", "process",
                         "--accept", "reuseport"], [listener], {})
    status, said = started.refused()
    assert status == 2 and "leave --accept out" in said, (status, said)


@pytest.mark.parametrize("kind", KINDS)
# shows U19
def test_it_tells(start, standard, notified, kind):
    path, told = notified
    server = start(standard, *kind, env={"NOTIFY_SOCKET": path})
    assert told() == ["READY=1"]
    os.kill(server.pid, signal.SIGHUP)
    reloading = told()
    assert reloading[0] == "RELOADING=1" and re.fullmatch(r"MONOTONIC_USEC=\d+", reloading[1])
    assert abs(int(reloading[1].partition("=")[2]) / 1e6 - time.monotonic()) < PATIENCE
    assert told() == ["READY=1"]
    server.process.terminate()
    assert told() == ["STOPPING=1"]
    server.finish()


@pytest.mark.any_engine("the engine knows nothing of it")
@pytest.mark.parametrize("name", ["", "x", "relative", "/", "/nowhere/at/all", "/" + "x" * 200])
def test_nobody_listens(start, standard, name):
    """A name that is invalid, or where no process listens: the server serves."""
    server = start(standard, env={"NOTIFY_SOCKET": name})
    assert get(server.addresses[0]).startswith(b"HTTP/1.1 200 ")


@pytest.mark.any_engine("the engine knows nothing of it")
def test_an_abstract_name(start, standard):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.bind(f"\0rung-{os.getpid()}")
        one.settimeout(PATIENCE)
        start(standard, env={"NOTIFY_SOCKET": f"@rung-{os.getpid()}"})
        assert one.recv(100) == b"READY=1"


@pytest.mark.skipif(not shutil.which("systemd-socket-activate"), reason="systemd-socket-activate is not installed")
def test_systemd_s_own_tool(standard):
    """The tool listens, and starts the server for the first client."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    tool = subprocess.Popen(["systemd-socket-activate", "-l", f"127.0.0.1:{port}", BIN, "serve", standard, "--engine", ENGINE],
                            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=CLEAN_ENV)
    try:
        while "Listening" not in (line := tool.stderr.readline()):
            assert line, "the tool ended"
        with Wire(("127.0.0.1", port)) as wire:
            assert wire.ask("/hello.txt").status == 200
    finally:
        tool.send_signal(signal.SIGTERM)
        assert tool.wait(PATIENCE) == 0
