# SPDX-License-Identifier: MIT
"""Ways to run each engine other than with one worker that sends as it chooses: (engine, name, options).

`make check-all` runs FILES' core cases once for each row, `make check` for some (plan.py); conftest.py and server.py take the options from RUNG_ARGS.
These cases notice when connections are mixed up: order, cuts, resets, crowds, changes, the end.
"""

import itertools

import engines

FILES = ["bodies", "errors", "files", "keepalive", "listing", "many", "pipelining", "resets", "slow", "split", "stale", "stop"]

# Whether workers are threads or processes, and how they share listeners, is decided below the loops, so every combination runs
# on one engine for readiness and on one for completion.  Each other loop has two, in which both kinds of workers and of
# listeners occur; an engine that makes its own threads or processes has several workers.
ALL = ("epoll", "uring")


def workers():
    for engine in engines.rows():
        for kind, accept in itertools.product(("thread", "process"), ("shared", "reuseport")):
            if engine.is_loop and (engine.name in ALL or (kind == "thread") == (accept == "shared")):
                yield (engine.name, f"2 {kind} {accept}", f"--workers 2 --workers-as {kind} --accept {accept}")
        if engine.serves and not engine.is_loop:
            count = 3 if engine.capacity == "1" else 2
            yield (engine.name, f"{count} process", f"--workers {count} --workers-as process")


# shows N08, N11, S04, S16
def rows():
    yield from workers()
    yield ("epoll", "2 process steered", "--workers 2 --workers-as process --accept steered")
    yield ("epoll", "2 thread steered pinned", "--workers 2 --accept steered --pin on")
    yield ("epoll", "edge", "--epoll-trigger edge")
    yield ("epoll", "edge 2 thread", "--epoll-trigger edge --workers 2")
    yield ("epoll", "oneshot", "--epoll-trigger oneshot")
    yield ("pool", "queue lockfree", "--pool-queue lockfree")
    yield ("pool", "queue lockfree all", "--pool-queue lockfree --pool-drain all --pool-yield on")
    yield ("pool", "queue accept", "--pool-queue accept")
    yield ("pool", "queue mutex short", "--pool-queue mutex --queue-length 1 --pool-drain all")
    yield ("dispatch", "queue lockfree", "--pool-queue lockfree")
    yield ("dispatch", "queue round-robin", "--pool-queue lockfree --pool-balance round-robin --threads 3 --queue-length 3")
    for engine, way in (("epoll", "copy"), ("epoll", "mmap"), ("epoll", "splice"), ("thread", "mmap"), ("pool", "splice")):
        yield (engine, f"send {way}", f"--send {way}")
    yield ("epoll", "apart", "--gather off")
    yield ("fork", "splice apart", "--send splice --gather off")
    for engine in engines.rows():
        if engine.serves:
            yield (engine.name, "strict", "--sandbox strict")
    yield ("epoll", "strict 2 process", "--sandbox strict --workers 2 --workers-as process --pin on")
    yield ("coro", "corked", "--tcp-cork on --tcp-nodelay off --gather off")
    yield ("thread", "tls", "--tls self")  # for `make check`; `make check-all` runs the core cases of every file over TLS, on each engine
