# SPDX-License-Identifier: MIT
"""Metrics by host (docs/metrics.md): which host the answers and their bytes are counted for, and the sums over all hosts."""
import contextlib
import os
import shutil
import signal
import subprocess
import threading

import pytest
from lib import h2 as http2
from lib.client import request
from lib.metrics import Watch, check_laws, total
from lib.secured import EVERYWHERE
from lib.server import ENGINE, one_at_a_time, wait_for, workers_may_be_threads
from lib.trees import sparse, write

from test_hosts import NAMES, ask, file, hosts, places, table  # noqa: F401 (fixtures among them)
from test_metrics import BIG, HERE, settled

pytestmark = [pytest.mark.userspace("a configuration file"),
              pytest.mark.skipif(EVERYWHERE, reason="its clients connect for one name and ask for others")]
any_engine = pytest.mark.any_engine("what is counted does not depend on it")
CLASSES = ["2xx", "3xx", "4xx", "5xx"]


def by_host(found, status):
    """{host: answers of that class}, without those that have none."""
    prefix, end = 'rung_host_requests_total{host="', f'",status="{status}"}}'
    return {name.removeprefix(prefix).removesuffix(end): count for name, count in found.items()
            if name.startswith(prefix) and name.endswith(end) and count}


def body_bytes(found, host):
    return found[f'rung_host_sent_body_bytes_total{{host="{host}"}}']


def ask_all(server):
    """Ten requests; a, b and c stand for the first names of the hosts."""
    with server.wire() as wire:
        for host, target, method in [("a.example", "/f.txt", "GET"), ("b.example", "/f.txt", "GET"), ("b.example", "/f.txt", "HEAD"),
                                     ("www.b.example", "/sub", "GET"), ("deep.a.example", "/none", "GET"), ("deep.a.example", "/f.txt", "POST"),
                                     ("x.a.example", "/f.txt", "OPTIONS"), ("other.example", "/f.txt", "GET"), ("b.example", "/large", "GET")]:
            ask(wire, host, target, method)
        wire.send(b"nonsense\r\n\r\n")
        assert wire.reply().status == 400


COUNTED = {"2xx": {"a.example": 3, "b.example": 3}, "3xx": {"b.example": 1}, "4xx": {"a.example": 1, "deep.a.example": 2}, "5xx": {}}


@pytest.mark.core
# shows U60
def test_everything_is_counted_for_its_host(hosts):
    """And the sums are what the server counts without hosts, which are counters of their own."""
    server = hosts(args=HERE)
    watch = Watch(server)
    ask_all(server)
    found = settled(watch, 10)
    assert {status: by_host(found, status) for status in CLASSES} == COUNTED
    counters = server.stats()
    assert counters["answers"] == total(found, "rung_host_requests_total") == 10
    assert counters["body_bytes"] == total(found, "rung_host_sent_body_bytes_total") > 400_000
    assert 400_000 < body_bytes(found, "b.example") < 401_000


@any_engine
def test_names_of_clients_are_no_labels(hosts):
    """However many names clients invent, a page has as many samples as before."""
    server = hosts(args=HERE)
    watch = Watch(server)
    before = watch.read()
    with server.wire() as wire:
        for number in range(300):
            assert ask(wire, f"x{number}.example").status == 200
            assert ask(wire, f"y{number}.a.example").status == 200
    found = settled(watch, 600)
    assert found.keys() == before.keys() and by_host(found, "2xx") == {"a.example": 600}


@any_engine
def test_both_formats_and_readers_of_others(hosts):
    server = hosts(args=HERE)
    ask_all(server)
    watch = Watch(server)
    settled(watch, 10)
    plain, opened = watch.read(plain=True), watch.read()
    assert plain.keys() == opened.keys()
    assert {status: by_host(plain, status) for status in CLASSES} == COUNTED
    if shutil.which("promtool"):
        body = watch.ask("/metrics", fields=["Accept: text/plain"]).body
        done = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0 and not done.stdout + done.stderr, done.stderr.decode()
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    families = {family.name: family for family in parser.text_string_to_metric_families(watch.ask("/metrics").body.decode())}
    assert {sample.labels["host"] for sample in families["rung_host_requests"].samples} == {names[0] for names in NAMES.values()}
    assert families["rung_host_sent_body_bytes"].unit == "bytes"


@any_engine
def test_a_law_that_is_broken_is_noticed(hosts):
    """The checks that every page gets can fail."""
    server = hosts(args=HERE)
    ask_all(server)
    found = settled(Watch(server), 10)
    check_laws(found)
    for name in ('rung_host_requests_total{host="b.example",status="2xx"}', 'rung_host_sent_body_bytes_total{host="b.example"}'):
        with pytest.raises(AssertionError):
            check_laws({**found, name: found[name] + 1})


@any_engine
def test_the_site_at_the_top(start, file, tree, places):
    """The site is called default."""
    write(f"{tree}/top/f.txt", b"file of top\n")
    server = start(f"{tree}/top", "--config", file(table(["a.example", "other.a.example"], places["a"])), *HERE)
    with server.wire() as wire:
        for host in ("a.example", "other.a.example", "x", "y"):
            ask(wire, host)
    found = settled(Watch(server), 4)
    assert by_host(found, "2xx") == {"default": 2, "a.example": 2}
    assert body_bytes(found, "default") == 2 * len("file of top\n") and body_bytes(found, "a.example") == 2 * len("file of a\n")


