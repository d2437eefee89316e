# SPDX-License-Identifier: MIT
"""What a run of rung load reports about itself: the model, the barrier, limits, forms of output, signals, mistakes."""
import collections
import csv
import json
import os
import pty
import re
import resource
import signal
import socket
import subprocess
import threading
import time

import pytest
from aid import (CONNECT, DONE, FAILED, FAULTS, LIMIT, LOAD, OK, PATIENCE, TOP, USAGE, Liar, always, at, end, environment,
                 load, measured, rung, start)
from form import SCHEMA, complaints

ROUNDS = 100


@pytest.fixture(scope="module")
def server(site):
    with rung("serve", "-p", 0, site) as one:
        one.url = f"http://127.0.0.1:{one.port}/a.txt"
        yield one


# --- Honesty --------------------------------------------------------------------------------------------------

# shows T03, U31
def test_a_stall_shows_in_the_corrected_time_alone():
    """The server sleeps once for a second: hundreds of requests are due in that time, but only one is under way."""
    with Liar(at(500, lambda sock: (time.sleep(1), sock.sendall(OK), True)[-1])) as liar:
        run = measured("-R", 500, "-d", "4s", "-c", 1, liar.url)
    assert run.status == DONE and run.json["model"] == "open"
    assert run.json["requests"]["answered"] + run.json["schedule"]["never_sent"] == 2000
    assert run.json["service_us"]["max"] >= 990e3
    assert run.json["latency_us"]["p99_9"] >= 900e3
    assert run.json["latency_us"]["p90"] >= 250e3  # a quarter of all was due during the stall
    assert run.json["service_us"]["p99_9"] <= 500e3
    assert run.json["schedule"]["late_all_busy"] >= 300


@pytest.mark.parametrize("model", [["-c", 2], ["-R", 40, "-c", 8]], ids=["closed", "open"])
# shows D27
def test_a_known_time_is_measured(model):
    """A server takes 50 ms: no measured time is shorter, half are hardly longer; a time ends with the last byte."""
    def slowly(sock, _):
        sock.sendall(OK[:10])
        time.sleep(0.05)
        sock.sendall(OK[10:])
        return True
    with Liar(slowly) as liar:
        run = measured("-n", 40, *model, liar.url)
    for key in ("latency_us", "service_us"):
        assert 50e3 <= run.json[key]["min"] <= run.json[key]["p50"] <= 80e3
        assert run.json[key]["min"] <= run.json[key]["mean"] <= run.json[key]["max"]


def test_a_closed_loop_does_not_see_it():
    """A closed loop does not notice the stall, which is why the report says that the loop was closed."""
    with Liar(at(500, lambda sock: (time.sleep(1), sock.sendall(OK), True)[-1])) as liar:
        run = load("-n", 2000, "-c", 1, liar.url)
        assert "closed loop" in run.out and "use -R" in run.out
        run = measured("-n", 2000, "-c", 1, liar.url)
    assert run.json["latency_us"] == run.json["service_us"] and run.json["schedule"] is None
    assert run.json["latency_us"]["p99_9"] <= 500e3


# shows T03, U31
def test_the_schedule_is_kept(server):
    run = measured("-R", 1000, "-d", "2s", "-c", 20, server.url)
    schedule = run.json["schedule"]
    assert schedule["due"] == 2000 and run.json["requests"]["sent"] == 2000 - schedule["never_sent"]
    run = measured("-R", 1000, "-d", "2s", "-c", 20, "--arrivals", "poisson", server.url)
    assert 1700 <= run.json["schedule"]["due"] <= 2300  # six and a half standard deviations


def test_the_knee_is_found():
    """A server that takes 5 ms for each request on its one connection keeps fewer than 200 a second (and 50)."""
    def slowly(sock, _):
        time.sleep(0.005)
        sock.sendall(OK)
        return True
    with Liar(slowly) as liar:
        run = load("-o", "-", "--find-knee", "-d", "1s", "-c", 1, liar.url)
    assert run.status == DONE, (run.out, run.err)
    kept, lost = run.json["kept_per_s"], run.json["lost_per_s"]
    assert 50 <= kept < lost <= 400 and kept < 200 and lost - kept <= lost / 8 + 1
    for step in run.json["steps"]:
        broken = [one["limit"] for one in step["limits"] if one["broken"]]
        assert bool(broken) == (step["rate_per_s"] >= lost), run.out
    assert run.json["steps"][0]["rate_per_s"] == 100


