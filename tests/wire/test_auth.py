# SPDX-License-Identifier: MIT
"""Names and passwords (--auth)."""
import base64
import contextlib
import ctypes
import socket
import threading
import time

import pytest
from cli import elf
from lib.client import request
from lib.crowd import sanitized
from lib.server import one_at_a_time, wait_for
from lib.trees import content, write

pytestmark = pytest.mark.userspace("passwords")
CRYPT = ctypes.CDLL("libcrypt.so.1").crypt
CRYPT.restype = ctypes.c_char_p
SHA = "$6$rounds=5000$saltstring$"
UMLAUT = "p\u00e4ss"
SLOW = "$2y$11$" + "abcdefghijklmnopqrstuu"  # a tenth of a second or two


def hashed(password, salt=SHA):
    return CRYPT(password.encode(), salt.encode()).decode()


def basic(name, password, scheme="Basic"):
    return [f"Authorization: {scheme} " + base64.b64encode(f"{name}:{password}".encode()).decode()]


@pytest.fixture
def passwords(tmp_path):
    file = tmp_path / "passwords"
    file.write_text(f"# people\n\nann:{hashed('secret')}\nbob:{hashed('a:b c', '$2b$05$abcdefghijklmnopqrstuu')}\n"
                    f"\u00e9va:{hashed(UMLAUT)}\nslow:{hashed('slow', SLOW)}\nempty:{hashed('')}\n")
    return file


@pytest.fixture
def server(start, tree, passwords):
    write(f"{tree}/a.txt", b"for members\n")
    write(f"{tree}/docs/x", b"x")
    write(f"{tree}/large", content("large", 1 << 20))
    write(f"{tree}/.hidden", b"x")
    return start(tree, "--auth", passwords)


RIGHT = [("ann", "secret"), ("bob", "a:b c"), ("\u00e9va", UMLAUT), ("empty", "")]
WRONG = [("ann", "Secret"), ("ann", ""), ("ann", "secret "), ("bob", "a"), ("carl", "secret"), ("", "secret"), ("ann:secret", ""), ("ann", "x" * 600),
         ("ann", "s" * 2000)]


@pytest.mark.core
@pytest.mark.parametrize("name, password", RIGHT)
def test_right(server, name, password):
    with server.wire() as wire:
        for _ in range(4):
            for target in ("/a.txt", "/docs/", "/docs", "/none"):
                assert wire.ask(target, fields=basic(name, password)).status in (200, 301, 404)
            assert wire.ask("/a.txt", fields=basic(name, password)).body == b"for members\n"
        assert wire.ask("/a.txt", fields=basic(name, password, "bAsIc")).status == 200
        assert wire.ask("/a.txt").status == 401


def refused(reply):
    return reply.status == 401 and reply["www-authenticate"] == 'Basic realm="rung", charset="UTF-8"' and b"members" not in reply.body


@pytest.mark.core
@pytest.mark.parametrize("name, password", WRONG)
def test_wrong(server, name, password):
    with server.wire() as wire:
        for _ in range(2):
            assert refused(wire.ask("/a.txt", fields=basic(name, password)))
        assert wire.ask("/a.txt", fields=basic("ann", "secret")).status == 200
        assert refused(wire.ask("/a.txt", fields=basic(name, password)))


TOKEN = base64.b64encode(b"ann:secret").decode()
BROKEN = ["Basic", "Basic ", "Basic =", "Basic !!!!", f"Bearer {TOKEN}", f"Basic {TOKEN[:-3]}", f"Basic {TOKEN} x", f"Basic{TOKEN}", "Digest username=ann",
          "Basic " + base64.b64encode(b"ann").decode(), "Basic " + base64.b64encode(b"ann:sec\0ret").decode(), "Basic " + "A" * 9000]


@pytest.mark.any_engine("the field's grammar")
@pytest.mark.parametrize("value", BROKEN)
def test_broken(server, value):
    with server.wire() as wire:
        for target in ("/a.txt", "/none", "/.hidden", "/docs/", "/docs"):
            assert refused(wire.ask(target, fields=[f"Authorization: {value}"]))
        assert refused(wire.ask("/a.txt", fields=basic("ann", "secret") * 2))  # which one counts is not known


