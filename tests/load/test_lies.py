# SPDX-License-Identifier: MIT
"""Servers that lie, each in one of many answers: the lie is counted once, under its name, and the run fails."""
import socket
import struct
import threading
import time

import pytest
from aid import DONE, FAULTS, OK, Liar, always, at, measured, rung

LIE_AT = 41
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def slow(sock):
    time.sleep(1.5)
    sock.sendall(OK)
    return True


def cut(data):
    def lie(sock):
        sock.sendall(data)
        return False
    return lie


LIES = {
    "wrong byte": (OK.replace(b"hello", b"hellO"), "wrong_body"),
    "first byte": (OK.replace(b"hello", b"Hello"), "wrong_body"),
    "short body": (cut(OK[:-2]), "short_body"),
    "short chunked body": (cut(CHUNKED[:-7]), "short_body"),
    "half a head": (cut(OK[:20]), "short_body"),
    "shorter, and says so": (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell", "wrong_length"),
    "longer, and says so": (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!", "wrong_length"),
    "longer in chunks": (CHUNKED.replace(b"5\r\nhello", b"6\r\nhello!"), "wrong_length"),
    "late": (slow, "timed_out"),
    "never": (lambda sock: True, "timed_out"),
    "closed early": (lambda sock: False, "closed_early"),
    "reset": (reset, "reset"),
    "two answers for one": (OK + OK, "excess"),
    "a byte too many": (OK + b"!", "excess"),
    "bad chunk size": (CHUNKED.replace(b"5\r\n", b"5x\r\n"), "bad_framing"),
    "no end of a chunk": (CHUNKED.replace(b"hello\r\n", b"hello!!"), "bad_framing"),
    "garbage": (b"\0\1\2 nonsense\r\n\r\n", "bad_framing"),
    "two lengths": (OK.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n"), "bad_framing"),
    "length and chunks": (CHUNKED.replace(b"\r\n\r\n5", b"\r\nContent-Length: 5\r\n\r\n5"), "bad_framing"),
    "a head without end": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000, "bad_framing"),
    "not found": (OK.replace(b"200 OK", b"404 Not Found"), "bad_status"),
    "server error": (OK.replace(b"200 OK", b"503 Busy"), "bad_status"),
}


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    folder = tmp_path_factory.mktemp("truth")
    (folder / "x").write_bytes(b"hello")
    return folder


@pytest.mark.parametrize("name", LIES)
# shows D28, H05, T02, T04
def test_a_lie_is_caught(name, truth):
    lie, kind = LIES[name]
    with Liar(at(LIE_AT, lie)) as liar:
        run = measured("-n", 120, "-c", 3, "-T", "700ms", "--check", truth, liar.url)
    assert run.errors() == {kind: 1}, run.out
    assert run.status == FAULTS
    assert run.json["requests"]["sent"] == 120
    assert run.json["examples"][0]["error"] == kind and run.json["examples"][0]["url"] == liar.url


@pytest.mark.parametrize("option", [["--check"], ["--body-check"]], ids=str)
def test_where_a_byte_is_wrong(option, truth):
    """--check and --body-check find the wrong byte; --check also reports its place."""
    with Liar(at(LIE_AT, OK.replace(b"hello", b"helLo"))) as liar:
        run = measured("-n", 100, "-c", 1, *option, *([truth] if option == ["--check"] else []), liar.url)
    assert run.errors() == {"wrong_body": 1}
    assert run.json["examples"][0]["body_byte"] == (3 if option == ["--check"] else 0)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 4096, 200001])
