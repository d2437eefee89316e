# SPDX-License-Identifier: MIT
"""rung trace kernel: time spent in a module's functions during a load, and every setting of the tracer restored."""
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time

import left
import pytest
from lib import module
from tracefs import TRACING, mounted, put

pytestmark = pytest.mark.usefixtures("one_processor")
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUNG = os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung"
TRACE = os.path.join(os.path.dirname(RUNG), "rung-trace")
LOAD = os.path.join(os.path.dirname(RUNG), "rung-load")
EVENT = "events/sched/sched_migrate_task"
# Settings left there by another user.
ODD = {"set_ftrace_filter": "vfs_read\nvfs_write\n", "set_ftrace_notrace": "do_exit\n", "set_graph_function": "vfs_fsync\n",
       "set_graph_notrace": "vfs_open\n", "max_graph_depth": "3", "trace_clock": "boot", "tracing_thresh": "7", "set_ftrace_pid": "1\n2\n",
       "set_event_pid": "1\n", "buffer_size_kb": "2048", "options/sleep-time": "0", "options/funcgraph-tail": "0", "options/overwrite": "0",
       "options/funcgraph-irqs": "0", "options/funcgraph-overhead": "1", f"{EVENT}/filter": "pid > 7", "tracing_on": "0"}
PLAIN = {"set_ftrace_filter": "", "set_ftrace_notrace": "", "set_graph_function": "", "set_graph_notrace": "", "max_graph_depth": "0",
         "trace_clock": "local", "tracing_thresh": "0", "set_ftrace_pid": "", "set_event_pid": "", "options/sleep-time": "1",
         "options/overwrite": "1", "options/funcgraph-irqs": "1", f"{EVENT}/filter": "0", "tracing_on": "1"}
MOMENTS = 12  # at which the tool is killed; each takes an emulator ten seconds, and there are eight guests
PATIENCE = 120 * float(os.environ.get("RUNG_SLOW") or 1)


def settings():
    """{file: text} of all settings that the tool changes, and of all options."""
    names = [*PLAIN, "current_tracer", "buffer_size_kb", "set_ftrace_notrace_pid", "set_event_notrace_pid", f"{EVENT}/enable"]
    names += [f"options/{name}" for name in os.listdir(f"{TRACING}/options")]
    found = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            found[name] = left.text_of(f"{TRACING}/{name}")
    return found


