# SPDX-License-Identifier: MIT
"""Records that the kernel makes (--ktls): the same bytes, whenever it begins, and whole ends for slow clients.

Most of this needs a kernel with TLS; `make check-kernel` boots one.  Where there is none, the tests without that mark show that
rung serves as before.
"""
import os
import re
import select
import signal
import socket
import struct
import subprocess
import time

import pytest
from lib import client
from lib.ktls import BEGINS, NO_KERNEL, ask, began, given, kernel_tls, wire
from lib.limited import PATIENT  # an emulated processor may rest for longer than the usual time limits
from lib.secured import EVERYWHERE, anyone
from lib.server import BIN, wait_for
from lib.trees import content

pytestmark = [pytest.mark.userspace("TLS"), pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls")]
SIZES = [0, 1, 16384, 16385, BEGINS - 1, BEGINS, 1 << 20]
BIG, GIANT = 3 << 20, 100 << 20
PART = 1 << 16


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("ktls")
    root.chmod(0o755)
    for size in (*SIZES, BIG):
        (root / f"{size}.bin").write_bytes(content(size, size))
    return root


@pytest.fixture
def secure(start, files):
    return lambda when="always", *options: start(files, "--tls", "self", "--ktls", when, *PATIENT, *options)


# --- With or without it -------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize("when", ["off", "large", "always"])
def test_every_size(secure, when):
    server = secure(when)
    with wire(server) as one:
        for size in SIZES:
            ask(one, size)
        ask(one, SIZES[0], "Connection: close")
        one.end()
        assert one.sock.ended
    assert began(server) == (0 if when == "off" or NO_KERNEL else 1)


@pytest.mark.core
def test_pipelining_ranges_heads(secure):
    server = secure()
    with wire(server) as one:
        for size in SIZES:
            one.send(f"GET /{size}.bin HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        one.send(b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n")
        for size in SIZES:
            assert one.reply().body == content(size, size)
        assert one.reply().status == 404
        assert one.ask(f"/{BIG}.bin", "HEAD").length == BIG
        for first, last in ((0, 0), (1, BEGINS), (5, 70000), (BIG - 1, BIG - 1)):
            reply = one.ask(f"/{BIG}.bin", fields=f"Range: bytes={first}-{last}")
            assert reply.status == 206 and reply.body == content(BIG, BIG)[first:last + 1]
        reply = one.ask(f"/{BIG}.bin", fields="Range: bytes=0-9,200000-400000,1000-1009")
        assert reply.status == 206 and content(BIG, BIG)[200000:400001] in reply.body
        reply = one.ask(f"/{1 << 20}.bin", fields="Accept-Encoding: gzip")
        assert one.ask(f"/{1 << 20}.bin", fields=f"If-None-Match: {reply['etag']}").status == 304


@pytest.mark.core
@pytest.mark.parametrize("takes", [1, 37, 5000])
def test_records_cut_anywhere(secure, takes):
    """Bytes of requests that come one by one, between answers of the kernel."""
    server = secure()
    with wire(server) as one:
        given(one)
        one.sock.tls.write(f"GET /{BEGINS}.bin HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        sent = one.sock.outgoing.read()
        for at in range(0, len(sent), takes):
            one.sock.raw.sendall(sent[at:at + takes])
        assert one.reply().body == content(BEGINS, BEGINS)


# --- Where the kernel has it --------------------------------------------------------------------------------


@kernel_tls
@pytest.mark.core
def test_large_begins_with_a_file_of_that_size(secure):
    server = secure("large")
    with wire(server) as one:
        for size in SIZES:
            ask(one, size)
            assert began(server) == (size >= BEGINS)
        ask(one, 1)  # it stays the kernel's


@kernel_tls
@pytest.mark.parametrize("suite, kernel", [("TLS_AES_128_GCM_SHA256", 1), ("TLS_AES_256_GCM_SHA384", 1),
                                           ("TLS_CHACHA20_POLY1305_SHA256", 1), ("", 0)])
def test_suites(secure, tmp_path, suite, kernel):
    """Without a suite of TLS 1.3: TLS 1.2, which stays with the library."""
    server = secure()
    host, port = server.address
    words = ["--tls13-ciphers", suite] if suite else ["--tls-max", "1.2"]
    argv = ["curl", "-sSk", "--http1.1", *words, "--fail-early"]
    for size in (1, 16385, BIG):
        argv += ["-o", tmp_path / str(size), f"https://{host}:{port}/{size}.bin"]
    subprocess.run(argv, check=True, timeout=client.PATIENCE)
    for size in (1, 16385, BIG):
        assert (tmp_path / str(size)).read_bytes() == content(size, size)
    assert began(server) == kernel


@kernel_tls
def test_http2_stays_with_the_library(secure, tmp_path):
    server = secure()
    host, port = server.address
    subprocess.run(["curl", "-sSk", "--http2", "-o", tmp_path / "got", f"https://{host}:{port}/{BIG}.bin"], check=True,
                   timeout=client.PATIENCE)
    assert (tmp_path / "got").read_bytes() == content(BIG, BIG)
    assert began(server) == 0


@kernel_tls
@pytest.mark.long
def test_a_giant(start, tmp_path):
    (tmp_path / "giant").write_bytes(content("giant", GIANT))
    tmp_path.chmod(0o755)
    server = start(tmp_path, "--tls", "self", "--ktls", "large", *PATIENT)
    host, port = server.address
    ranges = [(0, GIANT - 1), (GIANT - 200001, GIANT - 1), (1, 8 << 20), (50 << 20, (50 << 20) + BEGINS)]
    for first, last in ranges:
        got = subprocess.Popen(["curl", "-sSk", "--http1.1", "-r", f"{first}-{last}", f"https://{host}:{port}/giant"],
                               stdout=subprocess.PIPE)
        with open(tmp_path / "giant", "rb") as file:
            file.seek(first)
            left = last + 1 - first
            while left:
                part = file.read(min(left, 1 << 20))
                assert got.stdout.read(len(part)) == part
                left -= len(part)
        assert got.stdout.read() == b"" and got.wait() == 0
    assert began(server) == len(ranges)


@kernel_tls
@pytest.mark.core
def test_sessions_resume(secure):
    """The ticket comes before the kernel's records, and they of a resumed connection have their own key."""
    server = secure()
    context, session = anyone(), None
    for count in (1, 2, 3):
        with wire(server, context=context, session=session) as one:
            given(one)
            ask(one, BIG)
            assert one.sock.tls.session_reused == (count > 1)
            assert began(server) == count
            session = one.sock.tls.session


# --- Ends ---------------------------------------------------------------------------------------------------


def slow(one, size, pause):
    """What comes, a part at a time, up to the end."""
    one.sock.raw.settimeout(client.PATIENCE)
    got = bytearray()
    while part := one.sock.recv(PART):
        got += part
        time.sleep(pause)
    head, _, body = bytes(got).partition(b"\r\n\r\n")
    assert b"200 OK" in head
    assert len(body) == size and body == content(size, size)
    assert one.sock.ended, "close_notify"


@kernel_tls
@pytest.mark.core
@pytest.mark.parametrize("size", [BEGINS, 1 << 20, BIG])
@pytest.mark.parametrize("half", [False, True], ids=["waits", "half-closed"])
def test_a_slow_client_gets_the_end(secure, size, half):
    """Records that are not in TCP's queue yet when the last call returns, and a client that ends its side before."""
    server = secure("always", "--congestion", "system")
    with wire(server, rcvbuf=4096) as one:
        given(one)
        one.send(f"GET /{size}.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        if half:
            one.finish()
        time.sleep(1)
        slow(one, size, 0.005)
    assert began(server) == 1
    wait_for(lambda: not server.leaks(), "every socket closed")


@kernel_tls
def test_a_client_that_has_ended_its_side(secure):
    """Linux takes no key for such a connection any more."""
    server = secure()
    with wire(server) as one:
        one.send(f"GET /{BIG}.bin HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        one.finish()
        assert one.reply().body == content(BIG, BIG)
        one.end()
        assert one.sock.ended
    stats = server.stats()
    assert (stats["tls_kernel"], stats["tls_kernel_refused"]) in ((0, 1), (1, 0))


@kernel_tls
@pytest.mark.core
def test_an_idle_close_loses_nothing(secure):
    """The answer is in the kernel; the client reads the rest of it after its time to ask again is up."""
    server = secure("always", "--idle-timeout", "1s")
    with wire(server, rcvbuf=4096) as one:
        given(one)
        one.send(f"GET /{BEGINS}.bin HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        wait_for(lambda: server.stats()["complete"] == 3 or server.stats()["open"] == 0, "the kernel has all")
        time.sleep(2)
        reply = one.reply()
        assert reply.body == content(BEGINS, BEGINS)


@kernel_tls
def test_a_stop_loses_nothing(secure):
    server = secure("always", "--drain-timeout", "10m")  # an emulated processor may need longer than 5 s
    with wire(server, rcvbuf=4096) as one:
        given(one)
        one.send(f"GET /{BIG}.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        wait_for(lambda: server.stats()["answers"] == 3, "an answer begun")
        server.process.send_signal(signal.SIGTERM)
        slow(one, BIG, 0)
    server.finish()


@kernel_tls
def test_a_client_that_never_reads_is_given_up(secure):
    server = secure("always", "--send-timeout", "2s")
    with wire(server, rcvbuf=4096) as one:
        given(one)
        one.send(f"GET /{BIG}.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        wait_for(lambda: server.stats()["open"] == 0, "given up")
        wait_for(lambda: not server.leaks(), "its socket closed")


@kernel_tls
@pytest.mark.core
@pytest.mark.parametrize("how", ["closes", "resets", "says goodbye"])
def test_a_client_that_leaves_in_the_middle(secure, how):
    """The client leaves in the middle of an answer, while the kernel has records that TCP has no room for; the server goes
    on."""
    server = secure("always", "--congestion", "system")
    for _ in range(4):
        with wire(server, rcvbuf=4096) as one:
            given(one)
            one.send(f"GET /{BIG}.bin HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            assert one.sock.recv(1000)
            if how == "says goodbye":
                one.finish()
            elif how == "resets":
                one.sock.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with wire(server) as one:
        given(one)
        ask(one, BIG)
    assert began(server) == 5
    wait_for(lambda: not server.leaks(), "every socket and file closed")


@kernel_tls
@pytest.mark.core
def test_a_file_that_became_shorter(start, tmp_path):
    tmp_path.chmod(0o755)
    path = tmp_path / "f.bin"
    path.write_bytes(content(1, BIG))
    server = start(tmp_path, "--tls", "self", "--ktls", "always", *PATIENT)
    with wire(server, rcvbuf=4096) as one:
        one.send(b"GET /f.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        wait_for(lambda: server.stats()["answers"] == 1, "an answer begun")
        time.sleep(0.5)
        os.truncate(path, 1000)
        got = bytearray()
        try:
            while part := one.sock.recv(PART):
                got += part
        except ConnectionResetError:
            pass
        assert not one.sock.ended or len(got) > BIG


# --- The peer's records -------------------------------------------------------------------------------------


class Client:
    """openssl s_client, which has a command for new keys."""

    def __init__(self, server, version="-tls1_3"):
        host, port = server.address
        self.process = subprocess.Popen(["openssl", "s_client", "-connect", f"{host}:{port}", version], bufsize=0,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.got = b""

    def say(self, text):
        self.process.stdin.write(text)

    def ask(self, count):
        """One request, and the answers so far."""
        self.say(b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n")
        self.wait(rb"404 Not Found: There is nothing here", count)

    def wait(self, pattern, count=1):
        end = time.monotonic() + client.PATIENCE
        while len(re.findall(pattern, self.got, re.DOTALL)) < count:
            assert time.monotonic() < end, self.got[-2000:]
            if not select.select([self.process.stdout], [], [], 1)[0]:
                continue
            part = os.read(self.process.stdout.fileno(), PART)
            assert part, self.got[-2000:]
            self.got += part

    def end(self):
        self.got += self.process.stdout.read()
        self.process.stdin.close()
        return self.process.wait(client.PATIENCE)


@kernel_tls
@pytest.mark.core
def test_a_client_asks_for_new_keys(secure):
    """Linux keeps the old ones: the connection ends, without data that the client would not understand."""
    server = secure()
    one = Client(server)
    one.wait(b"read R BLOCK|Verify return code")
    one.ask(1)
    one.ask(2)
    assert began(server) == 1
    one.say(b"K\n")
    one.end()
    assert b"KEYUPDATE" in one.got and b"closed" in one.got and b"error" not in one.got.lower().split(b"keyupdate")[1], one.got[-1500:]
    with wire(server) as other:
        ask(other, 16385)


@kernel_tls
@pytest.mark.core
def test_a_client_changes_its_own_keys(secure):
    """New keys of the client change nothing for the records that are sent to it."""
    server = secure()
    one = Client(server)
    one.wait(b"read R BLOCK|Verify return code")
    for count in range(1, 5):
        one.ask(count)
        one.say(b"k\n")
        one.wait(b"KEYUPDATE", count)
    assert began(server) == 1
    one.say(b"Q\n")
    one.end()


@kernel_tls
@pytest.mark.core
def test_a_client_of_tls_1_2_renegotiates(secure):
    """With the library, as without --ktls: it is refused, and nothing is sent that is not encrypted."""
    server = secure()
    one = Client(server, "-tls1_2")
    one.wait(b"Verify return code")
    one.say(b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n")
    one.wait(rb"404 Not Found")
    one.say(b"R\n")
    one.wait(b"no renegotiation")
    one.end()
    assert began(server) == 0
    with wire(server) as other:
        ask(other, 16385)


@pytest.mark.core
@pytest.mark.parametrize("option, says", [("-tls1_3", b"K\n"), ("-maxfraglen=512", b"")], ids=["new keys", "small records"])
def test_a_client_that_the_kernel_cannot_serve(secure, option, says):
    """OpenSSL goes on if the client asks for new keys before the kernel has any, or takes no records of 16 KiB (RFC 6066 4)."""
    server = secure()
    one = Client(server, option)
    one.wait(b"read R BLOCK|Verify return code")
    one.say(says)
    one.wait(b"KEYUPDATE" if says else b"")
    for count in (1, 2):
        one.say(b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n")
        one.wait(rb"404 Not Found", count)
    one.say(b"Q\n")
    one.end()
    assert began(server) == 0


@kernel_tls
@pytest.mark.core
def test_a_forged_record(secure):
    server = secure()
    with wire(server) as one:
        given(one)
        one.sock.raw.sendall(b"\x17\3\3\0\x20" + 32 * b"x")
        assert one.sock.recv(1) == b"" and not one.sock.ended
    with wire(server) as one:
        ask(one, 1)


def test_doctor_knows():
    said = subprocess.run([BIN, "doctor"], capture_output=True, text=True, timeout=client.PATIENCE).stdout
    line = re.search("records of TLS by the kernel *(.*)", said)[1]
    assert line == ("not loaded: rung does it itself" if NO_KERNEL else "yes")


def test_words_are_checked(files):
    done = subprocess.run([BIN, "serve", files, "--port", "0", "--ktls", "sometimes"], capture_output=True, text=True,
                          timeout=client.PATIENCE)
    assert done.returncode == 2 and "off, large, always" in done.stderr
