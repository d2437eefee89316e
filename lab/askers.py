# SPDX-License-Identifier: MIT
"""askers.py - load generators as programs: rung load, wrk, h2load and ab run once, and what each reports.

An Answer has the figures that all of them know: answered and failed requests, seconds, and the generator's processor time.
"""
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from typing import NamedTuple

from measures import BUSY, WAITING
from rig import PATIENCE_S, Broken, end_with_us


UNITS = {"us": 1, "ms": 1e3, "s": 1e6}


class Answer(NamedTuple):
    done: int
    failed: int
    seconds: float
    mean_us: float
    cpu_us: float = 0  # total of the generator


# --- Reading their output -----------------------------------------------------------------------------------

def first(tool, out, **patterns):
    """The number that each pattern finds in a tool's output; Broken if one finds none."""
    found = {name: re.search(pattern, out, re.MULTILINE) for name, pattern in patterns.items()}
    if missing := [name for name, match in found.items() if not match]:
        raise Broken(f"{tool} does not tell {', '.join(missing)}: " + " ".join(out.split())[-300:])
    return {name: float(match[1].replace(",", "")) for name, match in found.items()}


def load_told(out):
    try:
        data = json.loads(out)
        return Answer(data["requests"]["answered"], data["errors"]["total"], data["elapsed_s"], data["latency_us"]["mean"])
    except (ValueError, KeyError):
        raise Broken("rung load: " + " ".join(out.split())[-300:]) from None


def wrk_told(out):
    done = re.search(r"(\d+) requests in ([\d.]+)(us|ms|s)", out)
    mean = re.search(r"^ +Latency +([\d.]+)(us|ms|s) ", out, re.MULTILINE)
    if not done or int(done[1]) == 0 or not mean or "Non-2xx" in out or "Socket errors" in out:
        raise Broken("wrk: " + " ".join(out.split())[-200:])
    return Answer(int(done[1]), 0, float(done[2]) * UNITS[done[3]] / 1e6, float(mean[1]) * UNITS[mean[2]])


def h2load_told(out):
    found = first("h2load", out, done=r"requests: .* (\d+) succeeded", failed=r"requests: .* (\d+) failed",
                  wrong=r"status codes: .* (\d+) 4xx", fault=r"status codes: .* (\d+) 5xx", rate=r"^finished in .*, ([\d.]+) req/s")
    mean = re.search(r"^time for request: +\S+ +\S+ +([\d.]+)(us|ms|s) ", out, re.MULTILINE)
    if not mean or not found["rate"]:
        raise Broken("h2load: " + " ".join(out.split())[-300:])
    return Answer(int(found["done"]), int(found["failed"] + found["wrong"] + found["fault"]), found["done"] / found["rate"],
                  float(mean[1]) * UNITS[mean[2]])


def ab_told(out):
    found = first("ab", out, done=r"^Complete requests: +(\d+)$", failed=r"^Failed requests: +(\d+)$",
                  seconds=r"^Time taken for tests: +([\d.]+) seconds$",
                  mean=r"^Time per request: +([\d.]+) \[ms\] \(mean\)$")
    other = re.search(r"^Non-2xx responses: +(\d+)$", out, re.MULTILINE)
    return Answer(int(found["done"]), int(found["failed"]) + int(other[1] if other else 0), found["seconds"],
                  found["mean"] * 1e3)


# --- Running them -------------------------------------------------------------------------------------------

def load_argv(context, connections, seconds):
    return [context.load, "-o", "-", "-t", "1", "-c", str(connections), "-d", f"{seconds * 1000:.0f}ms"]


def wrk_argv(_context, connections, seconds):
    return ["timeout", "--foreground", "-s", "INT", str(seconds),  # wrk -d takes whole seconds, and wrk divides by the real time
            "wrk", "-t1", f"-c{connections}", "-d600s", "--timeout", "10s", "--latency"]


def h2load_argv(_context, connections, seconds):
    return ["h2load", "--h1", "-t", "1", "-c", str(connections), "-D", f"{seconds * 1000:.0f}ms"]


def ab_argv(_context, connections, seconds):
    return ["ab", "-q", "-k", "-c", str(connections), "-t", str(max(1, round(seconds))), "-n", "100000000"]


ASKERS = {"rung load": (load_argv, load_told), "wrk": (wrk_argv, wrk_told), "h2load": (h2load_argv, h2load_told),
          "ab": (ab_argv, ab_told)}


def ran(argv, processors, patience_s):
    """(what it printed, resource usage of it and its children)."""
    def prepare():
        end_with_us()
        if processors:
            os.sched_setaffinity(0, processors)
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, preexec_fn=prepare)
        end, usage = time.monotonic() + patience_s, None
        try:
            while time.monotonic() < end and not usage:
                pid, status, used = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    process.returncode, usage = os.waitstatus_to_exitcode(status), used
                time.sleep(0.005)
        finally:
            if usage is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
        if usage is None:
            raise Broken(f"{argv[0]} did not end within {patience_s:.0f} s")
        out.seek(0)
        return out.read().decode(errors="replace"), usage


def ask(name, argv, url, processors=None, patience_s=PATIENCE_S):
    """Run generator NAME, whose command without the URL is argv.  Broken: its output is of no use."""
    out, usage = ran([*argv, url], processors, patience_s)
    answer = ASKERS[name][1](out)
    if not answer.done:
        raise Broken(f"{name}: no request was answered, {answer.failed} failed")
    return answer._replace(cpu_us=(usage.ru_utime + usage.ru_stime) * 1e6)


def limiter(server_us, answer):
    """Which processor was busy, that of the server or that of the generator; each had one."""
    for used_us, who in ((server_us, "the server's processor"), (answer.cpu_us, "the generator's processor")):
        if used_us > BUSY * answer.seconds * 1e6:
            return who
    return WAITING  # without a share, so that rounds can agree: judge.py takes what most of them say
