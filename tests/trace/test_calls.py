# SPDX-License-Identifier: MIT
"""--calls: the server's system calls by name, and those of no other process."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time

import pytest
from aid import DONE, FILE, LOAD, PATIENCE, SMALL, TRACE, USAGE, Lies, environment, exactly, request, rung, trace, traced_load, tracing

pytestmark = pytest.mark.usefixtures("traced")
REQUESTS = 500
ANSWERING = {"sendto", "sendmsg", "sendfile", "writev"}


def counts(summary):
    return {one["call"]: one["count"] for one in summary["calls"]}


@pytest.mark.parametrize("engine, waiting", [("epoll", "epoll_wait"), ("poll", "poll"), ("select", "pselect6"), ("thread", "recvfrom")])
# shows K31, N24, S13
def test_calls_of_an_engine(engine, waiting):
    """Each request takes one receive and one send."""
    with rung(engine) as port:
        run, served = traced_load(port, "-c", 2, "-n", REQUESTS, options=("--quiet", "--slowest", 0, "--calls"))
    assert served == run.summary["seen"] == REQUESTS
    found = counts(run.summary)
    sends = sum(found.get(name, 0) for name in ANSWERING)
    assert REQUESTS - 3 <= found["recvfrom"] <= REQUESTS + 20 and REQUESTS - 3 <= sends <= REQUESTS + 3, found
    assert found[waiting] > 0
    for one in run.summary["calls"]:
        assert 0 < one["count"] and one["max_ns"] <= one["ns"] <= one["count"] * one["max_ns"]  # 0 if none has returned
    times = [one["ns"] for one in run.summary["calls"]]
    assert times == sorted(times, reverse=True)
    assert sum(run.summary["switches"].values()) > 0 and run.summary["migrations"] >= 0


@pytest.mark.parametrize("engine", ["epoll", "poll", "thread", "pool"])
# shows E08
def test_an_echo_server_did_what_the_load_did(engine):
    """Each message takes a receive and a send; each connection takes one more receive, which reads its end."""
    clients, messages = 4, 400
    with rung(engine, echo=True) as port:
        with tracing("--json", "--quiet", "--slowest", 0, "--calls", port) as runs:
            done = subprocess.run([LOAD, "-o", "-", "-t", "1", "-c", str(clients), "-n", str(messages), f"echo://127.0.0.1:{port}"],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment(), timeout=PATIENCE, check=True)
            time.sleep(0.3)  # the ends of the connections are received, too
    asked, found = json.loads(done.stdout)["requests"], counts(runs[0].summary)
    assert asked["sent"] == asked["answered"] == messages
    assert found["sendto"] == messages and found["accept4"] >= clients, found
    assert messages + clients <= found["recvfrom"] <= messages + 2 * clients, found


def test_a_ring_makes_few():
    """One io_uring_enter() submits many operations."""
    with rung("uring") as port:
        run, served = traced_load(port, "-c", 16, "-n", REQUESTS, options=("--quiet", "--slowest", 0, "--calls"))
    found = counts(run.summary)
    assert served == run.summary["seen"] == REQUESTS
    assert found["io_uring_enter"] < 2 * REQUESTS and "recvfrom" not in found and found.get("sendto", 0) < REQUESTS / 10, found


def test_others_are_not_counted():
    """The calls of a busy process that has nothing to do with the port are left out."""
    with rung("epoll") as port, subprocess.Popen(["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=100000000"], stdin=subprocess.DEVNULL,
                                                 stderr=subprocess.DEVNULL) as busy:
        run, _ = traced_load(port, "-c", 1, "-n", 50, options=("--quiet", "--slowest", 0, "--calls"))
        busy.kill()
    found = counts(run.summary)
    assert found.get("write", 0) < 50 and found.get("read", 0) < 50 and found["recvfrom"] <= 60, found


def test_only_if_asked_for():
    with rung("epoll") as port:
        run, _ = traced_load(port, "-n", 5)
    assert not {"calls", "switches", "migrations"} & set(run.summary)


def test_as_text():
    with rung("epoll") as port:
        with tracing("-q", "--slowest", 0, "--calls", port) as runs:
            subprocess.run([LOAD, "-q", "-n", "40", f"http://127.0.0.1:{port}{FILE}"], check=True, env=environment(), timeout=PATIENCE)
    text = runs[0].out[runs[0].out.index("system calls of the server"):]
    assert re.search(r"^  +calls +a request +us each +us at most$", text, re.MULTILINE)
    assert re.search(r"^  recvfrom +\d+ +[01]\.\d\d +\d+\.\d +\d+\.\d$", text, re.MULTILINE), text
    assert re.search(r"^context switches a request: \d+\.\d\d waiting, \d+\.\d\d preempted; migrations a request: \d+\.\d\d$",
                     text, re.MULTILINE), text


def test_processes_that_come_and_go():
    """The calls of each connection's child are counted from its start to its end; the end is not counted as a wait."""
    with rung("fork") as port:
        for _ in range(5):  # on a busy machine a process may wait for another's lock, but not each time
            run, served = traced_load(port, "-c", 1, "-n", 100, "-k", "off", options=("--quiet", "--slowest", 0, "--calls"))
            if run.summary["switches"]["waiting"] < 3 * 100 + 50:
                break
    found = counts(run.summary)
    assert served == run.summary["seen"] == 100
    assert 100 <= found["recvfrom"] <= 220 and 100 <= found["exit_group"] <= 102 and found["accept4"] >= 100, found
    clones = sum(found.get(name, 0) for name in ("clone", "clone3", "fork", "vfork"))
    assert 100 <= clones <= 103, found
    # The parent waits for each connection, a child for its input; the end of a child is no wait.
    assert run.summary["switches"]["waiting"] < 3 * 100 + 50, run.summary["switches"]


