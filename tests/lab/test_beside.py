# SPDX-License-Identifier: MIT
"""A neighbour on the processor of the measured server is busy while it runs and gone afterwards; the kernel reports the waiting."""
import os
import subprocess
import threading
import time

import measures
import pytest
import rig


def one():
    return {min(os.sched_getaffinity(0))}


def await_that(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_neighbour_is_busy_and_then_gone():
    before = rig.children(os.getpid())
    with rig.busy(one()):
        pid, = set(rig.children(os.getpid())) - set(before)
        assert os.sched_getaffinity(pid) == one()
        await_that(lambda: rig.scheduled(pid)[0] > 50e6)
    assert set(rig.children(os.getpid())) == set(before)


def test_the_kernel_tells_who_had_to_wait():
    before = rig.children(os.getpid())
    with rig.busy(one()), rig.busy(one()):
        pids = set(rig.children(os.getpid())) - set(before)
        await_that(lambda: all(rig.scheduled(pid)[1] > 10e6 for pid in pids))


def test_neighbours_that_are_known():
    with measures.beside({}):
        pass
    with measures.beside({"beside": "busy"}):
        pass
    with pytest.raises(rig.Broken, match="only \"busy\" is known"):
        measures.beside({"beside": "lazy"})


def test_children_are_found_while_threads_end():
    def hold(started, end):
        with subprocess.Popen(["sleep", "600"]) as child:
            started.append(child.pid)
            end.wait()
            child.kill()

    for _ in range(30):
        started, end, go = [], threading.Event(), threading.Event()
        brief = [threading.Thread(target=go.wait) for _ in range(8)]
        for one in brief:
            one.start()
        holder = threading.Thread(target=hold, args=(started, end))
        holder.start()
        await_that(lambda: started)
        go.set()
        try:
            while any(one.is_alive() for one in brief):
                assert started[0] in rig.children(os.getpid())
        finally:
            end.set()
            holder.join()
