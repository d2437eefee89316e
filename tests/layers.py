# SPDX-License-Identifier: MIT
"""layers.py - the layers that run.py runs: what each one starts, and how it counts its results.

A job is a function that gets a Layer, builds what it needs with make, starts programs through it and notes every
test by name.  C programs report through cmocka's messages, the wire tests through JUnit XML, all others are one test
each.  plan.py has the list.
"""
import ctypes
import functools
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "wire"))
import engines  # noqa: E402
from layer import CPUS, SEATS, Layer, compiled_once, seats, side_by_side  # noqa: E402
from lib import arrangements  # noqa: E402
from reports import ended, junit, note_pytest  # noqa: E402

WIRES = 2 * CPUS  # wire tests at a time, in a layer that has many: they wait for more than half of their time
PYTHON = "/usr/bin/python3"
ROOMY = 3 * CPUS  # seats for tests of rates and times, and for all C programs at once: little else may run then
HALF = ROOMY // 2  # seats, so that two such layers and small ones run side by side
PROGRAMS = 4 * CPUS  # C programs at a time: the long ones do little except wait
WIRE_SECONDS = 900  # time limit for a wire layer, and again for its failed tests
# C programs that run whole servers on threads and real sockets: like the wire tests, they depend on load.
WITH_SOCKETS = {"calls", "engines", "faults", "forks", "loop", "net", "offload", "room", "slots", "send", "stale", "stops"}
LONGEST = ("seeds", "faults", "engines", "queue", "calls", "body", "split")  # they start first
# Shares of the engines, each run by a program of its own.  In the debug build of `make check` faults is whole, because it
# then checks for each kind of call whether any engine makes it.  `make quick` runs three engines that wait in different ways, a
# sixth of those that seeds runs, a third of the items that pass through the queues, fewer changes while clients ask, and no OpenSSL
# without memory.
SIXTHS = [(f"{share}/6",) for share in range(1, 7)]
PARTS = {"engines": SIXTHS}
QUICK = {"faults": [("naive",), ("epoll",), ("uring",)], "queue": [("10000",)], "stale": [("40",)], "seeds": [("0", "1/6")],
         "tls_read_memory": [], "tls_cold_memory": []}
SANITIZED = {"faults": SIXTHS, "seeds": [("0", "1/3"), ("0", "2/3"), ("0", "3/3")], "library_memory": []}  # its malloc() is its own
# Allocations that are refused in turn: each of a connection's, and every STEP-th while OpenSSL reads certificates or begins.
REFUSALS = {"tls_memory": [("1",)], "tls_read_memory": [("29",)], "tls_cold_memory": [("13",)]}
FUZZ_SECONDS = int(os.environ.get("FUZZ_SECONDS", "20"))
SOAK_SECONDS = 36  # four waves of clients for each of two engines


@functools.lru_cache
def without_aslr():
    """The thread sanitizer cannot place its shadow memory under some kernels' address randomisation."""
    prefix = ["setarch", "-R"]
    return prefix if shutil.which("setarch") and subprocess.call(prefix + ["true"]) == 0 else []


VALGRIND = ["env", "LD_PRELOAD={build}/debug/openat2.so", "valgrind", "--quiet", "--error-exitcode=99",
            "--leak-check=full", "--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"]


# --- C programs -------------------------------------------------------------------------------------------

def cmocka(layer, prefix, program, timeout_s):
    """Runs a cmocka program with its arguments: (passed, skipped, failed, output); a test that started and never ended
    has died."""
    name = " ".join([os.path.basename(program[0]), *program[1:]])
    status, output = layer.command([*prefix, *program], timeout_s, {"CMOCKA_MESSAGE_OUTPUT": "STDOUT"})
    found, open_test = {"OK": [], "SKIPPED": [], "FAILED": [], "ERROR": []}, None
    for line in output.split("\n"):
        match = re.match(r"\[ +(RUN|OK|FAILED|SKIPPED|ERROR) +\] (\S+)$", line.rstrip())
        if not match or re.match(r"\d+$", match[2]):
            continue
        if match[1] == "RUN":
            open_test = match[2]
        elif open_test == match[2]:
            found[match[1]].append(f"{name}: {open_test}")
            open_test = None
    failed = found["FAILED"] + found["ERROR"]
    if open_test:
        failed.append(f"{name}: {open_test} ({ended(status)})")
    elif status != 0 and not failed:
        failed.append(f"{name} ({ended(status)})")
    elif not any(found.values()):
        failed.append(f"{name}: ran no test")
    return found["OK"], found["SKIPPED"], failed, output


