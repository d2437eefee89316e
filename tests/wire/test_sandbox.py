# SPDX-License-Identifier: MIT
"""The calls that a worker may still make when an attacker has taken it over.

lib/inject.py makes a thread of the running server call the kernel.  Each escape is tried twice: with --sandbox off, where it
succeeds or at least gets past the door, and in the sandbox, where it is refused.
"""
import contextlib
import errno
import fcntl
import json
import os
import platform
import re
import resource
import signal
import socket
import ssl
import struct
import subprocess
import urllib.request

import pytest
from lib import inject
from lib.crowd import sanitized
from lib.inject import Victim

from cli import (EXIT_DONE, EXIT_MISSING, EXIT_USAGE, Running, as_root, begin, elf, log_lines, run, site, unix_get,  # noqa: F401
                 wait_for)

pytestmark = [pytest.mark.userspace("a process"),
              pytest.mark.skipif(sanitized() or not elf(), reason="a sanitizer or valgrind has no sandbox")]
attacked = pytest.mark.skipif(not inject.MAY, reason="needs root and x86-64")

READ, WRITE, CREATE = os.O_RDONLY, os.O_WRONLY, os.O_CREAT
AT_FDCWD = -100
UNIX = struct.pack("<H", socket.AF_UNIX) + b"/run/systemd/private\0"
NEW_USER, NEW_NET = 0x10000000, 0x40000000
PROT_RWX, ANONYMOUS = 7, 0x22
ASYNC = 0o20000  # O_ASYNC
PTRACE_TRACEME, TIOCSTI, PR_SET_DUMPABLE = 0, 0x5412, 4
REFUSED = (-errno.EPERM, -errno.EACCES)


