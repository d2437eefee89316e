# SPDX-License-Identifier: MIT
"""The tests of the Debian packages: they are built once, from the files that git knows."""
import glob
import os
import re
import shutil
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT_S = 900
# Variables that a make around these tests passes on.
GIVEN = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "WERROR", "BUILD", "MODE", "V", "KERNEL", "PREFIX", "DESTDIR")
NAMES = ("rung", "rung-dkms", "rung-lab")


def sources(folder):
    """A copy of the sources, as a fresh checkout has them."""
    listed = subprocess.run(["git", "-C", TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], stdout=subprocess.PIPE,
                            check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if os.path.lexists(f"{TOP}/{name}"):
            os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
            shutil.copy2(f"{TOP}/{name}", f"{folder}/{name}", follow_symlinks=False)
    return folder


def packages(place):
    """The packages, their .changes and the sources, built in that folder.  The unit tests have a layer of their own."""
    env = {key: value for key, value in os.environ.items() if key not in GIVEN}
    env["DEB_BUILD_OPTIONS"] = f"nocheck parallel={os.cpu_count()}"
    done = subprocess.run(["dpkg-buildpackage", "-us", "-uc", "-b"], cwd=sources(f"{place}/rung"), env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    return place


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder where they were built once; RUNG_PACKAGES names one that is there already."""
    return os.environ.get("RUNG_PACKAGES") or packages(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="session")
def debs(built):
    """{package: its file}"""
    found = {os.path.basename(path).partition("_")[0]: path for path in glob.glob(f"{built}/*.deb")}
    return {name: found[name] for name in NAMES}


def repacked(path, folder, old, new):
    """Packs the same package as another version: everything that names the version is renamed, as a release would do."""
    tree = f"{folder}/{os.path.basename(path)}.tree"
    subprocess.run(["dpkg-deb", "-R", path, tree], check=True)
    for source in glob.glob(f"{tree}/usr/src/rung-{old}"):
        os.rename(source, f"{tree}/usr/src/rung-{new}")
    version, word = re.compile(rf"(?<![\w.]){re.escape(old)}(?![\w.])"), new
    for name in (*glob.glob(f"{tree}/DEBIAN/*"), *glob.glob(f"{tree}/usr/src/*/dkms.conf")):
        with open(name, encoding="utf-8") as file:
            text = file.read()
        with open(name, "w", encoding="utf-8") as file:
            file.write(version.sub(word, text))
    made = f"{folder}/{os.path.basename(path).replace(f'_{old}_', f'_{new}_')}"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, made], stdout=subprocess.DEVNULL, check=True)
    return made
