# SPDX-License-Identifier: MIT
"""The rules of the Makefile, on a tree of one file."""
import os
import shutil
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import TOP

WARNED = "int answer(void);\nint answer(void)\n{\n    int unused;\n\n    return 42;\n}\n"
OBJECT = "build/release/core/one.o"


@pytest.fixture
def tree(tmp_path):
    """The Makefile, the files that it generates a header from, and one source."""
    for path in ("Makefile", "scripts/gen-types.py", "core/mime.def", "base/version.h"):
        os.makedirs(tmp_path / os.path.dirname(path), exist_ok=True)
        shutil.copy(f"{TOP}/{path}", tmp_path / path)
    (tmp_path / "core/one.c").write_text(WARNED)
    return tmp_path


def test_a_warning_ends_only_the_checks(tree, make):
    status, _, errors = make(OBJECT, cwd=tree)
    assert status == 0 and "unused" in errors and os.path.exists(tree / OBJECT)
    status, _, errors = make(OBJECT, cwd=tree, WERROR="1")  # the object exists, and its warning was only shown
    assert status != 0 and "unused" in errors
    (tree / "core/one.c").write_text(WARNED.replace("    int unused;\n\n", ""))
    status, said, errors = make(OBJECT, cwd=tree, WERROR="1")
    assert status == 0 and "CC" in said and not errors
    status, said, errors = make(OBJECT, cwd=tree, WERROR="1")
    assert status == 0 and "CC" not in said and not errors


@pytest.mark.long
def test_a_folder_has_one_name(tree, make):
    """An object is compiled again when its header has changed, whether BUILD was absolute or relative before."""
    (tree / "core/one.h").write_text("int answer(void);\n")
    (tree / "core/one.c").write_text('#include "one.h"\nint answer(void)\n{\n    return 42;\n}\n')
    (tree / "object.mk").write_text("object: $(O)/core/one.o\n")
    for before, after in (("build", tree / "build"), (tree / "build", "build"), (tree / "build", "./build/")):
        shutil.rmtree(tree / "build", ignore_errors=True)
        for build, compiled in ((before, True), (before, False), (after, False), (after, True)):
            if build == after and compiled:
                os.utime(tree / "core/one.h", (time.time() + 1, time.time() + 1))
            status, said, errors = make("-f", "Makefile", "-f", "object.mk", "object", f"BUILD={build}", cwd=tree)
            assert status == 0 and ("CC" in said) == compiled, (before, after, compiled, errors)
        os.utime(tree / "core/one.h", (1, 1))


@pytest.mark.long
def test_what_a_program_can_do_without(tree, make):
    """The list of present headers is written only when it changes, even if several makes check at once."""
    (tree / "lab/programs/one").mkdir(parents=True)
    (tree / "lab/programs/one/optional").write_text(f"{tree}/header.h\n")
    said = tree / "build/release/lab/one.optional"
    for present, text in ((False, "\n"), (True, f"{tree}/header.h\n"), (False, "\n")):
        if present:
            (tree / "header.h").touch()
        else:
            (tree / "header.h").unlink(missing_ok=True)
        written = set()
        for turn in range(10):
            with ThreadPoolExecutor(4) as pool:
                made = list(pool.map(lambda _: make("build/release/lab/one.optional", cwd=tree), range(4)))
            assert {(status, errors) for status, _, errors in made} == {(0, "")}, turn
            written.add(said.stat().st_mtime_ns)
        assert said.read_text() == text and len(written) == 1
        assert os.listdir(said.parent) == [said.name]


def test_a_library_that_is_missing(tree, make):
    """A coding without its library is reported and left out of the table."""
    for has, rows in (("gzip br zstd", "X(gzip) X(br) X(zstd)\n"), ("zstd", "X(zstd)\n"), ("", "\n")):
        status, _, errors = make("build/gen/compressors.def", f"COMPRESSORS={has}", cwd=tree)
        missing = [name for name in ("gzip", "br", "zstd") if name not in has.split()]
        assert status == 0 and (tree / "build/gen/compressors.def").read_text() == rows
        assert (f"not compressed on the way: {' '.join(missing)};" in errors) == bool(missing), errors