def note(layer, outcome):
    passed, skipped, failed, output = outcome
    for test in passed:
        layer.ok(test)
    for test in skipped:
        layer.skip(test, "the test said so")
    for test in failed:
        layer.fail(test, output)


def programs_of(layer, mode, pattern):
    sources = [src for src in sorted(glob.glob(pattern)) if re.search(r"^int main\b", open(src).read(), re.M)]
    paths = [os.path.join(layer.build, mode, src[:-2]) for src in sources]
    return [path for path in paths if os.path.exists(path)]


def may_start_threads(path):
    """Whether the program is linked with code that starts a thread; otherwise it never has a second one."""
    return b" pthread_create" in subprocess.run(["nm", "-u", path], stdout=subprocess.PIPE, check=True).stdout


def left_out(layer, mode, parts):
    """Programs that are not built: those that no part is run of, and for the thread sanitizer those without threads, if a
    debug build is there to ask."""
    names = [path for name, shares in parts.items() if not shares for path in glob.glob(f"tests/*/{name}.c")]
    if mode == "tsan":
        names += [path for path in glob.glob("tests/unit/*.c") + glob.glob("tests/sim/*.c")
                  if os.path.exists(built := os.path.join(layer.build, "debug", path[:-2])) and not may_start_threads(built)]
    return " ".join(sorted({name[:-2] for name in names}))


def c_programs(mode, *patterns, prefix=(), timeout_s=300, parts=None):
    """Runs programs, many at a time, because the long ones mostly wait; parts: {program: arguments} of programs that are
    run once with each, so that a program with none is left out.  The thread sanitizer finds nothing in one without threads."""
    parts, many = {**PARTS, **(parts or {})}, PROGRAMS // 2 if prefix else PROGRAMS

    def job(layer):
        if mode == "debug":
            layer.make("tests", MODE=mode)  # a program that does not build has failed; the others run
        else:
            layer.make("c-tests", MODE=mode, LEFT_OUT=left_out(layer, mode, parts))
        paths = sum((programs_of(layer, mode, pattern) for pattern in patterns), [])
        if mode == "tsan":
            paths = list(filter(may_start_threads, paths))
        paths.sort(key=lambda path: LONGEST.index(os.path.basename(path)) if os.path.basename(path) in LONGEST else 99)
        shares = {**parts, **QUICK} if layer.quick else parts
        programs = [[path, *part] for path in paths for part in shares.get(os.path.basename(path), [()])]
        start = without_aslr() if mode == "tsan" else [word.format(build=layer.build) for word in prefix]
        with ThreadPoolExecutor(many) as pool:
            outcomes = list(pool.map(lambda program: cmocka(layer, start, program, timeout_s), programs))
        for program, outcome in zip(programs, outcomes):
            late = outcome[2] and os.path.basename(program[0]) in WITH_SOCKETS
            if late and layer.alone(crowded=len(programs) > 1):
                again = cmocka(layer, start, program, timeout_s)
                if not again[2]:
                    layer.unsteady += outcome[2]
                    layer.log(f"--- unsteady: {outcome[2]}\n{outcome[3]}")
                    outcome = again
            note(layer, outcome)
    return job


# shows D12
def under_valgrind(job):
    def checked(layer):
        if shutil.which("valgrind"):
            job(layer)
        else:
            layer.skip("valgrind", "it is not installed")
    return seats(getattr(job, "seats", SEATS), checked)


# --- Wire -------------------------------------------------------------------------------------------------

def engine_names():
    """The engines that have sockets."""
    return [engine.name for engine in engines.rows() if engine.serves]


