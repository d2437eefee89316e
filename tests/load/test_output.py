# SPDX-License-Identifier: MIT
"""Where results are written: files, standard output, terminals; and what happens when they cannot be written."""
import contextlib
import fcntl
import json
import os
import pty
import re
import resource
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import form
import pytest
from aid import (CONNECT, DONE, FAILED, FAULTS, LOAD, OK, PATIENCE, USAGE, Liar, Witness, always, end, environment,
                 load, measured, start)


@pytest.fixture
def server():
    with Witness(lambda request: OK) as one:
        yield one


# --- JSON -----------------------------------------------------------------------------------------------------------

def test_paths_of_any_bytes_and_any_length(server, tmp_path):
    """Each character of a path stands for the byte of that number; nothing is cut, and a URL is the requested one."""
    folder = os.fsencode(tmp_path)
    for name in (b"\xc3\xbc\xff\"\\\n" * 20, b"\x80" * 250, b"\xfe" * 250, b"\xfd" * 250):
        folder += b"/" + name
        os.mkdir(folder)
    with open(folder + b"/log", "w", encoding="ascii") as log:
        log.write('- - - [10/Oct/2000:13:55:36 +0000] "GET /a HTTP/1.1" 200 5\n')
    with open(folder + b"/urls", "w", encoding="ascii") as urls:
        urls.write(server.url + "/a\n")
    url = server.url + "/" + 8000 * "u"
    for option, name, where in (("--walk", b"", server.url), ("--replay", b"/log", server.url), ("--urls", b"/urls", url)):
        process = subprocess.run([LOAD, "-o", "-", "-n", "3", option, folder + name, where], stdout=subprocess.PIPE,
                                 env=environment(), timeout=PATIENCE, check=True)
        result = form.read(process.stdout.decode("ascii"))
        assert result["workload"]["path"].encode("latin-1") == folder + name
    assert result["url"] == url


def test_urls_of_examples_are_whole():
    with Liar(always(OK.replace(b"200", b"500"))) as liar:
        url = liar.url + 8000 * "u"
        assert measured("-n", 3, url).json["examples"][0]["url"] == url
    with Liar(always(OK)) as liar:
        run = load("-o", "-", "--trial", "calm", "-d", "100ms", "--trial-worst", "20s", liar.url + 8000 * "u")
    assert run.json["url"] == liar.url + 8000 * "u"


def test_other_forms_on_standard_output(server):
    """The form replaces the report; it does not follow it."""
    assert load("-n", 5, "--csv", "-", server.url).out.startswith("second,answers,")
    assert re.match(r" +Value +Percentile ", load("-n", 5, "--hgrm", "-", server.url).out)


# --- Files and pipes --------------------------------------------------------------------------------------------------

def test_what_cannot_be_written_is_told_before_the_run(server, tmp_path):
    """No request is sent in that case; and an existing file stays as it is until the results are written."""
    (tmp_path / "old").write_text("old")
    for option in ("-o", "--csv", "--hgrm"):
        for path in ("/nonexistent/x", tmp_path, tmp_path / "old" / "x"):
            run = load(option, path, "-o" if option != "-o" else "--csv", tmp_path / "old", server.url)
            assert run.status == FAILED and "cannot write" in run.err and run.err.count("\n") == 1, run.err
    assert server.asked == [] and (tmp_path / "old").read_text() == "old" and os.listdir(tmp_path) == ["old"]
    assert load("-o", tmp_path / "old", "-o", tmp_path / "new", "http://127.0.0.1:1").status == CONNECT
    assert (tmp_path / "old").read_text() == "old" and os.listdir(tmp_path) == ["old"]
    assert load("-n", 3, "-o", tmp_path / "old", "--csv", tmp_path / "new", server.url).status == DONE
    assert json.loads((tmp_path / "old").read_text())["requests"]["answered"] == 3 and (tmp_path / "new").exists()
    assert load("-n", 3, "-o", "/dev/null", "--csv", "/dev/fd/1", "-q", server.url).status == DONE


