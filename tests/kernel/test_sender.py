# SPDX-License-Identifier: MIT
"""While the module serves, an unrelated process sends over TCP: each of its bytes arrives, and no others.

A bottom half interrupts any process.  On Linux >= 6.2 a socket that copies in it writes into the page that the
interrupted process is just filling (sk_use_task_frag), unless the socket is marked as having a page of its own.
"""
import os
import subprocess
import sys

import pytest
from lib import module
from lib.trees import content, write

HERE = os.path.dirname(os.path.abspath(__file__))
SECOND_CPU = "/sys/devices/system/cpu/cpu1/online"
RPS = "/sys/class/net/lo/queues/rx-0/rps_cpus"
SIZES = (13, 1024, 4097, 20_000, 200_000)  # the first fits into the head's packet; the last has many pages
SECONDS = "6"
LEAST = 4 << 20  # bytes that the stranger must send, or nothing was tested


def setting(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(value)


@pytest.fixture(params=["1 processor", "2 processors"])
def processors(request):
    """With two, packets are spread over both, so that each is interrupted for the other's packets."""
    one = request.param == "1 processor"
    if one:
        setting(SECOND_CPU, "0")
    else:
        setting(RPS, "3")
    yield
    setting(RPS, "0")
    if one:
        setting(SECOND_CPU, "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sender")
    for one in (path, path.parent):
        os.chmod(one, 0o755)
    for size in SIZES:
        write(f"{path}/{size}.bin", content(f"sender {size}", size))
    return path


@pytest.fixture
def stranger():
    with subprocess.Popen([sys.executable, "-I", "-S", "-B", f"{HERE}/sender.py"], stdout=subprocess.PIPE,
                          text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.terminate()


def assert_served(*args):
    """Runs a load that compares each answer, too."""
    argv = [os.environ["RUNG_BIN"], "load", "-c", "16", "-t", "2", "-d", SECONDS, *args]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("what", ["rung_http", "rung_echo"])
def test_a_stranger_s_bytes(start, folder, processors, stranger, what, record_property):
    server = start(folder if what == "rung_http" else None, what=what)
    if what == "rung_http":
        assert_served("--walk", str(folder), "--check", str(folder), "--fail-if", "errors>0", f"http://127.0.0.1:{server.port}/")
    else:
        assert_served(f"echo://127.0.0.1:{server.port}")
    answers = server.stats()["complete" if what == "rung_http" else "sends"]
    stranger.terminate()
    said = stranger.stdout.read()
    assert stranger.wait(60) == 0, said
    record_property("sender", f"{what}, {module.MODEL}: {int(said) >> 20} MiB beside {answers} answers")
    assert int(said) > LEAST and answers > 100
