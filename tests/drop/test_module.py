# SPDX-License-Identifier: MIT
"""The file of the module rung_drop itself, without the tool: what it accepts and refuses, and which processes may use it."""
import errno
import os
import subprocess
import sys

import pytest
import space
from aid import BAD_LINES, MODULE_FILE, Listener, need, pair_of
from space import sockets

LINE_MAX, LINES_MAX = 160, 1024  # kernel/drop_pair.h; the line with its end
KO = os.environ.get("RUNG_DROP_KO")
pytestmark = pytest.mark.skipif(not os.path.exists(MODULE_FILE), reason="the module rung_drop is not loaded")


def tell(data, path=MODULE_FILE):
    """Makes one write; returns 0 or the error's number."""
    fd = os.open(path, os.O_WRONLY)
    try:
        assert os.write(fd, data if isinstance(data, bytes) else data.encode()) == len(data)
        return 0
    except OSError as error:
        return error.errno
    finally:
        os.close(fd)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
# shows E19
def test_one_line(host):
    with Listener(host) as listener:
        listener.end(10)
        chosen = sockets("time-wait")[4]
        before = sockets()
        assert tell(f"{chosen.pair}\n") == 0
        assert sockets() == [seen for seen in before if seen != chosen]
        assert tell(f"{chosen.pair}\n") == errno.ENOENT


# shows E19
def test_many_lines():
    with Listener() as four, Listener("::1") as six:
        four.end(40)
        six.end(40)
        chosen = sockets("time-wait")[10:70]
        before = sockets()
        assert tell("".join(f"{seen.pair}\n" for seen in chosen)) == 0
        assert sockets() == [seen for seen in before if seen not in chosen]


def test_some_that_are_there():
    with Listener() as listener:
        listener.end(2)
        lines = "".join(f"{seen.pair}\n" for seen in sockets("time-wait"))
        assert tell("127.9.9.9:1 127.9.9.9:2\n" + lines) == 0 and not sockets("time-wait")


# shows D30
def test_open_connections():
    with Listener() as listener:
        client, server = listener.connect()
        assert tell(pair_of(server) + "\n") == 0
        with pytest.raises(ConnectionAbortedError):
            server.recv(1)
        with pytest.raises(ConnectionResetError):
            client.recv(1)


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES)
# shows E19
def test_a_bad_line(there, line):
    wrong = line.replace("{}", there)
    for lines in ([wrong], [wrong, there], [there, wrong], [there, wrong, there]):
        assert tell("".join(f"{text}\n" for text in lines)) in (errno.EINVAL, errno.ENODEV)


@pytest.mark.parametrize("data", ["\n", "\n\n", "{}\n\n", "\n{}\n", "{}", "{}\n{}", "{}\0\n", "\0\n", "{}\n\0", "# x\n", " \n", "{}\n{}x"])
def test_what_is_no_line(there, data):
    assert tell(data.replace("{}", there)) == errno.EINVAL


@pytest.mark.parametrize("cut", [1, 2, 5, 20])
def test_a_line_that_was_cut(there, cut):
    """A last line without its end may be another pair, because a port's last digit may be missing."""
    assert tell((there + "\n")[:-cut]) == errno.EINVAL


@pytest.mark.parametrize("blanks", ["  {}", "{}  ", "\t{}\r"])
def test_blanks_do_no_harm(blanks):
    with Listener() as listener:
        listener.end(1)
        assert tell(blanks.format(sockets("time-wait")[0].pair).replace(" 127", " \t 127") + "\n") == 0


# shows D30
def test_length_of_a_line(there):
    line = "127.9.9.9:1 127.9.9.9:2"
    assert tell(line.ljust(LINE_MAX - 1) + "\n") == errno.ENOENT  # valid, and no such socket
    assert tell(line.ljust(LINE_MAX) + "\n") == errno.EINVAL
    assert tell(there + "\n" + line.ljust(LINE_MAX) + "\n") == errno.EINVAL


