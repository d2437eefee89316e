# SPDX-License-Identifier: MIT
"""--show: the first requests as they were sent, the heads of their answers as they came, and how each ended."""
import re
import signal
import time

import pytest
from aid import CONNECT, DONE, FAULTS, OK, USAGE, Liar, Witness, always, end, load, measured, rung, start


@pytest.fixture(scope="module")
def server(site):
    with rung("serve", "-p", 0, site) as one:
        one.url = f"http://127.0.0.1:{one.port}/a.txt"
        yield one


def shown(run, number, way):
    """The lines of a request that begin with >, < or =."""
    return re.findall(rf"(?m)^{number} {way} (.*)$", run.err)


def numbers(run):
    return sorted({int(number) for number in re.findall(r"(?m)^(\d+) [<>=] ", run.err)})


# shows T01
def test_what_was_sent_and_received():
    """The very bytes, an own Host among them; stdout has the result as ever."""
    with Witness(lambda request: OK) as server:
        run = measured("-n", 3, "-c", 1, "--show", 2, "-H", "Host: other.example", "-H", "X-Mine: 1", server.url + "/a")
    assert run.status == DONE and numbers(run) == [1, 2]
    line, *fields = shown(run, 1, ">")
    assert line == "GET /a HTTP/1.1" and {"Host: other.example", "X-Mine: 1"} < set(fields) and shown(run, 2, ">") == [line, *fields]
    for request in server.asked:
        assert [field.partition(": ")[0].lower() for field in fields] == request.names
        assert {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)} == request.field
    for number in (1, 2):
        assert shown(run, number, "<") == ["HTTP/1.1 200 OK", "Content-Length: 5"]
        assert re.fullmatch(r"200, after \d+\.\d{3} ms", *shown(run, number, "="))


@pytest.mark.parametrize("wanted, printed", [(0, 0), (1, 1), (39, 39), (40, 40), (41, 40), (1000, 40)])
def test_as_many_as_wanted(server, wanted, printed):
    """All threads together, whichever is first."""
    run = measured("-n", 40, "-c", 4, "-t", 2, "--pipeline", 3, "--show", wanted, server.url)
    assert run.status == DONE and numbers(run) == list(range(1, printed + 1))
    for number in numbers(run):
        assert len(shown(run, number, "=")) == 1 and shown(run, number, "<")[0] == "HTTP/1.1 200 OK"
    assert load("--show", 1001, "-n", 1, server.url).status == USAGE


def test_heads_in_pieces_and_interim_answers():
    """A head is printed once, when it is complete, and so is each of two."""
    def slowly(sock, _):
        for piece in (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 2", b"00 OK\r\nContent-", b"Length: 0\r\n\r\n"):
            sock.sendall(piece)
            time.sleep(0.05)
        return True
    with Liar(slowly) as liar:
        run = measured("-n", 1, "-c", 1, "--show", 1, liar.url)
    assert shown(run, 1, "<") == ["HTTP/1.1 103 Early Hints", "Link: </a>", "HTTP/1.1 200 OK", "Content-Length: 0"]


def test_a_terminal_obeys_no_server():
    with Liar(always(b"HTTP/1.1 200 OK\r\nX: \x9b31m\xff\r\nContent-Length: 0\r\n\r\n")) as liar:
        run = measured("-n", 1, "-c", 1, "--show", 1, liar.url)
    assert shown(run, 1, "<")[1] == r"X: \x9b31m\xff" and run.status == DONE


@pytest.mark.parametrize("answer, words", [
    (b"HTTP/1.1 200 OK\r\nX: 1\r\n\x1b[2J bad\r\n\r\n", "bad_framing"), (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "bad_status")])
def test_what_was_wrong(answer, words):
    """The bytes are also shown if a head cannot be read."""
    with Liar(always(answer, False)) as liar:
        run = measured("-n", 1, "-c", 1, "--show", 1, liar.url)
    assert run.status == FAULTS and "\x1b" not in run.err
    assert shown(run, 1, "<")[0] == answer.partition(b"\r\n")[0].decode()
    assert re.search(words, shown(run, 1, "=")[0]) and re.search(r", after \d", shown(run, 1, "=")[0])


def test_no_answer():
    with Liar(lambda sock, _: time.sleep(3)) as liar:
        late = measured("-n", 2, "-c", 1, "-T", "300ms", "--show", 1, liar.url)
        process = start("-c", 2, "--show", 9, "-o", "-", liar.url)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        over = end(process)
    assert shown(late, 1, "=")[0].startswith("timed_out, after 3") and not shown(late, 1, "<")
    assert [shown(over, number, "=") for number in (1, 2)] == 2 * [["no answer before the end of the run"]]


@pytest.mark.parametrize("streams", [1, 5])
def test_http2(server, streams):
    """As it would be in HTTP/1.1."""
    run = measured("--http2", "-n", 5, "-c", 1, "--streams", streams, "--show", 5, server.url)
    assert run.status == DONE and numbers(run) == [1, 2, 3, 4, 5]
    for number in numbers(run):
        assert shown(run, number, ">")[0] == "GET /a.txt HTTP/1.1"
        assert shown(run, number, "<")[0] == "HTTP/1.1 200 "
        assert any(line.startswith("content-length: ") for line in shown(run, number, "<"))


def test_where_it_makes_no_sense(server):
    for args in (["--show", 1, "echo://127.0.0.1:1"], ["--find-knee", "--show", 1, server.url], ["--trial", "all", "--show", 1, server.url]):
        run = load(*args)
        assert run.status == USAGE and "--show" in run.err, run.err
    assert load("--show", 1, "http://127.0.0.1:1/").status == CONNECT
