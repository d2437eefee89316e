# SPDX-License-Identifier: MIT
"""How a client decodes a coded answer, and whether the server under test keeps and codes any answers at all."""
import functools
import gzip
import json
import shutil
import subprocess

from . import server as lib

TOOLS = {"br": ["brotli", "-dc"], "zstd": ["zstd", "-dcq"]}
FIT = ("ext2/ext3", "xfs", "btrfs", "tmpfs")  # as stat -f names them


def decodable(coding):
    return coding not in TOOLS or shutil.which(TOOLS[coding][0])


def decode(coding, data):
    if coding is None:
        return data
    if coding == "gzip":
        return gzip.decompress(data)
    return subprocess.run(TOOLS[coding], input=data, stdout=subprocess.PIPE, check=True).stdout


def is_file(data):
    """A want: a 200 that decodes to these bytes, in any coding."""
    return lambda reply: reply.status == 200 and decode(reply.get("content-encoding"), reply.body) == data


def keeps_nothing(root):
    """The reason why no answers are kept here (the engine, its arrangement or the file system), or None."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", root], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    if lib.engine_row()["forks"]:
        return "this engine keeps nothing"
    if kind not in FIT:
        return f"nothing is kept of {kind}"
    if {"--send", "--gather"} & set(lib.ARGS):
        return "in this arrangement nothing is kept"
    return None


@functools.lru_cache
def made():
    """The codings that this program makes, according to rung doctor."""
    rows = json.loads(subprocess.run([lib.BIN, "doctor", "--json"], stdout=subprocess.PIPE, check=True, text=True).stdout)
    value, = [row["value"] for row in rows if row["name"] == "answers compressed"]
    return [coding for coding in ("gzip", "zstd", "br") if coding in value.replace(",", "").split()]
