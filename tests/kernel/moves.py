# SPDX-License-Identifier: MIT
"""moves.py - the moves of a client of tests/kernel/churn.py: one connection or a few, and answers that must be true.

Each move takes a Client: ask() is one request and its answer, chance draws which one.
"""
import gzip
import os

from lib.client import byteranges, request, require
from lib.trees import content, sparse, write

SITE = "/run/t/site"
GIANT_BYTES = 1 << 26
LISTED = [f"{number:02}.txt" for number in range(40)]
QUERIES = ["", "?format=json", "?format=text", "?sort=size&order=desc", "?sort=time", "?filter=1"]
TEXT = b"".join(b"%d lines of text, more or less the same.\n" % number for number in range(1200))
# Files of all sizes that are treated differently: in memory or not, behind the head, a page, more.
FILES = {"hello.txt": b"Hello, world\n", "page.html": content("page", 3000), "empty.bin": b"", "text.txt": TEXT,
         "twin.txt": TEXT[::-1], "four.bin": content("four", 4096), "mid.bin": content("mid", 200_000),
         "big.bin": content("big", 1_500_000)}


def furnish(clients):
    """Makes the folder to serve; some files are much older than the others, and each client has a folder of its own."""
    for name, data in FILES.items():
        write(f"{SITE}/{name}", data, 1e9)
    write(f"{SITE}/twin.txt.gz", gzip.compress(FILES["twin.txt"]), 1e9)
    write(f"{SITE}/turns.txt", b"007" + content(7, 4035))
    sparse(f"{SITE}/giant.bin", GIANT_BYTES, {})
    for number, name in enumerate(LISTED):
        write(f"{SITE}/list/{name}", b"x" * number, 1e9 + number)
    for number in range(clients):
        os.mkdir(f"{SITE}/own{number}")
    os.chmod(SITE, 0o755)


def kept(c):
    with c.wire() as wire:
        for _ in range(c.chance.randrange(1, 8)):
            name, fields = c.chance.choice(list(FILES)), c.chance.choice([(), ("Accept-Encoding: gzip",)])
            c.ask(wire, f"/{name}", fields=fields, truth=FILES[name])
    with c.wire() as wire:
        c.ask(wire, "/hello.txt", fields=["Connection: close"], truth=FILES["hello.txt"])
        wire.end()


def changed(c):
    """No answer is older than the last write of this client."""
    path = f"{SITE}/{c.own}/file.txt"
    with c.wire() as wire:
        for _ in range(3):
            data = content(c.chance.random(), c.chance.choice([1, 900, 900, 5000, 70000]))
            if c.chance.random() < 0.5:
                write(path, data)
            else:
                with open(path, "wb") as file:
                    file.write(data)
            for _ in range(2):
                c.ask(wire, f"/{c.own}/file.txt", truth=data)
        write(path + ".gz", gzip.compress(data, 1))
        require(c.ask(wire, f"/{c.own}/file.txt", fields=["Accept-Encoding: gzip"], truth=data).get("content-encoding"), "no .gz")
        os.unlink(path + ".gz")
        c.ask(wire, f"/{c.own}/file.txt", fields=["Accept-Encoding: gzip"], truth=data)


def replaced(c):
    """Other clients replace the file too: an answer is one file or another, never half of each."""
    seed = c.chance.randrange(1000)
    write(f"{SITE}/{c.own}/new", b"%03d" % seed + content(seed, 4000 + 5 * seed))
    os.replace(f"{SITE}/{c.own}/new", f"{SITE}/turns.txt")
    with c.wire() as wire:
        for _ in range(5):
            body = c.ask(wire, "/turns.txt").body
            seed = int(body[:3])
            require(body[3:] == content(seed, 4000 + 5 * seed), "half of one file and half of another")


def listed(c):
    with c.wire() as wire:
        query = c.chance.choice(QUERIES)
        for _ in range(3):
            body = c.ask(wire, "/list/" + query, fields=c.chance.choice([(), ["Accept-Encoding: gzip"]])).body
            names = [name for name in LISTED if "filter" not in query or "1" in name]
            require(all(name.encode() in body for name in names), query, "leaves out a name")
        new = f"n{c.chance.randrange(10**6)}"
        for there in (True, False, True):
            (write if there else lambda path, _: os.unlink(path))(f"{SITE}/{c.own}/{new}", b"")
            body = c.ask(wire, f"/{c.own}/" + query.replace("filter=1", "filter=n")).body
            require((new.encode() in body) == there, "an old listing")
    os.unlink(f"{SITE}/{c.own}/{new}")


