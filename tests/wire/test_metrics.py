# SPDX-License-Identifier: MIT
"""The metrics listener (docs/metrics.md): what it shows, when it answers, and clients that mean harm."""
import contextlib
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time

import pytest
from cli import EXIT_LISTEN, EXIT_USAGE, as_root, begin, no_port, run, site  # noqa: F401
from lib.client import request
from lib.metrics import OPEN, PLAIN, Watch, address_of, connect, total
from lib.server import ENGINE, one_at_a_time, wait_for, workers_may_be_threads
from lib.trees import sparse

pytestmark = pytest.mark.userspace("a metrics listener")
any_engine = pytest.mark.any_engine("no engine knows of the metrics listener")
CLIENTS_MAX = 16  # METRICS_CLIENTS_MAX
HEAD_S = 2  # HEAD_MS of server/metrics.c
HERE = ["--metrics", "0"]
BIG = 64 << 20


def requests(found, method, status):
    return found[f'rung_requests_total{{method="{method}",status="{status}"}}']


def settled(watch, answers):
    """The page once that many answers were complete and all connections are closed."""
    def look():
        found = watch.read()
        return found["rung_answers_complete_total"] >= answers and not found["rung_connections_open"] and found
    return wait_for(look, f"{answers} answers complete")


# --- What it shows -----------------------------------------------------------------------------------------

@pytest.mark.core
# shows U25
def test_everything_is_counted_once(start, standard):
    """By method and class of status, with the laws of every page, on every engine."""
    server = start(standard, *HERE)
    watch = Watch(server)
    for target, method in [("/hello.txt", "GET")] * 3 + [("/none", "GET"), ("/hello.txt", "HEAD"), ("/", "OPTIONS"), ("/", "DELETE"),
                                                         ("/", "BREW"), ("/sub", "GET")]:
        server.ask(target, method=method)
    with server.wire() as wire:
        wire.send(b"nonsense\r\n\r\n")
        assert wire.reply().status == 400
    found = settled(watch, 10)
    assert requests(found, "GET", "2xx") == 3 and requests(found, "HEAD", "2xx") == 1
    assert requests(found, "OPTIONS", "2xx") == 1 and requests(found, "other", "5xx") == 1
    assert total(found, "rung_requests_total") == found["rung_answers_complete_total"] == 10
    assert found["rung_connections_accepted_total"] == 10 and found["rung_connections_open"] == 0
    assert found["rung_request_duration_seconds_count"] == 10 and found["rung_request_duration_seconds_sum"] > 0
    assert found["rung_sent_bytes_total"] > found["rung_sent_body_bytes_total"] > 3 * len("Hello")
    counters = server.stats()
    assert counters["answers"] == 10 and counters["bytes"] == found["rung_sent_bytes_total"]


@any_engine
def test_both_formats_have_the_same_samples(start, standard):
    watch = Watch(start(standard, *HERE))
    plain, opened = watch.read(plain=True), watch.read()
    assert plain.keys() == opened.keys()
    same = [name for name in plain if "uptime" not in name and "descriptors" not in name]
    assert {name: plain[name] for name in same} == {name: opened[name] for name in same}


@any_engine
@pytest.mark.parametrize("accept, plain", [
    (None, False), ("*/*", False), ("text/plain", True), ("application/openmetrics-text", False), ("text/*", True),
    ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
     "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", False),
    ("text/plain;version=0.0.4;q=0.5, application/openmetrics-text;q=0.4", True), ("text/plain;q=0, */*", False),
    ("application/openmetrics-text;q=0, */*;q=0.1", True), ("TEXT/PLAIN", True), ("image/png", False),
])
def test_accept_chooses_the_format(start, standard, accept, plain):
    watch = Watch(start(standard, *HERE))
    reply = watch.ask("/metrics", fields=[f"Accept: {accept}"] if accept else [])
    assert reply.status == 200 and reply["content-type"] == (PLAIN if plain else OPEN)


@any_engine
def test_head_has_the_length_and_no_body(start, standard):
    watch = Watch(start(standard, *HERE))
    reply = watch.ask("/metrics", method="HEAD")
    assert reply.status == 200 and reply.length > 1000 and not reply.body


