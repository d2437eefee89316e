# SPDX-License-Identifier: MIT
"""A mount below the folder hides files without an event, and is noticed nevertheless; mounts elsewhere, which are frequent on
machines with containers, cost the cache nothing."""
import os
import time

import pytest
from lib import codings, mounts
from lib.trees import write
from test_cache import ASKS, kept

pytestmark = [pytest.mark.any_engine("the cache notices mounts"),
              pytest.mark.userspace("the modules cross no mounts"),
              pytest.mark.skipif(not mounts.may(), reason="needs root and the right to mount")]
TICK_S = 0.05  # several ticks of the kernel's clock: a mount may be noticed that late
OLD, NEW = b"old\n" * 50, b"new\n" * 50
NAMES = ["plain", "a b", "back\\slash", "line\nend", "tab\tbed"]


@pytest.fixture
def name():
    return "plain"


@pytest.fixture
def root(tree, name):
    """A folder with that name, next to one that is mounted."""
    mounts.own()
    for folder in (name, "other"):
        os.mkdir(f"{tree}/{folder}")
    write(f"{tree}/{name}/sub/file.txt", OLD, mtime=1_600_000_000)
    write(f"{tree}/other/file.txt", NEW, mtime=1_600_000_000)
    return f"{tree}/{name}"


@pytest.fixture
def server(start, root):
    if reason := codings.keeps_nothing(root):
        pytest.skip(reason)
    server = start(root, "--workers", 1)
    time.sleep(2)  # young files are kept for an instant only
    for _ in range(ASKS):
        assert server.ask("/sub/file.txt").body == OLD
    assert kept(server)
    return server


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
# shows K37
def test_mounted_below(server, root):
    mounts.mount(f"{root}/../other", f"{root}/sub", flags=mounts.MS_BIND)
    time.sleep(TICK_S)
    for _ in range(ASKS):
        assert server.ask("/sub/file.txt").body == NEW
    mounts.unmount(f"{root}/sub")
    time.sleep(TICK_S)
    assert server.ask("/sub/file.txt").body == OLD


@pytest.mark.long
def test_mounted_over_a_file(server, root):
    mounts.mount(f"{root}/../other/file.txt", f"{root}/sub/file.txt", flags=mounts.MS_BIND)
    time.sleep(TICK_S)
    assert server.ask("/sub/file.txt").body == NEW
    mounts.unmount(f"{root}/sub/file.txt")


@pytest.mark.long
@pytest.mark.parametrize("place", ["other", "."])
def test_mounted_elsewhere(server, root, place):
    """A mount next to the folder, and one over its parent: its path leads elsewhere, but the same is served."""
    before, place = server.stats(), os.path.normpath(f"{root}/../{place}")
    for _ in range(3):
        mounts.mount("none", place, "tmpfs")
        try:
            time.sleep(TICK_S)
            assert server.ask("/sub/file.txt").body == OLD
        finally:
            mounts.unmount(place)
        time.sleep(TICK_S)
        assert server.ask("/sub/file.txt").body == OLD
    after = server.stats()
    assert after["cache_ends"] == before["cache_ends"] and after["cache_hits"] == before["cache_hits"] + 6, (before, after)