def parts(c):
    data = FILES["big.bin"]
    with c.wire() as wire:
        first = c.chance.randrange(len(data))
        last = min(len(data) - 1, first + c.chance.choice([0, 100, 5000, 300000]))
        c.ask(wire, "/big.bin", fields=[f"Range: bytes={first}-{last}"], status=206, truth=data[first:last + 1])
        c.ask(wire, "/big.bin", fields=["Range: bytes=-17"], status=206, truth=data[-17:])
        c.ask(wire, "/page.html", fields=["Range: bytes=5-5"], status=206, truth=FILES["page.html"][5:6])
        reply = c.ask(wire, "/mid.bin", fields=["Range: bytes=0-9,20000-30000"], status=206)
        require([(one[0], one[4]) for one in byteranges(reply)] ==
                [(at, FILES["mid.bin"][at:end]) for at, end in ((0, 10), (20000, 30001))], "wrong parts")
        c.ask(wire, "/hello.txt", fields=["Range: bytes=100-"], status=416)


def conditions(c):
    with c.wire() as wire:
        for name in c.chance.sample(list(FILES), 3):
            tag, size = (c.ask(wire, f"/{name}", "HEAD")[field] for field in ("etag", "content-length"))
            require(int(size) == len(FILES[name]), name, size)
            c.ask(wire, f"/{name}", fields=[f"If-None-Match: {tag}"], status=304)
            c.ask(wire, f"/{name}", fields=['If-None-Match: "other"'], truth=FILES[name])
            c.ask(wire, f"/{name}", fields=['If-Match: "other"'], status=412)


def refused(c):
    with c.wire() as wire:
        for target, status in (("/missing", 404), ("/list", 301), ("/list/no/", 404), ("/hello.txt/", 404)):
            c.ask(wire, target, status=status)
        c.ask(wire, "/hello.txt", "POST", status=405, body=b"x" * c.chance.choice([1, 3000, 50000]))
        c.ask(wire, "/hello.txt", "OPTIONS")
    with c.wire() as wire:
        wire.send(c.chance.choice([b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n"]))
        require(wire.reply().status == 400, "nonsense is answered")
        c.answers += 1


def pipelined(c):
    with c.wire() as wire:
        names = [c.chance.choice(list(FILES)) for _ in range(8)]
        data = b"".join(request(f"/{name}") for name in names)
        wire.send_cut(data, *sorted(c.chance.sample(range(1, len(data)), c.chance.randrange(4))))
        for name in names:
            require(wire.reply().body == FILES[name], "pipelined", name)
            c.answers += 1
        wire.finish()
        wire.end()


def cut(c):
    """Requests and answers that are cut off in the middle, in order or with a reset."""
    for target, read in (("/big.bin", 100_000), ("/giant.bin", 1), ("/list/", 10), ("/mid.bin", 0)):
        with c.wire(rcvbuf=c.chance.choice([None, 4096])) as wire:
            data = request(target)
            wire.send(data[:c.chance.choice([len(data), len(data), 9])] * c.chance.choice([1, 3]))
            if read and len(data) > 9 and c.chance.random() < 0.7:
                wire.sock.settimeout(0.2)
                try:
                    wire.sock.recv(read)
                except TimeoutError:
                    pass
            if c.chance.random() < 0.5:
                wire.reset()


def slowly(c):
    """A large file into a small window; a head that comes byte by byte."""
    with c.wire(rcvbuf=8192) as wire:
        c.ask(wire, "/big.bin", truth=FILES["big.bin"])
        data = request("/hello.txt")
        wire.send_cut(data, *range(1, len(data), 9))
        require(wire.reply().body == FILES["hello.txt"], "slowly")
        c.answers += 1


def echoed(c):
    with c.wire() as wire:
        for _ in range(5):
            data = content(c.chance.random(), c.chance.choice([1, 64, 4096, 4097, 30000]))
            wire.send_cut(data, *sorted(c.chance.sample(range(len(data)), min(3, len(data)))))
            require(wire.take(len(data)) == data, "an echo is not what was said")
            c.answers += 1
        wire.send(data)
        if c.chance.random() < 0.5:
            wire.finish()
            require(wire.take(len(data)) == data, "an echo is not what was said last")
            wire.end()
        elif c.chance.random() < 0.5:
            wire.reset()


HTTP = [kept, changed, replaced, listed, parts, conditions, refused, pipelined, cut, slowly]
ECHO = [echoed]