def wrapper(layer, mode, prefix):
    """The path of rung, or of a script that starts it under a tool."""
    rung = os.path.join(layer.build, mode, "rung")
    if not prefix:
        return rung
    path = os.path.join(layer.build, "log", layer.name.replace(" ", "-") + ".sh")
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexec " + " ".join(prefix).format(build=layer.build) + f' "{rung}" "$@"\n')
    os.chmod(path, 0o755)
    return path


def unavailable(layer, mode, engine):
    """Why this machine cannot run the engine, as rung itself reports it, or None."""
    status, output = layer.command([os.path.join(layer.build, mode, "rung"), "engines", "--json"], 30)
    if status != 0:
        return None  # the tests will say what is wrong
    row = next((row for row in json.loads(output) if row["name"] == engine), {})
    return None if row.get("available", True) else row.get("reason", "")


def pytest_run(layer, env, timeout_s, many, *args, paths):
    """Runs pytest once, `many` tests at a time: {test: (word, text)}, its status and its output."""
    report = os.path.join(layer.build, "log", layer.name.replace(" ", "-") + ".xml")
    if os.path.exists(report):
        os.unlink(report)
    argv = [PYTHON, "-m", "pytest", "-q", "-rs", "--strict-markers", "--junitxml", report, "-o", "addopts=", "-o",
            f"cache_dir={layer.build}/pytest/{layer.name.replace(' ', '-')}", *(["-n", str(many)] if many > 1 else []), *args, *paths]
    status, output = layer.command(argv, timeout_s, {**env, **compiled_once(layer)})
    return junit(report), status, output


def pytest_twice(layer, env, timeout_s, many, *args, paths):
    """Runs pytest, and again alone, one test at a time, for the few that failed while others ran."""
    def once(many, *more):
        return pytest_run(layer, env, timeout_s, many, *more, *args, paths=paths)
    note_pytest(layer, once(many), lambda: once(1, "--last-failed")[0], crowded=many > 1)


def wire(engine, many, mode="release", marks=None, prefix=(), arranged=None, everywhere=("one worker", ""), few=False):
    """The suite under one engine, `many` tests at a time; arranged: a row of arrangements.py, for which its FILES are
    enough; few: those files alone; everywhere: options of every server, behind what they are called."""
    called, options = arranged[1:] if arranged else everywhere
    paths = [f"tests/wire/test_{name}.py" for name in arrangements.FILES] if arranged or few else ["tests/wire"]

    def job(layer):
        layer.row = (engine, " ".join([mode] * (mode != "release") + [called]))
        # No core case needs the tools, which take as long to build as the server.
        core_alone = mode != "release" and "core" in (marks or "")
        if not layer.make("tests" if "valgrind" in prefix else "rung" if core_alone else "all", MODE=mode):
            return
        if reason := unavailable(layer, mode, engine):
            layer.skip(f"engine {engine}", reason)
            return
        start = without_aslr() if mode == "tsan" else list(prefix)
        env = {"RUNG_BIN": wrapper(layer, mode, start), "RUNG_ENGINE": engine, "RUNG_ARGS": options,
               "RUNG_ARTEFACTS": layer.build + "/artefacts"}
        select = ["-m", marks] if marks else []
        pytest_twice(layer, env, WIRE_SECONDS, many, *select, paths=paths)
    job.whole = None if arranged or few or everywhere[1] else (engine, mode, marks)  # for the test of the plan
    return seats(min(many, HALF), job)


def programs_of_tool(layer, name, mode):
    """The environment in which the tests of a tool find it, and rung."""
    return {"RUNG_BIN": wrapper(layer, mode, without_aslr() if mode == "tsan" else ()),
            f"RUNG_{name.upper()}": os.path.join(layer.build, mode, f"rung-{name}")}


def tool(name, many, mode, places, marks=None):
    """One of the tools: the load generator against rung and against misbehaving servers, dropped sockets, traced requests."""
    def job(layer):
        if not layer.make("all", MODE=mode):
            return
        pytest_twice(layer, programs_of_tool(layer, name, mode), WIRE_SECONDS, many, *(["-m", marks] if marks else []), paths=[f"tests/{name}"])
    return seats(places, job)


# --- Other layers -----------------------------------------------------------------------------------------

