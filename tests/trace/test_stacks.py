# SPDX-License-Identifier: MIT
"""--stacks: the server's call stacks, folded; those of no other process."""
import contextlib
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import time

import pytest
from aid import DONE, FAILED, FILE, LOAD, PATIENCE, RUNG, TRACE, Lies, environment, rung, trace, tracing

pytestmark = pytest.mark.usefixtures("traced")
LINE = re.compile(r"([^ ;]+(?:;[^ ;]+)*) (\d+)")
SAID = re.compile(r"^rung: (\d+) samples of the server in .+; (\d+) records were lost, the server's or others'$", re.MULTILINE)


def load(port, *args):
    subprocess.run([LOAD, "-q", "-t", "1", *map(str, args), f"http://127.0.0.1:{port}{FILE}"], check=True, env=environment(), timeout=PATIENCE)


@contextlib.contextmanager
def running(*command, **options):
    """A process that runs during the block and ends with it, also if the test fails."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.terminate()


def folded(path):
    """The stacks of a file as lists of names, and how often each was found."""
    lines = [LINE.fullmatch(line) for line in path.read_text().splitlines()]
    assert all(lines), path.read_text()
    stacks = [(line[1].split(";"), int(line[2])) for line in lines]
    assert len({line[1] for line in lines}) == len(lines)
    return stacks


def share(stacks, wanted):
    """The share of all samples for whose names wanted() is true."""
    return sum(count for names, count in stacks if wanted(names)) / sum(count for _, count in stacks)


@contextlib.contextmanager
def sampled(port, path):
    """Samples during the block; the list holds the stacks afterwards."""
    found = []
    with tracing("-q", "--slowest", 0, "--stacks", path, port) as runs:
        yield found
    assert runs[0].status == DONE
    found += folded(path)
    assert sum(count for _, count in found) == int(SAID.search(runs[0].err)[1]), runs[0].err


def sampled_python(code, path):
    """The stacks of a listening Python process that runs this code."""
    code = ("import socket, subprocess, sys, time\ns = socket.create_server(('127.0.0.1', 0))\n"
            "print(s.getsockname()[1], flush=True)\nsys.stdin.readline()\n" + code + "print('done', flush=True)\nsys.stdin.readline()\n")
    with running(sys.executable, "-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())
        with sampled(port, path) as stacks:
            server.stdin.write("\n")
            server.stdin.flush()
            assert server.stdout.readline() == "done\n"
        server.stdin.close()
    return stacks


@pytest.mark.parametrize("engine, root, serves", [
    ("epoll", "main", "epoll_run"), ("uring", "main", "uring_run"), ("naive", "main", "naive_run"), ("thread", "start_thread", "session_serve")])
def test_from_the_root_to_the_kernel(engine, root, serves, tmp_path):
    """Programs have no frame pointers, but the callers of their functions are still found."""
    with rung(engine) as port, sampled(port, tmp_path / "folded") as stacks:
        load(port, "-c", 8, "-d", "1500ms")
    assert sum(count for _, count in stacks) > 30
    assert {names[0] for names, _ in stacks} == {"rung"}
    assert share(stacks, lambda names: root in names and serves in names) > 0.7
    assert share(stacks, lambda names: any(name.startswith("tcp_sendmsg") and name.endswith("_[k]") for name in names)) > 0.1
    for names, _ in stacks:
        kernel = [name.endswith("_[k]") or name == "[kernel]" for name in names]
        assert kernel == sorted(kernel), names  # first the program's functions, then the kernel's
        assert not any("@" in name for name in names)


def test_others_are_not_sampled(tmp_path):
    with rung("epoll") as port, running(sys.executable, "-c", "while True: pass"), sampled(port, tmp_path / "folded") as stacks:
        load(port, "-n", 2000)
    assert {names[0] for names, _ in stacks} == {"rung"}
    assert not any("Py" in name for names, _ in stacks for name in names)


def test_children_that_live_for_one_connection(tmp_path):
    """Children have ended when their samples are read, so their parent's mappings are used."""
    with rung("fork") as port, sampled(port, tmp_path / "folded") as stacks:
        load(port, "-c", 4, "-d", "1500ms", "-k", "off")
    assert {names[0] for names, _ in stacks} == {"rung"}
    child = [(names, count) for names, count in stacks if "session_run" in names]
    assert sum(count for _, count in child) > 5
    # A new child opens the file, which takes rung's deepest stack.
    assert share(child, lambda names: "main" in names and "fork_run" in names) > 0.98
    # A child that is ending has lost its program's mappings.
    assert share(stacks, lambda names: "main" in names or any("exit" in name for name in names)) > 0.8


