# SPDX-License-Identifier: MIT
"""kind_traced.py - kind traced: kind load, while rung trace watches the server with the options of a target's `tracer`.

If the tracer lost requests, the cell is invalid, because a tracer that looks away is cheap.
"""
import kind_stages
import measures
from rig import Broken


def measure(context, target, scenario, seconds):
    folder = measures.documents(context, scenario)
    with measures.open_target(context, target, scenario, folder) as server:
        measures.warm(context, target, server, scenario, folder)
        warmed = {**scenario, "warm": False}
        if "tracer" not in target:
            return measures.under_load(context, target, server, warmed, seconds)
        with kind_stages.Tracer(context, server.port, "--quiet", *target["tracer"].split()) as tracer:
            found = measures.under_load(context, target, server, warmed, seconds)
            summary = tracer.ended()[1]
    if summary["lost_events"] or summary["gaps"] or not summary["answered"]:
        raise Broken(f"rung trace lost {summary['lost_events']} events, and saw {summary['answered']} answers")
    return found
