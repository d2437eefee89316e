#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""fuse.py - a file system that answers the requests given on its command line, and no others.

    fuse.py PLACE [direct] [OPCODE[=ERROR][~SECONDS]...]   stays mounted at PLACE until this process ends; prints each request's
                    opcode on a line; an answer may be an error number, and may be late; direct: nothing stays in the page cache

This program speaks the kernel's own protocol (include/uapi/linux/fuse.h, 7.31) on /dev/fuse, because a library would answer
the other requests.  The file system has a file of each size in SIZES, by that name; any other name is a file of SIZE bytes.
"""
import ctypes
import os
import struct
import subprocess
import sys
import time

LOOKUP, FORGET, GETATTR, OPEN, READ, FLUSH, INIT, POLL = 1, 2, 3, 14, 15, 25, 26, 40
FOUND = (LOOKUP, GETATTR, OPEN)  # a file is found and opened, but its bytes never arrive
SIZE = 64 << 10
SIZES = {3: ("small", 2000), 4: ("large", 3 << 20)}  # {node: name and size}
REQUEST_BYTES = 1 << 20
MS_NOSUID, MS_NODEV, MNT_DETACH = 2, 4, 2
VALID_S = 3600
DIRECT = "direct"
DIRECT_IO, KEEP_CACHE = 1, 2  # KEEP_CACHE: otherwise the next open() would wait until the read under way has ended
ASYNC_READ = 1  # libfuse requests it too: a process that waits for bytes may be killed
LIBC = ctypes.CDLL(None, use_errno=True)


def size_of(node):
    return SIZES.get(node, ("", SIZE))[1]


def content(name):
    """The bytes of that file."""
    return b"f" * next((size for other, size in SIZES.values() if other == name), SIZE)


def attributes(node):
    mode, size = 0o40755 if node == 1 else 0o100644, size_of(node)
    return struct.pack("<6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode, node, body):
    if opcode == INIT:
        return struct.pack("<4I2H2I2HI28x", 7, 31, 65536, ASYNC_READ, 12, 9, 65536, 1, 16, 0, 0)
    if opcode == LOOKUP:
        name = body.rstrip(b"\0").decode()
        node = next((number for number, (other, _) in SIZES.items() if other == name), 2)
        return struct.pack("<4Q2I", node, 0, VALID_S, VALID_S, 0, 0) + attributes(node)
    if opcode == GETATTR:
        return struct.pack("<Q2I", VALID_S, 0, 0) + attributes(node)
    if opcode == OPEN:
        return struct.pack("<Q2I", 0, DIRECT_IO if DIRECT in sys.argv else KEEP_CACHE, 0)
    if opcode == READ:
        _, at, size = struct.unpack_from("<QQI", body)
        return b"f" * max(0, min(size, size_of(node) - at))
    return b""


def serve(place, answered):
    """answered: {opcode: (error number or 0, seconds until the answer)}."""
    fd = os.open("/dev/fuse", os.O_RDWR)
    words = f"fd={fd},rootmode=40755,user_id=0,group_id=0,allow_other,default_permissions"
    if LIBC.mount(b"none", place.encode(), b"fuse", MS_NOSUID | MS_NODEV, words.encode()):
        sys.exit(f"cannot mount: {os.strerror(ctypes.get_errno())}")
    while True:
        request = os.read(fd, REQUEST_BYTES)
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode == INIT or opcode in answered:
            error, later_s = answered.get(opcode, (0, 0))
            time.sleep(later_s)
            data = b"" if error else answer(opcode, node, request[40:])
            os.write(fd, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)
        print(opcode, flush=True)


class Mounted:
    """The process of this program and its mount, until end()."""

    def __init__(self, place, answered=()):
        """answered: opcodes, or texts as on the command line."""
        self.place = place
        # The program appends: it shares the place in the file with asked(), which reads from the beginning.
        self.log = open(f"{place}.log", "a+", encoding="ascii")
        self.log.truncate(0)
        self.process = subprocess.Popen([sys.executable, "-B", os.path.abspath(__file__), place, *map(str, answered)],
                                        stdin=subprocess.DEVNULL, stdout=self.log)

    def asked(self):
        """Opcodes of the requests so far."""
        self.log.seek(0)
        return [int(word) for word in self.log.read().split()]

    def die(self):
        """End the process: requests that wait get an error."""
        self.process.kill()
        self.process.wait(60)

    def end(self):
        if not self.log.closed:
            self.die()
            LIBC.umount2(self.place.encode(), MNT_DETACH)
            self.log.close()


if __name__ == "__main__":
    told = {}
    for word in [word for word in sys.argv[2:] if word != DIRECT]:
        word, _, later = word.partition("~")
        number, _, failure = word.partition("=")
        told[int(number)] = (int(failure or 0), float(later or 0))
    serve(sys.argv[1], told)