@any_engine
@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
# shows U25
def test_promtool_has_nothing_to_say(start, standard):
    server = start(standard, *HERE)
    server.ask("/hello.txt")
    body = Watch(server).ask("/metrics", fields=["Accept: text/plain"]).body
    done = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and not done.stdout + done.stderr, done.stderr.decode()
    broken = subprocess.run(["promtool", "check", "metrics"], input=body + b"rung_x{ 1\n", capture_output=True, timeout=60, check=False)
    assert broken.returncode != 0


@any_engine
def test_the_parser_of_openmetrics_takes_it(start, standard):
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    server = start(standard, *HERE)
    server.ask("/hello.txt")
    text = Watch(server).ask("/metrics").body.decode()
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    assert families["rung_requests"].type == "counter" and families["rung_build"].type == "info"
    assert families["rung_request_duration_seconds"].unit == "seconds"
    with pytest.raises(ValueError):
        list(parser.text_string_to_metric_families(text.replace("# EOF", "")))


@any_engine
def test_the_cache_is_counted(start, tree):
    for name in "abc":
        with open(f"{tree}/{name}", "w", encoding="ascii") as file:
            file.write(name * 1000)
    server = start(tree, *HERE, "--compress", "off")
    watch = Watch(server)
    if not watch.read()["rung_cache_limit_bytes"]:
        pytest.skip("this arrangement keeps no answers")
    for _ in range(3):
        for name in "abc":
            assert server.ask(f"/{name}").status == 200
    found = settled(watch, 9)
    assert found["rung_cache_hits_total"] + found["rung_cache_misses_total"] == 9
    assert found["rung_cache_hits_total"] >= 3 and found["rung_cache_entries"] == 3
    assert found["rung_cache_fills_total"] - found["rung_cache_ends_total"] == 3
    assert 3000 < found["rung_cache_bytes"] < found["rung_cache_limit_bytes"] == 64 << 20
    os.unlink(f"{tree}/a")
    assert server.ask("/a").status == 404
    after = settled(watch, 10)
    assert after["rung_cache_entries"] == found["rung_cache_fills_total"] - 1 == 2 and after["rung_cache_bytes"] < found["rung_cache_bytes"]


@pytest.mark.capacity(3)
def test_descriptors_and_uptime(start, standard):
    server = start(standard, *HERE)
    watch = Watch(server)
    server.rest()
    before = watch.read()
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(server.wire()).ask("/hello.txt")
        found = watch.read()
        assert found["rung_descriptors_open"] >= before["rung_descriptors_open"] + 3
        assert found["rung_connections_open"] == 3
    assert found["rung_descriptors_open"] < found["rung_descriptors_limit"]
    assert 0 <= before["rung_uptime_seconds"] <= found["rung_uptime_seconds"] < 120
    assert abs(found["rung_start_time_seconds"] + found["rung_uptime_seconds"] - time.time()) < 60


def test_the_engine_and_its_stack(start, standard):
    server = start(standard, *HERE)
    server.ask("/hello.txt")
    found = settled(Watch(server), 1)
    assert any(f'engine="{ENGINE}"' in name for name in found if name.startswith("rung_engine_info"))
    assert ("rung_stack_most_bytes" in found) == (ENGINE == "coro")
    assert any('version="' in name for name in found if name.startswith("rung_build_info"))


def test_an_answer_that_was_cut_off(start, tree):
    """The answer is broken, not complete, and its time is not among the durations."""
    sparse(f"{tree}/big.bin", BIG, {})
    server = start(tree, *HERE)
    watch = Watch(server)
    with server.wire(rcvbuf=65536) as wire:
        wire.send(request("/big.bin"))
        assert wire.head().status == 200
        assert watch.read()["rung_answers_open"] == 1
    found = wait_for(lambda: (page := watch.read())["rung_answers_broken_total"] and page, "broken")
    assert found["rung_answers_complete_total"] == found["rung_request_duration_seconds_count"] == 0
    assert requests(found, "GET", "2xx") == 1


# --- When it answers ---------------------------------------------------------------------------------------

