# SPDX-License-Identifier: MIT
"""Who shares a processor with what is measured: it is busy while it is there, gone afterwards, and the kernel tells the wait."""
import os
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
