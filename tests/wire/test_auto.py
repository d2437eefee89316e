# SPDX-License-Identifier: MIT
"""The engine that --engine auto takes: uring where it can run and the options fit, otherwise epoll; rung says why."""
import ctypes
import json
import os
import platform
import re
import resource
import signal
import struct
import subprocess
import urllib.request

import pytest
from cli import BIN, ENGINE, EXIT_DONE, EXIT_MISSING, EXIT_USAGE, PATIENCE, environment, site  # noqa: F401

pytestmark = [pytest.mark.userspace("a command line"),
              pytest.mark.skipif(ENGINE != "epoll", reason="auto is asked, not this engine: once is enough")]

IO_URING_SETUP = 425  # on every machine
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
ALLOW, REFUSE, KILL = 0x7fff0000, 0x00050001, 0x80000000  # REFUSE: EPERM
WHYS = {"uring": "the least work for a request", "epoll": "uring cannot run here, see rung engines"}


def filtered(action):
    """A function for a child to call before it becomes rung: its io_uring_setup() will end with that action."""
    code = b"".join(struct.pack("=HBBI", *line) for line in (
        (0x20, 0, 0, 0),               # load the number of the call
        (0x15, 0, 1, IO_URING_SETUP),  # if it is this one
        (0x06, 0, 0, action), (0x06, 0, 0, ALLOW)))
    libc = ctypes.CDLL(None, use_errno=True)

    def apply():
        program = ctypes.create_string_buffer(code)
        filters = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(program)))
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filters, 0, 0):
            os._exit(77)
    return apply


def asked(*args, **options):
    return subprocess.run([BIN, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True,
                          timeout=PATIENCE, check=False, **options)


def engines(**options):
    out = asked("engines", "--json", **options)
    assert out.returncode == EXIT_DONE, out
    return {row["name"]: row for row in json.loads(out.stdout)}


def chosen(rows):
    (name,) = (name for name, row in rows.items() if row["auto"])
    return name


def serves(site, *options, **how):
    """The engine that a server reports, and why, once it has sent a file."""
    process = subprocess.Popen([BIN, "-p", "0", "-b", "127.0.0.1", *options, site], stderr=subprocess.PIPE, text=True,
                               stdin=subprocess.DEVNULL, env=environment(), **how)
    try:
        port = re.search(r"serving .* at http://127\.0\.0\.1:(\d+)/", process.stderr.readline())[1]
        line = next(line for line in process.stderr if line.startswith("rung: engine "))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/file.txt", timeout=PATIENCE) as answer:
            assert answer.read() == b"content\n"
    finally:
        process.terminate()
        status = process.wait(PATIENCE)
        process.stderr.close()
    assert status == EXIT_DONE
    return re.match(r"rung: engine (\w+) \(auto: ([^)]*)\)", line).groups()


def test_the_best_that_can_run(site):
    rows = engines()
    best = "uring" if rows["uring"]["available"] else "epoll"
    assert chosen(rows) == best
    assert serves(site) == (best, WHYS[best])
    for command in ("engines", "doctor"):
        assert f"--engine auto, the default, chooses {best} here: {WHYS[best]}." in asked(command).stdout


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the filter knows the numbers of these machines")
@pytest.mark.parametrize("action, reason", [(REFUSE, "io_uring is forbidden"), (KILL, "a process that asks .* is killed")])
def test_forbidden(site, action, reason):
    """A filter like those of containers forbids io_uring: the call fails, or the process that makes it is killed."""
    forbid = filtered(action)
    rows = engines(preexec_fn=forbid)
    assert not rows["uring"]["available"] and rows["epoll"]["available"] and chosen(rows) == "epoll"
    assert serves(site, preexec_fn=forbid) == ("epoll", WHYS["epoll"])
    for command in ("engines", "doctor"):
        text = asked(command, preexec_fn=forbid).stdout
        assert f"chooses epoll here: {WHYS['epoll']}." in text
        assert re.search("(?i)uring +cannot run here: .*" + reason if command == "doctor" else "cannot run here: .*" + reason, text)
    out = asked("-e", "uring", "-p", "0", site, preexec_fn=forbid)
    assert out.returncode == EXIT_MISSING and re.search("engine uring cannot run here: .*" + reason, out.stderr)


@pytest.mark.parametrize("options", ["--send copy", "--gather off", "--tcp-cork on", "--epoll-trigger edge"])
def test_options_that_only_epoll_takes(site, options):
    if engines()["uring"]["available"]:
        assert serves(site, *options.split()) == ("epoll", "the other options are not for uring")


@pytest.mark.parametrize("options", ["--busy 1", "--workers 2 --workers-as process", "--workers 2 --accept reuseport"])
def test_options_that_both_take(site, options):
    assert serves(site, *options.split())[0] == chosen(engines())


def test_options_that_neither_takes(site):
    for options, words in (("--threads 3", "--threads is for pool and dispatch"), ("--nap 1ms", "--nap is for nonblock")):
        out = asked("-p", "0", *options.split(), site)
        assert out.returncode == EXIT_USAGE and words in out.stderr, out


def test_where_children_leave_no_status(site):
    """Some programs that start rung leave SIGCHLD ignored."""
    def ignore():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    best = chosen(engines())
    assert serves(site, preexec_fn=ignore) == (best, WHYS[best])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("workers", [1, 4])
def test_little_memory_that_may_be_locked(site, workers):
    """From Linux 6.14 on, rings count towards RLIMIT_MEMLOCK.  The limit may allow the rings of one worker but not of all,
    and the trial's memory is released only a moment later.  The server serves in any case."""
    os.chmod(site, 0o755)
    for kib in (0, 64, 100, 120, 140, 160, 200, 300, 400, 1000):
        chosen = serves(site, "--user", "nobody", "--workers", str(workers),
                        preexec_fn=lambda kib=kib: resource.setrlimit(resource.RLIMIT_MEMLOCK, (kib << 10, kib << 10)))
        assert chosen in WHYS.items()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_as_another_user(site):
    os.chmod(site, 0o755)
    assert serves(site, "--user", "nobody")[0] in ("uring", "epoll")
    out = asked("-p", "0", "--user", "nobody-at-all", site)
    assert out.returncode == EXIT_USAGE and "there is no such user" in out.stderr