def escapes(outside):
    """name -> (call, arguments); each gets somewhere without a sandbox."""
    inet = struct.pack("<H", socket.AF_INET) + struct.pack(">H", 9) + socket.inet_aton("127.0.0.1") + bytes(8)
    return {
        "read a secret": ("openat", AT_FDCWD, f"{outside}/secret\0".encode(), READ, 0),
        "read a secret by the older call": ("open", f"{outside}/secret\0".encode(), READ, 0),
        "read the passwords": ("openat", AT_FDCWD, b"/etc/shadow\0", READ, 0),
        "list a folder": ("openat", AT_FDCWD, f"{outside}\0".encode(), READ | os.O_DIRECTORY, 0),
        "write a file": ("openat", AT_FDCWD, f"{outside}/secret\0".encode(), WRITE, 0),
        "make a file": ("openat", AT_FDCWD, f"{outside}/new\0".encode(), WRITE | CREATE, 0o600),
        "look into memory": ("openat", AT_FDCWD, f"/proc/{os.getpid()}/environ\0".encode(), READ, 0),
        "cut a file": ("truncate", f"{outside}/secret\0".encode(), 0),
        "remove a file": ("unlink", f"{outside}/removed\0".encode()),
        "make a folder": ("mkdir", f"{outside}/folder\0".encode(), 0o700),
        "rename": ("rename", f"{outside}/secret\0".encode(), f"{outside}/renamed\0".encode()),
        "change a mode": ("chmod", f"{outside}/secret\0".encode(), 0o644),
        "change an owner": ("chown", f"{outside}/secret\0".encode(), 1, 1),
        "make a socket": ("socket", socket.AF_INET, socket.SOCK_STREAM, 0),
        "make a Unix socket": ("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0),
        "connect": ("connect", 0, inet, len(inet)),
        "bind": ("bind", 0, inet, len(inet)),
        "trace": ("ptrace", PTRACE_TRACEME, 0, 0, 0),
        "read another's memory": ("process_vm_readv", os.getpid(), 0, 0, 0, 0, 0),
        "kill": ("kill", os.getpid(), signal.SIGCONT),
        "kill a thread": ("tgkill", os.getpid(), os.getpid(), signal.SIGCONT),
        "signal by a socket": ("fcntl", 0, fcntl.F_SETOWN, os.getpid()),
        "signal by a terminal": ("fcntl", 0, fcntl.F_SETFL, ASYNC),
        "slow another process down": ("setpriority", os.PRIO_PROCESS, os.getpid(), os.getpriority(os.PRIO_PROCESS, 0)),
        "slow all of them down": ("setpriority", os.PRIO_PGRP, 0, os.getpriority(os.PRIO_PROCESS, 0)),
        "change a limit": ("prlimit64", 0, resource.RLIMIT_CORE, struct.pack("<QQ", 0, 0), 0),
        "send to an address": ("sendto", 0, b"x", 1, 0, UNIX, len(UNIX)),
        "mount": ("mount", b"none\0", b"/nowhere\0", b"tmpfs\0", 0, 0),
        "change the root": ("chroot", b"/nowhere\0"),
        "leave the network": ("unshare", NEW_NET),
        "load a module": ("init_module", 0, 0, b"\0"),
        "load a program into the kernel": ("bpf", 0, 0, 0),
        "write code": ("mmap", 0, 4096, PROT_RWX, ANONYMOUS, -1 & 0xffffffffffffffff, 0),
        "make a file of memory": ("memfd_create", b"x\0", 0),
        "type on a terminal": ("ioctl", 0, TIOCSTI, b"x"),
        "prctl": ("prctl", PR_SET_DUMPABLE, 1, 0, 0, 0),
        "become another user": ("setuid", 12345),
        "run a program": ("execve", b"/bin/true\0", 0, 0),  # the last one: it succeeds without a sandbox
    }


@pytest.fixture
def outside(tmp_path):
    for name in ("secret", "removed"):
        (tmp_path / name).write_text("secret\n")
    return tmp_path


def resting(server, children):
    """The server's processes, once each of them waits in a system call and serves no connection."""
    def look():
        with open(f"/proc/{server.pid}/task/{server.pid}/children", encoding="ascii") as file:
            pids = [server.pid, *map(int, file.read().split())]
        states = []
        for pid in pids:
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/syscall", encoding="ascii") as file:
                states.append(file.read().split()[0])
        return len(pids) == 1 + children and all(state.isdigit() for state in states) and pids
    return wait_for(look, "all processes wait")


@contextlib.contextmanager
def taken_over(server, children=0):
    """The main thread of its newest process."""
    try:
        yield Victim(resting(server, children)[-1])
    finally:
        server.process.kill()


def results(victim, outside):
    """{escape: result}"""
    assert victim.call("getpid") == victim.tid
    return {name: victim.call(call, *args) for name, (call, *args) in escapes(outside).items()}


def tried(server, outside, children=0):
    with taken_over(server, children) as victim:
        return results(victim, outside)


@attacked
@pytest.mark.core
@pytest.mark.parametrize("workers", [[], ["--workers", "2", "--workers-as", "process"]], ids=["one", "processes"])
# shows U81
def test_escapes(begin, site, outside, workers):
    log = outside.parent / "log"
    log.mkdir(exist_ok=True)
    server = begin("-p", "0", *workers, "--log", "json", "--log-file", f"{log}/access", site)
    assert server.get("/file.txt").status == 200
    found = tried(server, outside, 2 if workers else 0)
    assert not {name: result for name, result in found.items() if result not in REFUSED}
    assert sorted(os.listdir(outside)) == ["removed", "secret"]


@attacked
@pytest.mark.core
def test_escapes_with_tls(begin, site, outside, tmp_path_factory):
    """The folder with the certificate can be read, and nothing else."""
    keys = tmp_path_factory.mktemp("keys")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=a",
                    "-keyout", f"{keys}/key", "-out", f"{keys}/cert"], stderr=subprocess.DEVNULL, check=True)
    server = begin("-p", "0", "--tls", f"{keys}/cert,{keys}/key", site)
    context = ssl._create_unverified_context()  # pylint: disable=protected-access
    port = int(re.search(r"https://127\.0\.0\.1:(\d+)/", server.opening)[1])
    with urllib.request.urlopen(f"https://127.0.0.1:{port}/file.txt", context=context) as answer:
        assert answer.read() == b"content\n"
    with taken_over(server) as victim:
        found = results(victim, outside)
        assert victim.call("openat", AT_FDCWD, f"{keys}/key\0".encode(), READ, 0) >= 0
        assert victim.call("openat", AT_FDCWD, f"{keys}/key\0".encode(), WRITE, 0) == -errno.EACCES
        assert victim.call("openat", AT_FDCWD, f"{keys}\0".encode(), READ | os.O_DIRECTORY, 0) == -errno.EACCES
    assert not {name: result for name, result in found.items() if result not in REFUSED}


