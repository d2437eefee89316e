# SPDX-License-Identifier: MIT
"""Fields that options add to answers: --header, --max-age, --cors, --security-headers."""
import subprocess

import pytest
from lib import client
from lib.secured import EVERYWHERE, Secured
from lib.trees import write

pytestmark = pytest.mark.userspace("fields of its options")
TIMES = 6  # enough for an answer to be kept, and then for a whole one


@pytest.fixture
def site_of_fields(start, tree):
    write(f"{tree}/index.html", b"<!doctype html><title>index</title>\n" + b"x" * 600)
    write(f"{tree}/a.css", b"a{}\n")
    write(f"{tree}/assets/js/app.js", b"go()\n")
    write(f"{tree}/assets.txt", b"not below it\n")
    write(f"{tree}/list/x.txt", b"x\n")
    write(f"{tree}/index/index.html", b"deeper\n")

    def begin(*options):
        return start(tree, *(word for option in options for word in ("--header", option)))
    return begin


CODED = ("date", "etag", "content-length", "content-encoding", "accept-ranges", "transfer-encoding")  # of the form that is ready


def ask(wire, target, method="GET", fields=()):
    """The last of several answers, which all have the same fields."""
    replies = [wire.ask(target, method, list(fields)) for _ in range(TIMES)]
    seen = [{k: v for k, v in reply.fields.items() if k not in CODED} for reply in replies]
    assert all(one == seen[0] for one in seen), seen
    return replies[-1]


RULES = ["X-All: every one", "*.css Cache-Control: max-age=3600", "*.html   X-Page:\tyes", "/assets/* X-Asset: 1, 2", "/list/ X-List: l",
         "/a.c?s X-Glob: g"]
CASES = [("/a.css", 200, {"x-all": "every one", "cache-control": "max-age=3600", "x-glob": "g"}), ("/", 200, {"x-all": "every one", "x-page": "yes"}),
         ("/index.html", 200, {"x-all": "every one", "x-page": "yes"}), ("/index/", 200, {"x-all": "every one", "x-page": "yes"}),
         ("/assets/js/app.js", 200, {"x-all": "every one", "x-asset": "1, 2"}), ("/assets/js/", 200, {"x-all": "every one", "x-asset": "1, 2"}),
         ("/assets.txt", 200, {"x-all": "every one"}), ("/list/", 200, {"x-all": "every one", "x-list": "l"}),
         ("/list", 301, {"x-all": "every one"}), ("/none.css", 404, {}), ("/assets/none", 404, {}), ("/%zz", 400, {}),
         ("/./list/../a.cs%73", 200, {"x-all": "every one", "cache-control": "max-age=3600", "x-glob": "g"})]


@pytest.mark.core
@pytest.mark.parametrize("target, status, added", CASES)
# shows U72
def test_by_path(site_of_fields, target, status, added):
    """A glob without a slash is for the name of the file that is sent, one with a slash for the path and all below it."""
    with site_of_fields(*RULES).wire() as wire:
        for method in ("GET", "HEAD"):
            reply = ask(wire, target, method)
            found = {k: v for k, v in reply.fields.items() if k.startswith("x-") and k != "x-content-type-options" or v.startswith("max-age")}
            assert reply.status == status and found == added


def test_conditions_and_ranges(site_of_fields):
    """Each answer about a file has its fields; a refusal has none."""
    with site_of_fields(*RULES).wire() as wire:
        tag = wire.ask("/a.css")["etag"]
        for fields, status in (([f"If-None-Match: {tag}"], 304), (["Range: bytes=1-2"], 206), (["Range: bytes=0-0,2-2"], 206)):
            reply = ask(wire, "/a.css", fields=fields)
            assert reply.status == status and reply["cache-control"] == "max-age=3600" and reply["x-all"] == "every one"
        for fields, status in ((["Range: bytes=99-"], 416), (['If-Match: "x"'], 412)):
            reply = ask(wire, "/a.css", fields=fields)
            assert reply.status == status and "x-all" not in reply.fields and "cache-control" not in reply.fields
        assert ask(wire, "/a.css", "POST").status == 405 and "x-all" not in ask(wire, "/a.css", "POST").fields
        assert ask(wire, "/", fields=["Accept-Encoding: gzip"])["x-page"] == "yes"


def test_last_one_wins(site_of_fields):
    with site_of_fields("X-A: 1", "x-a: 2", "*.css X-A: 3", "*.js X-A: 4", "X-B: 5").wire() as wire:
        assert ask(wire, "/assets.txt")["x-a"] == "2" and ask(wire, "/a.css")["x-a"] == "3"
        assert ask(wire, "/assets/js/app.js")["x-a"] == "4" and ask(wire, "/")["x-b"] == "5"


def test_listings_keep_their_own(site_of_fields):
    """A listing's policy and Cache-Control are not joined with others, which would break it or make it old."""
    with site_of_fields("Cache-Control: max-age=9", "Content-Security-Policy: default-src 'self'", "X-A: a").wire() as wire:
        listing = ask(wire, "/list/")
        assert listing["cache-control"] == "no-cache" and "script-src" in listing["content-security-policy"] and listing["x-a"] == "a"
        file = ask(wire, "/a.css")
        assert file["cache-control"] == "max-age=9" and file["content-security-policy"] == "default-src 'self'"


