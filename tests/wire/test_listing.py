# SPDX-License-Identifier: MIT
"""Folders as pages: parsed as a browser would parse them, with every link followed."""
import html.parser
import json
import os
import threading
import time
import urllib.parse

import pytest
from lib import server
from lib.client import request
from lib.trees import ODD_NAMES, content, many_names, quote, write

any_engine = pytest.mark.any_engine("the core writes it")

VOID = {"meta", "link", "input", "br", "hr", "img"}
OPTIONAL_END = {"li", "tr", "td", "th", "thead", "tbody", "p", "html", "body", "head"}


class Page(html.parser.HTMLParser):
    """Links, text and the shape of a page; elements that are closed but were not open are an
    error."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.links, self.words, self.titles, self.open, self.tags = [], [], [], [], []
        self.href, self.label = None, ""
        self.feed(text)
        self.close()
        left = [tag for tag in self.open if tag not in OPTIONAL_END]
        assert not left, f"never closed: {left}"

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"attribute twice in <{tag}>: {attrs}"
        assert not any(name.startswith("on") for name in names), f"handler in <{tag}>: {attrs}"
        self.tags.append((tag, dict(attrs)))
        self.titles += [value for name, value in attrs if name == "title"]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "a":
            self.href, self.label = dict(attrs).get("href"), ""

    def handle_endtag(self, tag):
        assert tag in self.open, f"</{tag}> without <{tag}>"
        while self.open.pop() != tag:
            pass
        if tag == "a":
            self.links.append((self.href, self.label))

    def handle_data(self, data):
        self.words.append(data)
        self.label += data


def path_of(base, href):
    """Where a link leads, as bytes of a decoded path; None for a link that only changes the view."""
    url = urllib.parse.urlsplit(urllib.parse.urljoin("http://x" + base, href))
    assert url.netloc == "x" and url.scheme == "http", href
    return None if url.query else urllib.parse.unquote_to_bytes(url.path)


def entries(base, page):
    """Paths below base that the page links to, in its order."""
    here = urllib.parse.unquote_to_bytes(base)
    paths = [path_of(base, href) for href, _ in page.links]
    return [path for path in paths if path and path.startswith(here) and path != here]


def listing(wire, target, *fields):
    reply = wire.ask(target, fields=list(fields))
    assert reply.status == 200, reply
    return reply


@pytest.mark.core
# shows K13, S28
def test_every_name_once(wire, standard):
    """Names with every kind of character, each listed once, each link leading to its file."""
    reply = listing(wire, "/odd/")
    assert reply["content-type"] == "text/html; charset=utf-8"
    found = entries("/odd/", Page(reply.body.decode("utf-8")))
    assert sorted(found) == sorted(b"/odd/" + name for name in ODD_NAMES)
    for i, name in enumerate(ODD_NAMES):
        assert wire.ask("/odd/" + quote(name)).body == content(f"odd {i}", 100 + i)


@any_engine
# shows K13
def test_names_are_text(wire):
    """A name is never markup, script or another site (nginx's autoindex XSS): none runs, all are
    shown."""
    text = listing(wire, "/odd/").body.decode("utf-8")
    page = Page(text)
    assert not any(tag == "img" for tag, _ in page.tags)
    assert not any(tag in ("b", "script") and "alert" in str(attrs) for tag, attrs in page.tags)
    for href, _ in page.links:
        assert not href.lower().startswith(("javascript:", "http:", "data:", "//")), href
    words = "".join(page.words)
    for name in (b"<b>bold", b"<script>alert(1)<", b"&amp;", b"'\"><img src=x>",
                 b"javascript:alert(1)"):
        assert name.decode() in words, name


@any_engine
# shows U04
def test_bad_utf8_is_shown_as_such(wire):
    assert "\ufffd" in listing(wire, "/odd/").body.decode("utf-8")


@pytest.mark.core
# shows K20
def test_chunks(wire):
    """A strict decoder accepts the listing, and the next answer on the connection too."""
    reply = listing(wire, "/odd/")
    if "transfer-encoding" in reply.fields:
        assert reply.chunks and all(reply.chunks) and sum(reply.chunks) == len(reply.body)
    assert wire.ask("/hello.txt").body == b"Hello, world\n"
    assert wire.ask("/odd/", "HEAD").status == 200
    assert wire.ask("/hello.txt").body == b"Hello, world\n"


@any_engine
@pytest.mark.core
# shows K15, S28
def test_parent_from_any_depth(wire):
    """Following parent links ends at the root and stays there; the seed's first version was stuck at depth
    one."""
    here, steps = "/a/b/c/d/e/", []
    while here != "/":
        page = Page(listing(wire, here).body.decode())
        up = [href for href, _ in page.links if href == "../"]
        assert up, here
        here = path_of(here, up[0]).decode()
        steps.append(here)
    assert steps[:2] == ["/a/b/c/d/", "/a/b/c/"] and steps[-1] == "/"
    for href, _ in Page(listing(wire, "/").body.decode()).links:
        assert (path_of("/", href) or b"/").startswith(b"/")


@any_engine
@pytest.mark.parametrize("depth, title", [(0, "/"), (1, "1 \u2039 /"), (8, "8 \u2039 7 \u2039 6 \u2039 5 \u2039 4 \u2039 3 \u2039 2 \u2039 1 \u2039 /"),
                                          (9, "9 \u2039 8 \u2039 7 \u2039 6 \u2039 5 \u2039 4 \u2039 3 \u2039 2 \u2039 \u2026")])
def test_title_is_the_path(start, tree, depth, title):
    """The folder first, because tabs cut a long title at its end; up to eight components."""
    path = "/".join(str(number + 1) for number in range(depth))
    os.makedirs(f"{tree}/{path}", exist_ok=True)
    with start(tree).wire() as wire:
        assert f"<title>{title}</title>" in wire.ask(f"/{path}/" if path else "/").body.decode()


def crawl(wire, start_at="/"):
    """Every path that links lead to from there: {path: body}."""
    seen, queue = {}, [start_at.encode()]
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        reply = wire.ask(quote(path))
        assert reply.status == 200, (path, reply)
        seen[path] = reply.body
        if path.endswith(b"/") and b"index" not in path:
            queue += entries(quote(path), Page(reply.body.decode("utf-8")))
    return seen


@any_engine
# shows K14, S28
def test_crawl_reaches_everything(start, tree):
    """A tree of many names and depths, from its root by its own links, byte for byte."""
    expected = {}
    folders = [os.fsencode(tree)]
    for i, name in enumerate(ODD_NAMES):
        if len(name) < 200:
            folders.append(folders[i % len(folders)] + b"/" + name)
        path = folders[-1] + b"/file of " + name[:100]
        expected[path[len(os.fsencode(tree)):]] = write(path, content(i, i * 37))
    with start(tree).wire() as wire:
        found = {path: body for path, body in crawl(wire).items() if not path.endswith(b"/")}
    assert found == expected


@any_engine
@pytest.mark.core
# shows K16, S28, U09
def test_sorting(start, tree):
    """Links alone sort by each column, both ways; folders stay first."""
    for i, (name, size) in enumerate([("bravo", 30), ("alpha", 20), ("delta", 10),
                                      ("charlie", 40)]):
        write(f"{tree}/{name}", bytes(size), mtime=1_600_000_000 + [3, 1, 4, 2][i] * 100_000)
    os.makedirs(f"{tree}/zulu")
    os.makedirs(f"{tree}/yankee")
    by = {"name": ["alpha", "bravo", "charlie", "delta"],
          "size": ["delta", "alpha", "bravo", "charlie"],
          "time": ["alpha", "charlie", "bravo", "delta"]}
    with start(tree).wire() as wire:
        seen = set()
        todo = ["/"]
        while todo:
            target = todo.pop()
            page = Page(listing(wire, target).body.decode())
            names = [path[1:].decode() for path in entries("/", page)]
            assert sorted(names[:2]) == ["yankee/", "zulu/"], names
            for column, order in by.items():
                for way, wanted in (("up", order), ("down", order[::-1])):
                    if names[2:] == wanted:
                        seen.add((column, way))
            views = [href for href,
                     _ in page.links if href.startswith("?") and "format" not in href]
            todo += [f"/{href}" for href in views if (f"/{href}" not in todo and href not in seen)]
            seen.update(views)
        assert {(column, way) for column in by for way in ("up", "down")} <= seen


@any_engine
@pytest.mark.core
def test_json(wire, standard):
    """A listing's data for machines, by Accept and by query."""
    reply = listing(wire, "/size/", "Accept: application/json")
    assert reply["content-type"].startswith("application/json")
    data = json.loads(reply.body.decode("utf-8"))
    assert [row["kind"] for row in data["entries"]] == ["file"] * len(os.listdir(f"{standard}/size"))
    for row in data["entries"]:
        path = f"{standard}/size/{row['name']}"
        assert row["size_bytes"] == os.path.getsize(path)
        assert row["href"] == "./" + row["name"]
        seconds = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(os.stat(path).st_mtime))
        assert row["modified"] == seconds
    assert data["sorted"] is True and data["path"] == "/size/"
    again = wire.ask("/size/?format=json")
    assert again.body == reply.body
    assert "accept" in (reply.get("vary") or "").lower()


