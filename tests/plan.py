# SPDX-License-Identifier: MIT
"""plan.py - which layers each of `make quick`, `check`, `check-all`, `check-kernel` and `check-debug-kernel` runs.

`check` asks each question once, where the answer may differ: a fault of the core is found by one engine as well as by
eleven.  `check-all` asks it of each engine, under each sanitizer and of each arrangement of workers.
"""
import glob
import os

import engines
import guests
import layers
import models
from layer import CPUS, SEATS, seats
from layers import HALF, QUICK, ROOMY, SANITIZED, VALGRIND, WIRES, c_programs, engine_names, tool, under_valgrind, wire
from lib import arrangements

PLANS = ("quick", "check", "all", "kernel", "debug-kernel")  # a layer belongs to some of them
# Engines on which `check-all` runs every wire test: one that blocks, and the default one, which never does.  The other engines
# and all arrangements of workers leave out tests marked any_engine, which ask nothing new of them.  asan runs them on
# a third engine.
IN_FULL = ("pool", "uring")
OWN, OWN_CORE = "not any_engine", "core and not any_engine"
OWN_SHORT = "not any_engine and not long and not further"
# `check` runs every wire test on one engine, which never blocks.  One that blocks runs what depends on the engine and takes no crowd,
# with a sample of each table; the rest run the core cases.  LIKE_SELECT share select's loop and differ in the call that waits:
# they run the core cases of arrangements.FILES.  Under asan so does pool, whose code the C programs run under it, too.
CHECK = {"uring": None, "pool": OWN_SHORT}
LIKE_SELECT = ("nonblock", "poll")
ASAN = {"epoll": None, "pool": OWN}  # the others: OWN_CORE
CHECK_SANITIZED = ("pool", "epoll", "uring")  # by asan and tsan
# Of the arrangements `check` has one for each option, and those whose workers are processes and threads.
CHECK_ARRANGED = (("epoll", "2 process steered"), ("uring", "2 thread reuseport"), ("epoll", "oneshot"), ("pool", "queue lockfree all"),
                  ("pool", "queue mutex short"), ("dispatch", "queue round-robin"), ("thread", "send mmap"), ("fork", "splice apart"),
                  ("coro", "corked"), ("thread", "tls"), ("epoll", "strict 2 process"))
# Every engine meets every fault under asan, and every item its queue; valgrind adds reads of uninitialized memory, which
# concern the sessions.  The last two have a process for each refusal.
VALGRIND_PARTS = {"faults": [("naive",), ("epoll",)], "queue": QUICK["queue"], "library_memory": [], "tls_cold_memory": []}
# Under tsan the longest two, which run every engine in a simulated network and under every fault, are for `check-all`.
# Programs that start no thread are for it, too: a library that they are linked with could start one.
TSAN_SHORT = dict.fromkeys((*layers.SANITIZED, "h2", "h2_memory", "tls", "tls_cold_memory", "tls_given", "tls_kernel", "tls_memory",
                            "tls_read_memory", "tls_time"), [])
C_TESTS = ("tests/unit/*.c", "tests/sim/*.c")


def tsan():
    """{engine: arrangement} where threads meet: those that an engine makes, and the workers of ALL loops."""
    for engine in engines.rows():
        if engine.thread_pool or engine.serves and not engine.forks and not engine.workers_may_be_threads:
            yield engine.name, None
        elif engine.name in arrangements.ALL:
            yield engine.name, (engine.name, "2 thread", "--workers 2")


def wires():
    """The wire tests of the release build: in `check-all` each engine, in `check` most with the core cases alone."""
    for engine in engine_names():
        wanted, marks = None if engine in IN_FULL else OWN, CHECK.get(engine, OWN_CORE)
        if wanted == marks:
            yield f"wire {engine}", ("check", "all"), wire(engine, WIRES, marks=marks)
        else:
            part = "short" if engine in CHECK or engine in LIKE_SELECT else "core"
            yield f"wire {engine} {part}", ("check",), wire(engine, WIRES, marks=marks, few=engine in LIKE_SELECT)
            yield f"wire {engine}", ("all",), wire(engine, WIRES, marks=wanted)
        yield f"wire {engine} over TLS", ("all",), wire(engine, WIRES, marks="core", everywhere=("over TLS", "--tls self"))