@attacked
@pytest.mark.core
def test_escapes_with_uploads(begin, site, outside):
    """The folder of --upload takes new files and writes; nothing there is cut or removed, and nothing gets out of it by a link."""
    os.mkdir(f"{site}/in")
    with open(f"{site}/in/old", "w", encoding="ascii") as file:
        file.write("before\n")
    server = begin("-p", "0", "--upload", "in", site)
    paths = {name: f"{site}/{name}\0".encode() for name in ("new", "file.txt", "in/new", "in/old", "in/folder", "../link")}
    with taken_over(server) as victim:
        found = results(victim, outside)
        assert victim.call("openat", AT_FDCWD, paths["in/new"], WRITE | CREATE, 0o600) >= 0
        assert victim.call("openat", AT_FDCWD, paths["in/old"], WRITE, 0) >= 0
        refused = [victim.call("openat", AT_FDCWD, paths["new"], WRITE | CREATE, 0o600), victim.call("openat", AT_FDCWD, paths["file.txt"], WRITE, 0),
                   victim.call("openat", AT_FDCWD, paths["in/old"], WRITE | os.O_TRUNC, 0), victim.call("truncate", paths["in/old"], 0),
                   victim.call("unlink", paths["in/old"]), victim.call("mkdir", paths["in/folder"], 0o700),
                   victim.call("rename", paths["in/old"], paths["in/new"])]
        assert not [result for result in refused if result not in REFUSED]
        linked = ((paths["file.txt"], paths["in/folder"]), (paths["in/old"], paths["new"]), (paths["in/old"], paths["../link"]),
                  (f"{outside}/secret\0".encode(), paths["in/folder"]))
        for old, new in linked:
            assert victim.call("linkat", AT_FDCWD, old, AT_FDCWD, new, 0) in (*REFUSED, -errno.EXDEV)
    assert not {name: result for name, result in found.items() if result not in REFUSED}
    assert sorted(os.listdir(f"{site}/in")) == ["new", "old"]


def listener_of(pid, port):
    """The descriptor of its listener at that port."""
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as file:
        inodes = {words[9] for words in map(str.split, file) if words[1] == f"0100007F:{port:04X}" and words[3] == "0A"}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        if os.readlink(f"/proc/{pid}/fd/{fd}") in {f"socket:[{inode}]" for inode in inodes}:
            return int(fd)
    raise LookupError(inodes)


@attacked
@pytest.mark.core
@pytest.mark.parametrize("sandbox", ["on", "off"])
def test_listener_becomes_no_client(begin, site, sandbox):
    """A listener that is shut down is a socket that may connect, and MSG_FASTOPEN does that while it sends."""
    server = begin("-p", "0", "--sandbox", sandbox, site)
    with socket.create_server(("127.0.0.1", 0)) as victims, taken_over(server) as victim:
        fd = listener_of(server.pid, server.port)
        port = struct.pack(">H", victims.getsockname()[1])
        address = struct.pack("<H", socket.AF_INET) + port + socket.inet_aton("127.0.0.1") + bytes(8)
        assert victim.call("shutdown", fd, socket.SHUT_RDWR) == 0
        result = victim.call("sendto", fd, b"secret", 6, socket.MSG_FASTOPEN, address, len(address))
        victims.settimeout(0.2 if sandbox == "on" else 60)
        if sandbox == "on":
            assert result == -errno.EPERM
            with pytest.raises(TimeoutError):
                victims.accept()
        else:
            victims.accept()[0].close()


@attacked
def test_escapes_without_sandbox(begin, site, outside):
    """The same attempts succeed here: so the sandbox refuses them, not the kernel alone."""
    server = begin("-p", "0", "--sandbox", "off", site)
    found = tried(server, outside)
    fails = {name for name, result in found.items() if result in REFUSED}
    assert fails <= {"trace"}, found  # it is traced already
    assert found["read a secret"] >= 0 and found["make a socket"] >= 0 and found["write code"] > 0


@attacked
@pytest.mark.parametrize("call", ["socket", "execve", "ptrace", "clone3"])
# shows U81
def test_strict_ends_the_process(begin, site, call):
    server = begin("-p", "0", "--sandbox", "strict", site)
    with taken_over(server) as victim:
        result = victim.call(call, 1, 1, 0)
        if call == "clone3":
            assert result == -errno.ENOSYS  # so that libc takes clone()
        else:
            assert result is None and victim.ended == signal.SIGSYS


def landlock():
    """The kernel's version of it; 0: none."""
    row = {row["name"]: row for row in json.loads(run("doctor", "--json").stdout)}["sandbox: files"]
    return int(row["value"].split()[1]) if row["fine"] else 0


