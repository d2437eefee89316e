# SPDX-License-Identifier: MIT
"""image.py - the guest's first file system: a cpio archive that the kernel unpacks into memory.

Owners and modes are numbers in it, so making one does not need root.  The same files make the same bytes, because a guest
that counts instructions counts the unpacking too.  A program comes with the libraries that ldd names.
"""
import os
import re
import stat
import subprocess

from rig import Broken, bytes_of

TIME_S = 1_000_000_000  # time of every file, so that two images of the same files are the same
ALIGN = 4


def header(number, mode, size, name):
    links = 2 if stat.S_ISDIR(mode) else 1
    fields = (number, mode, 0, 0, links, TIME_S, size, 0, 0, 0, 0, len(name) + 1, 0)
    text = b"070701" + b"".join(b"%08x" % field for field in fields) + name + b"\0"
    return text + b"\0" * (-len(text) % ALIGN)


def libraries(path):
    """Absolute paths of the libraries that the loader would map for a program; none for a static one."""
    done = subprocess.run(["ldd", path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=30, check=False)
    if "not found" in done.stdout:
        raise Broken(f"{path} lacks a library: {re.search(r'.*not found.*', done.stdout)[0].strip()}")
    return re.findall(r"(?:=> |^\s+)(/\S+) \(0x", done.stdout, re.MULTILINE)


class Image:
    def __init__(self):
        self.entries = {}  # path without the first slash -> (mode, bytes)

    def folder(self, path, mode=0o755):
        path = path.strip("/")
        if path and path not in self.entries:
            self.folder(os.path.dirname(path))
            self.entries[path] = (stat.S_IFDIR | mode, b"")

    def put(self, path, data, mode=0o644):
        self.folder(os.path.dirname(path))
        self.entries[path.strip("/")] = (stat.S_IFREG | mode, data.encode() if isinstance(data, str) else data)

    def copy(self, source, path=None):
        """Copy a file of this machine, by default to the same place."""
        try:
            self.put(path or source, bytes_of(source), stat.S_IMODE(os.stat(source).st_mode))
        except OSError as error:
            raise Broken(f"{source} cannot be put into the guest: {error.strerror}") from error

    def tree(self, source, path):
        self.folder(path)
        for at, _, names in os.walk(source):
            for name in names:
                self.copy(os.path.join(at, name), os.path.join(path, os.path.relpath(at, source), name))

    def program(self, source, path=None):
        """Copy a program and the libraries that it is linked with."""
        self.copy(source, path)
        for library in libraries(source):
            self.copy(library)

    def write(self, file):
        for number, (name, (mode, data)) in enumerate(sorted(self.entries.items()), 1):
            file.write(header(number, mode, len(data), os.path.normpath(name).encode()))
            file.write(data + b"\0" * (-len(data) % ALIGN))
        file.write(header(0, 0, 0, b"TRAILER!!!"))
