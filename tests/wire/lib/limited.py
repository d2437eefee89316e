# SPDX-License-Identifier: MIT
"""Clients of a server with limits for each address.  They have two: 127.0.0.1, and OTHER."""
from .client import request
from .server import wait_for

OTHER = "127.0.0.2"
ANSWERED = 16  # LIMITS_ANSWERED_MAX
PATIENT = ["--head-timeout", "10m", "--idle-timeout", "10m"]


def connections(limit, *more):
    return ["--limit-connections", limit, *PATIENT, *more]


def refused(wire):
    """Whether the next request on this connection gets 429, and the end."""
    wire.send(request("/hello.txt"))
    reply = wire.reply()
    assert reply.status in (200, 429), reply
    if reply.status == 200:
        return False
    assert reply.reason == "Too Many Requests" and reply["retry-after"] == "1" and reply.closes and reply.body
    wire.end()
    return True


def is_cut(wire):
    """Whether the server ends a connection on which nothing was sent, without a byte."""
    try:
        return not wire.more()
    except ConnectionError:
        return True


def is_served(server, **options):
    """Whether a new connection gets an answer; it closes."""
    with server.wire(**options) as wire:
        return not refused(wire)


def occupy(server, count, **options):
    """Opens that many connections, each of which has got an answer."""
    wires = []
    for _ in range(count):
        wires.append(server.wire(**options))
        assert wires[-1].ask("/hello.txt").status == 200
    return wires


def take_all(server, count, **options):
    """Waits until exactly that many connections are served at once: what ended before counts no more, and nothing twice."""
    wires = []

    def another():
        wire = server.wire(**options)
        if refused(wire):
            wire.close()
            return False
        wires.append(wire)
        return True
    for _ in range(count):
        wait_for(another, "as many connections as are allowed")
    assert not another()
    for wire in wires:
        wire.close()
