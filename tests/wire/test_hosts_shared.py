# SPDX-License-Identifier: MIT
"""What all hosts of a server share: limits for each address."""
import pytest

from test_hosts import ask, connect, file, hosts, make, places  # noqa: F401
from test_hosts import pytestmark  # noqa: F401


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
def test_misdirected_requests_count(hosts, tmp_path, method):
    """--limit-requests: whatever is asked of a host that the certificate does not cover."""
    server = hosts({letter: f'tls = ["{make(tmp_path, letter, NAMES[letter][0])}"]' for letter in "ab"}, top='limit-requests = "1/h:5"')
    with connect(server, "a.example") as wire:
        assert [ask(wire, "b.example", method=method).status for _ in range(7)] == [421] * 5 + [429] * 2
        assert ask(wire, "a.example").status == 429
