# SPDX-License-Identifier: MIT
"""nginx and rung get the same requests, over the same folder: every difference is known and has a
reason.

The status, whether the connection stays open, and the fields that say what was sent are compared. ETags
differ in form by design (ours has nanoseconds, inode and ctime) and are not compared, nor are
bodies of pages that each server makes itself. A difference that is not in the table fails the test, and
so does a row of the table that is no longer a difference.
"""
import hashlib
import os
import shutil
import socket
import subprocess

import pytest
from lib.client import Wire, request
from lib.server import ENGINE, PATIENCE, wait_for
from lib.trees import content, write

pytestmark = pytest.mark.any_engine("the same answers from every engine")

KERNEL = ENGINE == "kernel"
NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
FIELDS = ["content-type", "content-length", "content-range", "content-encoding", "location",
          "last-modified",
          "allow", "accept-ranges", "vary", "transfer-encoding"]
AT = "Tue, 14 Nov 2023 22:13:20 GMT"
BEFORE = "Tue, 14 Nov 2023 22:13:19 GMT"
H = b"Host: localhost\r\n"

CONFIG = """
daemon off; master_process off; pid {folder}/pid; error_log stderr crit; {user}
events {{ worker_connections 64; }}
http {{
    include /etc/nginx/mime.types; default_type application/octet-stream; charset utf-8; access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    gzip_static on; autoindex on; absolute_redirect off; disable_symlinks off; gzip_vary on;
    server {{ listen 127.0.0.1:{port}; root {folder}/root; }}
}}
"""


def get(target, *fields, method="GET", body=b"", minor=1):
    return request(target, method, fields, body, minor)


