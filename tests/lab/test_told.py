# SPDX-License-Identifier: MIT
"""The output of tools and /proc is read correctly or refused: a value that means nothing is no figure."""
import os
import time

import cost
import pytest
import rig

NULL = """curl, a request of 78 bytes: ns per request
  parse        383  the head's bytes to slices
  file        6095  the folder's own page: open, look, close
browser, a request of 577 bytes: ns per request
  parse        974  the head's bytes to slices
best of 7 rounds of 20 ms; again: rung --engine null [DIR]
"""


def test_null():
    """The figures of the first script."""
    assert cost.null_told(NULL) == {"parse": 383, "file": 6095}


@pytest.mark.parametrize("text", ["", NULL.replace("  ", ""), "curl, a request: ns per request\n"])
def test_null_that_says_nothing(text):
    with pytest.raises(rig.Broken, match="null says nothing"):
        cost.null_told(text)


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
