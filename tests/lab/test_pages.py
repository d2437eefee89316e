# SPDX-License-Identifier: MIT
"""What the lab makes from a result: plots, pages, the block of its document.  Whatever a result holds, nothing is invented or breaks."""
import csv
import html.parser
import io
import json
import re
import xml.etree.ElementTree as ET

import figures
import pytest
import sample

pytest.importorskip("matplotlib", reason="matplotlib is not installed")
pytest.importorskip("jinja2", reason="jinja2 is not installed")
import document  # noqa: E402 pylint: disable=wrong-import-position
import draw  # noqa: E402 pylint: disable=wrong-import-position
import page  # noqa: E402 pylint: disable=wrong-import-position
import plots  # noqa: E402 pylint: disable=wrong-import-position
import sheet  # noqa: E402 pylint: disable=wrong-import-position
import view  # noqa: E402 pylint: disable=wrong-import-position

VOID = {"meta", "link", "img", "br", "hr", "input"}
NASTY = ['<script>alert(1)</script>', '"quoted" & \'single\'', "$x^2$ _under_ `tick` | pipe", "]]> --> <!-- &amp;", "_hidden",
         "a name that is much longer than any name has a right to be, and then some words more to be sure"]


class Checker(html.parser.HTMLParser):
    """Every element that was opened is closed, in order; ids are unique, and each reference has its target."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.labels, self.links, self.tags, self.text = [], [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)
        assert set(self.labels) <= set(self.ids)

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        for key, value in attrs:
            if key == "id":
                self.ids.append(value)
            elif key == "aria-labelledby":
                self.labels += value.split()
            elif key in ("src", "href", "xlink:href"):
                self.links.append(value)
            assert not key.startswith("on")

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data):
        self.text.append(data)


def empty():
    made = sample.pools()
    made.update(cells=[], missing={})
    return made


def small():
    made = sample.plan(["mutex", "lock-free"], ["64 connections"], plot=[{"kind": "bars", "figure": "cpu_us"}])
    return sample.result(made)


def once():
    made = sample.pools()
    made["cells"] = [one for one in made["cells"] if one["round"] == 0]
    return made


def extreme():
    """Figures of 0, of nearly 0, and beyond anything measured."""
    made = sample.pools()
    factors = {"mutex": 0, "lock-free": 1e12, "mutex, drain all, yield": 1e-9}
    for one in made["cells"]:
        one["figures"] = {key: value * factors[one["target"]] for key, value in one["figures"].items()}
        one["percentiles"] = [[at, value * factors[one["target"]]] for at, value in one.get("percentiles", [])]
    return made


def nasty():
    made = sample.result(sample.plan(NASTY, [{"name": NASTY[0], "x": 0}, {"name": NASTY[2], "x": 5}], question=NASTY[1] + "?",
                                     title=NASTY[0], method=NASTY[3], of=NASTY[0],
                                     plot=[{"kind": kind, "figure": "p99_us", "log": "xy", "title": NASTY[0], "x_label": NASTY[2]}
                                           for kind in ("bars", "lines", "percentiles")],
                                     claim=[{"document": NASTY[0], "says": NASTY[3], "figure": "cpu_us", "of": NASTY[0], "to": NASTY[1],
                                             "expect": "> 100"}]),
                         configs={NASTY[0]: NASTY[3]}, settings={NASTY[0]: NASTY[1]}, remarks=[NASTY[0]], commit=NASTY[0])
    sample.break_cell(made, NASTY[1], NASTY[0], 0, NASTY[0])
    sample.without(made, NASTY[4], NASTY[3])
    return made


def timed():
    made = sample.pools()
    made["plan"]["plot"] = [{"kind": "time", "figure": "per_second"}]
    for one in made["cells"]:
        one["series"] = {"per_second": [[second / 10, 40000 + one["round"] * second] for second in range(50)]}
    return made


def all_bad():
    made = sample.pools()
    for one in made["cells"]:
        one.update(figures={}, error="no such luck", percentiles=None)
    return made


def stacked():
    """Bars made of parts, one of which is 0 in each cell."""
    made = sample.pools()
    made["plan"]["plot"] = [{"kind": "stack", "figure": "slow_us", "parts": ["slow_read_us", "slow_found_us", "slow_out_us"]}]
    for one in made["cells"]:
        read = one["figures"].get("cpu_us")
        one["figures"] = {"slow_us": 3 * read, "slow_read_us": read, "slow_found_us": 2 * read, "slow_out_us": 0} if read else {}
    return made


def rungs():
    return sample.ladder(("naive", "epoll"))


EVERY = [sample.pools, rungs, stacked, empty, once, extreme, nasty, timed, all_bad, sample.standings]


def drawings(result):
    for number, plot in enumerate(draw.plots(result), 1):
        for width, use in ((sheet.WIDE, draw.WHOLE), (sheet.NARROW, draw.INLINE)):
            yield plot, use, draw.as_svg(result, number, width, use)


def words_of(svg):
    """The text in a picture, with its lines joined, because a long text may be on several lines."""
    return " ".join("".join(one.itertext()) for one in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"))


# --- Plots --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("make", EVERY)
@pytest.mark.filterwarnings("error")
def test_a_plot_says_what_it_shows(make):
    result = make()
    for plot, use, svg in drawings(result):
        root, said = ET.fromstring(svg), words_of(svg)
        assert root.get("role") == "img" and len(root.get("aria-labelledby").split()) == 2
        if use == draw.WHOLE:
            assert " ".join(result["plan"]["question"].split()) in said and f"commit {result['commit']}"[:9] in said
        if draw.EMPTY in said:
            continue
        axis = "answered within [us]" if plot["kind"] == "percentiles" else draw.bars.axis_label(plot)
        assert axis in said
        if plot["kind"] == "lines":
            assert plot["x_label"] in said
        for name in result["missing"]:
            assert view.MISSING in said and "nan" not in said.split(), name


@pytest.mark.parametrize("make", [empty, all_bad])
def test_nothing_measured_is_never_a_figure(make):
    for _, _, svg in drawings(make()):
        assert draw.EMPTY in words_of(svg) or "× invalid" in words_of(svg)
        assert not re.search(r"\d us", words_of(svg))


def test_an_invalid_cell_is_a_gap():
    """Among bars, a note is where the bar would be; a line has a cross and no point."""
    result = sample.pools()
    assert words_of(draw.as_svg(result, 1)).count("× invalid") == 1
    assert "× invalid" not in words_of(draw.as_svg({**result, "cells": [one for one in result["cells"] if not one["error"]]}, 1))
    lines = rungs()
    assert "invalid" in words_of(draw.as_svg(lines, 1)).split()
    import lines as kind  # pylint: disable=import-outside-toplevel
    points = dict(kind.over_x(lines, draw.plots(lines)[0])[0].lines)["epoll"]
    assert [one.x for one in points if one.broken] == [16] and all(one.median is None for one in points if one.broken)


def test_parts_add_up_to_the_bar():
    """Each part has a colour, and an entry in the legend if it is more than 0 in some cell."""
    made, drawn = stacked(), []

    class Axes:
        """The axes that the bars are drawn on."""

        def barh(self, middle, wide, *_, left=0, color=None, **_more):
            drawn.append((left, wide[0], color))

        def annotate(self, *_args, **_more):
            pass
    plot = made["plan"]["plot"][0]
    place = view.targets(made)[1], view.scenarios(made)[0]
    cell = draw.bars.value(made, plot, *place)
    draw.stack.one(Axes(), place, cell, 0, made, plot, draw.stack.colours(plot))
    assert [round(wide / cell.median, 3) for _, wide, _ in drawn] == [0.333, 0.667, 0]
    assert [left for left, _, _ in drawn][:2] == [0, drawn[0][1]] and len({colour for _, _, colour in drawn}) == 3
    said = words_of(draw.as_svg(made, 1))
    assert "read" in said.split() and "found" in said.split() and "out" not in said.split() and said.count("× invalid") == 1
    assert said.count("hundredth") == 2  # above and beneath the plot, and in no part's name


@pytest.mark.parametrize("key, log, found", [("cpu_us", "", False), ("per_second", "x", False), ("p99_us", "", True),
                                             ("cpu_us", "y", True), ("per_second", "xy", True),
                                             ("instructions", "", False), ("instructions", "y", True)])
def test_which_axes_are_logarithmic(key, log, found):
    assert draw.axis.is_log({"figure": key, "log": log}) == found


def test_a_row_of_bars_is_of_who_was_asked():
    """A target that was left out of a scenario has no empty row there; one that failed or is not installed has a row that says so."""
    result = sample.pools()
    result["plan"]["target"][2]["not"] = ["1 connection, 1 KiB"]
    result["cells"] = [one for one in result["cells"] if (one["target"], one["scenario"]) != ("mutex, drain all, yield",
                                                                                           "1 connection, 1 KiB")]
    panels = draw.bars.panels(result, {"figure": "cpu_us"})
    assert [list(panel.cells) for panel in panels] == [view.targets(result), ["mutex", "lock-free", "nginx, tuned"], view.targets(result)]
    plan = draw.bars.planned(result, {"kind": "bars", "figure": "cpu_us"}, sheet.NARROW)
    assert plan.heights[1] < plan.heights[2]
    said = words_of(draw.as_svg(result, 1))
    assert said.count("mutex, drain all, yield") == 2 and view.MISSING in said and "× invalid" in said


def test_sizes_are_called_as_people_call_them():
    words = draw.lines.place_words
    plot = {"x_label": "size of the file [B]"}
    assert [words(plot, size) for size in (1, 1000, 1024, 4096, 4100, 1 << 20, 3 << 30)] == [
        "1", "1,000", "1 KiB", "4 KiB", "4,100", "1 MiB", "3 GiB"]
    assert words({}, 1024) == words({"x_label": "connections"}, 1024) == "1,024"


@pytest.mark.parametrize("log, limits, inches", [(False, (0, 64), 1.9), (False, (0, 64), 5), (False, (0, 9.7e7), 3.5),
                                                 (True, (50, 9000), 2.7)])
def test_an_axis_has_as_many_ticks_as_fit(log, limits, inches):
    """Two ticks are no scale."""
    from matplotlib.figure import Figure  # pylint: disable=import-outside-toplevel
    axes = Figure().add_axes([0, 0, 1, 1])
    draw.axis.figure_x(axes, log, limits, inches)
    labels = [one.get_text() for one in axes.get_xticklabels()]
    assert len(labels) >= 3 and sum(map(bool, labels)) >= len(labels) - 1


def test_a_claim_says_of_whom_and_what_was_tested():
    result = sample.pools()
    result["plan"]["claim"] = [
        {"document": "All are alike.", "source": "kecho report, Experiment; text", "says": "Tested: within a tenth.", "figure": "cpu_us", "of": ["mutex, drain all, yield", "nginx, tuned"],
         "to": "mutex", "scenario": "64 connections, 1 KiB", "expect": "0.9..1.1"},
        {"says": "One is better.", "figure": "per_second", "best_of": ["lock-free", "mutex, drain all, yield"], "to": "mutex",
         "scenario": "64 connections, 1 KiB", "expect": "> 1"},
        {"says": "By a thousand.", "figure": "per_second", "of": "lock-free", "minus": "mutex", "scenario": "64 connections, 1 KiB",
         "expect": "> 1e9"}]
    text = document.markdown(result)
    assert "| *kecho report, Experiment; text*: All are alike. Tested: within a tenth. | processor time a request [us], each of mutex, drain all, yield, " \
        "nginx, tuned / mutex: 0.9 to 1.1 | " in text
    assert "nginx, tuned, 64 connections, 1 KiB (nginx, tuned: nginx is not installed)" in text and "**not measured**" in text
    assert "the best of lock-free, mutex, drain all, yield / mutex: more than 1 |" in text
    assert "requests a second [1/s], lock-free less mutex: more than 1e9 |" in text
    said = " ".join("".join(Checker(page.html(result)).text).split())
    assert "Tested: within a tenth." in said and "lock-freemutexdifference" in said


def test_linear_axes_begin_at_zero():
    assert draw.axis.limits_of([50, 51], False)[0] == 0
    low, high = draw.axis.limits_of([50, 51, 0], True)
    assert 0 < low < 50 and 51 < high and high / low > 9.9


def test_a_name_has_one_look():
    """An engine has the same look in every plot; no two names in a plot have the same look while there are looks left."""
    looks = draw.theme.looks
    assert looks(["a", "b", "epoll"])["epoll"] == looks(["epoll", "uring"])["epoll"] == draw.theme.NAMED["epoll"]
    names = [*sample.ENGINES, "nginx, tuned", "nginx, default", "Apache, tuned", "Apache, default", "lighttpd", "h2o", "Caddy"]
    assert len(set(looks(names).values())) == len(names)
    assert looks(names)["nginx, default"] == draw.theme.NAMED["nginx"]
    assert looks(names)["nginx, tuned"] == looks(["nginx, tuned"])["nginx, tuned"] == draw.theme.NAMED["nginx"]._replace(hollow=True)
    assert looks(["epoll, edge", "epoll, level"])["epoll, edge"] == draw.theme.NAMED["epoll"]
    assert len(looks([str(number) for number in range(40)])) == 40
    assert len({(look.marker, look.dash) for look in draw.theme.NAMED.values()}) == len(draw.theme.NAMED)
    variables = draw.theme.variables(False)
    assert len(set(variables.values())) == len(variables)


def luminance(colour):
    parts = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("dark, paper", [(False, "#ffffff"), (True, "#1a1d21")])
def test_colours_stand_out(dark, paper):
    """WCAG 2.1: 3:1 for graphics, 4.5:1 for text."""
    for name, colour in draw.theme.variables(dark).items():
        if name == "paper":
            assert colour == paper
            continue
        light, other = sorted((luminance(colour), luminance(paper)), reverse=True)
        least = 3 if name.startswith("t-") else 4.5 if name != "line" else 1
        assert (light + 0.05) / (other + 0.05) >= least, (name, colour)


def test_labels_do_not_touch():
    places, labels = [0, 0.1, 0.2, 0.5, 1], ["1,000"] * 5
    kept = draw.axis.without_touching(places, labels, 0.08, 1.2)
    assert kept[0] == 0 and kept[-1] == 4 and 1 not in kept
    assert draw.axis.without_touching([0, 1.2], ["0", "a label that would be cut"], 0.08, 1.2) == [0]


def test_the_same_result_gives_the_same_bytes():
    result = small()
    again = json.loads(json.dumps(result))
    assert draw.as_svg(result, 1) == draw.as_svg(again, 1) and draw.as_png(result, 1) == draw.as_png(again, 1)
    assert page.html(result) == page.html(again) and document.markdown(result) == document.markdown(again)


def test_a_picture_says_of_which_result_it_is(tmp_path):
    result, path = small(), tmp_path / "a.png"
    path.write_bytes(draw.as_png(result, 1))
    assert plots.said_in(path) == view.fingerprint(result)
    result["cells"][0]["figures"]["cpu_us"] += 1
    assert plots.said_in(path) != view.fingerprint(result)


# --- Pages --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("make", EVERY)
# shows U51
def test_a_page_is_whole_and_alone(make):
    result = make()
    text = page.html(result)
    found = Checker(text)
    assert all(link.startswith(("#", "data:")) or link == "index.html" for link in found.links)
    assert "url(http" not in text and "@import" not in text and "script" not in found.tags
    said = " ".join("".join(found.text).split())
    for part in (result["plan"]["question"], result["plan"]["method"], *result["missing"].values(), *result["configs"].values()):
        assert " ".join(part.split()) in said
    for one in view.claims(result):
        assert one.expected in said and all(told.verdict in said for told in one.verdicts)
    assert found.tags.count("figure") == len(draw.plots(result))


def test_a_page_says_what_was_found():
    said = " ".join("".join(Checker(page.html(sample.pools())).text).split())
    for words in ("contradicted", "Rounds that contradict it", "not run here", "the server died", "Turbo was on", "rung lab run sample",
                  "net.core.somaxconn", "99.99 %", "all: the server's processor", "worker_processes 1;"):
        assert words in said, words


def test_no_difference_is_said_as_such():
    result = small()
    for one in result["cells"]:
        if not one["error"]:
            one["figures"]["cpu_us"] = 20 + (one["round"] + (one["target"] == "mutex")) % 2
    assert view.SAME in page.html(result) and " =" in document.markdown(result)


def test_few_rounds_are_never_significant():
    result = once()
    assert "too few for an interval" in " ".join(view.remarks(result))
    words = {view.cell(result, target, scenario, "cpu_us").word for target in view.targets(result) for scenario in view.scenarios(result)}
    assert words == {""}


def test_better_and_worse_depend_on_the_figure():
    from judge import Middle  # pylint: disable=import-outside-toplevel
    less = Middle(0.8, 0.9, 0.95, 6, True)
    assert view.better("cpu_us", less) == "better" and view.better("per_second", less) == "worse"
    assert view.better("cpu_us", Middle(0.8, 0.9, 1.1, 6, True)) == view.better("cpu_us", less._replace(sure=False)) == ""


# shows T07, U51
def test_cells_as_csv():
    rows = list(csv.DictReader(io.StringIO(page.as_csv(sample.pools()))))
    bad = [row for row in rows if row["error"]]
    assert len(rows) == 3 * 3 * 6 and len(bad) == 1 and bad[0]["cpu_us"] == "" and bad[0]["error"] == "the server died"
    assert float(rows[0]["cpu_us"]) > 0 and rows[0]["round"] == "1"


def test_the_index_has_every_experiment():
    results = {"pools": {**sample.pools(), "name": "pools"}, "nasty": {**nasty(), "name": "nasty"}}
    plans = {"never": {"title": "Never & never", "question": "Why?"}, "broken": {}}
    text = page.index(plans, results)
    found = Checker(text)
    said = " ".join("".join(found.text).split())
    assert "Never & never" in said and said.count("not run here yet") == 2 and "1 contradicted" in said
    assert "not run here: nginx, tuned" in said and "script" not in found.tags
    assert all(link.startswith("data:") or re.fullmatch(r"\w+\.html", link) for link in found.links)
    assert Checker(page.index({}, {}))


# --- Documents ----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("make", EVERY)
def test_a_block_of_a_document(make):
    result = make()
    text = document.whole(result)
    assert text.endswith("<!-- /lab sample -->\n") and "\n\n\n" not in text and not re.search(r" $", text, re.MULTILINE)
    rows = [line for line in text.split("\n") if line.startswith("|")]
    counts = [len(re.findall(r"(?<!\\)\|", line)) for line in rows]
    assert all(count > 2 for count in counts) and "<script" not in text
    assert text.count("<!--") == 2
