# SPDX-License-Identifier: MIT
"""The listing in a real browser: light, dark and on a phone, and its filter box.

Pictures are kept in build/artefacts (or $RUNG_ARTEFACTS) for people to look at.
"""
import os
import re
import shutil
import subprocess

import pytest
from lib import png
from lib.crowd import sanitized
from lib.server import ENGINE, TOP
from lib.trees import content, write

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
ARTEFACTS = os.path.abspath(os.environ.get("RUNG_ARTEFACTS") or f"{TOP}/build/artefacts")
# The look of a page does not depend on how the server waits, other tests check that every engine sends the
# same bytes, and a browser takes most of a suite's processor time: one engine of each kind.
ENGINES = ("epoll", "pool")
# A browser keeps several connections, some of them silent: if only one is served at a time, the browser
# waits for their time-outs.
pytestmark = [pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"),
              pytest.mark.skipif(ENGINE not in ENGINES, reason="looks are asked of " + " and ".join(ENGINES)),
              pytest.mark.skipif(sanitized(), reason="a sanitizer changes no byte of a page"),
              pytest.mark.capacity(8)]

# A page of our own that operates the listing in a frame, as a person would, and writes down what it
# sees.
PROBE = """<!doctype html><title>probe</title><iframe id=f src="/"></iframe><pre id=out></pre><script>
const frame = document.getElementById("f"), out = document.getElementById("out");
frame.onload = () => {
  const page = frame.contentDocument, box = page.querySelector("input[type=search]"), say = [];
  const shown = () => [...page.querySelectorAll("tbody tr a")].filter(a => a.getClientRects().length)
    .map(a => a.textContent.trim()).join(",");
  const type = text => { box.value = text; box.dispatchEvent(new Event("input", {bubbles: true}));
    return new Promise(done => setTimeout(done, 300)); };
  (async () => {
    say.push("all=" + shown());
    for (const text of ["PHOTO", "zzz", ""]) { await type(text); say.push(text + "=" + shown()); }
    out.textContent = say.join("\\n") + "\\nend";
  })();
};
</script>"""


@pytest.fixture
def pretty(start, tree):
    for i, (name, size) in enumerate([
            ("README.md", 3212), ("photo-of-a-lake.jpg", 2_411_724),
            ("photo of a hill.jpg", 1_811_100), ("talk.pdf", 812_000),
            ("archive.tar.zst", 61_000_000), ("notes.txt", 0), ("<not-markup>.txt", 17),
            ("\u00dcbersicht.txt", 120)]):
        with open(f"{tree}/{name}", "wb") as out:
            out.truncate(size)
        os.utime(f"{tree}/{name}", (1_700_000_000 + i * 864_321,) * 2)
    for i, name in enumerate(("docs", "music", "photos of last year")):
        write(f"{tree}/{name}/file", content(name, 10))
        os.utime(f"{tree}/{name}", (1_690_000_000 + i * 1_864_321,) * 2)
    return start(tree)


SAID = []  # the stderr of the last browser
REFUSED = "Content Security Policy"


def chromium(profile, *args, zone="UTC"):
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--no-first-run",
               "--disable-extensions", "--disable-background-networking", "--no-proxy-server",
               "--hide-scrollbars",
               f"--user-data-dir={profile}", "--virtual-time-budget=5000", *args]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100,
                          stdin=subprocess.DEVNULL, env={**os.environ, "TZ": zone})
    assert done.returncode == 0, done.stderr.decode()
    SAID[:] = [done.stderr.decode("utf-8", "replace")]
    return done.stdout.decode("utf-8")


LOOKS = [("light", "1280,800", 1, 1), ("dark", "1280,800", 0, 1), ("phone", "390,844", 1, 2)]


