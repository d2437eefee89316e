# SPDX-License-Identifier: MIT
"""layer.py - a layer of the tests: what it runs and how it counts; and layers that run side by side.

A layer runs in a process of its own, and a process that outlives its parent becomes that process's child, so each process
left running is reported by the layer that left it.  Layers start in their order as long as there are seats, a quarter of
a processor each; where the next one does not fit, a smaller one after it may start.  A layer without a number of seats
takes all of them.  Layers are reported in their order, each as a whole.  If other layers ran at the same time, or other
tests of its own, failed tests run again when all of those are done: alone().  If none did, load was not the reason, and
the failure stands.
"""
import ctypes
import fcntl
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.connection import wait

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lab"))
import rig
from reports import ended

CPUS = min(2, os.cpu_count() or 1)
SEATS = 4 * CPUS
SHOWN_LINES = 60  # of a failure's output; all of it is in the log
REASON = re.compile(r"E   |\[ +(ERROR|LINE) +\]|the kernel complains: ")  # pytest, cmocka and ksite.py say what was wrong
SHOWN_REASONS = 5  # of these lines, shown first where the output is cut
GRACE_S = 10  # for processes that a layer leaves running: they may be about to end
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
TOLD = ("passed", "failed", "skipped", "unsteady", "row", "said", "cpu_s")  # the fields that a layer's process sends


def seats(number, job):
    """The job, which keeps that many quarters of a processor busy."""
    job.seats = number
    return job


def seats_of(layer):
    return getattr(layer.job, "seats", SEATS)


def compiled_once(layer):
    """The environment in which the tests are compiled once, into the build's folder: otherwise each process of a hundred layers
    spends a second of processor time on it."""
    return {"PYTHONPYCACHEPREFIX": f"{layer.build}/pycache", "PYTHONDONTWRITEBYTECODE": ""}


# --- Processes --------------------------------------------------------------------------------------------

def adopt_orphans():
    """Processes that outlive their parent become ours, so that they can be found; if our parent dies, so do we."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def leftovers(grace_s):
    """Ends the children that still run after a grace, and returns their names.  Dead children are reaped."""
    names, deadline = {}, time.monotonic() + grace_s  # by process id: a child may be seen again until it is dead
    while pids := rig.children("self"):
        for pid in pids:
            if time.monotonic() > deadline:
                try:
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        text = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
                    os.kill(pid, signal.SIGKILL)
                    names.setdefault(pid, text[:100])
                except OSError:
                    pass
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass
        time.sleep(0.02)
    return [name for name in names.values() if name]


class Layer:
    """One layer's tally and log."""

    def __init__(self, name, build, quick, job):
        self.name, self.build, self.quick, self.job = name, os.path.abspath(build), quick, job
        self.passed, self.failed, self.skipped, self.unsteady = [], [], [], []
        self.row = None  # for the table at the end: engine and arrangement
        self.said, self.cpu_s = [], 0
        self.log_path = os.path.join(build, "log", name.replace(" ", "-") + ".txt")
        self.lock, self.starter, self.may_retry = threading.Lock(), None, None
        self.overtakes = False

    def run(self, starter):
        """Runs the job in a process of its own, and sends its outcome through starter."""
        start, self.starter = time.monotonic(), starter
        adopt_orphans()
        try:
            self.job(self)
        except KeyboardInterrupt:
            leftovers(grace_s=0)
            os._exit(130)
        except Exception as error:  # a broken layer is a failed one, never a silent one
            self.fail(f"{type(error).__name__}: {error}")
        for name in leftovers(GRACE_S):
            self.fail(f"left running: {name}")
        if not (self.passed or self.failed or self.skipped):
            self.fail("no test was found")
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        self.cpu_s = sum(one.ru_utime + one.ru_stime for one in used)
        self.summary(time.monotonic() - start)
        starter.send({name: getattr(self, name) for name in TOLD})

    def summary(self, seconds):
        self.said.append(f"{self.name}: {len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped "
                         f"({seconds:.0f} s, {self.cpu_s:.0f} s of processor)")

    def alone(self, crowded=False):
        """Whether other layers ran at the same time, or other tests of this one (crowded), so that failed tests may run
        again.  Returns when the other layers are done."""
        if self.may_retry is None:
            self.starter.send(crowded)
            self.may_retry = self.starter.recv()
            if not self.may_retry:
                self.log("--- nothing else ran at the same time: what failed does not run again")
        return self.may_retry

    def log(self, text):
        with self.lock, open(self.log_path, "a", encoding="utf-8") as file:
            file.write(text if text.endswith("\n") else text + "\n")

    def ok(self, name):
        self.passed.append(name)

    def skip(self, name, reason):
        self.skipped.append((name, " ".join((reason or "").split())[:200]))

    def fail(self, name, output=""):
        self.failed.append(name)
        lines = output.rstrip().split("\n") if output.strip() else []
        cut = [f"... {len(lines) - SHOWN_LINES} lines before: {self.log_path}"] if len(lines) > SHOWN_LINES else []
        why = [line for line in lines if REASON.match(line)][:SHOWN_REASONS] if cut else []
        self.said += [f"FAILED in {self.name}: {name}", *(f"    {line}" for line in why + cut + lines[-SHOWN_LINES:])]

    def command(self, argv, timeout_s, env=None):
        """Runs a program to its end: (status, output).  Over time its whole process group is killed: status 'timeout'."""
        start = time.monotonic()
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              start_new_session=True, env={**os.environ, **(env or {})}) as process:
            try:
                output, status = process.communicate(timeout=timeout_s)[0], process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, status = process.communicate()[0], "timeout"
        text = output.decode(errors="replace")
        took = f"{time.monotonic() - start:.1f} s"
        self.log(f"--- {' '.join(argv)}: status {status}, {took}\n{text}")
        return (status, text + f"\n(ended after {timeout_s} s)" if status == "timeout" else text)

    def once(self, argv, timeout_s):
        """As command(), for programs that build: one layer at a time, and none again that has succeeded in this run."""
        tool, wanted = os.path.basename(argv[0]), " ".join(argv) + "\n"
        with open(os.path.join(self.build, "log", f"built-{tool}.txt"), "a+", encoding="utf-8") as built:
            def done():
                built.seek(0)
                return wanted in built.readlines()
            if done():
                return 0, ""
            fcntl.flock(built, fcntl.LOCK_EX)
            if done():
                return 0, ""
            status, output = self.command(argv, timeout_s)
            if status == 0:
                built.write(wanted)
        return status, output

    def single(self, name, argv, timeout_s, env=None):
        """A program that is one test: 0 is passed, 77 is skipped with its last line as the reason."""
        status, output = self.command(argv, timeout_s, env)
        if status == 0:
            self.ok(name)
        elif status == 77:
            self.skip(name, output.strip().split("\n")[-1])
        else:
            self.fail(f"{name} ({ended(status)})", output)

    def make(self, *targets, timeout_s=600, **variables):
        argv = ["make", "--no-print-directory", "-k", f"-j{CPUS}", f"BUILD={self.build}"]
        argv += [f"{key}={value}" for key, value in variables.items()] + list(targets)
        status, output = self.once(argv, timeout_s)
        if status != 0:
            self.fail("build: " + " ".join(argv[5:]), output)
        return status == 0


