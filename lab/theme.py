# SPDX-License-Identifier: MIT
"""theme.py - the colour, marker and dash of a target: the same in every plot, on white and on black, and on grey paper.

Engines and peers have a row each, chosen so that those often drawn together stay distinct for people who cannot see red
or green: targets with similar colours differ in lightness, marker and dash.  A server "tuned" has the same look, but
hollow.  Other targets take the free rows in the order of their plan.  By these colours svg.py also finds what to turn into
CSS variables.
"""
import re
from typing import NamedTuple

SOLID, DASH, DOT, MIXED = (0, ()), (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5))


class Look(NamedTuple):
    light: str  # on white
    dark: str   # on black
    marker: str
    dash: tuple
    hollow: bool = False

    @property
    def face(self):
        """The fill colour of a marker."""
        return "none" if self.hollow else self.light


# Neutral colours: CSS variable -> (light, dark).  None of them is a target's.
NEUTRAL = {"fg": ("#1d2024", "#e5e6e3"), "dim": ("#5f656d", "#9aa1aa"), "line": ("#dcdcd6", "#363b42"),
           "bad": ("#b3261e", "#ff8a80"), "paper": ("#ffffff", "#1a1d21")}
FG, DIM, LINE, BAD, PAPER = (light for light, _ in NEUTRAL.values())

NAMED = {
    "epoll": Look("#0b7a4b", "#4cc38a", "o", SOLID),
    "uring": Look("#1f4fae", "#6f98ff", "s", SOLID),
    "naive": Look("#8a6d1b", "#cfb053", "v", DOT),
    "fork": Look("#c8500a", "#ff8a4c", "^", SOLID),
    "thread": Look("#9c1c3c", "#f0708c", "D", DASH),
    "pool": Look("#cf5a87", "#f7a8c6", "P", SOLID),
    "nonblock": Look("#6d8f1e", "#b5d65f", "X", DOT),
    "select": Look("#5b4a3f", "#b79f90", "<", DASH),
    "poll": Look("#16918c", "#5fd6d0", ">", MIXED),
    "dispatch": Look("#86439b", "#c48ada", "p", SOLID),
    "coro": Look("#2f86cf", "#8cc9ff", "h", DASH),
    "floor": Look("#7a7f86", "#a2a8b0", "*", DOT),
    "nginx": Look("#2b2f3a", "#f0f2f4", "d", SOLID),
    "apache": Look("#b27d00", "#f5c542", "8", DASH),
    "lighttpd": Look("#4b3fb5", "#9d94ff", "H", MIXED),
    "h2o": Look("#a35fd0", "#d7a8f2", "<", SOLID),
    "caddy": Look("#00586b", "#5aa9bd", ">", DASH),
}
ALIAS = {"null": "floor"}
PLAIN, HOLLOW = (["default"], ["sendfile", "off"]), (["tuned"], ["sendfile", "on"], ["io", "uring"])
ORDER = ("uring", "fork", "epoll", "dispatch", "apache", "coro", "thread", "nonblock", "pool", "poll", "nginx", "naive",
         "lighttpd", "caddy", "h2o", "select", "floor")


def words(name):
    return re.findall(r"[a-z0-9]+", name.lower()) or [""]


def own(name):
    """The Look that a name always has, or None.  "rung epoll" is epoll; a second variant of a server is hollow."""
    first, *others = words(name)
    if first == "rung" and others:
        first, *others = others
    first = ALIAS.get(first, first)
    if first in NAMED and others in ([], *PLAIN, *HOLLOW):
        return NAMED[first]._replace(hollow=others in HOLLOW)
    return None


def looks(names):
    """A Look for each of a plan's targets.  No two share one while there are free rows."""
    found = {name: own(name) for name in names if own(name)}
    for name in names:
        if name not in found and NAMED.get(words(name)[0]) not in (None, *found.values()):
            found[name] = NAMED[words(name)[0]]
    for number, name in enumerate(name for name in names if name not in found):
        free = [row for row in ORDER if NAMED[row].light not in {look.light for look in found.values()}]
        found[name] = NAMED[free[0] if free else ORDER[number % len(ORDER)]]
    return found


def variables(dark):
    """Every CSS variable: name -> colour."""
    rows = {name: pair[dark] for name, pair in NEUTRAL.items()}
    return {**rows, **{f"t-{name}": (look.dark if dark else look.light) for name, look in NAMED.items()}}


def css():
    """The variables, for light and for dark."""
    light, dark = (";".join(f"--{name}:{colour}" for name, colour in variables(which).items()) for which in (False, True))
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
