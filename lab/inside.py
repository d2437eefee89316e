#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""inside.py - what a guest runs for kind_inside.py: each cell in turn, of modules and of servers in user space alike.

/share/job.json lists the cells.  A line of JSON for each is written to /share/cells as soon as it is measured, so that
cells measured before a guest died are known.  Server, client and kernel share the guest's processors, and none is pinned.
"""
import contextlib
import functools
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kind_echo  # noqa: E402 - found by the line above
import measures  # noqa: E402
import modules  # noqa: E402
import peers  # noqa: E402
import probe  # noqa: E402
import rig  # noqa: E402
from rig import PATIENCE_S, Broken, raise_descriptors, text_of  # noqa: E402

SHARE, SCRATCH = "/share", "/run/lab"
MOUNTS = (("debugfs", "/sys/kernel/debug"), ("tracefs", "/sys/kernel/tracing"))
SETTINGS = {"net/core/somaxconn": 4096, "net/ipv4/tcp_max_syn_backlog": 8192}
WARM = 50          # answers, and at least one for each connection
LONGEST_S = 600    # of the guest's time, for one-time work: if its clock counts instructions, waiting for a file is long
NEXT = 40          # clients that connect one after another while a crowd is silent
PATIENT = "--head-timeout 600s --send-timeout 600s"  # for a server in user space
ANSWER_S = "30s"   # longest time that an answer may take
CALM, CALM_S = 0.9, 0.2
FAILURES = (Broken, OSError, subprocess.SubprocessError, ValueError)


# --- The guest ----------------------------------------------------------------------------------------------

def prepare():
    for kind, place in MOUNTS:
        if not os.path.ismount(place):
            subprocess.run(["mount", "-t", kind, "none", place], check=True)
    for name, value in SETTINGS.items():
        with open("/proc/sys/" + name, "w", encoding="ascii") as file:
            file.write(str(value))
    raise_descriptors()


def copy_up(program):
    """Copy the files that a program loads when it starts to the guest's memory, from this machine's files, which are the
    overlay's lower layer.  A file there is cached, but each open() of it still asks the emulator."""
    told = subprocess.run(["ldd", program], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout
    for path in {"/etc/ld.so.cache", *re.findall(r"(/\S+) \(0x", told)}:
        times = os.stat(path)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # any change makes the overlay copy the file


def settled(binaries):
    """Put our programs and the others that run into the guest's memory; returns the folder of ours.  Reading a file through
    the emulator takes time, and that time is unpredictable if the clock counts instructions."""
    here = os.path.join(SCRATCH, "bin")
    os.makedirs(here, exist_ok=True)
    os.environ["TMPDIR"] = SCRATCH
    for name in ("rung", "rung-load"):
        shutil.copy(f"{binaries}/{name}", here)
        copy_up(f"{here}/{name}")
    for argv in ([f"{here}/rung", "--version"], [f"{here}/rung-load", "--help"], ["busybox", "true"], ["sh", "-c", "true"],
                 *([one.program, "-v"] for one in peers.PEERS.values() if shutil.which(one.program, path=peers.PATH))):
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
                       env={"PATH": peers.PATH})
    return here


def idle_s():
    """Idle time of all processors together, since the guest booted."""
    return sum(map(int, re.findall(r"idle_sleeptime\s*: (\d+) nsecs", text_of("/proc/timer_list")))) / 1e9


