# SPDX-License-Identifier: MIT
"""bars.py - a panel for each scenario, a bar for each target with its name before it and its median behind.

The bars are horizontal, so that names need no legend and stay readable however long they are.  On a logarithmic axis, where
a bar's length means nothing, there is a point instead.  Scenarios of very different size have a scale each, and say so.
"""
from typing import NamedTuple

import axis
import figures
import judge
import sheet
import theme
import view
from matplotlib.colors import to_rgba
from matplotlib.transforms import blended_transform_factory
from sheet import SIZE, SMALL, width_of

ROW, BAR, TITLE, TICKS, LABEL, GAP = 0.23, 0.72, 0.24, 0.22, 0.2, 0.14  # inches; BAR: of its row
HOLLOW = 0.3  # opacity of a hollow bar
ALIKE = 0.3  # the scenarios share a scale if the ratio of their greatest values is at least this


class Panel(NamedTuple):
    scenario: str
    cells: dict  # target -> Middle or None, for the targets of this scenario


class Plan(NamedTuple):
    """Where everything goes, before anything is drawn."""
    panels: list
    labels: dict   # target -> lines
    left: float    # inches before a panel's axes
    inside: float  # width of the axes
    columns: int
    heights: list  # of each row of panels
    log: bool
    shared: bool   # one scale for all
    once: bool     # ... shown only below the last panels


def panels(result, plot):
    key = plot["figure"]
    found = [Panel(scenario, {target: value(result, plot, target, scenario) for target in chosen(result, plot)
                              if not judge.left_out(result, target, scenario)})
             for scenario in where(result, plot) if not ("to" in plot and judge.left_out(result, plot["to"], scenario))
             and (view.has(result, scenario, key) or failed(result, scenario))]
    return [panel for panel in found if panel.cells]


def value(result, plot, target, scenario):
    """A figure, or with `to` its ratio to another target's."""
    if "to" in plot:
        return judge.ratio(result, target, plot["to"], scenario, plot["figure"])
    return judge.figure_of(result, target, scenario, plot["figure"])


def label(plot):
    return f"{figures.FIGURES[plot['figure']].words} / that of {plot['to']}" if "to" in plot else figures.words(plot["figure"])


def axis_label(plot):
    """A short label: it must not be wider than a narrow panel."""
    return f"ratio to {plot['to']}" if "to" in plot else label(plot)


def where(result, plot):
    return [plot["scenario"]] if "scenario" in plot else plot.get("scenarios") or view.scenarios(result)


def chosen(result, plot):
    return plot.get("targets") or view.targets(result)


def failed(result, scenario):
    return any(one["scenario"] == scenario and one.get("error") for one in result["cells"])


def tops(found):
    return [max([cell.high for cell in panel.cells.values() if cell], default=0) for panel in found]


def alike(found):
    known = [top for top in tops(found) if top > 0]
    return not known or min(known) >= ALIKE * max(known)


def planned(result, plot, width):
    found, names = panels(result, plot), chosen(result, plot)
    log = axis.is_log(plot)
    widest = min(max(width_of(name) for name in names) + 0.02, 0.36 * width)
    columns = 2 if width >= sheet.WIDE and len(found) > 3 and widest < 0.2 * width else 1
    labels = {name: sheet.wrapped(name, widest) for name in names}
    left = widest + 0.12
    inside = (width - GAP * 2 * (columns - 1)) / columns - left - axis.BEYOND
    shared = log or alike(found)
    bands = [found[at:at + columns] for at in range(0, len(found), columns)]
    title = [max(len(sheet.wrapped(panel.scenario, left + inside, SIZE, "bold")) for panel in band) for band in bands]
    once = shared and (columns == 1 or len({len(panel.cells) for panel in found}) == 1)  # or some would be far above it
    heights = [(lines - 1) * SIZE * sheet.LINE + TITLE + max(body(panel, labels) for panel in band)
               + (0 if once and band is not bands[-1] else TICKS) + GAP for lines, band in zip(title, bands)]
    return Plan(found, labels, left, inside, columns, heights, log, shared, once)


def body(panel, labels):
    return sum(row_height(labels[name]) for name in panel.cells)


def row_height(lines):
    return ROW + (len(lines) - 1) * SIZE * sheet.LINE


def height(plan):
    return sum(plan.heights) + LABEL - GAP if plan.panels else 0


def limits(plan, some):
    """The limits of the axis, with room behind each bar for its number."""
    known = [cell for panel in some for cell in panel.cells.values() if cell]
    room = {cell: (width_of(view.amount(cell.median), SMALL) + 0.12) / plan.inside for cell in known}
    if plan.log:
        low, high = axis.log_limits([end for cell in known for end in (cell.low, cell.high)])
        for cell in known:
            if cell.high > 0:
                high = max(high, low * (cell.high / low) ** (1 / (1 - min(room[cell], 0.6))))
        return low, high
    return 0, max([cell.high / (1 - min(room[cell], 0.6)) for cell in known if cell.high > 0], default=1) * 1.01


