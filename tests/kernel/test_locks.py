# SPDX-License-Identifier: MIT
"""A hit in the module's memory takes no lock: the kernel's tracer shows all its calls."""
import re

import left
import pytest
from lib import insmod
from lib.served import wait_for
from tracefs import TRACING, mounted, put

pytestmark = pytest.mark.usefixtures("one_processor")
LOCK = re.compile(r"\b(_raw_(spin|read|write)_\w*lock|mutex_(try)?lock|down_(read|write)|down|rt_mutex_lock|queued_\w+_slowpath)\w*(?= ?[\[(])")
ASKED = 200
AWAY = ("softirq", "schedule", "rcu_note_context_switch")  # the processor did something else in the middle of the call
# The kernel patches each function that it traces: with all of them an emulator is busy for so long that RCU complains.
TRACED = ("kcache_*", "kstamp_*", "_raw_*lock*", "mutex_*lock*", "down*", "rt_mutex_*lock*", "*queued_*_slowpath",
          *(f"*{name}*" for name in AWAY))
PATIENT = ("--head-timeout", "5m", "--idle-timeout", "5m")  # turning the tracer on takes seconds in an emulator
SETTINGS = {"set_graph_function": "", "set_ftrace_filter": "", "options/funcgraph-irqs": "1", "tracing_on": "1"}


@pytest.fixture
def tracing():
    mounted()
    yield
    put("current_tracer", "nop")
    for name, text in SETTINGS.items():
        put(name, text)


def calls_of(function, act):
    """The calls made by each call of the function, as lines of the tracer, without those that were interrupted or preempted."""
    put("set_ftrace_filter", "\n".join(TRACED) + "\n")
    put("set_graph_function", function)
    put("options/funcgraph-irqs", "0")
    put("current_tracer", "function_graph")
    act()
    put("tracing_on", "0")
    text = left.text_of(f"{TRACING}/trace")
    return [call for call in re.split(rf"(?=\| {{1,2}}{function}\b)", text)[1:]
            if not any(name in call for name in AWAY)]


def kept(server, wire, target):
    """Asks until the answer comes from memory: a fresh change is not kept."""
    def hit():
        before = insmod.stats_of(server.name, "cache")["hits"]
        wire.ask(target)
        return insmod.stats_of(server.name, "cache")["hits"] > before
    wait_for(hit, f"{target} is kept")


# shows K36
def test_a_hit_takes_no_lock(start, site, tracing):
    server = start(site, *PATIENT)
    with server.wire() as wire:
        kept(server, wire, "/hello.txt")
        hits = calls_of("kcache_find", lambda: [wire.ask("/hello.txt") for _ in range(ASKED)])
    assert len(hits) > ASKED / 2 and sum("kstamp_valid" in call for call in hits) > ASKED / 2
    assert not [call for call in hits if LOCK.search(call)]


# shows K36
def test_keeping_takes_one(start, site, tracing):
    """If keeping took no lock, the test above would prove nothing."""
    server = start(site, *PATIENT)
    with server.wire() as wire:
        calls = calls_of("kcache_keep", lambda: [kept(server, wire, f"/list/{number}.txt") for number in range(20)])
    assert any(LOCK.search(call) for call in calls)
