# SPDX-License-Identifier: MIT
"""Mounts of a test's own, which no other test sees."""
import ctypes
import functools
import os
import subprocess

CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 0x1000, 0x4000, 0x40000, 2
LIBC = ctypes.CDLL(None, use_errno=True)


@functools.cache
def may():
    return os.geteuid() == 0 and subprocess.call(["unshare", "-m", "true"], stderr=subprocess.DEVNULL) == 0


@functools.cache
def own():
    """From now on this process has mounts of its own, and so have the servers that it starts."""
    done(LIBC.unshare(CLONE_NEWNS), "unshare")
    mount("none", "/", flags=MS_REC | MS_PRIVATE)


def done(result, what):
    if result:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(what, place, kind="", flags=0):
    done(LIBC.mount(what.encode(), place.encode(), kind.encode() or None, flags, None), f"mount {place}")


def unmount(place):
    done(LIBC.umount2(place.encode(), MNT_DETACH), f"unmount {place}")