@pytest.mark.core
def test_health_says_ok(start, standard):
    watch = Watch(start(standard, *HERE))
    assert watch.health() == (200, "ok\n")
    assert watch.read()["rung_draining"] == 0


@pytest.mark.core
# shows U26
def test_while_all_places_are_taken(start, tree):
    """The public listener has no place, and others wait for one: the watcher notices nothing of it."""
    sparse(f"{tree}/big.bin", BIG, {})
    places = 1 if one_at_a_time() else 2
    server = start(tree, *HERE, "--max-connections", places, "--send-timeout", "60s")
    watch = Watch(server)
    with contextlib.ExitStack() as stack:
        for _ in range(places + 3):
            wire = stack.enter_context(server.wire(rcvbuf=4096))
            wire.send(request("/big.bin"))
        wait_for(lambda: watch.read()["rung_answers_open"] >= 1, "an answer under way")
        for _ in range(3):
            assert watch.health() == (200, "ok\n")
            assert watch.read()["rung_connections_open"] >= 1


@pytest.mark.core
def test_while_clients_come(start, standard):
    """An engine that forks does so while another thread answers the watcher: no child gets a lock that is held for ever."""
    server = start(standard, *HERE, "--head-timeout", "60s")
    watch, over = Watch(server), threading.Event()

    def look_on():
        while not over.is_set():
            watch.read()
    watcher = threading.Thread(target=look_on)
    watcher.start()
    try:
        for _ in range(300):
            assert server.ask("/hello.txt", fields=["Connection: close"]).status == 200
    finally:
        over.set()
        watcher.join()


@pytest.mark.core
def test_while_it_drains(start, tree):
    """503 from the first signal to the end, so that a balancer sends new clients elsewhere."""
    sparse(f"{tree}/big.bin", BIG, {})
    server = start(tree, *HERE, "--drain-timeout", "60s")
    watch = Watch(server)
    with server.wire(rcvbuf=65536) as wire:
        wire.send(request("/big.bin"))
        wire.head()
        kept = connect(watch.address)
        server.process.send_signal(signal.SIGTERM)
        server.wait_said("stopping")
        assert watch.health() == (503, "draining\n")
        found = watch.read()
        assert found["rung_draining"] == 1 and found["rung_answers_open"] == 1
        kept.close()
        wire.take(BIG)
        wire.end()
    server.finish()
    with pytest.raises(OSError):
        connect(watch.address)


@pytest.mark.processes
@pytest.mark.skipif(ENGINE not in ("epoll", "uring", "thread"), reason="three engines are enough for workers")
@pytest.mark.parametrize("sandbox", ["on", "off"])
def test_worker_processes(start, standard, sandbox):
    """Counters of all workers, and of those that died; a killed worker is missing until it is replaced.  In a sandbox no process
    sees another's descriptors."""
    server = start(standard, *HERE, "--workers", 2, "--workers-as", "process", "--sandbox", sandbox)
    watch = Watch(server)
    for _ in range(20):
        server.ask("/hello.txt")
    before = settled(watch, 20)
    assert requests(before, "GET", "2xx") == 20 and before["rung_workers_running"] == before["rung_workers"] == 2
    assert sandbox == "on" and not before.get("rung_descriptors_open") or before["rung_descriptors_open"] > 0
    with server.wire() as wire:
        wire.ask("/hello.txt")
        workers = [pid for pid in server.pids() if pid != server.pid]
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: watch.health() == (503, "no worker\n") or watch.read()["rung_connections_lost_total"], "the end was seen")
    wait_for(lambda: watch.health() == (200, "ok\n"), "another worker")
    found = wait_for(lambda: (page := watch.read())["rung_workers_running"] == 2 and page, "both workers")
    assert found["rung_connections_lost_total"] == 1 and requests(found, "GET", "2xx") == 21
    assert found["rung_cache_entries"] == 0 and found["rung_cache_bytes"] == 0
    server.process.send_signal(signal.SIGTERM)
    server.finish()


