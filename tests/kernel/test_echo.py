# SPDX-License-Identifier: MIT
"""rung_echo: the bytes of a client are returned exactly, in order; and it unloads as well as the other module."""
import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest
from conftest import has
from lib import klog, module
from lib.client import Wire
from lib.served import wait_for
from lib.trees import content

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "trace"))
import aid  # noqa: E402 - found by the line above

pytestmark = pytest.mark.skipif(not has("rung_echo"), reason="there is no rung_echo here")
SIZES = [1, 8, 64, 4090, 4095, 4096, 4097, 4100, 16384, 65537, 1_000_000]
MANY = min(600, module.row()["capacity"] - 8)
NETLINK_SOCK_DIAG, SOCK_DESTROY, REQUEST_AND_ACK = 4, 21, 5


@pytest.fixture
def echo(start):
    return start(None, what="rung_echo")


# shows E02
def test_a_message_has_no_body_to_limit(echo):
    parameters = os.listdir(f"/sys/module/{echo.name}/parameters")
    assert "min_progress" in parameters and "max_body" not in parameters


@pytest.mark.parametrize("name, value, reads", [("backlog", "7", "7"), ("wq", "bound", "bound"), ("wq", "unbound", "unbound"), ("highpri", "1", "Y"),
                                                ("idle_timeout", "4000", "4000"), ("max_connections", "9", "9")])
# shows E02
def test_a_parameter_is_taken_and_can_be_read(start, name, value, reads):
    echo = start(None, f"--{name}={value}", what="rung_echo")
    assert module.parameter(echo.name, name) == reads and module.parameter(echo.name, "model") == module.MODEL
    with echo.wire() as wire:
        assert exchanged(wire, b"to and fro") == b"to and fro"


def exchanged(wire, data):
    sender = threading.Thread(target=wire.send, args=(data,))
    sender.start()
    got = wire.take(len(data))
    sender.join(60)
    return got


