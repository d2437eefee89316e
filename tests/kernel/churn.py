#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""churn.py - clients that do everything, at once, while modules are loaded and unloaded: run in a kernel that finds faults.

A kernel that finds faults is slow: pytest takes ten minutes to start there.  This has few imports, is run by tests/kernel/inside.py,
and does three things with one model (RUNG_ARGS): each kind of request, in any order, from one more process than there are
processors, with other parameters each time, then unloads the module beneath them; the same with rung_echo; loading, one visit
and unloading, RUNG_CYCLES times.  Bodies are compared to the byte, connections are counted to the last one, and
the kernel must not complain.  The findings are in /share/found.json: [[what, fault or "", figures, numbers]].
"""
import collections
import gzip
import json
import mmap
import os
import random
import struct
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "wire")]
import left  # noqa: E402 - found by the line above
import moves  # noqa: E402
from lib import insmod, klog  # noqa: E402
from lib.client import Sloppy, Wire, request, require  # noqa: E402

ADDRESS = ("127.0.0.1", 8000)  # below the ports that clients get: a client without a server might connect to itself
GIVEN = dict(word.partition("=")[::2] for word in (os.environ.get("RUNG_ARGS") or "model=event").split())
SILENT = (63, 64, 65, 128)  # clients: one turn of a context pumps 64 connections (TURN_MAX in kernel/kserve.c)
TURNS = 5  # times for each count: whether a turn is full depends on when its processor begins it
CYCLES = int(os.environ.get("RUNG_CYCLES") or 50)
CLIENTS = (os.cpu_count() or 1) + 1
ROUND_S, BENEATH_S = 12, 3
PATIENCE_S = 120
FAULT, KMEMLEAK = "/run/t/fault", "/sys/kernel/debug/kmemleak"
TIMES = ("head_timeout", "idle_timeout", "send_timeout")
# Each round has something that the next has not: no cache, a small one, one whose entries soon expire; compressed
# bodies; no free seat, so silent clients are evicted; answers in many pieces; silent clients that expire; other queues.
ROUNDS = [{}, {"compress": "on"}, {"cache": 0}, {"cache": 60000, "compress": "on"}, {"cache_time": 10}, {"max_connections": 24},
          {"send_bytes": 100}, {**dict.fromkeys(TIMES, 3000), "compress": "on"},
          {"wq": "unbound", "highpri": 1, "cpu_intensive": 1}]


# --- Shared state ----------------------------------------------------------------------------------------------

REST, ASK, LEAVE, END = range(4)  # all hang up; all ask; the module is unloaded beneath them; all end
PHASE, WAY, SERIAL, EXCUSED, ROWS = range(5)  # words of the board; then each client's: the last rest, answers, connections


class Board:
    """Memory shared by all processes: the phase, and the progress of each client."""

    def __init__(self):
        self.memory = mmap.mmap(-1, 4096)

    def put(self, at, *words):
        struct.pack_into(f"<{len(words)}Q", self.memory, 8 * at, *words)

    def get(self, at):
        return struct.unpack_from("<Q", self.memory, 8 * at)[0]

    def rows(self):
        return [[self.get(ROWS + 3 * number + at) for at in range(3)] for number in range(CLIENTS)]

    def count(self):
        """Answers or messages, and connections, of all clients."""
        return [sum(column) for column in list(zip(*self.rows()))[1:]]

    def turn(self, phase, excused=False):
        """Announces the phase.  For REST, returns when all clients have hung up.  excused: a client may be cut off
        in the middle."""
        if phase != REST:
            self.put(EXCUSED, excused)
        serial = self.get(SERIAL) + 1
        self.put(SERIAL, serial)
        self.put(PHASE, phase)
        end = time.monotonic() + PATIENCE_S
        while phase == REST and any(row[0] != serial for row in self.rows()):
            look_after()
            require(time.monotonic() < end, "a client neither ends nor fails: it waits for an answer")
            time.sleep(0.01)


def look_after():
    """Raises if a client has ended, because a client that has found a fault ends."""
    pid, status = os.waitpid(-1, os.WNOHANG)
    if pid:
        with open(FAULT, encoding="utf-8") as file:
            raise Sloppy(f"a client has ended ({status}): {file.read()}")


# --- A client --------------------------------------------------------------------------------------------------

class Client:
    def __init__(self, board, number):
        self.board, self.number, self.chance = board, number, random.Random(f"client {number}")
        self.answers = self.wires = 0
        self.own = f"own{number}"

    def wire(self, **more):
        self.wires += 1
        return Wire(ADDRESS, timeout=PATIENCE_S, **more)

    def ask(self, wire, target, *args, status=200, truth=None, **more):
        """Asks, and requires the answer to be as expected; its body is unpacked."""
        reply = wire.ask(target, *args, **more)
        self.answers += 1
        require(reply.status == status, target, args, more, reply)
        if reply.body and reply.get("content-encoding") == "gzip":
            reply.body = gzip.decompress(reply.body)
        require(truth in (None, reply.body), target, "has another body:", reply, reply.body[:60], (truth or b"")[:60])
        return reply

    def run(self, ways):
        while (phase := self.board.get(PHASE)) != END:
            if phase == REST:
                self.board.put(ROWS + 3 * self.number, self.board.get(SERIAL), self.answers, self.wires)
                time.sleep(0.005)
                continue
            move = self.chance.choice(ways[self.board.get(WAY)])
            try:
                move(self)
            except (OSError, Sloppy) as error:  # a wrong answer is a fault at any time
                if not self.board.get(EXCUSED) or isinstance(error, Sloppy) and "stream ended" not in str(error):
                    raise Sloppy(f"{move.__name__}: {type(error).__name__}: {error}") from error
                time.sleep(0.01)


def forked(job):
    """Runs the job in a process of its own, which reports the fault that it found when it ends."""
    pid = os.fork()
    if pid:
        return
    try:
        job()
        os._exit(0)
    except BaseException:  # pylint: disable=broad-except
        with open(FAULT, "w", encoding="utf-8") as file:
            traceback.print_exc(file=file)
        os._exit(1)


# --- The modules -----------------------------------------------------------------------------------------------

LOADED = collections.Counter()  # how often each module was loaded


def load(what, more):
    """more: parameters; None: a module that takes none."""
    given = {"port": ADDRESS[1], **GIVEN, **dict.fromkeys(TIMES, 1000 * PATIENCE_S)}
    given |= {"root": moves.SITE} if what == "rung_http" else {}
    insmod.load_file(f"{insmod.FOLDER}/{what}.ko", {} if more is None else given | more)
    LOADED[what] += 1


def crowd():
    """Clients that are silent or stop in the middle of a request: they expire, or their seats are needed."""
    wires = [Wire(ADDRESS, timeout=PATIENCE_S) for _ in range(30)]
    for wire in wires[::2]:
        wire.send(request("/hello.txt")[:20])
    return wires


# shows E13
def conserved(what):
    """With all clients gone, nothing is open and nothing is unaccounted for.  Returns the counters."""
    end = time.monotonic() + PATIENCE_S
    while (stats := insmod.stats_of(what))["open"] or stats["accepted"] != stats["closed"]:
        require(time.monotonic() < end, "connections are left open:", stats)
        time.sleep(0.05)
    require(stats["answers"] == stats["complete"] + stats["broken"], "answers are lost:", stats)
    return stats


def busy(board, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        look_after()
        time.sleep(0.1)


def around(board, what, more):
    """One round: all ask, all hang up, everything is counted; then all ask again, and the module is unloaded beneath them."""
    load(what, more)
    board.put(WAY, what == "rung_echo")
    wires = crowd()
    board.turn(ASK, TIMES[0] in more)
    busy(board, ROUND_S)
    board.turn(REST)
    for wire in wires:
        wire.close()
    stats = conserved(what)
    wires = crowd()
    board.turn(ASK, TIMES[0] in more)
    busy(board, BENEATH_S)
    board.turn(LEAVE, True)
    began = time.monotonic()
    insmod.unload(what)
    took = time.monotonic() - began
    board.turn(REST)
    for wire in wires:
        wire.close()
    print(f"{what} {more}: unloaded in {took:.1f} s; {stats}", flush=True)


def settled(before):
    """Waits until no more objects are alive than before, and returns what was left last; complains if that never happens.
    KASAN keeps freed files for a while; kmemleak is more reliable there."""
    began, last = time.monotonic(), {}
    end = began + 15 * float(os.environ.get("RUNG_SLOW") or 1)
    while found := {what: n for what, n in left.more(before, 0).items() if what != "filp" or not os.path.exists(KMEMLEAK)}:
        require(time.monotonic() < end, "left behind:", found)
        last = found
        time.sleep(0.2)
    return f"settled after {time.monotonic() - began:.1f} s, last " + (" ".join(sorted(last)) or "nothing")


# shows K01
def again_and_again():
    """Loads, visits and unloads; every tenth time the core too, every fifth time with an incomplete request."""
    for number in range(CYCLES + 3):
        insmod.core()
        load("rung_http", {})
        with Wire(ADDRESS, timeout=PATIENCE_S) as wire, Wire(ADDRESS, timeout=PATIENCE_S) as other:
            require(wire.ask("/hello.txt").body == moves.FILES["hello.txt"], "another body")
            other.send(request("/hello.txt") if number % 5 else request("/hello.txt")[:9])
            insmod.unload("rung_http")
        if number % 10 == 0:
            insmod.unload("rung_core")
        if number == 2:  # the kernel's own pools and caches are filled
            before, began = left.at_rest(), time.monotonic()
    took = time.monotonic() - began
    return f"{CYCLES} times, {took / CYCLES:.2f} s each, {settled(before)}"


# shows D16, D31, E04
def beneath_silent():
    """Unloads beneath silent clients, in numbers for which the context's work queues itself again when no client is left."""
    for what in ("rung_http", "rung_echo"):
        for count in SILENT * TURNS:
            load(what, {})
            wires = [Wire(ADDRESS, timeout=PATIENCE_S) for _ in range(count)]
            end = time.monotonic() + PATIENCE_S
            while insmod.stats_of(what)["open"] < count:
                require(time.monotonic() < end, "not all are accepted:", insmod.stats_of(what))
                time.sleep(0.01)
            insmod.unload(what)
            for wire in wires:
                wire.close()
    return f"{TURNS} times each {' '.join(map(str, SILENT))} clients"


