# SPDX-License-Identifier: MIT
"""Real files: a documentation tree of thousands, crawled from / by its own links, every byte
compared."""
import html.parser
import os
import time
import urllib.parse

import pytest
from lib.trees import quote

pytestmark = pytest.mark.any_engine("a listing and its files")

ROOTS = ["/usr/share/doc", "/usr/share", "/etc"]
SECONDS = 15  # after that, and after AT_LEAST files, no new folder is entered; files already found are still compared
AT_LEAST = 300


class Links(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        href = dict(attrs).get("href")
        if tag == "a" and href and not href.startswith("?"):
            self.found.append(href)


def visible(root, folder):
    """The names that a listing has to link to: all except hidden names, and links only if they can be
    followed inside the root."""
    names = set()
    top = os.path.realpath(root).encode()
    for entry in os.scandir(folder):
        if entry.name.startswith(b"."):
            continue
        if entry.is_symlink():
            real = os.path.realpath(entry.path)
            if os.readlink(entry.path).startswith(b"/") or not real.startswith(top + b"/"):
                continue
        if entry.is_dir() or entry.is_file():
            names.add(entry.name + (b"/" if entry.is_dir() else b""))
    return names


def same_file(wire, root, path):
    """Compare the file behind a decoded path; returns its size."""
    reply = wire.ask(quote(path))
    if not os.access(root.encode() + path, os.R_OK):
        assert reply.status == 403
        return 0
    assert reply.status == 200, (path, reply)
    with open(root.encode() + path, "rb") as file:
        assert reply.body == file.read(), path
    return len(reply.body)


@pytest.mark.long
# shows K14
def test_crawl(start):
    root = next((root for root in ROOTS if os.path.isdir(root)), None)
    if not root:
        pytest.skip("no tree of real files here")
    files = folders = size = 0
    end = time.monotonic() + SECONDS
    queue, seen = [b"/"], {b"/"}
    with start(root).wire() as wire:
        while queue and (files < AT_LEAST or time.monotonic() < end):
            folder = queue.pop()
            reply = wire.ask(quote(folder))
            if os.path.exists(root.encode() + folder + b"index.html"):
                continue  # its own page: its links are not ours
            assert reply.status == 200, (folder, reply)
            folders += 1
            linked = {urllib.parse.unquote_to_bytes(urllib.parse.urljoin("http://x" + quote(folder),
                href))
                      for href in Links(reply.body.decode("utf-8")).found}
            below = {url[len(b"http://x"):] for url in linked if url.startswith(b"http://x" + folder)} - {folder}
            assert {path[len(folder):] for path in below} == visible(root,
                root.encode() + folder), folder
            for path in sorted(below - seen):
                seen.add(path)
                if path.endswith(b"/"):
                    queue.append(path)
                elif os.path.getsize(root.encode() + path) < 4 << 20:
                    size += same_file(wire, root, path)
                    files += 1
    print(f"{root}: {files} files, {folders} folders, {size} bytes, all alike")
    assert files >= AT_LEAST or not queue
