# SPDX-License-Identifier: MIT
"""make static and make image: one file that needs no library, and an image of it that follows the OCI's specification."""
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import urllib.request

import pytest
from conftest import TOP

BUILD = os.environ.get("RUNG_BUILD") or f"{TOP}/build"
STATIC, RUNG, IMAGE = (f"{BUILD}/debug/{name}" for name in ("rung-static", "rung", "rung.oci.tar"))
PATIENCE = 60

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def made():
    clean = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "WERROR", "MODE", "BUILD")}
    with open(f"{BUILD}/static.lock", "w", encoding="utf-8") as lock:  # tests that run side by side build it once
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(["make", "-C", TOP, f"BUILD={BUILD}", "MODE=debug", "static", "image"], env=clean, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=280, check=False)
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr


def output(*argv):
    return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True).stdout


def answer(argv, path):
    """The body that a server of this command line gives for a path."""
    server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        found = next(re.search(r" at (http://\S+)/", line)[1] for line in server.stderr if line.startswith("rung: serving"))
        with urllib.request.urlopen(found + path, timeout=PATIENCE) as reply:
            return reply.read()
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0
        server.stderr.close()


def parts():
    with tarfile.open(IMAGE) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}


def test_it_needs_no_library_and_can_do_the_same(made, tmp_path):
    assert "statically linked" in output("ldd", STATIC) and "libc.so" in output("ldd", RUNG)
    for words in (["version"], ["engines", "--json"], ["options"]):
        assert output(STATIC, *words) == output(RUNG, *words)
    codings = [[row["value"] for row in json.loads(output(program, "doctor", "--json")) if row["name"] == "answers compressed"]
               for program in (STATIC, RUNG)]
    assert codings[0] == codings[1] != []
    (tmp_path / "a").write_text("text")
    for engine in ("epoll", "pool"):
        assert answer([STATIC, "-e", engine, "-p", "0", "-b", "127.0.0.1", str(tmp_path)], "/a") == b"text"


def test_a_user_is_found_without_a_library(made):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # the tree may lie where only root may look
        os.chmod(folder, 0o755)
        with open(f"{folder}/a", "w", encoding="ascii") as file:
            file.write("text")
        os.chmod(f"{folder}/a", 0o644)
        assert answer([STATIC, "--user", "nobody", "-p", "0", "-b", "127.0.0.1", folder], "/a") == b"text"


def test_image_follows_the_specification(made):
    found = parts()
    assert json.loads(found["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    for name, data in found.items():
        if name.startswith("blobs/"):
            assert name == "blobs/sha256/" + hashlib.sha256(data).hexdigest()

    def blob(row):
        data = found["blobs/" + row["digest"].replace(":", "/")]
        assert len(data) == row["size"]
        return data
    manifest = json.loads(blob(json.loads(found["index.json"])["manifests"][0]))
    config = json.loads(blob(manifest["config"]))
    assert [row["mediaType"] for row in manifest["layers"]] == ["application/vnd.oci.image.layer.v1.tar+gzip"]
    with tarfile.open(fileobj=io.BytesIO(blob(manifest["layers"][0]))) as tar:
        assert sorted(tar.getnames()) == ["etc", "etc/passwd", "rung", "srv"]
        assert {(member.uid, member.gid, member.mtime) for member in tar} == {(0, 0, 0)}
        with open(STATIC, "rb") as file:
            assert tar.extractfile("rung").read() == file.read()
    assert config["config"]["User"] == "65534:65534" and config["config"]["Entrypoint"] == ["/rung"]


# shows U24
def test_image_runs_with_nothing_else(made, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root may change the root of a process")
    found = parts()
    manifest = json.loads(found["blobs/" + json.loads(found["index.json"])["manifests"][0]["digest"].replace(":", "/")])
    with tarfile.open(fileobj=io.BytesIO(found["blobs/" + manifest["layers"][0]["digest"].replace(":", "/")])) as tar:
        tar.extractall(tmp_path / "root")
    (tmp_path / "root/srv/a").write_text("text")
    started = ["chroot", "--userspec=65534:65534", str(tmp_path / "root"), "/rung", "serve", "-p", "0", "-b", "127.0.0.1", "/srv"]
    assert answer(started, "/a") == b"text"


def test_the_same_binary_gives_the_same_image(made, tmp_path):
    def image(name, binary=STATIC, **env):
        done = subprocess.run([f"{TOP}/scripts/image", binary, tmp_path / name], env={"PATH": os.environ["PATH"], **env},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
        return done.returncode, done.stderr, (tmp_path / name).read_bytes() if done.returncode == 0 else None
    one, other, later = image("one"), image("other"), image("later", SOURCE_DATE_EPOCH="1700000000")
    assert one[0] == 0 and one[2] == other[2] != later[2]
    status, errors, _ = image("dynamic", RUNG)
    assert status == 1 and "needs shared libraries" in errors
    status, errors, _ = image("text", f"{TOP}/Makefile")
    assert status == 1 and "no program" in errors


# shows U24
def test_skopeo_reads_it(made):
    if not shutil.which("skopeo"):
        pytest.skip("skopeo is not installed")
    seen = json.loads(output("skopeo", "inspect", f"oci-archive:{IMAGE}"))
    assert seen["Os"] == "linux" and len(seen["Layers"]) == 1 and seen["Labels"]["org.opencontainers.image.title"] == "rung"