def unlocked():
    """Waits until no tracer and no guard of a tracer runs."""
    fd = os.open(TRACING, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    finally:
        os.close(fd)


@pytest.fixture
def tracing():
    """The tracer, with settings left by another user: they must be the same afterwards."""
    mounted()
    put("buffer_size_kb", "1408")
    for name, text in ODD.items():
        put(name, text)
    put("set_ftrace_filter", "conn_pump:mod:rung_core\n", "a")
    put("set_ftrace_filter", "kernel_power_off:traceoff\n", "a")
    before = settings()
    assert "conn_pump [rung_core]" in before["set_ftrace_filter"] and "kernel_power_off:traceoff" in before["set_ftrace_filter"]
    yield before
    unlocked()
    after = settings()
    put("current_tracer", "nop")
    put("set_ftrace_filter", "!kernel_power_off:traceoff\n", "a")
    for name, text in PLAIN.items():
        put(name, text)
    assert after == before


@pytest.fixture
def server(start, site):
    return start(site)


def trace(*args, **options):
    return subprocess.run([TRACE, "kernel", *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=PATIENCE, **options)


def load(server, *args):
    words = " ".join(map(str, args))
    return f"{LOAD} -q -t 1 {words} http://127.0.0.1:{server.port}/hello.txt"


def hot():
    rows = dict(line.split(": ") for line in subprocess.run([TRACE, "kernel", "--list"], capture_output=True, text=True, check=True,
                                                            timeout=60).stdout.splitlines())
    return set(rows["all"].split()) | set(rows[module.MODEL].split())


# shows K10, K30, K31
def test_every_request_is_there(server, tracing):
    """All functions that docs/kernel.md names were entered; those of a request as often as there were requests."""
    before = server.stats()["accepted"]
    run = trace("--json", "--run", load(server, "-c", 2, "-n", 60, "-k", "off"))
    assert run.returncode == 0, run.stderr
    accepted = server.stats()["accepted"] - before  # the load may have one more connection, without a request
    found = json.loads(run.stdout)
    calls = {one["function"]: one for one in found["functions"]}
    assert found["module"] == server.name and found["model"] == module.MODEL and found["requests"] == 60
    assert found["lost_events"] == found["unread"] == found["crowded"] == 0 and found["absent"] == []
    long_ones = {"block_thread", "block_serve", "block_work"}  # a call that has not ended is not counted
    assert hot() - long_ones <= set(calls), hot() - set(calls)
    assert calls["conn_sent"]["calls"] == 60 and calls["kconn_begin"]["calls"] == accepted
    for one in found["functions"]:
        assert one["moved"] <= one["calls"] and one["p50_ns"] <= one["p99_ns"] <= one["max_ns"] <= one["total_ns"]
        assert abs(one["mean_ns"] * one["calls"] - one["total_ns"]) <= one["calls"]
    if module.MODEL != "kthread":
        assert found["threads"] is None
        return
    threads = found["threads"]
    assert threads["calls"] == calls["kblock_thread_start"]["calls"] == sum(one["calls"] for one in threads["histogram"]) == accepted
    ends = [one["last"] for one in threads["series"]]
    assert [one["first"] for one in threads["series"]] == [1, *(end + 1 for end in ends[:-1])] and len(ends) == 10 and ends[-1] == accepted
    assert max(one["max_ns"] for one in threads["series"]) == calls["kblock_thread_start"]["max_ns"]


@pytest.mark.long
# shows K30
def test_as_text(server, tracing):
    run = trace("--run", load(server, "-n", 10))
    assert run.returncode == 0 and f"tracing {len(hot())} functions of {server.name}, model {module.MODEL}" in run.stderr
    assert run.stdout.startswith("10 requests in ") and f"{server.name}, model {module.MODEL}: " in run.stdout
    assert " conn_sent " in run.stdout and " a request" in run.stdout and "left out" not in run.stderr
    assert ("threads started" in run.stdout) == (module.MODEL == "kthread")


@pytest.mark.long
# shows K30
def test_the_whole_module(server, tracing):
    """A pattern, levels, time without sleep."""
    run = trace("--json", "--function", "k*", "--depth", 1, "--awake", "--run", load(server, "-n", 5))
    found = json.loads(run.stdout)
    assert run.returncode == 0 and found["asleep"] is False and found["threads"] is None
    assert len(found["functions"]) >= 3 and all(one["function"].startswith("k") for one in found["functions"])


@pytest.mark.long
def test_a_load_that_fails(server, tracing):
    run = trace("--run", "exit 3")
    assert run.returncode == 1 and "the load failed with exit code 3" in run.stderr


@pytest.mark.long
def test_no_such_function(server, tracing):
    run = trace("--function", "no_such_function")
    assert run.returncode == 1 and "--function no_such_function: neither rung_core nor the kernel" in run.stderr


@pytest.mark.long
def test_somebody_uses_the_tracer(server, tracing):
    put("current_tracer", "function_graph")
    try:
        busy = settings()
        run = trace("-d", "1s")
        assert run.returncode == 1 and "the kernel's tracer is in use (function_graph)" in run.stderr
        assert settings() == busy
    finally:
        put("current_tracer", "nop")


@pytest.mark.long
def test_somebody_reads_the_tracer(server, tracing):
    with open(f"{TRACING}/trace_pipe", "rb"):
        run = trace("-d", "1s")
    assert run.returncode == 1 and "does not take function_graph: Device or resource busy; a process reads it" in run.stderr


@contextlib.contextmanager
def begun(server):
    """A trace that has changed the settings."""
    with subprocess.Popen([TRACE, "kernel", "--run", load(server, "-d", "1h")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            while "tracing " not in (line := process.stderr.readline()):
                assert line
            assert left.text_of(f"{TRACING}/current_tracer") == "function_graph\n"
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.long
def test_interrupted(server, tracing):
    with begun(server) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and " requests in " in out, err


@pytest.mark.parametrize("whom", ["it", pytest.param("its group", marks=pytest.mark.long)])
def test_killed(server, tracing, whom):
    """By SIGKILL, in the middle of a load: the settings that `tracing` compares are as before."""
    with begun(server) as process:
        os.kill(process.pid if whom == "it" else -process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        unlocked()
        assert settings() == tracing


@pytest.mark.long
# shows K30
def test_killed_at_any_moment(server, tracing):
    """While settings are saved, changed, used and restored."""
    begin = time.monotonic()
    assert trace("-d", "1ms").returncode == 0
    around, busy = time.monotonic() - begin, 0
    long = max(around / 2, 0.1)  # so that some moments fall into the trace, on a slow machine too
    for number in range(MOMENTS):
        with subprocess.Popen([TRACE, "kernel", "-d", f"{long * 1000:.0f}ms"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            time.sleep((around + long) * number / MOMENTS)
            busy += left.text_of(f"{TRACING}/current_tracer") != "nop\n"
            process.kill()
        unlocked()
        assert settings() == tracing, number
    assert busy


@pytest.mark.long
def test_the_guard_is_killed(server, tracing):
    """Then the tracer itself restores the settings."""
    with begun(server) as process:
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
            children = file.read().split()
        guard, = (int(pid) for pid in children if os.getsid(int(pid)) == int(pid))  # the load has no session of its own
        os.kill(guard, signal.SIGKILL)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


@pytest.mark.long
def test_tracefs_that_is_mounted_nowhere(server, tracing):
    """Debugfs is not mounted either; its counters give the number of requests."""
    script = f"umount {TRACING}; umount -l /sys/kernel/debug; exec {TRACE} kernel --json --run '{load(server, '-n', 5)}'"
    run = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["requests"] == 5


def test_no_module():
    mounted()
    run = trace("-d", "1s")
    assert run.returncode == 1 and "no module of rung's serves here: insmod rung_http.ko" in run.stderr


@pytest.mark.long
def test_which_module(start, site, server, tracing):
    one, two = server, start(site)
    run = trace("-d", "100ms")
    assert run.returncode == 1 and "there are 2 modules on rung_core: --module NAME says which" in run.stderr
    run = trace("--json", "--module", two.name, "--run", load(one, "-n", 5) + ";" + load(two, "-n", 6))
    assert run.returncode == 0 and json.loads(run.stdout)["requests"] == 6
    run = trace("--module", "tcp_diag", "-d", "100ms")
    assert run.returncode == 1 and "--module tcp_diag: there is no such module of rung's" in run.stderr
