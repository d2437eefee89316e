# SPDX-License-Identifier: MIT
"""Effects of the options on a running server, and signals."""
import contextlib
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import time

import pytest

from cli import (BIN, ENGINE, EXIT_DONE, PATIENCE, Running, begin, elf, environment, large, no_port,
                 run, site, stuck_download, wait_for)  # noqa: F401 (fixtures among them)
from lib.server import workers_may_be_threads

pytestmark = pytest.mark.userspace("a command line")


# --- Effects of the options ----------------------------------------------------------------------------


# shows D20
def test_options_of_the_site(begin, site):
    plain = begin("-p", "0", site)
    assert plain.get("/.secret").status == 404
    assert plain.get("/folder/").status == 200 and b"start.html" in plain.get("/folder/").body
    assert re.fullmatch(r"rung/\d+\.\d+", plain.get("/").headers["Server"])
    other = begin("-p", "0", "--hidden", "--listing", "off", "--index", "start.html", "--server-name", "off", site)
    assert other.get("/.secret").body == b"hidden\n"
    assert other.get("/folder/").body == b"<p>start\n"
    assert other.get("/").status == 403
    assert other.get("/").headers["Server"] == "rung"


def test_precompressed(begin, site):
    with open(f"{site}/file.txt.gz", "wb") as file:
        file.write(b"pressed")
    accept = {"Accept-Encoding": "gzip"}
    assert begin("-p", "0", site).get("/file.txt", headers=accept).headers["Content-Encoding"] == "gzip"
    off = begin("-p", "0", "--precompressed", "off", site).get("/file.txt", headers=accept)
    assert off.headers["Content-Encoding"] is None and off.body == b"content\n"


def test_max_body(begin, site):
    server = begin("-p", "0", "--max-body", "1k", site)
    assert server.get("/file.txt", body=b"x" * 1024).status == 200
    assert server.get("/file.txt", body=b"x" * 1025).status == 413


def test_head_timeout(begin, site):
    server = begin("-p", "0", "--head-timeout", "200ms", site)
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        client.sendall(b"GET / HTTP/1.1\r\n")
        while client.recv(65536):
            pass  # anything may be sent before the end


def test_idle_timeout(begin, site):
    server = begin("-p", "0", "--idle-timeout", "200ms", site)
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        client.sendall(b"GET /file.txt HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        assert answer.endswith(b"content\n")


# shows U82
def test_quiet(begin, site):
    port = no_port()
    server = begin("-q", "-b", "127.0.0.1", "-p", port, site, wait=False)
    server.port = port

    def serves():
        with contextlib.suppress(OSError):
            return server.get("/file.txt").status == 200
    wait_for(serves, "the quiet server answers")
    assert server.end(signal.SIGINT) == EXIT_DONE
    assert server.lines == []
    assert run("-q", "--port", "70000").stderr != ""
    assert run("serve", "-q", f"{site}/none").stderr != ""


def limits(pid):
    with open(f"/proc/{pid}/limits", encoding="ascii") as file:
        return re.search(r"Max open files\s+(\d+)\s+(\d+)", file.read()).groups()


def test_descriptors_are_raised(begin, site):
    def low():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))
    server = begin("-p", "0", site, preexec_fn=low)
    if elf():  # a wrapper may keep some for itself
        assert limits(server.pid) == ("512", "512")
    assert server.get("/file.txt").status == 200


def test_more_connections_than_descriptors(begin, site):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
    server = begin("-p", "0", "--max-connections", "5000", site, preexec_fn=few)
    server.said(r"--max-connections 5000: \d+ descriptors allow only \d+")
    modest = begin("-p", "0", "--max-connections", "100", site, preexec_fn=few)
    assert modest.end() == EXIT_DONE
    assert modest.count("--max-connections") == 0


@pytest.mark.parametrize("kind, most", [("thread", 240), ("process", 480)])
def test_processes_have_descriptors_each(begin, site, kind, most):
    """32 are kept for the rest of a process, and a connection may need two."""
    if kind == "thread" and not workers_may_be_threads():
        pytest.skip("its workers cannot be threads")
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
    for asked in (most, most + 1):
        server = begin("-p", "0", "-w", "2", "--workers-as", kind, "--max-connections", str(asked), site, preexec_fn=few)
        if asked > most:
            server.said(rf"--max-connections {asked}: 512 descriptors allow only {most} ")
        assert server.end() == EXIT_DONE and server.count("--max-connections") == (asked > most)


