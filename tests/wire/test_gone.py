# SPDX-License-Identifier: MIT
"""The served folder is removed: 503, not an empty listing or a 404 that caches believe; and the server says so."""
import os
import shutil
import time

import pytest
from lib import server as servers
from lib.served import wait_for
from lib.trees import write


@pytest.mark.core
@pytest.mark.parametrize("how", ["removed", "replaced", "renamed over"])
def test_a_root_that_is_gone(start, tree, how):
    root = f"{tree}/root"
    write(f"{root}/hello.txt", b"hello\n")
    write(f"{root}/sub/file", b"file\n")
    os.chmod(root, 0o755)
    server = start(root)
    with server.wire() as wire:
        assert wire.ask("/hello.txt").body == b"hello\n"
        for target in ("/", "/sub/"):
            assert b"./" in wire.ask(target).body
        if how == "renamed over":
            shutil.rmtree(f"{root}/sub")
            os.unlink(f"{root}/hello.txt")
            write(f"{tree}/new/hello.txt", b"new\n")
            os.rename(f"{tree}/new", root)
        else:
            shutil.rmtree(root)
        if how == "replaced":
            write(f"{root}/hello.txt", b"new\n")
        for _ in range(3):
            for target in ("/", "/hello.txt", "/sub/", "/sub/file", "/missing", "/?format=json"):
                for method in ("GET", "HEAD"):
                    reply = wire.ask(target, method)
                    assert reply.status == 503 and reply["retry-after"], (target, reply)
    if servers.ENGINE == "kernel":
        return
    began = time.monotonic()
    for _ in range(20):  # on fork, each has a process of its own
        assert server.ask("/").status == 503
    wait_for(lambda: "was removed" in server.text(), "the server says so")
    lines = server.text().count("was removed")
    assert lines <= 2 + (time.monotonic() - began) / 10, "it says so at every request"


def test_an_empty_root_is_not_gone(start, tree):
    server = start(tree)
    reply = server.ask("/")
    assert reply.status == 200
    write(f"{tree}/file", b"x")
    assert server.ask("/file").body == b"x"
    os.unlink(f"{tree}/file")
    assert server.ask("/file").status == 404 and server.ask("/").status == 200
