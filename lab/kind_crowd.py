# SPDX-License-Identifier: MIT
"""kind_crowd.py - connections that rest: what each costs in memory, and how many are held at once, all answering."""
import time

import measures
from rig import PATIENCE_S, Broken, Crowd, memory_bytes

BATCH = 250          # connections opened together
HOLD_PATIENCE_S = 3  # for a batch; a server that is full keeps us waiting for ever
SETTLE_S = 0.1


def total_bytes(pid):
    return sum(memory_bytes(pid).values())


def measure(context, target, scenario, _seconds):
    with measures.open_target(context, target, scenario, measures.documents(context, scenario)) as server:
        with Crowd(server.port) as first:  # what the first connection makes is not every connection's
            if not first.grow(1, PATIENCE_S):
                raise Broken("no answer")
        time.sleep(SETTLE_S)
        before, wanted = total_bytes(server.pid), scenario["clients"]
        with Crowd(server.port) as crowd:
            while len(crowd.clients) < wanted and crowd.grow(min(BATCH, wanted - len(crowd.clients)), HOLD_PATIENCE_S):
                pass
            time.sleep(SETTLE_S)
            after, held = total_bytes(server.pid), crowd.alive(HOLD_PATIENCE_S)
        server.stop()
    if not held:
        raise Broken("no connection was held")
    return {"figures": {"pss_bytes": (after - before) / held, "held": held},
            "limiter": None if held == wanted else f"room for {held} of {wanted}"}
