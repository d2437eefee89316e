#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""doors.py - what clients see of a server that stops, and of one that is full.

stop: the server is stopped while it sends a slow answer and eight clients send requests without a pause.  Requests without an
answer are counted: `reset`, or `closed` without a byte, for clients that keep their connection and for clients that
open one for each request.  `free` is how long the port stayed taken, `new` the longest time that a new client was
kept waiting before it was refused, and `whole` whether the slow answer arrived whole.

full: how long ten new clients wait for their answer while others hold connections: 600 silent clients and 100 seats,
9,000 silent clients, 1,000 that send a byte of a head now and then, 1,000 that read slowly.
"""
import argparse
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time

import scratch
from peers import Peer
from rig import Broken, Server

BIG = 8 << 20
HELLO = b"Hello, world\n"
KINDS = ("reset", "closed")
FRESH, FRESH_PATIENCE_S = 10, 30
DRIP_S = 0.5
OTHERS = ("nginx-tuned", "lighttpd")
STOPS = {"nginx-tuned": signal.SIGQUIT, "lighttpd": signal.SIGINT}
ASK = b"GET /%s HTTP/1.1\r\nHost: x\r\n%s\r\n"


def connected(port, rcvbuf=0, timeout=10):
    sock = socket.socket()
    sock.settimeout(timeout)
    if rcvbuf:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
    sock.connect(("127.0.0.1", port))
    return sock


def answer(sock):
    """The bytes of one answer with a length; b"": the server closed before it sent any."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            return data
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < length and (more := sock.recv(65536)):
        body += more
    return head + b"\r\n\r\n" + body


# --- Stopping

class Load:
    """Clients that send requests without a pause until they are refused."""

    def __init__(self, port, kept=4, single=4):
        self.port, self.over = port, False
        self.lost = dict.fromkeys([f"{kind} {how}" for kind in KINDS for how in ("kept", "single")], 0)
        self.answers = self.slowest = 0
        self.threads = [threading.Thread(target=self.run, args=(how,), daemon=True)
                        for how in ["kept"] * kept + ["single"] * single]
        for thread in self.threads:
            thread.start()

    def run(self, how):
        sock = None
        fields = b"" if how == "kept" else b"Connection: close\r\n"
        while not self.over:
            begin = time.monotonic()
            try:
                sock = sock or connected(self.port)
            except OSError:
                self.slowest = max(self.slowest, time.monotonic() - begin)
                return
            try:
                sock.sendall(ASK % (b"hello.txt", fields))
                data = answer(sock)
                if data.endswith(HELLO):
                    self.answers += 1
                else:
                    self.lost[f"closed {how}"] += 1
            except TimeoutError:
                self.lost[f"closed {how}"] += 1
            except OSError:
                data = b""
                self.lost[f"reset {how}"] += 1
            if how == "single" or b"close" in data.lower() or not data:
                sock.close()
                sock = None

    def end(self):
        self.over = True
        for thread in self.threads:
            thread.join(15)


def port_free(port, begin, limit=20):
    """Seconds from `begin` until another server could bind and listen on the port."""
    while time.monotonic() - begin < limit:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(("127.0.0.1", port))
                sock.listen(1)
                return time.monotonic() - begin
            except OSError:
                time.sleep(0.002)
    return limit


def newcomer(port):
    """Seconds that a new client waits until it is refused or answered."""
    begin = time.monotonic()
    try:
        with connected(port) as sock:
            sock.sendall(ASK % (b"hello.txt", b""))
            answer(sock)
    except OSError:
        pass
    return time.monotonic() - begin


def stopped(server, how, loaded):
    """One stop: what was lost, and the three times."""
    slow = connected(server.port, 65536)
    slow.sendall(ASK % (b"big.bin", b"Connection: close\r\n"))
    got = len(slow.recv(1000))
    load = Load(server.port) if loaded else None
    time.sleep(0.5)
    begin = time.monotonic()
    os.kill(server.process.pid, how)
    time.sleep(0.05)
    new = newcomer(server.port)
    free = port_free(server.port, begin)
    if load:
        load.end()
    while data := slow.recv(1 << 20):
        got += len(data)
    slow.close()
    return load, new, free, got >= BIG


def target(options, name, folder, extra=()):
    if name in OTHERS:
        return Peer(name, folder)
    engine, *rest = name.split(" ")
    return Server(options.rung, engine, folder, options=("--drain-timeout", "20s", *rest, *extra))