def targets():
    return [os.path.basename(src)[:-2] for src in sorted(glob.glob("tests/fuzz/*.c"))
            if not src.endswith("/main.c") and re.search(r"^int LLVMFuzzerTestOneInput\b", open(src).read(), re.M)]


def fuzzed(layer, seconds, alone, clang):
    """Each target: our own driver replays the corpus and mutates it blindly, libFuzzer then looks for more.  libFuzzer's status
    after a crash would be 77, which here means skipped."""
    def one(name):
        work = f"{layer.build}/fuzz/found/{name}"
        os.makedirs(work, exist_ok=True)
        given = [f"-artifact_prefix={work}-"]
        given += [f"-dict=tests/fuzz/{name}.dict"] if os.path.exists(f"tests/fuzz/{name}.dict") else []
        corpus = [f"tests/fuzz/corpus/{name}"] if os.path.isdir(f"tests/fuzz/corpus/{name}") else []
        layer.single(f"{name}: corpus, and {alone} s blindly",
                     [f"{layer.build}/asan/tests/fuzz/{name}", f"-max_total_time={alone}", *given, *corpus], 300)
        if clang:
            layer.single(f"{name}: libFuzzer for {seconds} s",
                         [f"{layer.build}/fuzz/tests/fuzz/{name}", f"-max_total_time={seconds}", "-timeout=25", "-error_exitcode=1",
                          "-rss_limit_mb=1024", "-print_final_stats=1", *given, work, *corpus], seconds + 120)
    layer.make("fuzz-programs", MODE="asan")
    with ThreadPoolExecutor(CPUS) as pool:
        list(pool.map(one, targets()))


def corpora(layer):
    fuzzed(layer, 0, 1, clang=False)