@pytest.mark.skipif(not workers_may_be_threads() or one_at_a_time(), reason="its workers are not threads")
def test_worker_threads(start, standard):
    server = start(standard, *HERE, "--workers", 3)
    for _ in range(20):
        server.ask("/hello.txt")
    found = settled(Watch(server), 20)
    assert requests(found, "GET", "2xx") == 20 and found["rung_workers_running"] == 3


# --- On the public listener --------------------------------------------------------------------------------

@pytest.mark.core
# shows U26
def test_health_where_the_folder_is_served(start, standard):
    server = start(standard, "--health")
    with server.wire() as wire:
        for _ in range(3):
            reply = wire.ask("/.rung/health")
            assert (reply.status, reply.body, reply["cache-control"]) == (200, b"ok\n", "no-cache")
            assert wire.ask("/hello.txt").status == 200
        assert wire.ask("/.rung/health?x").status == 200
        assert wire.ask("/.rung/health/").status == wire.ask("/.rung/").status == wire.ask("/metrics").status == 404
        assert wire.ask("/.rung/health", method="HEAD").length == 3


@any_engine
def test_it_is_off_by_default(start, standard):
    server = start(standard, *HERE)
    assert server.ask("/.rung/health").status == server.ask("/metrics").status == 404


def test_health_of_a_server_that_drains(start, tree):
    """A connection that was open before gets 503, and is closed with it."""
    sparse(f"{tree}/big.bin", BIG, {})
    if one_at_a_time():
        pytest.skip("it serves one connection at a time")
    server = start(tree, "--health", "--drain-timeout", "60s")
    with server.wire(rcvbuf=65536) as busy, server.wire() as wire:
        busy.send(request("/big.bin"))
        busy.head()
        half = request("/.rung/health")
        wire.send(half[:20])
        server.process.send_signal(signal.SIGTERM)
        server.wait_said("stopping")
        time.sleep(0.1)
        wire.send(half[20:])
        reply = wire.reply()
        assert (reply.status, reply.body, reply.closes) == (503, b"draining\n", True)
        busy.take(BIG)
    server.finish()


# --- Clients that mean harm --------------------------------------------------------------------------------

@any_engine
@pytest.mark.parametrize("sent, status", [
    (b"GET /metrics HTTP/1.1\r\n\r\n", 400), (b"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 405), (b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", 501),
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404), (b"GET /metrics/ HTTP/1.1\r\nHost: x\r\n\r\n", 404),
    (b"GET /../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", 404), (b"GET /hello.txt HTTP/1.1\r\nHost: x\r\n\r\n", 404),
    (b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n", 413), (b"\x16\x03\x01\x00\x05hello\r\n\r\n", 400),
    (b"GET /metrics HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 17000 + b"\r\n\r\n", 431),
])
def test_refusals(start, standard, sent, status):
    watch = Watch(start(standard, *HERE))
    with contextlib.closing(connect(watch.address)) as sock:
        sock.sendall(sent)
        assert sock.recv(4096).startswith(b"HTTP/1.1 %d " % status)
    assert watch.health() == (200, "ok\n")


@any_engine
def test_byte_by_byte_and_pipelined(start, standard):
    watch = Watch(start(standard, *HERE))
    with contextlib.closing(connect(watch.address)) as sock:
        for byte in request("/.rung/health") * 2:
            sock.sendall(bytes([byte]))
        answer = b""
        while answer.count(b"ok\n") < 2:
            more = sock.recv(4096)
            assert more
            answer += more


@any_engine
@pytest.mark.long
def test_silent_clients_are_closed(start, standard):
    watch = Watch(start(standard, *HERE))
    with contextlib.closing(connect(watch.address)) as silent, contextlib.closing(connect(watch.address)) as slow:
        began = time.monotonic()
        slow.sendall(b"GET /metrics HTTP/1.1\r\nHost:")
        assert silent.recv(1) == b"" and slow.recv(1) == b""
        assert time.monotonic() - began >= HEAD_S - 0.1


@any_engine
def test_a_crowd_does_not_keep_others_out(start, standard):
    """More clients than there are places: the one that has been silent longest loses its place, and the server has no more
    descriptors than that."""
    server = start(standard, *HERE)
    watch = Watch(server)
    server.rest()
    before = watch.read()["rung_descriptors_open"]
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(contextlib.closing(connect(watch.address))) for _ in range(3 * CLIENTS_MAX)]
        for _ in range(3):
            assert watch.health() == (200, "ok\n")
        assert watch.read()["rung_descriptors_open"] <= before + CLIENTS_MAX
        assert crowd[0].recv(1) == b""
        assert server.ask("/hello.txt").status == 200