def stop(options, folder):
    print(f"{'':42} answers  reset      closed     new s   free s  whole")
    print(f"{'':42}          kept one   kept one")
    for name in options.targets:
        sums, answers, new, free, whole = {}, 0, 0, 0, True
        for _ in range(options.rounds):
            with target(options, name, folder) as server:
                load, waited, taken, complete = stopped(server, STOPS.get(name, signal.SIGTERM), name != "naive")
                for key, count in (load.lost if load else {}).items():
                    sums[key] = sums.get(key, 0) + count
                answers += load.answers if load else 0
                new, free, whole = max(new, waited), max(free, taken), whole and complete
        counts = [sums.get(f"{kind} {how}", 0) for kind in KINDS for how in ("kept", "single")]
        print(f"{name:42} {answers:7}  {counts[0]:4} {counts[1]:3}   {counts[2]:4} {counts[3]:3}   {new:6.2f}  {free:6.2f}"
              f"  {'yes' if whole else 'NO'}", flush=True)


# --- Full

class Crowd:
    """Clients that hold their connections; a thread does the dripping and reading."""

    def __init__(self, port, count, what):
        self.port, self.what, self.over, self.socks, self.waiting = port, what, False, [], set()
        for n in range(count):
            self.open(n)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def open(self, _):
        sock = socket.socket()
        sock.setblocking(False)
        if self.what == "readers":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect_ex(("127.0.0.1", self.port))
        self.socks.append(sock)
        if self.what != "silent":
            self.waiting.add(sock)
            self.say()

    def say(self):
        """Send the first bytes of clients whose connection is now made."""
        for sock in select.select([], list(self.waiting)[-500:], [], 0)[1] if self.waiting else []:
            self.waiting.discard(sock)
            try:
                sock.send(ASK[:20] if self.what == "drips" else ASK % (b"big.bin", b""))
            except OSError:
                pass

    def run(self):
        while not self.over:
            self.say()
            for sock in self.socks if self.what != "silent" else ():
                try:
                    if self.what == "drips":
                        sock.send(b"a")
                    else:
                        sock.recv(512)
                except OSError:
                    pass
            time.sleep(DRIP_S)

    def close(self):
        self.over = True
        self.thread.join()
        for sock in self.socks:
            sock.close()


def fresh(port):
    """The waiting times of ten clients that come together; None: not served."""
    times = [None] * FRESH

    def one(n):
        begin = time.monotonic()
        try:
            with connected(port, timeout=FRESH_PATIENCE_S) as sock:
                sock.sendall(ASK % (b"hello.txt", b"Connection: close\r\n"))
                if answer(sock).endswith(HELLO):
                    times[n] = time.monotonic() - begin
        except OSError:
            pass
    threads = [threading.Thread(target=one, args=(n,)) for n in range(FRESH)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


CROWDS = {"600 silent": (600, "silent", ("--max-connections", "100")), "9000 silent": (9000, "silent", ()),
          "500 readers": (500, "readers", ()), "1000 drips": (1000, "drips", ()), "1000 readers": (1000, "readers", ()),
          "100: 1000 drips": (1000, "drips", ("--max-connections", "100")),
          "100: 1000 readers": (1000, "readers", ("--max-connections", "100"))}


def full(options, folder):
    print(f"{'':24}" + "".join(f"{crowd:>20}" for crowd in options.crowds) + "   (served, longest s)")
    for name in options.targets:
        cells = []
        for label in options.crowds:
            count, what, extra = CROWDS[label]
            with target(options, name, folder, extra) as server:
                crowd = Crowd(server.port, count, what)
                time.sleep(1)
                times = fresh(server.port)
                crowd.close()
                served = [one for one in times if one is not None]
                cells.append(f"{len(served):2}/{FRESH} {max(served, default=0):6.2f}")
        print(f"{name:24}" + "".join(f"{cell:>20}" for cell in cells), flush=True)


def engines(rung):
    """The engines with sockets that this machine can run."""
    out = subprocess.run([rung, "engines", "--json"], stdout=subprocess.PIPE, check=True).stdout
    return [row["name"] for row in json.loads(out) if row["model"] != "none" and row["available"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=("stop", "full"))
    parser.add_argument("--rung", default="build/release/rung")
    parser.add_argument("--targets", type=lambda text: text.split(","),
                        help="engines, with options behind spaces, or nginx-tuned, lighttpd; separated by commas")
    parser.add_argument("--rounds", type=int, default=5, help="times that each is stopped")
    parser.add_argument("--crowds", type=lambda text: text.split(","), default=list(CROWDS)[:4])
    options = parser.parse_args()
    options.targets = options.targets or [*engines(options.rung), *OTHERS]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with scratch.Folder("doors") as folder:
        os.chmod(folder, 0o755)
        with open(f"{folder}/hello.txt", "wb") as file:
            file.write(HELLO)
        with open(f"{folder}/big.bin", "wb") as file:
            file.write(os.urandom(BIG))
        try:
            {"stop": stop, "full": full}[options.what](options, folder)
        except Broken as error:
            sys.exit(f"doors: {error}")


if __name__ == "__main__":
    main()
