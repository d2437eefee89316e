# SPDX-License-Identifier: MIT
"""The README of a folder below its listing (--readme)."""
import os
import re

import pytest
from cli import elf
from lib.crowd import sanitized
from lib.trees import write

pytestmark = pytest.mark.userspace("READMEs")
BYTES_MAX = 64 << 10
PAGE = "# Title\n\nSome *words* and [a link](docs/a%20b.txt).\n\n- one\n- two\n\n```c\nif (a < b)\n```\n"
MADE = ("<h1>Title</h1>\n<p>Some <em>words</em> and <a href=\"docs/a%20b.txt\">a link</a>.</p>\n<ul>\n<li>one</li>\n<li>two</li>\n</ul>\n"
        "<pre><code class=\"language-c\">if (a &lt; b)\n</code></pre>\n")


def shown(wire, target="/"):
    """The README of a listing, or None; it lies between the entries and the foot of the page."""
    page = wire.ask(target).body.decode()
    assert page.count("<article>") == page.count("</article>") <= 1 and page.count("<footer>") == 1 and page.endswith("</body></html>\n")
    found = re.search(r"</main>\n(?:<nav aria-label=\"Pages\">[^\n]*\n)?<article>(.*)</article>\n<footer>", page, re.S)
    return found and found[1]


@pytest.fixture
def wire(start, tree):
    with start(tree, "--readme").wire() as one:
        yield one


@pytest.mark.core
@pytest.mark.parametrize("sandbox", ["on", "strict"])
# shows U80
def test_markdown(start, tree, sandbox):
    if sandbox == "strict" and (sanitized() or not elf()):
        pytest.skip("a sanitizer or valgrind has no sandbox")
    write(f"{tree}/docs/README.md", PAGE.encode())
    write(f"{tree}/index/index.html", b"page")
    write(f"{tree}/index/README.md", PAGE.encode())
    with start(tree, "--readme", "--sandbox", sandbox).wire() as wire:
        for _ in range(6):  # it is kept meanwhile
            assert shown(wire, "/docs/") == "\n" + MADE and shown(wire) is None
        assert wire.ask("/index/").body == b"page" and b"<article>" not in wire.ask("/docs/?format=json").body
        assert wire.ask("/docs/README.md").body == PAGE.encode()


@pytest.mark.any_engine("the option")
def test_off(start, tree):
    write(f"{tree}/README.md", PAGE.encode())
    with start(tree).wire() as wire:
        assert shown(wire) is None


@pytest.mark.any_engine("names")
def test_names(wire, tree):
    """The first of three; a change of which there is counts at once."""
    for _ in range(4):
        assert shown(wire) is None
    write(f"{tree}/README", b"third <b>\n")
    for _ in range(4):
        assert shown(wire) == "<pre>third &lt;b&gt;\n</pre>"
    write(f"{tree}/README.txt", b"*second*")
    for _ in range(4):
        assert shown(wire) == "<pre>*second*</pre>"
    write(f"{tree}/README.md", b"*first*")
    for _ in range(4):
        assert shown(wire) == "\n<p><em>first</em></p>\n"
    os.unlink(f"{tree}/README.md")
    assert shown(wire) == "<pre>*second*</pre>"
    for name in ("README.txt", "README"):
        os.unlink(f"{tree}/{name}")
    os.mkdir(f"{tree}/README.md")
    for name in ("readme.md", "README.markdown", "README.html", "XREADME"):
        write(f"{tree}/{name}", b"no")
    assert shown(wire) is None


SLY = ["<script>alert(1)</script>", "a <b onclick=alert(1)>b</b>", "<style>h1{}</style>", "<iframe src=x></iframe>", "<!-- --><form action=x>",
       "[x](javascript:alert(1))", "[x](JaVaScRiPt:alert(1))", "[x](data:text/html,x)", "[x](vbscript:x)", "<javascript:alert(1)>",
       "![x](javascript:alert(1))", "![x](data:image/svg+xml,x)", "[x]: javascript:alert(1)\n\n[x]", "</article><script>alert(1)</script>",
       "[x](a\"onclick=\"alert(1))", "[x](<a\" onclick=\"alert(1)>)", "```\"><script>\nx\n```", "&lt;script&gt;", "x\0y", "<base href=x>"]