@pytest.mark.userspace("TLS")
def test_descriptors_that_outlive_sessions(begin, site):
    """--ktls: a sixteenth of 512 is for connections that only wait for their end."""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
    for when, most in (("off", 240), ("large", 224)):
        server = begin("-p", "0", "-w", "1", "--tls", "self", "--ktls", when, "--max-connections", str(most + 1), site, preexec_fn=few)
        server.said(rf"--max-connections {most + 1}: 512 descriptors allow only {most} ")
        assert server.end() == EXIT_DONE


# --- Signals -------------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stop(begin, site, number):
    server = begin("-p", "0", site)
    assert server.get("/file.txt").status == 200
    assert server.end(number) == EXIT_DONE
    server.said("stopping: ")
    server.said("stopped after 1 answer on 1 connection, ")


def test_stop_has_a_deadline(begin, large):
    server = begin("-p", "0", "--drain-timeout", "300ms", "--send-timeout", "1h", large)
    with stuck_download(server):
        assert server.end() == EXIT_DONE
    server.said(r"stopping: 1 connection open, given at most 300ms to finish")


def test_second_signal_stops_at_once(begin, large):
    server = begin("-p", "0", "--drain-timeout", "1h", "--send-timeout", "1h", large)
    with stuck_download(server):
        server.send(signal.SIGTERM)
        server.said("stopping: 1 connection open, given at most 1h")
        assert server.process.poll() is None
        assert server.end(signal.SIGINT) == EXIT_DONE
    server.said("stopping at once")


def test_counters(begin, site):
    server = begin("-p", "0", site)
    server.get("/file.txt")

    def counted():  # the bytes of a connection are counted when it ends, which the client sees first
        server.send(signal.SIGUSR1)
        counters = json.loads(server.said(r'^\{.*"accepted".*\}$', last=True).string)
        return counters["closed"] == 1 and counters
    counters = wait_for(counted, "the connection is closed")
    assert counters["accepted"] == 1 and counters["answers"] == 1 and counters["complete"] == 1
    assert counters["bytes"] > counters["body_bytes"] == len("content\n")
    assert server.get("/file.txt").status == 200


def test_signals_from_the_start(site):
    """A signal that arrives before everything is open ends the server like any other."""
    for wait_ms in (0, 5, 20):
        server = Running("-p", "0", site)
        time.sleep(wait_ms / 1000)
        server.send(signal.SIGTERM)
        assert server.end(None) in (EXIT_DONE, -signal.SIGTERM)
        server.kill()


def test_without_standard_files(site):
    """A closed descriptor must not become a listener that messages are written to."""
    script = 'exec "$@" <&- >&- 2>&-'
    port = no_port()
    process = subprocess.Popen(["/bin/sh", "-c", script, "sh", BIN, "serve", "-e", ENGINE, "-b", "127.0.0.1", "-p", str(port),
                                "--log", "combined", site], env=environment())
    try:
        def serves():
            with contextlib.suppress(OSError), contextlib.closing(
                    http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
                client.request("GET", "/file.txt")
                return client.getresponse().read() == b"content\n"
        for _ in range(3):
            wait_for(serves, "it answers")
        if elf():
            assert {os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in range(3)} == {"/dev/null"}
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == EXIT_DONE


@pytest.mark.long
def test_stderr_that_nobody_reads(site):
    """Messages that cannot be written are dropped: they neither delay answers for long nor prevent a stop."""
    port, (reader, writer) = no_port(), os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writer, b"x" * 4096):
            pass
    os.set_blocking(writer, True)
    with subprocess.Popen([BIN, "serve", "-e", ENGINE, "-p", str(port), "-b", "127.0.0.1", site],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer,
                          env=environment()) as process:
        try:
            def answers():
                with contextlib.suppress(ConnectionRefusedError):
                    client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
                    with contextlib.closing(client):
                        client.request("GET", "/file.txt")
                        return client.getresponse().read() == b"content\n"
            wait_for(answers, "it serves")
            process.send_signal(signal.SIGUSR1)
            process.send_signal(signal.SIGHUP)
            assert answers()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == EXIT_DONE
        finally:
            process.kill()
            os.close(reader)
            os.close(writer)


# shows N02
def test_children_that_nobody_waits_for(start, tree):
    """A program that ignores SIGCHLD passes that on to the server it starts, and the kernel then keeps no status of a child:
    seats are released nevertheless."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        server = start(tree, "--max-connections", "2")
    finally:
        signal.signal(signal.SIGCHLD, before)
    for _ in range(8):
        assert server.ask("/").status == 200
