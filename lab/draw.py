# SPDX-License-Identifier: MIT
"""draw.py - the plots of a result, as SVG for a page, as SVG and PNG alone.

A file that stands alone has the question above it, and the machine and the number of rounds; a page has these already.
The same result gives the same bytes.
"""
import axis
import bars
import lines
import sheet
import stack
import svg
import theme
import view
from figures import FIGURES, LESS, MORE, words

INLINE, PLAIN, WHOLE = "inline", "plain", "whole"  # part of a page; a file without a head; a file that says what it is
EMPTY = "Nothing was measured that could be drawn here."


def plots(result):
    """The plots that the experiment asks for; if it does not say, bars of the first figure."""
    asked = result["plan"].get("plot")
    if asked is None:
        asked = [{"kind": "bars", "figure": key} for key in view.keys(result)[:1]]
    return asked


MAKERS = {"bars": bars, "stack": stack}


def maker(plot):
    return MAKERS.get(plot["kind"], lines)


def heading(plot):
    return plot.get("title") or ("latency by percentile" if plot["kind"] == "percentiles" else
                               bars.label(plot) if plot["kind"] in MAKERS else words(plot["figure"]))


def better(plot):
    wish = FIGURES[plot["figure"]].better
    if wish not in (LESS, MORE):
        return "neither end is the better one"
    if plot["kind"] in MAKERS:
        side = "left" if axis.is_log(plot) else "shorter"
        other = "right" if axis.is_log(plot) else "longer"
        return f"{side if wish == LESS else other} is better"
    return f"{'lower' if wish == LESS else 'higher'} is better"


def reading(result, plot):
    """How to read the plot, in a sentence or two."""
    count = view.rounds(result)
    plan = maker(plot).planned(result, plot, sheet.WIDE)
    if maker(plot) is bars:
        return bars.reading(plan, count, better(plot), plot.get("to", ""))
    if maker(plot) is stack:
        return stack.reading(plan, count, better(plot))
    return lines.reading(plan, plot, count, better(plot))


def said(result, plot):
    """The plot in words, for readers who cannot see it."""
    return f"{heading(plot)}. {reading(result, plot)} The tables below have every figure."


def small_print(result):
    return (f"{view.machine(result)}; {view.counted(view.rounds(result), 'round')}, {result['pace']}"
            + (f"; commit {result['commit']}" if result["commit"] else ""))


def drawn(result, plot, width, whole):
    kind = maker(plot)
    plan = kind.planned(result, plot, width)
    title = sheet.wrapped(result["plan"]["question"], width, sheet.HEADING, "bold") if whole else []
    under = sheet.wrapped(heading(plot), width, sheet.SIZE) if whole else []
    small = sheet.wrapped(small_print(result), width, sheet.SMALL) if whole else []
    top = sheet.LINE * (len(title) * sheet.HEADING + len(under) * sheet.SIZE + len(small) * sheet.SMALL) + (0.14 if whole else 0)
    margin = 0.03
    paper = sheet.Sheet(width, top + (kind.height(plan) or 0.3) + margin)
    paper.lines(0, title, sheet.HEADING, weight="bold")
    paper.lines(0, under, sheet.SIZE)
    paper.lines(0, small, sheet.SMALL, color=theme.DIM)
    paper.top = top
    if kind.height(plan):
        kind.draw(result, plot, plan, paper)
    else:
        paper.text(0, paper.top, EMPTY, size=sheet.SIZE, style="italic", color=theme.DIM)
    return paper.figure


@sheet.with_style
def as_svg(result, number, width=sheet.WIDE, use=WHOLE):
    """The SVG of the plot with that number, from 1."""
    plot = plots(result)[number - 1]
    prefix = f"{result['name']}-{number}" + ("" if width == sheet.WIDE else "-narrow")
    data = sheet.svg_of(drawn(result, plot, width, use == WHOLE), prefix)
    return svg.improved(data, prefix, result["plan"]["question"], said(result, plot), use != INLINE)


@sheet.with_style
def as_png(result, number):
    plot = plots(result)[number - 1]
    return sheet.png_of(drawn(result, plot, sheet.WIDE, True), view.fingerprint(result))
