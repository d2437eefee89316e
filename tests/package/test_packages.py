# SPDX-License-Identifier: MIT
"""The packages: what lintian says, what is in each; installed, used, upgraded and removed in a layer above this system."""
import glob
import hashlib
import os
import re
import shutil
import signal
import subprocess
import urllib.request

import pytest
from conftest import TOP, packages, repacked
from system import System, Unmountable, cannot

OLD, NEW = "0.1", "0.1.1"
PATIENCE = 60


def files_of(deb):
    out = subprocess.run(["dpkg-deb", "-c", deb], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line.split()[5].lstrip(".").split(" -> ")[0] for line in out.splitlines() if not line.startswith("d")}


def field(deb, name):
    return subprocess.run(["dpkg-deb", "-f", deb, name], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@pytest.fixture
def system():
    if why := cannot():
        pytest.skip(why)
    try:
        with System() as found:
            yield found
    except Unmountable as error:
        pytest.skip(f"no layer can be mounted above this system: {error}")


def test_lintian_finds_nothing(built):
    if not shutil.which("lintian"):
        pytest.skip("lintian is not installed")
    changes = glob.glob(f"{built}/*.changes")
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning,info", "--display-info", *changes], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_build_needs_what_setup_installs():
    """The packages of `scripts/setup run`, except those that every build has."""
    with open(f"{TOP}/scripts/setup", encoding="utf-8") as file:
        run = re.search(r"(?ms)^run=\((.*?)^\)", file.read())[1]
    names = {line.split()[0].strip("'") for line in run.strip().splitlines()} - {"gcc", "libc6-dev", "make"}
    with open(f"{TOP}/debian/control", encoding="utf-8") as file:
        needed = re.search(r"(?ms)^Build-Depends:(.*?)^$", file.read())[1]
    assert len(names) >= 6 and names <= {part.split()[0].partition(":")[0] for part in needed.split(",")}


def test_versions_agree(debs):
    with open(f"{TOP}/base/version.h", encoding="utf-8") as file:
        version = re.search(r'RUNG_VERSION "(.*)"', file.read())[1]
    assert {field(deb, "Version") for deb in debs.values()} == {version}


def test_two_builds_in_different_folders_are_the_same(built, tmp_path):
    again = packages(tmp_path / "another-folder")

    def digests(place):
        found = {}
        for path in glob.glob(f"{place}/*.deb"):
            with open(path, "rb") as file:
                found[os.path.basename(path)] = hashlib.sha256(file.read()).hexdigest()
        return found
    assert len(digests(built)) >= 3 and digests(again) == digests(built)


def test_every_installed_file_is_in_one_package(debs, built):
    laid = {path[len(f"{built}/rung/debian/tmp"):] for path in glob.glob(f"{built}/rung/debian/tmp/**", recursive=True) if not os.path.isdir(path)}
    assert len(laid) > 100
    found = {}
    for name, deb in debs.items():
        for path in files_of(deb):
            assert path not in found, (path, name, found[path])
            found[path] = name
    missing = {path for path in laid if path not in found and f"{path}.gz" not in found}
    assert not missing
    assert found["/usr/bin/rung"] == "rung" and found["/usr/share/rung/lab/lab.py"] == "rung-lab"
    assert {path for path in found if path.endswith("/dkms.conf")} == {f"/usr/src/rung-{OLD}/dkms.conf"}


def test_the_layer_sees_what_is_left(system):
    system.run("sh", "-c", "echo >/etc/rung-was-here; mkdir /opt/rung-was-here; echo x >>/etc/passwd; rm /etc/debian_version")
    assert system.left() == {"/etc/rung-was-here": "new", "/opt/rung-was-here": "new", "/etc/passwd": "changed",
                             "/etc/debian_version": "removed"}
    assert not os.path.exists("/etc/rung-was-here") and os.path.exists("/etc/debian_version")


def serve(system, folder):
    """A server of the installed rung: its process, and its address."""
    server = subprocess.Popen(system.within("rung", "-p", "0", "-b", "127.0.0.1", folder), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                              text=True)
    for line in server.stderr:
        if match := re.search(r"rung: serving .* at (http://\S+/)", line):
            return server, match[1]
    raise AssertionError(f"rung ended with {server.wait()}")


def use(system, version):
    assert system.run("rung", "version").startswith(f"rung {version}\n")
    server, url = serve(system, "/usr/share/doc/rung")
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            assert b"copyright" in answer.read()
        load = system.run("rung", "load", "--requests", "50", url + "copyright")
        assert re.search(r"(?m)^ +answers +50,", load) and re.search(r"(?m)^ +errors +none$", load), load
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0
        server.stderr.close()
    assert "usage: rung trace" in system.run("rung", "trace", "--help")
    assert "usage: rung drop" in system.run("rung", "help", "drop")


# shows U23
def test_rung_installed_used_upgraded_removed(system, debs, tmp_path):
    before = system.left()
    assert before == {}
    system.run("dpkg", "-i", system.put(debs["rung"], "old.deb"))
    use(system, OLD)
    assert system.left()["/usr/bin/rung"] in ("new", "changed")
    system.run("dpkg", "-i", system.put(repacked(debs["rung"], tmp_path, OLD, NEW), "new.deb"))
    assert system.run("dpkg-query", "-W", "-f", "${Version}", "rung") == NEW
    use(system, OLD)  # the program is the same
    system.run("dpkg", "--purge", "rung")
    assert system.left() == {}


def test_lab_installed_used_upgraded_removed(system, debs, tmp_path):
    new = [system.put(repacked(debs[name], tmp_path, OLD, NEW), f"{name}-new.deb") for name in ("rung", "rung-lab")]
    system.run("dpkg", "-i", system.put(debs["rung"], "rung.deb"), system.put(debs["rung-lab"], "lab.deb"))
    listed = system.run("rung", "lab", "list")
    assert {line.split()[0] for line in listed.splitlines()} >= {"engines", "parsers", "workers"}
    assert "rung-lab" in system.run("rung", "man", "lab")
    system.run("dpkg", "-i", *new)
    assert system.run("rung", "lab", "list") == listed
    system.run("dpkg", "--purge", "rung-lab", "rung")
    assert system.left() == {}


def test_modules_installed_upgraded_removed(system, debs, tmp_path):
    """DKMS builds the modules for the kernels that have headers here, and removes what it built."""
    if not shutil.which("dkms"):
        pytest.skip("dkms is not installed")
    headers = [os.path.basename(os.path.dirname(path)) for path in glob.glob("/lib/modules/*/build")
               if os.path.exists(f"{path}/Module.symvers")]
    if not headers:
        pytest.skip("no kernel's headers are installed: linux-headers-amd64")
    output = system.run("dpkg", "-i", system.put(debs["rung-dkms"], "old.deb"))
    for release in headers:
        modules(system, release, OLD, output)
    output = system.run("dpkg", "-i", system.put(repacked(debs["rung-dkms"], tmp_path, OLD, NEW), "new.deb"))
    for release in headers:
        modules(system, release, NEW, output)
    assert OLD + "," not in system.run("dkms", "status", "rung").replace(NEW, "")
    system.run("dpkg", "--purge", "rung-dkms")
    assert system.left() == {}


def modules(system, release, version, output):
    """The four modules are there for that kernel, and signed if DKMS could sign."""
    status = system.run("dkms", "status", f"rung/{version}", "-k", release)
    assert "installed" in status, (status, output)
    found = system.run("find", f"/lib/modules/{release}/updates/dkms", "-name", "rung_*").split()
    assert {os.path.basename(path).partition(".")[0] for path in found} == {"rung_core", "rung_http", "rung_echo", "rung_drop"}
    for path in found:
        about = system.run("modinfo", path)
        assert f"vermagic:       {release} " in about
        assert re.search(r"(?m)^signer: +\S", about), about