def test_limits_of_the_knee(server):
    """--fail-if gives a condition that must not hold; "p50>0us" always holds."""
    run = load("--find-knee", "-R", 2, "-d", "600ms", "--fail-if", "p50>0us", "-o", "-", server.url)
    assert run.status == LIMIT and run.json["kept_per_s"] == 0
    assert [step["rate_per_s"] for step in run.json["steps"]] == [2, 1]
    shown = load("--find-knee", "-R", 2, "-d", "600ms", "--fail-if", "p50>0us", server.url)
    assert shown.status == LIMIT and shown.out.count("broken: p50>0us") == 2
    assert re.search(r"\nknee: 0 requests/s were kept; at 1 p50>0us was broken", shown.out)
    assert load("--find-knee", "http://127.0.0.1:1/").status == CONNECT
    assert load("--find-knee", "--csv", "-", server.url).status == USAGE
    for more in ([], ["-d", "1s"]):
        run = load("--find-knee", "-n", 100, *more, server.url)
        assert run.status == USAGE and "a step lasts a time (-d)" in run.err and run.err.count("\n") == 1


# shows D28
def test_what_could_not_be_sent_is_told():
    """One connection and a slow server: most of the due requests are never sent, but they are counted."""
    def slowly(sock, _):
        time.sleep(0.1)
        sock.sendall(OK)
        return True
    with Liar(slowly) as liar:
        run = measured("-R", 200, "-d", "1s", "-c", 1, "--fail-if", "late>10", liar.url)
    assert run.json["schedule"]["due"] == 200 and run.json["schedule"]["never_sent"] >= 180
    assert run.json["requests"]["sent"] <= 20 and run.status == LIMIT


@pytest.mark.parametrize("options", [[], ["-R", 1000000]], ids=["closed", "open"])
# shows E09, E10
def test_nobody_starts_early(server, options):
    """No request is sent before the last thread is ready, in a hundred rounds of each model."""
    for _ in range(ROUNDS):
        run = measured("-c", 32, "-t", 8, "-n", 32, *options, server.url)
        threads = run.json["generator"]["threads"]
        assert len(threads) == 8 and run.json["requests"]["answered"] == 32
        assert max(t["ready_us"] for t in threads) <= 0 <= min(t["first_send_us"] for t in threads)


def test_the_generator_as_the_limit(server):
    """The generator is late by its own fault: it is stopped for a while although a connection is free."""
    before = server.counters()["answers"]
    process = start("-o", "-", "-R", 1000, "-d", "3s", "-c", 10, server.url)
    while server.counters()["answers"] < before + 200:
        time.sleep(0.01)
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    process.send_signal(signal.SIGCONT)
    run = end(process)
    assert run.json["generator"]["was_the_limit"], run.out
    assert run.json["schedule"]["late_own_fault"] >= 300 and run.json["schedule"]["worst_own_fault_us"] >= 400e3
    assert "the generator was the limit" in run.json["generator"]["verdict"]


