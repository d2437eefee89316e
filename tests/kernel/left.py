# SPDX-License-Identifier: MIT
"""left.py - counts the objects alive in the kernel: sockets, files, threads, memory by the code that asked for it.

With slub_debug=U on its command line a stock kernel records, for every object of its allocator, which code asked for it
(/sys/kernel/debug/slab/CACHE/alloc_traces).  A line of a module that has been unloaded has no name any more, only an
address in the range of modules: an object that will never be freed.  An object made by other code for the module (a socket,
an open file) is recognized by the trace below the line; the kernel's own caches (directory entries, inodes) are no leak.
"""
import collections
import glob
import os
import re
import socket
import time

TRACES = "/sys/kernel/debug/slab/{}/alloc_traces"
# Modules are in the last 1.5 GiB of the address space; a name that is still known is in brackets.
OURS = re.compile(r"0xffffffff[ac-f][0-9a-f]{7}\b|\[rung_\w+\]|\[planted_\w+\]")
# Other code makes these for us, and we must give them back.  Heads of segments are not among them: the network keeps
# some freed ones on each processor, for the next use or until that processor has something to receive (receive()).
LENT = re.compile(r"(kmalloc-(?!rcl|cg-)\S+|filp|TCP|TCPv6|sock_inode_cache|cred_jar|rung\S*)$")
# Objects that the network keeps for later users, whichever code asked first: neighbours, of which it frees the oldest, and
# what TCP has learned of a route, whose entries it uses again (net/ipv4/tcp_metrics.c).
KEPT = re.compile(r"___neigh_create\b|tcp_get_metrics\b")
# For files, each processor updates /proc/sys/fs/file-nr by 32 at a time, so that number is not exact.
COUNTED = ("TCP", "TCPv6", "sock_inode_cache", "filp")


def blocks(text):
    """[(objects, code that asked, the trace below)] of an alloc_traces file."""
    found = []
    for line in text.split("\n"):
        if head := re.match(r"\s*(\d+) (\S.*)$", line):
            found.append([int(head[1]), head[2], ""])
        elif found:
            found[-1][2] += line + "\n"
    return found


def leaked(cache, text):
    """[(objects, code that asked, and for which module)] that are a module's and will never be freed."""
    found = []
    for count, who, trace in blocks(text):
        ours = OURS.search(who) or LENT.match(cache) and OURS.search(trace)
        if ours and not KEPT.match(who):
            found.append((count, f"{cache}: {who.partition(' age=')[0]} {ours[0]}"))
    return found


def pages(text):
    """Lines of /proc/vmallocinfo that a module asked for; the module loader asked for its own text and data."""
    return [line for line in text.split("\n") if OURS.search(line.partition(" ")[2])]


def can_tell():
    return os.path.exists(TRACES.format("kmalloc-64")) and bool(blocks(text_of(TRACES.format("kmalloc-64"))))


def receive():
    """Makes each processor receive something.  A segment that was freed on another processor than the one that made it waits
    for that: skb_attempt_defer_free() in net/core/skbuff.c."""
    usual = os.sched_getaffinity(0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.bind(("127.0.0.1", 0))
        for cpu in usual:
            os.sched_setaffinity(0, {cpu})
            wire.sendto(b"x", wire.getsockname())
            wire.recv(1)
    os.sched_setaffinity(0, usual)


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def leaks(beside=()):
    """Leaks as leaked() has them, minus those in `beside`, seen earlier: modules that drive this machine are strangers
    too, and those of their parts that only run at the start are gone."""
    found = []
    for path in sorted(glob.glob(TRACES.format("*"))):
        if not os.path.islink(os.path.dirname(path)):
            found += leaked(path.split("/")[-2], text_of(path))
    found += [(1, line) for line in pages(text_of("/proc/vmallocinfo"))]
    more = collections.Counter()
    for count, what in found:
        more[what] += count
    for count, what in beside:
        more[what] -= count
    return [(count, what) for what, count in more.items() if count > 0]


def alive(cache):
    """Counts the objects of a cache, to the last one."""
    return sum(count for count, _, _ in blocks(text_of(TRACES.format(cache))))


def threads():
    """Names of our kernel threads."""
    found = []
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            name = text_of(path).strip()
        except OSError:
            continue  # it has ended
        found += [name] if name.startswith("rung") else []
    return sorted(found)


def at_rest(seconds=15):
    """The counts of what is alive, once they are the same three times: a closed file is freed a moment later."""
    end, seen = time.monotonic() + seconds, [counts()]
    while seen[-3:] != [seen[-1]] * 3 and time.monotonic() < end:
        time.sleep(0.1)
        seen.append(counts())
    return seen[-1]


# shows D02
def more(before, seconds=15):
    """{what: how many} are alive in addition to those before; repeated until there are none or the seconds are over,
    because some are freed a while later."""
    end = time.monotonic() + seconds
    while (found := {what: now - before[what] for what, now in counts().items() if now > before[what]}):
        if time.monotonic() >= end:
            break
        time.sleep(0.2)
    return found


# shows K01
def counts():
    """{what: how many} of everything that must be as before when a module has gone."""
    found = {cache: alive(cache) for cache in COUNTED if os.path.exists(TRACES.format(cache))}
    found["percpu_kib"] = int(re.search(r"^Percpu:\s+(\d+)", text_of("/proc/meminfo"), re.M)[1])
    found["threads"] = len(threads())
    return found
