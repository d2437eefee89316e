# SPDX-License-Identifier: MIT
"""What tools and /proc tell is read rightly, or refused: a figure that means nothing is no figure."""
import os
import time

import measure
import pytest
import rig

STRACE = """    calls syscall
--------- ----------------
      700 recvfrom
        1 openat2
--------- ----------------
      701 total
"""

WRK = """Running 1m test @ http://127.0.0.1:1/index.html
  1 threads and 50 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.10ms  200.00us   9.00ms   90.00%
    Req/Sec    45.00k     2.00k   47.00k    70.00%
  Latency Distribution
     50%  980.00us
     75%    1.10ms
     90%    1.30ms
     99%    2.50ms
  26913 requests in 601.20ms, 31.54MB read
Requests/sec:  44766.11
Transfer/sec:     52.47MB
"""

NULL = """curl, a request of 78 bytes: ns per request
  parse        383  the head's bytes to slices
  file        6095  the folder's own page: open, look, close
browser, a request of 577 bytes: ns per request
  parse        974  the head's bytes to slices
best of 7 rounds of 20 ms; again: rung --engine null [DIR]
"""


def test_strace():
    assert measure.strace_told(STRACE) == {"recvfrom": 700, "openat2": 1}


@pytest.mark.parametrize("text", ["", "strace: exec: Permission denied\n", "        0 total\n"])
def test_strace_that_counted_nothing(text):
    with pytest.raises(rig.Broken, match="counted nothing"):
        measure.strace_told(text)


def test_wrk():
    requests, seconds, percentiles = measure.wrk_told(WRK)
    assert requests == 26913 and seconds == pytest.approx(0.6012)
    assert percentiles == {"50": 980, "99": 2500}
    assert measure.wrk_told(WRK.replace("601.20ms", "2.01s"))[1] == 2.01
    assert measure.wrk_told(WRK.replace("2.50ms", "1.50s"))[2]["99"] == 1.5e6


@pytest.mark.parametrize("bad", [
    "", "unable to connect to 127.0.0.1:1 Connection refused\n", WRK.replace("26913 requests", "0 requests"),
    WRK + "  Non-2xx or 3xx responses: 4\n", WRK + "  Socket errors: connect 0, read 3, write 0, timeout 0\n",
    WRK.replace("99%", "98%")], ids=["nothing", "refused", "none", "errors", "resets", "no percentiles"])
def test_wrk_that_failed(bad):
    with pytest.raises(rig.Broken, match="^wrk: "):
        measure.wrk_told(bad)


def test_wrk_that_was_told_to_close():
    text = WRK + "  Socket errors: connect 0, read 3, write 0, timeout 0\n"
    assert measure.wrk_told(text, closing=True)[0] == 26913


def test_null():
    """The first script's."""
    assert measure.null_told(NULL) == {"parse": 383, "file": 6095}


@pytest.mark.parametrize("text", ["", NULL.replace("  ", ""), "curl, a request: ns per request\n"])
def test_null_that_says_nothing(text):
    with pytest.raises(rig.Broken, match="null says nothing"):
        measure.null_told(text)


def test_fields_of_proc():
    texts = ["Rss:  7 kB\nPss:                1200 kB\n", "Pss:   34 kB\n", "nothing\n", "PssX: 9 kB\n"]
    assert rig.field_kib(texts, "Pss") == 1234
    assert rig.field_kib([], "Pss") == 0


def test_ourselves_in_proc():
    me = os.getpid()
    before = rig.cpu_ns(me)
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    assert 0.04e9 < rig.cpu_ns(me) - before < 5e9
    memory = rig.memory_bytes(me)
    assert memory["pss"] > 1 << 20 and memory["page_tables"] > 0 and memory["kernel_stacks"] >= rig.KERNEL_STACK_BYTES
    assert me in rig.family(os.getpid()) and rig.children(2 ** 22 + 1) == []