# name: bytes of the request
CASES = {
    "file": get("/hello.txt"), "html": get("/page.html"), "unknown type": get("/plain"),
    "empty": get("/empty"),
    "head": get("/hello.txt", method="HEAD"), "1.0": get("/hello.txt", minor=0),
    "1.0 keep-alive": get("/hello.txt", "Connection: keep-alive", minor=0),
    "close": get("/hello.txt", "Connection: close"),
    "query": get("/hello.txt?a=b"), "escape": get("/%68ello.txt"), "dots": get("/sub/../hello.txt"),
    "slashes": get("//hello.txt"),
    "climb": get("/../hello.txt"), "encoded climb": get("/%2e%2e/hello.txt"),
    "encoded slash": get("/sub%2fone.txt"),
    "NUL": get("/hello%00.txt"), "broken escape": get("/%zz"), "overlong": get("/%c0%afhello.txt"),
    "missing": get("/missing"), "missing head": get("/missing", method="HEAD"),
    "file as folder": get("/hello.txt/"),
    "folder without slash": get("/sub"), "its query": get("/sub?x=y"), "index": get("/index/"),
    "listing": get("/sub/"),
    "listing head": get("/sub/", method="HEAD"), "hidden": get("/.hidden"),
    "well-known": get("/.well-known/x"),
    "link": get("/link"), "link out": get("/out"), "fifo": get("/fifo"),
    "long target": get("/" + "a" * 9000),
    "post": get("/hello.txt", method="POST", body=b"abc"),
    "post to a folder": get("/sub/", method="POST", body=b"abc"),
    "put": get("/hello.txt", method="PUT", body=b"abc"),
    "delete": get("/hello.txt", method="DELETE"), "trace": get("/hello.txt", method="TRACE"),
    "options": get("/hello.txt", method="OPTIONS"), "options star": get("*", method="OPTIONS"),
    "unknown method": get("/hello.txt", method="BREW"),
    "small letters": get("/hello.txt", method="get"),
    "get with a body": get("/hello.txt", body=b"abc"),
    "2.0": b"GET / HTTP/2.0\r\n" + H + b"\r\n", "0.9": b"GET /hello.txt\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n", "two hosts": b"GET / HTTP/1.1\r\n" + H + H + b"\r\n",
    "bare LF": b"GET /hello.txt HTTP/1.1\nHost: localhost\n\n",
    "space before colon": b"GET / HTTP/1.1\r\n" + H + b"X-A : b\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\n" + H + b"X-A\r\n\r\n",
    "folding": b"GET /hello.txt HTTP/1.1\r\n" + H + b"X-A: b\r\n c\r\n\r\n",
    "NUL in a value": b"GET / HTTP/1.1\r\n" + H + b"X-A: b\0\r\n\r\n",
    "control in a value": b"GET /hello.txt HTTP/1.1\r\n" + H + b"X-A: b\x01\r\n\r\n",
    "tab for space": b"GET\t/hello.txt\tHTTP/1.1\r\n" + H + b"\r\n",
    "two lengths": get("/hello.txt", "Content-Length: 0", "Content-Length: 0"),
    "bad length": get("/hello.txt", "Content-Length: x"),
    "length and chunked": get("/hello.txt", "Content-Length: 3", "Transfer-Encoding: chunked")
    + b"0\r\n\r\n",
    "gzip, chunked": get("/hello.txt", "Transfer-Encoding: gzip, chunked"),
    "absolute form": get("http://localhost/hello.txt"),
    "many fields": get("/hello.txt", *[f"X-{i}: y" for i in range(150)]),
    "range": get("/hello.txt", "Range: bytes=1-3"), "suffix": get("/hello.txt", "Range: bytes=-3"),
    "beyond": get("/hello.txt", "Range: bytes=99-"),
    "two ranges": get("/hello.txt", "Range: bytes=0-0,2-2"),
    "reversed": get("/hello.txt", "Range: bytes=3-1"),
    "overlapping": get("/hello.txt", "Range: bytes=0-9,0-9"),
    "not modified": get("/hello.txt", f"If-Modified-Since: {AT}"),
    "modified": get("/hello.txt", f"If-Modified-Since: {BEFORE}"),
    "future": get("/hello.txt", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"),
    "precondition": get("/hello.txt", f"If-Unmodified-Since: {BEFORE}"),
    "match": get("/hello.txt", 'If-Match: "x"'),
    "none match": get("/hello.txt", "If-None-Match: *"),
    "gzip": get("/page.html", "Accept-Encoding: gzip"),
    "gzip refused": get("/page.html", "Accept-Encoding: gzip;q=0"),
    "identity": get("/page.html", "Accept-Encoding: identity"),
    "expect": get("/hello.txt", "Expect: wonders"),
}

STAYS = "the message is sound, only what it asks for is not: the next one can be trusted"
STRICT = "one strict grammar: what a proxy may read otherwise is refused (RFC 9112 11.2)"
ALLOW = "RFC 9110 15.5.6: a 405 must say what is allowed"
OPTIONS = "OPTIONS is answered (RFC 9110 9.3.7)"
RANGES = "all answers of files say that ranges work; ranges of the coded variant do too"

# name: {what: (nginx, rung)}, reason. Where the status differs, the fields that say what was sent are
# not compared.
DIFFERENCES = {
    "climb": ({"status": (400, 404), "stays": (False, True)}, "nothing is there: " + STAYS),
    "encoded climb": ({"status": (400, 404), "stays": (False, True)}, "nothing is there: " + STAYS),
    "encoded slash": ({"status": (200, 400)},
                      "%2F is not a separator (RFC 3986 2.2), and no name has a slash"),
    "NUL": ({"stays": (False, True)}, STAYS),
    "broken escape": ({"stays": (False, True)}, STAYS),
    "overlong": ({"status": (404, 400)}, "overlong UTF-8 is refused as such (RFC 3629 10)"),
    "listing head": ({"transfer-encoding": (None, "chunked")},
                     "HEAD has the head of GET (RFC 9110 9.3.2)"),
    "hidden": ({"status": (200, 404)}, "names with a dot are hidden unless --hidden"),
    "link out": ({"status": (200, 403)}, "no link leads out of the folder"),
    "fifo": ({"status": (404, 403)}, "it exists, but will not be read"),
    "post": ({"allow": (None, "GET, HEAD, OPTIONS")}, ALLOW),
    "post to a folder": ({"status": (403, 405)}, "the method is at fault, whatever is there"),
    "put": ({"allow": (None, "GET, HEAD, OPTIONS")}, ALLOW),
    "delete": ({"allow": (None, "GET, HEAD, OPTIONS")}, ALLOW),
    "trace": ({"allow": (None, "GET, HEAD, OPTIONS"), "stays": (False, True)}, ALLOW),
    "options": ({"status": (405, 200)}, OPTIONS),
    "options star": ({"status": (400, 200), "stays": (False, True)}, OPTIONS),
    "unknown method": ({"status": (405, 501)},
                       "RFC 9110 9.1: 501 for a method that is not recognized"),
    "small letters": ({"status": (400, 501), "stays": (False, True)},
                      "methods are case-sensitive: a token nobody knows"),
    "0.9": ({"status": ("no HTTP/1", 400), "stays": (None, False)}, "no HTTP/0.9"),
    "bare LF": ({"status": (200, 400), "stays": (True, False)}, STRICT),
    "no colon": ({"status": (200, 400), "stays": (True, False)}, STRICT),
    "control in a value": ({"status": (200, 400), "stays": (True, False)}, STRICT),
    "many fields": ({"status": (200, 431), "stays": (True, False)}, "a hundred fields are enough"),
    "range": ({"accept-ranges": (None, "bytes")}, RANGES),
    "suffix": ({"accept-ranges": (None, "bytes")}, RANGES),
    "two ranges": ({"accept-ranges": (None, "bytes")}, RANGES),
    "gzip": ({"accept-ranges": (None, "bytes")}, RANGES),
    "reversed": ({"status": (416, 200)}, "an invalid range set is ignored (RFC 9110 14.1.1, 14.2)"),
    "future": ({"status": (200, 304)},
               "earlier or equal, not equal alone (RFC 9110 13.1.3); nginx: if_modified_since exact"),
    "precondition": ({"stays": (False, True)}, STAYS),
    "match": ({"stays": (False, True)}, STAYS),
    "expect": ({"status": (200, 417), "stays": (True, False)},
               "an expectation we cannot meet (RFC 9110 10.1.1)"),
}


def tree_of(root):
    write(f"{root}/hello.txt", b"Hello, world\n", mtime=1_700_000_000)
    write(f"{root}/page.html", content("page", 3000), mtime=1_700_000_000)
    write(f"{root}/page.html.gz", content("gzip", 1000), mtime=1_700_000_000)
    write(f"{root}/plain", b"plain\n", mtime=1_700_000_000)
    write(f"{root}/empty", b"", mtime=1_700_000_000)
    write(f"{root}/sub/one.txt", b"1\n", mtime=1_700_000_000)
    write(f"{root}/index/index.html", b"index\n", mtime=1_700_000_000)
    write(f"{root}/.hidden", b"secret\n", mtime=1_700_000_000)
    write(f"{root}/.well-known/x", b"x\n", mtime=1_700_000_000)
    os.symlink("hello.txt", f"{root}/link")
    os.symlink("/etc/hostname", f"{root}/out")
    os.mkfifo(f"{root}/fifo")


@pytest.fixture
def nginx(tree):
    """nginx in a folder of its own, on a port of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with open(f"{tree}/nginx.conf", "w") as file:
        file.write(CONFIG.format(folder=tree, port=port, user="user root;" if os.geteuid() == 0 else ""))
    process = subprocess.Popen([NGINX, "-p", tree, "-c", f"{tree}/nginx.conf"],
                               stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def ready():
        assert process.poll() is None, process.stderr.read().decode()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0
    wait_for(ready, "nginx listens")
    yield ("127.0.0.1", port)
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stderr.close()


def ask(address, data):
    """The parts of an answer that we compare; nothing else in it is checked."""
    with Wire(address) as wire:
        wire.send(data)
        if not wire.more():
            return {"status": "closed"}
        if not wire.rest.startswith(b"HTTP/1."):
            return {"status": "no HTTP/1"}
        reply = wire.head()
        head = data.startswith(b"HEAD") or reply.status == 304
        wire.body(reply, "HEAD" if head else "GET", 0 if b"HTTP/1.0" in data else 1)
        said = {name: reply.get(name) for name in FIELDS}
        said["status"], said["stays"] = reply.status, stays(wire, reply)
        if reply.status in (200, 206) and not said["transfer-encoding"] and b"/sub/ " not in data:
            said["body"] = hashlib.sha256(reply.body).hexdigest()[:8]
        else:
            del said["content-length"], said["content-type"], said["vary"]  # of a page the server made
        if (said.get("content-type") or "").startswith("multipart/"):
            said["content-type"] = "multipart/byteranges"
            del said["content-length"], said["body"]  # boundaries
        return said


def stays(wire, reply):
    """Whether the connection serves another request."""
    if reply.closes:
        return False
    try:
        wire.send(get("/hello.txt", "Connection: close"))
        return wire.head().status == 200
    except (AssertionError, OSError):
        return False


@pytest.mark.skipif(not NGINX, reason="nginx is not installed")
def test_differences(start, tree, nginx):
    tree_of(f"{tree}/root")
    server = start(f"{tree}/root")
    found = {}
    for name, data in CASES.items():
        theirs, ours = ask(nginx, data), ask(server.address, data)
        keys = theirs.keys() | ours.keys() if theirs["status"] == ours["status"] else {"status",
            "stays"}
        apart = {key: (theirs.get(key),
                       ours.get(key)) for key in keys if theirs.get(key) != ours.get(key)}
        if apart:
            found[name] = apart
    known = {name: row[0] for name, row in DIFFERENCES.items()}
    if KERNEL:  # a listing is made before it is sent: it has a length, and so has its head
        known["listing"] = {"transfer-encoding": ("chunked", None)}
        del known["listing head"]
    assert found == known
