# SPDX-License-Identifier: MIT
"""kind_steady.py - kind steady: a scenario of kind echo several times, each on a new server; the figure is how much the
runs differ.  Properties that are decided once for a process (where its memory is, which processors it gets) differ between
restarts but not within a run.  If each server is started only once, they look like a difference between the servers.
"""
import statistics

import kind_echo

RESTARTS = {"quick": 8, "full": 16}  # quartiles need several


def half(figures):
    """The width of the middle half, in per cent of the median."""
    first, middle, third = statistics.quantiles(figures, n=4)
    return 100 * (third - first) / middle


def measure(context, target, scenario, seconds):
    runs = [kind_echo.measure(context, target, scenario, seconds)["figures"] for _ in range(RESTARTS[context.pace])]
    cpu, latency = ([one[key] for one in runs] for key in ("cpu_us", "mean_us"))
    return {"figures": {"cpu_spread": half(cpu), "latency_spread": half(latency), "cpu_us": statistics.median(cpu),
                        "mean_us": statistics.median(latency)}, "limiter": None}
