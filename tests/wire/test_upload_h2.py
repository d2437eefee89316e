# SPDX-License-Identifier: MIT
"""Uploads by HTTP/2: the same answers, bodies in frames, windows that open as the disk takes bytes."""
import os
import shutil
import signal
import subprocess
import time

import pytest
from lib import h2
from lib.secured import EVERYWHERE
from lib.server import wait_for
from lib.trees import content, write
from test_upload import BUFFER, names, read
from test_upload_form import EDGE, form, part

pytestmark = [pytest.mark.userspace("uploads"), pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls")]
KINDS = [pytest.param((), id="plain"), pytest.param(("--tls", "self"), id="tls")]
WINDOW, WORKING = 65535, 32
EXPECT = ("expect", "100-continue")


@pytest.fixture(params=KINDS)
def up(request, start, tree):
    os.mkdir(f"{tree}/in")
    write(f"{tree}/in/there.txt", b"there before\n")
    return start(tree, "--upload", "in", "--upload-max", "2m", *request.param)


@pytest.fixture
def asking(up):
    with h2.Client(up) as one:
        yield one


def length(n):
    return ("content-length", str(n))


@pytest.mark.core
@pytest.mark.parametrize("sized", [True, False])
def test_stored(asking, tree, sized):
    for size in (1, 16384, WINDOW, WINDOW + 1, 4 * BUFFER, 1_000_000):
        data = content(f"h2 {size}", size)
        reply = asking.get(f"/in/{size}", "PUT", [length(size)] if sized else [], data)
        assert reply.status == 201 and reply["location"] == f"/in/{size}"
        assert read(f"{tree}/in/{size}") == data
        assert asking.get(f"/in/{size}").body == data
    assert asking.get("/in/empty", "PUT").status == 201
    assert asking.get("/in/empty2", "PUT", body=b"").status == 201
    assert asking.get("/in/empty3", "PUT", [length(0)], b"").status == 201
    assert names(f"{tree}/in") == sorted(["1", "16384", "65535", "65536", "262144", "1000000", "empty", "empty2", "empty3", "there.txt"])
    assert not asking.goaways


@pytest.mark.core
def test_forms(asking, tree):
    body = form(part("a", b"x\r\n"), part("b", content("b", 300_000)))
    fields = [("content-type", f"multipart/form-data; boundary={EDGE}")]
    assert asking.get("/in/", "POST", [*fields, ("sec-fetch-site", "same-origin")], body).status == 303
    assert read(f"{tree}/in/a") == b"x\r\n" and read(f"{tree}/in/b") == content("b", 300_000)
    assert asking.get("/in/", "POST", [*fields, ("origin", "http://evil.example")], body).status == 403
    assert asking.get("/in/", "POST", [*fields, ("origin", "http://a")], form(part("c", b"x"))).status == 303


@pytest.mark.core
def test_refused(asking, tree):
    """Before the body ends: the answer is whole, and the rest is not wanted (RFC 9113 8.1)."""
    before = names(tree)
    for target, method, fields, status in (("/in/there.txt", "PUT", [], 409), ("/out", "PUT", [], 405), ("/in/.hidden", "PUT", [], 403), ("/in/none/x", "PUT", [], 404),
                                           ("/in/x", "POST", [], 405), ("/in/", "POST", [], 415), ("/in/x", "PUT", [("content-encoding", "gzip")], 415),
                                           ("/in/x", "PUT", [length(2_097_153)], 413), ("/in/%zz", "PUT", [], 400)):
        stream = asking.ask(target, method, fields, ends=False)
        if status != 413:  # others are answered behind the body, if it is short
            asking.say(stream, bytes(1000))
        assert asking.reply(stream).status == status
    assert names(tree) == before
    assert asking.get("/in/there.txt").status == 200


def test_too_long_in_the_middle(asking, tree):
    stream = asking.ask("/in/x", "PUT", ends=False)
    asking.say(stream, bytes(2_097_152), ends=False)
    assert stream not in asking.replies
    asking.say(stream, b"x", ends=False)
    assert asking.reply(stream).status == 413
    assert asking.reset(stream) == h2.NO_ERROR
    assert names(f"{tree}/in") == ["there.txt"]
    assert asking.get("/in/x", "PUT", [length(2_097_152)], bytes(2_097_152)).status == 201


@pytest.mark.core
def test_continue(asking, tree):
    stream = asking.ask("/in/new", "PUT", [EXPECT, length(3)], ends=False)
    while stream not in asking.replies:
        asking.hear()
    assert asking.replies[stream].continues == 1
    asking.say(stream, b"abc")
    assert asking.reply(stream).status == 201 and asking.replies[stream].continues == 1
    stream = asking.ask("/in/new", "PUT", [EXPECT, length(3)], ends=False)
    assert asking.reply(stream).status == 409 and not asking.replies[stream].continues
    assert asking.reset(stream) == h2.NO_ERROR
    assert read(f"{tree}/in/new") == b"abc"


@pytest.mark.core
def test_refused_beside_a_large_answer(asking, tree):
    """The reset follows the answer at once, though another answer fills the send queue again and again."""
    write(f"{tree}/large.bin", content("large", 20_000_000))
    large = asking.ask("/large.bin")
    while large not in asking.replies or len(asking.replies[large].body) < 100_000:
        asking.hear()
    for number in range(5):
        stream = asking.ask(f"/in/{number}", "PUT", [length(3_000_000)], ends=False)
        assert asking.reply(stream).status == 413 and asking.reset(stream) == h2.NO_ERROR
    assert large not in asking.complete
    assert asking.reply(large).body == content("large", 20_000_000)


@pytest.mark.core
@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_curl_gets_the_answer(start, tree, tmp_path):
    """curl 7.88 reports an error instead of an answer that shares a record of TLS with the reset that follows it."""
    os.mkdir(f"{tree}/in")
    host, port = start(tree, "--upload", "in", "--upload-max", "10", "--tls", "self").address
    for size in (11, 5_000_000):
        write(f"{tmp_path}/body", bytes(size))
        for target, status in (("in/new", b"413"), ("out", b"405")):
            for _ in range(5):
                said = subprocess.run(["curl", "-sSk", "--http2", "-o", os.devnull, "-w", "%{http_code}", "-T", f"{tmp_path}/body",
                                       f"https://{host}:{port}/{target}"], stdout=subprocess.PIPE, timeout=60, check=False).stdout
                assert said == status


@pytest.mark.core
def test_many_at_once(asking, tree):
    """As many as are answered at a time, in turns; another may be asked for again, and requests without a body go on."""
    data = {number: content(f"many {number}", 100_000 + number) for number in range(WORKING - 2)}
    streams = {number: asking.ask(f"/in/{number}", "PUT", ends=False) for number in data}
    for at in range(0, 100_000, 10_000):
        for number, stream in streams.items():
            asking.say(stream, data[number][at:at + 10_000], ends=False)
        assert asking.get("/in/there.txt").body == b"there before\n"
    for number, stream in streams.items():
        asking.say(stream, data[number][100_000:])
    for number, stream in streams.items():
        assert asking.reply(stream).status == 201
        assert read(f"{tree}/in/{number}") == data[number]


def test_too_many_at_once(asking, tree):
    streams = [asking.ask(f"/in/{number}", "PUT", ends=False) for number in range(WORKING)]
    assert asking.reset(asking.ask("/in/more", "PUT", ends=False)) == h2.REFUSED_STREAM
    asking.say(streams[0], b"x")
    assert asking.reply(streams[0]).status == 201
    assert asking.get("/in/more", "PUT", body=b"x").status == 201
    assert names(f"{tree}/in") == ["0", "more", "there.txt"]


@pytest.mark.parametrize("end", ["reset", "close"])
@pytest.mark.parametrize("sent", [0, 1, 3 * BUFFER])
def test_client_leaves(up, tree, end, sent):
    with h2.Client(up) as asking:
        stream = asking.ask("/in/part", "PUT", [length(4 * BUFFER)], ends=False)
        asking.say(stream, bytes(sent), ends=False)
        wait_for(lambda: up.open_paths(f"{tree}/in/"), "the file is open")
        if end == "reset":
            asking.h2.reset_stream(stream, h2.CANCEL)
            assert asking.get("/in/there.txt").status == 200
            wait_for(lambda: not up.open_paths(f"{tree}/in/"), "the file is closed")
            assert asking.get("/in/part", "PUT", body=b"again").status == 201
            os.unlink(f"{tree}/in/part")
    wait_for(lambda: not up.open_paths(f"{tree}/in/"), "the file is closed")
    assert names(f"{tree}/in") == ["there.txt"]


@pytest.mark.core
def test_a_body_of_another_length(up, tree):
    """RFC 9113 8.1.1: a Content-Length that the frames do not keep makes the request malformed, and it leaves nothing."""
    for said, sent in ((10, 9), (10, 11), (1, 0), (BUFFER + 1, BUFFER)):
        with h2.Client(up) as asking:
            stream = asking.ask("/in/new", "PUT", [length(said)], ends=False)
            asking.say(stream, bytes(sent))
            assert asking.reset(stream) == h2.PROTOCOL_ERROR and stream not in asking.replies
            assert asking.get("/in/there.txt").status == 200
        assert names(f"{tree}/in") == ["there.txt"]


def test_trailers_and_padding(asking, tree):
    """Neither trailers nor padding are part of the file, and the window of padding is given back."""
    data = content("padded", 4 * WINDOW)
    stream = asking.ask("/in/padded", "PUT", ends=False)
    for at in range(0, len(data), 1000):
        while asking.h2.local_flow_control_window(stream) < 1256:
            asking.hear()
        asking.h2.send_data(stream, data[at:at + 1000], pad_length=255)
        asking.flush()
    asking.h2.send_headers(stream, [("x-more", "y")], end_stream=True)
    asking.flush()
    assert asking.reply(stream).status == 201
    assert read(f"{tree}/in/padded") == data


def test_more_than_the_window(up, tree):
    """Frames that a client may not send yet end its stream or connection; a server that has taken them already has the whole file."""
    burst = b"".join(h2.frame(0, 0, 1, b"z" * 16384) for _ in range(200)) + h2.frame(0, 1, 1)
    for _ in range(3):
        with h2.Client(up) as asking:
            stream = asking.ask("/in/burst", "PUT", [("x", "y")], ends=False)
            try:
                asking.raw(burst)
                while stream not in asking.complete and stream not in asking.resets:
                    asking.hear()
            except (h2.Gone, OSError):
                pass
    wait_for(lambda: not up.open_paths(f"{tree}/in/"), "the file is closed")
    assert names(f"{tree}/in") == ["there.txt"]  # 3 MiB are beyond --upload-max, too
    with h2.Client(up) as asking:
        assert asking.get("/in/new", "PUT", body=b"x").status == 201


@pytest.mark.core
def test_it_ends_when_uploads_have(up, tree):
    """A server that was asked to stop takes the rest of what is coming."""
    with h2.Client(up) as asking:
        stream = asking.ask("/in/new", "PUT", [length(2 * BUFFER)], ends=False)
        asking.say(stream, bytes(2 * BUFFER - 1), ends=False)
        assert asking.get("/in/there.txt").status == 200
        up.process.send_signal(signal.SIGTERM)
        up.wait_said("stopping")
        asking.h2.send_data(stream, b"x", end_stream=True)
        asking.flush()
        assert asking.reply(stream).status == 201
        assert set(asking.until_gone()) == {h2.NO_ERROR}
    up.finish()
    assert os.path.getsize(f"{tree}/in/new") == 2 * BUFFER


def test_slow_client(start, tree):
    """A body that makes no progress: its stream is reset, and others go on; if it is alone, the connection ends."""
    server = start(tree, "--upload", ".", "--send-timeout", "1s", "--idle-timeout", "1h", "--min-progress", "1000")
    with h2.Client(server) as asking:
        stuck, steady = (asking.ask(f"/{name}", "PUT", ends=False) for name in ("stuck", "steady"))
        asking.say(stuck, bytes(500), ends=False)
        for _ in range(30):
            asking.say(steady, b"x" * 1000, ends=False)
            assert asking.get("/").status == 200
            time.sleep(0.1)
        assert asking.resets == {stuck: h2.CANCEL}
        asking.say(steady, b"x")
        assert asking.reply(steady).status == 201
    with h2.Client(server) as asking:
        asking.ask("/alone", "PUT", ends=False)
        asking.until_gone()
    assert names(tree) == ["steady"] and read(f"{tree}/steady") == b"x" * 30_001


def test_a_head_that_is_nearly_too_long(asking, tree):
    """No upload becomes an empty file because its head has no room for what frames it."""
    for size in range(16_000, 16_400, 13):
        stream = asking.ask("/in/new", "PUT", [("x-long", "y" * size)], ends=False)
        asking.say(stream, b"data")
        while stream not in asking.complete and stream not in asking.resets:
            asking.hear()
        if stream in asking.complete and asking.replies[stream].status == 201:
            assert read(f"{tree}/in/new") == b"data"
            os.unlink(f"{tree}/in/new")
        else:
            assert stream in asking.resets or asking.replies[stream].status == 431
            assert names(f"{tree}/in") == ["there.txt"]
