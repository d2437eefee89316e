# SPDX-License-Identifier: MIT
"""nfs.py - a folder of this guest, exported by its own kernel over NFS 4 and mounted again over loopback.

The kernel's server asks user space which clients there are and which folders they may have; the usual programs for that
are not needed, because the answers are written into its caches beforehand (linux/net/sunrpc/cache.c).  The client requests
attributes each time (actimeo=0).
"""
import ctypes
import os
import subprocess

NEVER = 2**31 - 1  # seconds since 1970 until which an answer is valid
CLIENT, ROOT = "guest", b"\0\0\0\0"
FSID_NUM = 1
INSECURE_PORT, ASYNC, NO_SUBTREE_CHECK, FSID = 0x2, 0x10, 0x400, 0x2000  # linux/nfsd/export.h
WORDS = "vers=4.2,proto=tcp,port=2049,addr=127.0.0.1,clientaddr=127.0.0.1,sec=sys,actimeo=0"
NFSD = "/proc/fs/nfsd"
LIBC = ctypes.CDLL(None, use_errno=True)
MNT_DETACH = 2


def put(path, text):
    fd = os.open(path, os.O_WRONLY)  # one write for each line
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def serve(folder):
    """Exports the folder as the root."""
    flags = INSECURE_PORT | ASYNC | NO_SUBTREE_CHECK | FSID
    os.makedirs("/var/lib/nfs/v4recovery", exist_ok=True)
    if not os.path.exists(f"{NFSD}/threads"):
        subprocess.run(["mount", "-t", "nfsd", "none", NFSD], check=True)
    put("/proc/net/rpc/auth.unix.ip/channel", f"nfsd 127.0.0.1 {NEVER} {CLIENT}\n")
    put("/proc/net/rpc/nfsd.export/channel", f"{CLIENT} {folder} {NEVER} {flags} 65534 65534 0\n")
    put("/proc/net/rpc/nfsd.fh/channel", f"{CLIENT} {FSID_NUM} \\x{ROOT.hex()} {NEVER} {folder}\n")
    put(f"{NFSD}/versions", "-2 -3 +4 +4.1 +4.2\n" if "2" in open(f"{NFSD}/versions", encoding="ascii").read().split()[0]
        else "-3 +4 +4.1 +4.2\n")
    put(f"{NFSD}/portlist", "tcp 2049\n")
    put(f"{NFSD}/threads", "2\n")
    put(f"{NFSD}/v4_end_grace", "Y\n")


def die():
    """Ends the server; requests wait for serve()."""
    put(f"{NFSD}/threads", "0\n")


def mount(place):
    if LIBC.mount(b"127.0.0.1:/", place.encode(), b"nfs4", 0, WORDS.encode()):
        raise OSError(ctypes.get_errno(), f"NFS cannot be mounted: {os.strerror(ctypes.get_errno())}")


def end(place):
    LIBC.umount2(place.encode(), 0)
    put(f"{NFSD}/threads", "0\n")
    for cache in ("nfsd.fh", "nfsd.export", "auth.unix.ip"):
        put(f"/proc/net/rpc/{cache}/flush", f"{NEVER}\n")
