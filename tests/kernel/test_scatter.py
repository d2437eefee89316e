# SPDX-License-Identifier: MIT
"""An interface that wants each packet in one piece (no scatter-gather, as some drivers and tunnels): the pages that a module
hands over are copied before they are sent, and each byte arrives."""
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess

import pytest
from lib import module
from test_sender import folder  # noqa: F401 (a fixture)

SIOCETHTOOL, GET_SG, SET_SG = 0x8946, 0x18, 0x19  # linux/sockios.h, linux/ethtool.h
NEAR, FAR, SPACE = "10.9.7.1", "10.9.7.2", "rung-far"
SECONDS = "3"


def scatters(name, value=None):
    """Whether the interface does scatter-gather; with a value, sets it first."""
    words = struct.pack("II", GET_SG if value is None else SET_SG, value or 0)
    held = ctypes.create_string_buffer(words, len(words))
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCETHTOOL, struct.pack("16sP16x", name.encode(), ctypes.addressof(held)))
    return struct.unpack("II", held.raw)[1] != 0


def ip(*args, inside=False):
    prefix = ["nsenter", f"--net=/run/netns/{SPACE}"] if inside else []
    subprocess.run([*prefix, "ip", *args], check=True, capture_output=True)


@pytest.fixture(scope="module", params=[True, False], ids=["scattered", "in one piece"])
def cable(request):
    """The far end of the cable and the load generator are in another network namespace."""
    with contextlib.ExitStack() as stack:
        ip("netns", "add", SPACE)
        stack.callback(ip, "netns", "delete", SPACE)
        ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", SPACE)
        stack.callback(ip, "link", "delete", "near")
        ip("address", "add", f"{NEAR}/24", "dev", "near")
        ip("link", "set", "near", "up")
        ip("address", "add", f"{FAR}/24", "dev", "far", inside=True)
        ip("link", "set", "far", "up", inside=True)
        assert scatters("near")
        if not request.param:
            scatters("near", 0)
        assert scatters("near") is request.param
        yield


@pytest.mark.long
# shows K17
def test_each_byte_arrives(start, folder, cable, record_property):
    place = str(folder)
    server = start(place, "--bind", NEAR)
    argv = ["nsenter", f"--net=/run/netns/{SPACE}", os.environ["RUNG_BIN"], "load", "-c", "8", "-t", "1", "-d", SECONDS, "--walk", place,
            "--check", place, "--fail-if", "errors>0", f"http://{NEAR}:{server.port}/"]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    answers = server.stats()["complete"]
    record_property("scatter", f"{module.MODEL}: {answers} answers")
    assert answers > 100
