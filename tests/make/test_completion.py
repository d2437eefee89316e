# SPDX-License-Identifier: MIT
"""What bash, zsh and fish offer after a tab, for every program and for its commands, by their own completion."""
import os
import shutil

import completed
import pytest
from conftest import TOP

BUILD = os.environ.get("RUNG_BUILD") or f"{TOP}/build"
LOADS = {"bash": 'eval "$(rung completion)"', "zsh": 'eval "$(rung completion zsh)"', "fish": "rung completion fish | source"}
# line: what must be offered, and nothing else
EXACTLY = {
    "rung --head-": {"--head-timeout"},
    "rung serve --no-h": {"--no-health", "--no-hidden"},
    "rung --log ": {"off", "combined", "json", "stages", "timed", "vhost"},
    "rung -p 0 pic": {"pictures"},
    "rung serve my": {"my music"},
    "rung --log-file a-f": {"a-file"},
    "rung -e epo": {"epoll"},
    "rung doc": {"doctor"},
    "rung doctor --j": {"--json"},
    "rung echo --lo": set(),
    "rung completion ": {"bash", "zsh", "fish"},
    "rung man vers": {"version"},
    "rung help tra": {"trace"},
    "rung load --find": {"--find-knee"},
    "rung drop --netn": {"--netns"},
    "rung trace --wat": {"--waterfall"},
    "rung trace sni": {"sniff"},
    "rung trace sniff --interf": {"--interface"},
    "rung lab run --ag": {"--again"},
    "rung lab show pool-q": {"pool-queues"},
}
# line: what must be among it, and what must not
AMONG = {
    "rung ": ({"serve", "load", "trace", "lab", "pictures", "a-file"}, {"--port"}),
    "rung -": ({"--port", "--engine", "--help-all", "--no-quiet"}, {"serve", "pictures"}),
    "rung lab ": ({"list", "run", "show", "draw"}, {"serve", "a-file"}),
    "rung options ": (set(), {"--port", "serve", "bash"}),
}


@pytest.fixture(params=LOADS)
def offered(request, tmp_path):
    """Gives {line: what that shell offers} for some lines."""
    shell, folder, scratch = request.param, tmp_path / "folder", tmp_path / "scratch"
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    for path in (folder, scratch, folder / "pictures", folder / "my music"):
        path.mkdir()
    (folder / "a-file").touch()
    env = {"PATH": f"{os.path.abspath(BUILD)}/debug:{os.environ['PATH']}", "HOME": str(scratch), "LC_ALL": "C.UTF-8"}

    def run(lines):
        if shell == "zsh":
            return completed.zsh(LOADS[shell], lines, folder, env, scratch)
        return {line: getattr(completed, shell)(LOADS[shell], line, folder, env) for line in lines}
    return run


# shows U22
def test_what_is_offered(offered):
    found = offered([*EXACTLY, *AMONG])
    assert {line: found[line] for line in EXACTLY} == EXACTLY
    for line, (offers, never) in AMONG.items():
        assert offers <= found[line] and not never & found[line], (line, found[line])
