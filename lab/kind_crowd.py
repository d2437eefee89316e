# SPDX-License-Identifier: MIT
"""kind_crowd.py - idle connections: what each costs in memory, and how many are held at once, all answering.

A server may end a connection that was idle for some seconds, and making a large crowd takes as long.  Then fewer are held
than it has room for, and its memory still contains what it allocated for ended connections.  In that case the figures say
how many are held and how many were ended, but not what one costs.
"""
import time

import measures
from rig import PATIENCE_S, Broken, Crowd, memory_bytes, socket_memory_bytes

BATCH = 250          # connections opened together
HOLD_PATIENCE_S = 3  # time limit for a batch; a full server would make us wait for ever
SETTLE_S = 0.1
SOCKETS = "sockets_about"  # the kernel's memory, the same for every server; only root can read it


def bytes_of(pid):
    """The memory of a server and its sockets, by part."""
    sockets = socket_memory_bytes()
    return {**memory_bytes(pid), **({} if sockets is None else {SOCKETS: sockets / 2})}


def filled(crowd, wanted):
    """Open connections up to `wanted`, or as many as the server has room for."""
    while len(crowd.clients) < wanted and crowd.grow(min(BATCH, wanted - len(crowd.clients)), HOLD_PATIENCE_S):
        pass


def rested(server, wanted):
    """`wanted` clients connect, are answered, and rest: (bytes that they take, by part, how many are held, how many were
    ended)."""
    with Crowd(server.port) as first:  # the server may allocate memory for the first connection that later ones share
        if not first.grow(1, PATIENCE_S):
            raise Broken("no answer")
    time.sleep(SETTLE_S)
    before = bytes_of(server.pid)
    with Crowd(server.port) as crowd:
        filled(crowd, wanted)
        time.sleep(SETTLE_S)
        after, held = bytes_of(server.pid), crowd.alive(HOLD_PATIENCE_S)
        return {part: after[part] - before[part] for part in before if part in after}, held, crowd.ended()


def measure(context, target, scenario, _seconds):
    wanted = scenario["clients"]
    with measures.open_target(context, target, scenario, measures.documents(context, scenario)) as server:
        parts, held, ended = rested(server, wanted)
        server.stop()
    if ended:
        return {"figures": {"held": held}, "limiter": f"connections that rest are ended: {ended} of {wanted} were, {held} are held"}
    if not held:
        raise Broken("no connection was held")
    own = sum(count for part, count in parts.items() if part != SOCKETS)
    return {"figures": {"pss_bytes": own / held, "held": held},
            "limiter": None if held == wanted else f"room for {held} of {wanted}"}
