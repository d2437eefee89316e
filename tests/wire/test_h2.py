# SPDX-License-Identifier: MIT
"""HTTP/2: answers, many at a time, request bodies, how it is chosen, and how it ends.  Bounds are in test_h2_bounds.py.

Engines do not know of HTTP/2, but the tests run on every engine: a connection receives while it sends, and is woken in the
middle of that, which depends on the engine.
"""
import base64
import ctypes
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest
from lib import client, h2, trees
from lib.secured import EVERYWHERE, Secured, anyone
from lib.server import wait_for

pytestmark = [pytest.mark.userspace("HTTP/2"), pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls")]
KINDS = [pytest.param((), id="plain"), pytest.param(("--tls", "self"), id="tls")]


@pytest.fixture(params=KINDS)
def served(request, start, standard):
    return start(standard, *request.param)


@pytest.fixture
def asking(served):
    with h2.Client(served) as one:
        yield one


# --- How it is chosen ---------------------------------------------------------------------------------------


@pytest.mark.core
# shows U77
def test_chosen_by_alpn(start, standard):
    server = start(standard, "--tls", "self")
    for offered, chosen in ((["h2"], "h2"), (["http/1.1", "h2"], "h2"), (["http/1.1"], "http/1.1"), ([], None)):
        context = anyone()
        if offered:
            context.set_alpn_protocols(offered)
        with socket.create_connection(server.address) as raw, context.wrap_socket(raw) as sock:
            assert sock.selected_alpn_protocol() == chosen
    with server.wire() as one:  # a client that names nothing speaks HTTP/1.1, and only that
        one.send(h2.PREFACE)
        assert one.reply().status == 505


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_tls(start, standard, version):
    server = start(standard, "--tls", "self")
    context = anyone()
    context.set_alpn_protocols(["h2"])
    context.minimum_version = context.maximum_version = version
    with h2.Client(server, secured=False) as one:
        one.sock.close()
        one.sock = Secured(socket.create_connection(server.address, timeout=client.PATIENCE), context)
        one.h2 = type(one.h2)(one.h2.config)
        one.h2.initiate_connection()
        assert one.get().body == b"Hello, world\n"


@pytest.mark.core
def test_the_preface_in_two_pieces(site):
    rest = h2.frame(h2.SETTINGS) + h2.frame(h2.HEADERS, h2.END_STREAM | h2.END_HEADERS, 1, h2.block())
    for cut in range(1, len(h2.PREFACE) + 12):
        with site.wire(secured=False) as one:
            one.send_cut(h2.PREFACE + rest, cut)
            assert one.take(9)[3] == h2.SETTINGS
            while b"Hello, world\n" not in one.rest:
                one.more()


@pytest.mark.core
def test_nearly_the_preface(site):
    for text in (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX", b"PRI * HTTP/2.0\r\nHost: a\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n", b"PRI / HTTP/2.0\r\n\r\nSM"):
        for cut in range(1, len(text)):
            with site.wire(secured=False) as one:
                one.send_cut(text, cut)
                assert one.reply().status == 505
    with site.wire(secured=False) as one:  # only at the beginning
        assert one.ask("/hello.txt").status == 200
        one.send(h2.PREFACE)
        assert one.reply().status == 505


# --- Answers ------------------------------------------------------------------------------------------------


@pytest.mark.core
def test_files(asking):
    for size in trees.SIZES:
        assert asking.get(f"/size/{size}.bin").body == trees.content(size, size)
    assert asking.get("/hello.txt").body == b"Hello, world\n"


@pytest.mark.core
def test_what_http_means_is_the_same(asking):
    """Every answer but its framing is http_proto's; one of each kind shows that nothing is lost on the way."""
    whole = asking.get("/alphabet.txt")
    assert whole.status == 200 and whole["accept-ranges"] == "bytes"
    head = asking.get("/alphabet.txt", "HEAD")
    assert head.status == 200 and head.length == 26 and not head.body
    assert asking.get("/alphabet.txt", fields=[("if-none-match", whole["etag"])]).status == 304
    assert asking.get("/alphabet.txt", fields=[("if-match", '"other"')]).status == 412
    part = asking.get("/alphabet.txt", fields=[("range", "bytes=3-5")])
    assert part.status == 206 and part.body == b"def"
    parts = asking.get("/alphabet.txt", fields=[("range", "bytes=0-1,24-")])
    assert parts.status == 206 and b"\r\n\r\nab\r\n" in parts.body and b"\r\n\r\nyz\r\n" in parts.body
    assert asking.get("/alphabet.txt", fields=[("range", "bytes=26-")]).status == 416
    assert asking.get("/no").status == 404
    assert asking.get("/a").status == 301
    assert asking.get("/hello.txt", "POST").status == 405
    assert asking.get("/hello.txt", "BREW").status == 501
    assert asking.get("*", "OPTIONS").status == 200
    assert b"one.txt" in asking.get("/list/").body
    assert asking.get("/list/?format=text", "HEAD").body == b""
    assert asking.get("/empty/").status == 200
    assert asking.get("/special/fifo").status == 403
    assert asking.get("/..%2f").status == 400


@pytest.mark.core
def test_host_instead_of_authority(asking):
    pseudo = [(":method", "GET"), (":scheme", "http"), (":path", "/hello.txt")]
    for stream, fields in ((1, [*pseudo, ("host", "a")]), (3, [*pseudo, (":authority", "a"), ("host", "a")])):
        asking.methods[stream] = "GET"
        asking.h2.send_headers(stream, fields, end_stream=True)
        asking.flush()
        assert asking.reply(stream).body == b"Hello, world\n"


@pytest.mark.core
def test_many_at_a_time(asking):
    paths = [f"/size/{size}.bin" for size in trees.SIZES] + ["/hello.txt", "/list/", "/no"]
    streams = [(asking.ask(paths[number % len(paths)]), paths[number % len(paths)]) for number in range(100)]
    for stream, path in streams:
        reply = asking.reply(stream)
        assert reply.status == (404 if path == "/no" else 200)
        if path.startswith("/size/"):
            size = int(path[6:-4])
            assert reply.body == trees.content(size, size)


@pytest.mark.core
# shows U77
def test_small_ones_pass_a_large_one(asking):
    """The client takes all it gets; a small answer comes before the large one's end."""
    large = asking.ask("/giant.bin", fields=[("range", f"bytes=0-{(1 << 28) - 1}")])
    while len(asking.order) < 100:
        asking.hear()
    asking.replies[large].body = b""
    for _ in range(5):
        before = len(asking.order)
        small = asking.ask("/hello.txt")
        while small not in asking.complete:
            asking.hear()
            asking.replies[large].body = b""
        assert asking.replies[small].body == b"Hello, world\n"
        assert large not in asking.complete
        assert sum(n for stream, n in asking.order[before:] if stream == large) < 1 << 26


@pytest.mark.core
def test_others_go_on_while_a_listing_is_made(start, wide_tree):
    for number in range(20000):
        os.close(os.open(f"{wide_tree}/{number}", os.O_CREAT))
    trees.write(f"{wide_tree}/small/file", b"small")
    server = start(wide_tree, "--cache", "0")
    with h2.Client(server) as one:
        for _ in range(3):
            streams = [one.ask("/?format=text") for _ in range(5)]
            small = [one.ask("/small/file") for _ in range(5)]
            assert all(one.reply(stream).body == b"small" for stream in small)
            assert all(one.reply(stream).body.count(b"\n") == 20001 for stream in streams)


def test_windows_of_the_client(served):
    """One byte at a time, windows that become negative, and none at all until they open."""
    with h2.Client(served, window=1) as one:
        assert one.get("/alphabet.txt").body == b"abcdefghijklmnopqrstuvwxyz"
    with h2.Client(served, window=0) as one:
        one.reads = False
        stream = one.ask("/size/65536.bin")
        while stream not in one.replies:
            one.hear()
        assert one.get("/size/0.bin").status == 200
        one.h2.increment_flow_control_window(40000, stream)
        one.flush()
        while len(one.replies[stream].body) < 40000:
            one.hear()
        one.h2.increment_flow_control_window(30000, stream)
        one.h2.increment_flow_control_window(1)  # the connection has its own, of 65,535
        one.flush()
        assert one.reply(stream).body == trees.content(65536, 65536)


@pytest.mark.core
def test_resets_of_the_client(asking, served):
    """An answer that is not wanted any more ends at once; the others go on."""
    for _ in range(20):
        streams = [asking.ask("/giant.bin") for _ in range(3)]
        while len(asking.order) < 10:
            asking.hear()
        asking.order.clear()
        for stream in streams:
            asking.h2.reset_stream(stream, h2.CANCEL)
        asking.flush()
        assert asking.get().body == b"Hello, world\n"
        for stream in streams:
            asking.replies.pop(stream, None)
    stats = served.stats()
    assert stats["complete"] == 20 and stats["broken"] > 0


def test_a_file_that_becomes_shorter(start, tree):
    """The file's stream is reset, so that the client knows; the connection goes on."""
    trees.write(f"{tree}/other", b"other")
    with open(f"{tree}/file", "wb") as file:
        file.truncate(1 << 26)
    server = start(tree, "--cache", "0")
    with h2.Client(server) as one:
        one.reads = False
        stream = one.ask("/file")
        while stream not in one.replies:
            one.hear()
        os.truncate(f"{tree}/file", 1 << 15)
        one.h2.increment_flow_control_window(1 << 26)
        one.h2.increment_flow_control_window(1 << 26, stream)
        one.flush()
        assert one.reset(stream) == h2.INTERNAL_ERROR
        one.reads = True
        assert one.get("/other").body == b"other"


def test_other_clients(served):
    """What people use: curl, and nghttp, which asks with priorities of the old kind."""
    url = f"http{'s' if served.secured else ''}://127.0.0.1:{served.address[1]}"
    wanted = "--http2" if served.secured else "--http2-prior-knowledge"
    if not shutil.which("curl") or not shutil.which("nghttp"):
        pytest.skip("curl or nghttp is not installed")
    done = subprocess.run(["curl", "-sk", wanted, "-w", "%{http_version}", f"{url}/hello.txt"], capture_output=True, timeout=client.PATIENCE)
    assert done.stdout == b"Hello, world\n2"
    done = subprocess.run(["curl", "-sk", wanted, "-w", "%{http_code}", "-o", "/dev/null", "-d", "x" * 100000, f"{url}/hello.txt"],
                          capture_output=True, timeout=client.PATIENCE)
    assert done.stdout == b"405"
    done = subprocess.run(["nghttp", "-s", *[f"{url}/size/{size}.bin" for size in trees.SIZES]], capture_output=True, timeout=client.PATIENCE)
    assert done.returncode == 0 and done.stdout.count(b" 200 ") == len(trees.SIZES)


def test_the_log_names_the_version(start, standard, tmp_path):
    server = start(standard, "--log", "combined", "--log-file", f"{tmp_path}/log")
    with h2.Client(server) as one:
        one.get()
    server.ask("/hello.txt")
    with open(f"{tmp_path}/log") as file:
        lines = wait_for(lambda: (file.seek(0), file.readlines())[1][1:] and (file.seek(0), file.readlines())[1], "two lines")
    assert '"GET /hello.txt HTTP/2.0" 200 13' in lines[0] and '"GET /hello.txt HTTP/1.1" 200 13' in lines[1]


def test_fields_of_options(start, standard):
    """As many as options may add."""
    lines = [f"X-Field-{number}: value {number}" for number in range(8)]
    server = start(standard, "--security-headers", "--server-timing", *[word for line in lines for word in ("--header", line)])
    with h2.Client(server) as one:
        reply = one.get()
        assert all(reply[f"x-field-{number}"] == f"value {number}" for number in range(8))
        assert reply["x-frame-options"] and reply["server-timing"]


def test_a_password(start, standard, tmp_path):
    """Whose hash takes long, so another thread looks at it: the stream waits, and others go on."""
    crypt = ctypes.CDLL("libcrypt.so.1").crypt
    crypt.restype = ctypes.c_char_p
    (tmp_path / "names").write_text(f"ann:{crypt(b'secret', b'$2b$09$abcdefghijklmnopqrstuu').decode()}\n")
    server = start(standard, "--auth", f"{tmp_path}/names", "--tls", "self")
    with h2.Client(server) as one:
        asked = [one.ask(fields=[("authorization", "Basic " + base64.b64encode(b"ann:" + word).decode())]) for word in (b"secret", b"other", b"secret")]
        assert one.get().status == 401
        assert [one.reply(stream).status for stream in asked] == [200, 401, 200]


# --- Bodies of requests -------------------------------------------------------------------------------------


@pytest.mark.core
def test_bodies_are_read_and_thrown_away(asking):
    for size in (1, 16384, 65535, 65536, 300000, 1 << 20):
        assert asking.get(body=b"x" * size).body == b"Hello, world\n"
        assert asking.get(method="POST", body=b"x" * size).status == 405
    stream = asking.ask(ends=False)
    asking.say(stream, b"part", ends=False)
    assert asking.get().status == 200  # while another's body is still coming
    asking.h2.send_headers(stream, [("x-trailer", "y")], end_stream=True)
    asking.flush()
    assert asking.reply(stream).status == 200


@pytest.mark.core
def test_the_limit_of_bodies(start, standard):
    server = start(standard, "--max-body", "10000")
    with h2.Client(server) as one:
        assert one.get(body=b"x" * 10000).status == 200
        stream = one.ask(body=b"x" * 10001)
        assert one.reply(stream).status == 413
        assert one.get(fields=[("content-length", "10000")], body=b"x" * 10000).status == 200
        stream = one.ask(fields=[("content-length", "10001")], ends=False)
        assert one.reply(stream).status == 413
        assert one.reset(stream) == h2.NO_ERROR  # RFC 9113 8.1: the answer is whole, and the rest is not wanted
        assert one.get().status == 200


@pytest.mark.core
def test_expectations(asking):
    expects = [("expect", "100-continue")]
    stream = asking.ask(fields=expects, ends=False)
    while stream not in asking.replies:
        asking.hear()
    asking.say(stream, b"body")
    reply = asking.reply(stream)
    assert reply.status == 200 and reply.continues == 1
    stream = asking.ask(method="PUT", fields=expects, ends=False)
    assert asking.reply(stream).status == 405
    assert asking.reset(stream) == h2.NO_ERROR
    assert asking.get(fields=[("expect", "other")]).status == 417


def test_a_length_that_is_wrong(asking):
    stream = asking.ask(fields=[("content-length", "5")], ends=False)
    asking.raw(h2.frame(h2.DATA, h2.END_STREAM, stream, b"four"))
    assert asking.reset(stream) == h2.PROTOCOL_ERROR
    assert asking.get().status == 200


# --- Priorities (RFC 9218) ----------------------------------------------------------------------------------


def shares(one, streams, frames):
    """How many bytes each of the streams got within that many frames."""
    before = len(one.order)
    while len(one.order) < before + frames:
        one.hear()
    got = one.order[before:before + frames]
    return [sum(n for stream, n in got if stream == wanted) for wanted in streams]


def asked_together(served, wishes):
    """Large answers that all wait for their windows, which then open at once."""
    one = h2.Client(served, window=0)
    one.reads = False
    streams = [one.ask("/size/1048576.bin", fields=[("priority", wish)] if wish else []) for wish in wishes]
    while len(one.replies) < len(streams):
        one.hear()
    one.h2.increment_flow_control_window(1 << 24)
    one.h2.update_settings({h2.h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 24})
    return one, streams


def test_without_a_wish_all_get_a_bit(served):
    one, streams = asked_together(served, [None, None, None])
    with one:
        one.flush()
        got = shares(one, streams, 90)
        assert min(got) > 0.2 * sum(got), got


def test_one_after_the_other(served):
    one, streams = asked_together(served, ["u=3", "u=3"])
    with one:
        one.flush()
        for stream in streams:
            assert one.reply(stream).status == 200
        assert one.complete == streams
        first = [stream for stream, _ in one.order].index(streams[1])
        assert sum(n for stream, n in one.order[:first] if stream == streams[0]) > 900000


def test_the_urgent_one_first(served):
    one, streams = asked_together(served, ["u=6", "u=0"])
    with one:
        one.flush()
        assert one.reply(streams[1]).status == 200
        assert streams[0] not in one.complete
        assert one.reply(streams[0]).status == 200


def test_a_wish_that_changes(served):
    one, streams = asked_together(served, ["u=1", "u=5"])
    with one:
        one.sock.sendall(h2.frame(h2.PRIORITY_UPDATE, payload=h2.struct.pack(">I", streams[1]) + b"u=0"))
        one.flush()
        assert one.reply(streams[1]).status == 200
        assert streams[0] not in one.complete
        assert one.reply(streams[0]).status == 200


# --- The end ------------------------------------------------------------------------------------------------


def stopped(server):
    server.process.send_signal(signal.SIGTERM)


@pytest.mark.core
def test_a_stop_lets_answers_end(served):
    """First a notice that names no stream, so that requests under way are answered; the answer is whole."""
    with h2.Client(served) as one:
        stream = one.ask("/giant.bin", fields=[("range", f"bytes=0-{(1 << 25) - 1}")])
        while stream not in one.replies:
            one.hear()
        stopped(served)
        assert len(one.reply(stream).body) == 1 << 25
        assert set(one.until_gone()) == {h2.NO_ERROR}
        assert one.goaways[0][0] == (1 << 31) - 1
        assert one.goaways[-1][0] == stream
    served.finish()


@pytest.mark.core
def test_a_stop_says_which_were_answered(served):
    with h2.Client(served) as one:
        one.get()
        stream = one.ask()
        one.reply(stream)
        stopped(served)
        one.until_gone()
        assert one.goaways[-1] == (stream, h2.NO_ERROR)
    served.finish()


@pytest.mark.long
def test_an_idle_one_is_told(start, standard):
    server = start(standard, "--idle-timeout", "1s")
    with h2.Client(server) as one:
        began = time.monotonic()
        stream = one.ask()
        one.reply(stream)
        assert one.until_gone() == [h2.NO_ERROR]
        assert one.goaways == [(stream, h2.NO_ERROR)]
        assert time.monotonic() - began > 0.9


@pytest.mark.core
def test_half_close(served):
    """A client that sends nothing more gets what its windows allow."""
    with h2.Client(served) as one:
        one.h2.increment_flow_control_window(1 << 22)
        streams = [one.ask("/hello.txt"), one.ask("/size/16384.bin")]
        one.sock.shutdown(socket.SHUT_WR)
        one.flush = lambda: None
        assert [len(one.reply(stream).body) for stream in streams] == [13, 16384]
        one.until_gone()
