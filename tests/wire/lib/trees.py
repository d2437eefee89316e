# SPDX-License-Identifier: MIT
"""Folders to serve. A file's bytes follow from its seed, so that a test can tell which file's bytes it
got."""
import contextlib
import os
import random
import shutil
import socket
import stat
import tempfile
import time
import urllib.parse

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # a disk takes a hundred times as long to make a name
SIZES = [0, 1, 2, 4095, 4096, 4097, 16383, 16384, 16385, 65536, 1 << 20]

# Names that have to be escaped for HTML, for URLs, for shells, for terminals, or for none of them.
ODD_NAMES = [
    b"with space", b" leading", b"trailing ", b'quo"te', b"apos'trophe", b"new\nline",
    b"carriage\rreturn",
    b"tab\tin", b"per%cent", b"%41", b"%2e%2e", b"%", b"<b>bold", b"<script>alert(1)<", b"&amp;",
    b"a&b=c",
    b"ques?tion", b"hash#tag", b"semi;colon", b"javascript:alert(1)", b"http:", b"plus+plus",
    b"back\\slash",
    b"*", b"-rf", b"~", b"$HOME", b"`id`", b"{a,b}", b"[1]", b"\x01\x1b[31m", b"\x7f", b"\xff\xfe",
    b"\x80",
    "\u00fcml\u00e4ut".encode(), "\u65e5\u672c\u8a9e".encode(), "\u202egnp.exe".encode(),
    "\U0001f600".encode(),
    b"n" * 255, b"]]>", b"<!--", b"trailing.", b"con", b"a=1&sort=name", b"@", b",",
    b"'\"><img src=x>",
]


def content(seed, size):
    """size bytes that no other seed gives."""
    return random.Random(f"rung {seed}").randbytes(size)


def write(path, data, mtime=None):
    """Write a file completely before it gets its name; make the folders above it too."""
    folder = os.path.dirname(os.fsencode(path))
    os.makedirs(folder, exist_ok=True)
    new = os.path.join(folder, b".new~")
    with open(new, "wb") as out:
        out.write(data)
    if mtime is not None:
        os.utime(new, (mtime, mtime))
    os.replace(new, path)
    return data


REALTIME_COARSE = 5  # clock_gettime(2): the clock that stamps files; Python has no name for it
YOUNG_TICKS = 8  # twice what core/stamp.c waits for


def grown(root):
    """The folder, once every file below it is old enough for strong validators.  The server gives a young file weak
    ones, and a test that needs strong ones must not depend on how long the server took to start."""
    times = [os.lstat(os.path.join(path, name)).st_ctime for path, _, names in os.walk(root) for name in names]
    while time.clock_gettime(REALTIME_COARSE) <= max(times) + YOUNG_TICKS * time.clock_getres(REALTIME_COARSE):
        time.sleep(0.002)
    return root


def sparse(path, size, marks):
    """A file of holes with the bytes marks[offset] written here and there."""
    with open(path, "wb") as out:
        out.truncate(size)
        for offset, data in marks.items():
            out.seek(offset)
            out.write(data)


GIANT = 5 << 30
GIANT_MARKS = {0: b"the first bytes", (2 << 30) - 4: b"across 2 GiB",
               (4 << 30) - 4: b"across 4 GiB",
               GIANT - 14: b"the last bytes"}


def giant_slice(first, last):
    """Bytes first..last of the giant file (short spans only)."""
    data = bytearray(last - first + 1)
    for offset, mark in GIANT_MARKS.items():
        for i, byte in enumerate(mark):
            if first <= offset + i <= last:
                data[offset + i - first] = byte
    return bytes(data)


def standard(root):
    """The tree most tests share. Nothing in it changes while it is served."""
    for size in SIZES:
        write(f"{root}/size/{size}.bin", content(size, size))
    write(f"{root}/hello.txt", b"Hello, world\n", mtime=1_700_000_000)
    write(f"{root}/plain", b"a name without a dot\n")
    write(f"{root}/a/b/c/d/e/deep.txt", b"deep\n")
    write(f"{root}/index/index.html", b"<!doctype html><title>index</title>\n")
    write(f"{root}/list/one.txt", b"1\n")
    write(f"{root}/list/two.txt", b"22\n")
    os.makedirs(f"{root}/empty")
    write(f"{root}/.hidden", b"secret\n")
    write(f"{root}/.git/config", b"secret\n")
    write(f"{root}/a/.hidden", b"secret\n")
    write(f"{root}/.well-known/security.txt", b"Contact: nobody\n")
    for i, name in enumerate(ODD_NAMES):
        write(os.fsencode(root) + b"/odd/" + name, content(f"odd {i}", 100 + i))
    links(root)
    special(root)
    write(f"{root}/alphabet.txt", b"abcdefghijklmnopqrstuvwxyz", mtime=1_600_000_000)
    sparse(f"{root}/giant.bin", GIANT, GIANT_MARKS)
    return root


def links(root):
    os.makedirs(f"{root}/link")
    for name, target in [("file", "../hello.txt"), ("dir", "../a"), ("chain", "file"),
                         ("dangling", "nothing"),
                         ("loop", "loop"), ("absolute", f"{root}/hello.txt"),
                         ("passwd", "/etc/passwd"),
                         ("out", "../.."), ("etc", "/etc"), ("proc", "/proc/self/root/etc/passwd"),
                         ("climb", "../../../../../../../../etc/passwd"), ("hidden", "../.hidden")]:
        os.symlink(target, f"{root}/link/{name}")


def special(root):
    """Things that are not readable files: a request for one must get 403 at once."""
    os.makedirs(f"{root}/special")
    os.mkfifo(f"{root}/special/fifo")
    here = os.getcwd()
    sock = socket.socket(socket.AF_UNIX)
    try:
        os.chdir(f"{root}/special")  # a socket's path may be 107 bytes long at most
        sock.bind("socket")
    finally:
        os.chdir(here)
        sock.close()
    try:
        os.mknod(f"{root}/special/device", stat.S_IFCHR | 0o644, os.makedev(1, 5))
    except PermissionError:
        pass  # only root can make one
    write(f"{root}/special/unreadable", b"secret\n")
    os.chmod(f"{root}/special/unreadable", 0)
    os.makedirs(f"{root}/special/locked")
    os.chmod(f"{root}/special/locked", 0)


def quote(name):
    """Percent-encode a name (bytes) for a URL, except unreserved characters."""
    return urllib.parse.quote_from_bytes(name, safe="/")


@contextlib.contextmanager
def many_names(count):
    """A new folder with a small file, and a folder many/ that holds count empty files."""
    path = tempfile.mkdtemp(prefix="rung-wire-", dir=MEMORY)
    os.chmod(path, 0o755)
    os.makedirs(f"{path}/many")
    folder = os.open(f"{path}/many", os.O_RDONLY)
    for i in range(count):  # 7919 is prime: every name once, in no order
        os.close(os.open(f"{i * 7919 % count:06}", os.O_CREAT, 0o644, dir_fd=folder))
    os.close(folder)
    write(f"{path}/hello.txt", b"Hello, world\n")
    yield path
    shutil.rmtree(path)
