# SPDX-License-Identifier: MIT
"""Range requests (RFC 9110 14): alphabet.txt has 26 letters."""
import pytest
from lib.client import byteranges
from lib.trees import GIANT, content, giant_slice

pytestmark = pytest.mark.any_engine("the core cuts ranges")

ABC = b"abcdefghijklmnopqrstuvwxyz"
MAX64 = (1 << 64) - 1

# value of Range, status, body of a 206
SINGLE = [
    ("bytes=0-0", 206, b"a"), ("bytes=0-25", 206, ABC), ("bytes=0-26", 206, ABC),
    ("bytes=0-", 206, ABC), ("bytes=25-", 206, b"z"),
    ("bytes=25-25", 206, b"z"), ("bytes=3-5", 206, b"def"), ("bytes=24-99", 206, b"yz"),
    ("bytes=-1", 206, b"z"),
    ("bytes=-3", 206, b"xyz"), ("bytes=-26", 206, ABC), ("bytes=-27", 206, ABC),
    ("bytes=-999999", 206, ABC),
    ("Bytes=3-5", 206, b"def"), ("bytes= 3-5", 206, b"def"), ("bytes=3-5 ", 206, b"def"),
    ("bytes=003-005", 206, b"def"),
    ("bytes=,3-5", 206, b"def"), ("bytes=3-5,", 206, b"def"), ("bytes=3-5, ,", 206, b"def"),
    # numbers beyond 64 bits (nginx CVE-2017-7529)
    (f"bytes=0-{MAX64}", 206, ABC), (f"bytes=0-{MAX64 + 1}", 206, ABC),
    (f"bytes=-{MAX64}", 206, ABC), (f"bytes=-{MAX64 + 1}", 206, ABC),
    ("bytes=0-" + "9" * 50, 206, ABC), ("bytes=-" + "9" * 50, 206, ABC),
    (f"bytes=-{1 << 63}", 206, ABC),
    (f"bytes={MAX64}-", 416, None), (f"bytes={MAX64 + 4}-", 416, None),
    (f"bytes={MAX64}-{MAX64}", 416, None),
    ("bytes=" + "9" * 50 + "-", 416, None),
    ("bytes=-9223372036854775608,-9223372036854775608", None, None),
    # beyond the end
    ("bytes=26-", 416, None), ("bytes=26-30", 416, None), ("bytes=-0", 416, None),
    ("bytes=99-,100-", 416, None), ("bytes=26-,-0", 416, None),
    ("bytes=99-,3-5", 206, b"def"), ("bytes=3-5,99-", 206, b"def"), ("bytes=-0,3-5", 206, b"def"),
    # not a range set: as if it were not there (RFC 9110 14.2)
    ("bytes=5-3", 200, None), ("bytes=3-5,5-3", 200, None), ("bytes=", 200, None),
    ("bytes", 200, None), ("bytes=-", 200, None), ("bytes=a-b", 200, None),
    ("bytes=3-b", 200, None), ("bytes=3", 200, None), ("bytes=3-5-7", 200, None),
    ("bytes=--5", 200, None), ("bytes=+3-5", 200, None), ("bytes=0x3-5", 200, None),
    ("bytes=3 -5", 200, None), ("bytes=3- 5", 200, None), ("bytes=3-5;", 200, None),
    ("bytes 3-5", 200, None), ("bytes:3-5", 200, None), ("bytes =3-5", 200, None),
    ("lines=3-5", 200, None), ("bytesx=3-5", 200, None), ("=3-5", 200, None), ("", 200, None),
    (",", 200, None), ("bytes=,", 200, None), ("bytes=1.0-5", 200, None),
]


@pytest.mark.core
@pytest.mark.parametrize("value, status, body", SINGLE)
def test_single(wire, value, status, body):
    reply = wire.ask("/alphabet.txt", fields=[f"Range: {value}"])
    assert status in (None, reply.status)
    if reply.status == 206 and body is not None:
        first = ABC.index(body)
        assert reply.body == body and reply["content-range"] == f"bytes {first}-{first + len(body) - 1}/26"
    if reply.status == 200:
        assert reply.body == ABC
    if reply.status == 416:
        assert reply["content-range"] == "bytes */26"
    assert wire.ask("/hello.txt").status == 200


# value, [(first, last)]
SEVERAL = [
    ("bytes=0-0,25-25", [(0, 0), (25, 25)]), ("bytes=0-1, 4-5, 8-9", [(0, 1), (4, 5), (8, 9)]),
    ("bytes=20-,0-3", [(20, 25), (0, 3)]),
    ("bytes=-2,0-1", [(24, 25), (0, 1)]), ("bytes=0-1,99-100,4-5", [(0, 1), (4, 5)]),
    ("bytes=0-0,\t2-2 ,, 4-4", [(0, 0), (2, 2), (4, 4)]),
]


def pieces(reply):
    """[(first, last, bytes)] of a 206 of either form."""
    if reply["content-type"].startswith("multipart/byteranges"):
        return [(first, last, data) for first, last, _, _, data in byteranges(reply)]
    first, last = map(int, reply["content-range"].split(" ")[1].split("/")[0].split("-"))
    return [(first, last, reply.body)]


