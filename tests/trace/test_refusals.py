# SPDX-License-Identifier: MIT
"""Refusals: a sentence says what is missing for tracing and what to do."""
import os
import subprocess

import pytest
from aid import FAILED, TRACE, USAGE, Lies, environment, trace


@pytest.mark.parametrize("args, words", [
    ((), "which port?"), (("0",), "is no port"), (("65536",), "is no port"), (("http",), "is no port"),
    (("--pid", "1", "80"), "one of them is enough"), (("--status", "40", "80"), "three digits"),
    (("--status", "4040", "80"), "three digits"), (("--sample", "3", "80"), "power of two")])
def test_usage(args, words):
    run = trace(*args)
    assert run.status == USAGE and words in run.err and not run.out


def test_nothing_listens():
    with Lies() as server:
        port = server.port
    run = trace(port)
    assert run.status == FAILED and f"nothing listens at TCP port {port}" in run.err


def test_a_process_that_is_gone():
    with subprocess.Popen(["true"]) as process:
        pid = process.pid
    run = trace("--pid", pid)
    assert run.status == FAILED and "there is no such process" in run.err


def test_a_process_that_does_not_listen():
    with subprocess.Popen(["sleep", "60"]) as process:
        run = trace("--pid", process.pid)
        process.kill()
    assert run.status == FAILED and "listens at no TCP port" in run.err


def test_a_process_with_two_ports():
    with Lies(), Lies():
        run = trace("--pid", os.getpid())
    assert run.status == FAILED and "name one instead" in run.err


@pytest.mark.usefixtures("traced")
def test_a_process_with_one_port():
    with Lies() as server:
        run = trace("-q", "-d", "10ms", "--pid", os.getpid())
    assert run.status == 0 and f"at port {server.port} in " in run.out


@pytest.mark.usefixtures("traced")
def test_an_unknown_program():
    with Lies() as server:
        run = trace("--without", "arrived", server.port)
    assert run.status == USAGE and "it is received, sent, again, waking, running, accepting or probe" in run.err


def test_without_the_rights(tmp_path):
    """A user other than root gets a message that names the rights needed."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    copy = tmp_path / "rung-trace"
    copy.write_bytes(open(TRACE, "rb").read())
    copy.chmod(0o755)
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    with Lies() as server:
        done = subprocess.run([copy, str(server.port)], user=65534, extra_groups=[], capture_output=True, text=True,
                              env=environment(), timeout=60, check=False)
    if "was built without clang" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == FAILED and "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN" in done.stderr, done.stderr


NEEDED = ("bpf", "perfmon", "net_admin")


def with_rights(names, port):
    """Runs a trace as root with these capabilities and no others."""
    if os.geteuid() != 0:
        pytest.skip("only root can give up capabilities")
    rights = ",".join(["-all", *(f"+{name}" for name in names)])
    return subprocess.run(["setpriv", f"--bounding-set={rights}", "--inh-caps=-all", TRACE, "-q", "-d", "10ms", str(port)],
                          capture_output=True, text=True, env=environment(), timeout=60, check=False)


def control_groups_are_mounted():
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        return "cgroup2" in mounts.read()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("missing", NEEDED)
# shows U40
def test_one_right_is_missing(missing):
    if missing == "net_admin" and not control_groups_are_mounted():
        pytest.skip("the control groups are mounted nowhere, which is said first")
    with Lies() as server:
        done = with_rights([name for name in NEEDED if name != missing], server.port)
    assert done.returncode == FAILED and done.stderr.rstrip().endswith(f"; missing: CAP_{missing.upper()}"), done.stderr


@pytest.mark.usefixtures("traced")
# shows U40
def test_these_rights_are_enough():
    if not control_groups_are_mounted():
        pytest.skip("the control groups are mounted nowhere, and mounting them takes more")
    with Lies() as server:
        done = with_rights(NEEDED, server.port)
    assert done.returncode == 0 and "0 requests seen" in done.stdout, done.stderr


@pytest.mark.usefixtures("traced")
def test_all_rights_are_missing():
    with Lies() as server:
        done = with_rights([], server.port)
    assert done.returncode == FAILED and done.stderr.rstrip().endswith("; missing: CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN"), done.stderr
