# SPDX-License-Identifier: MIT
"""The units for systemd: that it takes them, how much they leave open, and that the server runs within what they allow."""
import os
import re
import shutil
import signal
import subprocess

import pytest
from conftest import TOP

BUILD = os.environ.get("RUNG_BUILD") or f"{TOP}/build"
EXPOSURE_MAX = 2.0  # of 10; systemd calls less than 2 OK
PATIENCE = 60
UNITS = f"{TOP}/scripts/systemd"

pytestmark = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")


@pytest.fixture
def unit(tmp_path):
    """The service as it is installed, with a program that is there."""
    for name in ("rung.service", "rung.socket"):
        with open(f"{UNITS}/{name}", encoding="utf-8") as file:
            (tmp_path / name).write_text(file.read().replace("@bindir@/rung", f"{os.path.abspath(BUILD)}/debug/rung")
                                     .replace("@user@", "www-data"))
    return tmp_path / "rung.service"


def analyze(*args):
    done = subprocess.run(["systemd-analyze", *args], text=True, capture_output=True, timeout=PATIENCE, check=False,
                          env={**os.environ, "SYSTEMD_COLORS": "0", "LC_ALL": "C.UTF-8"})
    return done.returncode, done.stdout + done.stderr


def test_systemd_takes_it(unit):
    status, said = analyze("verify", "--man=no", str(unit), str(unit.with_suffix(".socket")))
    ours = [line for line in said.splitlines() if "rung" in line]
    assert status == 0 and not ours, said


# shows U19
def test_what_it_leaves_open(unit):
    status, said = analyze("security", "--offline=true", "--no-pager", str(unit))
    found = re.search(r"Overall exposure level for rung\.service: ([0-9.]+)", said)
    assert status == 0 and found and float(found[1]) <= EXPOSURE_MAX, said


def allowed(unit):
    """The names of system calls that the unit allows."""
    def members(name):
        found = set()
        for line in analyze("syscall-filter", name)[1].splitlines()[1:]:
            word = line.strip()
            if word.startswith("@"):
                found |= members(word)
            elif word and not word.startswith("#"):
                found.add(word)
        return found
    names = set()
    for value in re.findall(r"^SystemCallFilter=(.*)$", unit.read_text(), re.MULTILINE):
        for word in value.lstrip("~").split():
            meant = members(word) if word.startswith("@") else {word}
            names = names - meant if value.startswith("~") else names | meant
    assert {"read", "openat2"} <= names and "mount" not in names  # the groups were understood
    return names


def test_nothing_takes_openat2_away(unit):
    """The filter of system calls does not show it: systemd has another for RestrictSUIDSGID=, which DynamicUser= implies."""
    said = dict(re.findall(r"(?m)^(\w+)=(.*)$", unit.read_text()))
    assert said["User"] == "www-data" and not {"RestrictSUIDSGID", "DynamicUser"} & set(said)


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("engine", ["epoll", "uring", "pool", "fork"])
def test_its_calls_are_allowed(unit, tmp_path, engine):
    """From the start to the end of a server that has served a file and a listing, every call is one that the unit allows.  It has
    no capabilities, as there."""
    trace = tmp_path / "trace"
    without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    server = subprocess.Popen([*without, "strace", "-f", "-qq", "-o", trace, f"{BUILD}/debug/rung", "serve", f"{TOP}/www", "--port", "0",
                               "--engine", engine, "--workers", "2", "--workers-as", "process", "--log", "json", "--log-file",
                               tmp_path / "log"], stderr=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+", server.stderr.readline())[0]
        for path in ("/", "/?sort=size", "/none"):
            subprocess.run(["curl", "-s", "-o", os.devnull, address + path], timeout=PATIENCE, check=True)
    finally:
        with open(f"/proc/{server.pid}/task/{server.pid}/children", encoding="ascii") as file:
            os.kill(int(file.read().split()[0]), signal.SIGTERM)
        server.wait(PATIENCE)
    calls = set(re.findall(r"^\d+ +(?:<\.\.\. )?([a-z0-9_]+)(?:\(| resumed)", trace.read_text(errors="replace"), re.MULTILINE))
    assert {"openat2", "exit_group"} <= calls
    assert not calls - allowed(unit) - {"execve"}, calls - allowed(unit)