@any_engine
def test_one_host_and_none(start, file, places):
    path = file(table(["a.example"], places["a"]))
    server = start(f"--config={path}", *HERE)
    with server.wire() as wire:
        ask(wire, "x")
    assert by_host(settled(Watch(server), 1), "2xx") == {"a.example": 1}
    server = start(places["a"], *HERE)
    with server.wire() as wire:
        ask(wire, "x")
    assert not [name for name in settled(Watch(server), 1) if "host" in name]


@any_engine
def test_the_most_hosts_with_the_longest_names(start, file, tree):
    """64 hosts and the site at the top: the page holds them, and each number is that of its host."""
    names = [f"{i:02}-" + ".".join(["x" * 49] * 5) for i in range(64)]
    text = ""
    for i, name in enumerate(names):
        write(f"{tree}/{i}/f.txt", b"x" * i)
        assert len(name) == 252
        text += table([name], f"{tree}/{i}")
    write(f"{tree}/top/f.txt", b"x" * 1000)
    server = start(f"{tree}/top", "--config", file(text), *HERE)
    with server.wire() as wire:
        for name in [*names, "other"]:
            assert ask(wire, name).status == 200
    found = settled(Watch(server), 65)
    assert by_host(found, "2xx") == {**{name: 1 for name in names}, "default": 1}
    assert [body_bytes(found, name) for name in [*names, "default"]] == [*range(64), 1000]


def test_an_answer_that_was_cut_off(hosts, places):
    """Only the bytes that were sent are counted."""
    sparse(f"{places['b']}/big.bin", BIG, {})
    server = hosts(args=HERE)
    watch = Watch(server)
    with server.wire(rcvbuf=65536) as wire:
        wire.send(request("/big.bin", fields=["Host: b.example"]))
        assert wire.head().status == 200
        assert body_bytes(watch.read(), "b.example") == 0  # counted when it has ended
    found = wait_for(lambda: (page := watch.read())["rung_answers_broken_total"] and page, "broken")
    assert 0 < body_bytes(found, "b.example") == server.stats()["body_bytes"] < BIG
    assert by_host(found, "2xx") == {"b.example": 1}


def test_streams(hosts):
    server = hosts(args=HERE)
    with http2.Client(server, secured=False) as client:
        streams = [client.ask("/large", authority=NAMES[letter][0]) for letter in "abcacb" "b"]
        assert all(client.reply(stream).status == 200 for stream in streams)
    found = wait_for(lambda: (page := Watch(server).read())["rung_answers_complete_total"] >= 7 and page, "all complete")
    assert by_host(found, "2xx") == {"a.example": 2, "b.example": 3, "deep.a.example": 2}
    assert [body_bytes(found, NAMES[letter][0]) for letter in "abc"] == [800_000, 1_200_000, 800_000]


@pytest.mark.core
def test_while_clients_ask(hosts):
    """The sums agree in every page, whatever is counted at that moment."""
    server = hosts(args=HERE)
    watch, over, pages, failed = Watch(server), threading.Event(), [], []

    def look_on():
        try:
            while not over.is_set():
                pages.append(watch.read())
        except AssertionError as failure:
            failed.append(failure)
    watcher = threading.Thread(target=look_on)
    watcher.start()
    try:
        asked = [letter for letter in "abcacbbb" * 4]
        both = b"".join(request("/f.txt", fields=[f"Host: {NAMES[letter][0]}"]) for letter in asked)
        for _ in range(20):
            with server.wire() as wire:
                wire.send(both)
                for _ in asked:
                    assert wire.reply().status == 200
    finally:
        over.set()
        watcher.join()
    assert not failed, failed
    found = settled(watch, 20 * len(asked))
    assert by_host(found, "2xx") == {NAMES[letter][0]: 20 * asked.count(letter) for letter in "abc"} and pages
    assert server.stats()["body_bytes"] == total(found, "rung_host_sent_body_bytes_total") == 20 * len(asked) * len("file of a\n")


@pytest.mark.processes
@pytest.mark.skipif(ENGINE not in ("epoll", "uring", "thread"), reason="three engines are enough for workers")
def test_worker_processes(hosts):
    """The counts of a worker survive its death."""
    server = hosts(args=[*HERE, "--workers", 2, "--workers-as", "process"])
    watch = Watch(server)
    for _ in range(3):
        ask_all(server)
    before = settled(watch, 30)
    for pid in [pid for pid in server.pids() if pid != server.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: watch.health() == (503, "no worker\n") or watch.read()["rung_workers_running"] == 2, "the end was seen")
    wait_for(lambda: watch.read()["rung_workers_running"] == 2, "both workers")
    ask_all(server)
    found = settled(watch, 40)
    for status in CLASSES:
        assert by_host(before, status) == {host: 3 * count for host, count in COUNTED[status].items()}
        assert by_host(found, status) == {host: 4 * count for host, count in COUNTED[status].items()}
    assert server.stats()["body_bytes"] == total(found, "rung_host_sent_body_bytes_total")


@pytest.mark.skipif(not workers_may_be_threads() or one_at_a_time(), reason="its workers are not threads")
def test_worker_threads(hosts):
    server = hosts(args=[*HERE, "--workers", 3])
    for _ in range(4):
        ask_all(server)
    found = settled(Watch(server), 40)
    assert {status: by_host(found, status) for status in CLASSES} == \
        {status: {host: 4 * count for host, count in counts.items()} for status, counts in COUNTED.items()}
