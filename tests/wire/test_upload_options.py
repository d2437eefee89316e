# SPDX-License-Identifier: MIT
"""--upload together with other options, and how it is refused at the start."""
import json
import os
import shutil
import socket

import pytest
from cli import EXIT_FAILED, EXIT_USAGE, ROOT, run
from lib.client import request
from lib.crowd import sanitized
from lib.secured import EVERYWHERE
from lib.server import wait_for
from lib.trees import content, write
from test_auth import basic, hashed
from test_bodies import chunks
from test_upload import CHUNKED, EXPECT, names

pytestmark = pytest.mark.userspace("uploads")
one_name = pytest.mark.skipif(EVERYWHERE, reason="its clients connect for one name and ask for others")


# --- Together with other options ------------------------------------------------------------------------------


def test_password_first(start, tree, tmp_path):
    passwords = tmp_path / "passwords"
    passwords.write_text(f"ann:{hashed('secret')}\n")
    with start(tree, "--upload", ".", "--auth", passwords).wire() as wire:
        for fields in ((), basic("ann", "wrong")):
            assert wire.ask("/new", "PUT", fields, b"x").status == 401
            assert not names(tree)
        for turn in range(3):
            assert wire.ask(f"/new{turn}", "PUT", basic("ann", "secret"), content("a", 200_000)).status == 201
        wire.send(request("/new", "PUT", [EXPECT, "Content-Length: 3"]))
        assert wire.reply().status == 401


def test_limits_and_addresses_first(start, tree):
    with start(tree, "--upload", ".", "--deny", "127.0.0.0/8", "--deny", "::1").wire() as wire:
        assert wire.ask("/new", "PUT", body=b"x").status == 403
    with start(tree, "--upload", ".", "--limit-requests", "1/h:3").wire() as wire:
        assert [wire.ask(f"/new{turn}", "PUT", body=b"x").status for turn in range(4)] == [201, 201, 201, 429]
    assert names(tree) == ["new0", "new1", "new2"]


def test_counted_and_logged(start, tree, tmp_path):
    server = start(tree, "--upload", ".", "--log", "json", "--log-file", tmp_path / "log", "--metrics", "unix:" + str(tmp_path / "m"))
    with server.wire() as wire:
        assert wire.ask("/new", "PUT", body=bytes(70_000)).status == 201
        assert wire.ask("/new", "PUT", body=b"xx").status == 409
        assert wire.ask("/other", "PUT", body=b"xx").status == 201
    stats = server.stats()
    assert stats["uploads"] == 2 and stats["upload_bytes"] == 70_002
    wait_for(lambda: (tmp_path / "log").read_text().count("\n") == 3, "three lines")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [(line["method"], line["status"]) for line in lines] == [("PUT", 201), ("PUT", 409), ("PUT", 201)]
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(tmp_path / "m"))
        sock.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = b"".join(iter(lambda: sock.recv(65536), b"")).decode()
    assert "rung_uploads_total 2\n" in text and "rung_stored_bytes_total 70002\n" in text


@pytest.mark.core
@pytest.mark.parametrize("how", [("--sandbox", "strict"), ("--tls", "self"), ("--cache", "0"), ("--compress", "off", "--listing", "off")])
def test_arrangements(start, tree, how):
    if how[0] == "--sandbox" and sanitized():
        pytest.skip("a sanitizer has no sandbox")
    os.mkdir(f"{tree}/in")
    server = start(tree, "--upload", "in", *how)
    data = content("large", 500_000)
    with server.wire(**({"secured": True} if how[0] == "--tls" else {})) as wire:
        for turn in range(2):
            assert wire.ask(f"/in/a{turn}", "PUT", body=data).status == 201
            assert wire.ask(f"/in/a{turn}").body == data
            wire.send(request(f"/in/b{turn}", "PUT", [CHUNKED]) + chunks(data, 16_000) + request(f"/in/b{turn}"))
            assert wire.reply().status == 201
            assert wire.reply().body == data
        assert wire.ask("/out", "PUT", body=b"x").status == 405


