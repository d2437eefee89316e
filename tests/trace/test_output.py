# SPDX-License-Identifier: MIT
"""The output: lines, the summary after SIGINT, filters, limits, lost events and missing stages."""
import re
import subprocess

import pytest
from aid import DONE, FILE, LOAD, Lies, environment, exactly, request, rung, trace, traced_load, tracing

pytestmark = pytest.mark.usefixtures("traced")


def talk(server, *statuses):
    """On one connection, makes a request for /0, /1 and so on, each answered with the next status."""
    client, there = server.pair()
    for number, status in enumerate(statuses):
        asked = request(f"/{number}")
        answer = b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status
        client.sendall(asked)
        exactly(there, len(asked))
        there.sendall(answer)
        exactly(client, len(answer))
    client.close()


# shows U42
def test_sigint_ends_with_the_summary():
    with Lies() as server, tracing(server.port) as runs:
        talk(server, 200, 404)
    run = runs[0]
    assert run.status == DONE
    assert " 200 GET /0 " in run.out and " 404 GET /1 " in run.out
    assert f"2 requests seen at port {server.port} in " in run.out and "microseconds in each stage" in run.out
    assert run.out.index("requests seen") > run.out.index("404 GET /1")


def test_quiet_prints_no_lines():
    with Lies() as server, tracing("-q", "--slowest", 0, server.port) as runs:
        talk(server, 200)
    assert runs[0].out.startswith("1 requests seen") and "GET /0" not in runs[0].out


@pytest.mark.parametrize("args, kept", [(("--status", "404"), ["/1"]), (("--status", "4xx"), ["/1", "/2"]), (("--path", "/[02]"), ["/0", "/2"]),
                                        (("--slower", "60000000"), []), (("--slower", "1"), ["/0", "/1", "/2"])])
def test_filters(args, kept):
    with Lies() as server, tracing("--json", *args, server.port) as runs:
        talk(server, 200, 404, 410)
    assert [one["target"] for one in runs[0].requests] == kept
    assert runs[0].summary["seen"] == 3 and runs[0].summary["shown"] == len(kept)


def test_the_slowest_are_sorted():
    with rung("epoll") as port:
        run, _ = traced_load(port, "-c", 4, "-n", 100, options=("--slowest", 3))
    slow = [one["server_ns"] for one in run.summary["slowest"]]
    assert slow == sorted((one["server_ns"] for one in run.requests), reverse=True)[:3]


def test_a_number_of_requests():
    with rung("epoll") as port, subprocess.Popen([LOAD, "-q", "-d", "20s", f"http://127.0.0.1:{port}{FILE}"], env=environment()) as load:
        run = trace("--json", "-n", 7, port)
        load.terminate()
        load.wait()
    assert run.status == DONE and len(run.requests) == run.summary["shown"] == 7


# shows U43
def test_a_full_ring_is_counted():
    """Events that did not fit are counted, and no request is shown with another one's answer."""
    with rung("epoll") as port:
        run, served = traced_load(port, "-c", 64, "-n", 20000, options=("--ring", "4096"))
    count = run.summary
    assert count["lost_events"] > 0 and count["seen"] < served
    assert count["answered"] + count["merged"] + count["open"] + count["cut"] >= count["shown"]


def test_left_out_is_missing():
    """Stages whose program is left out are reported as missing, not as zero or busy."""
    with rung("epoll") as port:
        run, served = traced_load(port, "-c", 2, "-n", 50, options=("--without", "waking", "--without", "sent"))
    assert served == len(run.requests) == 50
    assert all(one["took_ns"]["woken"] is None and one["took_ns"]["running"] is None and one["queued_ns"] is None
               for one in run.requests)
    lacks = [sentence for sentence in run.summary["lacks"] if "accept4" not in sentence]  # tracing accept4 needs a tracefs
    assert len(lacks) == 2 and "woken and running" in " ".join(lacks)


def test_a_sample_of_connections():
    """A connection is traced as a whole or not at all; about one in four is."""
    with rung("epoll") as port:
        run, served = traced_load(port, "-c", 4, "-n", 400, "-k", "off", options=("--sample", 4))
    assert served == 400 and 50 < run.summary["seen"] < 200
    assert {one["ended"] for one in run.requests} == {"answered"}


def test_its_own_cost():
    with rung("epoll") as port:
        run, served = traced_load(port, "-c", 4, "-n", 400, options=("--cost",))
    cost = {one["program"]: one for one in run.summary["cost"]}
    assert served == 400 and cost["arrived"]["runs"] >= 400 and cost["sent"]["ns"] > 0
    assert run.summary["events"] >= 4 * served


def test_lines_do_not_pay_for_what_they_do_not_show():
    with rung("epoll") as port, tracing("--cost", "-q", port) as runs:
        pass
    costs = runs[0].out[runs[0].out.index("cost in the kernel"):]
    assert " received " in costs and " sent " not in costs and not re.search("missing: .*queued", runs[0].out)