@pytest.mark.parametrize("frame, whole", [(24 << 10, True), (40 << 10, False)])
def test_deep_stacks(frame, whole, tmp_path):
    """32 KiB of each stack are copied; frames above that have no names."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    (tmp_path / "deep.c").write_text(
        "#include <arpa/inet.h>\n#include <stdio.h>\n#include <string.h>\n#include <sys/socket.h>\n"
        "__attribute__((noinline)) void innermost(char *at) { for (;;) *(volatile char *)at += 1; }\n"
        f"__attribute__((noinline)) void spacious(void) {{ char room[{frame}]; memset(room, 0, sizeof(room)); innermost(room); }}\n"
        "int main(void) { struct sockaddr_in a = {.sin_family = AF_INET}; socklen_t size = sizeof(a); int s = socket(AF_INET, SOCK_STREAM, 0);\n"
        "a.sin_addr.s_addr = htonl(INADDR_LOOPBACK); bind(s, (void *)&a, size); listen(s, 1); getsockname(s, (void *)&a, &size);\n"
        'printf("%d\\n", ntohs(a.sin_port)); fflush(stdout); spacious(); return 0; }\n')
    subprocess.run(["gcc", "-O1", "-o", tmp_path / "deep", tmp_path / "deep.c"], check=True, timeout=PATIENCE)
    with running(tmp_path / "deep", stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())
        with sampled(port, tmp_path / "folded") as stacks:
            time.sleep(0.5)
    deep = [(names, count) for names, count in stacks if "innermost" in names]
    assert sum(count for _, count in deep) > 20
    assert share(deep, lambda names: ("main" in names) == whole) > 0.98, deep


def test_a_child_that_becomes_another_program(tmp_path):
    """A listener starts another program, whose stacks have its own name and functions."""
    stacks = sampled_python("subprocess.run(['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=1', 'count=400000'], stderr=subprocess.DEVNULL)\n",
                            tmp_path / "folded")
    dd = [(names, count) for names, count in stacks if names[0] == "dd"]
    assert sum(count for _, count in dd) > 20
    assert share(dd, lambda names: any("sys_write" in name or "sys_read" in name for name in names)) > 0.1
    assert not any("Py" in name for names, _ in dd for name in names)


def test_a_library_that_is_loaded_later(tmp_path):
    """Mappings are read again when an address is in none of them."""
    module = next((name for name in ("_bz2", "_lzma") if subprocess.run([sys.executable, "-c", f"import {name}"], check=False).returncode == 0), None)
    if not module:
        pytest.skip("this Python has no compressor with a library of its own")
    stacks = sampled_python("end = time.time() + 1.2\nwhile time.time() < end: pass\n"
                            f"import {module[1:]} as c\nend = time.time() + 2\ndata = bytes(range(256)) * 400\n"
                            "while time.time() < end: c.compress(data)\n", tmp_path / "folded")
    assert share(stacks, lambda names: any("BZ2" in name or "lzma" in name for name in names)) > 0.2, stacks


def test_a_server_that_is_no_rung(tmp_path):
    """Debian's nginx has few symbols: the file's name stands for functions without one."""
    if not shutil.which("nginx"):
        pytest.skip("nginx is not installed")
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "hello.txt").write_text("hello\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    conf = tmp_path / "nginx.conf"
    conf.write_text(f"daemon off; pid {tmp_path}/pid; error_log stderr; worker_processes 1; user root; events {{}}\n"
                    f"http {{ access_log off; server {{ listen 127.0.0.1:{port}; root {tmp_path}/www; }} }}\n")
    with running("nginx", "-e", "stderr", "-p", str(tmp_path), "-c", str(conf), stderr=subprocess.DEVNULL):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
        with sampled(port, tmp_path / "folded") as stacks:
            subprocess.run([LOAD, "-q", "-t", "1", "-c", "4", "-d", "1s", f"http://127.0.0.1:{port}/hello.txt"], check=True,
                           env=environment(), timeout=PATIENCE)
    assert {names[0] for names, _ in stacks} == {"nginx"}
    assert share(stacks, lambda names: "main" in names or "[nginx]" in names) > 0.7
    assert share(stacks, lambda names: any(name in ("writev", "sendfile", "sendfile64") for name in names)) > 0.1


def test_a_program_that_was_replaced(tmp_path):
    """The program's file is found through the process, even if its path is now another file."""
    copy = tmp_path / "rung"
    shutil.copy(RUNG, copy)
    with rung("epoll", program=(copy,)) as port:
        copy.unlink()
        copy.write_bytes(b"no program")
        with sampled(port, tmp_path / "folded") as stacks:
            load(port, "-c", 4, "-d", "700ms")
    assert share(stacks, lambda names: "main" in names and "epoll_run" in names) > 0.7, stacks


def test_a_program_in_a_container(tmp_path):
    """The path of the program's file does not exist here."""
    if not shutil.which("unshare") or subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("it takes root, unshare and a root that is a mount to make a mount that nobody else sees")
    (tmp_path / "inside").mkdir()
    script = f'mount -t tmpfs none {tmp_path}/inside && cp {RUNG} {tmp_path}/inside/rung && exec {tmp_path}/inside/rung "$@"'
    with rung("epoll", program=("unshare", "--mount", "sh", "-c", script, "sh")) as port, sampled(port, tmp_path / "folded") as stacks:
        assert not (tmp_path / "inside" / "rung").exists()
        load(port, "-c", 4, "-d", "700ms")
    assert share(stacks, lambda names: "main" in names and "epoll_run" in names) > 0.7, stacks