@attacked
def test_what_stays_allowed(begin, site, outside):
    """The folder can be read, the log's folder gets new files, and nothing else."""
    server = begin("-p", "0", "--log", "json", "--log-file", f"{outside}/access", site)
    with taken_over(server) as victim:
        def opened(path, flags):
            return victim.call("openat", AT_FDCWD, f"{path}\0".encode(), flags, 0o600)
        assert opened(f"{site}/file.txt", READ) >= 0
        assert opened(f"{site}/file.txt", WRITE) == -errno.EACCES
        assert opened(f"{site}/new", WRITE | CREATE) == -errno.EACCES
        assert opened(f"{outside}/access", WRITE) >= 0
        assert opened(f"{outside}/access", READ) == -errno.EACCES
        if landlock() >= 3:
            assert opened(f"{outside}/access", WRITE | os.O_TRUNC) == -errno.EACCES
        assert opened(f"{outside}/rotated", WRITE | CREATE) >= 0
        assert opened("/proc/self/mountinfo", READ) >= 0
        assert opened("/proc/self/status", READ) == -errno.EACCES


def status(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return dict(line.rstrip("\n").split(":\t") for line in file if ":\t" in line)


@pytest.mark.core
def test_every_thread_is_in_it(begin, site):
    server = begin("-p", "0", site)
    assert server.get("/file.txt").status == 200
    kept = {"DAC_READ_SEARCH": 2, "NET_ADMIN": 12, "IPC_LOCK": 14}  # of root, at most
    for tid in os.listdir(f"/proc/{server.pid}/task"):
        try:
            one = status(f"{server.pid}/task/{tid}")
        except (FileNotFoundError, ProcessLookupError):  # a thread of a connection that has ended meanwhile
            assert tid != str(server.pid)
            continue
        assert (one["NoNewPrivs"], one["Seccomp"]) == ("1", "2"), tid
        assert int(one["CapEff"], 16) & ~sum(1 << bit for bit in kept.values()) == 0
        assert os.geteuid() == 0 or int(one["CapPrm"], 16) == 0


def test_off(begin, site):
    server = begin("-p", "0", "--sandbox", "off", site)
    one = status(server.pid)
    assert (one["NoNewPrivs"], one["Seccomp"]) == ("0", "0")
    assert server.get("/file.txt").status == 200


def test_bad_choice(site):
    assert run("--sandbox", "maybe", site).returncode == EXIT_USAGE


@pytest.mark.parametrize("choice", ["on", "strict"])
def test_log_is_reopened(begin, site, outside, choice):
    """Renamed and opened again, twice; in a folder that a link leads to."""
    os.symlink(outside, f"{outside}.link")
    try:
        log = f"{outside}.link/access"
        server = begin("-p", "0", "--sandbox", choice, "--log", "json", "--log-file", log, site)
        for turn in range(3):
            assert server.get("/file.txt").status == 200
            log_lines(log, 1)
            os.rename(log, f"{log}.{turn}")
            server.send(signal.SIGHUP)
            wait_for(lambda: server.count("log reopened") == turn + 1, "reopened")  # pylint: disable=cell-var-from-loop
        assert server.end() == EXIT_DONE
    finally:
        os.unlink(f"{outside}.link")


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGKILL]], ids=["asked", "killed"])
def test_name_of_a_unix_socket_is_removed(begin, site, tmp_path, signals):
    path = f"{tmp_path}/web.sock"
    server = begin("-b", f"unix:{path}", site, wait=False)
    server.said("rung: serving")
    assert unix_get(path).endswith(b"content\n")
    for number in signals:
        server.send(number)
    server.end(None)
    wait_for(lambda: not os.path.exists(path), "the name is removed")


def test_replaced_while_serving(begin, site):
    """The folder is renamed and another one takes its name: the one that was opened is served, as without a sandbox."""
    server = begin("-p", "0", site)
    os.rename(site, f"{site}.old")
    try:
        os.mkdir(site)
        with open(f"{site}/file.txt", "w", encoding="ascii") as file:
            file.write("other\n")
        assert server.get("/file.txt").body == b"content\n"
        with open(f"{site}.old/later.txt", "w", encoding="ascii") as file:
            file.write("later\n")
        assert server.get("/later.txt").body == b"later\n"
    finally:
        os.unlink(f"{site}/file.txt")
        os.rmdir(site)
        os.rename(f"{site}.old", site)


def test_doctor_tells():
    rows = {row["name"]: row for row in json.loads(run("doctor", "--json").stdout)}
    for name, value in (("files", r"Landlock \d+"), ("system calls", "seccomp")):
        row = rows[f"sandbox: {name}"]
        assert re.fullmatch(value if row["fine"] else "no: .+", row["value"])


