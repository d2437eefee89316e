# SPDX-License-Identifier: MIT
"""Kinds echo, steady and logged: what they measure, and that a server that cheats makes a cell invalid."""
import os
import subprocess
import sys
import time

import kind_echo
import kind_logged
import kind_steady
import measures
import pytest
import rig
from command import TOP
from rig import Broken, raise_descriptors

BIN = os.path.dirname(os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung"))
LIAR = """#!/usr/bin/python3
import socket, sys, threading
listener = socket.create_server(("127.0.0.1", 0))
print(f"rung: echoing at echo://127.0.0.1:{listener.getsockname()[1]}/", file=sys.stderr, flush=True)
def serve(wire):
    while data := wire.recv(1 << 20):
        wire.sendall(%s)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


@pytest.fixture
def context(tmp_path):
    raise_descriptors()
    return measures.Context(BIN, str(tmp_path), "quick")


def figures(context, scenario, seconds=0.05, **target):
    return kind_echo.measure(context, {"name": "it", **target}, scenario, seconds)["figures"]


@pytest.mark.parametrize("engine", ["epoll", "thread", "fork", "uring"])
def test_all_at_once(context, engine):
    found = figures(context, {"clients": 20, "times": 2}, engine=engine)
    assert 0 < found["p50_us"] <= found["max_us"] and found["mean_us"] <= found["max_us"] and found["cpu_us"] > 0
    assert context.commands["it"].startswith(f"rung echo --engine {engine} ")


@pytest.mark.parametrize("size", [1, 4096, 4100, 65536, 1000000, "1-200"])
def test_messages_of_any_length(context, size):
    found = figures(context, {"connections": 3, "bytes": size})
    assert found["per_second"] > 1 and found["failed"] == 0 and found["cpu_us"] > 0


def lying(context, what):
    path = os.path.join(context.folder, "rung")
    with open(path, "w", encoding="utf-8") as file:
        file.write(LIAR % what)
    os.chmod(path, 0o755)
    context.rung = path


@pytest.mark.parametrize("what", ["data[:-1] + b'!'", "data + b'!'", "data[::-1]"])
def test_a_server_that_sends_something_else(context, what):
    lying(context, what)
    found = figures(context, {"connections": 1, "bytes": 100})
    assert list(found) == ["failed"] and found["failed"] > 0  # the number of failures is known, and no other figure means anything
    with pytest.raises(Broken, match="requests failed"):
        figures(context, {"clients": 2, "times": 1, "bytes": 100})


def test_a_crowd_is_there_and_leaves(context):
    with kind_echo.opened(context, {"name": "it", "engine": "epoll"}, {}) as server:
        before = kind_echo.sockets(server.pid)
        with kind_echo.crowd(server.port, 50):
            assert kind_echo.all_held(server.pid, 50, before) == 50
        end = time.monotonic() + 20
        while kind_echo.sockets(server.pid) > before and time.monotonic() < end:
            time.sleep(0.01)
        assert kind_echo.sockets(server.pid) == before
        server.stop()
    assert figures(context, {"connections": 2, "idle": 50}, engine="poll")["cpu_us"] > 0


def test_a_crowd_that_is_not_held_is_told(context, monkeypatch):
    """A server that closes idle connections to accept others does not hold the crowd."""
    monkeypatch.setattr(kind_echo, "PATIENCE_S", 1)
    with pytest.raises(Broken, match="of 40 silent connections .* are held"):
        figures(context, {"connections": 1, "idle": 40}, engine="epoll", options="--max-connections 20")
    with kind_echo.opened(context, {"name": "it"}, {}) as server:
        port = server.port
        server.stop()
    with pytest.raises(Broken, match="idle connections cannot be had: connection 1 of 5"), kind_echo.crowd(port, 5):
        pytest.fail("nobody listens there")


def test_twelve_thousand_silent_clients(context):
    """As many clients as descriptors allow, up to 12,000: more than one process of the server holds.  The next client is
    answered.  (`make answers NAME=silent` has fifty thousand.)"""
    count = min(12000, 2 * (raise_descriptors() - 2000))
    with kind_echo.opened(context, {"name": "it", "engine": "epoll"}, {"workers": 2, "idle": count}) as server:
        before = kind_echo.sockets(server.pid)
        with kind_echo.crowd(server.port, count):
            assert kind_echo.all_held(server.pid, count, before) == count
            with kind_echo.socket.create_connection(("127.0.0.1", server.port), 20) as wire:
                kind_echo.echoed(wire)
        server.stop()


# shows E22
def test_who_never_stops_takes_little(context, monkeypatch):
    monkeypatch.setattr(kind_echo, "FLOOD_S", 0.3)
    found = figures(context, {"floods": 5}, engine="epoll")
    assert found["client_bytes"] < 256 << 10 and found["mean_us"] > 0


def test_time_of_threads_that_ended_is_counted():
    """The time of children that were waited for is counted, too."""
    code = ("import threading, time, os\nend = time.monotonic() + 0.3\ndef spin():\n    while time.process_time() < 0.2: pass\n"
            "t = threading.Thread(target=spin); t.start(); t.join()\nprint('done', flush=True); time.sleep(30)")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "done\n"
        assert rig.used_s(process.pid) >= 0.19
        process.kill()


def test_who_ends_while_we_look_is_not_lost(monkeypatch):
    """The time of a child that has ended belongs to its parent, whose time may have been read already."""
    told = iter([1.0, OSError(), 3.0, 0.5])

    def own_s(_pid):
        if isinstance(one := next(told), OSError):
            raise one
        return one
    monkeypatch.setattr(rig, "own_s", own_s)
    monkeypatch.setattr(rig, "family", lambda pid: [pid, pid + 1])
    assert rig.used_s(1) == 3.5


def test_what_is_not_a_request_is_not_counted(context, monkeypatch):
    """Processor time of the warm-up, of closing idle connections and of the server's end is left out."""
    held, told = [], iter([1.0, 1.5])

    def used_s(pid):
        held.append(kind_echo.sockets(pid))
        return next(told)
    answered, generate = [], measures.generate

    def noted(*args):
        data = generate(*args)
        answered.append(data["requests"]["answered"])
        return data
    monkeypatch.setattr(measures, "used_s", used_s)
    monkeypatch.setattr(measures, "generate", noted)
    found = measures.load(context, {"name": "it", "engine": "epoll"}, {"connections": 2, "idle": 30}, 0.2)["figures"]
    assert min(held) >= 30 and found["cpu_us"] == pytest.approx(0.5e6 / answered[-1])


def test_half():
    assert kind_steady.half([10, 10, 10, 10]) == 0 and kind_steady.half([9, 10, 10, 11, 9, 11]) == 20


def test_steady(context, monkeypatch):
    monkeypatch.setattr(kind_steady, "RESTARTS", {"quick": 3})
    target = {"name": "it", "engine": "epoll", "pinned": False, "wrap": "setarch -R"}
    found = kind_steady.measure(context, target, {"connections": 1}, 0.02)["figures"]
    assert found["cpu_spread"] >= 0 and found["latency_spread"] >= 0 and found["cpu_us"] > 0
    assert context.commands["it"].startswith("setarch -R rung echo")


def test_logged(context, monkeypatch):
    target = {"name": "it", "engine": "epoll", "options": "--log combined --log-file LOG"}
    found = kind_logged.measure(context, target, {"connections": 2}, 0.05)["figures"]
    assert found["cpu_us"] > 0 and not os.path.exists(os.path.join(context.folder, "log"))
    with open(os.path.join(context.folder, "log"), "w", encoding="ascii") as file:
        file.write("of a cell that failed\n" * 1000)
    monkeypatch.setattr(measures, "load", lambda *_: {"figures": {"per_second": 100}})
    with pytest.raises(Broken, match="0 lines were logged"):
        kind_logged.measure(context, target, {"connections": 2}, 0.05)
