# SPDX-License-Identifier: MIT
"""kind_stages.py - where the time of an answer goes: rung trace follows a load request by request.

The figures are means over the traced answers, and over the slowest hundredth of them.  The time of an unknown stage is
counted in the next known one, so that the means of the stages add up to the mean of the whole.  The
first answer of each connection is left out, because it waits to be accepted while all the others connect.

`sample` in a scenario is the number of connections of which one is traced.  Tracing slows the server down; a sample
costs less.
"""
import json
import os
import select
import signal
import subprocess
import tempfile
import time

import measures
from rig import PATIENCE_S, Broken, end_with_us

STAGES = ("woken", "running", "read", "parsed", "found", "compressed", "out", "done")  # from the head's arrival to the last byte
SLOW = 100   # the slowest of this many answers has figures of its own
LEAST = 200  # answers; fewer say nothing about the slowest hundredth
RING = "128m"  # the tracer reads late while server and generator have the processors
READY = "tracing port"


class Tracer:
    """rung trace on a server's port; it has begun when the `with` block begins."""

    def __init__(self, context, port, *options):
        self.out = tempfile.TemporaryFile("w+", dir=context.folder)
        argv = [os.path.join(os.path.dirname(context.rung), "rung-trace"), "--json", "--slowest", "0", "--ring", RING, *options, str(port)]
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.out, stderr=subprocess.PIPE, text=True,
                                        preexec_fn=end_with_us)

    def __enter__(self):
        said = self.process.stderr.readline() if select.select([self.process.stderr], [], [], PATIENCE_S)[0] else ""
        if READY not in said:
            self.__exit__()
            raise Broken("rung trace: " + (said.strip() or f"it did not begin within {PATIENCE_S} s"))
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        self.out.close()

    def ended(self):
        """(the requests that were shown, the summary), after a pause in which the last answers are acknowledged."""
        time.sleep(0.1)
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Broken(f"rung trace did not end within {PATIENCE_S} s") from None
        self.out.seek(0)
        rows = [json.loads(line) for line in self.out]
        if not rows or "summary" not in rows[-1]:
            raise Broken("rung trace: no summary")
        return rows[:-1], rows[-1]["summary"]


def means(answers, prefix):
    """Microseconds of each stage, and of the whole.  `woken` begins when the head has arrived; time after `done` is the client's."""
    count = len(answers)
    found = {stage: sum(one["took_ns"][stage] for one in answers if isinstance(one["took_ns"][stage], int)) / count / 1e3
             for stage in STAGES}
    whole = sum(one["server_ns"] for one in answers) / count / 1e3
    return {f"{prefix}_us": whole, **{f"{prefix}_{stage}_us": value for stage, value in found.items()}}


def figures(requests):
    answers = [one for one in requests if one["ended"] == "answered" and one["ordinal"] > 1 and one["server_ns"] is not None]
    if len(answers) < LEAST:
        raise Broken(f"rung trace saw {len(answers)} answers, and the slowest hundredth wants {LEAST}")
    answers.sort(key=lambda one: one["server_ns"])
    return {**means(answers, "traced"), **means(answers[-(len(answers) // SLOW):], "slow")}


def measure(context, target, scenario, seconds):
    folder, (_, theirs) = measures.documents(context, scenario), measures.processors(scenario)
    sample = scenario.get("sample", 1)
    with measures.open_target(context, target, scenario, folder) as server:
        measures.warm(context, target, server, scenario, folder)
        with Tracer(context, server.port, "--sample", str(sample)) as tracer:
            options = measures.load_options(context, scenario, server.port)
            data = measures.generate(context, [*measures.duration(scenario, seconds), *options], seconds + PATIENCE_S, theirs)
            requests, summary = tracer.ended()
        server.stop()
    if summary["lost_events"] or summary["gaps"]:
        raise Broken(f"rung trace lost {summary['lost_events']} events: a larger `sample`")
    if sample == 1 and summary["answered"] != data["requests"]["answered"]:
        raise Broken(f"rung trace saw {summary['answered']} answers, and {data['requests']['answered']} were counted by the generator")
    return {"figures": figures(requests), "limiter": None}