# What an old kernel or a container may refuse: the numbers of calls, which the filter below answers with that error, and what
# the server says.  sched_yield: nothing.
REFUSALS = {
    "no Landlock": ([444], errno.ENOSYS, r"Landlock is refused here \(.+\), so files outside the folder are in reach"),
    "Landlock forbidden": ([444], errno.EPERM, "Landlock is refused here"),
    "Landlock full": ([446], errno.E2BIG, "Landlock is refused here"),
    "no filters": ([317], errno.ENOSYS, r"seccomp is refused here \(.+\), so all system calls are allowed"),
    "filters forbidden": ([317], errno.EPERM, "seccomp is refused here"),
    "neither": ([444, 317], errno.ENOSYS, "Landlock is refused here"),
}
if os.geteuid() == 0:
    REFUSALS["capabilities kept"] = ([126], errno.EPERM, r"giving up capabilities is refused here \(.+\), so it keeps them")
FILTER = """
import ctypes, os, struct, sys
number, numbers = int(sys.argv[1]), [int(word) for word in sys.argv[2].split(",")]
rows = [(0x20, 0, 0, 0), *((0x15, len(numbers) - at, 0, call) for at, call in enumerate(numbers)), (6, 0, 0, 0x7fff0000), (6, 0, 0, 0x50000 | number)]
code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *row) for row in rows))
prog = struct.pack("<HxxxxxxQ", len(rows), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, prog, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[3], sys.argv[3:])
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86-64")
@pytest.mark.parametrize("what", REFUSALS)
def test_what_is_refused_is_said(site, what):
    """The other layers hold, and strict does not start."""
    numbers, error, said = REFUSALS[what]
    before = ["/usr/bin/python3", "-B", "-c", FILTER, str(error), ",".join(map(str, numbers))]
    server = Running("-p", "0", site, before=before)
    try:
        server.ready()
        server.said(f"sandbox: {said}")
        assert server.get("/file.txt").status == 200
        filters = int(status(server.pid)["Seccomp_filters"]) - int(status("self")["Seccomp_filters"])
        assert filters == (1 if 317 in numbers else 2)
        assert server.end() == EXIT_DONE
    finally:
        server.kill()
    server = Running("-p", "0", "--sandbox", "strict", site, before=before)
    server.said("--sandbox strict: .* is refused here: .*; use --sandbox on or off")
    assert server.end(None) == EXIT_MISSING


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86-64")
def test_nothing_is_refused(begin, site):
    """The other side: under a filter that refuses nothing that matters, nothing is said."""
    server = begin("-p", "0", "--sandbox", "strict", site, before=["/usr/bin/python3", "-B", "-c", FILTER, "1", "169"])  # reboot
    assert not server.count("sandbox: ")


@as_root
def test_first_process_of_a_container(site):
    """As process 1 of a namespace of its own, with a /proc that has no other."""
    apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    done = subprocess.run([*apart, "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        pytest.skip(f"no process can be the first one here: {done.stderr.strip()}")
    server = Running("-p", "0", "--workers", "2", "--workers-as", "process", site, before=apart)
    try:
        server.ready()
        assert server.get("/file.txt").status == 200
        assert not server.count("sandbox: ")
        with open(f"/proc/{server.pid}/task/{server.pid}/children", encoding="ascii") as file:
            os.kill(int(file.read()), signal.SIGTERM)
        assert server.end(None) == EXIT_DONE
    finally:
        server.kill()


def test_log_to_a_pipe_by_name(begin, site):
    """What /dev/stdout leads to has no place in the file system that a rule could name."""
    server = begin("-p", "0", "--log", "json", "--log-file", "/dev/stdout", site, stdout=subprocess.PIPE)
    assert server.get("/file.txt").status == 200
    assert b"/file.txt" in server.process.stdout.readline()
    server.send(signal.SIGHUP)
    server.said("log reopened")
    assert server.end() == EXIT_DONE
    server.process.stdout.close()


def test_mounts_below_the_folder(begin, site, outside):
    """What is mounted in the folder before or after the start is read."""
    if subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs the right to mount")
    os.mkdir(f"{site}/mounted")
    os.mkfifo(f"{outside}/later")
    script = """mount -t tmpfs none "$0/mounted" && echo before >"$0/mounted/a" && mkdir "$0/later" || exit
        (read path <"$1/later" && mount -t tmpfs none "$0/later" && echo after >"$0/later/b") & shift && exec "$@\""""
    server = begin("-p", "0", site, before=["unshare", "-m", "sh", "-c", script, site, outside])
    assert server.get("/mounted/a").body == b"before\n"
    (outside / "later").write_text("now\n")
    assert wait_for(lambda: server.get("/later/b").body == b"after\n", "it is mounted")
