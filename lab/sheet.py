# SPDX-License-Identifier: MIT
"""sheet.py - paper to draw on: matplotlib with places in inches from the top left, and text that is measured before it is set.

A drawing says first how tall it is, then puts axes where it wants them.  Nothing is moved afterwards, so nothing overlaps by
accident.  Each line of text is one element: a reader with another font still sees it in its place.
"""
import functools
import io

import matplotlib
import numpy
import theme
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from PIL import Image
from PIL.PngImagePlugin import PngInfo

WIDE, NARROW = 7.2, 4.0  # inches: for a page, for a telephone
SIZE, SMALL, HEADING = 9, 7.5, 11  # points
LINE = 1.35 / 72  # inches a line is high, for each point of its size
DPI, PAD = 170, 24  # of a PNG; the pixels around it
STYLE = {
    "font.family": "DejaVu Sans", "font.size": SIZE, "text.parse_math": False, "svg.fonttype": "none",
    "text.color": theme.FG, "axes.labelcolor": theme.FG, "axes.edgecolor": theme.DIM, "xtick.color": theme.DIM,
    "ytick.color": theme.DIM, "xtick.labelcolor": theme.FG, "ytick.labelcolor": theme.FG, "xtick.labelsize": 8,
    "ytick.labelsize": 8, "axes.labelsize": SIZE, "grid.color": theme.LINE, "grid.linewidth": 0.8, "axes.linewidth": 0.8,
    "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False, "path.simplify": False,
}


@functools.cache
def renderer():
    return RendererAgg(8, 8, 72)


def width_of(text, size=SIZE, weight="normal"):
    """The width of a text in inches."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return renderer().get_text_width_height_descent(text, font, False)[0] / 72


def wrapped(text, width, size=SIZE, weight="normal"):
    """The text in lines no wider than `width`; a single word that is wider is cut."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if width_of(longer, size, weight) <= width:
            lines[-1] = longer
            continue
        lines.append(word)
        while width_of(lines[-1], size, weight) > width and len(lines[-1]) > 1:
            fits = next(n for n in range(len(lines[-1]) - 1, 0, -1) if n == 1 or width_of(lines[-1][:n], size, weight) <= width)
            lines[-1:] = [lines[-1][:fits], lines[-1][fits:]]
    return [line for line in lines if line] or [""]


class Sheet:
    """A figure of this width; `top` is where the next thing goes."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width, height), facecolor="none")
        self.top = 0.0

    def axes(self, left, top, width, height):
        found = self.figure.add_axes([left / self.width, 1 - (top + height) / self.height, width / self.width,
                                      height / self.height])
        found.set_facecolor("none")
        return found

    def text(self, left, top, line, **how):
        """Draw one line, with its upper edge at `top`."""
        self.figure.text(left / self.width, 1 - top / self.height, line, va="top", **how)

    def lines(self, left, lines, size, **how):
        """Draw lines one below the other, from `top` on, and move `top`."""
        for line in lines:
            self.text(left, self.top, line, size=size, **how)
            self.top += size * LINE


def with_style(function):
    @functools.wraps(function)
    def inside(*args, **named):
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(STYLE)
            return function(*args, **named)
    return inside


def svg_of(figure, salt):
    out = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return out.getvalue()


def png_of(figure, said):
    """A PNG on white, which contains `said`, so that a stale one can be recognised."""
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1)
    paper = Image.new("RGBA", (drawn.width + 2 * PAD, drawn.height + 2 * PAD), "white")
    paper.alpha_composite(drawn, (PAD, PAD))
    out = io.BytesIO()
    note = PngInfo()
    note.add_text("Result", said)
    in_ink(paper.convert("RGB")).save(out, "PNG", optimize=True, pnginfo=note)
    return out.getvalue()


def inks():
    """White, every colour of the theme, and its shades towards white: edges stay smooth, and no colour becomes another."""
    colours = [[int(colour[at:at + 2], 16) for at in (1, 3, 5)] for colour in dict.fromkeys(theme.variables(False).values())]
    shades = 255 // len(colours)
    mixed = [[255 - (255 - part) * shade / shades for part in colour] for colour in colours for shade in range(1, shades + 1)]
    return numpy.array([[255, 255, 255], *mixed]).round().astype(int)


def in_ink(picture):
    """The picture with a palette, which takes a quarter of the bytes."""
    every = numpy.asarray(picture).astype(int) @ (1 << 16, 1 << 8, 1)
    found, places = numpy.unique(every, return_inverse=True)
    parts = numpy.stack([found >> 16, found >> 8 & 255, found & 255], axis=1)
    nearest = (((parts[:, None] - inks()[None]) ** 2).sum(axis=2)).argmin(axis=1).astype(numpy.uint8)
    mapped = Image.fromarray(nearest[places].reshape(every.shape))
    mapped.putpalette(inks().astype(numpy.uint8).tobytes())
    return mapped
