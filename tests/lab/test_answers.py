# SPDX-License-Identifier: MIT
"""answers.py: docs/questions.md shows what the demonstrations print, and a demonstration that cannot run is reported."""
import os
import re
import shutil
import subprocess
import sys

import answers
import pytest
from command import TOP
from rig import Broken, text_of

BIN = os.path.dirname(os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung"))


# shows K09, K19
def test_the_document_has_all_of_them():
    """Each answer is in its place and has a table."""
    found = dict(re.findall(r"<!-- answer ([\w-]+) -->\n(.*?)<!-- /answer \1 -->", text_of(answers.PAGE), re.DOTALL))
    assert set(found) == set(answers.ANSWERS)
    assert all(text.count("\n|") >= 3 for text in found.values())


# shows E16
def test_pieces_of_a_message(tmp_path):
    """The document's table is reproduced: every cell follows from the rules of TCP, so it is the same on every machine."""
    answers.make_folder(tmp_path)
    caption, head, rows = answers.stream(BIN, str(tmp_path))
    assert answers.markdown((caption, head, rows)) in text_of(answers.PAGE)
    assert [row[-1] for row in rows] == ["whole"] * len(rows)


# shows E20
def test_who_closes_first_keeps_it(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "CONNECTIONS", 10)
    answers.make_folder(tmp_path)
    try:
        rows = answers.time_wait(BIN, str(tmp_path))[2]
    except Broken as error:
        pytest.skip(str(error))
    assert rows == [["the client", "0", "10"], ["the server", "10", "0"], ["the client, by a reset", "0", "0"]]


def test_a_socket_that_is_shown_twice(monkeypatch):
    line = "   0: 0100007F:0050 0100007F:{:04X} 06 00000000:00000000"
    monkeypatch.setattr(answers, "text_of", lambda path: "\n".join(["head", *map(line.format, (4000, 4001, 4000, 4002))]))
    assert answers.waiting(80, {4000, 4001}) == (2, 0)


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
# shows S05
def test_at_rest(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "REST_S", 0.3)
    answers.make_folder(tmp_path)
    assert all(int(count) < 5 for _, count in answers.rest(BIN, str(tmp_path))[2])


def test_what_strace_wrote():
    counts, options = answers.called('7 epoll_wait(4, [], 1, 5) = 1\n7 recvfrom(5, "a(b)", 9) = 4\n7 write(1 <unfinished ...>\n'
                                     "8 setsockopt(5, SOL_TCP, TCP_CORK, [1], 4) = 0\n7 <... write resumed>) = 1\n")
    assert counts == {"epoll_wait": 1, "recvfrom": 1, "write": 1, "setsockopt": 1} and options == ["TCP_CORK"]


# shows N24
def test_what_rung_trace_counted():
    """Counts are divided by the requests; a rare call, which belongs to no request, is left out."""
    summary = {"seen": answers.COUNTED, "lost_events": 0, "calls": [{"call": "sendto", "count": answers.COUNTED}, {"call": "brk", "count": 99},
                                                  {"call": "poll", "count": 100}],
               "switches": {"waiting": answers.COUNTED, "preempted": answers.COUNTED // 2}}
    assert answers.in_words(summary) == ("poll 0.1, sendto 1.0", "1.5")
    with pytest.raises(Broken, match="saw 1999 of 2000"):
        answers.in_words({**summary, "seen": 1999})
    with pytest.raises(Broken, match="lost 1 events"):
        answers.in_words({**summary, "lost_events": 1})


def test_what_cannot_be_had_is_said(monkeypatch, capsys):
    def nothing(*_):
        raise Broken("there is none")
    monkeypatch.setitem(answers.ANSWERS, "rest", nothing)
    monkeypatch.setattr(sys, "argv", ["answers.py", "rest", "--write"])
    before = text_of(answers.PAGE)
    assert answers.main() == 1 and "answers: rest: there is none" in capsys.readouterr().err
    assert text_of(answers.PAGE) == before
    done = subprocess.run([sys.executable, "-B", "lab/answers.py", "why"], cwd=TOP, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and "no answer why; there are time-wait, " in done.stderr
