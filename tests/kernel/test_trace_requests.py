# SPDX-License-Identifier: MIT
"""rung trace on this kernel: requests to a module, to a server in user space and to nginx, each followed by its socket."""
import json
import os
import signal
import socket
import sys
import time

import pytest
from lib import crowd, fuse, module
from test_hung import PATIENT, PLACES, asking, folder, hung  # noqa: F401 (fixtures)

pytestmark = pytest.mark.usefixtures("one_processor")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "trace"), os.path.join(os.path.dirname(os.path.dirname(HERE)), "lab")]
import aid  # noqa: E402
import peers  # noqa: E402

REQUESTS = 300
PLAIN = ("-c", 4, "-n", REQUESTS)
SHAPES = [PLAIN, (*PLAIN, "-k", "off"), ("-c", 2, "-n", REQUESTS, "--pipeline", 8)]
OWN = ("parsed", "found")
HELD_S = 1


@pytest.fixture
def server(start, site):
    return start(site)


def whole(run, served):
    """Every request was seen once, with stages that add up."""
    assert served == run.summary["seen"] == run.summary["answered"] == len(run.requests) == REQUESTS, run.summary
    assert run.summary["lost_events"] == run.summary["cut"] == run.summary["merged"] == 0, run.summary
    for one in run.requests:
        aid.adds_up(one)
        assert one["status"] == 200 and one["target"].startswith("/hello.txt") and one["took_ns"]["out"] is not None, json.dumps(one)


def known(run, name):
    return run.summary["stages"][name]["known"]


@pytest.mark.parametrize("shape", SHAPES, ids=["kept", "closed", "pipelined"])
# shows S13, S14
def test_of_a_module(server, shape):
    """The module reports when it has parsed and found, as a server in user space does; no sentence says that it is missing."""
    run, served = aid.traced_load(server.port, *shape, url=f"http://127.0.0.1:{server.port}/hello.txt")
    whole(run, served)
    assert [known(run, name) for name in OWN] == [REQUESTS] * 2, run.summary
    assert known(run, "accepted") == len({one["connection"] for one in run.requests}), run.summary
    assert not any("parsed" in line or "accepted" in line for line in run.summary["lacks"]), run.summary["lacks"]
    assert {one["ordinal"] for one in run.requests if one["took_ns"]["head"] is None} <= {1}


def test_byte_by_byte(server):
    """A head that comes slowly is one request, and the time until it is complete belongs to `head`."""
    with aid.tracing("--json", server.port) as runs:
        with socket.create_connection(("127.0.0.1", server.port), aid.PATIENCE) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in b"GET /hello.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n":
                client.sendall(bytes([byte]))
            while client.recv(1 << 16):
                pass
    one, = runs[0].requests
    aid.adds_up(one)
    assert one["status"] == 200 and one["took_ns"]["head"] > 0


def test_stacks(server, tmp_path):
    """The kernel's own threads have stacks, too, and the module's functions are in them."""
    if module.MODEL == "softirq":
        pytest.skip("it has no thread: it answers in whatever process was interrupted")
    path = tmp_path / "folded"
    run, served = aid.traced_load(server.port, "-c", 4, "-n", 10 * REQUESTS, url=f"http://127.0.0.1:{server.port}/hello.txt",
                                  options=("--quiet", "--stacks", path))
    assert served == run.summary["seen"] == 10 * REQUESTS
    if any("sock_recv_length" in line for line in run.summary["lacks"]):
        pytest.skip("this kernel does not tell which threads receive")
    lines = path.read_text().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) > 10, lines
    for name in (";advance_[k]", ";tcp_sendmsg"):
        assert any(name in line for line in lines), (name, lines)
    assert not any(";main;" in line for line in lines), lines


@pytest.mark.parametrize("engine", ["epoll", pytest.param("thread", marks=pytest.mark.long), pytest.param("uring", marks=pytest.mark.long)])
# shows S13
def test_of_user_space(site, engine):
    """The server's own trace points are used, too; and its calls to the kernel are counted."""
    if module.MODEL != "event":
        pytest.skip("it asks no module: the guest of one model is enough")
    with aid.rung(engine, folder=site) as port:
        run, served = aid.traced_load(port, *PLAIN, url=f"http://127.0.0.1:{port}/hello.txt", options=("--calls",))
    whole(run, served)
    calls = {one["call"]: one["count"] for one in run.summary["calls"]}
    assert sum(run.summary["switches"].values()) > 0
    assert calls["io_uring_enter"] > 0 if engine == "uring" else calls["recvfrom"] >= REQUESTS, calls
    if not any("built without" in line or "no trace point" in line for line in run.summary["lacks"]):
        assert all(known(run, name) == REQUESTS for name in OWN), run.summary


