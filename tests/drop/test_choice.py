# SPDX-License-Identifier: MIT
"""Which sockets are dropped, by pair, port, peer, state and family: those chosen and no others."""
import socket
import struct

import pytest
from aid import DONE, PATIENCE, Listener, drop, dropped, named, not_by_module, pair_of, until
from space import sockets

HOSTS = {"IPv4": "127.0.0.1", "IPv6": "::1"}
anywhere = pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)


@anywhere
@pytest.mark.parametrize("at", (0, 7, 19))
def test_a_pair_in_time_wait(host, at):
    with Listener(host) as listener:
        listener.end(20)
        before = sockets()
        chosen = sockets("time-wait")[at]
        assert dropped(chosen.local, chosen.peer)["dropped"] == 1
        assert sockets() == [seen for seen in before if seen != chosen]


@anywhere
def test_a_pair_that_is_open(host):
    """The process that holds the socket gets an error and the other end a reset; a second connection is not disturbed."""
    with Listener(host) as listener:
        client, server = listener.connect()
        others = listener.connect()
        assert dropped(*pair_of(server).split())["dropped"] == 1
        with pytest.raises(ConnectionAbortedError):
            server.recv(1)
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        others[0].sendall(b"x")
        assert others[1].recv(1) == b"x"


@anywhere
def test_both_ends_are_sockets_of_their_own(host):
    """On loopback the reversed pair is the other end."""
    with Listener(host) as listener:
        listener.end(1, "client")
        [seen] = sockets("time-wait")
        run = drop("--yes", seen.peer, seen.local)
        assert run.status == DONE and "1 of 1 pairs: no such socket" in run.out
        assert sockets("time-wait") == [seen]


@anywhere
def test_a_thousand_at_a_port(host):
    with Listener(host) as listener, Listener(host) as beside:
        listener.end(1000)
        beside.end(30)
        others = [seen for seen in sockets() if f":{listener.port}" not in seen.local or seen.state == "listen"]
        assert dropped("-p", listener.port)["by_state"] == [{"state": "time-wait", "count": 1000}]
        assert sockets() == others and len(others) == 32


def test_ports_and_ranges():
    with Listener() as listener:
        listener.end(50, "client")
        ports = sorted(int(seen.local.rpartition(":")[2]) for seen in sockets("time-wait"))
        low, high = ports[10], ports[19]
        assert dropped("-p", f"{low}-{high}", "--port", ports[0])["dropped"] == 11
        left = {int(seen.local.rpartition(":")[2]) for seen in sockets("time-wait")}
        assert left == set(ports[1:10] + ports[20:])


@pytest.mark.parametrize("rule, count", [
    ("127.0.0.2", 3), ("127.0.0.0/30", 6), ("127.0.0.3/32", 3), ("127.0.0.4/31", 3), ("0.0.0.0/0", 9), ("::/0", 9),
    ("10.0.0.0/8", 0), ("::1", 0), (":{port}", 0), ("127.0.0.2:{port}", 0), ("127.0.0.2:{client}", 1), (":{client}", 1),
    ("::ffff:127.0.0.2", 3), ("[::ffff:127.0.0.2]:{client}", 1)])
def test_peers(rule, count):
    with Listener() as listener:
        for last in (2, 3, 4):
            listener.end(3, source=(f"127.0.0.{last}", 0))
        client = min(seen.peer for seen in sockets("time-wait")).rpartition(":")[2]
        assert dropped("--peer", rule.format(port=listener.port, client=client))["dropped"] == count
        assert len(sockets("time-wait")) == 9 - count


@pytest.mark.parametrize("rule, count", [
    ("::1", 2), ("[::1]", 2), ("::/0", 2), ("::2/127", 0), ("::/127", 2), ("[::1]:{client}", 1), ("0.0.0.0/0", 0), ("127.0.0.1", 0)])
def test_peers_of_ipv6(rule, count):
    with Listener("::1") as listener:
        listener.end(2)
        client = sockets("time-wait")[0].peer.rpartition(":")[2]
        assert dropped("--peer", rule.format(client=client))["dropped"] == count


def test_different_options_must_all_fit():
    with Listener() as one, Listener() as other:
        one.end(3, source=("127.0.0.2", 0))
        one.end(2, source=("127.0.0.3", 0))
        other.end(4, source=("127.0.0.2", 0))
        assert dropped("-p", one.port, "--peer", "127.0.0.2")["dropped"] == 3
        assert dropped("-p", one.port, "-p", other.port, "--peer", "127.0.0.2", "--peer", "127.0.0.3")["dropped"] == 6


def test_families():
    with Listener() as four, Listener("::1") as six, Listener("::", dual=True, client="127.0.0.1") as both:
        four.end(1)
        six.end(2)
        both.end(4)  # IPv6 sockets with IPv4 addresses
        assert dropped("-6", "--state", "time-wait")["dropped"] == 2
        assert dropped("-4", "--state", "time-wait")["dropped"] == 5


def test_a_socket_of_ipv6_that_talks_ipv4():
    with Listener("::", dual=True, client="127.0.0.1") as listener:
        listener.end(5)
        client, server = listener.connect()
        chosen = sockets("time-wait")[2]
        local, peer = chosen.pair.split()
        assert dropped(local, peer)["dropped"] == 1 and len(sockets("time-wait")) == 4
        mapped = [f"[::ffff:{end.replace(':', ']:')}" for end in (named(client.getpeername()), named(client.getsockname()))]
        assert dropped(*mapped)["dropped"] == 1
        with pytest.raises(ConnectionAbortedError):
            server.recv(1)


