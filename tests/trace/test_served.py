# SPDX-License-Identifier: MIT
"""The trace sees every request served, however the server waits; stages are in order and add up."""
import os
import re
import shutil
import socket
import subprocess
import time

import pytest
from aid import FILE, PATIENCE, RUNG, TOP, TRACE, adds_up, environment, rung, traced_load

ENGINES = ("epoll", "uring", "thread", "dispatch", "coro")
pytestmark = pytest.mark.usefixtures("traced")


def complete(run, served):
    """Asserts that the trace has every request served, whole and once."""
    count = run.summary
    assert count["seen"] == count["shown"] == count["answered"] == served == len(run.requests), count
    assert not any(count[name] for name in ("merged", "late", "lost_events", "gaps", "crowded", "cut", "open")), count
    assert len({(one["connection"], one["ordinal"]) for one in run.requests}) == served
    for one in run.requests:
        adds_up(one)
        took = one["took_ns"]
        assert one["status"] == 200 and one["method"] == "GET" and one["target"] == FILE
        assert isinstance(took["read"], int) and isinstance(took["out"], int) and isinstance(took["acked"], int), one
        assert one["queued_ns"] and one["queued_all_ns"] >= one["queued_ns"], one


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
@pytest.mark.parametrize("kept", ["on", "off"])
def test_seen_is_served(engine, host, kept):
    with rung(engine, "--bind", host.strip("[]")) as port:
        run, served = traced_load(port, "-c", 8, "-n", 400, "-k", kept, url=f"http://{host}:{port}{FILE}")
    assert served == 400
    complete(run, served)
    assert {one["peer"].rpartition(":")[0] for one in run.requests} == {host}
    assert len({one["connection"] for one in run.requests}) == (8 if kept == "on" else 400)
    assert sum(stage["known"] for stage in run.summary["stages"].values()) > 4 * served


@pytest.mark.parametrize("engine", ("epoll", "uring"))
def test_a_worker_that_slept_was_woken(engine):
    """At a low rate the worker sleeps before each request."""
    with rung(engine) as port:
        run, served = traced_load(port, "-c", 2, "-R", 100, "-n", 100)
    complete(run, served)
    woken = [one for one in run.requests if isinstance(one["took_ns"]["woken"], int)]
    assert len(woken) > served // 2
    assert all(isinstance(one["took_ns"]["running"], int) and one["thread"] for one in woken)


def test_two_workers():
    with rung("epoll", "--workers", 2) as port:
        run, served = traced_load(port, "-c", 8, "-n", 400)
    complete(run, served)


def test_a_large_file(tmp_path):
    """An answer of many packets: the last byte leaves after the first."""
    (tmp_path / "large").write_bytes(b"x" * (20 << 20))
    with subprocess.Popen([RUNG, "serve", tmp_path, "-e", "epoll", "--port", "0"], stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, env=environment()) as server:
        port = int(re.search(r"http://[^ ]*:(\d+)/", server.stderr.readline())[1])
        run, served = traced_load(port, "-c", 1, "-n", 3, url=f"http://127.0.0.1:{port}/large")
        server.terminate()
    assert run.summary["seen"] == served == 3
    for one in run.requests:
        adds_up(one)
        assert one["answer_bytes"] > 20 << 20 and one["took_ns"]["done"] > 0 and one["ended"] == "answered"


def test_nginx(tmp_path):
    """A server without support for tracing."""
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    if not os.path.exists(nginx):
        pytest.skip("nginx is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "conf").write_text(f"""daemon off; worker_processes 1; pid {tmp_path}/pid; error_log {tmp_path}/error;
        events {{}} http {{ access_log off; tcp_nopush on; sendfile on; keepalive_requests 100000;
        server {{ listen 127.0.0.1:{port}; root {TOP}/www; }} }}""")
    os.chmod(tmp_path, 0o755)
    with subprocess.Popen([nginx, "-c", tmp_path / "conf", "-e", tmp_path / "error", "-g", "user root;"], stdin=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + PATIENCE
            while socket.socket().connect_ex(("127.0.0.1", port)):
                assert time.monotonic() < deadline and server.poll() is None
                time.sleep(0.01)
            run, served = traced_load(port, "-c", 4, "-n", 400)
            complete(run, served)
            run, served = traced_load(port, "-c", 4, "-n", 400, "-k", "off")
            complete(run, served)
        finally:
            server.terminate()
            server.wait(PATIENCE)


def test_control_groups_that_are_mounted_nowhere():
    """In a container or a chroot the tracer mounts the control groups for itself, where no other process sees them."""
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        aside = ["unshare", "--mount"] if "cgroup2" in mounts.read() else []  # otherwise none is mounted, as the test needs
    with rung("epoll") as port:
        lines = f"""umount -a -t cgroup2; grep -q cgroup2 /proc/self/mounts && exit 77
            "{TRACE}" --json --count 1 -d 20s {port} & sleep 0.2
            while kill -0 $! 2>/dev/null; do curl -s -o /dev/null http://127.0.0.1:{port}{FILE}; sleep 0.1; done; wait $!"""
        done = subprocess.run([*aside, "sh", "-c", lines], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=environment(), timeout=PATIENCE, check=False)
    if done.returncode == 77:
        pytest.skip("the control groups cannot be unmounted here")
    assert done.returncode == 0 and f'"target":"{FILE}"' in done.stdout.replace(" ", ""), done