# shows T04
def test_bodies_that_differ_anywhere(size):
    """--body-check finds any byte that differs, however the body is split."""
    body = bytes(range(256)) * (size // 256 + 1)
    body = body[:size]
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode()
    places = sorted({0, size // 2, size - 1})

    def answer(sock, number):
        sent = bytearray(body)
        if number and number <= len(places):
            sent[places[number - 1]] ^= 1
        split = number * 37 % (size + len(head))
        data = head + bytes(sent)
        sock.sendall(data[:split])
        sock.sendall(data[split:])
        return True
    with Liar(answer) as liar:
        run = measured("-n", 20, "-c", 1, "-t", 1, "--body-check", liar.url)
    assert run.errors() == {"wrong_body": len(places)}


def test_threads_compare_with_each_other():
    """Each thread sees one constant body, but the two bodies differ."""
    bodies = {}

    def answer(sock, _):
        data = bodies.setdefault(sock, OK if len(bodies) % 2 else OK.replace(b"hello", b"hullo"))
        sock.sendall(data)
        return True
    with Liar(answer) as liar:
        run = measured("-n", 40, "-c", 2, "-t", 2, "--body-check", liar.url)
    assert run.errors() == {"wrong_body": 1} and run.status == FAULTS


# shows E11
def test_echo_that_changes_a_byte():
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        sock = listener.accept()[0]
        for _ in range(5):
            sock.sendall(sock.recv(65536))
        data = bytearray(sock.recv(65536))
        data[-1] ^= 1
        sock.sendall(data)
        while sock.recv(65536):
            pass
    threading.Thread(target=serve, daemon=True).start()
    with listener:
        run = measured("-n", 6, "-c", 1, f"echo://127.0.0.1:{listener.getsockname()[1]}")
    assert run.errors() == {"wrong_body": 1} and run.status == FAULTS


# shows T04
def test_one_byte_in_a_million_answers(truth):
    """A million answers, pipelined so that Python can keep up, and one wrong byte."""
    lie, total, sent = 654321, 1_000_000, 0
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        nonlocal sent
        sock, rest = listener.accept()[0], b""
        block = OK * 64
        while piece := sock.recv(1 << 16):
            asked = (rest + piece).count(b"\r\n\r\n")
            rest = (rest + piece)[-3:]
            while asked:
                n = min(asked, 64)
                data = block[:len(OK) * n]
                if sent <= lie < sent + n:
                    wrong = (lie - sent + 1) * len(OK) - 2
                    data = data[:wrong] + b"L" + data[wrong + 1:]
                sock.sendall(data)
                sent, asked = sent + n, asked - n
    threading.Thread(target=serve, daemon=True).start()
    with listener:
        run = measured("-n", total, "-c", 1, "--pipeline", 64, "--check", truth,
                       f"http://127.0.0.1:{listener.getsockname()[1]}/x")
    assert run.json["requests"]["answered"] == total
    assert run.errors() == {"wrong_body": 1} and run.status == FAULTS
    assert run.json["examples"][0]["body_byte"] == 3


HONEST = {
    "length": always(OK),
    "chunked": always(CHUNKED),
    "chunked, with extensions and trailers": always(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n"
        b"2;a=1;b=\"x;y\"\r\nhe\r\n03 ; c\r\nllo\r\n0;last\r\nSum: 1\r\nOther: two, three\r\n\r\n"),
    "to the end of the stream": always(b"HTTP/1.1 200 OK\r\n\r\nhello", stay=False),
    "close": always(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), stay=False),
    "interim": always(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK),
    "1.0": always(OK.replace(b"1.1", b"1.0"), stay=False),
    "not modified": always(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
}


@pytest.mark.parametrize("name", HONEST)
# shows H04
def test_honest_servers_are_believed(name, truth):
    with Liar(HONEST[name]) as liar:
        run = measured("-n", 100, "-c", 2, "--check", truth, liar.url)
    assert run.errors() == {} and run.status == DONE and run.json["requests"]["answered"] == 100


def test_answers_in_single_bytes(truth):
    def answer(sock, _):
        for byte in CHUNKED:
            sock.sendall(bytes([byte]))
        return True
    with Liar(answer) as liar:
        run = measured("-n", 10, "-c", 2, "--check", truth, liar.url)
    assert run.errors() == {} and run.json["requests"]["answered"] == 10


# shows D27, D28
def test_a_server_that_dies_is_not_waited_for(site):
    """The dead server is not flooded with attempts either: failed connects are retried ever more slowly."""
    with Liar(at(50, lambda sock: False)) as liar:
        def dying(sock, number):
            if number == 50:
                liar.listener.close()
            sock.sendall(OK)
            return number < 50
        liar.answer = dying
        run = measured("-d", "60s", "-c", 2, "-T", "1s", liar.url)
    assert run.json["elapsed_s"] < 20 and run.status == FAULTS
    assert set(run.errors()) <= {"connect_refused", "connect_failed", "closed_early", "reset"}
    assert 1 <= run.errors()["connect_refused"] < 100
    assert run.json["connect_errno"]["ECONNREFUSED"] == run.errors()["connect_refused"]
    with rung("serve", "-p", 0, site) as server:
        assert measured("-n", 10, f"127.0.0.1:{server.port}").status == DONE