def fuzz(layer):
    seconds = max(2, FUZZ_SECONDS * CPUS // len(targets()))
    clang = shutil.which("clang") is not None
    if clang:
        layer.make("fuzz-programs", MODE="fuzz", CC="clang")
    else:
        layer.skip("libFuzzer", "clang is not installed")
    fuzzed(layer, seconds, 2 if clang else seconds, clang)


def said(layer, mode):
    """What each tool says of its options."""
    for name in ("load", "drop", "trace"):
        pytest_twice(layer, programs_of_tool(layer, name, mode), 60, 1, paths=[f"tests/{name}/test_words.py"])


# shows S25
def shape(layer):
    mode = "debug"
    if not layer.make("all", MODE=mode):
        return
    layer.single("house rules (tidy.py)", [PYTHON, "tests/tidy.py"], 60)
    layer.single("tidy.py catches what it should", [PYTHON, "tests/tidy.py", "--self-test"], 60)
    layer.single("no circles of files (cycles.py)", [PYTHON, "tests/cycles.py", f"{layer.build}/{mode}"], 60)
    layer.single("the picture of who calls whom (scripts/layers)", [PYTHON, "scripts/layers", "--check", f"{layer.build}/{mode}"], 60)
    layer.single("engines call what tests can let fail (seam.py)", [PYTHON, "tests/seam.py", f"{layer.build}/{mode}"], 60)
    layer.single("the core needs nothing (link.sh)", ["tests/link.sh", layer.build], 120)
    layer.single("numbers in the documents (scripts/numbers)", [PYTHON, "scripts/numbers", "--check"], 60)
    layer.single("options in the documents (scripts/options)", [PYTHON, "scripts/options", "--check", f"{layer.build}/{mode}"], 60)
    layer.single("what shows each row (scripts/rows)", [PYTHON, "scripts/rows", "--check"], 60)
    layer.single("Chinese pages follow the English ones (scripts/follows)", [PYTHON, "scripts/follows"], 60)
    layer.single("what epoll tells, by the rules and as documented (lab/trigger.py)",
                 [PYTHON, "lab/trigger.py", "--check"], 60)
    layer.single("what the lab found, as documented (lab/plots.py)", [PYTHON, "-B", "lab/plots.py", "--check"], 60)
    if layer.quick:  # the layers of the tools have them, too
        said(layer, mode)
    if shutil.which("shellcheck"):
        scripts = [path for path in ("scripts/setup", "scripts/kernel-compile", "scripts/debug-kernel", "scripts/arm64", ".ci/run", "tests/link.sh")
                   if os.path.exists(path)]
        layer.single("shellcheck", ["shellcheck", *scripts], 60)
    else:
        layer.skip("shellcheck", "it is not installed")


def made(layer):
    """Tests of the Makefile and scripts/setup, and of how run.py counts."""
    if layer.make("all", "lab-programs", MODE="debug"):
        part = ["-m", "not long"] if layer.quick else []
        env = {"RUNG_BUILD": layer.build, "RUNG_BIN": os.path.join(os.path.abspath(layer.build), "debug", "rung")}
        pytest_twice(layer, env, 300, CPUS, *part, paths=["tests/make"])


def accept(layer):
    """Each option as its user tries it, with programs of others."""
    if layer.make("all"):
        pytest_twice(layer, {"RUNG_BIN": os.path.join(layer.build, "release", "rung")}, WIRE_SECONDS, WIRES, paths=["tests/accept"])


def package(layer):
    """The Debian packages: built, then installed, upgraded and removed in a layer above this system, in memory."""
    missing = [name for name, tool in (("dpkg-dev", "dpkg-buildpackage"), ("debhelper", "dh"), ("dh-dkms", "dh_dkms"))
               if not shutil.which(tool)]
    if missing:
        layer.skip("Debian packages", f"not installed: {', '.join(missing)}")
        return
    pytest_twice(layer, {"RUNG_BUILD": os.path.abspath(layer.build)}, 1800, 1, paths=["tests/package"])


def arm64(layer):
    if shutil.which("aarch64-linux-gnu-gcc") and shutil.which("qemu-aarch64-static"):
        layer.single("coroutines run on arm64 (emulated)", ["scripts/arm64", layer.build], 120)
    else:
        layer.skip("coroutines run on arm64", "no cross compiler or emulator is installed")


def lab(layer):
    """The measurements' own tests: figures, tables, and a very small run."""
    if not layer.make("all") or not layer.make("lab-programs"):
        return
    env = {"RUNG_BIN": os.path.join(layer.build, "release", "rung")}
    pytest_twice(layer, env, 300, WIRES, paths=["tests/lab"])


def guest(layer):
    """Boots kernels in an emulator, one after the other, if there is one; without -m long, tests/lab/conftest.py leaves these tests out."""
    if not layer.make("all"):
        return
    env = {"RUNG_BIN": os.path.join(layer.build, "release", "rung")}
    pytest_twice(layer, env, 600, 1, "-m", "long", paths=["tests/lab"])


def soak(layer):
    """Some seconds of the test that `make soak` runs for hours: a line for each property that held or did not."""
    if not layer.make("all"):
        return
    rung = os.path.join(layer.build, "release", "rung")
    argv = [PYTHON, "tests/soak.py", "--bin", rung, "--seconds", str(SOAK_SECONDS)]
    status, output = layer.command(argv, 600)
    if status == 1 and layer.alone():  # like the wire tests it depends on load: run it again, and list it
        layer.log(output)
        layer.unsteady += re.findall(r"^failed: (.*)$", output, re.M)
        status, output = layer.command(argv, 600)
    for line in output.split("\n"):
        word, _, name = line.partition(": ")
        if word == "passed":
            layer.ok(name)
        elif word == "failed":
            layer.fail(name)
    if status not in (0, 1) or not layer.passed:
        layer.fail(f"soak.py ({ended(status)})", output)
    layer.unsteady = [name for name in layer.unsteady if name not in layer.failed]


def coverage(build):
    """Runs the C tests with counters; prints how much of core/ they reached, by line and branch."""
    os.makedirs(os.path.join(build, "log"), exist_ok=True)
    job = c_programs("coverage", "tests/unit/*.c", "tests/sim/*.c")
    for old in glob.glob(f"{build}/coverage/**/*.gcda", recursive=True):
        os.unlink(old)
    for layer in side_by_side([Layer("coverage", build, False, job)]):
        print("\n".join(layer.said), flush=True)
    for extra in ([], ["--branches"]):
        subprocess.check_call(["gcovr", "--root", ".", "--filter", "core/", *extra, f"{build}/coverage"],
                              stdin=subprocess.DEVNULL)
    return 1 if layer.failed else 0

