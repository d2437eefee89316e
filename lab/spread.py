#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""spread.py - how evenly connections are spread over the workers, and how many wake-ups each costs.

Workers are processes, so that each can be observed from outside: its sockets in /proc/PID/fd, and how often it went to
sleep (voluntary_ctxt_switches), which is how often it was woken.  CONNECTIONS come in two ways: one after
the other, when every worker sleeps; and all at once, before any worker has run.  The client moves to the next processor
from one connection to the next.  A connection has to wake one worker once; further wake-ups are for nothing.
"""
import datetime
import os
import re
import signal
import socket
import time

import command
import scratch
from machine import commit, describe
from rig import PATIENCE_S, Broken, Server, children, make_folder, text_of

CONNECTIONS, WORKERS = 200, 4
HELD_BEFORE = 5  # rounds of looking before a worker counts as asleep
SHARINGS = ("shared", "reuseport", "steered")
ENGINES = ("select", "poll", "epoll", "coro")


def sockets(pid):
    """How many sockets a process has open."""
    count = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            count += os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:")
        except OSError:
            pass
    return count


def slept(pids):
    """How often these processes went to sleep, and whether all of them sleep now."""
    texts = [text_of(f"/proc/{pid}/status") for pid in pids]
    count = sum(int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", text, re.M)[1]) for text in texts)
    return count, all(re.search(r"^State:\s*S", text, re.M) for text in texts)


def rest(pids):
    """Wait until all these processes sleep; how often they have gone to sleep so far."""
    last, steady, end = None, 0, time.monotonic() + PATIENCE_S
    while steady < HELD_BEFORE:
        now = slept(pids)
        steady = steady + 1 if now[1] and now == last else 0
        last = now
        if time.monotonic() > end:
            raise Broken("the workers do not come to rest")
    return last[0]


def connect(port, count, processors, pids):
    """Make `count` connections; with pids, each when all of those processes sleep."""
    found = []
    for n in range(count):
        os.sched_setaffinity(0, {processors[n % len(processors)]})
        if pids:
            rest(pids)
        found.append(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
    os.sched_setaffinity(0, processors)
    return found


def trial(rung, folder, engine, accept, workers, one_by_one):
    """Connections of each worker, and wake-ups for each connection."""
    processors = sorted(os.sched_getaffinity(0))
    options = ("--workers", str(workers), "--workers-as", "process", "--accept", accept, "--head-timeout", "600s")
    with Server(rung, engine, folder, options=options) as server:
        end = time.monotonic() + PATIENCE_S
        while len(pids := sorted(children(server.pid))) < workers and time.monotonic() < end:
            time.sleep(0.01)
        before, had = rest(pids), [sockets(pid) for pid in pids]
        if not one_by_one:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
        clients = connect(server.port, CONNECTIONS, processors, pids if one_by_one else None)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        while sum(counts := [sockets(pid) - had[i] for i, pid in enumerate(pids)]) < CONNECTIONS:
            if time.monotonic() > end + PATIENCE_S:
                raise Broken(f"{sum(counts)} of {CONNECTIONS} were accepted")
            time.sleep(0.01)
        woken = (rest(pids) - before) / CONNECTIONS
        for client in clients:
            client.close()
        rest(pids)
        server.stop()
    return counts, woken


def measured(rung, engines):
    """A row for each engine and kind of sharing, and sentences about failures."""
    rows, errors = [], []
    with scratch.Folder("spread") as folder:
        make_folder(folder)
        for engine, accept in ((engine, accept) for engine in engines for accept in SHARINGS):
            workers = min(WORKERS, os.sysconf("SC_NPROCESSORS_CONF")) if accept == "steered" else WORKERS
            if workers < 2:
                continue
            command.tell(f"{engine}, {accept}")
            cells = []
            try:
                for one_by_one in (True, False):
                    counts, woken = trial(rung, folder, engine, accept, workers, one_by_one)
                    cells += [" ".join(map(str, sorted(counts, reverse=True))), f"{woken:.2f}"]
                rows.append([engine, accept, str(workers), *cells])
            except (Broken, OSError) as error:
                errors.append(f"{engine}, {accept}: {error}")
    command.tell("")
    return rows, errors


def main():
    parser = command.parser_of("spread", __doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--engines", help="these only, separated by commas", default=",".join(ENGINES))
    options = parser.parse_args()
    began, load = time.time(), os.getloadavg()
    if options.source:
        data = command.raw("spread", options.source, "rows")
    else:
        rows, errors = measured(options.rung, options.engines.split(","))
        data = {"about": "rung: distribution of connections", "rows": rows, "machine": describe(options.rung), "commit": commit(),
                "command": "lab/spread.py",
                "when": datetime.datetime.fromtimestamp(began, datetime.timezone.utc).isoformat(timespec="seconds"),
                "seconds": round(time.time() - began, 1), "load_before": load, "load_after": os.getloadavg(),
                "cannot_run": {}, "errors": errors}
    found = [(f"{CONNECTIONS} connections: how many each worker got, and wake-ups for each connection",
              ["engine", "--accept", "workers", "one by one", "wake-ups", "all at once", "wake-ups"], data["rows"])]
    return command.shown("spread", options, data, found, "spread")


if __name__ == "__main__":
    command.run("spread", main)
