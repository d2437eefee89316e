# SPDX-License-Identifier: MIT
"""One rung_http to test: loaded into this machine's kernel, and judged when it is unloaded.

With RUNG_ENGINE=kernel the tests start it instead of a process: as root, in a machine that may crash, so inside a
guest (tests/kernel).  RUNG_MODULES is the folder of the modules; RUNG_ARGS are further parameters: model=softirq.

A module can be loaded once.  So that tests may have several servers, and several processes may test at the same time,
each server is a copy of the file with a name of its own, as long as the old one: rung_http, rung_h000, rung_h001...
Options are given as on the command line and become parameters; an option that only a process has skips the test.
"""
import functools
import os
import re
import shlex
import struct

import pytest

from .insmod import FOLDER, core, load_file, stats_of, unload
from .served import Served, wait_for

ARGS = dict(word.partition("=")[::2] for word in shlex.split(os.environ.get("RUNG_ARGS") or ""))
MODEL = ARGS.get("model", "event")
BLOCKING = ("cmwq", "kthread")
# A work queue runs this many items at once, and a connection is one.  An emulated machine serves 2000 in time.
CAPACITY = {"cmwq": 500}
CAPACITY_OTHERS = 2000
FLAGS = ("hidden",)
SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
SIZES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
TIMES = ("head_timeout", "idle_timeout", "send_timeout")
# Why a module has no such parameter: options about how a process waits, is observed, or ends.
PROCESS_ONLY = {
    "workers": "its workers are the processors", "workers_as": "its workers are the processors",
    "accept": "it has one listener", "pin": "its work stays where it is", "threads": "it has no pool of threads",
    "send": "it hands over pages, or copies where there are none", "gather": "it always gathers",
    "tcp_nodelay": "it always sends at once", "tcp_cork": "it gathers instead", "defer_accept": "it accepts at once",
    "metrics": "it has no listener for its counters, which are in /proc", "health": "it serves the folder alone",
    "proxy_protocol": "its clients connect themselves", "trust": "it keeps no log of answers", "trust_field": "it keeps no log of answers",
    "tls": "TLS is spoken by processes only",
    "header": "it has no fields of options", "max_age": "it has no fields of options", "cors": "it has no fields of options",
    "security_headers": "it has no fields of options",
    "archive": "it makes no archives", "readme": "it shows no README",
    "redirect": "it has no redirects", "auth": "it asks for no password",
    "allow": "a filter of packets does that", "deny": "a filter of packets does that",
    "limit_connections": "a filter of packets does that", "limit_requests": "it counts no client's requests",
    "spa": "it answers each path by itself", "pretty_urls": "it answers each path by itself",
    "busy": "nothing of it waits in a loop",
    "congestion": "its listener has the system's algorithm",
    "log": "it keeps no log of answers", "server_timing": "it tells no times", "user": "it opens files as nobody, always",
    "handover": "it is no process",
    "sandbox": "it is part of the kernel",
}
IGNORED = ("drain_timeout",)  # for a stop by signals, whose tests are left out
NOT_HERE = {"files": "descriptors that could run out", "user": "user to become", "env": "environment"}


def row():
    """The module's row, in the form of `rung engines --json`."""
    return {"name": "kernel", "model": MODEL, "may_block": MODEL in BLOCKING, "forks": False,
            "thread_pool": False, "stack_bytes": 0, "available": True, "reason": "",
            "capacity": CAPACITY.get(MODEL, CAPACITY_OTHERS)}


# --- A name of its own ---------------------------------------------------------------------------------------

def sections(data):
    """(name, type, offset, length) of each section of an ELF file of 64 bits."""
    at, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    rows = [struct.unpack_from("<IIQQQQ", data, at + size * number) for number in range(count)]
    for name, kind, _, _, offset, length in rows:
        start = rows[names][4] + name
        yield data[start:data.index(b"\0", start)].decode(), kind, offset, length


def renamed(data, old, new):
    """A module's file with another name, both the one that the kernel uses and the one in its own messages."""
    assert len(old) == len(new)
    changed = bytearray(data)
    for name, kind, offset, length in sections(data):
        if kind == 1 and re.match(r"\.modinfo$|\.rodata|\.data|\.gnu\.linkonce\.this_module$", name):
            changed[offset:offset + length] = data[offset:offset + length].replace(old.encode(), new.encode())
    return bytes(changed)