def test_a_server_that_rests(tmp_path):
    """Calls before and after the trace are not in the file."""
    with rung("epoll") as port, sampled(port, tmp_path / "folded") as stacks:
        time.sleep(0.3)
    assert not any("recv" in name for names, _ in stacks for name in names), stacks


def test_many_processes_of_one_program(tmp_path):
    """The program of workers that are forks of each other is read once, so no more descriptors are needed."""
    code = ("import os, socket, sys, time\ns = socket.create_server(('127.0.0.1', 0))\n"
            "for i in range(40):\n    if not os.fork():\n        end = time.time() + 60\n"
            "        while time.time() < end: time.sleep(0.0005)\n        os._exit(0)\n"
            "print(s.getsockname()[1], flush=True)\nsys.stdin.readline()\nos.killpg(0, 9)\n")
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True) as server:
        port = int(server.stdout.readline())
        command = f'ulimit -n 60; exec "{TRACE}" -q --slowest 0 -d 1s --stacks {tmp_path}/folded {port}'
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=environment(), timeout=PATIENCE, check=False)
        server.stdin.write("\n")
        server.stdin.close()
    assert done.returncode == DONE and "missing: functions of programs" not in done.stderr, done.stderr
    stacks = folded(tmp_path / "folded")
    assert sum(count for _, count in stacks) > 20 and share(stacks, lambda names: any("clock_nanosleep" in name for name in names)) > 0.1
    assert share(stacks, lambda names: len(names) > 3) > 0.7, stacks


def test_a_file_that_cannot_be_written(tmp_path):
    with Lies() as server:
        run = trace("--stacks", tmp_path / "none" / "folded", server.port)
    assert run.status == FAILED and "cannot write this file: " in run.err
    with rung("epoll") as port, subprocess.Popen([TRACE, "-q", "-d", "3s", "--stacks", "/dev/full", str(port)], stdout=subprocess.DEVNULL,
                                                 stderr=subprocess.PIPE, text=True, env=environment()) as full:
        load(port, "-d", "2500ms")
        assert "the file is not whole: " in full.communicate(timeout=PATIENCE)[1]
    assert full.returncode == FAILED


def lock_nothing():
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))


def with_rights(rights, path, port):
    """Runs a trace as a user with these capabilities; returns the status and the messages.  The user may lock no memory except
    what the kernel allows each user for such rings."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can give capabilities, by setpriv")
    keep = ",".join(["-all", *(f"+{right}" for right in rights)])
    copy = path.parent / "rung-trace"
    shutil.copy(TRACE, copy)
    if not path.exists():
        path.touch()
    os.chown(path, 65534, 65534)
    for folder in path.parents:
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    with subprocess.Popen(["setpriv", "--reuid", "65534", "--clear-groups", f"--inh-caps={keep}", f"--ambient-caps={keep}", copy, "-q",
                           "-d", "1s", "--stacks", path, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          env=environment(), preexec_fn=lock_nothing) as process:
        said = ""
        while "tracing port" not in said and (line := process.stderr.readline()):
            said += line
        load(port, "-c", 8, "-d", "700ms")
        said += process.communicate(timeout=PATIENCE)[1]
    if "no unified control groups are mounted" in said:
        pytest.skip("only root may mount them: " + said)
    return process.returncode, said


def test_the_rights_that_are_documented(tmp_path):
    """Without CAP_SYS_PTRACE and CAP_SYSLOG functions may have no names, and then the tracer says so."""
    path = tmp_path / "folded"
    with rung("epoll") as port:
        status, said = with_rights(("bpf", "perfmon", "net_admin"), path, port)
    assert status == DONE, said
    stacks = folded(path)
    assert int(SAID.search(said)[1]) == sum(count for _, count in stacks) > 10
    if "missing: functions of programs, because the server's mappings may not be read: root may, or CAP_SYS_PTRACE with " \
            "CAP_DAC_READ_SEARCH" not in said:
        assert share(stacks, lambda names: "main" in names) > 0.7, said
    if "missing: names of the kernel's functions" not in said:
        assert share(stacks, lambda names: any(name.startswith("tcp_sendmsg") for name in names)) > 0.1, said


def test_the_rights_for_names(tmp_path):
    path = tmp_path / "folded"
    with rung("epoll") as port:
        status, said = with_rights(("bpf", "perfmon", "net_admin", "sys_ptrace", "dac_read_search", "syslog"), path, port)
    assert status == DONE and "missing: functions" not in said and "missing: names" not in said, said
    assert share(folded(path), lambda names: "main" in names) > 0.7


def test_nothing_is_lost_by_a_refusal(tmp_path):
    """The file of an earlier trace stays, and no message is about samples."""
    path = tmp_path / "folded"
    path.write_text("an earlier one 1\n")
    with rung("epoll") as port:
        status, said = with_rights(("perfmon",), path, port)
    assert status == FAILED and "missing: CAP_BPF" in said and "samples" not in said, said
    assert path.read_text() == "an earlier one 1\n"
