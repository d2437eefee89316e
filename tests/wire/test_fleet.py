# SPDX-License-Identifier: MIT
"""Three servers behind HAProxy, by the recipe of docs/proxies.md, under load: one is killed and replaced, then each is restarted.
The errors that clients see are counted."""
import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from lib.metrics import Watch
from lib.server import BIN, wait_for
from test_recipes import PATHS, RECIPES, Proxy

pytestmark = [pytest.mark.userspace("a fleet"), pytest.mark.any_engine("HAProxy is the same for every engine"), pytest.mark.long,
              pytest.mark.skipif(not shutil.which("haproxy", path=PATHS), reason="haproxy is not installed"),
              pytest.mark.skipif(not os.path.exists(f"{BIN}-load"), reason="rung load is not built")]
LOAD_S = 6


class Load:
    """rung load against the proxy, for a while: errors by kind at its end."""

    def __init__(self, port):
        self.process = subprocess.Popen([f"{BIN}-load", f"http://127.0.0.1:{port}/hello.txt", "-c", "8", "-R", "500", "-d", f"{LOAD_S}s", "-o", "-"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def over(self):
        return self.process.poll() is not None

    def end(self):
        out, said = self.process.communicate(timeout=60)
        assert self.process.returncode in (0, 1), said
        return json.loads(out)


class Fleet:
    def __init__(self, start, root, folder):
        command, config = RECIPES["haproxy fleet"]
        self.start, self.root = start, root
        self.drain = re.search(r"--drain-timeout (\S+)", command)[1]
        self.nodes = []
        for number, port in enumerate(re.findall(r"server \w+ 127\.0\.0\.1:(\d+) check port (\d+)", config)):
            self.nodes.append(self.begin(0, 0))
            config = config.replace(f"127.0.0.1:{port[0]} check port {port[1]}",
                                    f"127.0.0.1:{self.port(number)} check port {Watch(self.nodes[number]).address[1]}")
        self.proxy = Proxy("haproxy fleet", config, folder)

    def begin(self, port, metrics):
        return self.start(self.root, "--port", port, "-b", "127.0.0.1", "--trust", "127.0.0.1", "--metrics", metrics, "--drain-timeout", self.drain)

    def port(self, number):
        return self.nodes[number].addresses[0][1]

    def replace(self, number):
        """Another server at the same addresses, once the old one has ended."""
        old = self.nodes[number]
        self.nodes[number] = self.begin(old.addresses[0][1], Watch(old).address[1])
        wait_for(lambda: self.answers(number), "the new one gets requests")

    def answers(self, number):
        return self.nodes[number].stats()["answers"] > 0


@pytest.fixture
def fleet(start, standard, tmp_path):
    one = Fleet(start, standard, tmp_path)
    wait_for(lambda: one.proxy.ask()[0] == 200, "HAProxy answers")
    yield one
    one.proxy.stop()


def test_upgraded_one_after_the_other(fleet):
    """Every request is answered, and each server takes part again."""
    load = Load(fleet.proxy.port)
    for number in range(3):
        wait_for(lambda one=number: fleet.answers(one), "it takes part")
        assert not load.over()
        fleet.nodes[number].process.send_signal(signal.SIGTERM)
        fleet.nodes[number].finish()
        fleet.replace(number)
    assert not load.over(), "the load ended before the upgrade"
    result = load.end()
    assert result["requests"]["answered"] > 1000 and result["errors"]["total"] == 0, result


def test_one_is_killed(fleet):
    """Answers that had not begun come from the others."""
    load = Load(fleet.proxy.port)
    wait_for(lambda: fleet.answers(1), "it takes part")
    fleet.nodes[1].kill()
    fleet.replace(1)
    assert not load.over(), "the load ended before the replacement"
    result = load.end()
    assert result["requests"]["answered"] > 1000 and result["errors"]["total"] == 0, result