LONG = "X-Long: " + "v" * (1023 - len("X-Long: \r\n"))


def test_longest(site_of_fields):
    """All fields together may have 1023 bytes; also with the longest redirect and with Server-Timing."""
    with site_of_fields(LONG).wire() as wire:
        assert ask(wire, "/a.css")["x-long"] == LONG[8:]
        assert wire.ask("/list?" + "q" * 4000)["x-long"] == LONG[8:]


@pytest.mark.any_engine("the order of options")
def test_environment(start, tree):
    """In the environment a field is a line, because its value may have commas."""
    write(f"{tree}/a.css", b"a{}\n")
    with start(tree, env={"RUNG_HEADER": "X-A: 1, 2\n*.css X-B: 3,4"}).wire() as wire:
        assert ask(wire, "/a.css")["x-a"] == "1, 2" and ask(wire, "/a.css")["x-b"] == "3,4"


@pytest.mark.core
def test_max_age(start, tree):
    write(f"{tree}/a.css", b"a{}\n")
    write(f"{tree}/b/x", b"a{}\n")
    with start(tree, "--max-age", "2h", "--header", "*.html Cache-Control: no-store").wire() as wire:
        write(f"{tree}/p.html", b"p")
        assert ask(wire, "/a.css")["cache-control"] == "max-age=7200" and ask(wire, "/p.html")["cache-control"] == "no-store"
        assert ask(wire, "/b/")["cache-control"] == "no-cache" and "cache-control" not in ask(wire, "/none").fields


@pytest.mark.core
# shows U72
def test_cors(start, tree):
    """All answers may be read, errors too; a preflight is answered without Allow-Methods: those of GET and HEAD need none."""
    write(f"{tree}/a.css", b"a{}\n")
    with start(tree, "--cors").wire() as wire:
        for target in ("/a.css", "/", "/none", "/%zz"):
            reply = ask(wire, target)
            assert reply["access-control-allow-origin"] == reply["access-control-expose-headers"] == "*"
            assert "access-control-max-age" not in reply.fields
        asked = ["Origin: https://example.com", "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: range"]
        reply = ask(wire, "/a.css", "OPTIONS", asked)
        assert reply.status == 200 and reply["access-control-allow-headers"] == "*, Authorization" and reply["access-control-max-age"] == "86400"
    with start(tree, "--cors", "--header", "Access-Control-Allow-Origin: https://example.com").wire() as wire:
        assert ask(wire, "/a.css")["access-control-allow-origin"] == "https://example.com"


PRESET = {"x-frame-options", "referrer-policy", "cross-origin-opener-policy", "permissions-policy"}


@pytest.mark.core
def test_security_headers(start, tree):
    write(f"{tree}/a.css", b"a{}\n")
    write(f"{tree}/b/x", b"a{}\n")
    with start(tree, "--security-headers", "--header", "Referrer-Policy: no-referrer").wire() as wire:
        for target in ("/a.css", "/b/", "/none"):
            reply = ask(wire, target)
            assert PRESET <= reply.fields.keys() and "strict-transport-security" not in reply.fields
        assert "frame-ancestors" in ask(wire, "/a.css")["content-security-policy"]
        assert "script-src" in ask(wire, "/b/")["content-security-policy"]
        assert ask(wire, "/a.css")["referrer-policy"] == "no-referrer"


def pair(folder):
    """A certificate and its key, as --tls takes them."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3", "-subj", "/CN=localhost",
                    "-keyout", f"{folder}/key", "-out", f"{folder}/cert"], stderr=subprocess.DEVNULL, check=True)
    return f"{folder}/cert,{folder}/key"


@pytest.mark.skipif(EVERYWHERE, reason="its servers have their own --tls")
@pytest.mark.parametrize("made, sent", [(pair, "max-age=31536000"), (lambda folder: "self", None)])
# shows U72
def test_strict_transport(start, tree, tmp_path, made, sent):
    """By https alone (RFC 6797 7.2), and never with a certificate that visitors have to accept by hand."""
    write(f"{tree}/a.css", b"a{}\n")
    server = start(tree, "--security-headers", "--tls", made(tmp_path))
    with client.Wire(server.address, secured=False) as wire:
        wire.sock = Secured(wire.sock)
        for target in ("/a.css", "/", "/none"):
            assert ask(wire, target).get("strict-transport-security") == sent
    with client.Wire(server.address, secured=False) as wire:
        plain = wire.ask("/a.css")
        assert plain.status == 308 and "strict-transport-security" not in plain.fields and plain["x-frame-options"] == "SAMEORIGIN"


def test_off(start, tree):
    write(f"{tree}/a.css", b"a{}\n")
    with start(tree).wire() as wire:
        reply = ask(wire, "/a.css")
        assert not (PRESET | {"cache-control", "access-control-allow-origin"}) & reply.fields.keys()
