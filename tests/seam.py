# SPDX-License-Identifier: MIT
"""seam.py [FOLDER] - an engine calls nothing of the C library that the tests of failing calls and of simulated time do not know.

FOLDER has the objects of a build (build/debug).  The linker sends calls to tests/sim/faults_seam.h, where each can fail, if
faults.ldflags names them; a call that it does not name is real, so no test meets its failure.  seeds.ldflags names those that
the simulator answers; any other call gets a descriptor that the kernel has never seen.
"""
import os
import re
import sys

import cycles
import engines

# Functions that ask nothing of the kernel, or nothing that can fail.
HARMLESS = re.compile(r"_*(?:mem\w+|str\w+|errno_location|stack_chk_fail|(?:v?sn?)?printf|puts|GLOBAL_OFFSET_TABLE_)"
                      r"|pthread_(?:attr|mutex|cond)_\w+|_?_?sysconf|sched_yield|_exit|getp?pid")
# Calls that need not fail one by one, and why.
REAL = {
    "fcntl64": "O_NONBLOCK of a pipe that was just made",
    "fork": "tests/sim/forks.c lets it fail",
    "waitpid": "tests/sim/forks.c has children that end",
    "close_range": "in a child that owns nothing else",
    "dup": "in a child: what fails ends its connection",
    "prctl": "in a child: without it a child outlives a killed parent",
    "pthread_join": "of a thread that was made",
}
MEMORY = {"malloc", "calloc", "realloc", "aligned_alloc", "free", "mmap64", "munmap"}  # real in the simulator, too


def wrapped(program):
    """The calls that the linker redirects in a program of tests/sim."""
    return set(re.findall(r"--wrap=(\w+)", engines.text_of(f"tests/sim/{program}.ldflags")))


def foreign(files):
    """{engine's file: what it uses that no file of the server defines}."""
    ours = set().union(*(defined for defined, _ in files.values()))
    return {name: used - ours for name, (_, used) in files.items() if name.startswith("engines/")}


def complaints(files, rows):
    """rows: the engines as engines.py has them."""
    fails, answered = wrapped("faults"), wrapped("seeds")
    simulated = {f"engines/{row.name}" for row in rows if row.is_loop and row.model == "readiness"}
    for name, used in sorted(foreign(files).items()):
        for call in sorted(call for call in used if not HARMLESS.fullmatch(call)):
            if call not in fails and call not in REAL:
                yield (f"{name}.c calls {call}(), which no test lets fail: give it a wrapper and a place in SEAM_CALLS of "
                       f"tests/sim/faults_seam.h, a FAULT in tests/sim/faults.c, and --wrap={call} in tests/sim/faults.ldflags; "
                       "or say in REAL of tests/seam.py why it need not fail")
            if name in simulated and call not in answered | MEMORY:
                yield (f"{name}.c calls {call}(), which the simulator does not answer: give it a wrapper in "
                       f"tests/sim/seeds_wait.h or seeds_calls.h, and --wrap={call} in tests/sim/seeds.ldflags")
    for call in sorted(set(REAL) - set().union(*foreign(files).values())):
        yield f"tests/seam.py: no engine calls {call}(): remove it from REAL"


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "build/debug"
    files = cycles.objects(folder)
    if not foreign(files):
        sys.exit(f"seam.py: {folder} has no engines; run make MODE=debug first")
    rows = engines.rows()
    wrong = list(complaints(files, rows))
    lacking = {row.name for row in rows} - {os.path.basename(name) for name in foreign(files)}
    wrong += [f"{folder} has no object of engines/{name}.c: make MODE=debug all" for name in sorted(lacking)]
    print("\n".join(wrong) or f"{len(rows)} engines, no call that the tests do not know")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
