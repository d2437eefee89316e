# SPDX-License-Identifier: MIT
"""The tests of building and installing: make runs as if no make had started these tests."""
import os
import subprocess
import sys

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT_S = 280
# Variables that a make around these tests passes on: those of its command line are in the environment, too.
GIVEN = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "WERROR", "BUILD", "MODE", "V", "KERNEL", "PREFIX", "DESTDIR")
sys.path.insert(0, os.path.join(TOP, "tests"))


@pytest.fixture
def make():
    """Runs make in a folder, without the flags of a make around it: (status, output, errors)."""
    clean = {key: value for key, value in os.environ.items() if key not in GIVEN}

    def run(*args, cwd=TOP, **env):
        done = subprocess.run(["make", *map(str, args)], cwd=cwd, env={**clean, **env}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        return done.returncode, done.stdout, done.stderr
    return run
