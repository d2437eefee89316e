# SPDX-License-Identifier: MIT
"""scripts/setup with a package manager that only records its calls: nothing is installed here."""
import os
import re
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NEEDED = {"run": {"gcc", "libc6-dev", "liburing-dev", "libmnl-dev", "libdeflate-dev", "libbrotli-dev", "libzstd-dev", "libssl-dev", "libcrypt-dev",
                  "libqrencode-dev", "libnghttp2-dev", "libarchive-dev", "zlib1g-dev", "libcmark-dev", "make", "media-types", "python3"}}
NEEDED["quick"] = NEEDED["run"] | {"libcmocka-dev", "python3-pytest", "python3-pytest-xdist", "python3-pytest-timeout", "python3-h2", "openssl",
                                    "python3-cryptography"}
PROGRAMS = {
    # dpkg-query -W -f=... PACKAGE: every package whose name is a line of the file
    "dpkg-query": 'grep -qx -- "$3" "$FAKES/installed" && printf installed',
    "apt-get": 'echo "apt-get $*" >>"$FAKES/asked"',
    "id": "echo 1000",
    # sudo starts only our apt-get: no other command may touch this machine.
    "sudo": 'while [ "$1" = env ] || [ "${1#*=}" != "$1" ]; do shift; done\n[ "$1" != apt-get ] || "$@"',
}


@pytest.fixture
def setup(tmp_path):
    """Runs scripts/setup KIND as if these packages were installed: the list of calls of apt-get."""
    for name, text in PROGRAMS.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def run(kind, installed=()):
        (tmp_path / "installed").write_text("".join(f"{name}\n" for name in installed))
        (tmp_path / "asked").write_text("")
        done = subprocess.run([f"{TOP}/scripts/setup", kind], env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "FAKES": str(tmp_path)},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return (tmp_path / "asked").read_text().splitlines()
    return run


def packages(calls):
    """Names in the one call that installs; options and their values are left out."""
    call, = [call for call in calls if " install " in call]
    return {word for word in call.partition(" install ")[2].split() if not word.startswith("-")}


@pytest.mark.parametrize("kind", NEEDED)
def test_installs_what_is_needed_and_nothing_more(setup, kind):
    assert packages(setup(kind)) == NEEDED[kind]


@pytest.mark.parametrize("kind", NEEDED)
def test_asks_for_nothing_that_is_there(setup, kind):
    assert not setup(kind, NEEDED[kind])
    assert packages(setup(kind, NEEDED[kind] - {"make"})) == {"make"}


def test_make_quick_asks_for_quick():
    said = subprocess.run(["make", "-n", "-C", TOP, "quick"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert re.findall(r"scripts/setup (\w+)", said) == ["quick"]
