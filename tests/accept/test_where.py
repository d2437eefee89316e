# SPDX-License-Identifier: MIT
"""Where rung listens, for which clients, and what it may do: asked by curl, and looked at by ss, ps and the kernel."""
import os
import re
import signal
import stat
import threading

import pytest
from conftest import BIN, ROOT, TEXT, code, curl, free_port, listening, needs, run, wait_for

pytestmark = needs("curl", "ss", "ps")


def status_of(server):
    with open(f"/proc/{server.pid}/status", encoding="ascii") as file:
        return dict(re.findall(r"(?m)^(\w+):\s*(.*)$", file.read()))


def test_addresses(serve):
    port = free_port()
    server = serve("--port", port, "--bind", "127.0.0.1", "--bind", "127.0.0.2")
    assert {address for _, address in listening(server, port)} == {f"127.0.0.1:{port}", f"127.0.0.2:{port}"}
    assert curl(f"http://127.0.0.2:{port}/hello.txt") == TEXT and curl(f"{server.url}/hello.txt") == TEXT
    assert f"port {port} on 127.0.0.1 is taken by rung" in run(BIN, "-p", port, "-b", "127.0.0.1", "/tmp", status=3)


def test_public(serve):
    server = serve("--public")
    port = re.search(r"http://[^ ]*:(\d+)/", server.text())[1]
    assert {address.rpartition(":")[0] for _, address in listening(server, port)} <= {"0.0.0.0", "[::]", "*"}
    for address in run("hostname", "-I").split():
        if "." in address:
            assert curl(f"http://{address}:{port}/hello.txt") == TEXT


@pytest.mark.skipif(not ROOT, reason="needs root")
def test_user(serve, site):
    port = next(port for port in range(999, 900, -1) if not run("ss", "-ltnH", f"sport = :{port}"))
    server = serve("--user", "nobody", "-p", port)
    (site / "hello.txt").chmod(0o600)
    assert run("ps", "-o", "user=", "-p", server.pid).strip() == "nobody"
    assert code(f"{server.url}/hello.txt") == 403 and code(f"{server.url}/about.html") == 200


@pytest.mark.parametrize("how, filters", [("on", "2"), ("strict", "2"), ("off", "0")])
def test_sandbox(serve, how, filters):
    if how != "off" and "Landlock" not in run(BIN, "doctor", status=None):
        pytest.skip("this kernel has no Landlock")
    server = serve("--sandbox", how)
    assert curl(f"{server.url}/hello.txt") == TEXT
    fields = status_of(server)
    assert fields["Seccomp"] == filters and (how == "off" or fields["NoNewPrivs"] == "1")
    rights = int(fields["CapEff"], 16)
    read_search, override, admin = 1 << 2, 1 << 1, 1 << 12
    assert how == "off" or not rights & ~(read_search | override | admin | 1 << 14)


def test_unix_socket(serve, tmp_path):
    path = tmp_path / "socket"
    serve("--bind", f"unix:{path}", "--socket-mode", "0620")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o620
    assert curl("--unix-socket", path, "http://name/hello.txt") == TEXT


def test_proxy_protocol(serve):
    server = serve("--proxy-protocol", "--log", "combined")
    assert curl("--haproxy-protocol", "--interface", "127.0.0.3", f"{server.url}/hello.txt") == TEXT
    wait_for(lambda: server.out, "a line of the log")
    assert server.log().startswith("127.0.0.3 - - [")
    curl(f"{server.url}/hello.txt", status=52)  # an empty reply: it did not begin with a proxy's header


@pytest.mark.parametrize("field, text", [("X-Forwarded-For", "203.0.113.9"), ("Forwarded", "for=203.0.113.9")])
def test_trust(serve, field, text):
    server = serve("--trust", "127.0.0.1", "--trust-field", field.lower(), "--log", "combined")
    for client in ("127.0.0.1", "127.0.0.2"):
        curl("--interface", client, "-H", f"{field}: {text}", f"{server.url}/hello.txt")
    wait_for(lambda: len(server.out) == 2, "two lines of the log")
    assert [line.split()[0] for line in server.out] == ["203.0.113.9", "127.0.0.2"]


@pytest.mark.parametrize("length", [7, 4000])
def test_backlog(serve, length):
    server = serve("--backlog", length)
    with open("/proc/sys/net/core/somaxconn", encoding="ascii") as file:
        most = int(file.read())
    assert listening(server, server.port)[0][0] == min(length, most) and curl(f"{server.url}/hello.txt") == TEXT


def test_health(serve):
    server, without = serve("--health", "--log", "json"), serve()
    assert curl(f"{server.url}/.rung/health") == "ok\n" and code(f"{without.url}/.rung/health") == 404


def test_quiet(serve, site):
    port = free_port()
    server = serve("--port", port, "--quiet", ready=None)
    wait_for(lambda: "127.0.0.1" in str(listening(server, port)), "its listener")
    assert curl(f"http://127.0.0.1:{port}/hello.txt") == TEXT and server.text() == ""


def test_handover(serve, tmp_path):
    """curl asks without a pause while three servers follow one another, and each answer is whole."""
    port, over, answers = free_port(), threading.Event(), []
    words = ("--port", port, "--handover", tmp_path / "handover")
    servers = [serve(*words)]

    def ask():
        while not over.is_set():
            answers.append(curl("-w", "%{http_code}", f"http://127.0.0.1:{port}/hello.txt", status=None))
    askers = [threading.Thread(target=ask) for _ in range(2)]
    for asker in askers:
        asker.start()
    for engine in ("epoll", "pool", "thread"):
        seen = len(answers)
        wait_for(lambda: len(answers) > seen + 5, "answers")
        servers.append(serve(*words, "--engine", engine))
        assert servers[-2].process.wait(60) == 0
    over.set()
    for asker in askers:
        asker.join()
    assert len(answers) > 15 and set(answers) == {TEXT + "200"}


@pytest.mark.parametrize("patience, mib, whole", [("30s", 32, True), ("200ms", 1024, False)])
def test_drain_timeout(serve, site, tmp_path, patience, mib, whole):
    """Asked to stop while curl downloads: with time enough the file is whole, otherwise it is cut off.  No kernel keeps as much."""
    with open(site / "huge.bin", "wb") as file:
        file.truncate(mib << 20)
    server = serve("--drain-timeout", patience)
    status = []
    download = threading.Thread(target=lambda: status.append(
        run("curl", "-s", "--limit-rate", "16m", "-o", tmp_path / "out", "-w", "%{exitcode}", f"{server.url}/huge.bin", status=None)))
    download.start()
    wait_for(lambda: (tmp_path / "out").exists() and (tmp_path / "out").stat().st_size > 0, "its first bytes")
    server.signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    download.join()
    assert (status == ["0"]) == whole and ((tmp_path / "out").stat().st_size == mib << 20) == whole