@pytest.mark.parametrize("make", [lambda size: content("echo", size), bytes, lambda size: b"\0\xff" * (size // 2 + 1)],
                         ids=["any", "zeros", "both"])
# shows D01, E01, E15
def test_every_size(echo, make):
    """Lengths are passed along, never measured.  A naive module that measures one sends its stack, or crashes."""
    with echo.wire() as wire:
        for size in SIZES:
            data = make(size)
            assert exchanged(wire, data) == data


# shows E01
def test_cut_anywhere(echo):
    data = content("cut", 3000)
    with echo.wire() as wire:
        for at in range(0, 3000, 7):
            wire.send(data[at:at + 7])
        assert wire.take(3000) == data


# shows E01, E08, E13, E14
def test_half_closed(echo):
    """Bytes sent before the end are still returned, and then the end."""
    data = content("half", 300_000)
    with echo.wire() as wire:
        sender = threading.Thread(target=lambda: (wire.send(data), wire.finish()))
        sender.start()
        assert wire.take(len(data)) == data
        wire.end()
        sender.join(60)
    stats = echo.check_counts()
    assert stats["accepted"] == stats["ends"] == 1


# shows E08, E13
def test_counters_are_what_the_load_did(echo):
    """Messages that arrive whole: one receive and one send for each; the end of a client is counted apart, not as a receive."""
    clients, messages = 4, 400
    run = json.loads(subprocess.run(
        [aid.LOAD, "-o", "-", "-t", "1", "-c", str(clients), "-n", str(messages), "--message-min", "10", "--message-max", "1000",
         f"echo://127.0.0.1:{echo.port}"], capture_output=True, text=True, check=True, timeout=60).stdout)
    stats = echo.check_counts()
    assert run["requests"]["answered"] == messages
    assert stats["accepted"] == stats["closed"] == stats["ends"] == clients
    assert stats["receives"] == stats["sends"] == messages
    assert stats["bytes"] == run["received_bytes"]
    assert not any(stats[name] for name in ("receive_errors", "send_errors", "accept_errors", "no_buffer", "refused")), stats


@pytest.mark.parametrize("size, pieces", [(1023, 1), (1025, 2), (4090, 4), (4097, 5)])
# shows E26
def test_a_buffer_smaller_than_the_message(start, size, pieces):
    """What does not fit into the buffer takes another receive, and each receive is echoed."""
    echo = start(None, "--recv-bytes", "1024", what="rung_echo")
    data = content("pieces", size)
    with echo.wire() as wire:
        assert exchanged(wire, data) == data
    stats = echo.check_counts()
    assert stats["receives"] == stats["sends"] == pieces and stats["bytes"] == size, stats


# shows E26
def test_the_bound_on_running_work_items(start):
    """With cmwq a running work item is a connection: others wait for it, and a client that is idle does not keep them out."""
    echo = start(None, "--max-active", "2", what="rung_echo")
    with open(f"/sys/bus/workqueue/devices/{echo.name}/max_active", encoding="ascii") as file:
        assert file.read() == "2\n"
    assert echo.stats()["seats"] == (2 if module.MODEL == "cmwq" else 65536 if module.MODEL != "kthread" else 4096)
    with echo.wire(), echo.wire(), echo.wire() as third:
        assert exchanged(third, b"and I?") == b"and I?"
    echo.check_counts()


def stuck(echo):
    """A client that has sent until nothing more can be sent, and reads nothing: the server is in the middle of an echo."""
    wire = echo.wire(rcvbuf=4096)
    chunk = bytes(1 << 16)
    wire.sock.settimeout(0.2)
    with pytest.raises(TimeoutError):
        while True:
            wire.sock.send(chunk)
    return wire


# shows E13
def test_an_error_of_receive_is_counted(echo):
    """Clients that reset while the server waits for their next message: one error each, and none of a send."""
    for _ in range(20):
        with echo.wire() as wire:
            assert exchanged(wire, b"one, and then") == b"one, and then"
            wire.reset()
    stats = echo.check_counts()
    assert stats["receive_errors"] == stats["receives"] == stats["sends"] == 20, stats
    assert stats["send_errors"] == stats["ends"] == 0, stats


# shows E13
def test_an_error_of_send_is_counted(echo):
    """Clients that reset while an echo is on its way to them: one error each, and none of a receive."""
    for _ in range(20):
        stuck(echo).reset()
    stats = echo.check_counts()
    assert stats["send_errors"] == 20 and stats["receive_errors"] == stats["ends"] == 0, stats


# shows E13
def test_an_error_of_accept_is_counted(start):
    """A listener that was destroyed, as `ss -K` does: nothing can be accepted from it, and the other one goes on."""
    echo = start(None, "--max-connections", "1", what="rung_echo")
    holder = stuck(echo)
    with echo.wire():  # waits for a slot, so that accepting is tried again when one is free
        destroy(echo.address)
        assert echo.stats()["accept_errors"] == 0
        holder.reset()
        wait_for(lambda: echo.stats()["accept_errors"] > 1, "the error is counted, and accepting is tried again")
    with pytest.raises(ConnectionRefusedError):
        echo.wire()
    with Wire(echo.addresses[1]) as wire:
        assert exchanged(wire, b"and I?") == b"and I?"
    stats = echo.check_counts()
    assert stats["refused"] == 0 and stats["accepted"] == 2, stats


def destroy(address):
    """Destroys a listening IPv4 socket: SOCK_DESTROY of linux/sock_diag.h, with a struct inet_diag_req_v2."""
    request = struct.pack("=BBBxI HH16s16sI8s", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, socket.htons(address[1]), 0,
                          socket.inet_aton(address[0]), b"", 0, b"\xff" * 8)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as wire:
        wire.send(struct.pack("=IHHII", 16 + len(request), SOCK_DESTROY, REQUEST_AND_ACK, 0, 0) + request)
        error, = struct.unpack_from("=i", wire.recv(4096), 16)
    assert error == 0, os.strerror(-error)


@pytest.mark.skipif(module.MODEL != "kthread", reason="it starts no threads")
# shows E13
def test_a_connection_without_a_thread_is_counted(kernel, start):
    """While no thread can be started, a connection is closed at once and counted; afterwards all is as before."""
    kernel.expects("Failed to create a worker thread")
    echo = start(None, what="rung_echo")
    usual = threads_max("1")
    try:
        with echo.wire() as wire:
            assert wire.sock.recv(1) == b""
        wait_for(lambda: echo.stats()["refused"] == 1, "it is counted")
    finally:
        threads_max(usual)
    with echo.wire() as wire:
        assert exchanged(wire, b"now?") == b"now?"
    stats = echo.check_counts()
    assert stats["refused"] == 1 and stats["accepted"] == 2 and stats["accept_errors"] == 0, stats


def threads_max(value):
    """Sets how many threads this machine may have; returns how many it was."""
    with open("/proc/sys/kernel/threads-max", "r+", encoding="ascii") as file:
        usual = file.read()
        file.seek(0)
        file.write(value)
    return usual


# shows E13
def test_the_totals_are_logged_at_unload(echo):
    """One line, with the same figures as the counters had."""
    with echo.wire() as wire:
        assert exchanged(wire, b"the last message") == b"the last message"
    with echo.wire() as wire:
        wire.reset()
    stats = echo.check_counts()
    with contextlib.closing(klog.Log()) as log:
        echo.kill()
        said = [text for _, text in log.records() if text.startswith(f"{echo.name}: ")]
    assert len(said) == 1, said
    told = {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", said[0])}
    assert set(told) == {"accepted", "closed", "receives", "sends", "ends", "bytes", "accept_errors", "receive_errors", "send_errors",
                         "refused", "no_buffer", "broken"}
    assert told == {name: stats[name] for name in told}
    assert (told["accepted"], told["bytes"], told["receive_errors"]) == (2, 16, 1)


CONTROL = "/sys/kernel/debug/dynamic_debug/control"


def turn(how):
    """Turns lines about messages on (+p) or off (-p)."""
    with open(CONTROL, "w", encoding="ascii") as file:
        file.write(f"module rung_core {how}")


@pytest.mark.skipif(not os.path.exists(CONTROL), reason="this kernel has no dynamic debug")
# shows E18, E27
def test_a_line_for_each_message(echo, one_processor):
    """Off by default; while it is on, the kernel's log has a line for each receive, with its bytes."""
    with contextlib.closing(klog.Log()) as log, echo.wire() as wire:
        def said(data):
            assert exchanged(wire, data) == data
            return [text for _, text in log.records() if text.startswith(f"{echo.name}: ")]
        assert said(b"no line") == []
        turn("+p")
        try:
            assert said(b"a line") == [f"{echo.name}: received 6 bytes"]
        finally:
            turn("-p")
        assert said(b"again none") == []


# shows E22
def test_who_never_reads(echo):
    """The server stops reading from that client, so it takes only what its windows hold; the others are served."""
    chunk, said, before = bytes(1 << 16), 0, echo.stats()["buffer_bytes"]
    with echo.wire() as wire, echo.wire() as other:
        wire.sock.settimeout(1)
        with pytest.raises(TimeoutError):
            while said < 256 << 20:
                said += wire.sock.send(chunk)
        assert said < 64 << 20
        assert echo.stats()["buffer_bytes"] - before <= 2 * (80 << 10), "of the module's own, for two clients"
        assert exchanged(other, b"and I?") == b"and I?"
    echo.check_counts()


# shows E03
def test_silent_ones_keep_nobody_out(echo):
    wires = [echo.wire() for _ in range(MANY)]
    with echo.wire() as wire:
        assert exchanged(wire, b"still there?") == b"still there?"
    for wire in wires:
        wire.close()
    echo.check_counts()


# shows E04
def test_unload_beneath_them(echo):
    wires = [echo.wire() for _ in range(min(100, MANY))]
    for number, wire in enumerate(wires):
        wire.send(bytes(1 + 1000 * (number % 3)))
    before = time.monotonic()
    echo.kill()
    assert time.monotonic() - before < 3
    for wire in wires:
        wire.close()