def calm():
    """Wait until the guest has hardly anything to do: new connections are accepted and closed ones cleaned up by then."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        before, began = idle_s(), time.monotonic()
        time.sleep(CALM_S)
        if idle_s() - before >= CALM * (time.monotonic() - began) * os.cpu_count():
            return
    raise Broken(f"the guest has work that does not end within {PATIENCE_S} s")


@contextlib.contextmanager
def awake():
    """Keep the guest busy with a process of the lowest priority while files may be read through the emulator.  In an idle
    guest, a clock that counts instructions jumps from timer to timer, and every time limit would expire."""
    with subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"], stdin=subprocess.DEVNULL,
                          preexec_fn=lambda: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGKILL)


# --- The server ---------------------------------------------------------------------------------------------

def echoes(scenario):
    return scenario.get("protocol", "http") == "echo"


def opened(context, target, scenario, folder):
    site = None if echoes(scenario) else folder
    if "model" in target:
        compiled = context.without_lines if target.get("lines") == "none" else context.modules
        server = modules.Module(compiled, target["model"], site, target.get("options", "").split())
        modules.lines(target.get("lines") == "on")
    elif echoes(scenario) and "engine" in target:
        server = kind_echo.Echo(context.rung, target["engine"], folder, (), target.get("options", "").split())
    else:
        return measures.open_target(context, target, {"pinned": False, "options": PATIENT}, folder)
    context.started(target, server.command)
    return server


def started(context, target, scenario, folder):
    with awake():
        return opened(context, target, scenario, folder)


def message(scenario):
    size = scenario.get("bytes", 32)
    return ["--message-min", str(size), "--message-max", str(size)]


def asked(context, server, scenario, folder, connections):
    """The options of rung load, except the duration."""
    scenario = {**scenario, "connections": connections, "threads": min(os.cpu_count(), connections)}
    if not echoes(scenario):
        return [*measures.load_options(context, scenario, server.port), "-T", ANSWER_S]
    return ["-c", str(connections), "-t", str(scenario["threads"]), "-T", ANSWER_S, *message(scenario),
            *(["-k", "off"] if scenario.get("close") else []), f"echo://127.0.0.1:{server.port}"]


# --- Cells --------------------------------------------------------------------------------------------------

def failures(data):
    """The failures in words; "" if there are none."""
    kinds = [f"{count} {name}" for name, count in data["errors"].items() if count and name != "total"]
    return ", ".join(kinds) or ("" if data["requests"]["answered"] else "none was answered")


def unserved(data, why):
    """The number of failures is the answer; no other figure means anything."""
    return {"figures": {"failed": max(1, data["errors"]["total"])}, "limiter": f"requests failed: {why}"}


def limit_of(busy):
    """busy: share of the processors' time."""
    if busy >= measures.BUSY:
        return "the processors, which server and generator share"
    return "waiting: the processors that server and generator share were not all busy"


def latencies(data):
    return {figure: data["latency_us"][key] for figure, key in measures.LATENCIES.items()}


@contextlib.contextmanager
def of_class(server, target, count):
    """While a load runs, the module's threads get the class that the target asks for."""
    found = []
    if "scheduler" not in target:
        yield
        return
    worker = threading.Thread(target=lambda: found.append(server.schedule(target["scheduler"], count)))
    worker.start()
    yield
    worker.join()
    if found != [count]:
        raise Broken(f"only {(found or [0])[0]} of {count} threads could be given another class before the load ended: "
                     "measure for longer")


def neighbours(scenario):
    """A process that never sleeps for each processor, if the scenario says so."""
    stack = contextlib.ExitStack()
    for processor in sorted(os.sched_getaffinity(0)) if scenario.get("beside") == "busy" else ():
        stack.enter_context(rig.busy([processor]))
    return stack


def receives(server):
    """How many receives a module has counted; None for a server in user space."""
    return server.stats()["receives"] if isinstance(server, modules.Module) else None


def of_each(had, now, data):
    """Figures of one message, if the server is a module."""
    return {} if had is None else {"receives": (now - had) / data["requests"]["answered"]}


def instructions(data, processors):
    """The instructions of one message, of client, kernel and server together: one processor's clock counts them.  Clients that
    ask without a pause leave the processor no idle time; if it is idle nevertheless, that time is counted as well."""
    return {"instructions": data["elapsed_s"] * 1e9 / data["requests"]["answered"]} if processors == 1 else {}


def steady(context, server, cell, folder, seconds):
    """Clients send requests without a pause."""
    target, scenario = cell
    count = scenario["connections"]
    words = asked(context, server, scenario, folder, count)
    ask = functools.partial(measures.generate, context, patience_s=LONGEST_S, whole=False)
    compared = [] if echoes(scenario) else ["--check", folder]
    with awake():
        warm = ask(["-n", str(max(WARM, count)), *compared, *words])
    if why := failures(warm):
        return unserved(warm, why)
    with neighbours(scenario), of_class(server, target, count):
        had, before, began = receives(server), idle_s(), time.monotonic()
        data = ask(["-d", f"{seconds * 1000:.0f}ms", *words])
        busy = 1 - (idle_s() - before) / (time.monotonic() - began) / os.cpu_count()
    if why := failures(data):
        return unserved(data, why)
    return {"figures": {"per_second": data["requests_per_s"], "failed": 0, **of_each(had, receives(server), data),
                        **instructions(data, os.cpu_count()), **latencies(data)},
            "limiter": limit_of(busy),
            "percentiles": [[at, data["latency_us"][key]] for key, at in measures.PERCENTILES.items()]}