def test_nothing_leaks(server):
    """Without a password there is no difference between what is there and what is not."""
    with server.wire() as wire:
        bodies = {(wire.ask(target).status, wire.ask(target).body) for target in ("/a.txt", "/none", "/docs/", "/docs", "/.hidden", "/", "/a.txt?x")}
        assert len(bodies) == 1
        assert wire.ask("/a.txt", "OPTIONS").status == 200 and wire.ask("/a.txt", "POST").status == 405
        for fields in (["Range: bytes=0-3"], ["If-None-Match: *"], ["If-Match: *"]):
            assert refused(wire.ask("/a.txt", fields=fields))
        assert wire.ask("/a.txt", "HEAD").status == 401


SLY = ["/./a.txt", "//a.txt", "/docs/../a.txt", "/%61.txt", "/a%2etxt", "/%2e/a.txt", "/docs/%2e%2e/a.txt", "/A.TXT", "/a.txt/", "/a.txt?x=/401.html", "/a.txt%00",
       "/401.html/../a.txt", "/.rung/../a.txt", "/.well-known/../a.txt", "/a.txt#x", "http://a/a.txt", "http://a:80//a.txt", "*", "/x%2f..%2fa.txt", "/\\a.txt"]


@pytest.mark.core
@pytest.mark.parametrize("target", SLY)
# shows U74
def test_no_way_round(server, target):
    """No spelling of a path goes past the question, whether the answer is in memory or not."""
    with server.wire() as wire:
        for _ in range(4):
            assert wire.ask("/a.txt", fields=basic("ann", "secret")).status == 200
    for method in ("GET", "HEAD"):
        for more in ([], ["Content-Length: 1"], ["Range: bytes=0-1"]):
            with server.wire() as wire:
                wire.send(request(target, method, fields=more) + b"x" * bool(more and "Length" in more[0]))
                assert wire.reply(method).status in (400, 401)


@pytest.mark.any_engine("which fields are looked at")
def test_other_fields(server):
    """Only Authorization counts, once, and in any case."""
    token = basic("ann", "secret")[0].partition(": ")[2]
    with server.wire() as wire:
        for name in ("Proxy-Authorization", "X-Authorization", "Authorization2", "Cookie"):
            assert refused(wire.ask("/a.txt", fields=[f"{name}: {token}"]))
        assert wire.ask("/a.txt", fields=[f"aUTHORIZATION:\t{token} "]).status == 200
        assert refused(wire.ask("/a.txt", fields=[f"Authorization: {token}", "Authorization: Basic x"]))
        assert refused(wire.ask("/a.txt", fields=["Authorization:", f"Authorization: {token}"]))


@pytest.mark.any_engine("health has its own door")
def test_health_needs_none(start, tree, passwords):
    write(f"{tree}/a.txt", b"for members\n")
    with start(tree, "--auth", passwords, "--health").wire() as wire:
        wait_for(lambda: wire.ask("/.rung/health").body == b"ok\n", "health")
        assert refused(wire.ask("/a.txt")) and refused(wire.ask("/.rung/health/../../a.txt"))


KINDS = ["$y$j9T$abcdefghijklmnop$", "$6$saltstring$", "$2b$06$abcdefghijklmnopqrstuu", "$gy$j9T$abcdefghijklmnop$", "$7$CU..../....abcdefghijklmnop$"]


@pytest.mark.core
@pytest.mark.parametrize("salt", KINDS)
@pytest.mark.parametrize("sandbox", ["on", "strict"])
# shows U74
def test_kinds_of_hashes(start, tree, tmp_path, salt, sandbox):
    """Each kind is computed within the sandbox; yescrypt and scrypt take megabytes for it."""
    if sandbox == "strict" and (sanitized() or not elf()):
        pytest.skip("a sanitizer or valgrind has no sandbox")
    write(f"{tree}/a.txt", b"for members\n")
    file = tmp_path / "one"
    file.write_text(f"ann:{hashed('secret', salt)}\n")
    server = start(tree, "--auth", file, "--sandbox", sandbox)
    with server.wire() as wire:
        assert wire.ask("/a.txt", fields=basic("ann", "secret")).body == b"for members\n"
        assert refused(wire.ask("/a.txt", fields=basic("ann", "other")))


