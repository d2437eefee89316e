# SPDX-License-Identifier: MIT
"""lines.py - plots with a line for each target, over a scenario's x, percentiles or time.

Panels under one legend.  A line is broken where a cell is invalid, and a cross at the foot says so.
"""
from typing import NamedTuple

import axis
import judge
import sheet
import theme
import view
from bars import chosen, failed, where
from figures import words
from matplotlib.transforms import blended_transform_factory
from sheet import SIZE, width_of

KEY, SAMPLE, BODY, GAP, BELOW = 0.2, 0.34, 2.5, 0.25, 0.56  # inches: a line of the legend, its sample, a panel
FAINT = 0.16  # opacity of an interval's band
BANDS = 5     # the bands of more lines would hide each other: an interval is then a thin line at its point


class Point(NamedTuple):
    x: float
    low: float = None
    median: float = None
    high: float = None
    broken: bool = False  # invalid: a gap


class Panel(NamedTuple):
    title: str
    lines: list  # (target, [Point, ...])
    ticks: list  # (x, words)


class Plan(NamedTuple):
    panels: list
    names: list   # of targets
    legend: list  # rows of (target or None, words, left)
    columns: int
    label: str    # of the x axis
    log_x: bool
    log_y: bool
    title: float  # inches above a panel


# --- What is drawn ------------------------------------------------------------------------------------------

def point(result, target, scenario, key, x):
    found = judge.figure_of(result, target, scenario, key)
    if found:
        return Point(x, found.low, found.median, found.high)
    return Point(x, broken=bool(judge.errors(result, target, scenario)))


def runs(rows):
    """Scenarios whose x are all different make one panel; otherwise a new panel begins where x falls."""
    if len({row["x"] for row in rows}) == len(rows):
        return [sorted(rows, key=lambda row: row["x"])] if rows else []
    found = []
    for row in rows:
        if not found or row["x"] <= found[-1][-1]["x"]:
            found.append([])
        found[-1].append(row)
    return found


def place_words(plot, x):
    """The label of an x: a number of bytes with its unit, other numbers as they are."""
    if "[B]" in plot.get("x_label", ""):
        for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
            if x >= size and x % size == 0:
                return f"{x // size} {unit}"
    return view.tick(x)


def over_x(result, plot):
    named, key = where(result, plot), plot["figure"]
    rows = [row for row in result["plan"]["scenario"] if row["name"] in named and "x" in row
            and (view.has(result, row["name"], key) or failed(result, row["name"]))]
    several = runs(rows)
    return [Panel(f"{some[0]['name']} … {some[-1]['name']}" if len(several) > 1 else "",
                  [(target, [point(result, target, row["name"], key, row["x"]) for row in some])
                   for target in chosen(result, plot)],
                  [(row["x"], place_words(plot, row["x"])) for row in some]) for some in several]


def over_percentiles(result, plot):
    """Drawn over 1/(1-p), so that all nines are equally far apart.  The maximum would be infinitely far, and is not shown."""
    found = []
    for scenario in where(result, plot):
        lines, ticks = [], set()
        for target in chosen(result, plot):
            rows = {at: one for at, one in view.percentiles(result, target, scenario).items() if 0 <= at < 100}
            points = [Point(100 / (100 - at), one.low, one.median, one.high) for at, one in rows.items()]
            lines.append((target, points or [Point(2, broken=bool(judge.errors(result, target, scenario)))]))
            ticks |= set(rows)
        if ticks:
            found.append(Panel(scenario, lines, [(100 / (100 - at), f"{at:.10g} %") for at in sorted(ticks)]))
    return found


def over_time(result, plot):
    """Every round is a line of its own, from a cell's {"series": {figure: [[second, value], ...]}}."""
    found, key = [], plot["figure"]
    for scenario in where(result, plot):
        lines = [(target, [Point(x, y, y, y) for x, y in one.get("series", {}).get(key, [])] if not one.get("error")
                  else [Point(0, broken=True)])
                 for target in chosen(result, plot) for one in judge.cells(result, target, scenario)]
        if last := max((points[-1].x for _, points in lines if points), default=0):
            found.append(Panel(scenario, lines, [(place, view.tick(place)) for place in axis.linear_ticks(last, 5)]))
    return found


KINDS = {"lines": over_x, "percentiles": over_percentiles, "time": over_time}


# --- Where it goes ------------------------------------------------------------------------------------------

def legend_rows(result, plot, width, broken):
    entries = [(name, name + (f" ({view.MISSING})" if name in result["missing"] else "")) for name in chosen(result, plot)]
    entries += [(None, "invalid")] if broken else []
    rows, left = [[]], 0.0
    for name, text in entries:
        text = sheet.wrapped(text, width - SAMPLE - 0.1)[0]
        needs = SAMPLE + width_of(text) + 0.25
        if rows[-1] and left + needs > width + 0.2:
            rows.append([])
            left = 0.0
        rows[-1].append((name, text, left))
        left += needs
    return rows


def planned(result, plot, width):
    found = KINDS[plot["kind"]](result, plot)
    broken = any(one.broken for panel in found for _, points in panel.lines for one in points)
    log_x = plot["kind"] == "percentiles" or "x" in plot.get("log", "") and all(x > 0 for p in found for x, _ in p.ticks)
    label = {"percentiles": "share of all calls" if view.of_calls(plot["figure"]) else "answered, share of all requests",
             "time": "time [s]"}.get(plot["kind"], plot.get("x_label", "x").replace(" [B]", ""))
    columns = 2 if width >= sheet.WIDE and len(found) > 1 else 1
    title = max((len(titled(panel, width / columns)) for panel in found), default=0) * SIZE * sheet.LINE
    return Plan(found, chosen(result, plot), legend_rows(result, plot, width, broken), columns, label, log_x, axis.is_log(plot), title)


