# SPDX-License-Identifier: MIT
"""Helpers for the tests of rung drop: runs of it, connections to drop, texts that are no pairs."""
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import time

import pytest
from space import sockets

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DROP = os.path.abspath(os.environ.get("RUNG_DROP") or f"{TOP}/build/release/rung-drop")
THROUGH = os.environ.get("RUNG_DROP_THROUGH", "diag")
MODULE_FILE = "/proc/thread-self/net/rung_drop"
PATIENCE = 60
DONE, FAILED, USAGE, _, MISSING, REFUSED = range(6)
not_by_module = pytest.mark.skipif(THROUGH == "module", reason="the module knows pairs alone, of sockets that do not listen")

# Each line is refused wherever a pair is read: as operands, in a file, by the module.  {} is the pair of an existing socket.
BAD_LINES = {
    "one end": "127.0.0.1:8080",
    "three ends": "{} 127.0.0.1:1",
    "no port": "127.0.0.1 127.0.0.1:40000",
    "no peer's port": "127.0.0.1:8080 127.0.0.1",
    "an empty port": "127.0.0.1: 127.0.0.1:40000",
    "port 0": "127.0.0.1:0 127.0.0.1:40000",
    "port 65536": "127.0.0.1:65536 127.0.0.1:40000",
    "port 99999": "127.0.0.1:99999 127.0.0.1:40000",
    "a port of 20 digits": "127.0.0.1:18446744073709551696 127.0.0.1:40000",
    "a negative port": "127.0.0.1:-80 127.0.0.1:40000",
    "a port with a sign": "127.0.0.1:+80 127.0.0.1:40000",
    "a port in hexadecimal": "127.0.0.1:0x50 127.0.0.1:40000",
    "a port's name": "127.0.0.1:http 127.0.0.1:40000",
    "words behind": "{}x",
    "a comma": "127.0.0.1:8080,127.0.0.1:40000",
    "a host's name": "localhost:8080 localhost:40000",
    "three numbers": "127.0.1:8080 127.0.0.1:40000",
    "five numbers": "127.0.0.0.1:8080 127.0.0.1:40000",
    "a number over 255": "127.0.0.256:8080 127.0.0.1:40000",
    "nothing but a port": ":8080 :40000",
    "IPv6 without brackets": "::1:8080 ::1:40000",
    "an open bracket": "[::1:8080 [::1]:40000",
    "a bracket that closes": "::1]:8080 [::1]:40000",
    "IPv4 in brackets": "[127.0.0.1]:8080 [127.0.0.1]:40000",
    "empty brackets": "[]:8080 []:40000",
    "a bracket alone": "[:8080 [:40000",
    "nine groups": "[1:2:3:4:5:6:7:8:9]:8080 [::1]:40000",
    "two gaps": "[1::2::3]:8080 [::1]:40000",
    "a group too large": "[10000::1]:8080 [::1]:40000",
    "both families": "127.0.0.1:8080 [::1]:40000",
    "no such device": "127.0.0.1%nosuch0:8080 127.0.0.1:40000",
    "a device without a name": "127.0.0.1%:8080 127.0.0.1:40000",
    "a device's name too long": "127.0.0.1%abcdefghijklmnopq:8080 127.0.0.1:40000",
    "a device at the peer": "127.0.0.1:8080 127.0.0.1%lo:40000",
    "another blank": "127.0.0.1:8080\v127.0.0.1:40000",
    "not ASCII": "127.0.0.1:8080 127.0.0.1:４００００",
}


class Run:
    """A run that has ended: status, what was printed, and the JSON if it was asked for."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out.decode(), err.decode(errors="replace")
        assert not re.search(r"Sanitizer|runtime error:|broken promise", self.err), self.err
        self.json = json.loads(self.out) if self.out.startswith("{") else None


def environment(**more):
    return {**{k: v for k, v in os.environ.items() if not k.startswith("RUNG_")}, "RUNG_DROP_THROUGH": THROUGH, **more}


def drop(*args, text=b"", start=(), **env):
    done = subprocess.run([*start, DROP, *map(str, args)], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment(**env), timeout=PATIENCE, check=False)
    return Run(done.returncode, done.stdout, done.stderr)


def dropped(*args, **how):
    """The JSON of a run that must succeed; its counts must add up."""
    run = drop("--json", "--yes", *args, **how)
    assert run.status == DONE and run.json, f"status {run.status}: {run.err}"
    count = run.json
    assert count["chosen"] == count["dropped"] + count["gone"] + count["refused"]
    assert not count["dropped"] or count["through"] == THROUGH and not count["dry_run"]
    return count


def until(happens):
    deadline = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Listener(contextlib.ExitStack):
    """A listener with its connections, open and ended."""

    def __init__(self, host="127.0.0.1", port=0, dual=False, client=None, backlog=1024):
        super().__init__()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = self.enter_context(socket.create_server((host, port), family=family, backlog=backlog,
                                                                dualstack_ipv6=dual))
        self.port = self.listener.getsockname()[1]
        self.host = client or ("::1" if family == socket.AF_INET6 else "127.0.0.1")

    def connect(self, source=None):
        """Makes a connection and returns both ends: the client's, the server's."""
        client = socket.create_connection((self.host, self.port), PATIENCE, source_address=source)
        server = self.listener.accept()[0]
        return self.enter_context(client), self.enter_context(server)

    def end(self, count, first="server", source=None):
        """Makes and ends `count` connections; the end that closes first is left in TIME-WAIT.  A client that reuses a port
        replaces the socket that is left there."""
        ports = set()
        while len(ports) < count:
            client, server = self.connect(source)
            ports.add(client.getsockname()[1])
            one, other = (client, server) if first == "client" else (server, client)
            one.close()
            assert other.recv(1) == b""
            other.close()
        here = f":{self.port}"
        until(lambda: sum(here in seen.local + " " + seen.peer + " " for seen in sockets("time-wait")) >= count)


def named(end):
    host, port, *_ = end
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def pair_of(wire):
    return f"{named(wire.getsockname())} {named(wire.getpeername())}"


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
