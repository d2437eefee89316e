# SPDX-License-Identifier: MIT
"""A folder in pages, by ?offset=N&limit=N: together the pages are the whole, in every order and format."""
import json
import os
import re
import urllib.parse

import pytest
from lib.trees import write

pytestmark = pytest.mark.any_engine("the core makes pages")

ENTRIES = 23
SORTED = "--listing-max", str(ENTRIES)
STREAMED = "--listing-max", str(ENTRIES - 1)
WHOLE = {"folders": 3, "files": ENTRIES - 3, "others": 0, "size_bytes": sum(i % 5 for i in range(3, ENTRIES))}


@pytest.fixture
def shelf(tree):
    """A folder where many entries share sizes and times, so that their order needs the names too."""
    for i in range(ENTRIES):
        if i < 3:
            os.mkdir(f"{tree}/folder {i}")
        else:
            write(f"{tree}/{i}.txt", b"x" * (i % 5))
        os.utime(f"{tree}/folder {i}" if i < 3 else f"{tree}/{i}.txt", (1_500_000_000 + i % 4,) * 2)
    return tree


def page(wire, query):
    reply = wire.ask("/?format=json&" + query)
    assert reply.status == 200, reply
    return json.loads(reply.body)


def names(data):
    return [row["name"] for row in data["entries"]]


def followed(wire, query):
    """Lists of the names on that page and those after it, each page found by the "next" of the one before."""
    found, data = [], page(wire, query)
    while True:
        found.append(names(data))
        if data["next"] is None:
            return found
        data = json.loads(wire.ask("/" + data["next"]).body)


