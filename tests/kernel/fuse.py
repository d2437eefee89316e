#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""fuse.py - a file system that answers the requests given on its command line, and no others.

    fuse.py PLACE [OPCODE[=ERROR]...]   is mounted at PLACE until this process ends; each request's opcode is a line of
                                        output, and its answer may be an error number

This program speaks the kernel's own protocol (include/uapi/linux/fuse.h, 7.31) on /dev/fuse, because a library would answer.
The file system has one file, "file", with SIZE bytes.
"""
import ctypes
import os
import struct
import subprocess
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, INIT = 1, 2, 3, 14, 15, 26
FOUND = (LOOKUP, GETATTR, OPEN)  # a file is found and opened, and its bytes never come
SIZE = 64 << 10
REQUEST_BYTES = 1 << 20
MS_NOSUID, MS_NODEV, MNT_DETACH = 2, 4, 2
VALID_S = 3600
LIBC = ctypes.CDLL(None, use_errno=True)


def attributes(node):
    mode = 0o40755 if node == 1 else 0o100644
    return struct.pack("<6Q10I", node, SIZE, SIZE // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode, node, body):
    if opcode == INIT:
        return struct.pack("<4I2H2I2HI28x", 7, 31, 65536, 0, 12, 9, 65536, 1, 16, 0, 0)
    if opcode == LOOKUP:
        return struct.pack("<4Q2I", 2, 0, VALID_S, VALID_S, 0, 0) + attributes(2)
    if opcode == GETATTR:
        return struct.pack("<Q2I", VALID_S, 0, 0) + attributes(node)
    if opcode == OPEN:
        return struct.pack("<Q2I", 0, 0, 0)
    if opcode == READ:
        _, at, size = struct.unpack_from("<QQI", body)
        return b"f" * max(0, min(size, SIZE - at))
    return b""


def serve(place, answered):
    """answered: {opcode: error number, or 0}."""
    fd = os.open("/dev/fuse", os.O_RDWR)
    words = f"fd={fd},rootmode=40755,user_id=0,group_id=0,allow_other,default_permissions"
    if LIBC.mount(b"none", place.encode(), b"fuse", MS_NOSUID | MS_NODEV, words.encode()):
        sys.exit(f"cannot mount: {os.strerror(ctypes.get_errno())}")
    while True:
        request = os.read(fd, REQUEST_BYTES)
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode == INIT or opcode in answered:
            error = answered.get(opcode, 0)
            data = b"" if error else answer(opcode, node, request[40:])
            os.write(fd, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)
        print(opcode, flush=True)


class Mounted:
    """The process of this program and its mount, until end()."""

    def __init__(self, place, answered=()):
        """answered: opcodes, or texts "opcode=error"."""
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
        """Requests that wait get an error."""
        self.process.kill()
        self.process.wait(60)

    def end(self):
        if not self.log.closed:
            self.die()
            LIBC.umount2(self.place.encode(), MNT_DETACH)
            self.log.close()


if __name__ == "__main__":
    words_of = (word.partition("=") for word in sys.argv[2:])
    serve(sys.argv[1], {int(opcode): int(error or 0) for opcode, _, error in words_of})
