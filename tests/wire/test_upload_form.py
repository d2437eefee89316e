# SPDX-License-Identifier: MIT
"""Files that clients store by a form (--upload): multipart/form-data, as browsers and curl -F send it, and malformed."""
import json
import os
import shutil
import subprocess

import pytest
from lib import mounts
from lib.client import request
from lib.server import wait_for
from lib.trees import content, write
from test_bodies import chunks
from test_upload import names, read, sending

pytestmark = pytest.mark.userspace("uploads")
TYPE = "Content-Type: multipart/form-data; boundary="
BROWSER = "Sec-Fetch-Site: same-origin"
EDGE = "----edge"


def part(name, data=None, more=""):
    """name: of the file; data None: a field that is no file."""
    if data is None:
        return f'Content-Disposition: form-data; name="{name}"\r\n\r\nvalue'.encode()
    disposition = f'Content-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: text/plain\r\n{more}\r\n'
    return disposition.encode("utf-8", "surrogateescape") + data


def form(*parts, edge=EDGE):
    start = b"--" + edge.encode()
    return b"".join(start + b"\r\n" + one + b"\r\n" for one in parts) + start + b"--\r\n"


def post(body, fields=(), edge=EDGE, target="/in/"):
    return request(target, "POST", [TYPE + edge, *fields], body)


@pytest.fixture
def up(start, tree):
    os.mkdir(f"{tree}/in")
    write(f"{tree}/in/there.txt", b"there before\n")
    return start(tree, "--upload", "in", "--upload-max", "2m")


def files(tree):
    return {name: read(f"{tree}/in/{name}") for name in names(f"{tree}/in") if name != "there.txt"}


# --- The page --------------------------------------------------------------------------------------------------


@pytest.mark.core
def test_the_form(up, start, tree):
    """The form is in listings of folders that take uploads, and in no others; it needs no script."""
    os.mkdir(f"{tree}/in/below")
    with up.wire() as wire:
        for target in ("/in/", "/in/below/", "/in/?filter=x", "/in/?sort=size"):
            page = wire.ask(target).body
            assert page.count(b'<form method="post" action="./" enctype="multipart/form-data">') == 1
        assert b'<form method="post"' not in wire.ask("/").body
        for form_of in ("json", "text"):
            assert b"<form" not in wire.ask(f"/in/?format={form_of}").body


@pytest.mark.core
# shows U93
def test_a_browser(up, tree):
    """303 and the folder again, where the new files are."""
    body = form(part("a.txt", b"one\r\n"), part("comment"), part("b c.bin", content("b", 200_000)))
    with up.wire() as wire:
        assert "a.txt" not in wire.ask("/in/").body.decode()
        wire.send(post(body, [BROWSER]) + request("/in/"))
        reply = wire.reply()
        assert reply.status == 303 and reply["location"] == "./" and not reply.closes
        page = wire.reply().body.decode()
        assert "a.txt" in page and "b c.bin" in page
        wire.send(post(form(part("", b"")), [BROWSER]))  # nothing was chosen
        assert wire.reply().status == 303
    assert files(tree) == {"a.txt": b"one\r\n", "b c.bin": content("b", 200_000)}


@pytest.mark.core
def test_a_program(up, tree):
    with up.wire() as wire:
        wire.send(post(form(part("a b.txt", b"x"), part("c.txt", b"y"))))
        reply = wire.reply()
        assert reply.status == 201 and reply["location"] == "/in/a%20b.txt"
        wire.send(post(form(part("comment"))))
        assert wire.reply().status == 400
        wire.send(request("/in/", "POST", [TYPE + EDGE, "Transfer-Encoding: chunked"]) + chunks(form(part("d.txt", b"z" * 5000)), 777))
        assert wire.reply().status == 201
    assert files(tree) == {"a b.txt": b"x", "c.txt": b"y", "d.txt": b"z" * 5000}


def test_curl(up, tree, tmp_path):
    if not shutil.which("curl"):
        pytest.skip("no curl")
    one, two = write(f"{tmp_path}/one", content("one", 1_200_000)), write(f"{tmp_path}/two", b"")
    done = subprocess.run(["curl", "-sSk", "-o", "/dev/null", "-w", "%{http_code}", "-F", f"f=@{tmp_path}/one", "-F", "x=y", "-F", f"f=@{tmp_path}/two",
                           up.url("/in/")], stdout=subprocess.PIPE, timeout=60, check=True)
    assert done.stdout == b"201" and files(tree) == {"one": one, "two": two}


