# SPDX-License-Identifier: MIT
"""Names of any bytes: a name that a listing links answers 200, and a name that it does not link is refused."""
import json
import os
import shutil
import tempfile

import pytest
from lib import server
from lib.trees import quote
from test_listing import Page, path_of

pytestmark = pytest.mark.any_engine("names are written and read by the core")

LEADS = range(0x80, 0x100)
TRAILS = (0x80, 0xAF, 0x61)  # after 0xE0 and 0xF0 the first is overlong, the second is not
UNSAFE = [*range(0x80, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]


def tricky():
    """Names of every single byte, of every lead byte with some trail bytes, and names that deceive people."""
    yield from (bytes([byte]) for byte in range(1, 256) if byte not in b"./")
    yield from (bytes([lead, trail]) for lead in LEADS for trail in TRAILS)
    yield from (f"a{chr(code)}b".encode() for code in UNSAFE)
    yield from (b"..a", b"...", b"a..", b"%2e%2e", b"%2f", b"%c0%af", b"..\xc0\xaf..", b"a\xc0\xafb", b"%00",
                b"?a=b", b"#a", b"a:b", b"\\", b"con.", b" ", b"n" * 255, b"\xff" * 255,
                b"\xe2\x80", b"\xed\xa0\x80", b"\xf0\x80\x80\xaf", b"\xe0\x80\xaf", b"\xf4\x90\x80\x80")


@pytest.fixture(scope="module")
def named(engine):
    """A server with --hidden, files with all these names that hold their name, and folders of the same below "in"."""
    tree, names = tempfile.mkdtemp(prefix="rung-wire-"), sorted(set(tricky()))
    os.chmod(tree, 0o755)
    os.makedirs(f"{tree}/in")
    for name in names:
        os.makedirs(os.fsencode(tree) + b"/in/" + name)
        with open(os.fsencode(tree) + b"/" + name, "wb") as out:
            out.write(name)
    one = server.Server(tree, "--hidden")
    yield one, names
    one.stop()
    shutil.rmtree(os.fsencode(tree))


def statuses(served, paths):
    """{path: (status, body)}"""
    found, left = {}, list(paths)
    while left:
        with served.wire() as wire:
            closes = False
            while left and not closes:  # a refusal ends the connection
                reply = wire.ask(left[-1])
                found[left.pop()] = reply.status, reply.body
                closes = reply.closes
    return found


@pytest.mark.long
# shows K13, U04
def test_every_link_answers(named):
    served, names = named
    rows = json.loads(served.ask("/?format=json").body)["entries"]
    assert len(rows) == len(names) + 1
    linked = {row["href"][1:] for row in rows if row["href"]}
    page = Page(served.ask("/").body.decode("utf-8"))
    assert {href[1:] for href, _ in page.links if path_of("/", href) not in (None, b"/")} == linked
    for path, (status, body) in statuses(served, sorted(linked - {"/in/"})).items():
        assert status == 200 and quote(body) == path[1:], path
    refused = [quote(b"/" + name) for name in names if quote(b"/" + name) not in linked]
    assert len(refused) + len(linked) == len(names) + 1
    assert "/%C0%AF" in refused and "/a%C0%AFb" in refused and "/%C0a" in linked and "/%FF" in linked
    assert {status for status, _ in statuses(served, refused).values()} == {400}


@pytest.mark.long
def test_every_folder_answers(named):
    served, names = named
    rows = json.loads(served.ask("/in/?format=json").body)["entries"]
    assert len(rows) == len(names)
    linked = [f"/in/{row['href'][2:]}" for row in rows if row["href"]]
    assert len(linked) > len(names) * 0.9
    assert {status for status, _ in statuses(served, linked).values()} == {200}


def test_no_name_acts_on_its_reader(named):
    """No format has raw control characters or those that reverse text; JSON still has them as escapes."""
    served, names = named
    for query in ("", "?format=json", "?format=text"):
        text = served.ask("/" + query).body.decode("utf-8")
        assert not [hex(code) for code in UNSAFE if chr(code) in text], query
        assert not set(text) & {chr(code) for code in range(32) if code != 10}, query
        assert "\x7f" not in text
    found = {row["name"] for row in json.loads(served.ask("/?format=json").body)["entries"]}
    assert {f"a{chr(code)}b" for code in UNSAFE} <= found
