# SPDX-License-Identifier: MIT
"""Two ports traced together: figures of each stage, what explains the difference, a picture."""
import contextlib
import json
import re
import select
import subprocess
import xml.etree.ElementTree as ET

import pytest
from aid import DONE, FAILED, FILE, LOAD, PATIENCE, SMALL, STAGES, USAGE, Lies, environment, exactly, request, rung, trace, tracing
from words import Words

OF_ANSWER = tuple(name for name in STAGES if name not in ("head", "acked"))
traced = pytest.mark.usefixtures("traced")


def talk(server, times, wait_s):
    client, there = server.pair()
    for _ in range(times):
        client.sendall(request())
        exactly(there, len(request()))
        assert not wait_s or not select.select([there], [], [], wait_s)[0]  # the server thinks
        there.sendall(SMALL)
        exactly(client, len(SMALL))
    client.close()


@contextlib.contextmanager
def quick_and_slow(*args, names=("", "")):
    """Compares two servers, of which the second takes a tenth of a second for each of three answers; yields the trace's run and the ports."""
    with Lies() as quick, Lies() as slow:
        with tracing("compare", *args, f"{quick.port}{names[0]}", f"{slow.port}{names[1]}") as runs:
            talk(quick, 5, 0)
            talk(slow, 3, 0.1)
        yield runs[0], quick.port, slow.port


def compared(run):
    return json.loads(run.out)["compare"]


@traced
def test_the_stage_that_explains():
    with quick_and_slow("--json", names=("=quick", "")) as (run, quick, slow):
        found = compared(run)
    assert run.status == DONE and set(found["explains"].values()) == {"out"}
    assert (found["a"]["name"], found["a"]["port"], found["a"]["answers"]) == ("quick", quick, 5)
    assert (found["b"]["name"], found["b"]["port"], found["b"]["answers"]) == (f"port {slow}", slow, 3)
    assert tuple(found["stages"]) == STAGES
    for side in "ab":
        means = [found["stages"][name][side]["mean_ns"] or 0 for name in OF_ANSWER]
        assert sum(means) == pytest.approx(found["answer"][side]["mean_ns"], abs=1)
        assert found["stages"]["head"][side]["mean_ns"] is None and found["stages"]["acked"][side]["mean_ns"] is None
    assert found["stages"]["out"]["b"]["p50_ns"] >= 100e6 > found["stages"]["out"]["a"]["p99_ns"]


@traced
def test_a_table_and_a_sentence():
    with quick_and_slow(names=("=quick", "=slow")) as (run, _, _):
        pass
    assert re.search(r"(?m)^A: quick, 5 answers in [0-9.]+ s\n(?:missing: .*\n)+B: slow, 3 answers in [0-9.]+ s$", run.out)
    assert len(re.findall("(?m)^missing: parsed, found", run.out)) == 2  # neither server reports these
    rows = re.findall(r"(?m)^  ([a-z]+)((?: +[-+0-9.]+){7})$", run.out)
    assert [name for name, _ in rows] == [*STAGES, "answer"]
    for name, figures in rows:
        a50, b50, more50, a99, b99, more99, mean = figures.split()
        for one, other, more in ((a50, b50, more50), (a99, b99, more99)):
            if "-" in (one, other):
                assert more == "-"
            else:
                assert float(more) == pytest.approx(float(other) - float(one), abs=0.11)
        assert (mean == "-") == (name in ("head", "acked") or "-" in (a50, b50))
    assert re.search(r"(?m)^mean  B takes \d{5,}\.\d us more than A .*; the largest part is out: \+\d+\.\d us, (99|100)%$", run.out)
    assert len(re.findall(r"(?m)^p\d\d   B takes \d{5,}\.\d us more than A \(.*\); out differs most: \+\d+\.\d us$", run.out)) == 2


@traced
def test_the_other_way_round_it_is_less():
    with Lies() as slow, Lies() as quick, tracing("compare", slow.port, quick.port) as runs:
        talk(slow, 1, 0.1)
        talk(quick, 1, 0)
    assert re.search(r"mean  B takes \d+\.\d us less than A .*the largest part is out: -\d", runs[0].out)


@traced
@pytest.mark.parametrize("how", [(), ("--in-turn",)])
def test_engines(how):
    """The servers are traced at the same time, or one after the other, with a load on each throughout."""
    with rung("epoll") as one, rung("thread") as other, contextlib.ExitStack() as loads:
        for port in (one, other):
            load = loads.enter_context(subprocess.Popen([LOAD, "-q", "-c", "2", "-R", "200", "-d", "60s", f"http://127.0.0.1:{port}{FILE}"],
                                                        env=environment()))
            loads.callback(load.terminate)
        run = trace("compare", "--json", "-d", "500ms", "--path", FILE, *how, one, other)
    found = compared(run)
    assert run.status == DONE and len(re.findall("tracing port", run.err)) == (2 if how else 1)
    for side in "ab":
        assert found[side]["answers"] > 0 and found[side]["seconds"] >= 0.5 and found[side]["lost_events"] == 0