# --- Side by side -----------------------------------------------------------------------------------------

def heard(pipe):
    """A layer's message: a bool if it asks to be alone, its tally when it is done, an empty tally if it died."""
    try:
        return pipe.recv()
    except EOFError:
        return {}


class Running:
    """A layer's process."""

    def __init__(self, layer):
        self.layer, self.seats, self.had_company = layer, seats_of(layer), False
        self.pipe, there = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=layer.run, args=(there,), daemon=True)
        self.process.start()
        there.close()

    def finish(self, tally):
        self.process.join()
        self.pipe.close()
        for name, value in tally.items():
            setattr(self.layer, name, value)
        if not tally:
            self.layer.fail(f"its process has died: {ended(self.process.exitcode)}")
            self.layer.summary(0)


def fitting(ahead, running, places):
    """The layer to start now, or None: the first of those ahead.  While there is no room for it a smaller one may overtake
    it, but overtaking layers never have more than a quarter of the places, or the first would wait for ever."""
    free = places - sum(one.seats for one in running)
    for number, layer in enumerate(ahead):
        if not running or seats_of(layer) <= free:
            layer.overtakes = number > 0
            return layer
        free = min(free, places // 4 - sum(one.seats for one in running if one.layer.overtakes))
    return None


def begin(layer, running):
    """Starts the layer while those are running: {pipe: Running}."""
    one = Running(layer)
    for other in running.values():
        one.had_company = other.had_company = True
    running[one.pipe] = one


def side_by_side(layers, places=SEATS):
    """Runs all layers; yields each in its order, with its output, when it and those before it are done.  Layers that
    must run tests again alone say so then, and are yielded a second time, at the end."""
    ahead, running, patient, untold = list(layers), {}, {}, list(layers)
    while ahead or running or patient:
        while one := fitting(ahead, running.values(), places):
            ahead.remove(one)
            begin(one, running)
        if not running:
            pipe = next(iter(patient))
            running[pipe] = patient.pop(pipe)
            untold.append(running[pipe].layer)
            pipe.send(True)
        for pipe in wait(running):
            said, one = heard(pipe), running.pop(pipe)
            if said is False and not one.had_company:
                running[pipe] = one
                pipe.send(False)
            elif isinstance(said, bool):
                patient[pipe] = one
                one.layer.said = [f"{one.layer.name}: what failed runs again alone, at the end"]
            else:
                one.finish(said)
        while untold and untold[0] not in ahead and untold[0] not in [one.layer for one in running.values()]:
            yield untold.pop(0)
