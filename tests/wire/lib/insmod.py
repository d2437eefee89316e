# SPDX-License-Identifier: MIT
"""insmod.py - load modules into this machine's kernel, unload them, and read their counters.

This file needs no test framework: programs for a kernel that looks for faults, and is slow, have few imports
(tests/kernel/churn.py).  RUNG_MODULES is the folder of the modules.
"""
import ctypes
import errno
import os
import re

FOLDER = os.environ.get("RUNG_MODULES") or ""
FINIT_MODULE, DELETE_MODULE = 313, 176  # of x86-64
STATS = "/sys/kernel/debug/{}/{}"
LIBC = ctypes.CDLL(None, use_errno=True)


def system_call(*args):
    if LIBC.syscall(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{errno.errorcode.get(number, number)}: {os.strerror(number)}")


def load_file(path, parameters=None):
    """The parameters are a dict."""
    words = " ".join(f'{key}="{value}"' for key, value in (parameters or {}).items())
    fd = os.open(path, os.O_RDONLY)
    try:
        system_call(FINIT_MODULE, fd, words.encode(), 0)
    finally:
        os.close(fd)


def unload(name):
    system_call(DELETE_MODULE, name.encode(), os.O_NONBLOCK)


def loaded():
    with open("/proc/modules", encoding="ascii") as file:
        return [line.split()[0] for line in file if line.startswith("rung_")]


def core():
    """The module that the others need, loaded once for all."""
    try:
        load_file(f"{FOLDER}/rung_core.ko")
    except FileExistsError:
        pass


def stats_of(name, table="stats"):
    with open(STATS.format(name, table), encoding="ascii") as file:
        return {key: int(value) for key, value in re.findall(r"^(\w+)[:\s]+(-?\d+)", file.read(), re.M)}