def test_ports_run_out(site, server):
    """In a network namespace with few ports, the error is counted by its name, with advice; more addresses help."""
    inside = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && echo "20000 20019" >'
              '/proc/sys/net/ipv4/ip_local_port_range && "$0" serve -p 8080 -q "$1" & sleep 0.1; '
              'for i in 1 2 3 4 5 6 7 8 9; do "$2" -q -n 1 127.0.0.1:8080 && break; sleep 0.3; done; shift 2; '
              '"$@"; code=$?; kill $!; wait; exit $code']
    if subprocess.run(["unshare", "-rn", "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no network namespaces here")
    command = [*inside, os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung", str(site), LOAD]

    def asked(*more):
        return subprocess.run([*command, LOAD, "-c", "60", "-n", "600", "-T", "500ms", *more, "127.0.0.1:8080"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False,
                              env=environment())
    short = asked()
    if "ip: not found" in short.stderr or "Permission denied" in short.stderr:
        pytest.skip(short.stderr.strip())
    assert "EADDRNOTAVAIL" in short.stdout and "--source" in short.stdout and short.returncode == FAULTS, short
    assert "the generator was the limit: it ran out of local ports" in short.stdout
    assert asked("--source", "127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4,127.0.0.5,127.0.0.6").returncode == DONE


def test_a_source_whose_ports_all_rest(site):
    """Ports in TIME-WAIT are no reason to refuse an address: after a second they can be used again."""
    script = ('ip link set lo up && echo "20000 20001" >/proc/sys/net/ipv4/ip_local_port_range && "$0" serve -p 8080 -q "$1" & '
              'sleep 0.1; for i in 1 2 3 4 5 6 7 8 9; do "$2" -q -c 2 -n 2 127.0.0.1:8080 && break; sleep 0.3; done; '
              'sleep 2; "$2" -q -c 2 -n 2 --source 127.0.0.1 127.0.0.1:8080; code=$?; kill $!; wait; exit $code')
    if subprocess.run(["unshare", "-rn", "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no network namespaces here")
    run = subprocess.run(["unshare", "-rn", "sh", "-c", script, os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung",
                          str(site), LOAD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE,
                         check=False, env=environment())
    if "ip: not found" in run.stderr or "Permission denied" in run.stderr:
        pytest.skip(run.stderr.strip())
    assert "already in use" not in run.stderr and run.returncode in (DONE, CONNECT), run  # they may not serve there


# --- Limits and exit codes --------------------------------------------------------------------------------------

@pytest.mark.parametrize("kept, broken", [
    ("p99>10s", "p99>0us"), ("p99.9>=10s", "p50>=0us"), ("max>10s", "max>1us"), ("mean>10s", "mean>0.1us"),
    ("rps<1", "rps<1000000000"), ("rps<=1", "rps>1"), ("errors>0", "errors>=0"), ("error-rate>1%", "error-rate>=0"),
    ("service-p90>10s", "service-p90<10s"), ("late>100", "late>=0"), ("unsent>0", "unsent>=0")])
# shows U34
def test_limits_on_both_sides(server, kept, broken):
    run = measured("-n", 200, "--fail-if", kept, server.url)
    assert run.status == DONE and not run.json["limits"][0]["broken"] and run.json["limits"][0]["limit"] == kept
    run = measured("-n", 200, "--fail-if", kept, "--fail-if", broken, server.url)
    assert run.status == LIMIT and [one["broken"] for one in run.json["limits"]] == [False, True]
    assert "broken" in load("-n", 50, "--fail-if", broken, server.url).out


def test_errors_allowed():
    with Liar(at(5, OK.replace(b"200", b"500"))) as liar:
        assert measured("-n", 20, liar.url).status == FAULTS
    with Liar(at(5, OK.replace(b"200", b"500"))) as liar:
        assert measured("-n", 20, "--fail-if", "errors>1", liar.url).status == DONE
    with Liar(at(5, OK.replace(b"200", b"500"))) as liar:
        assert measured("-n", 20, "--fail-if", "errors>0", liar.url).status == LIMIT


def test_no_latency_of_nothing():
    """A server that never answers keeps no limit on latency."""
    with Liar(lambda sock, number: True) as liar:
        run = measured("-n", 2, "-T", "200ms", "--fail-if", "p99>10s", "--fail-if", "errors>1000", liar.url)
    assert run.status == LIMIT


@pytest.mark.parametrize("words, said", [
    ([], "no URL is given"), (["http://"], "it has no host"), (["http://a:b/"], "port"),
    (["http://a:0/"], "port"), (["http://a:65536/"], "port"), (["http://[::1/"], "bracket"),
    (["http://[::1]x/"], "bracket"), (["ftp://a/"], "only http://, https:// and echo://"), (["https://"], "no host"), (["https:/a/"], "two slashes"),
    (["http://u:p@a/"], "Authorization"), (["http://a/ b"], "space"), (["http://a/\u00e4"], "ASCII"),
    (["http://a?x"], "path"), (["echo://a"], "port"), (["echo://127.0.0.1:1", "http://127.0.0.1:1"], "together"),
    (["-H", "Host", "127.0.0.1"], "field line"), (["-H", "a b: c", "127.0.0.1"], "field line"),
    (["-H", "A: b\r\nC: d", "127.0.0.1"], "field line"), (["-H", "Content-Length: 3", "127.0.0.1"], "where messages end"),
    (["http:/127.0.0.1/"], "two slashes"), (["ECHO:/127.0.0.1:1"], "two slashes"), (["a+b://c/"], "only http://, https:// and echo://"),
    (["--check", ".", "-H", "accept-encoding: gzip", "127.0.0.1/Makefile"], "leave Accept-Encoding"),
    (["--status", "99", "127.0.0.1"], "three digits"), (["--check", ".", "127.0.0.1/../x"], "names no file"),
    (["--fail-if", "p99>5", "127.0.0.1"], "not a limit"), (["--fail-if", "p101>5ms", "127.0.0.1"], "not a limit"),
    (["--fail-if", "p99=5ms", "127.0.0.1"], "not a limit"), (["--fail-if", "rps>5ms", "127.0.0.1"], "not a limit"),
    (["--source", "nowhere", "127.0.0.1"], "not an IPv4"), (["--source", "::1", "127.0.0.1"], "another family"),
    (["--check", "/nonexistent", "127.0.0.1"], "does not exist"), (["--urls", "/nonexistent"], "cannot read"),
    (["--urls", "/dev/null"], "no URL"), (["-k", "off", "--pipeline", "2", "127.0.0.1"], "--keep-alive"),
    (["--message-min", "9", "--message-max", "8", "echo://127.0.0.1:1"], "--message-max"),
    (["http://::1:80/"], "brackets"), (["::1"], "brackets"), (["fe80::1/"], "brackets"), (["http://[host]/"], "brackets"),
    (["--source", ",", "127.0.0.1"], "names no address"), (["--source", "192.0.2.1", "127.0.0.1"], "has no such address"),
    (["--source", ",".join(["127.0.0.1"] * 17), "127.0.0.1"], "at most 16"),
    (["--arrivals", "poisson", "127.0.0.1"], "of which rate"), (["--thinking", "constant", "127.0.0.1"], "how long"),
    (["--check", ".", "-X", "OPTIONS", "127.0.0.1/Makefile"], "OPTIONS"), (["--fail-if", "rps<1e999", "127.0.0.1"], "not a limit"),
    (["-o", "-", "--csv", "-", "127.0.0.1"], "two of them"), (["--csv", "/x/y", "--hgrm", "/x/y", "127.0.0.1"], "two of them"),
    (["--check", ".", "echo://127.0.0.1:1"], "echo"), (["-c", "0", "127.0.0.1"], "out of range"),
    (["--conections", "3", "127.0.0.1"], "did you mean --connections"),
], ids=str)
def test_mistakes(words, said):
    run = load(*words)
    assert run.status == USAGE and said in run.err and run.out == "" and run.err.count("\n") == 1, run.err


def test_descriptors_on_both_sides(server):
    def asked(files):
        return end(start("-n", 100, "-c", 100, "-t", 100, server.url, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (files, files))))
    assert asked(360).status == DONE
    short = asked(359)
    assert short.status == USAGE and "100 connections need 360 descriptors" in short.err and "at most 99" in short.err


def test_nobody_there(tmp_path):
    refused = load("http://127.0.0.1:1/")
    assert refused.status == CONNECT and "Connection refused" in refused.err and refused.err.count("\n") == 1
    nameless = load("http://no-such-host.invalid/")
    assert nameless.status == CONNECT and "no-such-host.invalid" in nameless.err
    nothing = load("-u", tmp_path / "socket", "http://x/")
    assert nothing.status == CONNECT and "socket" in nothing.err
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "s"))
        assert load("-u", tmp_path / "s", "http://x/").err.endswith("Connection refused; is the server running?\n")
    full = subprocess.run([LOAD, "--help"], stdout=open("/dev/full", "w"), stderr=subprocess.PIPE, check=False,  # noqa
                          env=environment(), timeout=PATIENCE)
    assert full.returncode == FAILED and b"cannot write" in full.stderr


# shows U34
def test_nonsense_has_a_line_and_an_exit_code():
    with Liar(always(b"220 mail.example ESMTP\r\n\r\n")) as liar:
        run = load("-n", 10, "-c", 1, liar.url)
    assert run.status == FAULTS and run.err == ""
    assert "10 answers that are not HTTP: head, length or chunks malformed" in run.out, run.out


def test_files_that_cannot_be_written(server):
    for option in ("-o", "--csv", "--hgrm", "--samples"):
        for path in ("/nonexistent/x", "/dev/full"):
            run = load("-n", 5, option, path, server.url)
            assert run.status == FAILED and "cannot write" in run.err


# --- Signals and the live line ------------------------------------------------------------------------------------

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_a_report(server, number):
    process = start("-o", "-", "-d", "60s", server.url)
    time.sleep(0.5)
    process.send_signal(number)
    run = end(process)
    assert run.json["interrupted"] and run.json["elapsed_s"] < 30
    assert run.json["requests"]["answered"] > 0 and run.status == DONE


def test_a_signal_while_nobody_accepts():
    """Connects that hang, because the listener's queue is full, are not waited for either."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        began = time.monotonic()
        process = start("-o", "-", "-c", 10, "-T", "60s", "http://%s:%d/" % listener.getsockname())
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        run = end(process)
    assert run.json["interrupted"] and run.json["requests"]["sent"] == 0 and time.monotonic() - began < 30


# shows U33
def test_the_live_line_is_for_terminals(server):
    ours, theirs = pty.openpty()
    process = subprocess.Popen([LOAD, "-d", "2s", "-c", "2", server.url], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=theirs, env={**environment(), "TERM": "xterm"})
    os.close(theirs)
    seen = []

    def read():
        try:
            while data := os.read(ours, 4096):
                seen.append(data)
        except OSError:
            pass
    reader = threading.Thread(target=read)
    reader.start()
    out = process.communicate(timeout=PATIENCE)[0]
    reader.join(PATIENCE)
    os.close(ours)
    text = b"".join(seen).decode()
    assert re.search(r"\r\x1b\[K\d+ s of 2 s   \d+ answers   \d+ /s   0 failed", text) and text.endswith("\x1b[K")
    assert b"\x1b" not in out and process.returncode == 0
    assert load("-n", 5, server.url).err == ""


# --- Forms ----------------------------------------------------------------------------------------------------------

# shows E09, U33
def test_json_fits_its_schema(server):
    runs = [measured("-n", 50, server.url), measured("-R", 500, "-n", 100, "--fail-if", "p99>1us", server.url),
            measured("-R", 500, "-d", "200ms", "--arrivals", "poisson", server.url + "nothere")]
    with rung("echo", "-p", 0) as echo:
        runs.append(measured("-n", 50, f"echo://127.0.0.1:{echo.port}"))
    with Liar(always(b"nonsense")) as liar:
        runs.append(measured("-n", 50, liar.url))
    for run in runs:
        assert not list(complaints(SCHEMA["$defs"]["run"], run.json, SCHEMA))
    knee = load("--find-knee", "-R", 2, "-d", "600ms", "--fail-if", "p50>0us", "-o", "-", server.url).json
    assert not list(complaints(SCHEMA["$defs"]["knee"], knee, SCHEMA))
    broken = {**runs[0].json, "form": 2, "extra": 1, "threads": 0, "url": None}
    del broken["model"]
    assert len(list(complaints(SCHEMA, broken, SCHEMA))) == 5
    broken = {**knee, "steps": [*knee["steps"], broken]}
    assert len(list(complaints(SCHEMA, broken, SCHEMA))) == 5


def test_statuses_and_ports(server):
    run = measured("-n", 40, "-c", 1, server.url, server.url + "nothere")
    assert run.json["status"] == {"200": 20, "404": 20} and run.errors() == {"bad_status": 20}
    assert "200: 20, 404: 20\n" in load("-n", 40, "-c", 1, server.url, server.url + "nothere").out
    assert 0 < run.json["ports"]["first"] < run.json["ports"]["last"] < 65536
    for made, told in ((900, False), (1000, True)):
        assert ("connections made" in load("-n", made, "-k", "off", server.url).out) == told


# shows E09, T02, U33
def test_csv_and_hgrm(server, tmp_path):
    run = measured("-R", 300, "-d", "2500ms", "--csv", tmp_path / "csv", "--hgrm", tmp_path / "hgrm", server.url)
    with open(tmp_path / "csv", encoding="ascii") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 3 and [int(row["second"]) for row in rows] == list(range(len(rows)))
    assert sum(int(row["answers"]) for row in rows) == run.json["requests"]["answered"]
    assert sum(int(row["received_bytes"]) for row in rows) == run.json["received_bytes"]
    assert max(float(row["latency_max_us"]) for row in rows) == pytest.approx(run.json["latency_us"]["max"], abs=0.1)
    lines = (tmp_path / "hgrm").read_text().splitlines()
    points = [line.split() for line in lines[2:] if not line.startswith("#")]
    counts = [int(point[2]) for point in points]
    assert counts == sorted(counts) and counts[-1] == run.json["latency_us"]["count"]
    assert float(points[-1][0]) == pytest.approx(run.json["latency_us"]["max"] / 1e3, abs=1e-5)
    assert float(points[-1][1]) == 1 and len(points[-1]) == 3


def samples(path):
    with open(path, encoding="ascii") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("options", [[], ["-R", 2000], ["--pipeline", 4], ["-k", "off"]], ids=["closed", "open", "pipelined", "each its own"])
# shows E09
def test_each_sample_is_kept(server, tmp_path, options):
    """One line for each request, in the order of sending; the quantiles are those of the report."""
    run = measured("-n", 1000, "-c", 8, "-t", 2, "--samples", tmp_path / "samples", *options, server.url)
    rows = samples(tmp_path / "samples")
    assert run.json["requests"]["answered"] == len(rows) == 1000
    assert {row["status"] for row in rows} == {"200"} and {row["error"] for row in rows} == {""}
    assert {int(row["connection"]) for row in rows} == set(range(8))
    sent, took = [float(row["sent_us"]) for row in rows], sorted(float(row["took_us"]) for row in rows)
    assert sent == sorted(sent) and sent[0] >= 0
    for row in rows:
        late = float(row["sent_us"]) - float(row["intended_us"])
        assert late >= -0.2 if options[:1] == ["-R"] else late == 0
    service = run.json["service_us"]
    assert took[-1] == pytest.approx(service["max"], abs=0.1)
    assert took[499] == pytest.approx(service["p50"], rel=0.01, abs=0.2) and took[989] == pytest.approx(service["p99"], rel=0.01, abs=0.2)


# shows E09
def test_samples_of_what_failed(tmp_path):
    """Wrong answers have a status and an error, lost requests have only an error."""
    def answer(sock, number):
        if number % 10 == 3:
            return False
        sock.sendall(OK.replace(b"200 OK", b"404 No") if number % 10 == 6 else OK)
        return True
    with Liar(answer) as liar:
        run = measured("-n", 100, "-c", 1, "--samples", tmp_path / "samples", liar.url)
    rows, errors = samples(tmp_path / "samples"), run.errors()
    assert len(rows) == 100 and errors == {"closed_early": 10, "bad_status": 10}
    found = collections.Counter((row["status"], row["error"]) for row in rows)
    assert found == {("200", ""): 80, ("404", "bad_status"): 10, ("", "closed_early"): 10}


def test_samples_to_standard_output(server):
    run = load("-n", 3, "--samples", "-", server.url)
    assert run.out.splitlines()[0] == "connection,intended_us,sent_us,took_us,status,error" and len(run.out.splitlines()) == 4


@pytest.mark.parametrize("options, status, words", [
    (["-d", "1s"], USAGE, "--samples: of how many requests? -n says it, 50 million at most"),
    (["-n", 50_000_001], USAGE, "--samples: of how many requests? -n says it, 50 million at most"),
    (["-n", 50_000_000], CONNECT, "Connection refused"), (["--find-knee"], USAGE, "are of one run")], ids=str)
def test_how_many_samples(options, status, words):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}/"
    run = load(*options, "--samples", "-", url)
    assert run.status == status and words in run.err and run.out == "", run.err


# shows U33
def test_report_for_people(server):
    run = load("-n", 100, server.url)
    assert re.match(rf"{re.escape(server.url)}: [0-9.]+ [mu]?s, 10 connections on \d+ threads?\n", run.out)
    assert "workload   1 URL, by Zipf's law" in load("-n", 1, "--zipf", 1, server.url).out
    for words in ("closed loop", "answers    100, ", "99.99%", "service ", "200: 100", "errors     none", "verdict "):
        assert words in run.out, words
    run = load("-n", 100, "-R", 1000, server.url)
    for words in ("open loop: 1000 requests/s at constant", "corrected ", "service ", "100 due, 0 never sent"):
        assert words in run.out, words
    assert load("-n", 5, "-q", server.url).out == ""
