# SPDX-License-Identifier: MIT
"""kind_massif.py: valgrind's output is read correctly, a server that leaks makes no figure, and a small cell runs from
end to end.  A library that cannot be preloaded is reported."""
import contextlib
import os
import shutil
import subprocess
import threading

import kind_massif
import measures
import pytest
import rig
from command import TOP

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung")))
CLEAN = """==7== HEAP SUMMARY:
==7==     in use at exit: 0 bytes in 0 blocks
==7==   total heap usage: 1,222 allocs, 1,222 frees, 228,238 bytes allocated
==7== ERROR SUMMARY: 0 errors from 0 contexts (suppressed: 0 from 0)
"""


@pytest.fixture(name="context")
def ready(tmp_path):
    subprocess.run(["make", "--no-print-directory", f"BUILD={BUILD}", "lab-programs"], cwd=TOP, check=True,
                   stdout=subprocess.DEVNULL, timeout=100)
    return measures.Context(f"{BUILD}/release", str(tmp_path), "quick")


def test_allocations():
    assert kind_massif.memcheck_told(CLEAN) == 1222


@pytest.mark.parametrize("old, new, told", [
    ("0 bytes in 0", "12 bytes in 1", "in use at exit: 12 bytes"), ("0 errors", "3 errors", "ERROR SUMMARY: 3 errors"),
    (CLEAN, "", "it did not come to its end")])
def test_what_is_kept_or_wrong_makes_no_figure(old, new, told):
    with pytest.raises(rig.Broken) as found:
        kind_massif.memcheck_told(CLEAN.replace(old, new))
    assert told in str(found.value)


def test_the_peak():
    assert kind_massif.heap_told("mem_heap_B=5\nmem_heap_extra_B=90\nmem_heap_B=17\nmem_heap_B=3\n") == 17
    with pytest.raises(rig.Broken):
        kind_massif.heap_told("desc: none\n")


@pytest.mark.skipif(not (shutil.which("valgrind") and shutil.which("vgdb")), reason="valgrind is not installed")
@pytest.mark.parametrize("load,least,most", [("file", 0, 0.5), ("slow", 1, 50)])  # a small file is cached in memory
# shows S35
def test_a_small_cell(context, load, least, most, monkeypatch):
    monkeypatch.setattr(kind_massif, "NAMES", 20)
    monkeypatch.setattr(kind_massif, "LARGE_BYTES", 300000)
    scenario = {"name": "s", "load": load, "short": 4, "long": 12, "connections": 2}
    found = kind_massif.measure(context, {"name": "t", "engine": "epoll"}, scenario, 0)["figures"]
    assert found["bytes_peak"] >= found["bytes_end"] > 10000 and least <= found["allocations"] <= most


@contextlib.contextmanager
def swinging(place):
    """Mounts and unmounts a file system at this place all the time."""
    over = threading.Event()

    def swing():
        while not over.wait(0.02):
            subprocess.run(["mount", "-t", "tmpfs", "rung-test", place], check=True, timeout=20)
            subprocess.run(["umount", "--lazy", place], check=True, timeout=20)
    place.mkdir()
    thread = threading.Thread(target=swing)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
@pytest.mark.skipif(not kind_massif.mounts_of_its_own(), reason="a process cannot have mounts of its own here")
def test_mounts_of_other_processes_add_nothing(context, tmp_path):
    def allocations():
        return kind_massif.under_memcheck(context, {"name": "t", "engine": "epoll"}, {"load": "file", "connections": 1},
                                          kind_massif.documents(context), 12)
    alone = allocations()
    with swinging(tmp_path / "mount"):
        assert allocations() == alone


def test_what_valgrind_needs_is_missing(context):
    context.rung = "/nonexistent/rung"
    with pytest.raises(rig.Broken, match="make lab-programs"):
        kind_massif.serve(context, {"name": "t"}, context.folder)


# shows S34
def test_a_library_that_is_not_there(tmp_path):
    rig.make_folder(tmp_path)
    with pytest.raises(rig.Broken, match="libnone.so.*cannot be preloaded.*scripts/setup lab"):
        rig.Server(f"{BUILD}/release/rung", "epoll", str(tmp_path), env={"LD_PRELOAD": "libnone.so"})
