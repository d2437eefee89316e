# SPDX-License-Identifier: MIT
"""Bounds of HTTP/2, on both sides: streams, heads, floods, and every deadline.

Deadlines and floods are looked at on each engine, because blocking engines and loops end a connection in different ways.
"""
import socket
import time

import pytest
from lib import client, h2
from lib.secured import EVERYWHERE
from lib.server import wait_for

pytestmark = [pytest.mark.userspace("HTTP/2"), pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls")]
STREAMS, CONTINUATIONS, CREDIT = 100, 8, 1000
HEAD_BYTES, FIELDS, TEXT_BYTES = 16384, 100, 262144
PING = h2.frame(h2.PING, payload=bytes(8))


@pytest.fixture
def asking(site):
    with h2.Client(site, secured=False) as one:
        one.get()
        yield one


def headers(stream, flags=h2.END_STREAM | h2.END_HEADERS, **what):
    return h2.frame(h2.HEADERS, flags, stream, h2.block(**what))


def status_of(block):
    """The status of the first answer of a connection."""
    name, value = h2.hpack.Decoder().decode(block)[0]
    assert name == ":status"
    return int(value)


class Raw:
    """Frames as they come, without a library that objects."""

    def __init__(self, server, *frames):
        self.sock = socket.create_connection(server.address, timeout=client.PATIENCE)
        self.data = b""
        self.sock.sendall(h2.PREFACE + h2.frame(h2.SETTINGS) + b"".join(frames))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, *frames):
        try:
            self.sock.sendall(b"".join(frames))
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has been ended, and what it said can be read

    def take(self, n):
        while len(self.data) < n:
            more = self.sock.recv(1 << 16)
            if not more:
                raise h2.Gone
            self.data += more
        taken, self.data = self.data[:n], self.data[n:]
        return taken

    def next(self):
        """The next frame: type, flags, stream, payload."""
        head = self.take(9)
        kind, flags, stream = h2.struct.unpack(">BBI", head[3:])
        return kind, flags, stream, self.take(int.from_bytes(head[:3], "big"))

    def wait(self, *wanted):
        """The payload of the next frame that begins as wanted: type, flags, stream."""
        while True:
            found = self.next()
            if found[:len(wanted)] == wanted:
                return found[3]
            assert found[0] != h2.GOAWAY, found

    def goaway(self):
        """The code of GOAWAY, and then the end."""
        code = int.from_bytes(self.wait(h2.GOAWAY)[4:8], "big")
        with pytest.raises((h2.Gone, ConnectionResetError)):
            while True:
                self.next()
        return code


# --- Streams ------------------------------------------------------------------------------------------------


@pytest.mark.core
def test_streams_at_a_time(site):
    """A hundred wait for their bodies; one more is refused, and may be asked again when another has ended."""
    with Raw(site) as one:
        for number in range(STREAMS + 1):
            one.send(headers(2 * number + 1, flags=h2.END_HEADERS))
        refused = one.wait(h2.RST_STREAM, 0, 2 * STREAMS + 1)
        assert int.from_bytes(refused, "big") == h2.REFUSED_STREAM
        one.send(h2.frame(h2.DATA, h2.END_STREAM, 1))
        one.wait(h2.HEADERS)
        one.send(headers(2 * STREAMS + 3))
        one.wait(h2.HEADERS, h2.END_HEADERS, 2 * STREAMS + 3)


@pytest.mark.core
def test_answers_at_work(site):
    """More answers than are worked on at a time, none of which can be sent: each has its turn when windows open."""
    with h2.Client(site, secured=False, window=0) as one:
        streams = [one.ask("/size/4096.bin") for _ in range(80)]
        one.h2.update_settings({h2.h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 65535})
        one.flush()
        assert all(len(one.reply(stream).body) == 4096 for stream in streams)


