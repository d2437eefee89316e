# SPDX-License-Identifier: MIT
"""Unix sockets: their owner, their permissions, and that none stays behind, whichever user the server becomes."""
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

import pytest
from cli import as_root, run, site, unix_get  # noqa: F401 (fixtures among them)
from lib.server import ENGINE, Process, engine_row
from lib.served import wait_for

pytestmark = [pytest.mark.any_engine("listeners are opened before an engine runs"),
              pytest.mark.userspace("Unix sockets")]

KINDS = [pytest.param([], id="one worker"),
         pytest.param(["--workers", "2", "--workers-as", "process"], id="processes")]
if not engine_row()["may_block"]:
    KINDS.append(pytest.param(["--workers", "2"], id="threads"))
CAP_DAC_OVERRIDE, CAP_FOWNER = 1, 3
# Connects as another user; ends with 0 if that was allowed and answered.
CLIENT = """
import os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[3]))
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
try:
    s.connect(sys.argv[1])
except PermissionError:
    sys.exit(13)
s.sendall(b"GET /hello.txt HTTP/1.1\\r\\nHost: h\\r\\nConnection: close\\r\\n\\r\\n")
sys.exit(0 if s.recv(4096).startswith(b"HTTP/1.1 200") else 1)
"""


@pytest.fixture
def place():
    """A folder that every user can look into and only its owner can change, with a short path."""
    path = tempfile.mkdtemp(prefix="rung-s-", dir="/tmp")
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path)


def client(path, uid, gid):
    """Connect as that user: 13 if the socket's permissions refuse it, 0 if it is answered."""
    return subprocess.run([sys.executable, "-c", CLIENT, path, str(gid), str(uid)], timeout=100).returncode


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@as_root
@pytest.mark.parametrize("kind", KINDS)
def test_of_a_user(start, standard, place, kind):
    """The socket is the user's and its group's, only they can connect, and it is removed from a folder of root's."""
    path, nobody, other = f"{place}/socket", pwd.getpwnam("nobody"), pwd.getpwnam("daemon")
    server = start(standard, "--bind", f"unix:{path}", "--user", "nobody", *kind)
    found = os.lstat(path)
    assert (found.st_uid, found.st_gid, mode(path)) == (nobody.pw_uid, nobody.pw_gid, 0o660)
    assert client(path, nobody.pw_uid, other.pw_gid) == 0
    assert client(path, other.pw_uid, nobody.pw_gid) == 0
    assert client(path, other.pw_uid, other.pw_gid) == 13
    server.stop()
    assert not os.path.lexists(path)


@as_root
@pytest.mark.parametrize("given, wanted, others", [("0666", 0o666, 0), ("600", 0o600, 13), ("0777", 0o777, 0)])
# shows U27
def test_modes(start, standard, place, given, wanted, others):
    path, other = f"{place}/socket", pwd.getpwnam("daemon")
    start(standard, "--bind", f"unix:{path}", "--user", "nobody", "--socket-mode", given)
    assert mode(path) == wanted
    assert client(path, other.pw_uid, other.pw_gid) == others
    assert client(path, pwd.getpwnam("nobody").pw_uid, other.pw_gid) == 0


@pytest.mark.parametrize("options, wanted", [([], 0o660), (["--socket-mode", "666"], 0o666)])
def test_without_a_user(start, standard, place, options, wanted):
    """The socket has its mode whatever the umask is, and the umask is the same afterwards: the log shows it."""
    path, log = f"{place}/socket", f"{place}/log"
    before = os.umask(0o027)
    try:
        server = start(standard, "--bind", f"unix:{path}", "--log", "json", "--log-file", log, *options)
    finally:
        os.umask(before)
    assert mode(path) == wanted and mode(log) == 0o640
    assert unix_get(path, "/hello.txt").endswith(b"Hello, world\n")
    server.stop()
    assert not os.path.lexists(path)


@pytest.mark.parametrize("text", ["", "66", "0660x", "668", "00660", "-660", "0460", "1660", "rw"])
def test_no_modes(site, text):
    out = run("serve", "--port", "0", "--socket-mode", text, site)
    assert out.returncode == 2 and "--socket-mode" in out.stderr


@as_root
def test_killed(standard, place):
    """Even after SIGKILL the socket is removed: a process that may do so notices the end of all others."""
    path = f"{place}/socket"
    server = Process(standard, "--bind", f"unix:{path}", "--user", "nobody")
    assert os.path.lexists(path)
    for pid in server.pids():
        os.kill(pid, signal.SIGKILL)
    server.process.wait(60)
    wait_for(lambda: not os.path.lexists(path), "the name is removed")


@as_root
def test_the_next_one_keeps_its_name(start, standard, place):
    """A successor has taken the name while the first server still ran: the first leaves it alone."""
    path = f"{place}/socket"
    first = start(standard, "--bind", f"unix:{path}", "--user", "nobody")
    os.rename(path, f"{path}.old")  # as if it were gone
    start(standard, "--bind", f"unix:{path}", "--user", "nobody")
    first.stop()
    assert unix_get(path, "/hello.txt").endswith(b"Hello, world\n")
    assert os.path.lexists(f"{path}.old")


def links(pid):
    """The targets of a process's descriptors."""
    return sorted(os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))


def sweepers(folder):
    """Processes that will remove a name in that folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm", encoding="ascii") as file:
                if file.read() == "rung-sweep\n" and folder in links(pid):
                    found.append(int(pid))
        except OSError:
            pass  # it has ended
    return found


@as_root
def test_what_stays_meanwhile(start, standard, place):
    """One process stays, with none of the server's descriptors, above all no listener, and only the rights it needs."""
    path = f"{place}/socket"
    server = start(standard, "--bind", f"unix:{path}", "--user", "nobody")
    pid, = wait_for(lambda: sweepers(place), "a process that will remove the name")
    assert [link.split(":")[0] for link in links(pid)] == [place, "pipe", "pipe"]
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        rights = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
    assert int(rights["CapEff"], 16) == int(rights["CapPrm"], 16) == 1 << CAP_DAC_OVERRIDE | 1 << CAP_FOWNER
    assert int(rights["NoNewPrivs"]) == 1
    server.stop()
    assert not os.path.lexists(path)
    wait_for(lambda: not sweepers(place), "its end")
