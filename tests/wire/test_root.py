# SPDX-License-Identifier: MIT
"""Started as root, without --user, rung refuses files that others may not read, as the kernel would refuse them."""
import os

import pytest
from lib.trees import write

pytestmark = [pytest.mark.any_engine("names are looked up below the engines"),
              pytest.mark.skipif(os.geteuid() != 0, reason="needs root; to others the kernel refuses by itself")]
TEXT = b"text\n"
# path, mode of the last component, status
FILES = [("open", 0o644, 200), ("others", 0o604, 200), ("private", 0o600, 403), ("group", 0o640, 403), ("none", 0, 403),
         ("write only", 0o642, 403)]
FOLDERS = [("d755", 0o755, 200, 200), ("d711", 0o711, 403, 200), ("d754", 0o754, 403, 403), ("d700", 0o700, 403, 403)]


@pytest.fixture
def modes(tree):
    for name, mode, _ in FILES:
        write(f"{tree}/{name}", TEXT)
        os.chmod(f"{tree}/{name}", mode)
        os.symlink(name, f"{tree}/link to {name}")
    for name, mode, _, _ in FOLDERS:
        write(f"{tree}/{name}/file", TEXT)
        write(f"{tree}/{name}/sub/file", TEXT)
        os.symlink(f"{name}/sub/file", f"{tree}/into {name}")
        os.chmod(f"{tree}/{name}", mode)
    return tree


def answers(wire):
    def get(path):
        reply = wire.ask("/" + path.replace(" ", "%20"))
        assert reply.status != 200 or path.endswith("/") or reply.body == TEXT
        return reply.status
    files = {name: {get(name), get(f"link to {name}")} for name, _, _ in FILES}
    folders = {name: (get(f"{name}/"), {get(f"{name}/file"), get(f"{name}/sub/file"), get(f"{name}/sub/"),
                                        get(f"into {name}")}) for name, _, _, _ in FOLDERS}
    return files, folders


@pytest.mark.core
def test_what_others_may_not_read(start, modes):
    with start(modes).wire() as wire:
        for _ in range(2):  # a cache must not forget it
            files, folders = answers(wire)
            assert files == {name: {status} for name, _, status in FILES}
            assert folders == {name: (listing, {below}) for name, _, listing, below in FOLDERS}
        reply = wire.ask("/")  # the folder that was named is served, and its names are no secret
        assert reply.status == 200


@pytest.mark.userspace("a user")
def test_user_root_serves_all(start, modes):
    with start(modes, "--user", "root").wire() as wire:
        files, folders = answers(wire)
        assert set.union(*files.values()) == {200}
        assert all(listing == 200 and below == {200} for listing, below in folders.values())


@pytest.mark.userspace("a root of its own mode")
def test_the_folder_itself_was_named_on_purpose(start, tree):
    write(f"{tree}/file", TEXT)
    os.chmod(tree, 0o700)
    with start(tree).wire() as wire:
        assert wire.ask("/file").body == TEXT and wire.ask("/").status == 200


def test_a_mode_that_changes_counts_at_once(start, tree):
    """The mode of the file itself counts at once, that of a folder above it within a second."""
    write(f"{tree}/file", TEXT)
    with start(tree).wire() as wire:
        for mode, status in ((0o644, 200), (0o600, 403), (0o644, 200), (0o640, 403)):
            os.chmod(f"{tree}/file", mode)
            assert wire.ask("/file").status == status
