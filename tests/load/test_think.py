# SPDX-License-Identifier: MIT
"""Pauses between an answer and the next request of its connection (--think)."""
import collections
import time

from aid import DONE, OK, Liar, Witness, load, measured, rung


def gaps(server):
    """Seconds between successive requests of a connection."""
    by = collections.defaultdict(list)
    for request in server.asked:
        by[request.connection].append(request.at)
    return [later - earlier for times in by.values() for earlier, later in zip(times, times[1:])]


def test_a_constant_pause():
    with Witness(lambda request: OK) as server:
        run = measured("-n", 24, "-c", 4, "--think", "150ms", "--thinking", "constant", server.url)
        assert run.status == DONE and len(gaps(server)) == 20 and min(gaps(server)) >= 0.149
    assert run.json["workload"]["think_ms"] == 150 and run.json["workload"]["thinking"] == "constant"
    assert run.json["service_us"]["p50"] < 150e3  # the pause is in no latency


def test_exponential_pauses():
    """Five milliseconds on average, many shorter and some longer."""
    with Witness(lambda request: OK) as server:
        run = measured("-n", 400, "-c", 1, "--think", "5ms", server.url)
        found = sorted(gaps(server))
        assert run.json["workload"]["thinking"] == "exponential" and run.status == DONE
        assert "think      5ms in the mean, exponential, between" in load("-n", 1, "--think", "5ms", server.url).out
    assert sum(found) / len(found) >= 0.004 and found[len(found) // 10] < 0.0035 and found[-20] > 0.010


def test_who_loses_the_connection_thinks_on():
    """The server closes while the client thinks: the client reconnects and sends its request when the pause is over."""
    times = []

    def answer(sock, _):
        times.append(time.monotonic())
        sock.sendall(OK)
        return False
    with Liar(answer) as liar:
        run = measured("-n", 4, "-c", 1, "--think", "200ms", "--thinking", "constant", liar.url)
    assert run.status == DONE and run.json["connects"]["closed_while_idle"] >= 3
    assert min(later - earlier for earlier, later in zip(times, times[1:])) >= 0.199


# shows T03
def test_sessions_and_the_end_of_a_run(site):
    """A session is the requests of one connection; a client that is thinking at the end is not waited for."""
    with Witness(lambda request: OK) as server:
        run = measured("-n", 12, "-c", 2, "--requests-per-connection", 3, "--think", "100ms", "--thinking", "constant",
                       server.url)
        by = collections.Counter(request.connection for request in server.asked)
        assert sum(by.values()) == 12 and max(by.values()) == 3 and run.json["connects"]["made"] >= 4
        assert len(gaps(server)) == 8 and min(gaps(server)) >= 0.099
    with rung("serve", "-p", 0, site) as server:
        run = measured("-d", "500ms", "-c", 3, "--think", "1h", "--thinking", "constant", f"http://127.0.0.1:{server.port}")
        assert run.json["requests"]["answered"] == 3 and run.json["elapsed_s"] < 30 and run.status == DONE
    with rung("echo", "-p", 0) as echo:
        run = measured("-n", 20, "-c", 2, "--think", "10ms", f"echo://127.0.0.1:{echo.port}")
        assert run.status == DONE and run.json["requests"]["answered"] == 20