@pytest.mark.core
@pytest.mark.parametrize("value, spans", SEVERAL)
# shows U06
def test_several(wire, value, spans):
    reply = wire.ask("/alphabet.txt", fields=[f"Range: {value}"])
    assert reply.status == 206
    parts = byteranges(reply)
    assert [(first, last) for first, last, *_ in parts] == spans
    for first, last, size, kind, data in parts:
        assert size == 26 and kind == "text/plain; charset=utf-8" and data == ABC[first:last + 1]
    assert wire.ask("/hello.txt").status == 200


@pytest.mark.parametrize("value",
                         ["bytes=0-9,5-14", "bytes=0-,0-", "bytes=0-25,0-25,0-25",
                          "bytes=0-9,10-19", "bytes=5-9,0-4"])
def test_overlapping(wire, value):
    """Joined, answered as requested, or the whole file: in any case the bytes are right and no more than the
    file has."""
    reply = wire.ask("/alphabet.txt", fields=[f"Range: {value}"])
    assert reply.status in (200, 206)
    if reply.status == 200:
        assert reply.body == ABC
        return
    for first, last, data in pieces(reply):
        assert data == ABC[first:last + 1]
    assert sum(len(data) for *_, data in pieces(reply)) <= 26


@pytest.mark.parametrize("count, status", [(16, 206), (17, 200), (1000, 200), (1300, 200)])
def test_many(wire, count, status):
    """RFC 9110 14.2: more than sixteen ranges are not worth it, so the whole file is sent."""
    value = ",".join(f"{2 * i}-{2 * i}" for i in range(count))
    reply = wire.ask("/size/65536.bin", fields=[f"Range: bytes={value}"])
    assert reply.status == status
    body = content(65536, 65536)
    if status == 200:
        assert reply.body == body
    else:
        wanted = [(i, i, body[i:i + 1]) for i in range(0, 2 * count, 2)]
        assert [(f, l, d) for f, l, _, _, d in byteranges(reply)] == wanted


@pytest.mark.parametrize("value",
                         ["bytes=" + "0-," * 1300, "bytes=" + ",".join(["0-"] * 1300),
                          "bytes=" + "," * 5000 + "0-0", "bytes=0-0," + ",".join(["5-4"] * 900)])
def test_range_bombs(wire, value):
    """Apache CVE-2011-3192: many ranges of everything cost no more than the file."""
    reply = wire.ask("/size/1048576.bin", fields=[f"Range: {value}"])
    assert reply.status in (200, 206, 416) and len(reply.body) <= (1 << 20) + 4096


@pytest.mark.parametrize("fields", [["Range: bytes=0-0", "Range: bytes=2-2"]])
def test_two_range_fields(wire, fields):
    """Range is not a list field: if repeated, it is ignored or refused, but not half obeyed."""
    assert wire.ask("/alphabet.txt", fields=fields).status in (200, 400)


def test_empty_file(wire):
    assert wire.ask("/size/0.bin", fields=["Range: bytes=0-"]).status == 416
    assert wire.ask("/size/0.bin", fields=["Range: bytes=0-0"])["content-range"] == "bytes */0"
    assert wire.ask("/size/0.bin", fields=["Range: bytes=-1"]).status in (200, 416)


def test_large_parts(wire):
    """Parts of a file around its blocks, in one answer, then another answer right behind."""
    spans = [(0, 4095), (4097, 70000), (200_000, 700_000), (1_048_575, 1_048_575)]
    value = ",".join(f"{first}-{last}" for first, last in spans)
    reply = wire.ask("/size/1048576.bin", fields=[f"Range: bytes={value}"])
    body = content(1 << 20, 1 << 20)
    assert [(f, l, d) for f, l, _, _, d in byteranges(reply)] == [(f, l, body[f:l + 1]) for f,
        l in spans]
    assert wire.ask("/hello.txt").body == b"Hello, world\n"


def test_giant_parts(wire):
    spans = [(0, 14), ((2 << 30) - 4, (2 << 30) + 7), ((4 << 30) - 4, (4 << 30) + 7),
             (GIANT - 14, GIANT - 1)]
    reply = wire.ask("/giant.bin",
                     fields=["Range: bytes=" + ",".join(f"{f}-{l}" for f, l in spans)])
    assert [(f, l, s, d) for f, l, s, _,
            d in byteranges(reply)] == [(f, l, GIANT, giant_slice(f, l)) for f, l in spans]


def test_no_ranges_of_what_is_made(wire):
    """A listing has no length, so it is sent whole."""
    reply = wire.ask("/list/", fields=["Range: bytes=0-1"])
    assert reply.status == 200 and b"one.txt" in reply.body


def test_ranges_of_errors(wire):
    assert wire.ask("/missing", fields=["Range: bytes=0-1"]).status == 404
    assert wire.ask("/list", fields=["Range: bytes=0-1"]).status == 301


@pytest.mark.core
def test_pieces_make_the_whole(wire):
    """A download in pieces, resumed at the byte where the last one ended."""
    body, got = content(65536, 65536), b""
    for step in (1, 4095, 4096, 10_000, 30_000, 99_999):
        got += wire.ask("/size/65536.bin", fields=[f"Range: bytes={len(got)}-{len(got) + step - 1}"]).body
    assert got == body
