# SPDX-License-Identifier: MIT
"""rung trace sniff prints exactly the first lines that were sent, on loopback and between two network namespaces."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest
import sniffing
from aid import DONE, FAILED, LOAD, SMALL, TRACE, USAGE, Lies, environment, exactly, request, rung, trace
from sniffing import Sniffer, Two, frame, say
from words import Words

ANSWER = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n\r\nend"
ASK = "GET /{} HTTP/1.1\r\nHost: a\r\n\r\n"


def refused():
    done = subprocess.run([TRACE, "sniff", "-i", "lo", "-d", "10ms"], capture_output=True, text=True, env=environment(), timeout=60, check=False)
    return None if done.returncode == DONE else done.stderr.strip()


@pytest.fixture(scope="session")
def unable():
    return refused()


@pytest.fixture
def able(unable):
    """Skips the test if rights are missing, or if rung-trace was built without clang."""
    if unable:
        pytest.skip(unable)


@pytest.fixture
def pair(able):
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("network namespaces need root, and iproute2's ip")
    with Two() as found:
        yield found


@pytest.fixture(params=["127.0.0.1", "::1"])
def server(request, able):
    with Lies(request.param) as found:
        yield found


def talk(client, there, asked, answer, size=65536):
    """Sends one request and one answer, in pieces of `size` bytes."""
    for end, other, data in ((client, there, asked), (there, client, answer)):
        for at in range(0, len(data), size):
            end.sendall(data[at:at + size])
        exactly(other, len(data))


# --- On loopback -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [65536, 7, 1])
# shows S12
def test_exactly_the_lines(server, size):
    """Each line is shown once, with its sender and receiver, although loopback shows each packet twice."""
    with sniffing.sniffing("-i", "lo", "--port", server.port, "--json") as runs:
        client, there = server.pair()
        for number in range(3):
            talk(client, there, request(f"/{number}"), SMALL, size)
        talk(client, there, b"HEAD /h HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n", size)
        talk(client, there, request("/last"), SMALL, size)
        ends = say(*client.getsockname()[:2]), say(*server.address[:2])
    lines = [line for number in range(3) for line in ((*ends, f"GET /{number} HTTP/1.1"), (*ends[::-1], "HTTP/1.1 200 OK"))]
    lines += [(*ends, "HEAD /h HTTP/1.1"), (*ends[::-1], "HTTP/1.1 404 Not Found"), (*ends, "GET /last HTTP/1.1"), (*ends[::-1], "HTTP/1.1 200 OK")]
    assert runs[0].status == DONE and runs[0].lines == lines
    left_out = {key: runs[0].summary[key] for key in ("dropped", "gaps", "crowded", "longer", "fragments", "broken")}
    assert runs[0].summary["lines"] == 10 and not any(left_out.values()), left_out


def test_as_text(able):
    """A line is a time, two ends and the first line, and nothing else is on standard output."""
    with Lies() as server, sniffing.sniffing("-i", "lo", "--port", server.port) as runs:
        client, there = server.pair()
        talk(client, there, request("/a\x1b[2J\x07\\"), b"HTTP/1.1 200 \xc2\x9b2J\xff\r\nContent-Length: 0\r\n\r\n")
        ends = say(*client.getsockname()), say(*server.address)
    number = r"\d\d:\d\d:\d\d\.\d{6} "
    assert re.fullmatch(number + re.escape(f"{ends[0]} -> {ends[1]} GET /a\\x1b[2J\\x07\\x5c HTTP/1.1\n") +
                        number + re.escape(f"{ends[1]} -> {ends[0]} HTTP/1.1 200 \\xc2\\x9b2J\\xff\n"), runs[0].out), runs[0].out
    assert "2 lines in " in runs[0].err and "left out" not in runs[0].err


def test_in_json_no_byte_is_lost(able):
    with Lies() as server, sniffing.sniffing("-i", "lo", "--port", server.port, "--json") as runs:
        client, there = server.pair()
        talk(client, there, b'GET /"\x01\xff\\ HTTP/1.1\r\nHost: a\r\n\r\n', SMALL)
    assert runs[0].texts == ['GET /"\x01\xff\\ HTTP/1.1', "HTTP/1.1 200 OK"]


# shows D29, S12
def test_bodies_and_strangers_are_not_shown(able):
    """Not shown: a body that looks like a head, and protocols other than HTTP, of which every byte and packet is skipped."""
    with Lies() as server, sniffing.sniffing("-i", "lo", "--port", server.port, "--json") as runs:
        client, there = server.pair()
        inner = request("/inner")
        talk(client, there, b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (2 * len(inner)) + inner, SMALL)
        client.sendall(inner + request("/next"))
        talk(*server.pair(), b"SSH-2.0-client\r\n", b"SSH-2.0-server\r\n")
        talk(*server.pair(), b"\x16\x03\x01" + inner, b"220 mail\r\n")
    assert runs[0].texts == ["PUT / HTTP/1.1", "HTTP/1.1 200 OK", "GET /next HTTP/1.1"]


# shows S12
def test_a_load(able):
    """Requests of a load generator, all of them, on connections that come and go; pipelined ones too."""
    with rung("epoll") as port:
        for args in (["-c", 4, "-n", 400, "-k", "off"], ["-c", 2, "-n", 400, "--pipeline", 8]):
            with sniffing.sniffing("-i", "lo", "--port", port, "--json", "--buffer", "64m") as runs:
                subprocess.run([LOAD, "-q", *map(str, args), f"http://127.0.0.1:{port}/shelf/hello.txt"], check=True, timeout=60, env=environment())
            assert runs[0].texts.count("GET /shelf/hello.txt HTTP/1.1") == 400
            assert runs[0].texts.count("HTTP/1.1 200 OK") == 400 and len(runs[0].texts) == 800


def test_a_late_sniffer(able):
    """A sniffer that starts late shows new requests of a connection that was open before."""
    with Lies() as server:
        client, there = server.pair()
        talk(client, there, request("/before"), SMALL)
        with sniffing.sniffing("-i", "lo", "--port", server.port, "--json") as runs:
            talk(client, there, request("/after"), SMALL)
    assert runs[0].texts == ["GET /after HTTP/1.1", "HTTP/1.1 200 OK"]


def test_only_that_port(able):
    with Lies() as server, Lies() as other, sniffing.sniffing("-i", "lo", "--port", server.port, "--json") as runs:
        for number, one in enumerate((other, server, other)):
            talk(*one.pair(), request(f"/{number}"), SMALL)
    assert runs[0].texts == ["GET /1 HTTP/1.1", "HTTP/1.1 200 OK"]


def test_a_number_of_lines(able):
    with Lies() as server:
        sniffer = Sniffer("-i", "lo", "--port", server.port, "--json", "-n", 3)
        client, there = server.pair()
        for _ in range(3):
            talk(client, there, request("/"), SMALL)
        run = sniffer.end(how=None)
    assert run.status == DONE and len(run.lines) == run.summary["lines"] == 3


def test_dropped_packets_are_said(able):
    """The sniffer is stopped for a while, and its buffer is small: packets that did not fit are counted, and the rest is shown."""
    with Lies() as server:
        sniffer = Sniffer("-i", "lo", "--port", server.port, "--buffer", "16k")
        client, there = server.pair()
        sniffer.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, sniffer.process.pid, os.WSTOPPED)
        for number in range(200):
            talk(client, there, request(f"/{number}"), SMALL)
        sniffer.process.send_signal(signal.SIGCONT)
        run = sniffer.end()
    dropped = int(re.search(r"left out: (\d+) packets that did not fit the buffer", run.err)[1])
    shown = run.out.count("\n")
    assert run.status == DONE and 300 <= dropped < 400 and 0 < shown <= 404 - dropped


# --- On an Ethernet interface ----------------------------------------------------------------------------


@pytest.mark.parametrize("addresses", [("10.9.0.1", "10.9.0.2"), ("fd09::1", "fd09::2")])
@pytest.mark.parametrize("size", [65536, 1])
@pytest.mark.parametrize("where", [0, 1])
# shows D29, S12
def test_between_namespaces(pair, addresses, size, where):
    """At either end of a pair of interfaces, incoming and outgoing lines are shown, each once."""
    with pair.answering(1, addresses[1], ANSWER) as port:
        with sniffing.sniffing("-i", "eth0", "--json", within=pair.within(where)) as runs:
            mine = int(pair.run(0, "ask", addresses[1], port, size, json.dumps([ASK.format(number) for number in range(3)])))
    ends = say(addresses[0], mine), say(addresses[1], port)
    assert runs[0].lines == [line for number in range(3)
                             for line in ((*ends, f"GET /{number} HTTP/1.1"), (*ends[::-1], "HTTP/1.1 200 OK"))]


# shows D29
def test_vlans_and_options(pair):
    """Tags that the kernel removes and tags that it leaves; IPv4 options; connections of two VLANs are two."""
    one, two = b"GET /one HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /two HTTP/1.1\r\nHost: a\r\n\r\n"
    frames = [frame(one, tags=(7,)), frame(two, tags=(7, 8)), frame(one, tags=(8,)), frame(two, options=b"\1" * 12), frame(one, tags=(9, 9, 7, 8))]
    for where in (0, 1):
        with sniffing.sniffing("-i", "eth0", "--json", within=pair.within(where)) as runs:
            pair.run(1, "put", *(one.hex() for one in frames))
        assert runs[0].lines == [("10.9.0.2:40000", "10.9.0.1:80", f"GET /{name} HTTP/1.1") for name in ("one", "two", "one", "two")], where


def test_packets_out_of_order(pair):
    """A head whose parts arrive in the wrong order, one of them twice."""
    def part(seq, payload, flags=0x18):
        made = bytearray(frame(payload))
        made[14 + 20 + 4:14 + 20 + 8] = seq.to_bytes(4, "big")
        made[14 + 20 + 13] = flags
        return bytes(made).hex()
    head = b"GET /order HTTP/1.1\r\nHost: a\r\n\r\n"
    frames = [part(100, b"", 2), part(121, head[20:]), part(111, head[10:20]), part(101, head[:10]), part(101, head[:15])]
    with sniffing.sniffing("-i", "eth0", "--json", within=pair.within(0)) as runs:
        pair.run(1, "put", *frames)
    assert runs[0].texts == ["GET /order HTTP/1.1"]


def test_many_connections(pair):
    """There are more open connections than the sniffer follows: each one that it drops is counted, and its line was shown."""
    with sniffing.sniffing("-i", "eth0", "--json", "--buffer", "256m", within=pair.within(0)) as runs:
        pair.run(1, "flood", 17000)
    assert len(set(runs[0].lines)) == len(runs[0].lines) == 17000
    assert runs[0].summary["crowded"] == 17000 - 16384 and runs[0].summary["dropped"] == 0


def test_an_interface_that_goes_down(pair):
    sniffer = Sniffer("-i", "eth0", within=pair.within(0))
    pair.ip("-n", pair.name[0], "link", "set", "eth0", "down")
    run = sniffer.end(how=None)
    assert run.status == FAILED and "eth0 went down" in run.err


# --- Refusals --------------------------------------------------------------------------------------------


def sniff(*args, **options):
    return trace("sniff", *args, **options)


@pytest.mark.parametrize("args, words", [((), "which interface? rung trace sniff -i lo"), (("-i", "lo", "80"), "only options are taken"),
                                         (("-i", "lo", "--port", "65536"), "out of range")])
def test_usage(args, words):
    run = sniff(*args)
    assert run.status == USAGE and words in run.err and not run.out


@pytest.mark.parametrize("name, status, words", [("nosuch0", FAILED, "there is no such interface in this network namespace; ip -brief link lists"),
                                                 ("x" * 16, USAGE, "at most 15 letters"), ("", USAGE, "cannot be empty")])
def test_no_such_interface(able, name, status, words):
    run = sniff("-i", name)
    assert run.status == status and words in run.err


def test_an_interface_that_is_down(pair):
    pair.ip("-n", pair.name[0], "link", "set", "eth0", "down")
    done = subprocess.run([*pair.within(0), TRACE, "sniff", "-i", "eth0"], capture_output=True, text=True, timeout=60, env=environment(), check=False)
    assert done.returncode == FAILED and "the interface is down, so no packet passes it: ip link set eth0 up" in done.stderr


@pytest.mark.parametrize("caps, words", [("", "not permitted to read an interface's packets"), ("+net_raw", "not permitted to load the filter")])
def test_without_the_rights(able, caps, words):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can give up rights, with util-linux's setpriv")
    done = subprocess.run(["setpriv", f"--bounding-set=-all{',' + caps if caps else ''}", TRACE, "sniff", "-i", "lo"], capture_output=True,
                          text=True, timeout=60, env=environment(), check=False)
    assert done.returncode == FAILED and words in done.stderr and "CAP_NET_RAW and CAP_BPF" in done.stderr, done.stderr


def test_output_that_goes_nowhere(able):
    with Lies() as server, open("/dev/full", "wb") as full:
        with subprocess.Popen([TRACE, "sniff", "-i", "lo", "--port", str(server.port)], stdout=full, stderr=subprocess.PIPE,
                              text=True, env=environment()) as process:
            assert "sniffing on" in process.stderr.readline()
            talk(*server.pair(), request("/"), SMALL)
            said = process.stderr.read()
    assert process.returncode == FAILED and "cannot go on sniffing: the disk is full" in said


class TestWords(Words):
    name, least, run = "trace", 6, staticmethod(sniff)

    def test_every_option_is_everywhere(self, monkeypatch):
        monkeypatch.setattr(self, "name", "trace_sniff", raising=False)
        super().test_every_option_is_everywhere()

    def test_help_fits_a_terminal(self):
        for line in (self.said("--help") + self.said("--help-all")).splitlines():
            assert len(line) <= 80, line