@pytest.mark.any_engine("libcmark")
@pytest.mark.parametrize("text", SLY)
# shows U80
def test_nothing_runs(wire, tree, text):
    """Only elements of Markdown, only the attributes href, title and class, and no address that is a script."""
    write(f"{tree}/README.md", text.encode())
    reply = wire.ask("/")
    made = shown(wire)
    made = re.sub(r"<!-- raw HTML omitted -->", "", made)
    for tag, rest in re.findall(r"</?([^\s>]*)([^>]*)>", made):
        assert tag in ("p", "a", "pre", "code", "h1", "em"), made
        assert re.fullmatch(r'(?: (?:href|title|class)="[^"]*")*', rest), made
    assert not re.search(r'href="(?!(?:a|$|"))', made.lower()) and "\0" not in made and "<!--" not in made
    assert "img-src data:; form-action 'self'; base-uri 'none'" in reply["content-security-policy"]


@pytest.mark.any_engine("libcmark")
def test_images_are_links(wire, tree):
    """The page's policy would refuse the image itself."""
    write(f"{tree}/README.md", b"![a *lake*](lake.jpg \"t\") [![badge](badge.svg)](https://example.com/) ![](only.png) ![bad](javascript:x)\n")
    assert shown(wire) == ('\n<p><a href="lake.jpg">a <em>lake</em></a> <a href="https://example.com/">badge</a> <a href="only.png">only.png</a> '
                           '<a href="">bad</a></p>\n')


@pytest.mark.any_engine("the core writes text")
def test_text(wire, tree):
    """Lines and tabs stay; nothing drives the reader, wherever a chunk ends."""
    write(f"{tree}/README.txt", b"a\r\n\tb\x1b[31m\xff\n\n")
    assert shown(wire) == "<pre>a\n\tb\ufffd[31m\ufffd\n\n</pre>"
    for length in (1, 1023, 1024, 1025, 1026, 1027, 8192, 20000):
        text = ("\u00e9" + "\u4e2d<" * length)[:length]
        write(f"{tree}/README.txt", text.encode())
        assert shown(wire) == "<pre>" + text.replace("<", "&lt;") + "</pre>"
        write(f"{tree}/README.txt", ("x" + text).encode())
        assert shown(wire) == "<pre>x" + text.replace("<", "&lt;") + "</pre>"