@any_engine
def test_as_many_as_there_are_places_stay(start, standard):
    watch = Watch(start(standard, *HERE))
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(contextlib.closing(connect(watch.address))) for _ in range(CLIENTS_MAX)]
        for sock in crowd:
            sock.sendall(request("/.rung/health"))
        for sock in crowd:
            assert sock.recv(4096).startswith(b"HTTP/1.1 200 ")
        crowd[0].sendall(request("/.rung/health"))
        assert crowd[0].recv(4096).startswith(b"HTTP/1.1 200 ")


@any_engine
def test_clients_that_do_not_read(start, standard):
    """Clients ask for page after page; pages that they do not read are not made."""
    server = start(standard, *HERE)
    watch = Watch(server)
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            sock = stack.enter_context(contextlib.closing(connect(watch.address)))
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                for _ in range(10000):
                    sock.send(request("/metrics") * 50)
        memory = server.memory()
        assert watch.health() == (200, "ok\n")
        assert server.ask("/hello.txt").status == 200
        assert server.memory() < memory + (8 << 20)


# --- Where it listens --------------------------------------------------------------------------------------

@any_engine
def test_a_unix_socket(start, standard, tmp_path):
    path = str(tmp_path / "metrics")
    server = start(standard, "--metrics", f"unix:{path}", "--socket-mode", "600", "--port", "0")
    assert address_of(server) == path and stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert Watch(server).health() == (200, "ok\n")
    server.stop()
    assert not os.path.exists(path)


@as_root
@any_engine
def test_a_unix_socket_of_another_user(start, standard):
    """The socket belongs to that user, and root's process removes its name."""
    path = f"/run/rung-test-{os.getpid()}"
    server = start(standard, "--metrics", f"unix:{path}", "--user", "nobody", "--port", "0")
    assert os.stat(path).st_uid != 0 and Watch(server).health() == (200, "ok\n")
    found = Watch(server).read()
    assert found.get("rung_descriptors_open", 1) > 0
    server.stop()
    wait_for(lambda: not os.path.exists(path), "the name removed")


@any_engine
@pytest.mark.parametrize("text, host", [("0", "127.0.0.1"), ("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("localhost:0", "127.0.0.1"),
                                        ("*:0", "0.0.0.0")])
def test_addresses(start, standard, text, host):
    if host == "::1" and not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("no IPv6 here")
    watch = Watch(start(standard, "--metrics", text))
    assert watch.address[0] == host and watch.health() == (200, "ok\n")


@any_engine
@pytest.mark.parametrize("text", ["65536", "-1", "x", "", ":", "::1:80", "1.2.3.4.5:80", "127.0.0.1:", "127.0.0.1:65536", "unix:", "unix:" + 108 * "p",
                                  "host.example:80"])
def test_addresses_that_are_none(tree, text):
    done = run("serve", tree, "--port", "0", f"--metrics={text}")
    assert done.returncode == EXIT_USAGE, done.stderr


@any_engine
def test_an_address_that_is_taken(tree):
    with socket.create_server(("127.0.0.1", 0)) as other:
        done = run("serve", tree, "--port", "0", "--metrics", other.getsockname()[1])
    assert done.returncode == EXIT_LISTEN and re.search(r"cannot listen on \d+ for --metrics", done.stderr)


@any_engine
def test_the_highest_port(start, standard):
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", 65535)) as free:
        free.close()
        assert Watch(start(standard, "--metrics", "65535")).health() == (200, "ok\n")


def test_null_has_no_metrics(tree):
    done = run("serve", tree, "-e", "null", "--metrics", "0")
    assert done.returncode == EXIT_USAGE and "null" in done.stderr
