# SPDX-License-Identifier: MIT
"""Where rung listens: addresses, ports that are taken, Unix sockets; and what it runs as and serves: users, folders."""
import contextlib
import ctypes
import http.client
import json
import os
import pwd
import re
import shutil
import socket
import stat
import subprocess

import pytest

from cli import (BIN, ENGINE, EXIT_DONE, EXIT_FAILED, EXIT_LISTEN, EXIT_USAGE, PATIENCE, ROOT,
                 Running, begin, environment, run, site, as_root, unix_get)  # noqa: F401 (fixtures among them)

pytestmark = pytest.mark.userspace("a command line")


# --- Listening -----------------------------------------------------------------------------------------


@pytest.mark.core
# shows S02, U01
def test_opening_lines(begin, site):
    server = begin("-p", "0", site)
    match = re.fullmatch(r"rung: serving (\S+) at (.*)", server.opening)
    assert match.group(1) == os.path.realpath(site)
    assert len(server.ports) == 1  # both families, one number
    assert server.said(r"engine").string.startswith(f"rung: engine {ENGINE} (as asked)")
    server.said("Ctrl-C")
    assert server.get("/file.txt").body == b"content\n"
    if "[::1]" in match.group(2):
        assert server.get("/file.txt", host="::1").body == b"content\n"
    assert server.end() == EXIT_DONE
    server.said(r"stopped after [12] answers? on [12] connections?, \d+ bytes sent")


def test_the_engine_is_chosen(begin, site):
    server = begin("-p", "0", site, engine=None)
    assert re.search(r"engine \w+ \(auto: .+\)", server.said("engine").string)


# shows S01, U01
def test_serve_may_be_left_out(begin, site):
    for command in ([], ["."], ["serve"]):
        process = subprocess.Popen([BIN, *command], cwd=site, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                   env=environment({"RUNG_PORT": "0", "RUNG_ENGINE": ENGINE}))
        try:
            assert process.stderr.readline().startswith(b"rung: serving " + os.fsencode(os.path.realpath(site)))
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == EXIT_DONE
            process.stderr.close()


# shows U86
def test_loopback_unless_public(begin, site):
    def reached(server, host):
        try:
            socket.create_connection((host, server.port), PATIENCE).close()
            return True
        except ConnectionRefusedError:
            return False
    private, public = begin("-p", "0", site), begin("-p", "0", "--public", site)
    assert reached(private, "127.0.0.1") and not reached(private, "127.0.0.2")
    assert reached(public, "127.0.0.1") and reached(public, "127.0.0.2")
    assert public.get("/file.txt").status == 200
    named = begin("-p", "0", "-b", "127.0.0.2", site)
    assert reached(named, "127.0.0.2") and not reached(named, "127.0.0.1")


# shows U86
def test_port_taken(begin, site):
    first = begin("-p", "0", "-b", "127.0.0.1", site)
    out = run("serve", "-p", first.port, "-b", "127.0.0.1", site)
    assert out.returncode == EXIT_LISTEN
    match = re.search(rf"port {first.port} on 127\.0\.0\.1 is taken by (.*?); .*try --port (\d+)", out.stderr)
    assert match, out.stderr
    assert f"(pid {first.pid})" in match.group(1)
    second = begin("-p", match.group(2), "-b", "127.0.0.1", site)  # the advice is good
    assert second.port == int(match.group(2))
    assert first.get("/file.txt").status == 200


def test_again_at_once_after_it_was_killed(begin, site):
    """Operations of io_uring that are under way keep sockets open for a moment, including the listener."""
    server = begin("-p", "0", "-b", "127.0.0.1", site)
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
            client.sendall(b"GET /file")
            assert server.get("/file.txt").body == b"content\n"
            server.kill()
        server = begin("-p", server.port, "-b", "127.0.0.1", site)


def free_on_ipv4(port):
    """Whether the port is free: not even a connection that has just ended holds it."""
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def ipv6_port():
    """A socket on ::1 whose port is free on 127.0.0.1."""
    while True:
        taken = socket.socket(socket.AF_INET6)
        try:
            taken.bind(("::1", 0))
        except OSError:
            taken.close()
            pytest.skip("no IPv6 here")
        if free_on_ipv4(taken.getsockname()[1]):
            return taken
        taken.close()


def test_port_taken_on_one_family_only(begin, site):
    with ipv6_port() as taken:
        taken.listen()
        port = taken.getsockname()[1]
        out = run("serve", "-p", port, site)
        assert out.returncode == EXIT_LISTEN and f"port {port} on ::1 is taken by" in out.stderr
    assert begin("-p", port, site).ports == {port}


def test_unknown_address(site):
    out = run("serve", "-p", "0", "-b", "192.0.2.77", site)
    assert out.returncode == EXIT_LISTEN and "no such address" in out.stderr