# shows D19, K08, K36
def rounds(board, what, variants):
    for more in variants:
        around(board, what, more)
    return f"{len(variants)} rounds"


def told(what, job, expected, count):
    """Runs a chapter; returns what it was, what was wrong, and how much was done, in words and in numbers.  A complaint
    of the kernel during the chapter is a fault, too."""
    log, began, before, loaded = klog.Log(), time.monotonic(), count(), LOADED.total()
    try:
        figures, fault = job(), ""
    except (OSError, Sloppy):
        figures, fault = "", traceback.format_exc()
    fault = "\n".join([*([fault] if fault else []), *log.complaints(expected)])
    answers, wires = (now - then for now, then in zip(count(), before))
    figures += f", {answers} answers on {wires} connections" if answers else ""
    numbers = {"cycles": LOADED.total() - loaded, "answers": answers, "connections": wires,
               "seconds": round(time.monotonic() - began)}
    figures += f", {numbers['seconds']} s"
    print(f"{what}: {fault or 'well'}: {figures}", flush=True)
    return what, fault, figures, numbers


def tell(chapters, expected=None, count=lambda: (0, 0)):
    """Runs the chapters up to the first fault, because the kernel's state is unknown afterwards.  Returns the exit status."""
    found = []
    for what, job in chapters:
        found.append(told(what, job, expected, count))
        if found[-1][1]:
            break
    with open("/share/found.json", "w", encoding="utf-8") as file:
        json.dump(found, file)
    return int(any(one[1] for one in found))


def main():
    moves.furnish(CLIENTS)
    insmod.core()
    board = Board()
    for number in range(CLIENTS):
        forked(lambda: Client(board, number).run((moves.HTTP, moves.ECHO)))
    status = tell([("rung_http, everything at once", lambda: rounds(board, "rung_http", ROUNDS)),
                   ("rung_echo, everything at once", lambda: rounds(board, "rung_echo", ROUNDS[-1:])),
                   ("unloaded beneath silent clients", beneath_silent),
                   ("loaded and unloaded", again_and_again)], None, board.count)
    board.turn(END)
    return status


if __name__ == "__main__":
    sys.exit(main())
