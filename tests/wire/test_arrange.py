# SPDX-License-Identifier: MIT
"""Which options fit this engine: the refused ones, with a reason and exit code 2, and their allowed neighbours."""
import os

import pytest
from cli import ENGINE, EXIT_DONE, EXIT_USAGE, begin, run, site  # noqa: F401 (fixtures among them)
from lib import server as lib

pytestmark = pytest.mark.userspace("a command line")

BLOCKS, POOL, FORKS = (lib.engine_row()[name] for name in ("may_block", "thread_pool", "forks"))
SLEEPS = lib.is_loop() and ENGINE != "nonblock"
MACHINE = os.sysconf("SC_NPROCESSORS_CONF")
PROCESSES = ["--workers", "2", "--workers-as", "process"]


def listed(wanted):
    """The engines for which that holds, as a message lists them."""
    names = [row["name"] for row in lib.engine_rows() if wanted(row)]
    return " and ".join([", ".join(names[:-1]), *names[-1:]])


def pools():
    return listed(lambda row: row["thread_pool"])


def refusals():
    """(options, words of the message)"""
    if BLOCKS and not lib.workers_may_be_threads() and not FORKS:
        yield "--workers 2", "it makes its own threads"
        yield "--workers 2 --workers-as thread", "or --workers-as process"
    if FORKS:
        yield "--workers 2", "add --workers-as process"
        yield "--workers 256 --workers-as thread", "it forks, and children belong to a process"
    if not POOL:
        yield "--threads 1", f"--threads is for {pools()}"
        for option in ("--pool-queue mutex", "--pool-queue lockfree", "--pool-queue accept", "--queue-length 1",
                       "--pool-drain one", "--pool-yield off", "--pool-balance round-robin"):
            yield option, f"--pool-yield are for {pools()}: it has no queue"
    if POOL and not BLOCKS:
        yield "--pool-queue accept", "mutex or lockfree"
    if POOL and BLOCKS:
        for option in ("--queue-length 1", "--pool-drain all", "--pool-drain one", "--pool-yield on"):
            yield "--pool-queue accept " + option, "the kernel's queue"
    if POOL:
        yield "--pool-queue lockfree --queue-length 31", "at least the number of --threads"
        yield "--pool-queue lockfree --threads 5 --queue-length 4", "at least the number of --threads"
        for queue in ("", "--pool-queue mutex ") + ("--pool-queue accept ",) * BLOCKS:
            for how in ("least-loaded", "round-robin"):
                yield f"{queue}--pool-balance {how}", "add --pool-queue lockfree"
        yield "--threads 4097", "0 to 4096"
        yield "--queue-length 65537", "0 to 65536"
    if ENGINE != "nonblock":
        yield "--nap 1ms", "--nap is for nonblock"
    else:
        yield "--nap 1001ms", "0 to 1s"
    if SLEEPS:
        yield "--busy 10001", "0 to 10000"
    else:
        yield "--busy 1", f"--busy is for {listed(lambda row: lib.is_loop(row) and row['name'] != 'nonblock')}"
    if ENGINE != "epoll":
        for trigger in ("level", "edge", "oneshot"):
            yield "--epoll-trigger " + trigger, "--epoll-trigger is for epoll"
    yield "--epoll-trigger both", "auto, level, edge, oneshot"
    if ENGINE == "uring":
        for option in ("--send copy", "--gather off", "--tcp-cork on"):
            yield option, "the kernel sends for it"
    for option in ("--tcp-nodelay off", "--defer-accept 1s", "--congestion reno"):
        yield "--bind unix:nowhere " + option, "no listener speaks TCP"
    yield "--send dma", "auto, copy, mmap, sendfile, splice"
    yield "--accept reuseport", "one worker is the same as shared"
    yield "--workers 1 --accept reuseport", "add --workers"
    yield "--workers 1 --workers-as process --accept reuseport", "add --workers"
    yield "--workers 1 --accept steered", "there is one worker: add --workers"
    yield f"--workers {MACHINE + 1} --workers-as process --accept steered", "more workers than processors"
    yield "--pin maybe", "on"
    yield "--workers 257", "0 to 256"
    yield "--workers-as thing", "thread, process"
    yield "--accept all", "shared, reuseport, steered"
    yield "--pool-queue kernel", "auto, mutex, lockfree, accept"
    yield "--pool-balance random", "auto, least-loaded, round-robin"


