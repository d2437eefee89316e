# SPDX-License-Identifier: MIT
"""kind_massif.py - what a server takes from its allocator: the server runs under valgrind while it answers.

A cell is three runs.  Under massif, with the scenario's `long` number of requests: the heap at its peak, and the part of it
that is still held when the clients have gone.  Under memcheck, with `long` and with `short`: allocations for one request,
from the difference, so that starting and ending cancel.  Memory that is not freed at the end, or is read before it is
written, makes the cell invalid.

`load` says what a request is: with "crowd" each is a connection that stays, with "slow" a reader that takes a large file in
small pieces; "listing" requests a folder of many names, and "file" is rung load, with `connections` and `close`.
Stacks are no heap: what threads and coroutines keep there is in docs/cost.md.
"""
import functools
import os
import re
import select
import socket
import subprocess
import time

from measures import generate
from rig import ENGINE, PATIENCE_S, Broken, Crowd, Server, make_folder, text_of

LARGE_BYTES, NAMES = 1 << 20, 2000
SLOW_AT_ONCE, SLOW_BYTES = 8, 16384
SETTLE_S = 0.3
LOAD_PATIENCE_S = 300
ADDRESS = "http://127.0.0.1:{}/{}"


def documents(context):
    folder = os.path.join(context.folder, "massif")
    if not os.path.isdir(folder):
        os.makedirs(os.path.join(folder, "many"))
        make_folder(folder)
        with open(os.path.join(folder, "large.bin"), "wb") as file:
            file.write(os.urandom(LARGE_BYTES))
        for number in range(NAMES):
            with open(os.path.join(folder, "many", f"a name of some length {number}.txt"), "wb"):
                pass
    return folder


# --- Clients ------------------------------------------------------------------------------------------------

def crowd(_context, port, _scenario, requests):
    with Crowd(port) as clients:
        if not clients.grow(requests, LOAD_PATIENCE_S):
            raise Broken(f"{requests} connections were not all answered")


def rung_load(path):
    def ask(context, port, scenario, requests):
        close = ["-k", "off"] if scenario.get("close") else []
        generate(context, ["-n", str(requests), "-c", str(min(requests, scenario.get("connections", 1))), "-t", "1", "-T", "60s",
                           *close, ADDRESS.format(port, path)], LOAD_PATIENCE_S)
    return ask


def slow_reader(port):
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BYTES)
    one.settimeout(PATIENCE_S)
    one.connect(("127.0.0.1", port))
    one.sendall(b"GET /large.bin HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n")
    return one


def slow(_context, port, _scenario, requests):
    """Some slow readers at once, each taking a little in turn: every answer waits for its reader many times."""
    while requests > 0:
        got = {slow_reader(port): 0 for _ in range(min(SLOW_AT_ONCE, requests))}
        requests -= len(got)
        waiting = list(got)
        while waiting:
            for one in select.select(waiting, [], [], PATIENCE_S)[0] or [None]:
                if one is None:
                    raise Broken("a slow reader is not answered")
                data = one.recv(SLOW_BYTES)
                got[one] += len(data)
                if not data:
                    waiting.remove(one)
                    one.close()
        if any(bytes_got < LARGE_BYTES for bytes_got in got.values()):
            raise Broken("a slow reader got less than the file")


LOADS = {"crowd": crowd, "file": rung_load("index.html"), "listing": rung_load("many/"), "slow": slow}


# --- Under valgrind -----------------------------------------------------------------------------------------

@functools.cache
def mounts_of_its_own():
    """A command that gives the server its own mounts, or [].  Any mount that the server sees makes it drop its cache, so that
    it allocates again; mounts by other processes are then invisible.  This needs root.  The root of a chroot is no mount point, so that its
    propagation cannot be changed; there the mounts are invisible unless they are made below a shared one."""
    for prefix in (["unshare", "--mount"], ["unshare", "--mount", "--propagation", "unchanged"]):
        if subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return prefix
    return []


def serve(context, target, folder, *valgrind):
    preload = os.path.join(os.path.dirname(context.rung), "openat2.so")
    if not os.path.exists(preload):
        raise Broken("there is no openat2.so for valgrind: make lab-programs")
    wrap = [*mounts_of_its_own(), "valgrind", "--max-threads=4000", *valgrind, *target.get("wrap", "").split()]
    server = Server(context.rung, target.get("engine", ENGINE), folder, wrap, target.get("options", "").split(), None,
                    {"LD_PRELOAD": preload})
    context.started(target, server.command)
    return server


def heap_told(text):
    """The largest heap of all snapshots in massif's file, which has one even if nothing was ever allocated."""
    found = [int(value) for value in re.findall(r"^mem_heap_B=(\d+)$", text, re.MULTILINE)]
    if not found:
        raise Broken("massif took no snapshot")
    return max(found)


def at_rest(pid, path):
    """The heap when it no longer falls: a thousand threads take a while to end."""
    end, before = time.monotonic() + PATIENCE_S, None
    while True:
        subprocess.run(["vgdb", f"--pid={pid}", "snapshot", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       timeout=PATIENCE_S, check=False)
        held = heap_told(text_of(path))
        if held == before:
            return held
        if time.monotonic() > end:
            raise Broken(f"the heap is not at rest after {PATIENCE_S} s")
        before = held
        time.sleep(SETTLE_S)


def under_massif(context, target, scenario, folder):
    out, rest = os.path.join(context.folder, "massif.out"), os.path.join(context.folder, "massif.rest")
    with serve(context, target, folder, "--quiet", "--tool=massif", "--depth=1", "--peak-inaccuracy=0.1",
               f"--massif-out-file={out}") as server:
        LOADS[scenario["load"]](context, server.port, scenario, scenario["long"])
        held = at_rest(server.pid, rest)
        server.stop()
    return {"bytes_peak": heap_told(text_of(out)), "bytes_end": held}


def memcheck_told(text):
    """Allocations in the whole life of the server; Broken unless it freed everything and had no errors."""
    said = re.sub(r"^==\d+== ?", "", text, flags=re.MULTILINE)
    allocations = re.search(r"total heap usage: ([\d,]+) allocs", said)
    if not allocations or "in use at exit: 0 bytes in 0 blocks" not in said or "ERROR SUMMARY: 0 errors" not in said:
        lines = re.findall(r"^ *(.*(?:in use at exit|lost|ERROR SUMMARY|Invalid|uninitialised).*)$", said, re.MULTILINE)
        raise Broken("memcheck: " + "; ".join(lines or ["it did not come to its end"])[:300])
    return int(allocations[1].replace(",", ""))


def under_memcheck(context, target, scenario, folder, requests):
    log = os.path.join(context.folder, "memcheck.log")
    with serve(context, target, folder, "--leak-check=full", f"--log-file={log}") as server:
        LOADS[scenario["load"]](context, server.port, scenario, requests)
        server.stop()
    return memcheck_told(text_of(log))


def measure(context, target, scenario, _seconds):
    folder = documents(context)
    less = under_memcheck(context, target, scenario, folder, scenario["short"])
    more = under_memcheck(context, target, scenario, folder, scenario["long"])
    each = (more - less) / (scenario["long"] - scenario["short"])
    return {"figures": {**under_massif(context, target, scenario, folder), "allocations": each}, "limiter": None}
