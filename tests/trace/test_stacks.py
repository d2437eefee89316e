# SPDX-License-Identifier: MIT
"""--stacks: the server's call stacks, folded; those of no other process."""
import contextlib
import re
import shutil
import socket
import subprocess
import sys
import time

import pytest
from aid import DONE, FAILED, FILE, LOAD, PATIENCE, TRACE, Lies, environment, rung, trace, tracing

pytestmark = pytest.mark.usefixtures("traced")
LINE = re.compile(r"([^ ;]+(?:;[^ ;]+)*) (\d+)")
SAID = re.compile(r"^rung: (\d+) samples of the server, (\d+) lost: ", re.MULTILINE)


def load(port, *args):
    subprocess.run([LOAD, "-q", "-t", "1", *map(str, args), f"http://127.0.0.1:{port}{FILE}"], check=True, env=environment(), timeout=PATIENCE)


def folded(path):
    """Stacks as lists of names, and how often each was found."""
    lines = [LINE.fullmatch(line) for line in path.read_text().splitlines()]
    assert all(lines), path.read_text()
    stacks = [(line[1].split(";"), int(line[2])) for line in lines]
    assert len({line[1] for line in lines}) == len(lines)
    return stacks


def share(stacks, wanted):
    """The part of all samples whose names wanted() likes."""
    return sum(count for names, count in stacks if wanted(names)) / sum(count for _, count in stacks)


@contextlib.contextmanager
def sampled(port, path):
    """The stacks of what happens meanwhile, at the end."""
    found = []
    with tracing("-q", "--slowest", 0, "--stacks", path, port) as runs:
        yield found
    assert runs[0].status == DONE
    found += folded(path)
    assert sum(count for _, count in found) == int(SAID.search(runs[0].err)[1]), runs[0].err


@pytest.mark.parametrize("engine, root, serves", [
    ("epoll", "main", "epoll_run"), ("uring", "main", "uring_run"), ("naive", "main", "naive_run"), ("thread", "start_thread", "session_serve")])
def test_from_the_root_to_the_kernel(engine, root, serves, tmp_path):
    """Programs have no frame pointers: their callers are found all the same."""
    with rung(engine) as port, sampled(port, tmp_path / "folded") as stacks:
        load(port, "-c", 8, "-d", "1500ms")
    assert sum(count for _, count in stacks) > 30
    assert {names[0] for names, _ in stacks} == {"rung"}
    assert share(stacks, lambda names: root in names and serves in names) > 0.7
    assert share(stacks, lambda names: any(name.startswith("tcp_sendmsg") and name.endswith("_[k]") for name in names)) > 0.1
    for names, _ in stacks:
        kernel = [name.endswith("_[k]") or name == "[kernel]" for name in names]
        assert kernel == sorted(kernel), names  # the program, then the kernel
        assert not any("@" in name for name in names)


def test_others_are_not_sampled(tmp_path):
    with rung("epoll") as port, subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        with sampled(port, tmp_path / "folded") as stacks:
            load(port, "-n", 2000)
        busy.kill()
    assert {names[0] for names, _ in stacks} == {"rung"}
    assert not any("Py" in name for names, _ in stacks for name in names)


def test_children_that_live_for_one_connection(tmp_path):
    """Children are gone when their samples are read: the mappings of their parent are used."""
    with rung("fork") as port, sampled(port, tmp_path / "folded") as stacks:
        load(port, "-c", 4, "-d", "1500ms", "-k", "off")
    assert {names[0] for names, _ in stacks} == {"rung"}
    child = [(names, count) for names, count in stacks if "session_run" in names]
    assert sum(count for _, count in child) > 5
    assert share(child, lambda names: "main" in names and "fork_run" in names) > 0.9
    # A child that ends has no program any more.
    assert share(stacks, lambda names: "main" in names or any("exit" in name for name in names)) > 0.8


def test_a_child_that_becomes_another_program(tmp_path):
    """A listener that starts something: by its own name, with its own functions."""
    code = ("import socket, subprocess, sys\n"
            "s = socket.create_server(('127.0.0.1', 0))\nprint(s.getsockname()[1], flush=True)\nsys.stdin.readline()\n"
            "subprocess.run(['dd', 'if=/dev/zero', 'of=/dev/null', 'bs=1', 'count=400000'], stderr=subprocess.DEVNULL)\n"
            "print('done', flush=True)\nsys.stdin.readline()\n")
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())
        with sampled(port, tmp_path / "folded") as stacks:
            server.stdin.write("\n")
            server.stdin.flush()
            assert server.stdout.readline() == "done\n"
        server.stdin.close()
    dd = [(names, count) for names, count in stacks if names[0] == "dd"]
    assert sum(count for _, count in dd) > 20
    assert share(dd, lambda names: any("sys_write" in name or "sys_read" in name for name in names)) > 0.1
    assert not any("Py" in name for names, _ in dd for name in names)


