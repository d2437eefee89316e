# SPDX-License-Identifier: MIT
"""make install and uninstall: which files go where, and an installed lab that measures and writes into its user's home."""
import json
import os
import re
import stat
import subprocess

import pytest
from conftest import TOP

BUILD = os.environ.get("RUNG_BUILD") or f"{TOP}/build"
TOOLS = ("rung", "rung-load", "rung-drop", "rung-trace")
PROGRAMS = (*TOOLS, "rung-lab")  # completed in each shell
TRACES = ("compare", "sniff", "kernel")
PLAN = """title = "T"
question = "Q?"
method = "M."
kind = "program"
rounds = {quick = 1, full = 1}
[[target]]
name = "switch"
program = "parsers"
args = "switch"
[[scenario]]
name = "lines"
args = "lines"
[[claim]]
says = "It takes some time."
figure = "ns"
of = "switch"
expect = "> 0"
[[plot]]
kind = "bars"
figure = "ns"
"""


def files(folder):
    return {os.path.relpath(os.path.join(place, name), folder) for place, _, names in os.walk(folder) for name in names}


def commands():
    with open(f"{TOP}/server/commands.def", encoding="utf-8") as file:
        return re.findall(r"(?m)^COMMAND\((\w+),", file.read())


@pytest.fixture
def install(make):
    def run(target, *args):
        status, _, errors = make(target, f"BUILD={BUILD}", "MODE=debug", *args)
        assert status == 0, errors
    return run


def test_where_files_lie(install, tmp_path):
    install("install", f"DESTDIR={tmp_path}", "PREFIX=/usr")
    found = files(tmp_path)
    for tool in TOOLS:
        assert f"usr/bin/{tool}" in found
    for tool in PROGRAMS:
        assert {f"usr/share/{path}" for path in (f"bash-completion/completions/{tool}", f"zsh/site-functions/_{tool}",
                                                 f"fish/vendor_completions.d/{tool}.fish")} <= found
    pages = {f"usr/share/man/man1/rung{name}.1" for name in ["", *(f"-trace-{name}" for name in TRACES), *(f"-{name}" for name in commands())]}
    assert pages == {path for path in found if path.startswith("usr/share/man/")}
    for page in pages:
        assert (tmp_path / page).read_text().startswith('.\\" SPDX'), page
    assert {"usr/bin/rung-lab", "usr/share/rung/lab/lab.py", "usr/share/rung/lab/experiments/engines.toml", "usr/lib/rung/lab/parsers"} <= found
    assert {"usr/lib/systemd/system/rung.service", "usr/lib/systemd/system/rung.socket"} <= found
    assert not [path for path in found if "pycache" in path or "results" in path]
    for path in found:
        mode = stat.S_IMODE(os.stat(tmp_path / path).st_mode)
        assert mode == (0o755 if path.startswith(("usr/bin", "usr/lib/rung")) or path.endswith("scripts/setup") else 0o644), path
    assert "ExecStart=/usr/bin/rung " in (tmp_path / "usr/lib/systemd/system/rung.service").read_text()
    launcher = (tmp_path / "usr/bin/rung-lab").read_text()
    assert "/usr/share/rung" in launcher and str(tmp_path) not in launcher and BUILD not in launcher
    assert (tmp_path / "usr/lib/rung/rung").samefile(tmp_path / "usr/bin/rung")
    install("uninstall", f"DESTDIR={tmp_path}", "PREFIX=/usr")
    assert not files(tmp_path)


@pytest.mark.long
def test_the_installed_lab_measures(install, tmp_path):
    prefix, home, plan = tmp_path / "prefix", tmp_path / "home", tmp_path / "small.toml"
    install("install", f"PREFIX={prefix}")
    home.mkdir()
    plan.write_text(PLAN)
    before = files(prefix)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8"}

    def lab(*args):
        return subprocess.run([prefix / "bin/rung", "lab", *map(str, args)], cwd=home, env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, check=False)
    listed = lab("list")
    assert listed.returncode == 0 and {f"{line.split()[0]}.toml" for line in listed.stdout.splitlines()} == set(
        os.listdir(f"{TOP}/lab/experiments"))
    done = lab("run", plan)
    assert done.returncode == 0 and ": It takes some time." in done.stdout, done.stderr
    result = json.loads((home / ".local/share/rung/lab/small.json").read_text())
    assert result["commit"] and [one["error"] for one in result["cells"]] == [None]
    assert lab("show", plan).stdout == done.stdout
    modules = lab("run", "kernel-echo")
    assert modules.returncode == 1 and "kernel modules are built from rung's sources, which are not installed" in modules.stderr
    assert files(prefix) == before
    install("uninstall", f"PREFIX={prefix}")
    assert not files(prefix)
