# SPDX-License-Identifier: MIT
"""Files that clients store, by curl and in a browser."""
import os

import pytest
from conftest import TEXT, browser, code, curl, needs, shown

KINDS = {"http": (), "https": ("--tls", "self")}
pytestmark = needs("curl")
# A page that stores three bodies, one after the other, and shows the status of each.
PAGE = """<!doctype html><p id="shown"></p><script>
(async () => {
    const shown = [];
    for (const [bytes, to] of [[10, '/in/ten'], [10, '/in/ten'], [5e6, '/in/long'], [5e6, '/elsewhere']])
        shown.push(await fetch(to, {method: 'PUT', body: new Uint8Array(bytes)}).then(got => got.status, String));
    document.getElementById('shown').textContent = 'shown: ' + shown.join(' ');
})()
</script>
"""


@pytest.fixture
def folder(site):
    (site / "in").mkdir()
    return site / "in"


@pytest.fixture(params=KINDS)
def server(request, serve, folder):  # pylint: disable=unused-argument
    return serve("--upload", "in", "--upload-max", "1m", *KINDS[request.param])


def test_a_file(server, site, folder, tmp_path):
    """Stored under the name in its address, or under its own name if the address is a folder's; nothing is replaced, and other folders take nothing."""
    status = ["-k", "-o", os.devnull, "-w", "%{http_code}"]
    assert curl(*status, "-T", site / "hello.txt", f"{server.url}/in/") == "201"
    assert curl("-k", f"{server.url}/in/hello.txt") == TEXT == (folder / "hello.txt").read_text()
    assert curl(*status, "-T", site / "about.html", f"{server.url}/in/hello.txt") == "409"
    assert curl(*status, "-T", site / "about.html", f"{server.url}/about2.html") == "405"
    assert curl(*status, "-T", site / "big.bin", f"{server.url}/in/big.bin") == "413"
    for size, wanted in ((1 << 20, "201"), ((1 << 20) + 1, "413")):
        (tmp_path / "body").write_bytes(bytes(size))
        assert curl(*status, "-T", tmp_path / "body", f"{server.url}/in/{size}") == wanted
    assert sorted(path.name for path in folder.iterdir()) == ["1048576", "hello.txt"]


def test_a_form(server, site, folder):
    """The form below the listing, as curl fills it in."""
    assert "type=file" in curl("-k", f"{server.url}/in/").replace('"', "")
    assert "201 Created" in curl("-k", "-F", f"file=@{site}/hello.txt", "-F", f"file=@{site}/about.html", f"{server.url}/in/")
    assert sorted(path.name for path in folder.iterdir()) == ["about.html", "hello.txt"]


def test_only_if_asked_for(serve, site):
    assert code("-T", site / "hello.txt", f"{serve().url}/new.txt") == 405 and not (site / "new.txt").exists()


@browser
def test_a_browser(server, site, folder, tmp_path):
    """The page shows the status of every upload, also of those that are refused before their bodies have ended."""
    (site / "store.html").write_text(PAGE)
    assert "shown: 201 409 413 405" in shown(tmp_path, f"{server.url}/store.html")
    assert [path.name for path in folder.iterdir()] == ["ten"]