@traced
def test_a_stage_that_one_side_knows():
    """rung reports when it parsed.  The other server does not, so its parsing is in the next stage that both report, and is compared there."""
    with rung("epoll") as port, Lies() as other:
        with tracing("compare", "--json", port, other.port) as runs:
            assert subprocess.run([LOAD, "-q", "-c", "1", "-n", "5", f"http://127.0.0.1:{port}{FILE}"], env=environment(),
                                  timeout=PATIENCE, check=False).returncode == 0
            talk(other, 3, 0.1)
        with tracing("compare", port, other.port) as printed:
            subprocess.run([LOAD, "-q", "-c", "1", "-n", "5", f"http://127.0.0.1:{port}{FILE}"], env=environment(), timeout=PATIENCE, check=True)
            talk(other, 3, 0)
    found = compared(runs[0])
    stages = found["stages"]
    if not stages["parsed"]["a"]["known"]:
        pytest.skip("rung was built without trace points of its own")
    assert stages["parsed"]["b"]["known"] == 0 and stages["parsed"]["a"]["p50_ns"] > 0
    assert stages["parsed"]["a"]["mean_ns"] is stages["found"]["b"]["mean_ns"] is None
    assert found["explains"]["mean"] == "out"
    assert re.search(r"(?m)^.*parsed, found.*: known of A alone; B has that time in the next stage that both know$", printed[0].out)
    for side in "ab":
        means = [stages[name][side]["mean_ns"] or 0 for name in OF_ANSWER]
        assert sum(means) == pytest.approx(found["answer"][side]["mean_ns"], abs=1)


@traced
def test_filters():
    with quick_and_slow("--json", "--slower", "50000") as (run, quick, _):
        assert run.status == FAILED and f"no answer was seen at port {quick}" in run.err


@traced
def test_picture(tmp_path):
    """The picture is well-formed and has the names as given, each stage that took time, and both means."""
    path = tmp_path / "both.svg"
    with quick_and_slow("--svg", path, names=("=<a> & \"b\"", "=slow")) as (run, _, _):
        pass
    assert run.status == DONE
    texts = [text.text for text in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count('<a> & "b"') == texts.count("slow") == 2 and {"read", "out"} <= set(texts)
    assert "parsed" not in texts  # which neither server reports
    means = re.search(r"\(([0-9.]+) and ([0-9.]+) us\)", run.out)
    assert {f"{means[1]} us", f"{means[2]} us"} <= set(texts)


@traced
def test_a_picture_that_cannot_be_written(tmp_path):
    with quick_and_slow("--svg", tmp_path / "none" / "x.svg") as (run, _, _):
        assert run.status == FAILED and "cannot write this file" in run.err and "answers in" in run.out
    with quick_and_slow("--svg", "/dev/full") as (run, _, _):
        assert run.status == FAILED and "cannot write this file" in run.err


@pytest.mark.parametrize("args, words", [((), "which ports?"), (("{0}",), "which ports?"), (("{0}", "{0}"), "two servers have two ports"),
                                         (("{0}=", "{1}"), "a name has 1 to 31"), (("{0}", "{1}=" + 32 * "n"), "a name has 1 to 31"),
                                         (("{0}", "x"), "is no port"), (("--in-turn", "{0}", "{1}"), "add --duration"),
                                         (("{0}", "{1}", "1"), "too many"), (("--status", "4", "{0}", "{1}"), "three digits")])
def test_usage(args, words):
    with Lies() as one, Lies() as other:
        run = trace("compare", *(arg.format(one.port, other.port) for arg in args))
    assert run.status == USAGE and words in run.err and not run.out


@traced
def test_the_longest_name():
    with Lies() as one, Lies() as other:
        run = trace("compare", "-d", "10ms", one.port, f"{other.port}={31 * 'n'}")
    assert run.status == FAILED and "no answer was seen" in run.err


def test_a_port_where_nothing_listens():
    with Lies() as one:
        with Lies() as other:
            gone = other.port
        run = trace("compare", one.port, gone)
    assert run.status == FAILED and f"nothing listens at TCP port {gone}" in run.err


class TestWords(Words):
    """The options of compare are on the page of rung trace."""
    name, least, run = "trace", 8, staticmethod(lambda what: trace("compare", what))
