# SPDX-License-Identifier: MIT
"""The common part of all servers under test, however they are started: addresses, and counters that must agree."""
import time

from .client import PATIENCE, Wire
from .secured import EVERYWHERE


def wait_for(question, what, seconds=PATIENCE):
    """Call question() until its answer is true; returns that answer."""
    end = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.01)


def served_beside(server, hello, big):
    """Requests of other clients, each on a connection of its own; returns the longest of their times."""
    longest = 0
    for target, right in 3 * (("/hello.txt", hello), ("/big.bin", big), ("/no", None), ("/", None)):
        began = time.monotonic()
        reply = server.ask(target)
        longest = max(longest, time.monotonic() - began)
        assert reply.status == (404 if target == "/no" else 200)
        same = right is None or reply.body == right
        assert same, target
    return longest


class Served:
    """A subclass has addresses, [(host, port)], and stats(), a dict."""

    secured = EVERYWHERE  # it speaks TLS

    @property
    def address(self):
        return self.addresses[0]

    def wire(self, **options):
        return Wire(self.address, **{"secured": self.secured, **options})

    def ask(self, *args, **options):
        """One request on a connection of its own."""
        with self.wire() as wire:
            return wire.ask(*args, **options)

    def url(self, path="/"):
        host, port = self.address
        return f"http{'s' if EVERYWHERE else ''}://{host}:{port}{path}"

    # shows E13
    def check_counts(self):
        """With every client gone: nothing open, nothing unaccounted for."""
        seen = []

        def settled():  # a connection may close while the counters are read, so they are read again
            seen[:] = [self.stats()]
            gone = seen[0]["closed"] + seen[0]["lost"]
            return seen[0]["open"] == 0 and seen[0]["accepted"] == gone
        try:
            wait_for(settled, "all connections closed and counted")
        except AssertionError as error:
            raise AssertionError(f"{error}: {seen[0]}") from None
        stats = seen[0]
        assert stats["lost"] == 0, stats
        assert stats["answers"] == stats["complete"] + stats["broken"], stats
        return stats
