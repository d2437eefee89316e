# SPDX-License-Identifier: MIT
"""Clients by their address: --allow, --deny."""
import socket

import pytest
from lib.client import Wire, request
from lib.secured import EVERYWHERE
from lib.trees import write

pytestmark = pytest.mark.userspace("clients by their address")
plainly = pytest.mark.skipif(EVERYWHERE, reason="its clients speak without TLS")

ADDRESSES = [
    (["--allow", "127.0.0.1"], 200), (["--allow", "127.0.0.0/8"], 200), (["--allow", "0.0.0.0/0"], 200), (["--allow", "127.0.0.2"], 403),
    (["--allow", "126.0.0.0/8"], 403), (["--allow", "128.0.0.0/1"], 403), (["--allow", "0.0.0.0/1"], 200), (["--allow", "::1"], 403),
    (["--deny", "127.0.0.1"], 403), (["--deny", "127.0.0.2", "--deny", "127.0.0.0/31"], 403), (["--deny", "127.0.0.2"], 200),
    (["--deny", "fd00::/8"], 200), (["--deny", "::/0"], 200), (["--allow", "127.0.0.1", "--deny", "127.0.0.0/30"], 403),
    (["--allow", "10.0.0.0/8", "--allow", "127.0.0.0/31"], 200), (["--deny", "::ffff:127.0.0.1"], 403),
    (["--allow", "10.0.0.0/8,127.0.0.1"], 200), (["--deny", "10.0.0.0/8,127.0.0.1,fd00::/8"], 403), (["--allow", "unix"], 403),
    (["--deny", "unix"], 200)]


@pytest.mark.core
@pytest.mark.parametrize("options, status", ADDRESSES)
# shows U75
def test_addresses(start, tree, options, status):
    write(f"{tree}/a.txt", b"for some\n")
    with start(tree, *options).wire() as wire:
        for target in ("/a.txt", "/a.txt", "/none"):
            reply = wire.ask(target)
            assert reply.status == (status if status == 403 or target == "/a.txt" else 404) and (status == 200 or b"for some" not in reply.body)


def on_socket(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(60)
        one.connect(path)
        one.sendall(request("/a.txt", fields=["Connection: close"]))
        data = b""
        while more := one.recv(65536):
            data += more
    return data


@plainly
@pytest.mark.parametrize("options, status", [(["--allow", "unix"], b"200"), (["--allow", "127.0.0.1"], b"403"), (["--deny", "unix"], b"403"),
                                             (["--deny", "127.0.0.1"], b"200")])
def test_unix_socket(start, tree, tmp_path, options, status):
    """All clients of Unix sockets have one address, so that none of them is served by mistake."""
    write(f"{tree}/a.txt", b"for some\n")
    start(tree, *options, "-b", f"unix:{tmp_path}/socket")
    data = on_socket(f"{tmp_path}/socket")
    assert data.split()[1] == status and data.endswith(b"for some\n") == (status == b"200")


def test_both_protocols(start, tree):
    write(f"{tree}/a.txt", b"for some\n")
    server = start(tree, "-b", "127.0.0.1", "-b", "::1", "--allow", "127.0.0.0/8")
    port = server.addresses[0][1]
    for host, status in (("127.0.0.1", 200), ("::1", 403)):
        with Wire((host, port)) as wire:
            assert wire.ask("/a.txt").status == status


PROXIED = [([], 403), (["X-Forwarded-For: 192.0.2.7"], 200), (["X-Forwarded-For: 192.0.2.8"], 403), (["X-Forwarded-For: 192.0.2.7, 192.0.2.8"], 403),
           (["X-Forwarded-For: 192.0.2.8, 192.0.2.7"], 200), (["X-Forwarded-For: 192.0.2.7", "X-Forwarded-For: 198.51.100.1"], 403),
           (["X-Forwarded-For: 192.0.2.7, 127.0.0.1"], 200), (["X-Forwarded-For: 192.0.2.7, unknown"], 403), (["Forwarded: for=192.0.2.7"], 403),
           (["X-Real-IP: 192.0.2.7"], 403)]


@pytest.mark.core
@pytest.mark.parametrize("fields, status", PROXIED)
# shows U75
def test_behind_a_proxy(start, tree, fields, status):
    """The address that a trusted proxy appended counts, not those that the client wrote before it."""
    write(f"{tree}/a.txt", b"for some\n")
    with start(tree, "--trust", "127.0.0.1", "--allow", "192.0.2.7").wire() as wire:
        for _ in range(4):
            assert wire.ask("/a.txt", fields=fields).status == status
        assert wire.ask("/a.txt", fields=["X-Forwarded-For: 192.0.2.9"]).status == 403
        assert wire.ask("/a.txt", fields=["X-Forwarded-For: 192.0.2.7"]).status == 200


@pytest.mark.any_engine("whom to believe")
def test_a_proxy_that_is_not_trusted(start, tree):
    write(f"{tree}/a.txt", b"for some\n")
    for trust in ([], ["--trust", "10.0.0.1"]):
        with start(tree, "--deny", "127.0.0.1", *trust).wire() as wire:
            assert wire.ask("/a.txt", fields=["X-Forwarded-For: 192.0.2.7"]).status == 403


@plainly
def test_proxy_protocol(start, tree):
    write(f"{tree}/a.txt", b"for some\n")
    server = start(tree, "--proxy-protocol", "--deny", "192.0.2.7")
    for source, status in (("192.0.2.7", 403), ("192.0.2.8", 200), ("192.0.2.7", 403)):
        with Wire(server.addresses[0], secured=False) as wire:
            wire.send(f"PROXY TCP4 {source} 192.0.2.1 1234 80\r\n".encode() + request("/a.txt"))
            assert wire.reply().status == status


@pytest.mark.any_engine("one option with another")
def test_with_others(start, tree):
    """Nothing else is a way in: redirects, the index for all paths, the answer about health."""
    write(f"{tree}/index.html", b"app\n")
    with start(tree, "--deny", "127.0.0.1", "--spa", "--redirect", "/x /y", "--health").wire() as wire:
        for target in ("/", "/users/7", "/x", "/.rung/health", "//", "/%2e/", "/index.html?x"):
            for method in ("GET", "HEAD"):
                reply = wire.ask(target, method)
                assert reply.status == 403 and b"app" not in reply.body and b"ok" not in reply.body[:3]
