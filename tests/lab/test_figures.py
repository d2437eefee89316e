# SPDX-License-Identifier: MIT
"""What the lab makes from figures: medians, ratios with their spread, tables, places in documents."""
import pytest
import table

ORIGIN = {"machine": {"processor": "P", "cores": 2, "memory_mib": 4096, "kernel": "6.1", "system": "S"},
          "commit": "abc", "command": "lab/cost.py", "when": "2026-01-02T03:04:05+00:00", "seconds": 9.6,
          "load_before": [0.5, 0, 0], "load_after": [1.5, 0, 0], "cannot_run": {}, "errors": []}


def data(**engines):
    """engine=[figures of the rounds of cpu_one], None where a round failed."""
    return {**ORIGIN, "base": "epoll", "engines": {
        name: {"cpu_one": [{"error": "x"} if us is None else {"total_us": us, "connections": 1} for us in rounds]}
        for name, rounds in engines.items()}}


@pytest.mark.parametrize("figure, text", [
    (0, "0.00"), (0.00001, "< 0.0001"), (0.0001, "0.0001"), (0.0123, "0.012"), (0.1, "0.10"), (9.994, "9.99"),
    (10, "10.0"), (99.94, "99.9"), (100, "100"), (12345.6, "12,346")])
def test_brief(figure, text):
    assert table.brief(figure) == text


@pytest.mark.parametrize("figures, text", [
    ([2], "2.00"), ([3, 1, 2], "2.00 (1.00..3.00)"), ([1, 2], "1.50 (1.00..2.00)"), ([1.001, 1.002], "1.00")])
# shows U50
def test_spread(figures, text):
    assert table.spread(figures) == text


def test_median_leaves_out_what_failed():
    assert table.median([None, 5, 1, None, 3]) == 3
    assert table.median([None]) is None and table.median([]) is None
    assert table.amount(None, " us") == "-" and table.amount(2, " us") == "2.00 us"


def test_a_ratio_is_of_one_round():
    """A ratio is not made from medians: a machine that is slow for a while is slow for both."""
    found = data(epoll=[1, 10, 100], pool=[2, 20, 200])
    assert table.ratios(found, "pool", "cpu_one", table.total_us) == [2, 2, 2]
    assert table.cell(found, "pool", "cpu_one", table.total_us) == "2.00"


def test_rounds_that_failed_have_no_ratio():
    found = data(epoll=[1, None, 2, 0], pool=[None, 5, 6, 7], poll=[None] * 4)
    assert table.ratios(found, "pool", "cpu_one", table.total_us) == [3]
    assert table.cell(found, "poll", "cpu_one", table.total_us) == "failed"
    assert table.cell(found, "poll", "cpu_crowd", table.total_us) == "-"  # was not measured
    assert table.ratios(found, "none", "cpu_one", table.total_us) == []


def test_summary():
    caption, head, rows = table.summary(data(naive=[2, 4, 9], epoll=[1, 2, 3]))
    assert caption == "Ratio to epoll: median (least..most) of the rounds"
    assert head[:3] == ["engine", "system calls", "CPU, 1 connection"]
    assert rows == [["naive", "-", "2.00 (2.00..3.00)", "-", "-", "-"],
                    ["epoll", "1 = -", "1 = 2.00 us", "1 = -", "1 = -", "1 = -"]]


def test_calls_say_once_what_all_do():
    found = {**ORIGIN, "base": "epoll", "engines": {
        "naive": {"calls": [{"by_name": {"recvfrom": 1, "openat2": 1}}]},
        "epoll": {"calls": [{"by_name": {"recvfrom": 1, "openat2": 1, "epoll_wait": 1}},
                            {"by_name": {"recvfrom": 1, "openat2": 1, "epoll_wait": 0.5, "futex": 0.02}}]}}}
    caption, _, rows = table.calls(found)
    assert caption.endswith("All engines: openat2 1.00, recvfrom 1.00")
    assert rows == [["naive", "-"], ["epoll", "epoll_wait 0.75"]]


def test_plain_is_aligned_and_tells_its_origin():
    found = {**data(epoll=[1]), "cannot_run": {"uring": "no io_uring"}, "errors": ["poll: x"]}
    text = table.plain(found, [("Caption", ["engine", "b"], [["epoll", "1"], ["dispatch", "22"]])])
    assert text.startswith("Caption\n  engine    b\n  epoll     1\n  dispatch  22\n\nP, 2 cores, 4 GiB, S, Linux 6.1; commit abc; ")
    assert text.endswith("\nuring cannot run here: no io_uring\nFAILED poll: x") and "noisy" not in text
    assert "noisy" in table.plain({**found, "load_after": [2.1, 0, 0]}, [])


def test_markdown():
    text = table.markdown(data(epoll=[1]), [("Caption", ["engine", "b"], [["epoll", "1"]])])
    assert text.startswith("Caption:\n\n| engine | b |\n|---|---|\n| `epoll` | 1 |\n\n")


PAGE = "a\n<!-- cost -->\nold\n<!-- /cost -->\nb\n<!-- cost two -->\nother\n<!-- /cost two -->\n"


def test_place_in_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert table.in_page(page, r"new \1", "cost") == PAGE.replace("old", r"new \1")
    assert table.in_page(page, "x", "cost two") == PAGE.replace("other", "x")
    assert page.read_text() == PAGE


@pytest.mark.parametrize("text", ["", "<!-- cost -->\n", PAGE + PAGE])
def test_no_place_in_a_page(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(SystemExit, match="has no place between <!-- cost -->"):
        table.in_page(page, "new", "cost")
    with pytest.raises(SystemExit, match="No such file"):
        table.in_page(tmp_path / "none.md", "new", "cost")
