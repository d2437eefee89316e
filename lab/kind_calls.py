# SPDX-License-Identifier: MIT
"""kind_calls.py - system calls of any server by name: those of a request, or of a connection with one request (close).

strace records every call of two whole runs, a short one and one with more requests.  The difference divided by the additional
requests is the cost of one, because starting and stopping cancel.  Options of a socket are counted by name, those of listeners
apart.  A scenario may set the number of requests of the `short` and of the `long` run.  Operations in a ring (io_uring) are no
calls: only the calls that submit them are seen.
"""
import collections
import re
import tempfile

import measures
import peers
from rig import Broken, Client, text_of

FEW, MORE = 10, 80  # together less than a hundred, after which Apache as it is shipped ends a connection
LEAST = 0.05        # rarer calls are not listed by name: they are those of threads that look at the clock now and then
CALL = re.compile(r"^\d+ +(\w+)\((.*)", re.MULTILINE)
LISTENER = re.compile(r"^\d+ +listen\((\d+),", re.MULTILINE)
OPTION = re.compile(r"(\d+), \w+, (\w+), (\S+),")


def told(trace):
    """({call: how often}, {option of a listener: how often}); setsockopt() by its option, because servers differ there."""
    calls, once = collections.Counter(), collections.Counter()
    listeners = set(LISTENER.findall(trace))
    for name, arguments in CALL.findall(trace):
        option = OPTION.match(arguments) if name == "setsockopt" else None
        if option and option[1] in listeners:
            once[f"{option[2]} {option[3]}"] += 1
        calls[f"{name} {option[2]}" if option else name] += 1
    if not calls:
        raise Broken("strace saw no call")
    return calls, once


def ask(port, count, close):
    """Send `count` requests on one connection, or, with close, each on a connection of its own."""
    client = None if close else Client(port)
    for _ in range(count):
        one = client or Client(port)
        one.ask()
        if close:
            one.close()
    if client:
        client.close()


def of_run(context, target, scenario, count):
    folder = measures.documents(context, scenario)
    with tempfile.NamedTemporaryFile(dir=context.folder) as out:
        wrap = ("strace", "-I", "2", "-f", "-s", "0", "-o", out.name)  # -I: with -o it would outlive us
        with measures.open_target(context, target, scenario, folder, wrap) as server:
            peers.check_file(target["name"], server.port, folder, "index.html")
            ask(server.port, count, scenario.get("close"))
            server.stop()
        return told(text_of(out.name))


def measure(context, target, scenario, _seconds):
    short, long = scenario.get("short", FEW), scenario.get("long", FEW + MORE)
    (few, once), (many, _) = (of_run(context, target, scenario, count) for count in (short, long))
    each = {name: (many[name] - few[name]) / (long - short) for name in {*few, *many}}
    what = "connection with one request" if scenario.get("close") else "request on a kept connection"
    return {"figures": {"calls": sum(each.values())}, "limiter": None, "counts": {
        f"System calls of a {what}": {name: each[name] for name in sorted(each) if each[name] >= LEAST},
        "Options of the listening socket, and how often they are set": dict(sorted(once.items()))}}
