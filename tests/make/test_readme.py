# SPDX-License-Identifier: MIT
"""Every command of README.md works as it is written, in a network namespace of its own; both READMEs have the same commands."""
# shows S01
import json
import os
import re
import subprocess
import sys
import tempfile

import pytest
from conftest import TOP

sys.path.append(f"{TOP}/scripts")
import readme_blocks  # noqa: E402 - found by the line above

BIN = os.path.join(TOP, os.environ.get("RUNG_BUILD", "build"), "debug")
PATIENCE = 120
# The loopback of a new namespace is down until it is set up.
UP = ("import fcntl, os, socket, struct, sys; s = socket.socket(); "
      "fcntl.ioctl(s, 0x8914, struct.pack('16sh22x', b'lo', 1)); os.execvp(sys.argv[1], sys.argv[1:])")
READY = 'for i in $(seq 600); do grep -q "Ctrl-C stops" said && break; sleep 0.1; done; cat said >&2; '


def commands():
    with open(f"{TOP}/README.md", encoding="utf-8") as file:
        return readme_blocks.shape(file.read())["commands"]


def of_rung(command):
    return re.match(r"(?:sudo )?rung\b", command)


@pytest.fixture
def home():
    """A home folder with the folders pictures and www; any user can read it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for name in ("pictures", "www"):
            os.mkdir(f"{folder}/{name}")
            with open(f"{folder}/{name}/a.txt", "w", encoding="utf-8") as file:
                file.write("text\n")
        yield folder


@pytest.fixture
def shell(home):
    """Runs a script where every port is free, 8080 included: (status, output, errors)."""
    env = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": home, "RUNG_LOAD_DURATION": "1s"}

    def run(script):
        done = subprocess.run(["unshare", "--net", sys.executable, "-c", UP, "bash", "-c", script], cwd=home, env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return done.returncode, done.stdout, done.stderr
    if subprocess.run(["unshare", "--net", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("no network namespace may be made here")
    return run


def test_there_are_commands():
    found = commands()
    assert len(found) >= 20 and sum(map(bool, map(of_rung, found))) >= 14
    assert all(of_rung(one) or re.match(r"(sudo )?make [a-z-]+$", one) for one in found), "a test for each"


@pytest.mark.parametrize("command", [one for one in commands() if not of_rung(one)])
def test_targets_exist(command, make):
    status, _, errors = make("-n", command.split()[-1])
    assert status == 0, errors


@pytest.mark.parametrize("page, text", [("README.md", "Nine engines, from one blocking loop to it; see ten files, or two."),
                                        ("README.zh-TW.md", "九種引擎；二十份檔案，每份檔案")])
def test_numbers_in_words(page, text):
    """make docs writes, in words, the number of engines with sockets and the number of files to read."""
    engines = sum(row.serves for row in readme_blocks.engines.rows())
    words = readme_blocks.WORDS[readme_blocks.PAGES[page]]["numbers"]
    assert engines >= 11 and words[11] in ("eleven", "十一") and words[20] in ("twenty", "二十")
    new = readme_blocks.counted(page, text, 19)
    assert new.startswith(words[engines].capitalize()) and words[19] in new and len(new.split()) == len(text.split())
    assert readme_blocks.counted(page, new, 19) == new
    for other in (text.replace("engines", "ways").replace("引擎", "做法"), text + text):
        with pytest.raises(readme_blocks.Wrong):
            readme_blocks.counted(page, other, 19)


def available():
    return {row["name"] for row in json.loads(subprocess.run([f"{BIN}/rung", "engines", "--json"], capture_output=True,
                                                             check=True).stdout) if row["available"]}


def serves(command):
    """Whether a command runs until it gets a signal."""
    words = command.removeprefix("sudo ").split()[1:]
    with open(f"{TOP}/server/commands.def", encoding="utf-8") as file:
        others = set(re.findall(r"(?m)^COMMAND\((\w+)", file.read())) - {"serve", "echo"}
    return not (words and words[0] in others) and words != ["-e", "null"]


@pytest.mark.parametrize("command", [one for one in commands() if of_rung(one)])
def test_commands_work(command, shell, home):
    if engine := re.search(r"-e (\w+)", command):
        if engine[1] not in available():
            pytest.skip(f"engine {engine[1]} cannot run here")
    script = command.removeprefix("sudo ").replace("/srv/www", f"{home}/www").replace("-d 30s", "-d 1s")
    if "lab run" in command:  # it takes minutes, so only its existence is checked
        status, said, errors = shell("rung lab list")
        assert status == 0 and re.search(rf"(?m)^{command.split()[-1]} ", said), errors
        return
    if serves(command):
        script = f"{script} 2>said & pid=$!; {READY} kill $pid; wait $pid"
    elif "rung load" in command or "rung trace" in command:
        script = script.replace("-d 10s", "-d 1s")
        script = f"rung ~/pictures 2>said & pid=$!; {READY} {script}; code=$?; kill $pid; wait $pid && exit $code"
    status, said, errors = shell(script)
    if "rung trace" in command and ("was built without" in errors or "not permitted" in errors):
        pytest.skip(errors.strip().splitlines()[-1])
    assert status == 0, said + errors
    assert said or "Ctrl-C stops" in errors


def test_a_port_that_is_taken(shell):
    status, _, errors = shell(f"rung ~/pictures 2>said & pid=$!; {READY} rung ~/pictures; code=$?; kill $pid; wait $pid; exit $code")
    assert status == 3 and "port 8080 on 127.0.0.1 is taken by rung" in errors and "--port" in errors


def test_the_pages_are_compared():
    page = "# A\n\n[b](c.md) ![d](docs/img/e.png)\n\n    rung x    # y\n\n| f |\n|---|\n\n<!-- g -->\n"
    shape = readme_blocks.shape(page)
    assert shape == readme_blocks.shape(page.replace("# y", "# z").replace("# A", "# B").replace("f", "h"))
    for old, new in (("# A", "## A"), ("rung x", "rung z"), ("e.png", "f.png"), ("c.md", "d.md"), ("| f |", "| f | g |"),
                     ("<!-- g -->", "")):
        assert shape != readme_blocks.shape(page.replace(old, new)), old
    english, chinese = (readme_blocks.shape(page.replace("c.md", place)) for place in ("docs/course.md", "docs/zh-TW/course.md"))
    assert english == chinese != readme_blocks.shape(page.replace("c.md", "docs/zh-TW/questions.md"))
    assert not list(readme_blocks.unlike())
    assert not list(readme_blocks.foreign("每條連線一條執行緒 (thread)，以 `epoll` 等待 [連線](a/b.md)。"))
    for bad in ("每條連線一個線程", "以epoll等待", "共 3條"):
        assert list(readme_blocks.foreign(bad)), bad