def test_text_that_waits(site):
    """Requests of 8 KB whose bodies do not come: the next one is refused, not the connection."""
    fit = TEXT_BYTES // (8000 + len("GET /hello.txt HTTP/1.1\r\nhost: a\r\nx: \r\n\r\n"))
    with Raw(site) as one:
        for number in range(fit + 1):
            one.send(headers(2 * number + 1, flags=h2.END_HEADERS, fields=[("x", "y" * 8000)]))
        refused = one.wait(h2.RST_STREAM, 0, 2 * fit + 1)
        assert int.from_bytes(refused, "big") == h2.REFUSED_STREAM
        one.send(h2.frame(h2.DATA, h2.END_STREAM, 2 * fit - 1))
        one.wait(h2.HEADERS, h2.END_HEADERS, 2 * fit - 1)


@pytest.mark.core
def test_streams_beyond_what_was_acknowledged(site):
    with Raw(site) as one:
        one.wait(h2.SETTINGS)
        one.send(h2.frame(h2.SETTINGS, h2.ACK))
        one.send(*[headers(2 * number + 1, flags=h2.END_HEADERS) for number in range(STREAMS)])
        one.send(PING)
        one.wait(h2.PING, h2.ACK)
        one.send(headers(2 * STREAMS + 1))
        assert one.goaway() == h2.PROTOCOL_ERROR


DONE = h2.frame(h2.RST_STREAM, 0, 1, b"\0\0\0\x08")


@pytest.mark.parametrize("late", [h2.frame(h2.DATA, h2.END_STREAM, 1, b"x"), headers(1)], ids=["data", "headers"])
@pytest.mark.parametrize("before", [b"", DONE], ids=["ended", "reset"])
def test_a_stream_that_the_client_has_closed(site, before, late):
    """RFC 9113 5.1: nothing but PRIORITY may follow, whether it comes at once or after the answer."""
    with Raw(site, headers(1), before, late) as one:
        assert one.goaway() == h2.STREAM_CLOSED
    with Raw(site, headers(1)) as one:
        one.wait(h2.DATA, h2.END_STREAM)
        one.send(before, late)
        assert one.goaway() == h2.STREAM_CLOSED
    with Raw(site, headers(5)) as one:  # a number that was left out means a stream that was never opened
        one.send(h2.frame(h2.DATA, 0, 3))
        assert one.goaway() == h2.PROTOCOL_ERROR


def test_a_stream_that_we_have_closed(site):
    """Frames that were on their way are ignored: for a refused stream, a malformed one, and one answered before its end."""
    rest = [h2.frame(h2.DATA, 0, 1, b"x" * 1000), h2.frame(h2.HEADERS, h2.END_STREAM | h2.END_HEADERS, 1, b"")]
    for first in (headers(1, flags=h2.END_HEADERS, method="PUT", fields=[("expect", "100-continue")]),
                  headers(1, flags=h2.END_HEADERS, path="")):
        with Raw(site, first, *rest, PING) as one:
            one.wait(h2.PING, h2.ACK)
        with Raw(site, first) as one:
            one.wait(h2.RST_STREAM)
            one.send(*rest, PING)
            one.wait(h2.PING, h2.ACK)
    with Raw(site) as one:
        one.send(*[headers(2 * number + 1, flags=h2.END_HEADERS) for number in range(STREAMS + 1)])
        one.send(h2.frame(h2.DATA, 0, 2 * STREAMS + 1, b"x"), PING)
        one.wait(h2.PING, h2.ACK)


# --- Heads --------------------------------------------------------------------------------------------------