def allowed():
    yield "--workers 1 --accept shared --workers-as thread"
    yield "--workers 1 --workers-as process"
    yield "--workers 0"
    yield " ".join(PROCESSES)
    yield " ".join(PROCESSES) + " --accept reuseport"
    if MACHINE > 1:
        yield f"--workers {MACHINE} --workers-as process --accept steered"
    yield "--workers 1 --pin on"
    yield " ".join(PROCESSES) + " --pin on"
    if lib.workers_may_be_threads():
        yield "--workers 2"
        yield "--workers 3 --accept reuseport"
    yield "--threads 0 --queue-length 0 --pool-queue auto --pool-balance auto --pool-drain auto --pool-yield auto --nap 0 --epoll-trigger auto"  # defaults
    if POOL:
        yield "--threads 1"
        yield "--threads 4096"
        yield "--threads 2 " + " ".join(PROCESSES)
        yield "--pool-queue mutex --queue-length 1 --pool-drain all --pool-yield on"
        yield "--pool-queue mutex --queue-length 65536 --pool-drain one --pool-yield off"
        yield "--pool-queue lockfree --queue-length 32"
        yield "--pool-queue lockfree --pool-balance least-loaded"
        yield "--pool-queue lockfree --pool-balance round-robin --threads 4 --queue-length 4"
        yield "--pool-queue lockfree --threads 5 --queue-length 5 --pool-drain all"
        yield "--pool-queue lockfree --threads 1 --queue-length 1 --pool-yield on"
    if POOL and BLOCKS:
        yield "--pool-queue accept"
        yield "--pool-queue accept --threads 1"
    if ENGINE == "epoll":
        for trigger in ("level", "edge", "oneshot"):
            yield "--workers 2 --epoll-trigger " + trigger
    if ENGINE != "uring":
        for way in ("auto", "copy", "mmap", "sendfile", "splice"):
            yield f"--send {way} --gather off --tcp-cork on"
    if SLEEPS:
        yield "--busy 1"
        yield "--busy 10000"
    yield "--busy 0"
    yield "--congestion system"
    yield "--congestion reno"
    yield "--tcp-nodelay off --defer-accept 1ms --bind 127.0.0.1"
    if ENGINE == "nonblock":
        yield "--nap 1ms"
        yield "--nap 1s"


@pytest.mark.parametrize("options, words", list(refusals()), ids=lambda text: text.replace(" ", "_"))
# shows N19
def test_refused(engine, tree, options, words):  # pylint: disable=unused-argument
    out = run("serve", "-p", "0", "-e", ENGINE, *options.split(), tree)
    assert out.returncode == EXIT_USAGE, out.stderr
    assert words in out.stderr and out.stdout == ""
    assert "serving" not in out.stderr and out.stderr.count("\n") <= 2


@pytest.mark.parametrize("options", list(allowed()), ids=lambda text: text.replace(" ", "_"))
# shows N19, S19
def test_allowed(begin, site, options):
    server = begin("-p", "0", *options.split(), site)
    for _ in range(2):
        assert server.get("/file.txt").body == b"content\n"
    assert server.end() == EXIT_DONE


@pytest.mark.skipif(not SLEEPS, reason="its loop does not sleep until an event")
def test_busy_loops_sleep_too(start, tree):
    """After each request the loop looks for more without sleeping, and then it sleeps."""
    server = start(tree, "--busy", "10000")
    with server.wire() as wire:
        for _ in range(3):
            assert wire.ask().status == 200
            server.rest()


@pytest.mark.parametrize("options", ["--workers 2", "--workers-as process", "--accept reuseport", "--accept steered",
                                     "--pin on"])
def test_nothing_to_share(tree, options):
    out = run("serve", "-e", "null", *options.split(), tree)
    assert out.returncode == EXIT_USAGE and "it has no connections to share" in out.stderr