@pytest.mark.core
@pytest.mark.parametrize("limit", [1, 7, ENTRIES - 1, ENTRIES, ENTRIES + 1, 999_999_999])
# shows K16, S28
def test_pages_are_the_whole(start, shelf, limit):
    """Pages of a sorted folder: each entry once, in the whole's order, and the totals are of all pages."""
    with start(shelf, *SORTED).wire() as wire:
        for order in ("", "sort=size&order=desc", "sort=time", "filter=1"):
            whole = page(wire, order)
            assert "next" not in whole
            pages = followed(wire, f"{order}&limit={limit}")
            assert sum(pages, []) == names(whole)
            assert {len(one) for one in pages[:-1]} <= {limit} and len(pages) == -(-len(names(whole)) // limit)
        assert {key: page(wire, f"limit={limit}")[key] for key in WHOLE} == WHOLE


@pytest.mark.core
@pytest.mark.parametrize("limit", [1, 7, ENTRIES - 1, ENTRIES, ENTRIES + 1])
def test_pages_of_a_stream(start, shelf, limit):
    """Pages of a folder too large to sort: in the folder's own order, and the totals are the page's."""
    with start(shelf, *STREAMED).wire() as wire:
        whole = page(wire, "")
        assert whole["sorted"] is False
        pages = followed(wire, f"limit={limit}")
        assert sum(pages, []) == names(whole) and len(pages) == -(-ENTRIES // limit)
        last = page(wire, f"offset={ENTRIES - 2}&limit=9")
        assert last["folders"] + last["files"] == 2 and last["next"] is None
        text = wire.ask(f"/?offset={limit}&limit={limit}&format=text").body.decode()
        assert "# not sorted" in text and ("# next: ?" in text) is (2 * limit < ENTRIES)
        html = wire.ask(f"/?offset={limit}&limit={limit}").body.decode()
        shown = min(limit, max(ENTRIES - limit, 0))
        where = f"{limit + 1}\u2013{limit + shown}" if shown else "0"
        assert f"<span>{where}</span>" in html and " on this page</p>" in html
        assert bool(links(html, "next")) is (2 * limit < ENTRIES) and len(links(html, "prev")) == 1


@pytest.mark.parametrize("options", [SORTED, STREAMED])
@pytest.mark.parametrize("query, wanted", [
    ("offset=5", slice(5, None)), ("offset=5&limit=0", slice(5, None)), ("limit=5&offset=0", slice(0, 5)),
    ("offset=20&limit=5", slice(20, None)), (f"offset={ENTRIES}&limit=5", slice(0, 0)), ("offset=999999999", slice(0, 0)),
    ("limit=5&limit=7", slice(0, 7)), ("limit=05", slice(0, 5)),
    *((f"{key}={text}", slice(None)) for key in ("offset", "limit")
      for text in ("", "x", "-1", "+1", "1x", "%31", "0", "1000000000", "18446744073709551617")),
])
def test_odd_pages(start, shelf, options, query, wanted):
    """An invalid number, or one larger than any folder, is ignored, like anything else in a query."""
    with start(shelf, *options).wire() as wire:
        assert names(page(wire, query)) == names(page(wire, ""))[wanted]


def links(text, rel):
    return [urllib.parse.unquote(href.replace("&amp;", "&")) for href in re.findall(rf'<a rel="{rel}" href="([^"]*)"', text)]


@pytest.mark.core
# shows K16, S28
def test_pages_for_people(start, shelf):
    """Plain links lead through all pages and back, and keep the rest of the query."""
    with start(shelf, *SORTED).wire() as wire:
        assert not links(wire.ask("/").body.decode(), "(?:next|prev)")
        at, seen = "?sort=size&order=desc&filter=t&limit=6", []
        while True:
            text = wire.ask("/" + at).body.decode()
            seen.append((at, re.findall(r"<bdi>(\S+\.txt)</bdi>", text), re.search(r"<nav aria-label=\"Pages\">.*?<span>(.*?)</span>", text)[1]))
            assert not seen[1:] or links(text, "prev") == [seen[-2][0]]
            assert "data-page" in text and 'name="limit" value="6"' in text
            if not links(text, "next"):
                break
            at = links(text, "next")[0]
        whole = page(wire, "sort=size&order=desc&filter=t")
        assert sum((found for _, found, _ in seen), []) == names(whole)
        assert [where for _, _, where in seen] == ["1\u20136 of 20", "7\u201312 of 20", "13\u201318 of 20", "19\u201320 of 20"]
        columns = links(text, "nofollow")[:3]
        assert len(columns) == 3 and all("limit=6" in href and "offset" not in href for href in columns)
        assert "?sort=size&order=desc&filter=t" in links(text, "nofollow") and ">On one page</a>" in text
        for query, last in (("", 18), ("filter=t&", 18), ("filter=19&", 0)):
            beyond = wire.ask(f"/?{query}offset=99&limit=6").body.decode()
            assert "This page is past the last entry." in beyond and not links(beyond, "next")
            assert f"offset={last}&" in links(beyond, "prev")[0] if last else "offset" not in links(beyond, "prev")[0]
        assert "No name contains" in wire.ask("/?filter=zz&offset=6&limit=6").body.decode()


def test_text_says_what_follows(start, shelf):
    with start(shelf, *SORTED).wire() as wire:
        lines = wire.ask("/?format=text&limit=20").body.decode().splitlines()
        assert len(lines) == 21 and lines[-1].startswith("# next: ?")
        assert len(wire.ask("/" + lines[-1].split()[-1]).body.decode().splitlines()) == ENTRIES - 20


@pytest.mark.parametrize("count, offered", [(1000, False), (1001, True)])
def test_long_folders_offer_pages(start, tree, count, offered):
    for i in range(count):
        write(f"{tree}/{i}", b"")
    with start(tree).wire() as wire:
        text = wire.ask("/").body.decode()
        assert (">Split into pages</a>" in text) is offered
        assert not offered or any("limit=1000" in href for href in links(text, "nofollow"))


def test_keys_do_not_meet(start, tree):
    """A page of the root whose numbers and filter look like a folder's name is not taken for that folder."""
    os.mkdir(f"{tree}/000")
    write(f"{tree}/000/file", b"")
    with start(tree).wire() as wire:
        for query in ("offset=808464431&filter=%00%00%00%00", "filter=%2F000", "filter=000", "filter=000%00000"):
            for _ in range(5):
                assert wire.ask(f"/?{query}").status == 200
            assert [names(page(wire, "")), wire.ask("/000/").body.count(b'href="./file"')] == [["000"], 1]


@pytest.mark.core
def test_kept_pages(start, shelf):
    """Pages are requested so often that a cache has them: each is the right one, and none is older than a change."""
    with start(shelf).wire() as wire:
        for name in ("0", "1.5"):
            whole = names(page(wire, ""))
            for _ in range(30):
                assert names(page(wire, "limit=8")) == whole[:8]
                assert names(page(wire, "limit=8&offset=8")) == whole[8:16]
                assert names(page(wire, "offset=8")) == whole[8:]
                assert names(page(wire, "")) == whole
            write(f"{shelf}/{name}.txt", b"")
