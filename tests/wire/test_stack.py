# SPDX-License-Identifier: MIT
"""How much of its stack a connection uses, where each has one: reported with the counters and at the end."""
import resource

import pytest
from lib import crowd
from lib.client import request
from lib.server import ENGINE

# Bytes that the deepest connection may touch of a coroutine's stack: half of it, measured with a log and every kind
# of answer.  A compiler that needs more, or a path that goes deeper, must fail here before it hits a guard page.
STACK_MOST = 32 * 1024

ASKED = [("/", "GET", ["Accept: application/json"]), ("/list/", "GET", []), ("/list/?sort=size&order=desc", "GET", []),
         ("/hello.txt", "GET", []), ("/hello.txt", "HEAD", []), ("/" + "a/" * 1000, "GET", []), ("/missing", "GET", []),
         ("/size/65536.bin", "GET", ["Range: bytes=0-10,60000-", "Accept-Encoding: gzip, br"]),
         ("/size/1048576.bin", "GET", []), ("/hello.txt", "DELETE", [])]


@pytest.mark.core
@pytest.mark.userspace("stacks of its own")
# shows S22
def test_stack_is_told(start, standard, engine):
    server = start(standard, "--log", "json")
    for target, method, fields in ASKED:
        server.ask(target, method, fields)
    with server.wire() as wire:
        wire.send(request("/hello.txt", "POST", ["Transfer-Encoding: chunked"], b"5\r\nhello\r\n0\r\n\r\n"))
        wire.reply("POST")
    most = server.check_counts()["stack_most"]
    server.stop()
    told = [line for line in server.said if "of its stack's" in line]
    if ENGINE != "coro":
        assert most == 0 and not told
        return
    assert 0 < most <= engine["stack_bytes"] and most % resource.getpagesize() == 0
    assert most <= STACK_MOST or crowd.sanitized()
    assert told == [f"rung: the deepest connection touched {most} of its stack's {engine['stack_bytes']} bytes"]