def test_low_port_without_root(site):
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding="ascii") as file:
        if int(file.read()) <= 81:
            pytest.skip("this machine gives low ports to everyone")
    user = {"user": pwd.getpwnam("nobody").pw_uid, "extra_groups": []} if ROOT else {}
    out = run("serve", "-p", "81", "-b", "127.0.0.1", site, **user)
    assert out.returncode == EXIT_LISTEN
    assert "low ports are for root" in out.stderr and "--user" in out.stderr


def without_ipv6():
    """Called in the child: make a network of its own, with only IPv4 on loopback."""
    libc = ctypes.CDLL(None)
    if libc.unshare(0x40000000) != 0:  # CLONE_NEWNET
        os._exit(99)
    with open("/proc/sys/net/ipv6/conf/all/disable_ipv6", "w", encoding="ascii") as file:
        file.write("1")
    if os.system("ip link set lo up") != 0:
        os._exit(99)


@pytest.mark.skipif(not ROOT or not shutil.which("ip"), reason="needs root and the ip command")
def test_without_ipv6(site):
    server = Running("-p", "0", site, preexec_fn=without_ipv6)
    try:
        server.said("IPv6 is not available|serving")
    except AssertionError:
        if server.process.wait() == 99:
            pytest.skip("network namespaces are not to be had")
        raise
    try:
        assert "[::1]" not in server.ready().opening and "127.0.0.1" in server.opening
        server.said("IPv6 is not available on this machine: ::1 is left out")
        assert server.end() == EXIT_DONE
    finally:
        server.kill()
    named = Running("-p", "0", "-b", "::1", site, preexec_fn=without_ipv6)  # requested by name, so it must exist
    try:
        assert named.end(None) == EXIT_LISTEN
    finally:
        named.kill()


# --- Unix sockets --------------------------------------------------------------------------------------



def test_unix_socket(begin, site, tmp_path):
    path = f"{tmp_path}/socket"
    server = begin("-b", f"unix:{path}", "--log", "json", "--log-file", tmp_path / "log", site)
    assert server.opening.endswith(f"at unix:{path}")
    assert unix_get(path).endswith(b"\r\n\r\ncontent\n")
    out = run("serve", "-b", f"unix:{path}", site)  # a running server keeps its socket
    assert out.returncode == EXIT_LISTEN and "another server answers there" in out.stderr
    assert unix_get(path).endswith(b"content\n")
    assert server.end() == EXIT_DONE
    assert not os.path.exists(path)
    assert json.loads((tmp_path / "log").read_text().splitlines()[0])["peer"] == "unix"


# shows U27
def test_unix_socket_left_behind(begin, site, tmp_path):
    path = f"{tmp_path}/socket"
    dead = begin("-b", f"unix:{path}", "--sandbox", "off", site)  # in the sandbox, rung-sweep would remove it
    dead.kill()
    assert stat.S_ISSOCK(os.stat(path).st_mode)
    begin("-b", f"unix:{path}", site)
    assert unix_get(path).endswith(b"content\n")


def test_unix_socket_of_the_next_server(begin, site, tmp_path):
    """The name now belongs to another server: stopping the first one does not remove it."""
    path = f"{tmp_path}/socket"
    before = begin("-b", f"unix:{path}", site)
    os.unlink(path)
    after = begin("-b", f"unix:{path}", site)
    assert before.end() == EXIT_DONE
    assert unix_get(path).endswith(b"content\n")
    assert after.end() == EXIT_DONE
    assert not os.path.exists(path)


# shows U27
def test_unix_socket_is_no_place_for_a_file(site, tmp_path):
    path = tmp_path / "precious"
    path.write_text("data")
    out = run("serve", "-b", f"unix:{path}", site)
    assert out.returncode == EXIT_LISTEN and path.read_text() == "data"
    out = run("serve", "-b", f"unix:{tmp_path}/none/socket", site)
    assert out.returncode == EXIT_LISTEN and "its folder must exist" in out.stderr


def test_unix_socket_paths_have_a_limit(begin, site):
    with contextlib.ExitStack() as stack:
        folder = "/tmp/rung-unix-" + str(os.getpid())
        os.mkdir(folder)
        stack.callback(shutil.rmtree, folder)
        longest = folder + "/" + "x" * (107 - len(folder) - 1)
        out = run("serve", "-b", f"unix:{longest}x", site)
        assert out.returncode == EXIT_USAGE and "1 to 107" in out.stderr
        server = begin("-b", f"unix:{longest}", site)
        assert unix_get(longest).endswith(b"content\n")
        assert server.end() == EXIT_DONE