def cut(block, parts):
    """A header block as HEADERS and that many CONTINUATION frames."""
    size = -(-len(block) // (parts + 1))
    pieces = [block[at:at + size] for at in range(0, len(block), size)]
    assert len(pieces) == parts + 1
    for number, piece in enumerate(pieces):
        flags = h2.END_HEADERS if number == parts else 0
        yield h2.frame(h2.CONTINUATION if number else h2.HEADERS, flags | (0 if number else h2.END_STREAM), 1, piece)


@pytest.mark.core
def test_bytes_of_a_head(site):
    """As text, as http_proto counts them: GET /hello.txt HTTP/1.1, host: a, x: yyy..., and the empty line."""
    room = HEAD_BYTES - len("GET /hello.txt HTTP/1.1\r\nhost: a\r\nx: \r\n\r\n")
    for size, status in ((room, 200), (room + 1, 431), (room + 20000, 431)):
        block = h2.block(fields=[("x", "~" * size)])  # hpack codes it longer, so that frames must be cut
        parts = max(1, len(block) // 16000)
        with Raw(site, *cut(block, parts)) as one:
            assert status_of(one.wait(h2.HEADERS)) == status
            one.send(headers(3))
            one.wait(h2.HEADERS, h2.END_HEADERS, 3)


def test_number_of_fields(site):
    for count, status in ((FIELDS - 1, 200), (FIELDS, 431)):  # and Host
        with Raw(site, headers(1, fields=[("x", "y")] * count)) as one:
            assert status_of(one.wait(h2.HEADERS)) == status


@pytest.mark.core
def test_fields_without_end(site):
    """Beyond four times a head's bytes, not even the tables are kept right: the connection ends."""
    def request(size):
        return cut(h2.block(fields=[("x", "0" * (size // 4))] * 4), 7)  # 5 bits a digit
    with Raw(site, *request(60000)) as one:
        one.wait(h2.HEADERS)
    with Raw(site, *request(66000)) as one:
        assert one.goaway() == h2.CALM


@pytest.mark.core
# shows U77
def test_continuations(site):
    block = h2.block(fields=[("x", "y" * 3000)])
    with Raw(site, *cut(block, CONTINUATIONS)) as one:
        one.wait(h2.HEADERS, h2.END_HEADERS, 1)
    with Raw(site, *cut(block, CONTINUATIONS + 1)) as one:
        assert one.goaway() == h2.CALM
    with Raw(site, h2.frame(h2.HEADERS, 0, 1, block[:10]), *[h2.frame(h2.CONTINUATION, 0, 1)] * 50) as one:  # without a byte
        assert one.goaway() == h2.CALM


def test_malformed_requests_end_their_stream(site):
    """RFC 9113 8.1.1: a stream error; the connection goes on."""
    good = [(":method", "GET"), (":scheme", "http"), (":path", "/hello.txt"), (":authority", "a")]
    bad = [good[1:], good[:1] + good[2:], good[:2] + good[3:], [*good, (":path", "/")], [*good, ("Upper", "x")],
           [*good, ("connection", "close")], [*good, ("transfer-encoding", "chunked")], [*good, ("te", "gzip")],
           [*good[:2], (":path", "/a b"), good[3]], [*good[:2], (":path", "/\r\nx: y"), good[3]],
           [*good, ("x", "a\r\nrange: bytes=0-1")], [*good, ("x", "a\nb")], [*good, ("x", "a\0b")], [("x", "y"), *good], [*good[:2], (":path", ""), good[3]], [*good, (":other", "x")]]
    with Raw(site) as one:
        for stream, fields in zip(range(1, 1000, 2), bad):
            block = h2.hpack.Encoder().encode([h2.hpack.NeverIndexedHeaderTuple(*pair) for pair in fields])
            one.send(h2.frame(h2.HEADERS, h2.END_STREAM | h2.END_HEADERS, stream, block))
            code = one.wait(h2.RST_STREAM, 0, stream)
            assert int.from_bytes(code, "big") == h2.PROTOCOL_ERROR, fields
        one.send(headers(1001))
        assert b"HTTP" not in one.wait(h2.HEADERS, h2.END_HEADERS, 1001)
        assert one.wait(h2.DATA) == b"Hello, world\n"


# --- Floods -------------------------------------------------------------------------------------------------

FLOODS = {
    "ping": PING,
    "settings": h2.frame(h2.SETTINGS),
    "priority": h2.frame(h2.PRIORITY, 0, 1, bytes(5)),
    "priority update": h2.frame(h2.PRIORITY_UPDATE, payload=b"\0\0\0\1u=0"),
    "window": h2.frame(h2.WINDOW_UPDATE, 0, 0, b"\0\0\0\1"),
    "unknown": h2.frame(0x77),
}


@pytest.mark.core
@pytest.mark.parametrize("name", FLOODS)
def test_frames_that_bring_nothing(site, name):
    """As many as the credit has are fine; answers give it back; and one more ends the connection."""
    one = FLOODS[name]
    with Raw(site) as peer:
        peer.send(one * (CREDIT - 10))
        peer.send(PING[:9] + b"mark one")
        while peer.wait(h2.PING, h2.ACK) != b"mark one":
            continue
        for stream in range(1, 201, 2):  # 100 answers
            peer.send(headers(stream))
            peer.wait(h2.HEADERS, h2.END_HEADERS, stream)
        peer.send(one * (CREDIT - 100))
        peer.send(PING[:9] + b"mark two")
        while peer.wait(h2.PING, h2.ACK) != b"mark two":
            continue
        peer.send(one * 200)
        assert peer.goaway() == h2.CALM


@pytest.mark.core
def test_empty_data(site):
    with Raw(site, headers(1, flags=h2.END_HEADERS)) as one:
        one.send(h2.frame(h2.DATA, 0, 1) * (CREDIT - 10))
        one.send(h2.frame(h2.DATA, h2.END_STREAM, 1))
        one.wait(h2.HEADERS, h2.END_HEADERS, 1)
    with Raw(site, headers(1, flags=h2.END_HEADERS)) as one:
        one.send(h2.frame(h2.DATA, 0, 1) * CREDIT)
        assert one.goaway() == h2.CALM


@pytest.mark.core
# shows U77
def test_rapid_reset(site):
    """CVE-2023-44487: streams that are opened only to be reset, each with work done for it."""
    def resets(first, count):
        for stream in range(first, first + 2 * count, 2):
            yield headers(stream, path="/giant.bin") + h2.frame(h2.RST_STREAM, 0, stream, b"\0\0\0\x08")
    with Raw(site) as one:
        one.send(*resets(1, 100))  # a page that is left
        one.send(headers(1001))
        one.wait(h2.HEADERS, h2.END_HEADERS, 1001)
        one.send(*resets(2001, 300))
        assert one.goaway() == h2.CALM


def test_resets_that_are_provoked(site):
    """CVE-2025-8671: frames for which the server resets the stream cost as much."""
    with Raw(site) as one:
        for stream in range(1, 1001, 2):
            one.send(headers(stream, path="/giant.bin") + h2.frame(h2.WINDOW_UPDATE, 0, stream, b"\x7f\xff\xff\xff"))
        assert one.goaway() == h2.CALM


@pytest.mark.core
def test_a_client_that_works_much_is_no_flood(asking):
    """Thousands of requests on one connection, with all the frames that belong to them."""
    for _ in range(30):
        streams = [asking.ask() for _ in range(100)]
        asking.h2.ping(b"12345678")
        for stream in streams:
            assert asking.reply(stream).body == b"Hello, world\n"
    assert not asking.goaways


def test_acknowledgements_that_are_not_read(site):
    """The peer sends and does not read: what waits for it is bounded by the credit, and the connection ends."""
    with Raw(site) as one:
        one.send(PING * 100000)
        with pytest.raises((h2.Gone, ConnectionResetError, AssertionError)):
            while True:
                one.wait(h2.PING)


# --- Deadlines ----------------------------------------------------------------------------------------------


def until_gone(one, began):
    with pytest.raises((h2.Gone, ConnectionResetError)):
        while True:
            one.next()
    return time.monotonic() - began


@pytest.mark.long
@pytest.mark.parametrize("part", ["half a preface", "half a frame's head", "half a frame", "a header block without end"])
def test_parts_have_a_head_s_time(start, standard, part):
    server = start(standard, "--head-timeout", "1s", "--idle-timeout", "1h")
    began = time.monotonic()
    with client.Wire(server.address, secured=False) if part == "half a preface" else Raw(server) as one:
        if part == "half a preface":
            one.send(h2.PREFACE[:20])
            one.end()
        else:
            one.send({"half a frame's head": PING[:5], "half a frame": PING[:12],
                      "a header block without end": headers(1, flags=h2.END_STREAM)}[part])
            until_gone(one, began)
    assert time.monotonic() - began > 0.9
    wait_for(lambda: server.stats()["expired"] == 1, "its time is up")


def ended(sock):
    """Whether the server ends the connection before the socket's time is up."""
    try:
        return sock.recv(1000) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.long
def test_a_dripped_head(start, standard):
    """A byte now and then, while another stream of the connection is busy."""
    server = start(standard, "--head-timeout", "1s", "--idle-timeout", "1h")
    request = headers(1)
    with Raw(server) as one:
        one.sock.settimeout(0.1)
        began = time.monotonic()
        for at in range(len(request) - 1):
            one.send(request[at:at + 1])
            if ended(one.sock):
                break
        assert 0.9 < time.monotonic() - began < 0.1 * len(request)


@pytest.mark.long
def test_frames_that_bring_nothing_prolong_nothing(start, standard):
    server = start(standard, "--idle-timeout", "1s", "--head-timeout", "1h")
    with Raw(server) as one:
        one.sock.settimeout(0.1)
        began = time.monotonic()
        while time.monotonic() < began + client.PATIENCE:
            time.sleep(0.05)
            one.send(PING)
            if ended(one.sock):
                break
        assert 0.9 < time.monotonic() - began < client.PATIENCE


@pytest.mark.long
def test_a_window_that_stays_shut(start, standard):
    """The stream is reset while the connection is used; without other use the connection ends."""
    server = start(standard, "--send-timeout", "1s", "--idle-timeout", "1h")
    with h2.Client(server, secured=False, window=0) as one:
        one.reads = False
        stuck = one.ask("/size/65536.bin")
        while stuck not in one.resets:
            other = one.ask("/size/0.bin")
            assert one.reply(other).status == 200
            time.sleep(0.05)
        assert one.resets[stuck] == h2.CANCEL
        assert one.get("/size/0.bin").status == 200
    with h2.Client(server, secured=False, window=0) as one:
        began = time.monotonic()
        one.ask("/size/65536.bin")
        one.until_gone()
        assert time.monotonic() - began > 0.9


@pytest.mark.long
def test_a_body_that_stops(start, standard):
    server = start(standard, "--send-timeout", "1s", "--idle-timeout", "1h", "--min-progress", "1000")
    with h2.Client(server, secured=False) as one:
        stuck = one.ask(ends=False)
        steady = one.ask(ends=False)
        for _ in range(30):
            one.say(steady, b"x" * 1000, ends=False)
            assert one.get().status == 200
            time.sleep(0.1)
        assert one.resets == {stuck: h2.CANCEL}
        one.say(steady, b"x")
        assert one.reply(steady).status == 200
    with h2.Client(server, secured=False) as one:
        one.ask(ends=False)
        one.until_gone()


@pytest.mark.long
def test_a_client_that_does_not_read(start, standard):
    server = start(standard, "--send-timeout", "1s")
    with h2.Client(server, secured=False, window=1 << 24, rcvbuf=4096) as one:
        one.h2.increment_flow_control_window(1 << 24)
        one.ask("/giant.bin")
        wait_for(lambda: server.stats()["expired"] == 1, "its time is up")
    wait_for(lambda: server.stats()["broken"] == 1, "and its answer counted as cut off")