def names(what):
    """rung_http: rung_h000, rung_h001, ...; each of several testing processes has a hundred names."""
    worker = int(re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", "")) or 0)
    for number in range(10**9):
        yield f"{what[:6]}{100 * worker + number % 100:03}" + what[9:]


@functools.lru_cache
def taken(what):
    """The parameters of a module, as its file lists them."""
    with open(f"{FOLDER}/{what}.ko", "rb") as file:
        return parameters_of(file.read())


def parameters_of(data):
    for name, _, offset, length in sections(data):
        if name == ".modinfo":
            return set(re.findall(r"(?:^|\0)parm(?:type)?=(\w+):", data[offset:offset + length].decode()))
    return set()


NAMES = {what: names(what) for what in ("rung_http", "rung_echo", "rung_drop")}


def load(what, parameters):
    """Load a copy under the next name; returns the name.  The parameters are a dict."""
    core()
    name = next(NAMES[what])
    path = f"/run/{name}.ko"
    with open(f"{FOLDER}/{what}.ko", "rb") as file:
        data = renamed(file.read(), what, name)
    with open(path, "wb") as file:
        file.write(data)
    try:
        load_file(path, parameters)
    finally:
        os.unlink(path)
    return name


# --- Options become parameters -------------------------------------------------------------------------------

def value_of(key, text):
    if key in TIMES and (found := re.fullmatch(r"(\d+)(ms|s|m|h)", text)):
        return round(int(found[1]) * SECONDS[found[2]] * 1000)
    if found := re.fullmatch(r"(\d+)([kmg])", text):
        return int(found[1]) * SIZES[found[2]]
    return text


def parameters(options, known):
    """{parameter: value} of a command line's options; known: the module's parameters."""
    found, words = {}, [str(word) for word in options]
    while words:
        key, given, value = words.pop(0).lstrip("-").partition("=")
        key = key.replace("-", "_")
        if key not in known and key not in IGNORED:
            pytest.skip(f"the module has no --{key.replace('_', '-')}: {PROCESS_ONLY.get(key, 'only a process has it')}")
        value = value if given else "on" if key in FLAGS else words.pop(0)
        if value.startswith("unix:"):
            pytest.skip("the module has no Unix sockets")
        if key in IGNORED:
            continue
        found[key] = f"{found[key]},{value_of(key, value)}" if key in found else value_of(key, value)
    return found


def sockets(port):
    """(local address, state) of this port's sockets in the kernel's tables, if they have an owner.  A socket that is
    only finishing its close, or that has not been accepted, is the kernel's own: it has no inode."""
    found = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}", encoding="ascii") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        found += [(line[1], line[3]) for line in rows
                  if int(line[1].rpartition(":")[2], 16) == port and line[9] != "0"]
    return found


def parameter(name, key):
    """The value of a module's parameter, as any user can read it."""
    with open(f"/sys/module/{name}/parameters/{key}", encoding="ascii") as file:
        return file.read().strip()


class Module(Served):
    """what: rung_http or rung_echo; it listens when the constructor returns."""

    def __init__(self, root, *options, what="rung_http", **only):
        for key in only:
            pytest.skip(f"the module has no {NOT_HERE.get(key, key)}")
        self.root = os.fspath(root) if root else None
        given = {**({"root": self.root} if root else {}), **ARGS, **parameters(options, taken(what))}
        self.name = load(what, {"port": 0, **given})
        self.ended = False
        self.port = self.stats()["port"]
        self.addresses = [(host, self.port) for host in parameter(self.name, "bind").split(",")]
        self.listeners = len(sockets(self.port))

    # --- looking at it from outside
    # --------------------------------------------------------------------

    def stats(self):
        return {"lost": 0, **stats_of(self.name)}

    def files(self):
        """Number of sockets that the module holds; tests/kernel counts files, where no other program opens any."""
        return len(sockets(self.port))

    def leaks(self):
        """Sockets beyond the listeners.  A client's own end has another port."""
        return sockets(self.port)[self.listeners:]

    def memory(self):
        """The whole kernel's memory: crowd.sanitized() says that it is not rung's alone."""
        with open("/proc/meminfo", encoding="ascii") as file:
            return int(re.search(r"^SUnreclaim:\s+(\d+) kB", file.read(), re.M)[1]) * 1024

    def rest(self):
        """Nothing to wait for: a module has made all it needs when it is loaded."""

    def pids(self):
        return []

    def cpu_seconds(self):
        pytest.skip("a module's time is the kernel's: tests/kernel looks at it where nobody else works")

    wake_ups = cpu_seconds

    def open_paths(self, prefix):
        pytest.skip(f"a module has no descriptors: {prefix}")

    # --- ending it
    # -----------------------------------------------------------------------------------

    def stop(self):
        if self.ended:
            return
        try:
            self.check_counts()
            wait_for(lambda: not self.leaks(), "every socket closed")
        finally:
            self.kill()

    def kill(self):
        """Unload it, whatever it does."""
        if not self.ended:
            self.ended = True
            unload(self.name)
            assert not sockets(self.port), "sockets are left"