def upward(plot):
    """The label of the y axis."""
    return view.within(plot["figure"]) if plot["kind"] == "percentiles" else words(plot["figure"])


def titled(panel, width):
    return sheet.wrapped(panel.title, width - GAP, SIZE, "bold") if panel.title else []


def height(plan):
    if not plan.panels:
        return 0
    bands = -(-len(plan.panels) // plan.columns)
    return len(plan.legend) * KEY + 0.08 + bands * (plan.title + KEY + BODY + BELOW) - 0.1


# --- Drawing ------------------------------------------------------------------------------------------------

def draw(result, plot, plan, paper):
    if not plan.panels:
        return
    looks = theme.looks(view.targets(result))
    legend(paper, plan.legend, looks)
    values = [end for panel in plan.panels for _, points in panel.lines for one in points if one.median is not None
              for end in (one.low, one.high)]
    limits = axis.limits_of(values, plan.log_y)
    across = (paper.width - GAP * (plan.columns - 1)) / plan.columns
    for number, panel in enumerate(plan.panels):
        column = number % plan.columns
        left, title = column * (across + GAP), titled(panel, across)
        top = paper.top + plan.title - len(title) * SIZE * sheet.LINE
        for text in title:
            paper.text(left, top, text, size=SIZE, weight="bold")
            top += SIZE * sheet.LINE
        paper.text(left, top, upward(plot), size=8, color=theme.DIM)
        place(paper, panel, plan, looks, (left, across, limits))
        if column == plan.columns - 1 or number == len(plan.panels) - 1:
            paper.top += plan.title + KEY + BODY + BELOW


def place(paper, panel, plan, looks, span):
    left, across, limits = span
    axes = paper.axes(left, paper.top + plan.title + KEY, across, BODY)
    room = axis.figure_y(axes, plan.log_y, limits, BODY) + 0.12
    inside = across - room - axis.BEYOND
    axes.set_position([(left + room) / paper.width, axes.get_position().y0, inside / paper.width, BODY / paper.height])
    places = [x for x, _ in panel.ticks]
    ends = places + [one.x for _, points in panel.lines for one in points]
    axes.set_xscale("log" if plan.log_x else "linear")
    if plan.log_x:
        axes.set_xlim(min(ends) / 1.15, max(max(ends) * 1.15, min(ends) * 2))
    else:
        spare = (max(ends) - min(ends)) * 0.03 or 1
        axes.set_xlim(min(ends) - spare, max(ends) + spare)
    axis.at_places(axes, places, [text for _, text in panel.ticks], inside)
    axes.set_xlabel(plan.label, loc="left")
    feet = 0
    for target, points in panel.lines:
        line(axes, points, looks[target], (plan.log_y, len(plan.names) <= BANDS))
        feet += crosses(axes, points, looks[target], feet)


def line(axes, points, look, how):
    """Draw a line, in parts if points are missing in between."""
    (log, bands), parts = how, [[]]
    for one in points:
        if one.median is None or log and one.median <= 0:
            parts.append([])
        else:
            parts[-1].append(one)
    for part in filter(None, parts):
        x = [one.x for one in part]
        low = [max(one.low, axes.get_ylim()[0]) for one in part]
        many = len(part) > 30
        if bands:
            axes.fill_between(x, low, [one.high for one in part], color=look.light, alpha=FAINT, lw=0)
        if not many and (not bands or len(part) == 1):
            axes.vlines(x, low, [one.high for one in part], color=look.light, lw=0.9)
        axes.plot(x, [one.median for one in part], color=look.light, linestyle=look.dash, marker="" if many else look.marker,
                  mfc=look.face, ms=5, lw=1 if many else 1.6)


def crosses(axes, points, look, feet):
    broken = [one.x for one in points if one.broken]
    if not broken:
        return 0
    foot = blended_transform_factory(axes.transData, axes.transAxes)
    axes.plot(broken, [0.03 + 0.05 * feet] * len(broken), marker="x", ms=6, mew=2, color=look.light, linestyle="", transform=foot,
              clip_on=False)
    return 1


def legend(paper, rows, looks):
    over = paper.axes(0, 0, paper.width, paper.height)
    over.set_xlim(0, paper.width)
    over.set_ylim(paper.height, 0)
    over.axis("off")
    for row in rows:
        middle = paper.top + KEY / 2
        for name, text, left in row:
            if name:
                look = looks[name]
                over.plot([left, left + 0.13, left + 0.26], [middle] * 3, color=look.light, linestyle=look.dash,
                          marker=look.marker, mfc=look.face, markevery=[1], ms=5, lw=1.6)
            else:
                over.plot([left + 0.13], [middle], color=theme.DIM, marker="x", ms=6, mew=2, linestyle="")
            over.annotate(text, (left + SAMPLE, middle), va="center", size=SIZE)
        paper.top += KEY
    paper.top += 0.08


def reading(plan, plot, count, better):
    if plot["kind"] == "time":
        return f"A line for each target and round, over the time since its load began; {better}."
    interval = "the band around it" if len(plan.names) <= BANDS else "the thin upright line at each point"
    what = f"A line is the median of {view.counted(count, 'round')}, {interval} the interval of that median; {better}."
    if plot["kind"] == "percentiles":
        what += " Each step to the right is ten times rarer: at 99.9 % one request of a thousand waited longer."
    return what + " A cross at the foot is a cell without a valid figure."