def test_names_take_as_long(start, tree, tmp_path):
    """The time of an answer does not show which names exist: a hash is computed for any name."""
    file = tmp_path / "one"
    file.write_text(f"slow:{hashed('slow', SLOW)}\n")
    with start(tree, "--auth", file).wire() as wire:
        def took(name):
            begun = time.monotonic()
            assert refused(wire.ask("/", fields=basic(name, "guess")))
            return time.monotonic() - begun
        known, unknown = zip(*((took("slow"), took(f"nobody{number}")) for number in range(6)))  # in turn: the machine may be busy
        assert min(unknown) > min(known) / 3


@pytest.mark.core
def test_pipelined(server):
    """Answers come in order, though some wait for a password to be checked."""
    with server.wire() as wire:
        turns = [basic("ann", "secret"), [], basic("bob", "a:b c"), basic("ann", "wrong")]
        wire.send(b"".join(request("/a.txt", fields=fields) for fields in turns) * 5)
        for _ in range(5):
            assert [wire.reply().status for _ in turns] == [200, 401, 200, 401]


def test_large(server):
    with server.wire() as wire:
        assert wire.ask("/large", fields=basic("ann", "secret")).body == content("large", 1 << 20)


@pytest.mark.capacity(8)
# shows U74
def test_other_clients_do_not_wait(server):
    """While passwords are checked one after the other, which takes seconds, a client that is known is answered many times."""
    done = []

    def guess(number):
        with server.wire() as wire:
            done.append(wire.ask("/a.txt", fields=basic("slow", f"guess {number}")).status)
    with server.wire() as wire:
        assert wire.ask("/a.txt", fields=basic("ann", "secret")).status == 200
        threads = [threading.Thread(target=guess, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        answers = 0
        while any(thread.is_alive() for thread in threads):
            assert wire.ask("/a.txt", fields=basic("ann", "secret")).status == 200
            answers += 1
        for thread in threads:
            thread.join()
    assert done == [401] * 6
    assert answers >= 50 or one_at_a_time(), answers


def test_clients_that_leave(server):
    """Clients that close while their password is checked leave nothing behind."""
    for number in range(12):
        with socket.create_connection(server.addresses[0], 60) as one:
            one.sendall(request("/a.txt", fields=basic("slow", f"x{number}")))
    with server.wire() as wire:
        assert wire.ask("/a.txt", fields=basic("ann", "secret")).status == 200


@pytest.mark.capacity(100)
def test_crowd(start, tree, passwords):
    """More passwords at once than may wait: the rest get 503, and the server lives on."""
    write(f"{tree}/a.txt", b"for members\n")
    server = start(tree, "--auth", passwords)
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(server.wire()) for _ in range(90)]
        for number, wire in enumerate(wires):
            wire.send(request("/a.txt", fields=basic("ann", f"x{number}")))
        seen = [wire.reply().status for wire in wires]
        assert set(seen) <= {401, 503} and seen.count(401) >= 60
    with server.wire() as wire:
        assert wire.ask("/a.txt", fields=basic("ann", "secret")).status == 200


@pytest.mark.any_engine("one option with another")
def test_with_others(start, tree, passwords):
    """A redirect, an index for all paths and CORS do not go around the password; the page for 401 is sent without it."""
    write(f"{tree}/index.html", b"app\n")
    write(f"{tree}/401.html", b"<p>ask ann\n")
    with start(tree, "--auth", passwords, "--spa", "--cors", "--redirect", "/x /y", "--header", "X-A: a").wire() as wire:
        for target in ("/x", "/users/7", "/", "/401.html"):
            reply = wire.ask(target)
            assert reply.status == 401 and reply.body == b"<p>ask ann\n" and reply["access-control-allow-origin"] == "*" and "x-a" not in reply.fields
        assert wire.ask("/x", fields=basic("ann", "secret")).status == 302
        assert wire.ask("/users/7", fields=basic("ann", "secret")).body == b"app\n"
        assert wire.ask("/x", "OPTIONS").status == 200


def test_log_has_no_password(start, tree, passwords):
    server = start(tree, "--auth", passwords, "--log", "json")
    with server.wire() as wire:
        assert wire.ask("/", fields=basic("ann", "secret")).status == 200
    time.sleep(0.1)
    assert TOKEN not in "\n".join(server.out) and "secret" not in "\n".join(server.out)
