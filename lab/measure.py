# SPDX-License-Identifier: MIT
"""measure.py - one measurement each: a function that starts a server, uses it, and returns what that cost.

Every one starts a server of its own, so that nothing an earlier one left behind is counted.
"""
import os
import re
import signal
import subprocess
import tempfile
import time

from rig import (PATIENCE_S, Broken, Client, Crowd, Server, cpu_ns, end_with_us, memory_bytes,
                 socket_memory_bytes, text_of)

BATCH = 250          # connections opened together
HOLD_PATIENCE_S = 3  # for a batch; a server that is full keeps us waiting for ever
SETTLE_S = 0.1
UNITS = {"us": 1, "ms": 1e3, "s": 1e6}


# --- What the tools tell -----------------------------------------------------------------------------------

def strace_told(text):
    """System calls by name, of strace -c -U calls,name."""
    counts = {name: int(count) for count, name in re.findall(r"^ *(\d+) (\w+)$", text, re.MULTILINE) if name != "total"}
    if not counts:
        raise Broken("strace counted nothing")
    return counts


def wrk_told(out, closing=False):
    """Requests that were answered, the seconds that took, and the 50th and 99th percentile of the latency in
    microseconds.  closing: every answer ends its connection, and wrk counts the last ones as read errors."""
    found = re.search(r"(\d+) requests in ([\d.]+)(us|ms|s)", out)
    percentiles = {name: float(value) * UNITS[unit] for name, value, unit
                   in re.findall(r"^ +(50|99)% +([\d.]+)(us|ms|s) *$", out, re.MULTILINE)}
    if not found or int(found[1]) == 0 or len(percentiles) != 2 or "Non-2xx" in out or \
            ("Socket errors" in out and not closing):
        raise Broken("wrk: " + " ".join(out.split())[-200:])
    return int(found[1]), float(found[2]) * UNITS[found[3]] / 1e6, percentiles


def null_told(out):
    """Nanoseconds by part, of the first script that engine null replays."""
    scripts = re.split(r"^\S.*ns per request$", out, flags=re.MULTILINE)
    parts = dict(re.findall(r"^  (\w+) +(\d+)  ", scripts[1], re.MULTILINE)) if len(scripts) > 1 else {}
    if not parts:
        raise Broken(f"engine null says nothing: {out!r}")
    return {name: float(ns) for name, ns in parts.items()}


def wrk(place, connections, seconds, closing=False, processors=None):
    """Keep so many connections busy; what wrk_told() returns.  place: PORT/PATH."""
    def prepare():
        end_with_us()
        if processors:
            os.sched_setaffinity(0, processors)
    end = ["-H", "Connection: close"] if closing else []
    process = subprocess.Popen(["wrk", "-t1", f"-c{connections}", "-d60s", "--timeout", "10s", "--latency", *end,
                                f"http://127.0.0.1:{place}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, preexec_fn=prepare)
    try:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)  # wrk reckons with the time it had; -d knows whole seconds only
        out = process.communicate(timeout=PATIENCE_S)[0]
    finally:
        process.kill()
        process.wait()
    return wrk_told(out, closing)


# --- Measurements ------------------------------------------------------------------------------------------

class Measure:
    """What all have in common: the binary, the folder, how thorough to be."""

    def __init__(self, rung, folder, plan):
        self.rung, self.folder, self.plan = rung, folder, plan

    def serve(self, engine, wrap=()):
        return Server(self.rung, engine, self.folder, wrap)

    # --- System calls

    def calls_of_run(self, engine, requests):
        """System calls by name of a server's whole life, in which one connection asks so often."""
        with tempfile.NamedTemporaryFile() as out:
            wrap = ("strace", "-f", "-c", "-U", "calls,name", "-o", out.name)
            with self.serve(engine, wrap) as server:
                client = Client(server.port)
                for _ in range(requests):
                    client.ask()
                client.close()
                server.stop()
            return strace_told(text_of(out.name))

    def calls(self, engine):
        """System calls per request by name: a long run less a short one, so that starting and stopping cancel."""
        short, more = self.plan["calls_short"], self.plan["calls_more"]
        less, full = self.calls_of_run(engine, short), self.calls_of_run(engine, short + more)
        each = {name: (full.get(name, 0) - less.get(name, 0)) / more for name in {*less, *full}}
        return {"by_name": {name: each[name] for name in sorted(each) if abs(each[name]) >= 0.02},
                "total": sum(each.values())}

    # --- Processor time

    def cpu(self, engine, connections):
        """User and system time per request while wrk keeps so many connections busy.

        The total is exact to the microsecond: what the kernel tells about the ended server and its children,
        less what it had used before the first request.  How it divides into user and system is sampled.
        """
        with self.serve(engine) as server:
            before_us = cpu_ns(server.pid) / 1e3
            requests, seconds, _ = wrk(f"{server.port}/index.html", connections, self.plan["wrk_s"])
            usage = server.stop()
        user_us, system_us = usage.ru_utime * 1e6, usage.ru_stime * 1e6
        return {"connections": connections, "requests": requests, "requests_per_s": requests / seconds,
                "user_us": user_us / requests, "system_us": system_us / requests,
                "total_us": (user_us + system_us - before_us) / requests}

    def floor(self):
        """What engine null says a request costs without sockets: the file's opening is in it."""
        out = subprocess.run([self.rung, "serve", self.folder, "--engine", "null"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True, timeout=60, check=True).stdout
        parts = null_told(out)
        return {"parts_ns": parts, "total_us": sum(parts.values()) / 1e3}

    # --- Memory

    def idle(self, engine, connections):
        """Bytes for each connection that has been answered and rests: with all of them less with none."""
        with self.serve(engine) as server:
            with Crowd(server.port) as first:  # what the first connection makes is not every connection's
                if not first.grow(1, PATIENCE_S):
                    raise Broken("no answer")
            time.sleep(SETTLE_S)
            before, sockets = memory_bytes(server.pid), socket_memory_bytes()
            with Crowd(server.port) as crowd:
                if not crowd.grow(connections, PATIENCE_S):
                    raise Broken(f"{connections} connections were not all answered")
                time.sleep(SETTLE_S)
                after, sockets_after = memory_bytes(server.pid), socket_memory_bytes()
            server.stop()
        each = {name: (after[name] - before[name]) / connections for name in after}
        if sockets is not None and sockets_after is not None:
            each["sockets_about"] = (sockets_after - sockets) / 2 / connections
        return {"connections": connections, "bytes": each}

    # --- Connections

    def held(self, engine, bound):
        """Connections that are held at once, all answering: as many as it takes, to a bound."""
        began = time.monotonic()
        with self.serve(engine) as server, Crowd(server.port) as crowd:
            while len(crowd.clients) < bound:
                if not crowd.grow(min(BATCH, bound - len(crowd.clients)), HOLD_PATIENCE_S):
                    break
            opened, held = len(crowd.clients), crowd.alive(HOLD_PATIENCE_S)
        return {"bound": bound, "opened": opened, "held": held, "seconds": time.monotonic() - began}
