# SPDX-License-Identifier: MIT
"""kind_steady.py - kind steady: a scenario of kind echo again and again, on servers started anew; how much the runs
differ is the figure.  What is decided once for a process (where its memory lies, which processors it gets) differs
between restarts and not within one, so it looks like a difference between two servers to whoever starts each once.
"""
import statistics

import kind_echo

RESTARTS = {"quick": 8, "full": 16}  # quartiles want some


def half(figures):
    """The middle half's width, in per cent of the median."""
    first, middle, third = statistics.quantiles(figures, n=4)
    return 100 * (third - first) / middle


def measure(context, target, scenario, seconds):
    runs = [kind_echo.measure(context, target, scenario, seconds)["figures"] for _ in range(RESTARTS[context.pace])]
    cpu, latency = ([one[key] for one in runs] for key in ("cpu_us", "mean_us"))
    return {"figures": {"cpu_spread": half(cpu), "latency_spread": half(latency), "cpu_us": statistics.median(cpu),
                        "mean_us": statistics.median(latency)}, "limiter": None}
