# SPDX-License-Identifier: MIT
"""How it waits and sends: each engine and each option of the group "How", with the programs that show what a process does."""
import json
import os
import re
import threading
import time

import pytest
from conftest import BIN, SITE, TEXT, curl, listening, needs, run, wait_for

pytestmark = needs("curl", "ps")
ENGINES = [row["name"] for row in json.loads(run(BIN, "engines", "--json")) if row["name"] != "null"]


def threads(server):
    return int(run("ps", "-o", "nlwp=", "-p", server.pid))


def children(server):
    return [int(word) for word in run("pgrep", "-P", server.pid, "-x", "rung", status=None).split()]


def whole(server):
    """curl gets small and large files, one after the other and side by side."""
    names = [name for name in SITE if not name.startswith(".") and name != "index.html"]
    for name in names:
        assert curl(f"{server.url}/{name}") == SITE[name]
    urls = [f"{server.url}/{name}" for name in names * 3]
    assert curl("-Z", "--parallel-max", "8", *urls).count("body { color: black }") == 3 * 200
    assert curl("-o", os.devnull, "-w", "%{size_download}", f"{server.url}/big.bin") == str(8 << 20)


def calls(serve, tmp_path, *args, names):
    """The system calls that strace saw while curl got two files."""
    server = serve(*args, before=["strace", "-f", "-qq", "-e", f"trace={names}", "-o", tmp_path / "trace"])
    whole(server)
    server.stop()
    return (tmp_path / "trace").read_text(errors="replace")


def test_the_engines_are_known():
    assert len(ENGINES) == 11


@pytest.mark.parametrize("engine", ["auto", *ENGINES])
def test_engine(serve, engine):
    server = serve("--engine", engine)
    whole(server)
    assert f"engine {engine}" in server.text() or engine == "auto"


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_workers(serve, kind):
    server = serve("--engine", "epoll", "--workers", "3", "--workers-as", kind)
    whole(server)
    assert (len(children(server)) if kind == "process" else threads(server)) >= 3


@needs("ss")
@pytest.mark.parametrize("how, each", [("shared", False), ("reuseport", True), ("steered", True)])
def test_accept(serve, how, each):
    server = serve("--engine", "epoll", "--workers", "2", "--accept", how)
    whole(server)
    assert len(listening(server, server.port)) == (2 if each else 1)


@needs("taskset")
def test_pin(serve):
    pinned = {}
    for word in ("on", "off"):
        server = serve("--engine", "epoll", "--workers", "2", "--pin", word)
        whole(server)
        said = [run("taskset", "-cp", thread) for thread in os.listdir(f"/proc/{server.pid}/task")]
        pinned[word] = sum(1 for line in said if line.strip().rpartition(" ")[2].isdigit())
    assert pinned["on"] >= 2 and (pinned["off"] == 0 or len(os.sched_getaffinity(0)) == 1)


def test_threads(serve):
    numbers = {number: threads(serve("--engine", "pool", "--threads", number)) for number in (2, 9)}
    assert numbers[9] - numbers[2] == 7


POOL = [["--pool-queue", "mutex"], ["--pool-queue", "lockfree"], ["--pool-queue", "accept"], ["--pool-queue", "mutex", "--queue-length", "4"],
        ["--pool-queue", "lockfree", "--pool-balance", "round-robin"], ["--pool-queue", "lockfree", "--pool-balance", "least-loaded"],
        ["--pool-queue", "mutex", "--pool-drain", "all"], ["--pool-queue", "mutex", "--pool-drain", "one"],
        ["--pool-queue", "mutex", "--pool-yield", "on"], ["--pool-queue", "mutex", "--pool-yield", "off"]]


@pytest.mark.parametrize("words", POOL, ids=" ".join)
def test_pool(serve, words):
    whole(serve("--engine", "pool", "--threads", "4", *words))


@needs("strace")
def test_nap_and_busy(serve, tmp_path):
    """An idle server of the engine nonblock sleeps as long as --nap says; epoll with --busy looks without sleeping first."""
    trace = tmp_path / "trace"
    server = serve("--engine", "nonblock", "--workers", "1", "--nap", "500ms", before=["strace", "-f", "-qq", "-e", "trace=clock_nanosleep,nanosleep", "-o", trace])
    whole(server)
    time.sleep(2)
    server.stop()
    assert re.search(r"tv_nsec=(500000000|4\d{8})", trace.read_text())
    seen = calls(serve, tmp_path, "--engine", "epoll", "--workers", "1", "--busy", "5000", names="epoll_wait,epoll_pwait,epoll_pwait2")
    assert re.search(r"epoll_p?wait2?\(.*\b0\b.*\) = ", seen)


@needs("strace")
@pytest.mark.parametrize("trigger, flag", [("level", ""), ("edge", r"EPOLLOUT\|EPOLLET"), ("oneshot", "EPOLL_CTL_MOD.*EPOLLONESHOT")])
def test_epoll_trigger(serve, tmp_path, trigger, flag):
    seen = calls(serve, tmp_path, "--engine", "epoll", "--epoll-trigger", trigger, names="epoll_ctl")
    assert [word for word in (r"EPOLLOUT\|EPOLLET", "EPOLL_CTL_MOD.*EPOLLONESHOT") if re.search(word, seen)] == [flag] * bool(flag)


@needs("strace")
@pytest.mark.parametrize("how, call", [("copy", "pread64|sendto|sendmsg|write"), ("mmap", "mmap"), ("sendfile", "sendfile"), ("splice", "splice")])
# shows U84
def test_send(serve, tmp_path, how, call):
    seen = calls(serve, tmp_path, "--engine", "epoll", "--send", how, names="pread64,read,sendto,sendmsg,write,writev,mmap,sendfile,splice")
    assert re.search(rf"\b({call})\(", seen)
    assert all(re.search(rf"\b{other}\(", seen) is None for other in ("sendfile", "splice") if other != how)


@needs("strace")
def test_socket_options(serve, tmp_path):
    def names(*words):
        return calls(serve, tmp_path, "--engine", "epoll", *words, names="setsockopt")
    assert "TCP_NODELAY, [1]" in names("--tcp-nodelay", "on") and "TCP_NODELAY, [1]" not in names("--tcp-nodelay", "off")
    assert "TCP_CORK, [1]" in names("--tcp-cork", "on") and "TCP_CORK, [1]" not in names("--tcp-cork", "off")
    assert "TCP_DEFER_ACCEPT, [7]" in names("--defer-accept", "7s") and "TCP_DEFER_ACCEPT" not in names("--defer-accept", "0")


@needs("strace")
def test_gather(serve, tmp_path):
    """The head and the body of a small file leave in one call, or in two."""
    def sends(word):
        seen = calls(serve, tmp_path, "--engine", "epoll", "--cache", "0", "--gather", word, names="sendto,sendmsg,write,writev")
        return sum(1 for line in seen.splitlines() if TEXT.strip() in line or "HTTP/1.1 200" in line)
    assert sends("on") < sends("off")


@needs("ss")
@pytest.mark.parametrize("name", ["reno", "cubic"])
def test_congestion(serve, name):
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as file:
        if name not in file.read().split():
            pytest.skip(f"this kernel has no {name}")
    server = serve("--congestion", name)
    download = threading.Thread(target=lambda: curl("--limit-rate", "4m", "-o", os.devnull, f"{server.url}/big.bin"))
    download.start()
    wait_for(lambda: f" {name} " in run("ss", "-tinH", "state", "established", f"sport = :{server.port}"), f"a connection with {name}")
    download.join()
