# SPDX-License-Identifier: MIT
"""What all hosts of a server share: limits for each address, the port, the places of archives."""
import os

import pytest
from lib.client import Wire, request
from lib.server import wait_for
from lib.trees import write

from test_hosts import NAMES, ask, connect, file, hosts, make, places, secure  # noqa: F401
from test_hosts import pytestmark  # noqa: F401

AT_ONCE = 16


@pytest.mark.capacity(4)
# shows U60
def test_page_of_a_connection_too_many(hosts, places):
    """The connection's only answer has the page and the fields of the host that it names, whichever one was asked last."""
    for letter, place in places.items():
        write(f"{place}/429.html", f"too many at {letter}\n".encode())
    server = hosts({"b": "security-headers = true"}, top="limit-connections = 1\nidle-timeout = \"10m\"")
    with server.wire() as one:
        for last in "bca":
            assert ask(one, NAMES[last][0]).status == 200
            for letter in "abc":
                with server.wire() as more:
                    reply = ask(more, NAMES[letter][0])
                    assert reply.status == 429 and reply.body == f"too many at {letter}\n".encode()
                    assert bool(reply.get("x-frame-options")) == (letter == "b")


def test_redirect_to_https(secure):
    """Plain HTTP, where TLS is spoken: the redirect has the fields of the host that it names, whichever one was asked last."""
    for last in "abc":
        with connect(secure, NAMES[last][0]) as wire:
            assert ask(wire, NAMES[last][0]).status == 200
        for letter in "abc":
            with Wire(secure.address, secured=False) as wire:
                reply = ask(wire, NAMES[letter][0])
                assert reply.status == 308 and reply["location"] == f"https://{NAMES[letter][0]}/f.txt"
                assert bool(reply.get("x-frame-options")) == (letter in "ac"), (last, letter)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
def test_misdirected_requests_count(hosts, tmp_path, method):
    """--limit-requests: whatever is asked of a host that the certificate does not cover."""
    server = hosts({letter: f'tls = ["{make(tmp_path, letter, NAMES[letter][0])}"]' for letter in "ab"}, top='limit-requests = "1/h:5"')
    with connect(server, "a.example") as wire:
        assert [ask(wire, "b.example", method=method).status for _ in range(7)] == [421] * 5 + [429] * 2
        assert ask(wire, "a.example").status == 429


@pytest.mark.capacity(AT_ONCE + 2)
def test_places_of_archives(hosts, places):
    """--archive: the machine has to bear them all, so the places are the server's, not each host's."""
    for place in places.values():
        write(f"{place}/hole/hole", b"")
        os.truncate(f"{place}/hole/hole", 1 << 30)
    server, wires = hosts(top="archive = true"), []

    def opened(letter):
        wires.append(server.wire())
        wires[-1].send(request("/hole/?archive=tar", fields=[f"Host: {NAMES[letter][0]}"]))
        return int(wires[-1].lines()[0].split()[1])
    for number in range(AT_ONCE):
        assert opened("abc"[number % 3]) == 200
    for letter in "abc":
        assert opened(letter) == 503
    wires.pop(0).close()  # one of the first host's
    wait_for(lambda: opened("c") == 200, "its place for another host")
    assert opened("b") == 503
    for wire in wires:
        wire.close()
