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
