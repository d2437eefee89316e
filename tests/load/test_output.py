# SPDX-License-Identifier: MIT
"""Where results go: files, standard output, terminals; and what becomes of them when nobody takes them."""
import contextlib
import fcntl
import json
import os
import pty
import re
import resource
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import form
import pytest
from aid import (CONNECT, DONE, FAILED, FAULTS, LOAD, OK, PATIENCE, USAGE, Liar, Witness, always, end, environment,
                 load, measured, start)


@pytest.fixture
def server():
    with Witness(lambda request: OK) as one:
        yield one


# --- JSON -----------------------------------------------------------------------------------------------------------

def test_paths_of_any_bytes_and_any_length(server, tmp_path):
    """Each character of a path is the byte of its number; nothing is cut, and a URL is what was asked."""
    folder = os.fsencode(tmp_path)
    for name in (b"\xc3\xbc\xff\"\\\n" * 20, b"\x80" * 250, b"\xfe" * 250, b"\xfd" * 250):
        folder += b"/" + name
        os.mkdir(folder)
    with open(folder + b"/log", "w", encoding="ascii") as log:
        log.write('- - - [10/Oct/2000:13:55:36 +0000] "GET /a HTTP/1.1" 200 5\n')
    with open(folder + b"/urls", "w", encoding="ascii") as urls:
        urls.write(server.url + "/a\n")
    url = server.url + "/" + 8000 * "u"
    for option, name, where in (("--walk", b"", server.url), ("--replay", b"/log", server.url), ("--urls", b"/urls", url)):
        process = subprocess.run([LOAD, "-o", "-", "-n", "3", option, folder + name, where], stdout=subprocess.PIPE,
                                 env=environment(), timeout=PATIENCE, check=True)
        result = form.read(process.stdout.decode("ascii"))
        assert result["workload"]["path"].encode("latin-1") == folder + name
    assert result["url"] == url


def test_urls_of_examples_are_whole():
    with Liar(always(OK.replace(b"200", b"500"))) as liar:
        url = liar.url + 8000 * "u"
        assert measured("-n", 3, url).json["examples"][0]["url"] == url
    with Liar(always(OK)) as liar:
        run = load("-o", "-", "--trial", "calm", "-d", "100ms", "--trial-worst", "20s", liar.url + 8000 * "u")
    assert run.json["url"] == liar.url + 8000 * "u"
