# SPDX-License-Identifier: MIT
"""The output of other load generators is read correctly or refused, and the calls that strace logged are counted by name."""
import json
import os
import shutil
import subprocess
import sys
import time

import askers
import counts
import kind_ab
import kind_calls
import kind_generators
import measures
import peers
import pytest
import rig
import sample
from command import TOP

BIN = os.path.dirname(os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung"))

AB = """Document Length:        241 bytes

Concurrency Level:      500
Time taken for tests:   0.927 seconds
Complete requests:      10000
Failed requests:        0
Keep-Alive requests:    10000
Requests per second:    10784.81 [#/sec] (mean)
Time per request:       46.361 [ms] (mean)
Time per request:       0.093 [ms] (mean, across all concurrent requests)
"""

H2LOAD = """finished in 1.00s, 20645.00 req/s, 24.81MB/s
requests: 20645 total, 20677 started, 20645 done, 20645 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 20677 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 24.81MB (26012700) total, 2.92MB (3055460) headers (space savings 0.00%), 20.16MB (21140480) data
                     min         max         mean         sd        +/- sd
time for request:      201us     14.45ms      1.53ms      1.43ms    89.60%
time for connect:      127us      1.26ms       796us       329us    59.38%
"""

WRK = """Running 10m test @ http://127.0.0.1:1/file.bin
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     7.34ms   14.22ms  88.31ms   86.55%
    Req/Sec    17.36k     5.18k   24.11k    63.64%
  Latency Distribution
     50%  980.00us
     99%    2.50ms
  17224 requests in 1.12s, 20.65MB read
"""

TRACE = """7 socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 4
7 setsockopt(4, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0
7 listen(4, 511) = 0
7 setsockopt(4, SOL_TCP, TCP_DEFER_ACCEPT, [30], 4) = 0
8 epoll_wait(5,  <unfinished ...>
9 accept4(4, NULL, NULL, SOCK_NONBLOCK) = 3
8 <... epoll_wait resumed>[...], 512, -1) = 1
9 setsockopt(3, SOL_TCP, TCP_NODELAY, [1], 4) = 0
9 writev(3, [...], 2) = 1024
9 --- SIGTERM {si_signo=SIGTERM, si_code=SI_USER} ---
9 +++ exited with 0 +++
"""


def test_ab():
    assert askers.ab_told(AB) == askers.Answer(10000, 0, 0.927, 46361)
    assert askers.ab_told(AB.replace("Failed requests:        0", "Failed requests:        3")).failed == 3
    assert askers.ab_told(AB + "Non-2xx responses:      7\n").failed == 7
    with pytest.raises(rig.Broken, match="ab does not tell done"):
        askers.ab_told("apr_socket_recv: Connection reset by peer (104)\nTotal of 12 requests completed\n")


def test_h2load():
    assert askers.h2load_told(H2LOAD) == askers.Answer(20645, 0, 1.0, 1530)
    assert askers.h2load_told(H2LOAD.replace("0 4xx", "9 4xx").replace("0 failed", "2 failed")).failed == 11
    assert askers.h2load_told(H2LOAD.replace("0 5xx", "4 5xx")).failed == 4
    for text in ("", H2LOAD.replace("time for request", "time"), H2LOAD.replace("20645.00 req/s", "0 req/s")):
        with pytest.raises(rig.Broken, match="^h2load"):
            askers.h2load_told(text)


# shows N20
def test_wrk_and_rung_load():
    assert askers.wrk_told(WRK) == askers.Answer(17224, 0, 1.12, 7340)
    told = {"requests": {"answered": 5}, "errors": {"total": 2}, "elapsed_s": 0.5, "latency_us": {"mean": 70.5}}
    assert askers.load_told(json.dumps(told)) == askers.Answer(5, 2, 0.5, 70.5)
    assert askers.wrk_told(WRK.replace("1.12s", "601.20ms").replace("7.34ms", "1.50s")) == askers.Answer(17224, 0, 0.6012, 1.5e6)
    for text in ("", "unable to connect to 127.0.0.1:1 Connection refused\n", WRK.replace("17224 requests", "0 requests"),
                 WRK + "  Non-2xx or 3xx responses: 4\n", WRK + "  Socket errors: connect 0, read 3, write 0, timeout 0\n"):
        with pytest.raises(rig.Broken, match="^wrk: "):
            askers.wrk_told(text)
    for text in ("", "{}", "rung: connect: Connection refused"):
        with pytest.raises(rig.Broken, match="^rung load: "):
            askers.load_told(text)


def test_a_generator_that_does_not_end():
    with pytest.raises(rig.Broken, match="did not end within 0 s"):
        askers.ran([sys.executable, "-c", "import time; time.sleep(60)"], None, 0.1)


def test_a_trace():
    calls, once = kind_calls.told(TRACE)
    assert calls == {"socket": 1, "setsockopt SO_REUSEADDR": 1, "listen": 1, "setsockopt TCP_DEFER_ACCEPT": 1, "epoll_wait": 1,
                     "accept4": 1, "setsockopt TCP_NODELAY": 1, "writev": 1}
    assert once == {"SO_REUSEADDR [1]": 1, "TCP_DEFER_ACCEPT [30]": 1}
    with pytest.raises(rig.Broken, match="strace saw no call"):
        kind_calls.told("strace: exec: Permission denied\n")


def test_counts_of_rounds():
    """The median of each name is shown.  A round without the name counts as zero; an invalid cell stays invalid."""
    def cell(number, found, error=None, target="a"):
        return {"target": target, "scenario": "s", "round": number, "figures": {}, "error": error, "counts": {"Calls_": found}}
    cells = [cell(0, {"read": 1, "futex": 2}), cell(1, {"read": 1}), cell(2, {"read": 1.004, "futex": 0.5, "times": 9}),
             cell(0, {"read": 1}, "it died", "b"), {**cell(0, {}, target="c"), "counts": {"Calls_": {}}}]
    result = {"cells": cells, "plan": {"target": [{"name": name} for name in "abc"], "scenario": [{"name": "s"}, {"name": "t"}]}}
    found, = counts.tables(result)
    assert found.caption == "Calls_" and [(name, cells[0].text) for name, cells in found.rows] == [
        ("a", "futex × 0.5, read"), ("b", "invalid"), ("c", "none")]


# --- Small, from end to end ---------------------------------------------------------------------------------

@pytest.fixture
def context(tmp_path):
    return measures.Context(BIN, str(tmp_path), "quick")


def wants(*tools):
    missing = [tool for tool in tools if not shutil.which(tool, path=peers.PATH)]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@wants("strace")
@pytest.mark.parametrize("close", [False, True])
def test_calls_of_our_own(context, close):
    found = kind_calls.measure(context, {"name": "epoll", "engine": "epoll"}, {"name": "s", "close": close}, 1)
    calls, options = list(found["counts"].values())
    sends = calls.get("sendto", 0) + calls.get("sendmsg", 0)
    assert 0.8 < sends < 1.2 and found["figures"]["calls"] > 3 and ("accept4" in calls) == close
    assert options["TCP_NODELAY [1]"] == 1  # on the listener: connections inherit it, and no call sets it for each


@wants("strace")
def test_how_many_are_asked(context, monkeypatch):
    """The calls that each thread makes once belong to no request, so a scenario may ask for longer runs (short, long)."""
    asked, ask = [], kind_calls.ask
    monkeypatch.setattr(kind_calls, "ask", lambda port, count, close: asked.append(count) or ask(port, count, close))
    found = kind_calls.measure(context, {"name": "epoll", "engine": "epoll"}, {"name": "s", "short": 3, "long": 7}, 1)
    calls = found["counts"]["System calls of a request on a kept connection"]
    assert asked == [3, 7] and calls.get("sendto", 0) + calls.get("sendmsg", 0) == 1


def is_rung(pid):
    try:
        return rig.text_of(f"/proc/{pid}/comm") == "rung\n"
    except OSError:
        return False


@wants("strace")
def test_nobody_outlives_whoever_traces(tmp_path):
    """By default a strace that writes to a file blocks the signals that would end it."""
    code = f"""import sys; sys.path.insert(0, {TOP + "/lab"!r})
import kind_calls, measures
kind_calls.measure(measures.Context({BIN!r}, {str(tmp_path)!r}, "quick"), {{"name": "epoll", "engine": "epoll"}}, {{"long": 10 ** 6, "short": 10 ** 6}}, 1)"""
    with subprocess.Popen([sys.executable, "-B", "-c", code]) as process:
        end, pids = time.monotonic() + 30, []
        while not any(map(is_rung, pids)) and time.monotonic() < end:  # strace first probes its features in a child
            pids = rig.family(process.pid)
            time.sleep(0.01)
        process.kill()
    assert len(pids) == 3  # the lab, strace, the server
    end = time.monotonic() + 60
    while any(map(rig.lives, pids)):
        assert time.monotonic() < end
        time.sleep(0.01)


@wants("strace", "nginx")
@pytest.mark.parametrize("peer, more", [("nginx-sendfile", []), ("nginx-sendfile-opened", ["close", "newfstatat", "openat"])])
def test_calls_of_a_peer(context, peer, more):
    """The file stays open, or is opened for each request."""
    found = kind_calls.measure(context, {"name": "nginx", "peer": peer}, {"name": "s"}, 1)
    calls = found["counts"]["System calls of a request on a kept connection"]
    assert {name: round(count) for name, count in calls.items() if count > 0.3} == dict.fromkeys(
        ["epoll_wait", "recvfrom", "sendfile", "writev", *more], 1)
    assert 3.5 < found["figures"]["calls"] - len(more) < 5


@wants("ab", "nginx")
# shows S08
def test_ab_against_both(context):
    scenario = {"name": "s", "connections": 20, "requests": 200, "bytes": 241}
    for target in ({"name": "epoll", "engine": "epoll"}, {"name": "nginx", "peer": "nginx-tuned"}):
        figures = kind_ab.measure(context, target, scenario, 1)["figures"]
        assert figures["failed"] == 0 and figures["per_second"] > 0 and figures["cpu_us"] > 0 and figures["mean_us"] > 0


@wants("wrk", "h2load", "ab", "nginx")
@pytest.mark.parametrize("name", askers.ASKERS)
def test_generators(context, name):
    figures = kind_generators.measure(context, {"name": name, "generator": name}, {"name": "s", "connections": 3}, 0.3)["figures"]
    assert all(figures[key] > 0 for key in ("per_second", "generator_us", "cpu_us", "mean_us"))
