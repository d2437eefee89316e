# SPDX-License-Identifier: MIT
"""Links to hidden names, and FIFOs: a file that is not served is neither served under another name nor opened."""
import json
import os
import threading

import pytest
from lib.trees import write

pytestmark = pytest.mark.any_engine("names are looked up below the engines")

SECRET = b"secret\n"
# name, target
LINKS = [("visible.txt", ".secret"), ("chain", "chain2"), ("chain2", "visible.txt"), ("folder", ".git"),
         ("dir/up", "../.secret"), ("page/index.html", "../.secret"), ("ordinary", "hello.txt"),
         ("near", "dir"), ("known", ".well-known")]
HIDDEN = ["/visible.txt", "/chain", "/chain2", "/folder", "/folder/", "/folder/config", "/dir/up", "/near/.secret",
          "/near/up", "/page/index.html"]
SHOWN = ["/ordinary", "/near/hello.txt", "/known/hello.txt"]


@pytest.fixture
def linked(tree):
    for name in (".secret", ".git/config", "dir/.secret"):
        write(f"{tree}/{name}", SECRET)
    for name in ("hello.txt", "dir/hello.txt", ".well-known/hello.txt"):
        write(f"{tree}/{name}", b"hello\n")
    os.mkdir(f"{tree}/page")
    for name, target in LINKS:
        os.symlink(target, f"{tree}/{name}")
    return tree


@pytest.mark.core
# shows U11
def test_links_follow_the_rule_of_hidden_names(start, linked):
    with start(linked).wire() as wire:
        for _ in range(2):  # a cache must not forget the rule
            for target in HIDDEN:
                reply = wire.ask(target)
                assert reply.status == 404 and SECRET not in reply.body, target
            for target in SHOWN:
                assert wire.ask(target).body == b"hello\n", target
            page = wire.ask("/page/")  # an index that does not exist
            assert page.status == 200 and SECRET not in page.body
            assert wire.ask("/near").status == 301 and wire.ask("/near/").status == 200


def test_the_option_shows_them(start, linked):
    with start(linked, "--hidden").wire() as wire:
        for target in ("/visible.txt", "/chain", "/folder/config", "/near/.secret", "/page/", "/.secret"):
            assert wire.ask(target).body == SECRET, target
        for target in SHOWN:
            assert wire.ask(target).body == b"hello\n", target


def test_a_listing_does_not_measure_them(start, linked):
    """A link to a hidden file is shown as one that leads nowhere: no size, no time of its target."""
    write(f"{linked}/.secret", b"x" * 12345)
    rows = json.loads(start(linked).ask("/?format=json").body)["entries"]
    kinds = {row["name"]: row for row in rows}
    assert kinds["visible.txt"].get("size_bytes") != 12345
    assert kinds["visible.txt"]["kind"] == kinds["chain"]["kind"] == kinds["folder"]["kind"] != kinds["ordinary"]["kind"]


class Writer(threading.Thread):
    """A thread that waits in open(2) for a reader, as a shell does for "> fifo"."""
    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.failed = path, None
        self.start()

    def run(self):
        try:
            with open(self.path, "wb", buffering=0) as out:
                out.write(b"from the writer")
        except OSError as error:
            self.failed = error


@pytest.mark.parametrize("fifo, targets", [
    ("pipe", ["/pipe"]), ("page.html.gz", ["/page.html"]), ("page.html.br", ["/page.html"]),
    ("page.html.zst", ["/page.html"]), ("404.html", ["/missing"]), ("dir/index.html", ["/dir/"]),
    ("dir/pipe", ["/dir/pipe", "/link/pipe", "/short"])])
def test_a_fifo_is_never_opened(start, tree, fifo, targets):
    """Opening a FIFO would wake its writer, and closing it would lose the bytes that it writes."""
    write(f"{tree}/page.html", b"page\n")
    os.mkdir(f"{tree}/dir")
    os.symlink("dir", f"{tree}/link")
    os.symlink("dir/pipe", f"{tree}/short")
    os.mkfifo(f"{tree}/{fifo}", 0o666)
    os.chmod(f"{tree}/{fifo}", 0o666)
    writer = Writer(f"{tree}/{fifo}")
    with start(tree).wire() as wire:
        for target in targets * 3:
            reply = wire.ask(target, fields=["Accept-Encoding: gzip, br, zstd"])
            assert reply.status in (200, 403, 404)
            writer.join(0.1)
            assert writer.is_alive(), f"{target} opened it: {writer.failed}"
    with open(f"{tree}/{fifo}", "rb") as end:
        assert end.read() == b"from the writer"
    writer.join(30)
    assert not writer.is_alive() and not writer.failed
