# SPDX-License-Identifier: MIT
"""The kernel drops all bytes of a connection that was cut off, and keeps all of an answer that it was given whole."""
import signal
import time

import pytest
from lib.client import request
from lib.server import wait_for
from lib.trees import content, sparse, write

BIG = 64 << 20
SMALL = 1 << 20  # less than a socket's buffer takes
TIME_WAIT = "06"


def servers_end(port, client_port):
    """(state, bytes queued) of the server's socket to that client, or None if it is gone."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        for line in file.readlines()[1:]:
            _, local, remote, state, queues = line.split()[:5]
            if int(local.split(":")[1], 16) == port and int(remote.split(":")[1], 16) == client_port:
                return None if state == TIME_WAIT else (state, int(queues.split(":")[0], 16))
    return None


def asked(server, target, rcvbuf=16384, fields=()):
    wire = server.wire(rcvbuf=rcvbuf)
    wire.send(request(target, fields=fields))
    return wire


@pytest.fixture
def root(tree):
    sparse(f"{tree}/big.bin", BIG, {})
    write(f"{tree}/small.bin", content("small", SMALL))
    return tree


@pytest.mark.long
@pytest.mark.core
def test_cut_off_reader_leaves_nothing(start, root):
    """A client reads nothing for --send-timeout: its socket is dropped with all that was queued for it."""
    server = start(root, "--send-timeout", "1s")
    with asked(server, "/big.bin") as wire:
        here = server.address[1], wire.sock.getsockname()[1]
        wait_for(lambda: (servers_end(*here) or ("", 0))[1] > 100_000, "an answer that is queued")
        wait_for(lambda: not server.stats()["open"], "cut off")
        wait_for(lambda: not servers_end(*here), "nothing is left of it")
        with pytest.raises(ConnectionResetError):
            while wire.sock.recv(1 << 20):
                pass
    stats = server.stats()
    assert stats["expired"] == 1, stats


@pytest.mark.long
@pytest.mark.core
@pytest.mark.userspace("a process that can be stopped")
def test_a_late_server_still_cuts_off(start, root):
    """The server is stopped while the second --send-timeout expires: the kernel leaves it to the server to close."""
    server = start(root, "--send-timeout", "1s")
    with asked(server, "/big.bin") as wire:
        here = server.address[1], wire.sock.getsockname()[1]
        wait_for(lambda: (servers_end(*here) or ("", 0))[1] > 100_000, "an answer that is queued")
        time.sleep(1.6)
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(0.85)  # select() and poll() wait that much longer
        server.process.send_signal(signal.SIGCONT)
        wait_for(lambda: not server.stats()["open"], "cut off")
    stats = server.stats()
    assert stats["expired"] == 1 and stats["lost"] == 0, stats


@pytest.mark.core
@pytest.mark.userspace("a time to drain that is set")
def test_cut_off_at_the_end_leaves_nothing(start, root):
    server = start(root, "--drain-timeout", "0")
    with asked(server, "/big.bin") as wire:
        here = server.address[1], wire.sock.getsockname()[1]
        wait_for(lambda: (servers_end(*here) or ("", 0))[1] > 100_000, "an answer that is queued")
        server.process.terminate()
        server.finish()
        wait_for(lambda: not servers_end(*here), "nothing is left of it")


@pytest.mark.long
@pytest.mark.core
@pytest.mark.parametrize("fields", [["Connection: close"], []], ids=["close", "idle"])
def test_whole_answer_is_not_reset(start, root, fields):
    """The server has finished the answer and closed long before the client has read it all."""
    server = start(root, "--idle-timeout", "1s")
    with asked(server, "/small.bin", fields=fields) as wire:
        wait_for(lambda: server.stats()["complete"] and not server.stats()["open"], "closed")
        assert servers_end(server.address[1], wire.sock.getsockname()[1])[1] > 0
        reply = wire.reply()
        assert reply.body == content("small", SMALL)
        wire.end()


@pytest.mark.long
def test_whole_answer_that_stays_unread_is_dropped(start, root):
    """The kernel drops it after three times --send-timeout."""
    server = start(root, "--idle-timeout", "1s", "--send-timeout", "1s")
    with asked(server, "/small.bin") as wire:
        wait_for(lambda: server.stats()["complete"] and not server.stats()["open"], "closed")
        here = server.address[1], wire.sock.getsockname()[1]
        wait_for(lambda: not servers_end(*here), "dropped by the kernel")