def draw(result, plot, plan, paper, paint=None):
    """paint(axes, (target, scenario), Middle, middle) draws a cell that is no plain bar."""
    looks = theme.looks(view.targets(result))
    span = limits(plan, plan.panels)
    for number, band_height in enumerate(plan.heights):
        band = plan.panels[number * plan.columns:(number + 1) * plan.columns]
        lines = max(len(sheet.wrapped(panel.scenario, plan.left + plan.inside, SIZE, "bold")) for panel in band)
        for column, panel in enumerate(band):
            left = column * (plan.left + plan.inside + axis.BEYOND + 2 * GAP)
            top = paper.top
            for line in sheet.wrapped(panel.scenario, plan.left + plan.inside, SIZE, "bold"):
                paper.text(left, top, line, size=SIZE, weight="bold")
                top += SIZE * sheet.LINE
            axes = paper.axes(left + plan.left, paper.top + TITLE + (lines - 1) * SIZE * sheet.LINE, plan.inside,
                              body(panel, plan.labels))
            axis.figure_x(axes, plan.log, span if plan.shared else limits(plan, [panel]), plan.inside)
            if "to" in plot:
                axes.axvline(1, color=theme.DIM, lw=0.8, dashes=(3, 2), zorder=4)
            fill(axes, panel, plan, paint or (lambda axes, place, cell, middle: one(axes, result, place, cell, middle,
                                                                                    looks[place[0]], plan.log)))
            last = number * plan.columns + column + plan.columns >= len(plan.panels)
            if plan.once and not last:
                axes.tick_params(labelbottom=False)
            if last:
                axes.annotate(axis_label(plot), (0, 0), (0, -(TICKS + 0.02) * 72), xycoords="axes fraction",
                              textcoords="offset points", va="top", size=SIZE)
        paper.top += band_height
    paper.top += LABEL


def fill(axes, panel, plan, paint):
    axes.set_ylim(body(panel, plan.labels), 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(not plan.log)
    top = 0
    for name in panel.cells:
        lines = plan.labels[name]
        middle = top + row_height(lines) / 2
        for number, line in enumerate(lines):
            down = (number - (len(lines) - 1) / 2) * SIZE * sheet.LINE * 72
            axes.annotate(line, (0, middle), (-6, -down), xycoords=axes.get_yaxis_transform(), size=SIZE,
                          textcoords="offset points", ha="right", va="center", annotation_clip=False)
        paint(axes, (name, panel.scenario), panel.cells[name], middle)
        top += row_height(lines)


def one(axes, result, place, cell, middle, look, log):
    if cell is None or log and cell.high <= 0:
        absent(axes, result, place, cell, middle)
        return
    if log:
        axes.plot([max(cell.median, axes.get_xlim()[0])], [middle], marker=look.marker, color=look.light, mfc=look.face, ms=6,
                  zorder=3)
        axes.plot([max(cell.low, axes.get_xlim()[0]), cell.high], [middle] * 2, color=look.light, lw=1.6, zorder=2)
    else:
        axes.barh([middle], [cell.median], ROW * BAR, color=to_rgba(look.light, HOLLOW if look.hollow else 1),
                  edgecolor=look.light, lw=1 if look.hollow else 0, zorder=2)
        for colour, width in ((theme.PAPER, 2.2), (theme.FG, 1)):  # visible on dark bars too
            axes.plot([cell.low, cell.high], [middle] * 2, color=colour, lw=width, marker="|", ms=5, mew=width, zorder=3)
    axes.annotate(view.amount(cell.median), (max(cell.high, cell.median), middle), (5, 0), textcoords="offset points", size=SMALL,
                  va="center", color=theme.FG)


def absent(axes, result, place, cell, middle):
    """Draw words in place of a missing bar."""
    if cell is not None:
        text, colour = "0", theme.FG
    elif judge.cannot(result, *place):
        text, colour = view.CANNOT, theme.DIM
    elif judge.errors(result, *place):
        text, colour = "× invalid", theme.BAD
    else:
        text, colour = view.MISSING if place[0] in result["missing"] else view.NONE, theme.DIM
    left = blended_transform_factory(axes.transAxes, axes.transData)
    axes.annotate(text, (0, middle), (4, 0), xycoords=left, textcoords="offset points", va="center", size=SMALL,
                  style="italic", color=colour)


def reading(plan, count, better, to=""):
    what = "The point" if plan.log else "The bar"
    if to:
        scale = "" if plan.shared else " Each scenario has its own scale."
        return (f"{what} is the median of {view.counted(count, 'round')}, each the ratio of two figures of that round, the line "
                f"through it its interval; {better}.{scale} The dashed line is {to}: 1.")
    scale = "" if plan.shared else " Each scenario has its own scale."
    return (f"{what} is the median of {view.counted(count, 'round')}, the line through it its interval; {better}.{scale} "
            "Whether two differ is said by the ratios in the table, which pair rounds, not by whether two lines overlap.")