def test_a_tracer_without_clang(make, tmp_path):
    """A tracer without clang is built, has its help, and says what to install when asked to trace.  It uses the objects of the build."""
    build = os.environ.get("RUNG_BUILD") or f"{TOP}/build"
    status, _, errors = make("all", f"BUILD={build}", "MODE=debug")
    assert status == 0, errors
    for folder in ("gen", "debug"):
        shutil.copytree(f"{build}/{folder}", tmp_path / folder, ignore=shutil.ignore_patterns("tests", "lab"))
    program = f"{tmp_path}/debug/rung-trace"
    status, _, errors = make(program, f"BUILD={tmp_path}", "MODE=debug", "TRACER=")
    assert status == 0 and "rung trace is built without tracing" in errors, errors
    assert "--waterfall" in subprocess.run([program, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [str(server.getsockname()[1]) for server in (one, other)]
        for args in (ports[:1], ["--top", ports[0]], ["compare", *ports], ["sniff", "--port", ports[0], "-i", "lo"]):
            done = subprocess.run([program, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 4 and "apt-get install clang libbpf-dev" in done.stderr, (args, done)


def test_ways_of_making_a_release(tree, make):
    """Each MODE has its folder and options; an unknown MODE, or one that CC does not support, is refused with a reason."""
    for mode, options in (("release", "-O2"), ("release-o3", "-O3"), ("release-lto", "-O2 -flto=auto"),
                          ("release-lto-native", "-O2 -march=native -flto=auto"), ("release-train", "-O2 -fprofile-generate")):
        status, said, errors = make(f"build/{mode}/core/one.o", f"MODE={mode}", "V=1", cwd=tree)
        assert status == 0 and all(option in said.split() for option in options.split()), (mode, said, errors)
        assert os.path.exists(tree / f"build/{mode}/core/one.o")
        assert ("-flto=auto" in said) == ("lto" in mode) and ("-O2" in said) != ("o3" in mode)
    for mode, told in (("release-fast", "-lto, -pgo, -o3 or -native; not by 'fast'"), ("debug-lto", "MODE is release (-lto,")):
        status, _, errors = make("help", f"MODE={mode}", cwd=tree)
        assert status != 0 and told in errors
    (tree / "clang").write_text("#!/bin/sh\necho clang version 14\n")
    (tree / "clang").chmod(0o755)
    for mode in ("release-lto", "release-pgo"):
        status, _, errors = make("help", f"MODE={mode}", "CC=./clang", cwd=tree)
        assert status != 0 and f"MODE={mode} needs gcc, and CC is ./clang" in errors


def test_a_profile(tmp_path):
    """A server that does not start, or does not answer, makes no profile."""
    train = [sys.executable, "-B", f"{TOP}/scripts/train"]

    def trained(name, text):
        (tmp_path / name).write_text("#!/bin/sh\n" + text)
        (tmp_path / name).chmod(0o755)
        return subprocess.run([*train, tmp_path / name, "/bin/true"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60, check=False)
    listed = """[ "$1" = engines ] && echo '[{"name": "epoll", "available": true}, {"name": "uring", "available": false}]' && exit\n"""
    done = trained("none", listed + "echo no luck >&2; exit 1\n")
    assert done.returncode and "the server does not start: no luck" in done.stderr
    done = trained("deaf", listed + "echo serving x at http://127.0.0.1:1/ >&2; exec sleep 60\n")
    assert done.returncode and "train: epoll: " in done.stderr


def test_the_checks_ask_for_it():
    """Every make that run.py or one of its layers starts has WERROR=1 in its environment."""
    code = (f"import os, sys; sys.path.insert(0, {TOP + '/tests'!r}); import run; sys.argv = ['run.py', '--list', '--only', 'none']; "
            "run.main(); print(os.environ['WERROR'])")
    done = subprocess.run([sys.executable, "-B", "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          env={key: value for key, value in os.environ.items() if key != "WERROR"}, check=True)
    assert done.stdout.split() == ["1"]