@any_engine
def test_json_of_odd_names(wire):
    data = json.loads(listing(wire, "/odd/", "Accept: application/json").body.decode("utf-8"))
    links = {urllib.parse.unquote_to_bytes(row["href"][2:]) for row in data["entries"]}
    assert links == set(ODD_NAMES)
    shown = {row["name"] for row in data["entries"]}
    assert {name.decode("utf-8", "replace") for name in ODD_NAMES if name.isascii()} <= shown


@any_engine
@pytest.mark.parametrize("accept, kind", [
    (None, "text/html"), ("*/*", "text/html"), ("text/html", "text/html"), ("text/*", "text/html"),
    ("application/json", "application/json"),
    ("application/*", "application/json"), ("application/*;q=0.5, text/html", "text/html"),
    ("text/html;q=0, */*", "application/json"), ("text/html;q=0", "text/plain"),
    ("text/html;q=0, application/json;q=0, */*", "text/plain"),
    ("text/plain", "text/plain"), ("text/html;q=0.5, application/json", "application/json"),
    ("application/json;q=0.5, text/html", "text/html"), ("application/json;q=0, */*", "text/html"),
    ("text/plain, application/json;q=0.9", "text/plain"), ("image/png", None),
    ("nonsense", "text/html"),
    ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", "text/html")])
# shows U10
def test_formats(wire, accept, kind):
    reply = wire.ask("/list/", fields=[f"Accept: {accept}"] if accept else [])
    assert reply.status == 200 or (kind is None and reply.status == 406)
    if kind:
        assert reply["content-type"].startswith(kind)


@any_engine
def test_text_has_a_line_for_each(wire):
    """Names with line breaks and escapes stay on their line and reach no terminal raw."""
    reply = listing(wire, "/odd/", "Accept: text/plain")
    lines = reply.body.decode("utf-8").splitlines()
    assert len(reply.body.split(b"\n")) - 1 == len(ODD_NAMES) == len(lines)
    assert b"\x1b" not in reply.body and b"\r" not in reply.body and b"\x7f" not in reply.body


@any_engine
def test_sizes_people_read(wire):
    """Rounded sizes, with the exact one on hover."""
    page = Page(listing(wire, "/size/").body.decode())
    words = "".join(page.words)
    assert "1.0 MiB" in words or "1 MiB" in words
    assert any(title.replace(",", "").startswith("1048576 ") for title in page.titles)


@any_engine
def test_special_entries_are_shown_not_linked(wire):
    page = Page(listing(wire, "/special/").body.decode())
    linked = {path.rsplit(b"/", 1)[1] for path in entries("/special/", page)}
    assert not linked & {b"fifo", b"socket", b"device"}
    assert "fifo" in "".join(page.words)


@any_engine
def test_links_that_leave_are_not_linked(wire):
    """A link out of the root is refused when requested, so it is not linked in the listing either."""
    page = Page(listing(wire, "/link/").body.decode())
    linked = {path.rstrip(b"/").rsplit(b"/", 1)[1] for path in entries("/link/", page)}
    assert linked >= {b"file", b"dir", b"chain"}
    for path in entries("/link/", page):
        assert wire.ask(quote(path)).status == 200, path


@any_engine
# shows H07, U10
def test_filter_without_script(wire):
    page = Page(listing(wire, "/list/?filter=ON").body.decode())
    assert entries("/list/", page) == [b"/list/one.txt"]
    text = listing(wire, "/list/?filter=%22%3E%3Cscript%3Ealert(1)").body.decode()
    Page(text)
    assert "<script>alert" not in text


@any_engine
@pytest.mark.parametrize("query",
                         ["sort=", "sort=x", "order=x", "sort=name&sort=size", "filter=%",
                          "filter=%00",
                                   "format=xml", "&&&=", "filter=" + "x" * 2000,
                                   "sort=size&order=desc&filter="])
def test_odd_queries(wire, query):
    assert listing(wire, "/list/?" + query).body


@any_engine
def test_empty_folder(wire):
    page = Page(listing(wire, "/empty/").body.decode())
    assert entries("/empty/", page) == []
    assert json.loads(listing(wire, "/empty/?format=json").body)["entries"] == []


@any_engine
# shows K12
def test_switched_off(start, standard):
    """403 for a folder without index; its files, and folders with an index, are still served."""
    with start(standard, "--listing", "off").wire() as wire:
        assert wire.ask("/list/").status == 403
        assert wire.ask("/list/one.txt").body == b"1\n"
        assert wire.ask("/index/").status == 200
        assert wire.ask("/hello.txt").status == 200


@any_engine
# shows K12
def test_other_index(start, standard):
    with start(standard, "--index", "one.txt").wire() as wire:
        assert wire.ask("/list/").body == b"1\n"
        assert b"index.html" in wire.ask("/index/").body


@any_engine
def test_index_that_is_no_file(start, tree):
    """index.html as a folder, a pipe, a link out: the listing, 403 or 404; never a block, never the
    outside."""
    os.makedirs(f"{tree}/folder/index.html")
    os.makedirs(f"{tree}/pipe")
    os.mkfifo(f"{tree}/pipe/index.html")
    os.makedirs(f"{tree}/out")
    os.symlink("/etc/passwd", f"{tree}/out/index.html")
    with start(tree).wire() as wire:
        for name in ("folder", "pipe", "out"):
            reply = wire.ask(f"/{name}/")
            assert reply.status in (200, 403, 404) and b"root:" not in reply.body


# --- a hundred thousand
# ---------------------------------------------------------------------------------

MANY = 100_000


@pytest.fixture(scope="module")
def crowd(engine):
    with many_names(MANY) as path:
        one = server.Server(path)
        yield one
        one.stop()


@any_engine
@pytest.mark.long
# shows K13
def test_hundred_thousand(crowd):
    """All names are listed, once each, in order; HTML has a link for each, too."""
    with crowd.wire() as wire:
        text = listing(wire, "/many/?format=text").body.split(b"\n")
        assert [line.rsplit(b" ", 1)[1] for line in text[:-1]] == [b"%06d" % i for i in range(MANY)]
        data = json.loads(listing(wire, "/many/?format=json&order=desc").body)
        assert data["sorted"] and data["files"] == MANY
        assert [row["name"] for row in data["entries"]] == [f"{i:06}" for i in reversed(range(MANY))]
        page = listing(wire, "/many/").body
        assert page.count(b'href="./') == MANY


@pytest.mark.long
@pytest.mark.capacity(2)
def test_others_are_served_meanwhile(crowd):
    """While a large listing is made and sent, small files do not wait for it."""
    done, counts = threading.Event(), []

    def lister():
        with crowd.wire() as wire:
            for _ in range(3):
                wire.send(request("/many/?sort=size"))
                assert len(wire.reply().body) > MANY * 50
        done.set()
    thread = threading.Thread(target=lister, daemon=True)
    with crowd.wire() as wire:
        thread.start()
        while not done.is_set() and thread.is_alive():
            counts.append(wire.ask("/hello.txt").status)
    thread.join(60)
    assert done.is_set() and len(counts) > 20, len(counts)


# shows K20
def test_beyond_the_limit_it_streams(crowd):
    """With one entry more the listing is unsorted, says so, and is still complete."""
    write(f"{crowd.root}/many/one-more", b"x")
    with crowd.wire() as wire:
        data = json.loads(listing(wire, "/many/?format=json").body)
        assert data["sorted"] is False
        names = {row["name"] for row in data["entries"]}
        assert len(names) == len(data["entries"]) == MANY + 1
        assert b"not sorted" in listing(wire, "/many/?format=text").body[-200:]
    os.unlink(f"{crowd.root}/many/one-more")


@any_engine
@pytest.mark.parametrize("count, is_sorted", [(19, True), (20, True), (21, False), (500, False)])
def test_listing_max(start, tree, count, is_sorted):
    """On both sides of --listing-max every entry is listed, and each format says whether it is sorted."""
    for i in range(count):
        write(f"{tree}/{i * 7 % count:04}" if count % 7 else f"{tree}/{i:04}", b"x")
    with start(tree, "--listing-max", "20").wire() as wire:
        names = [f"{i:04}" for i in range(count)]
        for order, wanted in (("asc", names), ("desc", names[::-1])):
            data = json.loads(listing(wire, f"/?format=json&order={order}").body)
            found = [row["name"] for row in data["entries"]]
            assert data["sorted"] is is_sorted and data["files"] == count
            assert found == wanted if is_sorted else sorted(found) == names
        page = Page(listing(wire, "/").body.decode())
        assert ("Too many entries" in "".join(page.words)) != is_sorted
        assert len(entries("/", page)) == count


@any_engine
def test_streamed_names(start, wide_tree):
    """Every name of a folder that is read in many pieces: a row that waits for the next chunk keeps its name."""
    names = {f"{i:05}-" + "n" * (i % 200) for i in range(8000)}
    for name in names | {f".{name}" for name in names}:
        write(f"{wide_tree}/{name}", b"")
    with start(wide_tree, "--listing-max", "20").wire() as wire:
        data = json.loads(listing(wire, "/?format=json").body)
        assert data["sorted"] is False
        found = [row["name"] for row in data["entries"]]
        assert len(found) == len(names) and set(found) == names
        text = listing(wire, "/?format=text").body.decode()
        assert {word for word in text.split() if "-n" in word} == {name for name in names if "-n" in name}


@pytest.mark.long
def test_clients_that_leave_a_listing(crowd):
    """Clients leave while the listing is made or sent: the job is dropped, nothing leaks, others are served."""
    for i in range(6):
        wire = crowd.wire(rcvbuf=4096)
        wire.send(request("/many/"))
        if i % 2:
            wire.take(10_000)
        wire.reset() if i % 3 else wire.close()
    assert crowd.ask("/hello.txt").status == 200
    crowd.check_counts()


def test_folder_that_changes(start, tree):
    """Entries are added and removed while the folder is listed: answers are whole nevertheless."""
    write(f"{tree}/stays", b"x")
    stop = threading.Event()

    def churn():
        i = 0
        while not stop.is_set():
            i += 1
            write(f"{tree}/f{i % 50}", b"x")
            if os.path.exists(f"{tree}/f{(i + 25) % 50}"):
                os.unlink(f"{tree}/f{(i + 25) % 50}")
    thread = threading.Thread(target=churn, daemon=True)
    thread.start()
    try:
        with start(tree).wire() as wire:
            for _ in range(150):
                page = Page(listing(wire, "/").body.decode())
                assert b"/stays" in entries("/", page)
    finally:
        stop.set()
        thread.join(30)
