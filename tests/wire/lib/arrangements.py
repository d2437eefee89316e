# SPDX-License-Identifier: MIT
"""Ways to run each engine other than with one worker that sends as it chooses: (engine, name, options).

`make check` runs FILES' core cases once for each row; conftest.py and server.py take the options from RUNG_ARGS.
These cases notice when connections are mixed up: order, cuts, resets, crowds, changes, the end.
"""

import itertools

FILES = ["bodies", "errors", "files", "keepalive", "listing", "many", "pipelining", "resets", "slow", "split", "stale", "stop"]

# One loop per worker.  Whether workers are threads or processes, and how they share listeners, is decided below the loops, so
# every combination runs on one that is told of readiness and on one that is told of completion.  The others have two, in which
# both kinds of workers and of listeners occur.
LOOPS = {"nonblock": "half", "select": "half", "poll": "half", "epoll": "all", "uring": "all"}


# shows N08, N11, S04, S16
def rows():
    for engine, share in LOOPS.items():
        for kind, accept in itertools.product(("thread", "process"), ("shared", "reuseport")):
            if share == "all" or (kind == "thread") == (accept == "shared"):
                yield (engine, f"2 {kind} {accept}", f"--workers 2 --workers-as {kind} --accept {accept}")
    yield ("epoll", "2 process steered", "--workers 2 --workers-as process --accept steered")
    yield ("epoll", "2 thread steered pinned", "--workers 2 --accept steered --pin on")
    yield ("epoll", "edge", "--epoll-trigger edge")
    yield ("epoll", "edge 2 thread", "--epoll-trigger edge --workers 2")
    yield ("epoll", "oneshot", "--epoll-trigger oneshot")
    yield ("naive", "3 process", "--workers 3 --workers-as process")
    yield ("fork", "2 process", "--workers 2 --workers-as process")
    yield ("thread", "2 process", "--workers 2 --workers-as process")
    yield ("pool", "2 process", "--workers 2 --workers-as process")
    yield ("pool", "queue lockfree", "--pool-queue lockfree")
    yield ("pool", "queue lockfree all", "--pool-queue lockfree --pool-drain all --pool-yield on")
    yield ("pool", "queue accept", "--pool-queue accept")
    yield ("pool", "queue mutex short", "--pool-queue mutex --queue-length 1 --pool-drain all")
    yield ("dispatch", "2 process", "--workers 2 --workers-as process")
    yield ("dispatch", "queue lockfree", "--pool-queue lockfree")
    yield ("coro", "2 thread", "--workers 2 --workers-as thread")
    yield ("coro", "2 process reuseport", "--workers 2 --workers-as process --accept reuseport")
    for engine, way in (("epoll", "copy"), ("epoll", "mmap"), ("epoll", "splice"), ("thread", "mmap"), ("pool", "splice")):
        yield (engine, f"send {way}", f"--send {way}")
    yield ("epoll", "apart", "--gather off")
    yield ("fork", "splice apart", "--send splice --gather off")
    for engine in ("naive", "fork", "thread", "pool", "select", "dispatch", "coro", "epoll", "uring"):
        yield (engine, "strict", "--sandbox strict")
    yield ("epoll", "strict 2 process", "--sandbox strict --workers 2 --workers-as process --pin on")
    yield ("coro", "corked", "--tcp-cork on --tcp-nodelay off --gather off")
    yield ("epoll", "tls", "--tls self")  # one that never blocks, and one that does; all were run by hand: docs/tls.md
    yield ("thread", "tls", "--tls self")


ROWS = list(rows())