def test_without_the_program_that_sees_receives():
    """The tracer finds the listening process without that program."""
    with rung("epoll") as port:
        run, _ = traced_load(port, "-c", 1, "-n", 50, options=("--quiet", "--slowest", 0, "--calls", "--without", "received"))
    assert 50 <= counts(run.summary)["recvfrom"] <= 60


def test_calls_and_requests_are_of_the_same_time():
    """After the trace's end neither is counted, even if the output is read late."""
    with rung("epoll") as port, subprocess.Popen([TRACE, "--calls", "-d", "1s", str(port)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                                 stderr=subprocess.PIPE, text=True, env=environment()) as late:
        assert "tracing port" in late.stderr.readline()
        for _ in range(2):
            subprocess.run([LOAD, "-q", "-n", "2000", f"http://127.0.0.1:{port}{FILE}"], check=True, env=environment(), timeout=PATIENCE)
            time.sleep(1.2)
        text = late.communicate(timeout=PATIENCE)[0]
    seen = int(re.search(r"^(\d+) requests seen at port", text, re.MULTILINE)[1])
    receives, each = re.search(r"^  recvfrom +(\d+) +(\d+\.\d\d) ", text, re.MULTILINE).groups()
    # Each connection has one more receive, which reads its end.
    assert 0 < seen <= 2100 and 0 <= int(receives) - seen <= 60 and 1 <= float(each) <= 1.05, (seen, receives, each)


# shows U43
def test_events_that_were_lost():
    """If events were lost, the number of requests is unknown, and nothing is divided by it."""
    with rung("epoll") as port, tracing("-q", "--slowest", 0, "--calls", "--ring", "4k", port) as runs:
        subprocess.run([LOAD, "-q", "-c", "64", "-n", "4000", f"http://127.0.0.1:{port}{FILE}"], check=True, env=environment(), timeout=PATIENCE)
    text = runs[0].out
    assert "events lost" in text and re.search(r"^  recvfrom +\d+ +- ", text, re.MULTILINE), text
    assert "context switches a request: - waiting, - preempted; migrations a request: -" in text


def test_nothing_was_asked():
    with rung("epoll") as port, tracing("--json", "--calls", port) as runs:
        pass
    assert not {"recvfrom", "sendto", "accept4"} & set(counts(runs[0].summary))


@pytest.mark.parametrize("more", [("--sample", 2), ("--count", 5)])
def test_not_of_some_requests(more):
    with rung("epoll") as port:
        run = trace("--calls", *more, port)
    assert run.status == USAGE and f"--calls and {more[0]}" in run.err and "all of them have to be traced" in run.err


# shows N24
def test_a_program_of_another_kind():
    """The server is not rung but this process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with tracing("--json", "--calls", port) as runs:
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
                there = listener.accept()[0]
                for _ in range(20):
                    client.sendall(request())
                    exactly(there, len(request()))
                    there.sendall(b"HTTP/1.1 204 X\r\n\r\n")
                    exactly(client, 18)
                there.close()
    assert runs[0].status == DONE and runs[0].summary["seen"] == 20
    found = counts(runs[0].summary)
    assert 57 <= found["sendto"] + found["recvfrom"] <= 90, found  # both ends are here


# shows S13
def test_how_long_each_call_took():
    """--histogram: the steps of each call hold all its calls that have returned; none is below 0 or beyond the longest."""
    with rung("epoll") as port:
        run, served = traced_load(port, "-c", 4, "-n", REQUESTS, options=("--quiet", "--slowest", 0, "--calls", "--histogram"))
    assert served == REQUESTS
    for one in run.summary["calls"]:
        steps = one["histogram"]
        assert all(begin < end and count >= 0 for begin, end, count in steps)
        assert [end for _, end, _ in steps[:-1]] == [begin for begin, _, _ in steps[1:]]
        assert one["count"] - 2 <= sum(count for *_, count in steps) <= one["count"], one  # one may not have returned
        if steps:
            assert steps[0][2] and steps[-1][2] and steps[-1][0] <= one["max_ns"] < steps[-1][1], one
            assert sum(begin * count for begin, _, count in steps) <= one["ns"] < sum(end * count for _, end, count in steps) + 1, one


def test_histograms_as_text():
    with rung("epoll") as port:
        with tracing("-q", "--slowest", 0, "--calls", "--histogram", port) as runs:
            subprocess.run([LOAD, "-q", "-n", "40", f"http://127.0.0.1:{port}{FILE}"], check=True, env=environment(), timeout=PATIENCE)
    text = runs[0].out[runs[0].out.index("system calls of the server"):]
    assert re.search(r"^recvfrom: microseconds, calls\n +[\d.]+ to [\d.]+ +\d+ +\d+\.\d%", text, re.MULTILINE), text


def test_no_histogram_of_calls_unless_asked():
    with rung("epoll") as port:
        run, _ = traced_load(port, "-n", 5, options=("--calls",))
    assert "histogram" not in run.summary["calls"][0]


# shows S13
def test_segments_that_were_sent_once_more():
    """The answer is sent in a separate network while its interface is down."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
        pytest.skip("it takes root, ip and unshare to have a network that can be broken")
    script = (f"ip link set lo up && cd {os.path.dirname(os.path.abspath(__file__))} && "
              f"exec {sys.executable} -B -c 'import test_calls; test_calls.lossy()'")
    done = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr


def lossy():
    """The test itself, which runs in that network."""
    with Lies() as server, tracing("--json", server.port) as runs:
        client, there = server.pair()
        client.sendall(request())
        exactly(there, len(request()))
        subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
        there.sendall(SMALL)
        time.sleep(0.3)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        exactly(client, len(SMALL))
    assert runs[0].summary["retransmits"] > 0 and runs[0].summary["seen"] == 1, runs[0].summary


def test_nothing_is_sent_twice():
    with rung("epoll") as port:
        run, _ = traced_load(port, "-n", 50)
        without, _ = traced_load(port, "-n", 5, options=("--without", "again"))
    assert run.summary["retransmits"] == 0 and without.summary["retransmits"] is None