def test_of_nginx(tmp_path):
    if module.MODEL != "event":
        pytest.skip("it asks no module: the guest of one model is enough")
    if reason := peers.available()["nginx-tuned"]:
        pytest.skip(reason)
    (tmp_path / "hello.txt").write_bytes(b"Hello, world\n")
    os.chmod(tmp_path, 0o755)
    with peers.Peer("nginx-tuned", str(tmp_path)) as server:
        run, served = aid.traced_load(server.port, *PLAIN, url=f"http://127.0.0.1:{server.port}/hello.txt")
        server.stop()
    whole(run, served)


def test_beside_user_space(server, site):
    """compare: a module and epoll, stage by stage, under the same load in turn."""
    with aid.rung("epoll", folder=site) as port, aid.tracing("compare", "--json", f"{server.port}=module", f"{port}=epoll") as runs:
        for one in server.port, port:
            aid.subprocess.run([aid.LOAD, "-q", "-t", "1", "-c", "2", "-n", "200", f"http://127.0.0.1:{one}/hello.txt"], check=True,
                               timeout=aid.PATIENCE, env=aid.environment())
    found = json.loads(runs[0].out)["compare"]
    assert [found[side]["answers"] for side in "ab"] == [200, 200] and found["a"]["lost_events"] == found["b"]["lost_events"] == 0
    for side in "ab":
        means = [found["stages"][name][side]["mean_ns"] or 0 for name in aid.STAGES if name not in ("head", "acked")]
        assert sum(means) == pytest.approx(found["answer"][side]["mean_ns"], abs=1)
    assert all(found["stages"][name]["a"]["known"] == 200 for name in OWN), found["stages"]


def test_what_waits_for_a_place(start, folder, hung):
    """More requests for another file system than it gets at a time: the wait belongs to `found`, not to `parsed`."""
    silent = hung((*fuse.FOUND, fuse.READ))
    server = start(folder, "--cross-mounts=on", *PATIENT)
    with aid.tracing("--json", server.port) as runs:
        silent.process.send_signal(signal.SIGSTOP)
        wires = asking(server, PLACES + 8)
        time.sleep(HELD_S)
        silent.process.send_signal(signal.SIGCONT)
        for wire in wires:
            wire.reply()
        crowd.leave(wires)
    assert len(runs[0].requests) == len(wires)
    for one in runs[0].requests:
        aid.adds_up(one)
        assert one["took_ns"]["found"] > HELD_S * 5e8 > one["took_ns"]["parsed"], one


def test_times_are_the_request_s_own(start, site):
    """A file in memory is found at once, and so is a page of refusal; a later request that looks for nothing gets no time of them."""
    server = start(site)
    with server.wire() as one, server.wire() as other:
        for _ in range(3):
            one.ask("/hello.txt")
        with aid.tracing("--json", server.port) as runs:
            for _ in range(5):
                assert one.ask("/hello.txt", fields=["Range: bytes=999999-"]).status == 416
                assert other.ask("*", "OPTIONS").status in (200, 204)
    for request in runs[0].requests:
        assert request["took_ns"]["parsed"] is not None and (request["took_ns"]["found"] is not None) is (request["status"] == 416), request


def test_what_is_refused(start, site):
    """A refused request has no search; every other one has, whether its target is found or not."""
    server = start(site, "--cache=0")
    with aid.tracing("--json", server.port) as runs, server.wire() as wire:
        for target in ("/hello.txt", "/list/", "/missing", "/%00"):
            wire.ask(target)
    by = {one["target"]: one for one in runs[0].requests}
    for target in ("/hello.txt", "/list/", "/missing"):
        aid.adds_up(by[target])
        assert by[target]["took_ns"]["parsed"] is not None and by[target]["took_ns"]["found"] > 0, by[target]
    assert by["/%00"]["status"] == 400 and by["/%00"]["took_ns"]["found"] is None
