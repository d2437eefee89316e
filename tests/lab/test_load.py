# SPDX-License-Identifier: MIT
"""Kind load: what is asked for is what is served, whole, and cold where it says so."""
import os

import measures
import pytest
from command import TOP
from rig import Broken

BIN = os.path.dirname(os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung"))


@pytest.fixture
def context(tmp_path):
    return measures.Context(BIN, str(tmp_path), "quick")


def test_files_that_a_full_disk_cut_short_are_never_served(context, monkeypatch):
    names = measures.names_of

    def full(count):
        yield names(count)[0]
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(measures, "names_of", full)
    with pytest.raises(OSError):
        measures.documents(context, {"files": 3})
    assert not os.listdir(context.folder)
    monkeypatch.setattr(measures, "names_of", names)
    assert len(os.listdir(measures.documents(context, {"files": 3}))) == 4


def test_cold_files_are_asked_for_once(context, monkeypatch):
    asked, generate = [], measures.generate

    def noted(context, argv, *rest):
        asked.append(argv[:2])
        return generate(context, argv, *rest)
    monkeypatch.setattr(measures, "generate", noted)
    monkeypatch.setattr(measures, "filesystem", lambda folder: "ext4")
    target, scenario = {"name": "it", "engine": "epoll"}, {"files": 7, "bytes": 100, "cold": True}
    assert measures.load(context, target, scenario, 5)["figures"]["cpu_us"] > 0
    assert asked == [["-n", "7"], ["-n", "7"]]


def test_no_file_is_cold_in_memory(tmp_path, monkeypatch):
    assert measures.filesystem("/dev/shm") in ("tmpfs", "")
    monkeypatch.setattr(measures, "filesystem", lambda folder: "tmpfs")
    with pytest.raises(Broken, match="is memory"):
        measures.forget(str(tmp_path))