def test_number_of_lines(there):
    line = "127.9.9.9:1 127.9.9.9:2"
    full = (line.ljust(LINE_MAX - 1) + "\n") * LINES_MAX
    assert tell(full) == errno.ENOENT
    assert tell(full + " ") == errno.E2BIG
    assert tell((line + "\n") * LINES_MAX) == errno.ENOENT
    assert tell((line + "\n") * LINES_MAX + there + "\n") == errno.E2BIG


def test_nothing_is_nothing():
    assert tell("") == 0


def test_who_listens_is_not_found():
    with Listener() as listener:
        assert tell(f"127.0.0.1:{listener.port} 127.0.0.1:1\n") == errno.ENOENT
        assert tell(f"127.0.0.1:{listener.port} 0.0.0.0:1\n") == errno.ENOENT
        listener.connect()


def test_it_cannot_be_read():
    with pytest.raises(OSError):
        with open(MODULE_FILE, "rb", buffering=0) as file:
            file.read(1)


# --- Which processes may use it -----------------------------------------------------------------------------

# shows D30, E19
def test_each_namespace_has_its_own():
    with Listener() as here:
        here.end(1)
        pair = sockets("time-wait")[0].pair
        with space.fresh():
            assert tell(pair + "\n") == errno.ENOENT
        assert tell(pair + "\n") == 0


TELL = "import os,sys; f=os.open(sys.argv[1],os.O_WRONLY); os.write(f,sys.argv[2].encode()+b'\\n')"
# User nobody opens the file and root writes to it, as if root's messages were redirected there.
HAND_ON = ("import os,sys; a,b=os.pipe(); os.seteuid(65534); f=os.open(sys.argv[1],os.O_WRONLY); os.seteuid(0); "
           "os.write(f,sys.argv[2].encode()+b'\\n')")


def run_as(code, pair, *start):
    return subprocess.run([*start, sys.executable, "-c", code, MODULE_FILE, pair], stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, timeout=60, check=False).stderr.decode()


def test_nobody_may(there):
    need("setpriv")
    assert "PermissionError" in run_as(TELL, there, "setpriv", "--reuid=65534", "--clear-groups")


def test_who_opened_it_is_asked_too(there):
    assert "PermissionError" in run_as(HAND_ON, there)


def test_the_capability_is_enough():
    need("setpriv")
    with Listener() as listener:
        listener.end(1)
        start = ["setpriv", "--reuid=65534", "--clear-groups", "--inh-caps=+net_admin", "--ambient-caps=+net_admin"]
        assert run_as(TELL, sockets("time-wait")[0].pair, *start) == ""
        assert not sockets("time-wait")


def test_root_of_another_user_namespace(there):
    """A process that is root in a user namespace of its own has no rights here."""
    need("unshare", "setpriv")
    start = ["setpriv", "--reuid=65534", "--clear-groups", "unshare", "--user", "--map-root-user"]
    if subprocess.run([*start, "true"], stderr=subprocess.DEVNULL, timeout=60, check=False).returncode:
        pytest.skip("no user namespace can be made here, as in a chroot")
    assert "PermissionError" in run_as(TELL, there, *start)


# --- Coming and going ---------------------------------------------------------------------------------------

@pytest.mark.skipif(not KO, reason="RUNG_DROP_KO does not name the module's file")
def test_it_goes_while_its_file_is_open():
    with Listener() as listener:
        listener.end(2)
        pair = sockets("time-wait")[0].pair.encode() + b"\n"
        for _ in range(5):
            fd = os.open(MODULE_FILE, os.O_WRONLY)
            subprocess.run(["rmmod", "rung_drop"], check=True, timeout=60)
            assert not os.path.exists(MODULE_FILE)
            with pytest.raises(OSError):
                os.write(fd, pair)
            os.close(fd)
            assert len(sockets("time-wait")) == 2
            subprocess.run(["insmod", KO], check=True, timeout=60)
        assert tell(pair) == 0


@pytest.mark.skipif(not KO, reason="RUNG_DROP_KO does not name the module's file")
def test_namespaces_come_and_go():
    for _ in range(20):
        with space.fresh(), Listener() as listener:
            listener.end(2)
            assert tell(sockets("time-wait")[0].pair + "\n") == 0