def sanitized():
    """The wire tests that take a sanitizer."""
    for engine in engine_names():
        plans = ("check", "all") if engine in CHECK_SANITIZED else ("all",)
        if engine in ASAN:
            yield f"asan wire {engine} core", ("check",), wire(engine, CPUS, "asan", OWN_CORE, few=engine in IN_FULL)
            yield f"asan wire {engine}", ("all",), wire(engine, WIRES, "asan", ASAN[engine])
        else:
            yield f"asan wire {engine}", plans, wire(engine, CPUS, "asan", OWN_CORE)
    # The sanitizer loses track of threads after a fork with many; what a crowd of two may hold is not tested with epoll here.
    for engine, row in tsan():
        plans = ("check", "all") if engine in CHECK_SANITIZED else ("all",)
        yield f"tsan wire {engine}", plans, wire(engine, CPUS, "tsan", f"{OWN_CORE} and not processes", arranged=row)


# shows D04, D09, S15, S23, S35
def plan():
    """(name, its plans, job) in the order of starting, as far as there are seats: cheap and telling layers first."""
    unit = [src for src in glob.glob("tests/unit/*.c") if not os.path.basename(src).startswith("split")]
    each, check, whole = ("quick", "check", "all"), ("check", "all"), ("all",)
    rows = [("shape", each, seats(SEATS // 2, layers.shape)),
            ("unit", each, seats(HALF, c_programs("debug", *unit))),
            ("refusals", whole, seats(HALF, c_programs("debug", "tests/unit/tls_*memory.c", parts=layers.REFUSALS))),
            ("split", each, seats(1, c_programs("debug", "tests/unit/split*.c"))),
            ("sim", each, seats(HALF, c_programs("debug", "tests/sim/*.c"))),
            ("make", each, seats(CPUS, layers.made)),
            ("wire core", ("quick",), wire("epoll", WIRES, "debug", "core and not long")),
            ("models", whole, seats(CPUS, models.layer)),
            ("accept", whole, seats(HALF, layers.accept)),
            ("package", whole, seats(CPUS, layers.package)),
            *guests.rows(),
            ("arm64", check, seats(1, layers.arm64)),
            *wires(),
            ("load short", ("check",), tool("load", WIRES, "release", ROOMY, "not long")),
            ("load", whole, tool("load", WIRES, "release", ROOMY)),
            ("lab", check, seats(HALF, layers.lab)),
            ("guest", whole, seats(guests.SEATS, layers.guest)),
            ("drop", check, tool("drop", WIRES, "release", HALF)), ("trace", check, tool("trace", CPUS, "release", HALF)),
            ("soak", whole, seats(HALF, layers.soak)),
            ("asan", check, seats(ROOMY, c_programs("asan", *C_TESTS, parts=SANITIZED))),
            ("asan load", whole, tool("load", WIRES, "asan", ROOMY)), ("asan drop", whole, tool("drop", CPUS, "asan", CPUS)),
            ("asan trace", whole, tool("trace", CPUS, "asan", HALF)),
            ("tsan short", ("check",), seats(ROOMY, c_programs("tsan", *C_TESTS, parts=TSAN_SHORT, timeout_s=600))),
            ("tsan", whole, seats(ROOMY, c_programs("tsan", *C_TESTS, parts=SANITIZED, timeout_s=600))),
            ("tsan load", whole, tool("load", WIRES, "tsan", ROOMY)),
            ("valgrind", whole, seats(ROOMY, under_valgrind(c_programs("debug", *C_TESTS, prefix=VALGRIND, timeout_s=600,
                                                                       parts=VALGRIND_PARTS))))]
    # The layers below take the seats that those above leave free.
    rows += [(f"wire {row[0]} {row[1]}", check if row[:2] in CHECK_ARRANGED else whole, wire(row[0], 1, marks=OWN_CORE, arranged=row))
             for row in arrangements.rows()]
    rows += sanitized()
    rows += [("valgrind wire naive", whole, under_valgrind(wire("naive", CPUS, "debug", "core", prefix=VALGRIND))),
             ("corpora", ("check",), layers.corpora), ("fuzz", whole, layers.fuzz)]
    return rows
