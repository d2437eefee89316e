# SPDX-License-Identifier: MIT
"""axis.py - scales: linear ones begin at zero, those of latencies are logarithmic, and labels never touch each other.

Throughput and processor time are logarithmic only if an experiment asks for it, for figures that are decades apart.
"""
import math

import view
from figures import FIGURES
from sheet import width_of

STEPS = (1, 2, 5)
TICKS_MAX = 8
BEYOND = 0.24  # inches that a label of an x axis may stand out on the right


def is_log(plot, letter="y"):
    """Whether the axis of the plot's figure is logarithmic."""
    return FIGURES[plot["figure"]].log or letter in plot.get("log", "")


def log_limits(values):
    """Limits around the values above zero, at least a decade apart: otherwise the ends of a line look too steep."""
    known = [value for value in values if value > 0] or [1, 10]
    low, high = math.log10(min(known)), math.log10(max(known))
    spare = max((1 - (high - low)) / 2, 0.04 * (high - low), 0.1)
    return 10 ** (low - spare), 10 ** (high + spare)


def log_ticks(low, high, most):
    """Ticks at decades, or between them as well, or fewer than all decades: at most `most`."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for steps, stride in ((STEPS, 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 3), ((1,), 6)):
        found = [step * 10.0 ** decade for decade in range(first, last + 1, stride) for step in steps
                 if low <= step * 10.0 ** decade <= high]
        if len(found) <= most:
            return found
    return found[::math.ceil(len(found) / most)]


def linear_ticks(high, most):
    rough = high / max(most, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    return [step * number for number in range(int(high / step * 1.0001) + 1)]


def without_touching(places, labels, least, most):
    """The labels that have room, the first and the last before the others; places in inches, up to `most`."""
    kept = []
    for at in sorted(range(len(places)), key=lambda number: (number not in (0, len(places) - 1), number)):
        if places[at] + width_of(labels[at], 8) / 2 <= most and all(
                abs(places[at] - places[other]) >= (width_of(labels[at], 8) + width_of(labels[other], 8)) / 2 + least
                for other in kept):
            kept.append(at)
    return sorted(kept)


def at_places(axes, places, labels, inches):
    """Draw the ticks of an x axis that is `inches` wide; all places have a tick, as many as fit have a label.  Returns the
    numbers of those with a label."""
    low, high = axes.get_xlim()
    if axes.get_xscale() == "log":
        at = [inches * math.log(place / low) / math.log(high / low) for place in places]
    else:
        at = [inches * (place - low) / (high - low) for place in places]
    kept = without_touching(at, labels, 0.08, inches + BEYOND)
    axes.set_xticks(places, [label if number in kept else "" for number, label in enumerate(labels)])
    axes.minorticks_off()
    return kept


def figure_x(axes, log, limits, inches):
    """Put the figure along the bottom, with as many ticks as have room for their labels."""
    axes.set_xscale("log" if log else "linear")
    axes.set_xlim(*limits)
    for most in range(min(max(2, int(inches / 0.4)), TICKS_MAX), 1, -1):
        places = log_ticks(*limits, most) if log else linear_ticks(limits[1], most)
        kept = at_places(axes, places, [view.tick(place) for place in places], inches)
        if kept[:len(places) - 1] == list(range(len(places) - 1)):  # the last may stand out
            break
    axes.grid(axis="x")


def figure_y(axes, log, limits, inches):
    axes.set_yscale("log" if log else "linear")
    axes.set_ylim(*limits)
    most = max(2, int(inches / 0.35))
    places = log_ticks(*limits, most) if log else linear_ticks(limits[1], most)
    axes.set_yticks(places, [view.tick(place) for place in places])
    axes.minorticks_off()
    axes.grid(axis="y")
    return max(width_of(view.tick(place), 8) for place in places)


def limits_of(values, log):
    """values: the greatest and least values shown."""
    if log:
        return log_limits(values)
    return 0, max([value for value in values if value > 0], default=1) * 1.06