@pytest.mark.parametrize("name", ["README.md", "README.txt"])
def test_length(wire, tree, name):
    """Up to 64 KiB, exactly, however long it becomes."""
    text = ("x" * 62 + "<\n") * (BYTES_MAX // 64)
    write(f"{tree}/{name}", text.encode())
    made = ("x" * 62 + "&lt;\n") * (BYTES_MAX // 64)
    for _ in range(4):
        same = shown(wire) == (f"<pre>{made}</pre>" if name == "README.txt" else f"\n<p>{made[:-1]}</p>\n")
        assert same  # pytest would take minutes to compare such texts
    write(f"{tree}/{name}", text.encode() + b"x")
    assert shown(wire) is None
    write(f"{tree}/{name}", b"")
    assert shown(wire) is None


LARGE = [pytest.param("<a>", 20000, 21800, id="page"), pytest.param("*a* ", 7000, 16000, id="memory")]


@pytest.mark.any_engine("libcmark")
@pytest.mark.parametrize("text, good, bad", LARGE)
def test_markdown_that_is_too_large(start, tree, text, good, bad):
    """A text whose page would have more than 512 KiB, or take more than 8 MiB to be made, is shown as it is."""
    server = start(tree, "--readme", "--cache", "0")
    with server.wire() as wire:
        write(f"{tree}/README.md", text.encode() * good)
        assert shown(wire).startswith("\n<p>")
        before = server.memory()
        write(f"{tree}/README.md", text.encode() * bad)
        for _ in range(20):
            same = shown(wire) == "<pre>" + text.replace("<", "&lt;").replace(">", "&gt;") * bad + "</pre>"
            assert same  # pytest would take minutes to compare such texts
        assert sanitized() or server.memory() - before < 16 << 20  # sanitizers keep what is freed for a while


@pytest.mark.any_engine("libcmark")
def test_markdown_that_takes_long(wire, tree):
    """Texts that parsers have taken minutes for."""
    for text in ("[" * 60000, "*a_" * 20000, "`" * 30000 + "a" + "`" * 29999, "> " * 32000, "- " * 32000 + "x", "<" * 60000, "[](" * 20000, "&" * 60000,
                 "![" * 30000, "a**b" * 15000 + "c* " * 1000, "[a](" + "\\(" * 30000, "\n".join("`" * n for n in range(340))):
        write(f"{tree}/README.md", text.encode())
        assert shown(wire) is not None


@pytest.mark.any_engine("the site opens it")
def test_who_may_read_it(start, tree):
    """The rules of a request for it."""
    write(f"{tree}/.secret", b"secret")
    write(f"{tree}/docs/text", b"linked")
    for folder, target in (("out", "/etc/hostname"), ("hidden", "../.secret"), ("gone", "nothing"), ("good", "../docs/text")):
        os.makedirs(f"{tree}/{folder}")
        os.symlink(target, f"{tree}/{folder}/README")
    for folder in ("fifo", "locked"):
        os.makedirs(f"{tree}/{folder}")
    os.mkfifo(f"{tree}/fifo/README")
    write(f"{tree}/locked/README", b"locked")
    os.chmod(f"{tree}/locked/README", 0)
    with start(tree, "--readme").wire() as wire:
        for folder in ("out", "hidden", "gone", "fifo", "locked"):
            for _ in range(4):
                assert shown(wire, f"/{folder}/") is None, folder
        assert shown(wire, "/good/") == "<pre>linked</pre>"
        write(f"{tree}/docs/text", b"other")
        assert shown(wire, "/good/") == "<pre>other</pre>"
        os.chmod(f"{tree}/locked/README", 0o644)
        assert shown(wire, "/locked/") == "<pre>locked</pre>"


def test_never_stale(wire, tree):
    """Whatever changes it: the bytes in place, another file, its rights, its name."""
    write(f"{tree}/README.txt", b"0")
    for turn in range(8):
        for _ in range(3):
            assert shown(wire) == f"<pre>{turn}</pre>"
        if turn % 2:
            write(f"{tree}/README.txt", b"%d" % (turn + 1))
        else:
            with open(f"{tree}/README.txt", "r+b") as file:
                file.write(b"%d" % (turn + 1))
    before = os.stat(f"{tree}/README.txt")
    with open(f"{tree}/README.txt", "r+b") as file:
        file.write(b"x")
    os.utime(f"{tree}/README.txt", ns=(before.st_atime_ns, before.st_mtime_ns))  # the row of the listing is the same
    assert shown(wire) == "<pre>x</pre>"
    os.chmod(f"{tree}/README.txt", 0)
    assert shown(wire) is None
    os.chmod(f"{tree}/README.txt", 0o644)
    assert shown(wire) == "<pre>x</pre>"
    os.rename(f"{tree}/README.txt", f"{tree}/other.txt")
    assert shown(wire) is None


def test_parts_of_a_listing(start, tree):
    """Below all entries and the first of several pages; not below those that match a filter, or a further page."""
    write(f"{tree}/README", b"readme")
    for name in "abcd":
        write(f"{tree}/{name}", b"")
    with start(tree, "--readme", "--listing-max", "5").wire() as wire:
        for _ in range(4):
            assert shown(wire, "/?limit=2") == shown(wire, "/?sort=size&order=desc") == shown(wire, "/?filter=") == "<pre>readme</pre>"
            assert shown(wire, "/?limit=2&offset=2") is None and shown(wire, "/?filter=a") is None and shown(wire, "/?filter=README") is None
        write(f"{tree}/e", b"")
        page = wire.ask("/").body
        assert b"Too many entries to sort" in page and b"<article><pre>readme</pre></article>\n<footer>" in page