# --- What a form may look like --------------------------------------------------------------------------------

DATA = [b"", b"\r", b"\n", b"\r\n", b"\r\n--", b"\r\n\r\n", b"--", b"\r\n----edg", b"\r\n----edgX", b"\r\n-", b"\r\r\n--", b"----edge", b"\r\n---edge--", b"a\r\r\r",
        b"\r\n--" * 50, b"\r" * 100, b"text\r\n--\r\n----ed"]


@pytest.mark.core
@pytest.mark.parametrize("data", DATA, ids=range(len(DATA)))
def test_data_that_looks_like_a_boundary(up, tree, data):
    with up.wire() as wire:
        wire.send(post(form(part("a", data), part("b", b"b"), edge="--edge"), edge="--edge"))
        assert wire.reply().status == 201
        assert files(tree) == {"a": data, "b": b"b"}


@pytest.mark.core
@pytest.mark.long
def test_cut_at_every_byte(up, tree):
    """Where a receive ends changes nothing: in boundaries, heads, data that looks like a boundary."""
    data = {"one.txt": b"1\r\n--\r\n----edg\r\r\n", "two.txt": b"", "three.txt": b"\r\n-----edge-"}
    body = form(*(part(name, text) for name, text in data.items()), part("field"))
    whole = post(body)
    head = len(whole) - len(body)
    with up.wire() as wire:
        for cut in range(head, len(whole)):
            wire.send_cut(whole, cut)
            reply = wire.reply()
            assert reply.status == 201, cut
            assert files(tree) == data, cut
            for name in data:
                os.unlink(f"{tree}/in/{name}")
        wire.send_cut(whole, *range(head, len(whole)))  # and byte by byte
        assert wire.reply().status == 201
        assert files(tree) == data


@pytest.mark.any_engine("how a body is written")
@pytest.mark.parametrize("boundary, edge", [
    ("x", "x"), ('"x"', "x"), ('"with space x"', "with space x"), ("b" * 70, "b" * 70), ("'()+_,-./:=?", "'()+_,-./:=?"), ("x; charset=utf-8", "x"),
    ('"a\\"b"', 'a"b'), ("----WebKitFormBoundary7MA4YWxkTrZu0gW", "----WebKitFormBoundary7MA4YWxkTrZu0gW")])
def test_boundaries(up, tree, boundary, edge):
    with up.wire() as wire:
        wire.send(post(form(part("a", b"data"), edge=edge), edge=boundary))
        assert wire.reply().status == 201
    assert files(tree) == {"a": b"data"}


@pytest.mark.any_engine("how a body is written")
@pytest.mark.parametrize("kind", [
    "multipart/form-data", "multipart/form-data; boundary=", 'multipart/form-data; boundary=""', "multipart/form-data; boundary=" + "b" * 71,
    "multipart/form-data; boundary=a; boundary=b", 'multipart/form-data; boundary="a', "multipart/mixed; boundary=a", "text/plain", "application/x-www-form-urlencoded",
    "multipart/form-data boundary=a", None])
def test_other_types(up, tree, kind):
    with up.wire() as wire:
        assert wire.ask("/in/", "POST", [f"Content-Type: {kind}"] if kind else [], form(part("a", b"x"), edge="a")).status == 415
        assert wire.ask("/in/there.txt").status == 200
    assert not files(tree)


