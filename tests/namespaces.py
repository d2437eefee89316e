# SPDX-License-Identifier: MIT
"""namespaces.py - two machines in one: network namespaces with a cable between them, for tests."""
import contextlib
import itertools
import os
import subprocess

import pytest

COUNT = itertools.count()
PATIENCE_S = 60


class Namespaces(contextlib.ExitStack):
    """Two network namespaces and a pair of Ethernet interfaces between them, both called eth0."""

    def __init__(self):
        super().__init__()
        self.name = [f"rung-{os.getpid()}-{next(COUNT)}" for _ in range(2)]
        for name in self.name:
            self.ip("netns", "add", name)
            self.callback(self.ip, "netns", "delete", name)
        self.ip("link", "add", "eth0", "netns", self.name[0], "type", "veth", "peer", "name", "eth0", "netns", self.name[1])
        for number, name in enumerate(self.name, 1):
            self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", name, "link", "set", "eth0", "up")
            self.ip("-n", name, "address", "add", f"10.9.0.{number}/24", "dev", "eth0")
            self.ip("-n", name, "address", "add", f"fd09::{number}/64", "dev", "eth0", "nodad")

    @staticmethod
    def ip(*args):
        done = subprocess.run(["ip", *args], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if "make-rslave" in done.stderr:
            pytest.skip("ip cannot enter a namespace here: its root is no mount")
        assert done.returncode == 0, (args, done.stderr)

    def within(self, number):
        return ["ip", "netns", "exec", self.name[number]]