@pytest.mark.long
@pytest.mark.parametrize("name, size, scheme, scale", LOOKS)
# shows U09
def test_looks(pretty, tmp_path, name, size, scheme, scale):
    """Screenshots, in the colour scheme that the visitor prefers."""
    picture = str(tmp_path / "picture.png")
    chromium(tmp_path, f"--window-size={size}", f"--force-device-scale-factor={scale}",
             f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={picture}", pretty.url("/"))
    os.makedirs(ARTEFACTS, exist_ok=True)
    shutil.copy(picture, f"{ARTEFACTS}/listing-{name}.png")
    width, height, brightness = png.read(picture)
    assert (width, height) == tuple(scale * int(n) for n in size.split(","))
    assert brightness > 180 if scheme else brightness < 90, brightness


README = b"""# A site

What is *here*, and [how to read it](docs/). Run `make` first:

```
make run && rung --readme ~/site
```

- one
- two

> What was said.

![a picture](photo.jpg) <script>document.title = "ran"</script>
"""


@pytest.mark.long
@pytest.mark.parametrize("name, size, scheme, scale", LOOKS)
def test_looks_of_a_readme(start, tree, tmp_path, name, size, scheme, scale):
    """The README is below the listing, nothing of it is refused or run, and the listing's script works."""
    write(f"{tree}/README.md", README)
    write(f"{tree}/photo.jpg", b"")
    server = start(tree, "--readme", "--archive")
    picture = str(tmp_path / "picture.png")
    chromium(tmp_path, f"--window-size={size}", f"--force-device-scale-factor={scale}",
             f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={picture}", server.url("/"))
    os.makedirs(ARTEFACTS, exist_ok=True)
    shutil.copy(picture, f"{ARTEFACTS}/readme-{name}.png")
    brightness = png.read(picture)[2]
    assert brightness > 180 if scheme else brightness < 90, brightness
    text = chromium(tmp_path, "--dump-dom", "--enable-logging=stderr", server.url("/"))
    assert REFUSED not in SAID[0] and "<title>ran" not in text and "Times are local" in text
    assert '<a href="photo.jpg">a picture</a>' in text and text.index("</table>") < text.index("<article>") < text.index("<footer>")


@pytest.mark.long
# shows U09
def test_filter_box(pretty, tree, tmp_path):
    """Typing hides names that do not match, ignoring case; clearing the box shows all again."""
    write(f"{tree}/docs/probe.html", PROBE.encode())
    text = chromium(tmp_path, "--dump-dom", pretty.url("/docs/probe.html"))
    out = re.search(r'<pre id="out">(.*?)</pre>', text, re.S)[1]
    seen = dict(line.split("=", 1) for line in out.strip().split("\n") if "=" in line)
    assert "end" in out, text
    every = seen["all"].split(",")
    assert {"README.md", "photo of a hill.jpg", "photos of last year/", "docs/",
            "talk.pdf"} <= set(every)
    assert set(seen["PHOTO"].split(",")) == {"photos of last year/", "photo of a hill.jpg",
                                             "photo-of-a-lake.jpg"}
    assert seen["zzz"] == "" and seen[""] == seen["all"]


# The filter of a page asks the server, since matches may be on another page; and the user can go on typing.
PAGED = """<!doctype html><title>paged</title><iframe id=f src="/?limit=2"></iframe><pre id=out></pre><script>
const frame = document.getElementById("f"), say = [];
frame.onload = () => {
  const page = frame.contentDocument, box = page.querySelector("input[type=search]");
  say.push([...page.querySelectorAll("tbody tr a")].map(a => a.textContent.trim()).join(",") + " " +
    (page.activeElement == box) + box.selectionStart + " " + frame.contentWindow.location.search);
  if (say.length == 1) { box.value = "o"; box.dispatchEvent(new Event("input", {bubbles: true})); }
  else if (say.length == 2) page.querySelector("a[rel=next]").click();
  else document.getElementById("out").textContent = say.join("\\n");
};
</script>"""


@pytest.mark.long
def test_filter_box_of_a_page(pretty, tree, tmp_path):
    write(f"{tree}/docs/probe.html", PAGED.encode())
    text = chromium(tmp_path, "--dump-dom", pretty.url("/docs/probe.html"))
    seen = re.search(r'<pre id="out">(.*?)</pre>', text, re.S)[1].split("\n")
    query = "sort=name&amp;order=asc&amp;filter=o"
    assert seen == ["docs/,music/ false0 ?limit=2", f"docs/,photos of last year/ true1 ?limit=2&amp;{query}",
                    f"&lt;not-markup&gt;.txt,notes.txt false0 ?{query}&amp;offset=2&amp;limit=2"], text


def test_dom(pretty, tmp_path):
    """The document that the browser made of it: standards mode, nothing repaired away, no error of the
    script."""
    text = chromium(tmp_path, "--dump-dom", "--enable-logging=stderr", pretty.url("/"))
    assert text.startswith("<!DOCTYPE html>")
    assert text.count("<tbody>") == 1 and text.count("<table") == 1
    assert "&lt;not-markup&gt;.txt" in text and "<not-markup>" not in text
    assert text.count('href="./') == 11


def test_times_are_local(pretty, tmp_path):
    """The script shows times in the visitor's zone, and keeps the server's for programs and in the title."""
    text = chromium(tmp_path, "--dump-dom", pretty.url("/"), zone="Asia/Kathmandu")  # UTC+5:45
    assert "Times are local" in text and "Times are UTC" not in text
    assert '<time datetime="2023-11-14T22:13:20Z" title="2023-11-14 22:13 UTC">2023-11-15<span> 03:58</span></time>' in text


@pytest.mark.long
@pytest.mark.parametrize("name, size, scheme, scale", LOOKS)
def test_looks_of_an_error(pretty, tmp_path, name, size, scheme, scale):
    """The page of a 404, which looks like the listing."""
    picture = str(tmp_path / "picture.png")
    chromium(tmp_path, f"--window-size={size}", f"--force-device-scale-factor={scale}",
             f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={picture}", pretty.url("/docs/missing"))
    os.makedirs(ARTEFACTS, exist_ok=True)
    shutil.copy(picture, f"{ARTEFACTS}/error-{name}.png")
    brightness = png.read(picture)[2]
    assert brightness > 180 if scheme else brightness < 90, brightness


# Follows the link of an error page, deep below the top.
HOME = """<!doctype html><title>home</title><iframe id=f src="/docs/no/such//place"></iframe><pre id=out></pre><script>
const frame = document.getElementById("f");
frame.onload = () => {
  const link = frame.contentDocument.querySelector("main > a");
  if (link) link.click(); else document.getElementById("out").textContent = frame.contentWindow.location.pathname;
};
</script>"""


@pytest.mark.long
def test_way_home(pretty, tree, tmp_path):
    write(f"{tree}/docs/probe.html", HOME.encode())
    assert '<pre id="out">/</pre>' in chromium(tmp_path, "--dump-dom", pretty.url("/docs/probe.html"))


# Adds elements to the listing that its policy must refuse.
INTRUDER = """<!doctype html><title>intruder</title><iframe id=f src="/"></iframe><pre id=out></pre><script>
document.getElementById("f").onload = event => {
  const view = event.target.contentWindow, page = view.document, add = (tag, text) => {
    const e = page.createElement(tag); e.textContent = text; page.body.append(e); };
  add("script", "window.ran = 1"); add("style", "h1{color:rgb(1,2,3)}");
  document.getElementById("out").textContent = view.ran + " " +
    (view.getComputedStyle(page.querySelector("h1")).color == "rgb(1, 2, 3)") + " end";
};
</script>"""


@pytest.mark.long
def test_policy(pretty, tree, tmp_path):
    """Nothing of the listing's own is refused, sorted or filtered; elements added to it are refused and run nothing."""
    for query in ("/", "/?sort=size&order=desc", "/?filter=photo", "/?limit=2&offset=2&filter=o"):
        chromium(tmp_path, "--dump-dom", "--enable-logging=stderr", pretty.url(query))
        assert REFUSED not in SAID[0], SAID[0]
    write(f"{tree}/docs/intruder.html", INTRUDER.encode())
    text = chromium(tmp_path, "--dump-dom", "--enable-logging=stderr", pretty.url("/docs/intruder.html"))
    assert '<pre id="out">undefined false end</pre>' in text
    assert SAID[0].count(REFUSED) >= 2, SAID[0]


@pytest.mark.long
def test_phone_needs_no_sideways_scroll(start, tree, tmp_path):
    """A long name wraps or is cut; it does not widen the page."""
    write(f"{tree}/{'long-name-' * 25}.txt", b"x")
    write(f"{tree}/{'n' * 250}", b"x")
    write(f"{tree}/sub/probe.html", b"""<!doctype html><iframe id=f src="/" width=360 height=700></iframe><pre id=out></pre>
<script>document.getElementById("f").onload = e => { const d = e.target.contentDocument.documentElement;
document.getElementById("out").textContent = d.scrollWidth + " " + d.clientWidth + " end"; };</script>""")
    text = chromium(tmp_path, "--dump-dom", start(tree).url("/sub/probe.html"))
    wide, window, _ = re.search(r'<pre id="out">(.*?)</pre>', text, re.S)[1].split()
    assert int(wide) <= int(window)