def test_a_library_that_is_loaded_later(tmp_path):
    """Mappings are read again when an address is in none of them."""
    module = next((name for name in ("_bz2", "_lzma") if subprocess.run([sys.executable, "-c", f"import {name}"], check=False).returncode == 0), None)
    if not module:
        pytest.skip("this Python has no compressor with a library of its own")
    code = ("import socket, sys, time\ns = socket.create_server(('127.0.0.1', 0))\nprint(s.getsockname()[1], flush=True)\nsys.stdin.readline()\n"
            "end = time.time() + 1.2\nwhile time.time() < end: pass\n"
            f"import {module[1:]} as c\nend = time.time() + 2\ndata = bytes(range(256)) * 400\n"
            "while time.time() < end: c.compress(data)\nprint('done', flush=True)\nsys.stdin.readline()\n")
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())
        with sampled(port, tmp_path / "folded") as stacks:
            server.stdin.write("\n")
            server.stdin.flush()
            assert server.stdout.readline() == "done\n"
        server.stdin.close()
    assert share(stacks, lambda names: any("BZ2" in name or "lzma" in name for name in names)) > 0.2, stacks


def test_a_server_that_is_no_rung(tmp_path):
    """nginx as Debian builds it tells few names: its file stands for those it does not tell."""
    if not shutil.which("nginx"):
        pytest.skip("nginx is not installed")
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "hello.txt").write_text("hello\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    conf = tmp_path / "nginx.conf"
    conf.write_text(f"daemon off; pid {tmp_path}/pid; error_log stderr; worker_processes 1; user root; events {{}}\n"
                    f"http {{ access_log off; server {{ listen 127.0.0.1:{port}; root {tmp_path}/www; }} }}\n")
    with subprocess.Popen(["nginx", "-e", "stderr", "-p", str(tmp_path), "-c", str(conf)], stderr=subprocess.DEVNULL) as server:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
        with sampled(port, tmp_path / "folded") as stacks:
            subprocess.run([LOAD, "-q", "-t", "1", "-c", "4", "-d", "1s", f"http://127.0.0.1:{port}/hello.txt"], check=True,
                           env=environment(), timeout=PATIENCE)
        server.terminate()
    assert {names[0] for names, _ in stacks} == {"nginx"}
    assert share(stacks, lambda names: "main" in names or "[nginx]" in names) > 0.7
    assert share(stacks, lambda names: any(name in ("writev", "sendfile", "sendfile64") for name in names)) > 0.1


def test_a_server_that_rests(tmp_path):
    with rung("epoll") as port, sampled(port, tmp_path / "folded") as stacks:
        time.sleep(0.3)
    assert sum(count for _, count in stacks) < 10


def test_a_file_that_cannot_be_written(tmp_path):
    with Lies() as server:
        run = trace("--stacks", tmp_path / "none" / "folded", server.port)
        assert run.status == FAILED and "cannot write this file: " in run.err
        run = trace("-q", "-d", "100ms", "--stacks", "/dev/full", server.port)
    assert run.status in (DONE, FAILED)  # nothing to write, if it was never seen
    with rung("epoll") as port, subprocess.Popen([TRACE, "-q", "-d", "1s", "--stacks", "/dev/full", str(port)], stdout=subprocess.DEVNULL,
                                                 stderr=subprocess.PIPE, text=True, env=environment()) as full:
        assert "tracing port" in full.stderr.readline()
        load(port, "-d", "500ms")
        assert "the file is not whole: " in full.communicate(timeout=PATIENCE)[1]
    assert full.returncode == FAILED


def test_names_that_the_kernel_hides(tmp_path):
    """Without CAP_SYSLOG, where kptr_restrict hides them: it says so, and goes on."""
    if not shutil.which("setpriv"):
        pytest.skip("there is no setpriv")
    with rung("epoll") as port, subprocess.Popen(
            ["setpriv", "--reuid", "65534", "--clear-groups", "--inh-caps=-all,+bpf,+perfmon,+net_admin,+sys_ptrace,+dac_override",
             "--ambient-caps=-all,+bpf,+perfmon,+net_admin,+sys_ptrace,+dac_override", TRACE, "-q", "-d", "1s", "--stacks", tmp_path / "folded",
             str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        said = process.stderr.readline()
        if "names of the kernel's functions" in said:
            said += process.stderr.readline()
        if "tracing port" in said:
            load(port, "-c", 8, "-d", "700ms")
        said += process.communicate(timeout=PATIENCE)[1]
    if process.returncode != DONE:
        pytest.skip(said)
    assert "names of the kernel's functions" in said or "missing:" not in said
    stacks = folded(tmp_path / "folded")
    assert share(stacks, lambda names: "main" in names) > 0.7, stacks
