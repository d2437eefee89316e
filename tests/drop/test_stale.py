# SPDX-License-Identifier: MIT
"""A socket that ended between listing and dropping: the kernel's search by address then finds the listener at that port.

strace stops the program after it has asked for the second family, when the sockets of IPv4 are listed and none is
dropped.
"""
import contextlib
import os
import signal
import subprocess
import time

import aid
from aid import PATIENCE, Listener, Run, need, not_by_module, pair_of
from space import sockets

STOPPED_S = 0.3  # a traced program stops briefly at each call; this is longer


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]


def child_of(process):
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
        return next((int(word) for word in file.read().split()), None)


def await_stop(process):
    since = deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        pid = child_of(process)
        if not pid or state_of(pid) not in "Tt":
            since = time.monotonic()
        elif time.monotonic() - since > STOPPED_S:
            return pid
        time.sleep(0.01)
    raise AssertionError("the program was not stopped")


def output_after(process, pid):
    """The output of the stopped program when it goes on.  SIGCONT is repeated: strace may not have passed SIGSTOP on to it yet,
    and then the first SIGCONT does nothing."""
    end = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        try:
            return process.communicate(timeout=STOPPED_S)
        except subprocess.TimeoutExpired:
            assert time.monotonic() < end, "the program does not go on"


@contextlib.contextmanager
def traced(words):
    """strace and its program, neither of which is left behind."""
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=aid.environment(ASAN_OPTIONS="detect_leaks=0")) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                pid = child_of(process)
                process.kill()
                if pid:
                    os.kill(pid, signal.SIGKILL)


@not_by_module
def test_who_listens_survives(tmp_path):
    need("strace")
    with Listener() as listener:
        client, server = listener.connect()
        other = listener.connect()
        words = ["strace", "-o", str(tmp_path / "calls"), "-e", "trace=sendto", "-e", "inject=sendto:signal=SIGSTOP:when=2",
                 aid.DROP, "--yes", "--json", *pair_of(server).split()]
        with traced(words) as process:
            pid = await_stop(process)
            client.close()
            assert server.recv(1) == b""
            server.close()
            out, err = output_after(process, pid)
        run = Run(process.returncode, out, err)
        assert run.status == 0 and run.json["chosen"] == run.json["gone"] == 1 and run.json["dropped"] == 0, (out, err)
        assert len(sockets("listen")) == 1
        other[0].sendall(b"x")
        assert other[1].recv(1) == b"x"
        listener.connect()