GOOD_FORMS = [
    ("preamble", b"ignore me\r\n" + form(part("a", b"x")), {"a": b"x"}), ("empty line before", b"\r\n" + form(part("a", b"x")), {"a": b"x"}),
    ("epilogue", form(part("a", b"x")) + b"more\r\n------edge\r\n", {"a": b"x"}), ("no end of line", form(part("a", b"x"))[:-2], {"a": b"x"}),
    ("padding", b"------edge \t \r\n" + part("a", b"x") + b"\r\n------edge-- \r\n", {"a": b"x"}),
    ("capitals", b'------edge\r\nCONTENT-DISPOSITION: Form-Data; FileName=a\r\n\r\nx\r\n------edge--', {"a": b"x"}),
    ("blanks", b'------edge\r\nContent-Disposition:form-data ; name="n" ;filename="a" \r\n\r\nx\r\n------edge--', {"a": b"x"}),
    ("name of 255", form(part("n" * 255, b"x")), {"n" * 255: b"x"}), ("only the extended name", form(
        b"Content-Disposition: form-data; name=f; filename=\"a\"; filename*=UTF-8''b\r\n\r\nx"), {"a": b"x"}),
    ("backslashes", form(part('a\\"b\\\\c\\d', b"x")), {'a"b\\c\\d': b"x"}), ("semicolon", form(part("a;b=c", b"x")), {"a;b=c": b"x"}),
    ("utf-8", form(part("\u4e2d\u6587 \u00fc", b"x")), {"\u4e2d\u6587 \u00fc": b"x"}),
    ("head of 2,047", form(b"X: " + b"y" * 2044 + b"\r\n" + part("a", b"x")), {"a": b"x"}),
]


@pytest.mark.parametrize("name, body, want", GOOD_FORMS, ids=[row[0] for row in GOOD_FORMS])
def test_good_forms(up, tree, name, body, want):
    with up.wire() as wire:
        wire.send(post(body) + request("/in/there.txt"))
        assert wire.reply().status == 201
        assert wire.reply().body == b"there before\n"
    assert files(tree) == want


BAD_FORMS = [
    ("nothing", b"x", 400), ("no end", form(part("a", b"x"))[:-5], 400), ("one dash", form(part("a", b"x"))[:-3] + b"x", 400),
    ("bare LF", form(part("a", b"x")).replace(b"\r\n", b"\n"), 400), ("longer boundary", b"------edgeX\r\n" + part("a", b"x") + b"\r\n------edge--", 400),
    ("no head", b"------edge\r\n", 400), ("two names", form(b"Content-Disposition: form-data; filename=a; filename=b\r\n\r\nx"), 400),
    ("two dispositions", form(b"Content-Disposition: form-data; filename=a\r\n" + part("b", b"x")), 400),
    ("open quote", form(b'Content-Disposition: form-data; filename="a\r\n\r\nx'), 400), ("attachment", form(b"Content-Disposition: attachment; filename=a\r\n\r\nx"), 400),
    ("NUL in a head", form(b"X: \0\r\n" + part("a", b"x")), 400), ("CR in a head", form(b"X: a\rb\r\n" + part("a", b"x")), 400),
    ("long line", form(b"X: " + b"y" * 2045 + b"\r\n" + part("a", b"x")), 431), ("endless line", b"------edge\r\n" + b"y" * 5000, 431),
    ("long head", form(b"X: yyyyyyyyyyyyyyyyy\r\n" * 500 + part("a", b"x")), 431),
]


@pytest.mark.core
@pytest.mark.parametrize("name, body, status", BAD_FORMS, ids=[row[0] for row in BAD_FORMS])
def test_bad_forms(up, tree, name, body, status):
    with up.wire() as wire:
        wire.send(post(body))
        assert wire.reply().status == status
    with up.wire() as wire:
        wire.send_cut(post(body), len(post(body)) - 3)
        assert wire.reply().status == status
    wait_for(lambda: not up.open_paths(f"{tree}/in/"), "the file is closed")
    assert files(tree) in ({}, {"a": b"x"})  # a part that was complete is kept
    assert not files(tree) or name == "no end" or name == "one dash"


@pytest.mark.any_engine("a name means the same whoever waits for it")
@pytest.mark.parametrize("name, status", [
    ("a/b", 400), ("/etc/passwd", 400), ("../a", 400), ("..", 400), (".", 400), ("a\x7f", 400), ("a\tb", 400), ("n" * 256, 414), ("n" * 1500, 414), (".hidden", 403),
    ("index.html", 403), ("there.txt.gz", 201), ("there.txt", 409), ("\udcc0\udcaf", 414), ("..\\a", 403), ("C:\\a", 201), ("%2e%2e%2fa", 201)])
def test_names(up, tree, name, status):
    """The other files of the form are stored all the same."""
    before = names(tree)
    with up.wire() as wire:
        wire.send(post(form(part("first", b"1"), part(name, b"bad"), part("last", b"2"))))
        assert wire.reply().status == status
        assert wire.ask("/in/there.txt").body == b"there before\n"
    stored = {"first": b"1", "last": b"2", **({name: b"bad"} if status == 201 else {})}
    assert files(tree) == stored and names(tree) == sorted(before + [f"in/{one}" for one in stored])


