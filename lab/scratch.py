# SPDX-License-Identifier: MIT
"""scratch.py - folders for temporary files; the next start removes the folders of a process that was killed.

The process that owns a folder holds a lock on it.  The kernel releases the lock when the process ends, however it ends, so
a folder that can be locked has no owner.
"""
import fcntl
import glob
import os
import shutil
import tempfile

PREFIX = "rung-lab-"


def locked(path, how):
    """A descriptor that holds the folder's lock, or None if it is gone, is no folder, or is not ours."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, how)
        if os.fstat(fd).st_uid == os.geteuid() and os.path.samestat(os.fstat(fd), os.stat(path)):
            return fd
    except OSError:  # locked, or removed while we waited
        pass
    os.close(fd)
    return None


class Folder:
    """A folder below TMPDIR, ours alone until cleanup() or the end of `with`.  `what` is part of its name, without a dash."""

    def __init__(self, what):
        self.fd = None
        while self.fd is None:  # a sweep may come between mkdtemp() and locked()
            self.name = tempfile.mkdtemp(prefix=f"{PREFIX}{what}-")
            self.fd = locked(self.name, fcntl.LOCK_EX)

    def __enter__(self):
        return self.name

    def __exit__(self, *_):
        self.cleanup()

    def cleanup(self):
        if self.fd is not None:
            shutil.rmtree(self.name, ignore_errors=True)
            os.close(self.fd)
            self.fd = None


def sweep():
    """Remove the folders of processes that have died."""
    for path in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), f"{PREFIX}*-*")):
        fd = locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if fd is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(fd)
