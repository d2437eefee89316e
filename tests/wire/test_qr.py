# SPDX-License-Identifier: MIT
"""The address as a QR code: on a terminal, for a server that the network can reach, and nowhere else."""
import os
import re
import select
import shutil
import subprocess
import time

import pytest
from cli import BIN, ENGINE, PATIENCE, environment, site  # noqa: F401 (a fixture among them)

pytestmark = [pytest.mark.userspace("a terminal"), pytest.mark.any_engine("printed before the engine runs")]
UTF8 = {"TERM": "xterm", "LC_ALL": "C.UTF-8"}
HALVES = {" ": "00", "\u2584": "01", "\u2580": "10", "\u2588": "11"}


def printed(site, *args, env, terminal=True):
    """All that rung prints to standard error until it serves; a terminal, or a pipe."""
    ours, theirs = os.openpty() if terminal else os.pipe()
    process = subprocess.Popen([BIN, site, "-e", ENGINE, "-p", "0", *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=theirs, env={**environment(), "LC_ALL": "", "LANG": "", **env})
    text, end = b"", time.monotonic() + PATIENCE
    try:
        while b"Ctrl-C stops" not in text:
            assert select.select([ours], [], [], max(0, end - time.monotonic()))[0], text
            text += os.read(ours, 65536)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)
    return text.decode("utf-8").replace("\r\n", "\n")


def modules(text):
    """The rows of the code, a character for each module."""
    found = []
    for line in re.findall(r"^  \x1b\[38;5;16;48;5;231m(.*)\x1b\[0m$", text, re.M):
        pairs = [HALVES[char] for char in line]
        found += ["".join(pair[half] for pair in pairs) for half in (0, 1)]
    return found


@pytest.mark.skipif(not shutil.which("qrencode"), reason="qrencode is not installed")
@pytest.mark.parametrize("what", ["", "/file.txt"])
# shows U76
def test_code(site, what):
    """The code is the one that another program makes of the first address that is printed; it comes once."""
    text = printed(site + what, "--public", env=UTF8)
    urls = re.findall(r"on the network \(.*\): (\S+)", text)
    if not urls:
        pytest.skip("this machine is in no network")
    assert urls[0].endswith(what or "/")
    other = subprocess.run(["qrencode", "-t", "ASCII", "-m", "2", "-l", "L", "-8", "-o", "-", urls[0]], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    rows = modules(text)
    assert rows[:len(other)] == [line.ljust(2 * len(rows[0]))[::2].replace("#", "1").replace(" ", "0") for line in other]
    assert len(rows) - len(other) in (0, 1)  # a row more, because two are one line


@pytest.mark.parametrize("args, env, terminal", [
    ([], UTF8, True), (["--public"], UTF8, False), (["--public"], {**UTF8, "TERM": "dumb"}, True), (["--public"], {**UTF8, "TERM": ""}, True),
    (["--public"], {"TERM": "xterm", "LC_ALL": "C"}, True)])
def test_no_code(site, args, env, terminal):
    """Not for loopback, not into a file, not where it could not be drawn."""
    assert "\x1b" not in printed(site, *args, env=env, terminal=terminal)
