# SPDX-License-Identifier: MIT
"""The tools that watch a kernel under test: which of its messages are complaints, what is a leak, how a module gets a name and
its parameters.  Guests that boot with faults planted are tests/planted."""
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from command import TOP
from rig import Broken
from vm import guest, kernel

sys.path[:0] = [f"{TOP}/tests/kernel", f"{TOP}/tests/wire"]
import left  # noqa: E402 - found by the line above
from lib import klog, module  # noqa: E402


@pytest.mark.parametrize("level, text", [
    (4, "WARNING: CPU: 1 PID: 97 at core_check.c:15 core_failed+0x31/0x40 [rung_core]"), (4, "whatever it is"),
    (3, "BUG kmalloc-64 (Tainted: G           O      ): Poison overwritten"), (6, "BUG: scheduling while atomic: insmod"),
    (3, "rung_http: cannot serve the folder x: -ENOENT"), (3, "INFO: task rmmod:90 blocked for more than 100 seconds."),
    (4, "rung_h003: unknown parameter 'colour' ignored"), (6, "BUG: KCSAN: data-race in a [rung_core] / b [rung_core]"),
    (6, "kmemleak: 3 new suspected memory leaks"), (6, "watchdog: BUG: soft lockup - CPU#0 stuck for 26s!"),
    (6, "rcu: INFO: rcu_preempt self-detected stall on CPU"), (6, "unreferenced object 0xffff888004bf1840 (size 64):")])
def test_a_complaint(level, text):
    assert klog.complaint(level, text)


@pytest.mark.parametrize("level, text", [
    (5, "rung_h000: listening"), (6, "TCP: request_sock_TCP: Possible SYN flooding on port 8080. Sending cookies."),
    (4, "rung_core: loading out-of-tree module taints kernel."), (4, "hrtimer: interrupt took 4711 ns"),
    (5, "rung_h010: module verification failed: signature and/or required key missing - tainting kernel"),
    (6, "BUG: KCSAN: data-race in tcp_poll / tcp_rcv_established"),
    (4, "kcsan: non-strict mode configured - use CONFIG_KCSAN_STRICT=y to see all data races")])
def test_no_complaint(level, text):
    assert not klog.complaint(level, text)


@pytest.mark.parametrize("text", [
    "WARNING: CPU: 0 PID: 1 at x", "BUG kmalloc-64 (Tainted): Poison overwritten", "BUG: KASAN: slab-use-after-free in f",
    "BUG: sleeping function called from invalid context at x.c:9", "WARNING: possible circular locking dependency"])
def test_a_complaint_on_the_console(text):
    assert guest.COMPLAINT.search(text)


TRACES = """      3 planted_init+0x1a/0x1000 [planted_leak] age=1/2/3 pid=90 cpus=0
        __kmem_cache_alloc_node+0x1
        kmalloc_trace+0x2a/0xa0
      2 0xffffffffc0371011 age=4/5/6 pid=90 cpus=0-1
        kmalloc_trace+0x2a/0xa0
      7 kmemdup+0x1c/0x50 age=7 pid=1
        0xffffffffc0371022
        do_one_initcall+0x59/0x220
     11 apparmor_sk_alloc_security+0x3d/0x90 age=8 pid=1
        security_sk_alloc+0x2d/0x50
      1 ___neigh_create+0x9f/0xa00 waste=104/104 age=9 pid=90
        0xffffffffc0371033
      1 tcp_get_metrics+0x1b8/0x350 waste=48/48 age=9 pid=90
        0xffffffffc0371044
"""


def test_leaks():
    """A leak is found by the function that allocated, whose name may be gone, or by its caller where the kernel allocates for us.
    Memory that the kernel keeps for itself is left out."""
    assert [count for count, _ in left.leaked("kmalloc-64", TRACES)] == [3, 2, 7]
    assert [what for _, what in left.leaked("dentry", TRACES)] == [
        "dentry: planted_init+0x1a/0x1000 [planted_leak] [planted_leak]", "dentry: 0xffffffffc0371011 0xffffffffc0371011"]
    assert sum(count for count, _, _ in left.blocks(TRACES)) == 25
    assert left.leaked("kmalloc-64", TRACES[TRACES.index("     11"):]) == []


def test_pages():
    kept = "0xffffc90000111000-0xffffc90000113000    8192 0xffffffffc0371033 pages=1 vmalloc N0=1"
    assert left.pages(f"0xffffffffc0371000-0xffffffffc0375000   16384 load_module+0x5 pages=3 vmalloc\n{kept}\n") == [kept]


PARAMETERS = {"idle_timeout", "head_timeout", "hidden", "listing", "port", "min_progress", "bind"}


