#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""soak.py - hours of mixed traffic, or seconds of it: what must hold at the end holds after a long time too.

    soak.py [--bin RUNG] [--hours H] [--minutes M] [--seconds S] [--keep] [ENGINE[:WORKERS]...]

Each engine gets its share of the time (default: epoll with two workers 60 s, pool 20 s).  Clients come
and go in waves; each does one thing after another: keeps a connection, makes a new one for each request,
asks for ranges, with conditions, in a pipe, halfway, reads slowly, rests, vanishes with a reset.  Every
byte of every answer is compared.  Every few seconds all clients pause with their connections open, and the
server's counters (SIGUSR1) must agree with that: accepted = open + closed + lost.

The output is a line for each property, `passed: ENGINE: ...` or `failed: ENGINE: ...`, then the sum.
"""
import argparse
import json
import os
import random
import re
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, "wire"), HERE]

import soaked  # noqa: E402
from lib import crowd, server as wire_server, trees  # noqa: E402
from lib.client import PATIENCE, byteranges, request  # noqa: E402
from lib.server import Server, wait_for  # noqa: E402

UNITS = {"hours": 3600, "minutes": 60, "seconds": 1}
DEFAULT = [("epoll", 2, 60), ("pool", 1, 20)]
MOST = 24         # clients at once; fewer where the engine serves fewer
WAVE_S = 6        # from few clients to many and back; a run has at least four of them
SAMPLE_S = 0.25
GROWTH, GROWTH_BYTES = 1.10, 1 << 20  # limit: the last third's median of memory over the first's, and a little more
SAID_MAX = 5      # errors shown
BIG = 8 << 20
HELLO = b"Hello, world\n"
SIZES = trees.SIZES
FILES = {size: trees.content(size, size) for size in [*SIZES, BIG]}


class Client(threading.Thread):
    """One of the clients.  It holds at most one connection while it pauses."""

    def __init__(self, run, number):
        super().__init__(daemon=True)
        self.run_, self.number, self.rng = run, number, random.Random(f"soak {number}")
        self.wire, self.what = None, "nothing yet"

    def run(self):
        run = self.run_
        while run.may_go_on(self):
            act = self.rng.choices(ACTS, WEIGHTS)[0]
            self.what = act.__name__
            try:
                act(self)
            except Exception as error:  # reported to the run, which fails with it
                if closed_between(error):
                    run.add("ended")  # when all seats are taken, an idle connection may be closed: see verdict()
                else:
                    run.wrong(f"client {self.number}, {self.what}: {type(error).__name__}: {error}")
                self.leave()
        self.leave()

    # --- connections

    def connected(self, rcvbuf=None):
        """The client's connection, or a new one."""
        if rcvbuf or not self.wire:
            self.leave()
            self.wire = self.run_.server.wire(rcvbuf=rcvbuf)
            self.run_.add("connections")
        return self.wire

    def leave(self, reset=False):
        if self.wire:
            if reset:
                self.wire.reset()
            else:
                self.wire.close()
        self.wire = None

    def check(self, got, expected):
        self.run_.add("answers")
        if got != expected:
            at = next((i for i, pair in enumerate(zip(got, expected)) if pair[0] != pair[1]), "the end")
            raise AssertionError(f"{len(got)} bytes, not {len(expected)}, different from {at} on")

    def file(self):
        size = self.rng.choice(SIZES)
        return f"/size/{size}.bin", FILES[size]

    # --- what clients do

    def keeps(self):
        for _ in range(self.rng.randint(1, 12)):
            path, data = self.file()
            self.check(self.connected().ask(path).body, data)

    def comes_and_goes(self):
        for _ in range(self.rng.randint(1, 12)):
            self.leave()
            path, data = self.file()
            last = self.rng.random() < 0.5
            self.check(self.connected().ask(path, fields=["Connection: close"] * last).body, data)
            if last:
                self.wire.end()
        self.leave()

    def ranges(self):
        for _ in range(self.rng.randint(1, 6)):
            path, data = self.file()
            if not data:
                continue
            first = self.rng.randrange(len(data))
            last = self.rng.randrange(first, len(data))
            reply = self.connected().ask(path, fields=[f"Range: bytes={first}-{last}"])
            assert reply.status == 206 and reply["content-range"] == f"bytes {first}-{last}/{len(data)}"
            self.check(reply.body, data[first:last + 1])
            if len(data) > 4000:
                reply = self.connected().ask(path, fields=["Range: bytes=0-9,2000-2999,-5"])
                self.check(b"".join(part[4] for part in byteranges(reply)),
                           data[:10] + data[2000:3000] + data[-5:])

    def conditions(self):
        path, data = self.file()
        reply = self.connected().ask(path)
        self.check(reply.body, data)
        for fields, status in ((f"If-None-Match: {reply['etag']}", 304), ('If-None-Match: "x"', 200),
                               (f"If-Modified-Since: {reply['last-modified']}", 304), ('If-Match: "x"', 412)):
            again = self.connected().ask(path, fields=fields)
            assert again.status == status, (fields, again)
            if status != 412:
                self.check(again.body, data if status == 200 else b"")

    def pipes(self):
        files = [self.file() for _ in range(self.rng.randint(2, 8))]
        wire = self.connected()
        wire.send(b"".join(request(path) for path, _ in files))
        for _, data in files:
            self.check(wire.reply().body, data)

    def others(self):
        """Listings, errors, unwanted bodies, heads alone, bytes one by one."""
        wire = self.connected()
        assert wire.ask("/").status == 200 and wire.ask("/missing").status == 404
        path, data = self.file()
        assert wire.ask(path, "HEAD").length == len(data)
        self.check(wire.ask("/hello.txt", body=b"x" * self.rng.randint(1, 9000)).body, HELLO)
        whole = request("/hello.txt")
        wire.send_cut(whole, *sorted(self.rng.sample(range(1, len(whole)), 5)))
        self.check(wire.reply().body, HELLO)

    def reads_slowly(self):
        wire = self.connected(rcvbuf=4096)
        wire.send(request("/big.bin"))
        assert wire.head().length == BIG
        end, got = time.monotonic() + self.rng.uniform(0.3, 2), 0
        while time.monotonic() < end:
            bite = self.rng.randint(1, 4096)
            self.check(wire.take(bite), FILES[BIG][got:got + bite])
            got += bite
            time.sleep(0.01)
        if self.rng.random() < 0.3:
            self.check(wire.take(BIG - got), FILES[BIG][got:])
        self.leave(reset=self.rng.random() < 0.5)  # without reset=True it is a reset too, because much is unread

    def rests(self):
        self.check(self.connected().ask("/hello.txt").body, HELLO)
        end = time.monotonic() + self.rng.uniform(0.05, 1)
        while time.monotonic() < end and not self.run_.pausing:
            time.sleep(0.02)
        self.check(self.connected().ask("/hello.txt").body, HELLO)

    def vanishes(self):
        for _ in range(self.rng.randint(1, 10)):
            self.leave()
            said = self.rng.choice([request("/hello.txt"), request("/big.bin"), request("/") * 20,
                                    request("/hello.txt", "POST", body=bytes(4000))])
            self.connected().send(said[:self.rng.choice([0, 1, len(said) // 2, len(said)])])
            if self.rng.random() < 0.3:
                time.sleep(0.002)
            self.leave(reset=self.rng.random() < 0.7)


ACTS, WEIGHTS = zip((Client.keeps, 6), (Client.comes_and_goes, 6), (Client.ranges, 3), (Client.conditions, 3),
                    (Client.pipes, 3), (Client.others, 2), (Client.reads_slowly, 1), (Client.rests, 2),
                    (Client.vanishes, 3))


class Run:
    """The run of one engine."""

    def __init__(self, name, workers, seconds):
        self.name, self.workers, self.seconds = name, workers, seconds
        self.lock = threading.Condition()  # guards everything below
        self.errors, self.wrongs, self.counts = [], 0, {"answers": 0, "connections": 0, "ended": 0}
        self.allowed = 0     # clients with a lower number are at work, the others pause without a connection
        self.pausing = self.over = False
        self.paused = set()
        self.memory, self.results, self.failed = [], [], []
        self.censuses, self.thirds = 0, (0, 0)

    # --- what the clients call

    def add(self, name):
        with self.lock:
            self.counts[name] += 1

    def wrong(self, text):
        with self.lock:
            self.wrongs += 1
            if len(self.errors) < SAID_MAX:
                self.errors.append(text)

    def may_go_on(self, client):
        """Between two acts: pauses as long as it must.  Returns False when the run is over."""
        with self.lock:
            if client.number >= self.allowed:
                client.leave()
            while not self.over and (self.pausing or client.number >= self.allowed):
                self.paused.add(client.number)
                self.lock.notify_all()
                self.lock.wait(1)
                if client.number >= self.allowed:
                    client.leave()
            self.paused.discard(client.number)
            return not self.over

    # --- what the conductor does

    def judge(self, truth, text):
        self.results.append(truth)
        self.failed += [] if truth else [text]
        print(f"{'passed' if truth else 'failed'}: {self.name}: {text}", flush=True)

    def census(self):
        """All clients pause; the server must have open the connections that they hold, and account for all others."""
        with self.lock:
            self.pausing = True
            end = time.monotonic() + PATIENCE
            while len(self.paused) < len(self.clients) and time.monotonic() < end:
                self.lock.wait(1)
            stuck = [f"{c.number} {c.what}" for c in self.clients if c.number not in self.paused]
        held, stats = self.held(), self.server.stats()
        while not agrees(stats, held) and time.monotonic() < end:
            time.sleep(0.05)
            held, stats = self.held(), self.server.stats()
        with self.lock:
            self.pausing = False
            self.lock.notify_all()
        if stuck:
            self.wrong(f"never done: {', '.join(stuck)}")
        if not agrees(stats, held):
            self.wrong(f"{held} connections are held, the server says {stats}")
        self.censuses += not stuck and agrees(stats, held)

    def held(self):
        """Connections that the pausing clients have, without those that the server has ended."""
        return sum(client.wire is not None and not has_ended(client.wire) for client in self.clients)

    def conduct(self):
        """Waves of clients; samples of memory; a census in the trough of each wave."""
        begin = last_said = time.monotonic()
        wave = min(WAVE_S, self.seconds / 4)
        due = begin + wave
        while (now := time.monotonic()) < begin + self.seconds and self.server.process.poll() is None:
            height = 1 - abs(2 * ((now - begin) / wave % 1) - 1)  # 0 to 1 and back
            with self.lock:
                self.allowed = max(1, round(height * len(self.clients)))
                self.lock.notify_all()
            self.memory.append(self.server.memory())
            if now >= due:
                self.census()
                due = time.monotonic() + wave
            if now - last_said > 60:
                last_said = now
                print(f"{self.name}: {(now - begin) / 60:.0f} min, {self.counts['answers']} answers, "
                      f"{self.wrongs} errors, {self.memory[-1] >> 10} KiB", flush=True)
            time.sleep(SAMPLE_S)

    def warm_up(self):
        """Does one of everything, so that whatever is opened or filled once is there before it is measured."""
        with self.lock:
            self.allowed = len(self.clients)
        for client in self.clients:
            client.start()
        time.sleep(min(5, self.seconds / 8))

    def whole(self, root, most):
        args = ["--workers", self.workers, "--idle-timeout", "120s", "--send-timeout", "30s"]
        try:
            self.server = Server(root, *args, engine=self.name)
        except AssertionError as error:
            self.judge(False, f"it starts: {error}")
            return
        try:
            self.server.ask("/")  # its sets and pipes are open now
            files = crowd.settled(self.server, self.server.files)
            self.clients = [Client(self, number) for number in range(most)]
            self.warm_up()
            self.conduct()
            with self.lock:
                self.over = True
                self.lock.notify_all()
            for client in self.clients:
                client.join(PATIENCE)
            self.verdict(files)
        finally:
            self.server.kill()

    def verdict(self, files):
        told = "; ".join(self.errors)
        self.judge(self.wrongs == 0 and self.counts["answers"] > 100,
                   f"{self.counts['answers']} answers on {self.counts['connections']} connections, "
                   f"{self.wrongs} errors" + (f": {told}" if told else ""))
        ended, evicted = self.counts["ended"], self.server.stats()["evicted"]
        self.judge(ended <= evicted, f"{ended} connections ended where an answer should begin, at most the {evicted} "
                   "that made room")
        third = len(self.memory) // 3
        first, last = (statistics.median(part) for part in (self.memory[:third], self.memory[-third:]))
        self.thirds = round(first / 1024), round(last / 1024)
        self.judge(last <= first * GROWTH + GROWTH_BYTES,
                   f"memory stays: {first / 1024:.0f} KiB in the first third, {last / 1024:.0f} in the last "
                   f"(at most {first * GROWTH / 1024 + GROWTH_BYTES / 1024:.0f})")
        self.judge(self.censuses >= 2, f"accepted = open + closed + lost, asked {self.censuses} times under way")
        self.attempt("nothing open at the end, every connection accounted for", self.server.check_counts)
        self.attempt(f"no more than {files} descriptors at the end, as at the beginning", lambda: wait_for(
            lambda: self.server.files() <= files and not self.server.leaks(), "descriptors given back"))
        self.attempt("it stops when told, and has said nothing alarming", self.server.stop)

    def told(self):
        """The part of the result that is kept: soaked.py."""
        return {"seconds": round(self.seconds), "answers": self.counts["answers"], "connections": self.counts["connections"],
                "wrong": self.wrongs, "first_kib": self.thirds[0], "last_kib": self.thirds[1], "censuses": self.censuses,
                "judged": len(self.results), "failed": self.failed}

    def attempt(self, text, what):
        try:
            what()
            self.judge(True, text)
        except AssertionError as error:
            self.judge(False, f"{text}: {error}")


def closed_between(error):
    """Whether the error says that the connection ended where an answer should begin."""
    return isinstance(error, (ConnectionResetError, BrokenPipeError)) or str(error).endswith("within a line: b''")


def has_ended(wire):
    try:
        return bool(select.select([wire.sock], [], [], 0)[0]) and not wire.sock.recv(1, socket.MSG_PEEK)
    except ConnectionResetError:
        return True


def agrees(stats, held):
    return stats["open"] == held and stats["accepted"] == held + stats["closed"] + stats["lost"]


def asked(words, seconds):
    """(engine, workers, seconds) from the command line."""
    if not words:
        whole = sum(row[2] for row in DEFAULT)
        return [(name, workers, (seconds or whole) * share / whole) for name, workers, share in DEFAULT]
    pairs = [re.fullmatch(r"([a-z]+)(?::(\d+))?", word) for word in words]
    if None in pairs:
        sys.exit("soak.py: engines are named as in: epoll:2 pool")
    return [(pair[1], int(pair[2] or 1), (seconds or 20 * len(pairs)) / len(pairs)) for pair in pairs]


def most_of(name):
    """Clients for that engine: half of its capacity, because a client that has just left may still have its seat."""
    out = subprocess.run([wire_server.BIN, "engines", "--json"], stdout=subprocess.PIPE, timeout=30, check=True)
    rows = {row["name"]: row for row in json.loads(out.stdout)}
    if name not in rows:
        sys.exit(f"soak.py: there is no engine {name}")
    return max(1, min(MOST, (rows[name]["capacity"] or 2 * MOST) // 2))


def tree(root):
    os.makedirs(root + "/size")
    for size, data in FILES.items():
        trees.write(f"{root}/size/{size}.bin" if size != BIG else f"{root}/big.bin", data)
    trees.write(f"{root}/hello.txt", HELLO)


def kept(row):
    if why := soaked.why_not(row):
        print(f"{row['engine']} is not kept: {why}", flush=True)
    else:
        soaked.keep(row)


# shows S10, S31
def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", help="rung (build/release/rung)")
    for unit in UNITS:
        parser.add_argument(f"--{unit}", type=float, default=0, help="in all")
    parser.add_argument("--keep", action="store_true", help="put what was found into lab/results/soak, of runs of an hour or more")
    parser.add_argument("engine", nargs="*", metavar="ENGINE[:WORKERS]")
    opt = parser.parse_args()
    if opt.bin:
        wire_server.BIN = os.path.abspath(opt.bin)
    seconds = sum(getattr(opt, unit) * length for unit, length in UNITS.items())
    for name, _, part in asked(opt.engine, seconds):
        if opt.keep and part < soaked.LEAST_S:
            parser.error(f"{name} gets {part:.0f} s, and a run of less than {soaked.LEAST_S} s is not kept: more time, or fewer engines")
    results, commit = [], soaked.commit()
    with tempfile.TemporaryDirectory(prefix="rung-soak-") as folder:
        os.chmod(folder, 0o755)
        tree(f"{folder}/tree")
        for name, workers, seconds in asked(opt.engine, seconds):
            run = Run(name, workers, seconds)
            run.whole(f"{folder}/tree", most_of(name))
            results += run.results
            if opt.keep:
                kept(soaked.row(name, workers, run.told(), commit))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed", flush=True)
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
