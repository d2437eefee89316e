# SPDX-License-Identifier: MIT
"""figures.py - what the lab measures, by name: its words, the unit, which direction is better, how it is drawn."""
from typing import NamedTuple

LESS, MORE, NEITHER = "less", "more", "neither"


class Figure(NamedTuple):
    words: str
    unit: str
    better: str
    log: bool = False  # latencies span decades; throughput and processor time start at zero


FIGURES = {
    # of a server under load
    "cpu_us": Figure("processor time a request", "us", LESS),
    "cpu_us_a_mib": Figure("processor time a MiB of body", "us", LESS),
    "per_second": Figure("requests a second", "1/s", MORE),
    "bytes_per_second": Figure("bytes received a second", "B/s", MORE),
    "mib_per_second": Figure("MiB received a second", "MiB/s", MORE),
    "p50_us": Figure("half answered within", "us", LESS, True),
    "p90_us": Figure("9 of 10 answered within", "us", LESS, True),
    "p99_us": Figure("99 of 100 answered within", "us", LESS, True),
    "p999_us": Figure("999 of 1000 answered within", "us", LESS, True),
    "max_us": Figure("slowest answer", "us", LESS, True),
    "mean_us": Figure("mean time to the answer", "us", LESS, True),
    "generator_us": Figure("processor time of the generator a request", "us", LESS),
    "calls": Figure("system calls a request", "", LESS),
    "switches": Figure("context switches a request", "", LESS),
    "preempted": Figure("preemptions a request", "", LESS),
    "queued_us": Figure("time ready but not running, for each request", "us", LESS),
    "disk_kib": Figure("read from the disk for a request", "KiB", LESS),
    "failed": Figure("failed requests", "", LESS),
    # at rest, and by connection
    "cpu_us_a_second": Figure("processor time in a second of rest", "us", LESS),
    "rss_kib": Figure("own memory when the load has ended", "KiB", LESS),
    "pss_bytes": Figure("own memory of an idle connection", "B", LESS),
    "client_bytes": Figure("own memory for a client that never stops", "B", LESS),
    "kernel_bytes": Figure("socket buffers for such a client, both ends", "B", LESS),
    "cpu_spread": Figure("spread of processor time over restarts, half of them", "%", LESS),
    "latency_spread": Figure("spread of the mean latency over restarts, half of them", "%", LESS),
    "held": Figure("connections held at once, all answering", "", MORE),
    # of a function of the kernel
    "call_p50_us": Figure("half of the calls took at most", "us", LESS, True),
    "call_p90_us": Figure("9 of 10 calls took at most", "us", LESS, True),
    "call_p99_us": Figure("99 of 100 calls took at most", "us", LESS, True),
    "call_max_us": Figure("all calls took at most", "us", LESS, True),
    "call_mean_us": Figure("mean time of a call", "us", LESS, True),
    # of a program
    "ns": Figure("time an operation", "ns", LESS),
    "instructions": Figure("instructions", "", LESS),
    "program_bytes": Figure("code and data of the program", "B", LESS),
    "client_instructions": Figure("instructions of the client's process", "", LESS),
    "answer_bytes": Figure("bytes of an answer, with its head", "B", LESS),
    "receives": Figure("receives of the server for a message", "", LESS),
    "branches": Figure("conditional branches", "", LESS),
    "jumps": Figure("jumps through a table or a pointer", "", LESS),
    "mispredicted": Figure("branches and jumps mispredicted, as simulated", "", LESS),
    # of an allocator
    "bytes_peak": Figure("heap at its peak", "B", LESS),
    "bytes_end": Figure("heap at the end", "B", LESS),
    "allocations": Figure("allocations a request", "", LESS),
    # of an answer's stages, by rung trace; then of the slowest hundredth
    "traced_us": Figure("answer: from the head's arrival to its last byte", "us", LESS),
    "traced_woken_us": Figure("woken", "us", LESS),
    "traced_running_us": Figure("running", "us", LESS),
    "traced_read_us": Figure("read", "us", LESS),
    "traced_parsed_us": Figure("parsed", "us", LESS),
    "traced_found_us": Figure("found", "us", LESS),
    "traced_compressed_us": Figure("compressed", "us", LESS),
    "traced_out_us": Figure("out", "us", LESS),
    "traced_done_us": Figure("done", "us", LESS),
    "slow_us": Figure("answer: of the slowest hundredth", "us", LESS),
    "slow_woken_us": Figure("woken: of the slowest hundredth", "us", LESS),
    "slow_running_us": Figure("running: of the slowest hundredth", "us", LESS),
    "slow_read_us": Figure("read: of the slowest hundredth", "us", LESS),
    "slow_parsed_us": Figure("parsed: of the slowest hundredth", "us", LESS),
    "slow_found_us": Figure("found: of the slowest hundredth", "us", LESS),
    "slow_compressed_us": Figure("compressed: of the slowest hundredth", "us", LESS),
    "slow_out_us": Figure("out: of the slowest hundredth", "us", LESS),
    "slow_done_us": Figure("done: of the slowest hundredth", "us", LESS),
    # of workers
    "wakes": Figure("wake-ups", "", LESS),
    "share": Figure("share of the busiest worker", "", LESS),
}


MIB = 1 << 20
# Figures derived from those of a cell and from its scenario; None: it cannot be derived.
DERIVED = {
    "mib_per_second": lambda had, _: had["bytes_per_second"] / MIB if "bytes_per_second" in had else None,
    "cpu_us_a_mib": lambda had, scenario: had["cpu_us"] * MIB / scenario["bytes"]
    if "cpu_us" in had and isinstance(scenario.get("bytes"), int) else None,
}


def words(key):
    """The words of a figure with its unit, as for an axis."""
    figure = FIGURES[key]
    return f"{figure.words} [{figure.unit}]" if figure.unit else figure.words


RARE = ("bytes_per_second", "mib_per_second", "cpu_us_a_mib", "p90_us", "p999_us", "max_us", "mean_us", "preempted", "queued_us")
USUAL = [key for key in FIGURES if key not in RARE]


def shown(plan):
    """The figures that tables have: those of the plan, or all except RARE ones; percentiles show the other latencies."""
    return plan.get("figures") or USUAL
