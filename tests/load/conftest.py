# SPDX-License-Identifier: MIT
"""The tests of rung load: RUNG_BIN and RUNG_LOAD name the programs."""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
pytest.register_assert_rewrite("words")


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """A folder with known bytes, both to serve and to compare with."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "index.html").write_bytes(b"<p>index\n")
    (folder / "a.txt").write_bytes(b"alpha\n" * 100)
    (folder / "b b.bin").write_bytes(bytes(range(256)) * 500)
    (folder / "empty").write_bytes(b"")
    return folder
