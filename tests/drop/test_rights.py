# SPDX-License-Identifier: MIT
"""The rights needed: root, CAP_NET_ADMIN, neither; and network namespaces other than the caller's."""
import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile

import aid
import pytest
import space
from aid import DONE, FAILED, MISSING, PATIENCE, THROUGH, Listener, drop, dropped, need
from space import sockets

NOBODY, SOMEBODY = 65534, 12345


@pytest.fixture
def open_program(monkeypatch):
    """Copies the program to a place where other users can start it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        shutil.copy(aid.DROP, folder)
        os.chmod(f"{folder}/rung-drop", 0o755)
        monkeypatch.setattr(aid, "DROP", f"{folder}/rung-drop")
        yield


def user(number, *capabilities):
    need("setpriv")
    sets = [f"--{kind}={','.join(capabilities)}" for kind in ("inh-caps", "ambient-caps")] if capabilities else []
    return ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", *sets]


@contextlib.contextmanager
def server_of(number, port):
    """A process of another user, which holds one connection and has closed one that it made as root."""
    code = ("import os,socket,sys; w=socket.create_connection(('127.0.0.1',int(sys.argv[2]))); os.setuid(int(sys.argv[1])); "
            "x=socket.create_connection(('127.0.0.1',int(sys.argv[2]))); w.close(); print('ready',flush=True); sys.stdin.read()")
    with subprocess.Popen([sys.executable, "-c", code, str(number), str(port)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.stdin.close()
            process.wait(PATIENCE)


def test_anybody_may_look(open_program):
    with Listener() as listener:
        listener.end(4)
        run = drop(start=user(NOBODY))
        assert run.status == DONE and run.out.startswith("4 sockets would be dropped; --yes does it, for root or with CAP_NET_ADMIN")


def test_nobody_may_drop(open_program):
    with Listener() as listener:
        listener.end(4)
        before = sockets()
        run = drop("--yes", "-s", "all", "--json", start=user(NOBODY))
        assert run.status == FAILED and "not permitted: dropping sockets needs root, or CAP_NET_ADMIN" in run.err
        assert run.json["dropped"] == 0 and run.json["refused"] == run.json["chosen"] == 4 and run.json["error"]
        assert sockets() == before


def test_root_without_the_capability():
    need("setpriv")
    with Listener() as listener:
        listener.end(2)
        run = drop("--yes", "-s", "all", start=["setpriv", "--bounding-set=-net_admin"])
        assert run.status == FAILED and "not permitted" in run.err and len(sockets("time-wait")) == 2


def test_a_capability_is_no_right_to_everything(open_program):
    """CAP_NET_ADMIN alone allows dropping the user's own sockets and those that no process holds."""
    with Listener() as listener:
        listener.end(4)
        with server_of(SOMEBODY, listener.port):
            ours = listener.listener.accept()[0]
            theirs = listener.listener.accept()[0]
            count = dropped("-s", "all", start=user(SOMEBODY, "+net_admin"))
            mine = {"time-wait", "established", "fin-wait-1", "fin-wait-2", "close-wait"}  # -1: not acknowledged yet
            assert {row["state"] for row in count["by_state"]} <= mine
            assert count["let_be"]["other_users"] >= 1
            left = sockets("established", "close-wait", "time-wait")
            assert not [seen for seen in left if seen.state == "time-wait"]
            assert sockets("listen")
            run = drop("-s", "all", start=user(NOBODY, "+net_admin"))
            assert "of other users (root may drop them)" in run.out
            ours.close()
            theirs.close()


# --- Namespaces ---------------------------------------------------------------------------------------------

def test_another_namespace():
    """There are three namespaces: the program in the third names the second, and the first and the third keep their sockets."""
    with Listener() as first:
        first.end(3)
        with space.fresh() as fd, Listener() as second:
            second.end(5)
            with space.fresh(), Listener() as third:
                third.end(2)
                assert dropped("--netns", f"/proc/{os.getpid()}/fd/{fd}", "-s", "time-wait")["dropped"] == 5
                assert len(sockets("time-wait")) == 2
            assert [seen.state for seen in sockets()] == ["listen"]
        assert len(sockets("time-wait")) == 3


