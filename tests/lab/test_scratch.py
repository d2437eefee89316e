# SPDX-License-Identifier: MIT
"""Scratch folders: those of running processes stay, those of dead processes are removed, and nothing else is."""
import os
import signal
import subprocess
import sys
import tempfile

import pytest
import scratch
from command import TOP

OWNER = f"""import sys; sys.path.insert(0, {TOP + "/lab"!r})
import scratch
with scratch.Folder("run") as folder:
    print(folder, flush=True)
    sys.stdin.read()"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def owner(place):
    return subprocess.Popen([sys.executable, "-B", "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "TMPDIR": str(place)})


def test_it_is_gone_at_its_end(place):
    with scratch.Folder("run") as folder:
        assert os.path.dirname(folder) == str(place) and os.path.isdir(folder)
        with open(f"{folder}/file", "wb"):
            pass
    assert not os.listdir(place)
    kept = scratch.Folder("run")
    kept.cleanup()
    kept.cleanup()
    assert not os.listdir(place)


def test_of_the_killed_it_goes_of_the_living_it_stays(place):
    with owner(place) as one, owner(place) as two:
        folders = [process.stdout.readline().strip() for process in (one, two)]
        with open(f"{folders[0]}/file", "wb"):
            pass
        scratch.sweep()
        assert all(map(os.path.isdir, folders))
        one.send_signal(signal.SIGKILL)
        one.wait(20)
        scratch.sweep()
        assert [os.path.isdir(folder) for folder in folders] == [False, True]
        two.stdin.close()
        assert two.wait(20) == 0 and not os.path.isdir(folders[1])


def test_nothing_else_goes(place):
    """A file, a link and folders with other names stay: they may belong to a program that holds no lock."""
    for name in ("rung-lab-abcd1234", "rung-other-x-y", "mine"):
        (place / name).mkdir()
    (place / "rung-lab-run-file").write_text("")
    (place / "rung-lab-run-link").symlink_to(place / "mine")
    before = sorted(os.listdir(place))
    scratch.sweep()
    assert sorted(os.listdir(place)) == before and (place / "mine").is_dir()


def test_a_sweep_between_making_and_locking(place, monkeypatch):
    made, real = [], tempfile.mkdtemp

    def swept(**how):
        made.append(real(**how))
        if len(made) == 1:
            scratch.sweep()
        return made[-1]
    monkeypatch.setattr(tempfile, "mkdtemp", swept)
    with scratch.Folder("run") as folder:
        assert folder == made[1] and os.path.isdir(folder) and os.listdir(place) == [os.path.basename(folder)]