def gone(wires):
    """How many of them the server has closed."""
    poller = select.poll()
    for wire in wires:
        poller.register(wire, select.POLLIN | select.POLLRDHUP)
    return len(poller.poll(0))


def silent(context, server, cell, folder, _seconds):
    """`silent` clients connect and send nothing; then others connect one after another, ask once and leave.  Can these be
    served?"""
    count = cell[1]["silent"]
    words = asked(context, server, {**cell[1], "close": True}, folder, 1)
    ask = functools.partial(measures.generate, context, ["-n", str(NEXT), *words], LONGEST_S, whole=False)
    with awake():
        ask()  # warms the server; a failure here shows up with the crowd too
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port), LONGEST_S)) for _ in range(count)]
        calm()
        data = ask()
        held = count - gone(wires)
    if why := failures(data):
        return unserved(data, why)
    return {"figures": {"failed": 0, "held": held, **latencies(data)}, "limiter": None}


@functools.cache
def traced(context, name):
    """The duration in us of each call of the target's function, during as many connections as its scenarios need, with one
    request on each."""
    target, scenario, many = context.traces[name]
    folder = measures.documents(context, scenario)
    with started(context, target, scenario, folder) as server, probe.probed(target["probe"]) as calls:
        words = asked(context, server, {**scenario, "close": True}, folder, scenario["connections"])
        measures.generate(context, ["-n", str(many), *words], LONGEST_S)
        found = calls()
    if len(found) < many:
        raise Broken(f"{many} connections made {len(found)} calls of {target['probe']}: it is not what is called for each")
    return found


def calls(context, cell):
    """A part of the calls of a function: `calls` of them after the first `after`."""
    target, scenario = cell
    first = scenario.get("after", 0)
    found = sorted(traced(context, target["name"])[first:first + scenario["calls"]])
    at = {figure: found[min(len(found) - 1, int(len(found) * share))]
          for figure, share in (("call_p50_us", 0.5), ("call_p90_us", 0.9), ("call_p99_us", 0.99), ("call_max_us", 1))}
    shares = (50, 75, 90, 99, 99.9, 100)
    return {"figures": {**at, "call_mean_us": sum(found) / len(found)}, "limiter": None,
            "percentiles": [[share, found[min(len(found) - 1, int(len(found) * share / 100))]] for share in shares]}


def measured(context, cell, seconds):
    target, scenario = cell
    if "calls" in scenario:
        return calls(context, cell)
    folder = measures.documents(context, {} if echoes(scenario) else scenario)
    calm()
    with started(context, target, scenario, folder) as server:
        found = (silent if "silent" in scenario else steady)(context, server, cell, folder, scenario.get("seconds", seconds))
        server.stop()
    return found


# --- The job ------------------------------------------------------------------------------------------------

def told(context, cell, seconds):
    began = time.monotonic()
    try:
        found = {"found": measured(context, cell, seconds)}
    except FAILURES as error:
        found = {"broken": str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"}
    name = cell[0]["name"]
    print(f"{time.monotonic() - began:.1f} s", name, cell[1]["name"], {**found.get("found", found), "percentiles": 0}, flush=True)
    return {**found, "command": context.commands.get(name), "config": context.configs.get(name)}


def traces_of(cells):
    """{target: (target, scenario, how many connections all its scenarios of calls need)}."""
    found = {}
    for target, scenario in cells:
        if "calls" in scenario:
            many = found.get(target["name"], (None, None, 0))[2]
            found[target["name"]] = target, scenario, max(many, scenario.get("after", 0) + scenario["calls"])
    return found


def main():
    job = json.loads(text_of(f"{SHARE}/job.json"))
    prepare()
    with awake():
        binaries = settled(job["binaries"])
    context = measures.Context(binaries, SCRATCH, job["pace"])
    context.modules, context.without_lines = job["modules"], job.get("without_lines")
    context.traces = traces_of(job["cells"])
    with open(f"{SHARE}/cells", "a", encoding="utf-8") as out:
        for cell in job["cells"]:
            out.write(json.dumps(told(context, cell, job["seconds"])) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