def test_a_namespace_by_name():
    need("ip")
    name = f"rung-test-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
    if made.returncode:
        pytest.skip(f"ip netns cannot be used here: {made.stderr.decode().strip()}")
    try:
        fd = os.open(f"/run/netns/{name}", os.O_RDONLY)
        with Listener() as here:
            here.end(2)
            with space.entered(fd):
                subprocess.run(["ip", "link", "set", "lo", "up"], check=True, timeout=PATIENCE)
                with Listener() as there:
                    there.end(3)
                    pair = sockets("time-wait")[0].pair
            assert dropped("--netns", name, "--pairs", "-", text=pair.encode())["dropped"] == 1
            assert drop("--netns", name, "--json").json["chosen"] == 2
            assert drop("--netns", name, "--json").json["netns"] == name
            assert len(sockets("time-wait")) == 2
        os.close(fd)
    finally:
        subprocess.run(["ip", "netns", "del", name], timeout=PATIENCE, check=True)


@pytest.mark.parametrize("name, words", [
    ("no-such-space", "there is no network namespace 'no-such-space': ip netns list"), ("/nonexistent/x", "it does not exist"),
    ("/proc/self/ns/uts", "is no network namespace"), ("/dev/null", "is no network namespace"), ("/", "is no network namespace"),
    (".", "network namespace"), ("", "network namespace"), ("x" * 5000, "network namespace")])
def test_no_such_namespace(name, words):
    with Listener() as listener:
        listener.end(1)
        run = drop("--yes", "-s", "time-wait", f"--netns={name}")
        assert run.status != DONE and (words in run.err or "it cannot be empty" in run.err), run.err
        assert len(sockets("time-wait")) == 1


def test_a_namespace_that_one_may_not_enter(open_program):
    run = drop("--netns", "/proc/1/ns/net", start=user(NOBODY))
    assert run.status == FAILED and "cannot enter the network namespace /proc/1/ns/net" in run.err


def test_a_pipe_is_no_namespace(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    assert "is no network namespace" in drop("--netns", tmp_path / "pipe").err


# --- The two ways -------------------------------------------------------------------------------------------

@pytest.mark.skipif(os.path.exists(aid.MODULE_FILE), reason="the module is loaded here")
def test_without_the_module():
    with Listener() as listener:
        listener.end(1)
        run = drop("--yes", "-p", listener.port, "--through", "module")
        assert run.status == MISSING and run.err == "rung: the module rung_drop is not loaded: see docs/drop.md\n"
        assert len(sockets("time-wait")) == 1


@pytest.fixture(scope="module")
def lacking(tmp_path_factory):
    """The environment that makes this kernel look like one that lacks a feature (lacking.c)."""
    need("gcc")
    path = tmp_path_factory.mktemp("lacking") / "lacking.so"
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", str(path), f"{aid.TOP}/tests/drop/lacking.c"], check=True,
                   timeout=PATIENCE)
    return {"LD_PRELOAD": str(path), "ASAN_OPTIONS": "verify_asan_link_order=0"}


@pytest.mark.parametrize("through", ["auto", "diag"])
def test_a_kernel_that_drops_nothing(lacking, through):
    """If the kernel lacks SOCK_DESTROY, the module drops the sockets, if it is loaded and allowed."""
    module = os.path.exists(aid.MODULE_FILE) and through == "auto"
    with Listener() as listener:
        listener.end(3)
        before = sockets()
        run = drop("--yes", "-p", listener.port, "--json", LACKS="destroy", **{**lacking, "RUNG_DROP_THROUGH": through})
        if module:
            assert run.status == DONE and run.json["through"] == "module" and run.json["dropped"] == 3 and not sockets("time-wait")
        else:
            assert run.status == MISSING and run.json["refused"] == 3 and sockets() == before
            assert "this kernel drops no sockets, because it was built without CONFIG_INET_DIAG_DESTROY" in run.err
            assert ("the module rung_drop is not loaded" in run.err) == (through == "auto")


def test_a_kernel_that_lists_nothing(lacking):
    with Listener() as listener:
        listener.end(1)
        for args in ([], ["--yes", "-p", listener.port]):
            run = drop(*args, LACKS="list", **lacking)
            assert run.status == MISSING and "this kernel does not list its TCP sockets" in run.err and not run.out
        assert len(sockets("time-wait")) == 1


def test_by_itself_it_finds_a_way():
    with Listener() as listener:
        listener.end(1)
        run = drop("--yes", "-p", listener.port, "--json", RUNG_DROP_THROUGH="")
        assert run.json["dropped"] == 1 and run.json["through"] in ("diag", THROUGH)
