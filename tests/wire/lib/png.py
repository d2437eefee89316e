# SPDX-License-Identifier: MIT
"""Just enough of PNG to find out how large and how bright a screenshot is."""
import struct
import zlib


def unfilter(kind, row, above, step):
    """Undo one row's filter (PNG 9.2)."""
    for i in range(len(row)):
        left = row[i - step] if i >= step else 0
        up = above[i]
        if kind == 1:
            row[i] = (row[i] + left) & 255
        elif kind == 2:
            row[i] = (row[i] + up) & 255
        elif kind == 3:
            row[i] = (row[i] + (left + up) // 2) & 255
        elif kind == 4:
            corner = above[i - step] if i >= step else 0
            guess = left + up - corner
            far = [abs(guess - left), abs(guess - up), abs(guess - corner)]
            row[i] = (row[i] + (left, up, corner)[far.index(min(far))]) & 255
    return row


def read(path):
    """width, height, mean brightness 0..255 of an 8-bit RGB or RGBA picture."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", data[at + 8:at + 18])
        elif kind == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += size + 12
    assert depth == 8 and colour in (2, 6)
    step = 3 if colour == 2 else 4
    raw, stride, total = zlib.decompress(packed), width * step, 0
    above = bytearray(stride)
    for y in range(height):
        start = y * (stride + 1)
        above = unfilter(raw[start], bytearray(raw[start + 1:start + 1 + stride]), above, step)
        total += sum(above[0::step]) + sum(above[1::step]) + sum(above[2::step])
    return width, height, total / (3 * width * height)