@pytest.mark.skipif(sanitized(), reason="a sanitizer has no sandbox")
def test_the_sandbox_knows_the_folder(start, tree):
    """Landlock allows the folder that was there at the start, and no other that takes its name."""
    os.mkdir(f"{tree}/in")
    server = start(tree, "--upload", "in")
    with server.wire() as wire:
        assert wire.ask("/in/a", "PUT", body=b"x").status == 201
        os.rename(f"{tree}/in", f"{tree}/old")
        os.mkdir(f"{tree}/in")
        status = wire.ask("/in/a", "PUT", body=b"x").status
        assert status == (403 if "Landlock" not in server.text() else 201)
        os.rmdir(f"{tree}/in") if status == 403 else shutil.rmtree(f"{tree}/in")
        assert wire.ask("/in/a", "PUT", body=b"x").status == 404


# --- The start --------------------------------------------------------------------------------------------------


@pytest.mark.any_engine("the server does not start")
@pytest.mark.parametrize("named, code, said", [
    ("none", EXIT_FAILED, "make it first"), ("file", EXIT_FAILED, "make it first"), ("link", EXIT_FAILED, "a link leads there"),
    ("..", EXIT_USAGE, "below the one that is served"), ("in/../in", EXIT_USAGE, "below the one that is served"),
    ("", EXIT_USAGE, "it cannot be empty")])
def test_refused_at_the_start(tree, named, code, said):
    os.mkdir(f"{tree}/in")
    os.symlink("in", f"{tree}/link")
    write(f"{tree}/file", b"x")
    done = run("-p", "0", "--upload", named, tree)
    assert done.returncode == code and said in done.stderr


@pytest.mark.any_engine("the server does not start")
def test_other_refusals_at_the_start(tree):
    write(f"{tree}/file", b"x")
    done = run("-p", "0", "--upload", ".", f"{tree}/file")
    assert done.returncode == EXIT_USAGE and "a single file is served" in done.stderr
    os.mkdir(f"{tree}/.in")
    done = run("-p", "0", "--upload", ".in", tree)
    assert done.returncode == EXIT_FAILED and "see --hidden" in done.stderr
    done = run("-p", "0", "--upload", ".", "--upload-max", "0", tree)
    assert done.returncode == EXIT_USAGE


@pytest.mark.any_engine("the server does not start")
@pytest.mark.skipif(not ROOT, reason="needs another user")
def test_a_folder_that_is_not_ours(tree):
    os.chmod(tree, 0o755)
    done = run("-p", "0", "--upload", ".", tree, user=65534)
    assert done.returncode == EXIT_FAILED and "may not write there" in done.stderr


@pytest.mark.any_engine("which site a request is for")
@one_name
def test_hosts(start, tree, tmp_path):
    """Each [[host]] has its own folder, or none."""
    for name in ("a", "b", "c"):
        os.makedirs(f"{tree}/{name}/in")
    config = tmp_path / "rung.toml"
    config.write_text("".join(f'[[host]]\nname = ["{name}.example"]\nroot = "{tree}/{name}"\n{more}' for name, more in
                              (("a", 'upload = "."\nupload-max = 10\n'), ("b", 'upload = "in"\n'), ("c", ""))))
    server = start(f"--config={config}")
    with server.wire() as wire:
        for host, target, size, status in (("a", "/x", 10, 201), ("b", "/in/x", 11, 201), ("c", "/in/x", 1, 405), ("b", "/x", 1, 405),
                                           ("a", "/in/x", 1, 201), ("c", "/x", 1, 405), ("b", "/in/x", 1, 409)):
            assert wire.ask(target, "PUT", [f"Host: {host}.example"], bytes(size)).status == status
        wire.send(request("/y", "PUT", ["Host: a.example", "Content-Length: 11"]))
        assert wire.reply().status == 413
    assert names(f"{tree}/a") == ["in", "in/x", "x"] and names(f"{tree}/b") == ["in", "in/x"] and names(f"{tree}/c") == ["in"]


@pytest.mark.capacity(2)
@one_name
def test_fields_of_its_host(start, tree, tmp_path):
    """The answer is that of the site that the upload is for, whatever was answered while it came."""
    config = tmp_path / "rung.toml"
    config.write_text("".join(f'[[host]]\nname = ["{name}.example"]\nroot = "{tree}"\nheader = ["X-Site: {name}"]\n{more}' for name, more in
                              (("a", 'upload = "."\n'), ("b", ""))))
    server = start(f"--config={config}")
    with server.wire() as wire, server.wire() as other:
        wire.send(request("/new", "PUT", ["Host: a.example", "Content-Length: 2"]) + b"x")
        assert other.ask("/", fields=["Host: b.example"])["x-site"] == "b"
        wire.send(b"y")
        assert wire.reply()["x-site"] == "a"