# --- States -------------------------------------------------------------------------------------------------

def test_time_wait_unless_said():
    with Listener() as listener:
        listener.end(3)
        listener.connect()
        assert dropped("-p", listener.port)["dropped"] == 3
        assert len(sockets("established")) == 2
        assert dropped("-p", listener.port, "--state", "established")["dropped"] == 1
        assert len(sockets("established")) == 0  # the other end has received its reset


def test_half_closed():
    with Listener() as listener:
        client, server = listener.connect()
        client.shutdown(socket.SHUT_WR)
        until(lambda: {seen.state for seen in sockets()} == {"listen", "fin-wait-2", "close-wait"})
        assert dropped("--state", "fin-wait-2")["dropped"] == 1
        with pytest.raises(BrokenPipeError):
            server.send(b"x")


def test_what_no_process_holds():
    """A socket that is closed while its other end is open: the kernel keeps it as a small record, in FIN-WAIT-2."""
    with Listener() as listener:
        client, _ = listener.connect()
        client.close()
        until(lambda: sockets("fin-wait-2"))
        assert dropped("--state", "fin-wait-2")["dropped"] == 1
        assert not sockets("fin-wait-2")


def test_a_connection_that_is_not_made():
    with Listener(backlog=0) as listener, socket.socket() as late:
        early = [socket.create_connection((listener.host, listener.port), PATIENCE)]
        late.setblocking(False)
        late.connect_ex((listener.host, listener.port))
        until(lambda: "syn-sent" in {seen.state for seen in sockets()} or early.append(
            socket.create_connection((listener.host, listener.port), 0.2)))
        assert dropped("--state", "syn-sent")["dropped"] >= 1
        for wire in early:
            wire.close()


def test_every_state_but_listen():
    with Listener() as listener:
        listener.end(2)
        listener.connect()
        count = dropped("--state", "all")
        assert count["dropped"] >= 3 and count["let_be"] == {"listening": 1, "other_users": 0}
        assert [seen.state for seen in sockets()] == ["listen"]


@pytest.mark.parametrize("args", [["-p", "{port}"], ["-s", "all"], ["--peer", "0.0.0.0/0"], ["127.0.0.1:{port}", "127.0.0.1:1"],
                                  ["-s", "established", "-s", "time-wait"]])
def test_who_listens_is_let_be(args):
    with Listener() as listener:
        listener.end(2)
        dropped(*[arg.format(port=listener.port) for arg in args])
        assert len(sockets("listen")) == 1
        listener.connect()


@not_by_module
def test_who_listens_is_dropped_when_named():
    with Listener() as listener, Listener("::1") as six, Listener() as other:
        listener.end(1)
        assert dropped("-s", "listen", "-p", listener.port, "-p", six.port)["dropped"] == 2
        assert [seen.local for seen in sockets("listen")] == [f"127.0.0.1:{other.port}"]
        assert len(sockets("time-wait")) == 1


@not_by_module
def test_several_that_listen_at_one_port():
    """The kernel finds a listener at random; those that it did not find are not reported as gone."""
    wires = []
    for _ in range(4):
        wires.append(socket.socket())
        wires[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        wires[-1].bind(("127.0.0.1", wires[0].getsockname()[1]))
        wires[-1].listen()
    left = 4
    for _ in range(4):
        run = drop("--yes", "-s", "listen", "--json")
        assert run.json["dropped"] >= 1 and run.json["gone"] == 0 and run.json["refused"] == left - run.json["dropped"]
        left -= run.json["dropped"]
        assert len(sockets("listen")) == left and ("try again" in run.err) == bool(left)
        if not left:
            break
    assert left == 0


# --- Devices ------------------------------------------------------------------------------------------------

def bound(wire):
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")


def bound_door(listener):
    """Makes a connection whose server's end is bound to a device."""
    bound(listener.listener)
    return listener.connect()


@anywhere
def test_bound_to_a_device(host):
    with Listener(host) as listener:
        _, server = bound_door(listener)
        local, peer = pair_of(server).split()
        address, _, port = local.rpartition(":")
        shown = drop("--list", "-p", listener.port, "-s", "established").out.split()
        assert shown == [f"{address}%lo:{port}", peer]
        assert dropped(*shown)["dropped"] == 1
        with pytest.raises(ConnectionAbortedError):
            server.recv(1)


def test_a_device_that_is_not_named_is_any():
    with Listener() as listener:
        _, server = bound_door(listener)
        assert dropped(*pair_of(server).split())["dropped"] == 1


def test_a_device_that_is_named_is_no_other():
    with Listener() as listener:
        _, server = listener.connect()
        local, peer = pair_of(server).split()
        assert dropped(local.replace(":", "%lo:"), peer)["chosen"] == 0


# --- What ended meanwhile -----------------------------------------------------------------------------------

def test_nothing_is_there():
    run = drop("--yes", "-p", "8080")
    assert run.status == DONE and run.out.startswith("no socket fits; only those in time-wait were looked at")


def test_a_reset_leaves_nothing():
    with Listener() as listener:
        client, server = listener.connect()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.close()
        until(lambda: len(sockets()) == 1)
        assert dropped("-s", "all")["chosen"] == 0
        client.close()