@pytest.mark.parametrize("words", [["--help"], ["--help-all"], ["--man"], ["--options"], ["--trial", "list"], ["-n", 3],
                                   ["-n", 3, "-o", "-"], ["--trial", "calm", "-d", "100ms", "--trial-worst", "20s"],
                                   ["--find-knee", "-d", "100ms", "--fail-if", "rps<1000000000"]], ids=str)
def test_a_full_disk_behind_standard_output(server, words):
    with open("/dev/full", "w", encoding="ascii") as full:
        run = subprocess.run([LOAD, *map(str, words), *([] if words[0] in ("--man", "--options") else [server.url])],
                             stdout=full, stderr=subprocess.PIPE, env=environment(), timeout=PATIENCE, check=False)
    assert run.returncode == FAILED
    assert run.stderr == b"rung: cannot write to standard output: the disk is full\n"


def test_a_reader_that_leaves(server, tmp_path):
    """The report has no reader any more, but the files are still written."""
    theirs, ours = os.pipe()
    os.close(theirs)
    run = subprocess.run([LOAD, "-n", "3", "-o", str(tmp_path / "json"), server.url], stdout=ours, stderr=subprocess.PIPE,
                         env=environment(), timeout=PATIENCE, check=False)
    os.close(ours)
    assert run.returncode == FAILED and run.stderr == b"rung: cannot write to standard output: the reader has gone\n"
    assert form.read((tmp_path / "json").read_text())["requests"]["answered"] == 3


