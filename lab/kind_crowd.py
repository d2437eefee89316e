# SPDX-License-Identifier: MIT
"""kind_crowd.py - connections that rest: what each costs in memory, and how many are held at once, all answering.

A server may end a connection because it has rested for some seconds, which the making of a large crowd takes as well.
Then fewer are held than it has room for, and what it began for those that are gone is still in its memory: how many are
held is told, and of whom were ended, but not what one costs.
"""
import time

import measures
from rig import PATIENCE_S, Broken, Crowd, memory_bytes, socket_memory_bytes

BATCH = 250          # connections opened together
HOLD_PATIENCE_S = 3  # for a batch; a server that is full keeps us waiting for ever
SETTLE_S = 0.1
SOCKETS = "sockets_about"  # the kernel's, the same for every server; root alone may ask


def bytes_of(pid):
    """By part."""
    sockets = socket_memory_bytes()
    return {**memory_bytes(pid), **({} if sockets is None else {SOCKETS: sockets / 2})}


def filled(crowd, wanted):
    """As many as the server has room for."""
    while len(crowd.clients) < wanted and crowd.grow(min(BATCH, wanted - len(crowd.clients)), HOLD_PATIENCE_S):
        pass


def rested(server, wanted):
    """So many connect, are answered, and rest: (bytes by part that they take, how many are held, how many were ended)."""
    with Crowd(server.port) as first:  # what the first connection makes is not every connection's
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