def test_options_become_parameters():
    assert module.parameters(["--idle-timeout", "1s", "--head-timeout=500ms", "--hidden", "--listing", "off", "--port", 8080,
                              "--min-progress", "1k", "--bind", "127.0.0.1", "--bind", "::1", "--drain-timeout", "1h"], PARAMETERS) == {
        "idle_timeout": 1000, "head_timeout": 500, "hidden": "on", "listing": "off", "port": "8080", "min_progress": 1024,
        "bind": "127.0.0.1,::1"}
    for only, why in ((["--workers", "2"], "its workers are the processors"), (["--engine-x=1"], "no --engine-x: only a process"),
                      (["--bind", "unix:/run/x"], "no Unix sockets")):
        with pytest.raises(pytest.skip.Exception, match=why):
            module.parameters(only, PARAMETERS)


SOURCE = """
__attribute__((section(".gnu.linkonce.this_module"))) char this_module[64] = "rung_http";
__attribute__((section(".modinfo"))) char info[] = "name=rung_http\\0depends=rung_core\\0parm=a:text, b=c:d\\0parmtype=b_c:charp";
const char *said(void) { return "rung_http: said"; }
__attribute__((section("__versions"))) char version[] = "rung_http_symbol";
"""


def test_a_module_gets_another_name(tmp_path):
    """The name is replaced where the module names itself, not where it names what it needs."""
    (tmp_path / "x.c").write_text(SOURCE)
    subprocess.run(["gcc", "-c", "-o", tmp_path / "x.o", tmp_path / "x.c"], check=True, timeout=60)
    data = (tmp_path / "x.o").read_bytes()
    other = module.renamed(data, "rung_http", "rung_h001")
    assert len(other) == len(data)
    for new in (b"name=rung_h001\0depends=rung_core", b"rung_h001: said", b"rung_http_symbol"):
        assert new in other
    assert other.count(b"rung_h001") == 3
    assert module.parameters_of(data) == {"a", "b_c"}
    several = module.names("rung_http")
    assert len({next(several) for _ in range(50)}) == 50 and re.fullmatch(r"rung_e\d{3}", next(module.names("rung_echo")))


def test_headers_of_a_kernel_that_is_built(tmp_path):
    """The headers are the tree that the kernel was built from; if it is not built, the message says how to build it."""
    with pytest.raises(Broken, match="the kernel debug-6.12 is not built: scripts/debug-kernel debug 6.12 does that"):
        kernel.headers("debug-6.12", str(tmp_path))
    os.makedirs(tmp_path / "linux-debug-6.12/lib/modules/6.12.0-rung/kernel")
    (tmp_path / "linux-debug-6.12/vmlinux").write_bytes(b"\x7fELF")
    assert kernel.headers("debug-6.12", str(tmp_path)) == str(tmp_path / "linux-debug-6.12-headers")


def test_headers_for_two_at_once(monkeypatch, tmp_path):
    """One caller fetches the headers, and none replaces them while another compiles with them."""
    downloads, together = [], threading.Barrier(2)

    def run(*argv, cwd=None):
        if argv[0] == "apt-get":
            downloads.append(argv)
            pathlib.Path(cwd, "headers.deb").touch()
        elif argv[0] == "dpkg-deb":
            tree = pathlib.Path(argv[3], "usr/src/linux-headers-6.1.0-9-amd64")
            tree.mkdir(parents=True)
            time.sleep(0.3)
            (tree / "Makefile").write_text("include /usr/src/linux-headers-6.1.0-9-common/Makefile\n")
            (tree / "Module.symvers").touch()
        return b"Depends: linux-headers-6.1.0-9-common\n"

    def use(_):
        together.wait()
        found = pathlib.Path(kernel.headers("6.1", str(tmp_path)), "Makefile").stat()
        time.sleep(0.6)
        return found == pathlib.Path(kernel.headers("6.1", str(tmp_path)), "Makefile").stat()

    monkeypatch.setattr(kernel, "run", run)
    monkeypatch.setattr(kernel, "fetch", lambda version, cache: kernel.Kernel("6.1.0-9-amd64", "", ""))
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(use, range(2))) == [True, True]
    assert len(downloads) == 1


def test_packages_of_headers(monkeypatch):
    said = ("linux-headers-6.1.0-9-amd64\n  Depends: linux-headers-6.1.0-9-common\n  Depends: linux-kbuild-6.1\n"
            "  Depends: linux-compiler-gcc-12-x86\n")
    monkeypatch.setattr(kernel, "run", lambda *argv: said.encode())
    assert kernel.header_packages("6.1.0-9-amd64") == ["linux-headers-6.1.0-9-amd64", "linux-headers-6.1.0-9-common",
                                                       "linux-kbuild-6.1"]
    monkeypatch.setattr(kernel, "run", lambda *argv: b"")
    with pytest.raises(Broken, match="no headers for 6.1.0-9-amd64: a newer kernel may have replaced it"):
        kernel.header_packages("6.1.0-9-amd64")