def test_a_report_that_nobody_reads_can_be_ended(server):
    """Ctrl-C ends a run with a report; once the report is waiting for a reader, Ctrl-C ends the program."""
    theirs, ours = os.pipe()
    os.set_blocking(ours, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(ours, bytes(4096))
    os.set_blocking(ours, True)
    process = subprocess.Popen([LOAD, "-n", "3", server.url], stdout=ours, stderr=subprocess.PIPE, env=environment())
    os.close(ours)
    deadline = time.monotonic() + PATIENCE
    try:
        while len(server.asked) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        assert process.poll() == -signal.SIGINT
    finally:
        process.kill()
        process.communicate()
        os.close(theirs)


def test_an_interrupted_knee(server):
    """The report has the rates found so far; no limit was broken."""
    process = start("--find-knee", "-R", 50, "-d", "60s", server.url)
    while not server.asked and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    run = end(process)
    assert run.status == DONE and run.out.endswith("\ninterrupted; so far:\nknee: 0 requests/s were kept\n"), run


def test_a_knee_whose_server_dies(tmp_path):
    """The rate kept until then is reported and written."""
    with Witness(lambda request: OK) as server:
        process = start("--find-knee", "-R", 50, "-d", "500ms", "-T", "500ms", "-c", 1, "-o", tmp_path / "json", server.url)
        while len(server.asked) < 40 and process.poll() is None:
            time.sleep(0.01)
        server.__exit__()
        run = end(process)
    kept = form.read((tmp_path / "json").read_text())["kept_per_s"]
    assert kept == 50 and "knee: 50 requests/s were kept" in run.out and run.status in (CONNECT, DONE), (run.out, run.err)


# --- Terminals --------------------------------------------------------------------------------------------------------

def shown(columns, **more):
    """The bytes that a terminal of that width gets during a run of two seconds."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    seen = []

    def read():
        with contextlib.suppress(OSError):
            while data := os.read(ours, 4096):
                seen.append(data)
    reader = threading.Thread(target=read)
    with Witness(lambda request: OK) as server:
        process = subprocess.Popen([LOAD, "-R", "50", "-d", "2s", server.url], stdin=subprocess.DEVNULL, stderr=theirs,
                                   stdout=subprocess.DEVNULL, env={**environment(), "TERM": "xterm", **more})
        os.close(theirs)
        reader.start()
        assert process.wait(PATIENCE) == DONE
    reader.join(PATIENCE)
    os.close(ours)
    return b"".join(seen).decode()


def test_the_live_line_is_no_wider_than_the_terminal():
    for columns in (20, 21):
        lines = shown(columns).split("\r\x1b[K")
        assert max(map(len, lines)) == columns - 1 and lines[-1] == ""
    assert "answers" in shown(0) and "failed" in shown(200)


def test_a_dumb_terminal_has_no_live_line():
    assert shown(80, TERM="dumb") == ""


# --- Addresses of connections -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("where", ["[::1%251]", "[::1%1]", "[0::1]"])
# shows T01
def test_addresses_with_a_zone(where):
    """A zone only has a meaning on this machine, so it is not sent to the server."""
    with Witness(lambda request: OK, socket.create_server(("::1", 0), family=socket.AF_INET6)) as server:
        assert measured("-n", 3, f"http://{where}:{server.port}/").status == DONE
        host = where.partition("%")[0].rstrip("]") + "]"
        assert {request.field["host"] for request in server.asked} == {f"{host}:{server.port}"}
        assert measured("-n", 3, "--source", ",".join(["0000:0000:0000:0000:0000:0000:0000:0001"] * 16),
                        f"HTTP://{where}:{server.port}").status == DONE


# shows U30
def test_urls_without_a_scheme():
    """A "://" in a query does not make a scheme; an empty port counts as none (RFC 3986 3.2.3), so it is 80."""
    with Witness(lambda request: OK) as server:
        assert measured("-n", 1, server.url[7:] + "/x?to=http://elsewhere/").status == DONE
        assert measured("-n", 1, server.url.replace("http", "HTTP")).status == DONE
        assert server.paths() == ["/x?to=http://elsewhere/", "/"]
    assert load("127.0.0.1:/", "--source", "127.0.0.256").status == USAGE


def test_paths_of_unix_sockets_on_both_sides(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("s" * 107)
    listener.listen(16)
    with Witness(lambda request: OK, listener):
        assert measured("-n", 3, "-u", "s" * 107, "http://any/").status == DONE
    run = load("-u", "s" * 108, "http://any/")
    assert run.status == USAGE and "more than 107 bytes" in run.err and run.err.count("\n") == 1


class Slow(socket.socket):
    """A listener that accepts twenty connections a second."""

    def accept(self):
        time.sleep(0.05)
        return super().accept()


def test_a_unix_socket_whose_queue_is_full(tmp_path):
    """A connect that has to wait for a place in the queue has not failed, unless it waits longer than --timeout."""
    listener = Slow(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen(1)
    with Witness(lambda request: OK, listener):
        run = measured("-n", 16, "-c", 16, "-u", tmp_path / "s", "http://any/")
    assert run.status == DONE and run.errors() == {} and run.json["connects"]["made"] == 16
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "t"))
        listener.listen(0)
        run = measured("-d", "100ms", "-c", 4, "-T", "500ms", "-u", tmp_path / "t", "http://any/")
    assert run.status == FAULTS and set(run.errors()) - {"timed_out"} == {"connect_timed_out"}, run.out


@pytest.mark.skipif("asan" in LOAD or "tsan" in LOAD, reason="sanitizers need more address space than there is")
def test_threads_that_cannot_be_made(server):
    """A reason and an exit code, even if some threads had already started."""
    def limit():
        resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, 8 << 20))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    for words, said in ((["-t", 200, "-c", 200], "cannot start 200 threads"),
                        (["--trial", "calm", "-c", 400, "-d", "200ms"], "cannot start 400 threads")):
        run = end(start(*words, server.url, preexec_fn=limit))
        assert run.status == FAILED and said in run.err and run.err.count("\n") == 1, run.err


# shows D27
def test_each_connection_is_timed_by_itself():
    """The connect times of the last connections do not include the time in which the others were begun."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        run = measured("-c", 2000, "-t", 1, "-d", "1ms", "-T", "500ms", "http://127.0.0.1:%d/" % listener.getsockname()[1])
    assert run.json["connects"]["made"] == 2000 and 4 * run.json["connect_us"]["min"] < run.json["connect_us"]["max"], run.out
