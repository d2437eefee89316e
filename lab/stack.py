# SPDX-License-Identifier: MIT
"""stack.py - bars that are made of parts: the plot's `figure` is the whole, and `parts` are figures that add up to it.

The bar is as long as the median of the whole.  The medians of the parts need not add up to it, so each part is drawn with its
share of their sum.
"""
from typing import NamedTuple

import bars
import figures
import judge
import sheet
import theme
import view
from sheet import SIZE, SMALL, width_of

KEY, SAMPLE = 0.2, 0.16  # inches: a line of the legend, a square in it
ROWS = ("nginx", "fork", "uring", "caddy", "epoll", "dispatch", "apache", "coro")  # of theme.NAMED, for the parts in turn


class Plan(NamedTuple):
    bars: bars.Plan
    legend: list  # rows of [(colour, words, left), ...]
    shared: bool
    log: bool = False


def colours(plot):
    return {key: theme.NAMED[ROWS[number % len(ROWS)]].light for number, key in enumerate(plot["parts"])}


def there(result, plot):
    """Parts that are more than zero in any cell."""
    return [key for key in plot["parts"] if any(one["figures"].get(key) for one in result["cells"])]


def short(key):
    """The name of a part: its words before the colon."""
    return figures.FIGURES[key].words.split(":")[0]


def legend_rows(result, plot, width):
    rows, left, colour = [[]], 0, colours(plot)
    for key in there(result, plot):
        wide = SAMPLE + width_of(short(key)) + 0.22
        if left and left + wide > width:
            rows.append([])
            left = 0
        rows[-1].append((colour[key], short(key), left))
        left += wide
    return rows


def planned(result, plot, width):
    found = bars.planned(result, plot, width)
    return Plan(found, legend_rows(result, plot, width), found.shared)


def height(plan):
    beneath = bars.height(plan.bars)
    return beneath and beneath + len(plan.legend) * KEY + 0.08


def draw(result, plot, plan, paper):
    for row in plan.legend:
        for colour, words, left in row:
            square = paper.axes(left, paper.top + 0.02, 0.11, 0.11)
            square.set_axis_off()
            square.barh([0], [1], 1, color=colour)
            square.set_xlim(0, 1)
            square.set_ylim(-0.5, 0.5)
            paper.text(left + SAMPLE, paper.top, words, size=SIZE)
        paper.top += KEY
    paper.top += 0.08
    colour = colours(plot)
    bars.draw(result, plot, plan.bars, paper, lambda *cell: one(*cell, result, plot, colour))


def one(axes, place, cell, middle, result, plot, colour):
    if cell is None:
        bars.absent(axes, result, place, cell, middle)
        return
    parts = {key: found.median for key in plot["parts"] if (found := judge.figure_of(result, *place, key))}
    whole, left = sum(parts.values()) or 1, 0
    for key, part in parts.items():
        wide = cell.median * part / whole
        axes.barh([middle], [wide], bars.ROW * bars.BAR, left=left, color=colour[key], lw=0, zorder=2)
        left += wide
    axes.annotate(view.amount(cell.median), (cell.median, middle), (5, 0), textcoords="offset points", size=SMALL,
                  va="center", color=theme.FG)


def reading(plan, count, better):
    scale = "" if plan.shared else " Each scenario has its own scale."
    return (f"The bar is as long as the median of {view.counted(count, 'round')}, and each part has its share of it; {better}.{scale} "
            "The table has the intervals.")