def test_a_form_conflicts_with_itself(up, tree):
    with up.wire() as wire:
        wire.send(post(form(part("a", b"first"), part("a", b"second")), [BROWSER]))
        assert wire.reply().status == 409
    assert files(tree) == {"a": b"first"}


@pytest.mark.parametrize("parts, status", [(1024, 201), (1025, 413)])
def test_parts(up, tree, parts, status):
    with up.wire() as wire:
        sender = sending(wire, post(form(*[part("field")] * (parts - 1), part("a", b"x"))))
        assert wire.reply().status == status
        sender.join(30)
    assert files(tree) == ({"a": b"x"} if status == 201 else {})


@pytest.mark.core
def test_size_limit(start, tree):
    """--upload-max is for the whole form."""
    os.mkdir(f"{tree}/in")
    body = form(part("a", bytes(50_000)))
    with start(tree, "--upload", "in", "--upload-max", str(len(body))).wire() as wire:
        wire.send(post(body))
        assert wire.reply().status == 201
        wire.send(post(body + b"x"))
        reply = wire.reply()
        assert reply.status == 413 and reply.closes


@pytest.mark.skipif(not mounts.may(), reason="mounts need root")
def test_no_room(start, tree):
    """On a full disk a file that fits is kept even if the one before was not, whose bytes are released."""
    mounts.own()
    os.mkdir(f"{tree}/in")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", f"{tree}/in"], check=True)
    try:
        server = start(tree, "--upload", "in")
        body = form(part("large", bytes(2_000_000)), part("small", bytes(500_000)))
        with server.wire() as wire:
            wire.send(post(body))
            assert wire.reply().status == 507  # all of it, since its length is known
            assert not files(tree)
        with server.wire() as wire:
            sender = sending(wire, request("/in/", "POST", [TYPE + EDGE, "Transfer-Encoding: chunked"]) + chunks(body, 9_999))
            assert wire.reply().status == 507
            sender.join(30)
        assert files(tree) == {"small": bytes(500_000)}
        server.stop()
    finally:
        mounts.unmount(f"{tree}/in")


@pytest.mark.parametrize("end", ["close", "reset", "finish"])
def test_client_leaves(up, tree, end):
    """The file that was complete is there, and nothing of the next one."""
    body = form(part("a", b"whole"), part("b", bytes(200_000)), part("c", b"x"))
    with up.wire() as wire:
        wire.send(post(body)[:-1000])
        wait_for(lambda: os.path.exists(f"{tree}/in/a"), "the first file")
        getattr(wire, end)()
        if end == "finish":
            assert wire.reply().status == 400
    wait_for(lambda: not up.open_paths(f"{tree}/in/"), "the file is closed")
    assert files(tree) == {"a": b"whole", **({"b": bytes(200_000)} if "b" in files(tree) else {})}
    assert "c" not in files(tree)


@pytest.mark.any_engine("what a head means")
@pytest.mark.parametrize("field", ["Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"])
def test_pages_of_other_sites(up, tree, field):
    """A form on any page may be sent here by the browser of someone who may."""
    with up.wire() as wire:
        wire.send(post(form(part("a", b"x")), [field]))
        assert wire.reply().status == 403
        wire.send(post(form(part("b", b"x")), ["Origin: http://localhost"]))
        assert wire.reply().status == 303
    assert files(tree) == {"b": b"x"}


@pytest.mark.any_engine("what a head means")
def test_where_a_form_goes(up, tree):
    with up.wire() as wire:
        for target, status in (("/in/there.txt", 405), ("/in/new", 405), ("/", 405), ("/in/none/", 404), ("/in/?sort=size", 201)):
            wire.send(post(form(part("a", b"x")), target=target))
            assert wire.reply().status == status
    assert files(tree) == {"a": b"x"}


def test_counted(up):
    with up.wire() as wire:
        wire.send(post(form(part("a", bytes(70_000)), part("b", b"xx"), part("there.txt", b"no"))))
        assert wire.reply().status == 409
        assert {row["name"] for row in json.loads(wire.ask("/in/?format=json").body)["entries"]} == {"a", "b", "there.txt"}
    stats = up.stats()
    assert stats["uploads"] == 2 and stats["upload_bytes"] == 70_002
