# SPDX-License-Identifier: MIT
"""Help, manual, completion and docs/load.md say the same options; the histogram agrees with HdrHistogram."""
import ctypes
import random
import subprocess
import sys

import pytest
from aid import TOP, load
from words import Words


class TestWords(Words):
    name, least, run = "load", 25, staticmethod(load)


# --- The histogram ----------------------------------------------------------------------------------------------

class Hist(ctypes.Structure):
    _fields_ = [("cell", ctypes.POINTER(ctypes.c_uint64)), ("cells", ctypes.c_uint32), ("bits", ctypes.c_uint8),
                ("full", ctypes.c_bool), ("total", ctypes.c_uint64), ("over", ctypes.c_uint64),
                ("sum", ctypes.c_uint64), ("min", ctypes.c_uint64), ("max", ctypes.c_uint64)]


class Cell(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64), ("count", ctypes.c_uint64)]


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """core/hist.c as a library."""
    path = tmp_path_factory.mktemp("hist") / "hist.so"
    subprocess.run(["gcc", "-std=c11", "-O1", "-shared", "-fPIC", "-o", str(path), f"{TOP}/core/hist.c",
                    f"{TOP}/base/failed.c"], check=True, timeout=60)
    library = ctypes.CDLL(str(path))
    library.hist_add.argtypes = [ctypes.POINTER(Hist), ctypes.c_uint64, ctypes.c_uint64]
    library.hist_quantile.argtypes = [ctypes.POINTER(Hist), ctypes.c_uint64, ctypes.c_uint64]
    library.hist_quantile.restype = ctypes.c_uint64
    library.hist_cells.argtypes = [ctypes.c_uint, ctypes.c_uint64]
    library.hist_next.restype = ctypes.c_bool
    return library


@pytest.mark.parametrize("seed", range(4))
# shows T02, U32
def test_the_same_as_hdrhistogram(core, seed):
    """The histograms have the same cells, counts and percentiles, value for value."""
    sys.path.append(f"{TOP}/build/pypi")
    hdrh = pytest.importorskip("hdrh.histogram", reason="the PyPI package hdrhistogram is not there: scripts/setup check")
    highest, digits, bits = 3_600_000_000, 3, 11
    theirs, rnd = hdrh.HdrHistogram(1, highest, digits), random.Random(seed)
    cells = core.hist_cells(bits, highest)
    memory, ours = (ctypes.c_uint64 * cells)(), Hist()
    core.hist_init(ctypes.byref(ours), bits, memory, cells)
    for _ in range(20000):
        value = min(int(rnd.lognormvariate(3 + 3 * seed, 2)) + 1, highest)
        theirs.record_value(value)
        core.hist_add(ctypes.byref(ours), value, 1)
    found, at, cell = [], ctypes.c_uint32(0), Cell()
    while core.hist_next(ctypes.byref(ours), ctypes.byref(at), ctypes.byref(cell)):
        found.append((cell.low, cell.count))
    expected = [(theirs.get_lowest_equivalent_value(item.value_iterated_to), item.count_added_in_this_iter_step)
                for item in theirs.get_recorded_iterator()]
    assert found == expected
    for thousandths in (1, 500, 750, 900, 990, 999, 1000):
        told = core.hist_quantile(ctypes.byref(ours), thousandths, 1000)
        assert told == min(theirs.get_value_at_percentile(thousandths / 10), ours.max), thousandths
    assert ours.total == theirs.get_total_count()
    assert theirs.get_lowest_equivalent_value(ours.max) == theirs.get_lowest_equivalent_value(theirs.get_max_value())