def test_public_counts_as_two(begin, site, tmp_path):
    sockets = [f"-bunix:{tmp_path}/{i}" for i in range(7)]
    out = run("serve", "-p", "0", "--public", *sockets, site)
    assert out.returncode == EXIT_USAGE and "at most 8" in out.stderr
    begin("-p", "0", "--public", *sockets[:6], site)
    assert unix_get(f"{tmp_path}/5").endswith(b"content\n")


@pytest.mark.any_engine("before an engine runs")
@pytest.mark.parametrize("args, scheme", [([], "http"), (["--tls", "self"], "https")])
def test_addresses_on_the_network(begin, site, args, scheme):
    """The address of an interface is a URL that a client can open: it has the protocol that is served, and is not
    link-local."""
    server = begin("-p", "0", "--public", *args, site)
    server.said("Ctrl-C")
    found = re.findall(r"on the network \(\S+\): (\w+)://(\S+)/", "\n".join(server.lines))
    if not found:
        pytest.skip("this machine has no interface but loopback")
    for protocol, address in found:
        assert protocol == scheme and not address.startswith(("127.", "[fe80")), found


def test_both_kinds_of_socket(begin, site, tmp_path):
    server = begin("-p", "0", "-b", "127.0.0.1", "-b", f"unix:{tmp_path}/socket", site)
    assert server.get("/file.txt").status == 200
    assert unix_get(f"{tmp_path}/socket").endswith(b"content\n")


# --- Users and folders ---------------------------------------------------------------------------------



@as_root
def test_user(begin, site):
    server = begin("-p", "0", "--user", "nobody", site)
    assert server.get("/file.txt").status == 200
    nobody = pwd.getpwnam("nobody")
    with open(f"/proc/{server.pid}/status", encoding="ascii") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    assert set(status["Uid"].split()) == {str(nobody.pw_uid)}
    assert set(status["Gid"].split()) == {str(nobody.pw_gid)}
    assert set(status["Groups"].split()) <= {str(nobody.pw_gid)}
    assert status["NoNewPrivs"] == "1"
    for capabilities in ("CapEff", "CapPrm", "CapAmb"):
        assert int(status[capabilities], 16) == 0
    assert server.end() == EXIT_DONE


@as_root
# shows U20
def test_user_reads_with_its_own_rights(begin, site):
    os.chmod(f"{site}/file.txt", 0o600)
    assert begin("-p", "0", site).get("/file.txt").status == 403
    assert begin("-p", "0", "--user", "root", site).get("/file.txt").status == 200
    assert begin("-p", "0", "--user", "nobody", site).get("/file.txt").status == 403
    os.chmod(site, 0o700)
    out = run("serve", "-p", "0", "--user", "nobody", site)
    assert out.returncode == EXIT_FAILED and "permission denied" in out.stderr and "nobody" in out.stderr


@as_root
# shows U20
def test_user_takes_a_low_port_along(begin, site):
    port = next((port for port in range(1023, 900, -1) if port_is_free(port)), None)
    if not port:
        pytest.skip("no low port is free")
    server = begin("-p", port, "-b", "127.0.0.1", "--user", "nobody", site)
    assert server.port == port and server.get("/file.txt").status == 200


def port_is_free(port):
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


@as_root
def test_user_needs_root(site):
    out = run("serve", "-p", "0", "--user", "daemon", site, user=pwd.getpwnam("nobody").pw_uid, extra_groups=[])
    assert out.returncode == EXIT_USAGE and "only root" in out.stderr


@as_root
def test_unreadable_folder(site):
    os.chmod(site, 0o700)
    out = run("serve", "-p", "0", site, user=pwd.getpwnam("nobody").pw_uid, extra_groups=[])
    assert out.returncode in (EXIT_USAGE, EXIT_FAILED) and "permission denied" in out.stderr


def test_folder_with_an_odd_name(begin, tree):
    odd = os.path.join(os.fsencode(tree), b"a b\n\xff'%")
    os.mkdir(odd)
    with open(odd + b"/file", "w", encoding="ascii") as file:
        file.write("odd")
    process = subprocess.Popen([BIN, b"serve", b"-e", ENGINE.encode(), b"-p", b"0", odd], stdin=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, env=environment())
    try:
        line = process.stderr.readline()
        port = int(re.search(rb"127\.0\.0\.1:(\d+)/", line).group(1))
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
            client.request("GET", "/file")
            assert client.getresponse().read() == b"odd"
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == EXIT_DONE
        process.stderr.close()


def test_folder_by_symlink(begin, site, tmp_path):
    link = tmp_path / "link"
    os.symlink(site, link)
    server = begin("-p", "0", link)
    assert f"serving {os.path.realpath(site)} at" in server.opening
    assert server.get("/file.txt").status == 200
