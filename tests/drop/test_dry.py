# SPDX-License-Identifier: MIT
"""Dry runs: nothing changes, and they count the sockets that ss counts and that would be dropped."""
import collections
import re
import subprocess

import pytest
from aid import DONE, PATIENCE, USAGE, Listener, drop, dropped, need
from space import sockets

SS_NAMES = {"ESTAB": "established", "TIME-WAIT": "time-wait", "LISTEN": "listen", "CLOSE-WAIT": "close-wait",
            "FIN-WAIT-2": "fin-wait-2"}


@pytest.fixture
def crowd():
    """Sockets of several ports, states and families."""
    with Listener() as one, Listener() as two, Listener("::1") as six:
        one.end(12)
        one.end(5, source=("127.0.0.9", 0))
        two.end(7, "client")
        six.end(3)
        one.connect()
        six.connect()
        yield one, two, six


def seen_by_ss(*words):
    need("ss")
    done = subprocess.run(["ss", "-Htan", *words], stdout=subprocess.PIPE, timeout=PATIENCE, check=True, text=True)
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize("args", [[], ["-p", "1-65535"], ["-s", "all"], ["-s", "listen"], ["--peer", "::/0"], ["--list"], ["--json"],
                                  ["--json", "--list", "-s", "all"], ["-q"], ["--pairs", "-"], ["--most", "1000"], ["{pair}"]])
def test_nothing_changes(crowd, args):
    before = sockets()
    chosen = sockets("time-wait")[0].pair
    args = [word for arg in args for word in (chosen.split() if arg == "{pair}" else [arg])]
    run = drop(*args, text=chosen.encode())
    assert run.status == DONE and not run.err
    assert sockets() == before


def test_counts_are_those_of_ss(crowd):
    for state, name in SS_NAMES.items():
        theirs = [row for row in seen_by_ss() if row[0] == state]
        ours = drop("--json", "-s", name).json
        assert ours["chosen"] == len(theirs)
        assert ours["by_state"] == ([{"state": name, "count": len(theirs)}] if theirs else [])
        for key, column, field in (("by_port", 3, "port"), ("by_peer_port", 4, "port")):
            if name == "listen" and key == "by_peer_port":
                continue  # ss writes an asterisk
            expected = collections.Counter(int(row[column].rpartition(":")[2]) for row in theirs)
            assert {row[field]: row["count"] for row in ours[key]} == expected
    peers = collections.Counter(row[4].rpartition(":")[0].strip("[]") for row in seen_by_ss() if row[0] == "TIME-WAIT")
    assert {row["address"]: row["count"] for row in drop("--json").json["by_peer"]} == peers


def test_ss_and_we_name_the_same_pairs(crowd):
    theirs = sorted(f"{row[2]} {row[3]}" for row in seen_by_ss("state", "time-wait"))
    assert len(theirs) == 27 and sorted(drop("--list").out.splitlines()) == theirs


def test_what_is_counted_is_what_is_dropped(crowd):
    one = crowd[0]
    before = sockets()
    told = drop("--json", "--list", "-p", one.port).json
    assert told["dry_run"] and told["through"] is None and told["dropped"] == 0 and told["chosen"] == 17
    done = dropped("--list", "-p", one.port)
    assert {key: done[key] for key in ("by_state", "by_port", "by_peer", "by_peer_port", "sockets", "chosen")} == \
        {key: told[key] for key in ("by_state", "by_port", "by_peer", "by_peer_port", "sockets", "chosen")}
    gone = {(seen["local"], seen["peer"]) for seen in told["sockets"]}
    assert sockets() == [seen for seen in before if (seen.local, seen.peer) not in gone] and len(gone) == 17


def test_the_list_is_what_pairs_reads(crowd):
    """rung drop --list | grep ... | rung drop --pairs - --yes"""
    before = sockets()
    lines = drop("--list").out.splitlines()
    kept = [line for line in lines if "127.0.0.9" in line]
    assert len(lines) == 27 and len(kept) == 5
    count = dropped("--pairs", "-", text="\n".join(kept).encode())
    assert count["dropped"] == 5 and count["pairs"] == {"given": 5, "found": 5}
    assert sockets() == [seen for seen in before if seen.pair not in kept]


@pytest.mark.parametrize("text", [b"", b"\n", b"# nothing\n\n  \n"])
@pytest.mark.parametrize("more", [[], ["-p", "1-65535"], ["-s", "all"]])
def test_no_pair_is_no_socket(crowd, text, more):
    """An empty list of pairs is no reason to drop every socket that fits the other options."""
    before = sockets()
    assert dropped("--pairs", "-", *more, text=text)["chosen"] == 0
    assert sockets() == before


def test_for_people(crowd):
    run = drop()
    assert run.out.startswith("27 sockets would be dropped; --yes does it\n")
    assert re.search(r"\n  state +27  time-wait\n  port here +17  \d+\n", run.out)
    assert re.search(r"\n  peer +19  127\.0\.0\.1\n +5  127\.0\.0\.9\n +3  ::1\n", run.out)
    assert re.search(r"\n  port there +7  \d+\n(?: +1  \d+\n){4} +16  of 16 more\n", run.out)
    run = drop("-s", "all")
    assert "let be: 3 that listen (--state listen)\n" in run.out
    run = drop("--yes", "-s", "time-wait")
    assert run.out.startswith("27 sockets dropped\n" if "module" not in run.out else "27 sockets dropped (by the module rung_drop)\n")
    assert drop("--yes", "-s", "time-wait").out == "no socket fits\n"
    assert drop("-q").out == ""


@pytest.mark.parametrize("args", [[], ["-4"], ["-6"], ["--most", "5"], ["--json"]])
def test_yes_needs_a_choice(crowd, args):
    before = sockets()
    run = drop("--yes", *args)
    assert run.status == USAGE and "--yes: say which" in run.err and not run.out
    assert sockets() == before
