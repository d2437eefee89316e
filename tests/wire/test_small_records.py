# SPDX-License-Identifier: MIT
"""https for clients that can take small records only (max_fragment_length, RFC 6066 4): every answer arrives whole.

Small records have more heads and tags: 32 of 512 bytes instead of one of 16 KiB.  The client is openssl's.
"""
import subprocess

import pytest
from lib.client import PATIENCE
from lib.secured import EVERYWHERE

pytestmark = [pytest.mark.userspace("TLS"), pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls")]
SIZES = [0, 1, 511, 512, 513, 4096, *range(14000, 40000, 1021), 100_000]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sizes")
    for size in SIZES:
        (path / f"{size}.bin").write_bytes(bytes(n % 251 for n in range(size)))
    return path


def bodies(stream):
    """The bodies of the answers in a stream."""
    while stream:
        head, _, rest = stream.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(fields[b"content-length"])
        yield rest[:length]
        stream = rest[length:]


@pytest.mark.core
@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
@pytest.mark.parametrize("fragment", [512, 4096])
def test_answers_are_whole(start, folder, version, fragment):
    """On one connection: each size, from the file and then from memory, so that records begin anywhere in the send queue."""
    host, port = start(folder, "--tls", "self").address
    asked = [size for size in SIZES for _ in range(3)]
    asks = "".join(f"GET /{size}.bin HTTP/1.1\r\nHost: a\r\n\r\n" for size in asked) + "GET /1.bin HTTP/1.0\r\n\r\n"
    done = subprocess.run(["openssl", "s_client", "-connect", f"{host}:{port}", version, "-maxfraglen", str(fragment), "-quiet"],
                          input=asks.encode(), capture_output=True, timeout=PATIENCE, check=False)
    assert [len(body) for body in bodies(done.stdout)] == [*asked, 1]
    assert list(bodies(done.stdout)) == [*((folder / f"{size}.bin").read_bytes() for size in asked), b"\0"]
