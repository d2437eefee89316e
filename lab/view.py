# SPDX-License-Identifier: MIT
"""view.py - a result in words and tables, which the page, the documents and the plots share.

A table says "no significant difference" where there is none, "invalid" where a round failed, and never merges figures.
"""
import hashlib
import json
import re
from typing import NamedTuple

import figures
import judge

NONE, INVALID, MISSING, CANNOT = "-", "invalid", "not run here", "does not"
SAME = "no significant difference"
COLOURED = {"confirmed": "confirmed", "contradicted": "contradicted"}  # only what is significant
ORDER = ("confirmed", "contradicted", SAME, "undecided", "not measured")


# --- Numbers ------------------------------------------------------------------------------------------------

def amount(value):
    """A number with three significant digits."""
    size = abs(value)
    if size >= 1e12 or 0 < size < 0.0005:
        return f"{value:.2e}"
    if size >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}" if size >= 0.0995 or not size else f"{value:.2g}"


def tick(value, _position=None):
    """A number on an axis, without zeros at its end."""
    return f"{value:.3g}".replace("e+0", "e").replace("e+", "e") if abs(value) >= 1e9 else f"{value:,.10g}"


def unit(key, text):
    return f"{text} {figures.FIGURES[key].unit}".rstrip()


def interval(found):
    """The median, and in brackets its interval, or with few rounds the least and the greatest value."""
    if found.rounds == 1:
        return f"{amount(found.median)} (one round)"
    few = "" if found.sure else f", {found.rounds} rounds"
    return f"{amount(found.median)} ({amount(found.low)}..{amount(found.high)}{few})"


def better(key, found):
    """'better' or 'worse' if the ratio differs from 1, otherwise ''."""
    wish = figures.FIGURES[key].better
    if wish == figures.NEITHER or not found.differs():
        return ""
    return "better" if (found.median < 1) == (wish == figures.LESS) else "worse"


# --- What there is ------------------------------------------------------------------------------------------

def targets(result):
    return [one["name"] for one in result["plan"]["target"]]


def scenarios(result):
    return [one["name"] for one in result["plan"]["scenario"]]


def base(result):
    return result["plan"].get("base") or targets(result)[0]


def rounds(result):
    return len({one["round"] for one in result["cells"]})


def keys(result):
    """Figures that any cell has, those of claims and plots first."""
    had = {key for one in result["cells"] for key in one.get("figures") or {} if key in figures.FIGURES}
    wanted = wanted_keys(result["plan"])
    return [key for key in wanted if key in had] + [key for key in figures.FIGURES if key in had and key not in wanted]


def wanted_keys(plan):
    named = [one["figure"] for one in [*plan.get("plot", []), *plan.get("claim", [])] if one.get("figure") in figures.FIGURES]
    return list(dict.fromkeys(named))


def fingerprint(result):
    """A hash of everything that is drawn."""
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()[:16]


# --- Cells --------------------------------------------------------------------------------------------------

class Cell(NamedTuple):
    text: str          # median and interval, or why there is none
    ratio: str = ""    # to the base
    word: str = ""     # better, worse, no significant difference, or nothing: undecided
    kind: str = ""     # "", invalid, missing, cannot
    why: str = ""


def cell(result, target, scenario, key):
    if why := judge.cannot(result, target, scenario):
        return Cell(CANNOT, kind="cannot", why=why)
    if failed := judge.errors(result, target, scenario):
        return Cell(INVALID, kind="invalid", why=failed[0])
    if why := result["missing"].get(target):
        return Cell(MISSING, kind="missing", why=why)
    found = judge.figure_of(result, target, scenario, key)
    if not found:
        return Cell(NONE)
    text, against = interval(found), base(result)
    if target == against:
        return Cell(text, "base")
    ratio = judge.ratio(result, target, against, scenario, key)
    if not ratio:
        return Cell(text, "")
    return Cell(text, "× " + interval(ratio), better(key, ratio) or (SAME if ratio.sure and not ratio.differs() else ""))


class Table(NamedTuple):
    caption: str
    corner: str
    head: list
    rows: list  # (name, [Cell, ...])


def table(result, key):
    """One figure: targets by scenarios, the fewer of them as columns."""
    rows, columns = targets(result), [name for name in scenarios(result) if has(result, name, key)]
    caption = figures.words(key)
    if len(columns) <= len(rows):
        return Table(caption, result["plan"].get("of", "target"), columns,
                     [(row, [cell(result, row, column, key) for column in columns]) for row in rows])
    return Table(caption, "scenario", rows, [(row, [cell(result, column, row, key) for column in rows]) for row in columns])


def has(result, scenario, key):
    """Whether any cell of the scenario, valid or not, has that figure."""
    return any(one["scenario"] == scenario and (one.get("figures") or {}).get(key) is not None for one in result["cells"])


def invalid_cells(result):
    return [one for one in result["cells"] if one.get("error") and not judge.cannot(result, one["target"], one["scenario"])]


def spanned(numbers):
    """1, 2, 3, 5 as "1 to 3, 5"; numbers in order."""
    spans = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    return ", ".join(" to ".join(map(str, span)) for span in spans)


WHOLE = re.compile(r"(?<![\w.,])(?:0|[1-9]\d*)(?![\w.,]*\d)")  # a number, but no part of 0.05 or of 1,008


def merged(errors):
    """Errors that differ in their numbers alone, as one, with the least and the largest of each number."""
    columns = [sorted(set(map(int, column))) for column in zip(*(WHOLE.findall(error) for error in errors))]
    ranges = iter([f"{column[0]} to {column[-1]}" if len(column) > 1 else str(column[0]) for column in columns])
    return WHOLE.sub(lambda _: next(ranges), errors[0])


def invalid(result):
    """Sentences: which cells are invalid, in which rounds, and why."""
    found = {}
    for one in invalid_cells(result):
        kind = WHOLE.sub("0", one["error"])
        found.setdefault((one["target"], one["scenario"], kind), []).append((one["round"] + 1, one["error"]))
    return [f"{target}, {scenario}: {merged([error for _, error in ones])} (round {spanned(sorted({n for n, _ in ones}))})"
            for (target, scenario, _), ones in found.items()]


def cannots(result):
    """Sentences: which target does not offer what a scenario asks for, and why."""
    return [f"{scenario}: {why}" for scenario in scenarios(result) for target in targets(result)
            if (why := judge.cannot(result, target, scenario))]


def limiters(result):
    """(scenario, sentence): what limited which targets."""
    for scenario in scenarios(result):
        by_limit = {}
        for target in targets(result):
            if said := judge.limiter(result, target, scenario):
                by_limit.setdefault(said, []).append(target)
        if len(by_limit) == 1 and len(next(iter(by_limit.values()))) > 1:
            yield scenario, f"all: {next(iter(by_limit))}"
        elif by_limit:
            yield scenario, ". ".join(f"{', '.join(names)}: {limit}" for limit, names in by_limit.items())


def percentiles(result, target, scenario):
    """{percentile: Middle over the rounds that have it}; {} if a round is invalid."""
    if judge.errors(result, target, scenario):
        return {}
    by_at = {}
    for one in judge.cells(result, target, scenario):
        for at, value in one.get("percentiles") or []:
            by_at.setdefault(at, []).append(value)
    return {at: judge.middle(found) for at, found in sorted(by_at.items())}


def of_calls(figure):
    """Whether the figure is about calls of a kernel function, not about requests."""
    return figure.startswith("call_")


def within(figure):
    """The meaning of the percentiles that belong to the figure."""
    return "took at most [us]" if of_calls(figure) else "answered within [us]"


def percentile_tables(result):
    """A table for each scenario that has percentiles."""
    for scenario in scenarios(result):
        found = {target: percentiles(result, target, scenario) for target in targets(result)}
        head = sorted({at for row in found.values() for at in row})
        if head:
            what = within(figures.shown(result["plan"])[0])
            yield Table(f"{scenario}: {what}", result["plan"].get("of", "target"), [at_words(at) for at in head],
                        [(target, [percentile_cell(result, target, scenario, row.get(at)) for at in head])
                         for target, row in found.items()])


def at_words(at):
    return "all" if at == 100 else f"{at:.10g} %"


def percentile_cell(result, target, scenario, found):
    if found:
        median, _, spread = interval(found).partition(" ")
        return Cell(median, spread)
    if failed := judge.errors(result, target, scenario):
        return Cell(INVALID, kind="invalid", why=failed[0])
    why = result["missing"].get(target)
    return Cell(MISSING, kind="missing", why=why) if why else Cell(NONE)


# --- Claims -------------------------------------------------------------------------------------------------

class Verdict(NamedTuple):
    scenario: str  # and the targets, if the claim is about several
    verdict: str
    found: str
    why: str
    heads: list   # of a contradiction, the columns: round, figures of both, ratio
    rounds: list  # ... and the rows, as text


class Claim(NamedTuple):
    document: str  # what it says, in our words; "" when the claim is ours
    source: str    # which document, and where; "" in results that are older than this key
    says: str      # our words for it, or ""
    looked: str    # which figure of which targets
    expected: str
    verdicts: list
    reason: str = ""  # the known reason why it is missed, if one of its verdicts is not "confirmed"


def by_round(result, told):
    """The figures behind a contradiction: (heads, rows)."""
    mine, other, key = told["of"], told["to"], told["claim"]["figure"]
    ours = judge.values(result, *mine, key)
    if not other:
        return ["round", mine[0]], [(str(number + 1), unit(key, amount(value))) for number, value in sorted(ours.items())]
    theirs = judge.values(result, *other, key)
    names = [", ".join(mine), ", ".join(other)] if mine[1] != other[1] else [mine[0], other[0]]
    less = "minus" in told["claim"]
    return ["round", *names, "difference" if less else "ratio"], [
        (str(number + 1), unit(key, amount(value)), unit(key, amount(theirs[number])),
         unit(key, amount(value - theirs[number])) if less else amount(value / theirs[number]))
        for number, value in sorted(ours.items()) if theirs.get(number) or less and number in theirs]


def where(told):
    """The scenario, and the targets if the claim is about several."""
    (of, scenario), other, claim = told["of"], told["to"], told["claim"]
    text = f"{scenario} / {other[1]}" if other and other[1] != scenario else scenario
    who = [of] if "best_of" in claim or isinstance(claim["of"], list) else []
    who += [other[0]] if other and ("to_best" in claim or isinstance(claim.get("to"), list)) else []
    return f"{' / '.join(who)}, {text}" if who else text


def verdict_of(result, told):
    found, claim = told["found"], told["claim"]
    of_ratio = told["to"] and "minus" not in claim
    text = "" if not found else interval(found) if of_ratio else unit(claim["figure"], interval(found))
    heads, rows = by_round(result, told) if told["verdict"] == "contradicted" else ([], [])
    return Verdict(where(told), told["verdict"], text, told["why"].rstrip("."), heads, rows)


def expected(text):
    """'< 1' in words."""
    sign, bound = text.strip()[0], text.strip()[1:].strip()
    return {"<": f"less than {bound}", ">": f"more than {bound}"}.get(sign, " to ".join(part.strip() for part in text.split("..")))


def looked(claim):
    """Which figure of which targets."""
    of, how = (judge.named(claim, "best_of"), "the best of ") if "best_of" in claim else (judge.named(claim, "of"), "each of ")
    mine = (how if len(of) > 1 else "") + ", ".join(of)
    if "minus" in claim:
        return f"{figures.words(claim['figure'])}, {mine} less {claim['minus']}"
    if "to_best" in claim:
        return f"{figures.words(claim['figure'])}, {mine} / the best of {', '.join(claim['to_best'])}"
    other = judge.named(claim, "to")
    against = f" / {'each of ' if len(other) > 1 else ''}{', '.join(other)}" if other and other != of else ""
    return f"{figures.words(claim['figure'])}, {mine}{against}"


def claims(result):
    """Each claim with its verdict in each of its scenarios."""
    told = judge.verdicts(result)
    for claim in result["plan"].get("claim", []):
        yield Claim(claim.get("document") or "", claim.get("source") or "", claim.get("says") or "", looked(claim), expected(claim["expect"]),
                    [verdict_of(result, one) for one in told if one["claim"] is claim],
                    claim.get("reason", "") if any(one["verdict"] not in ("confirmed", "not measured") for one in told
                                                   if one["claim"] is claim) else "")


def tally(result):
    """[(verdict, how many)], in a fixed order."""
    found = [one["verdict"] for one in judge.verdicts(result)]
    return [(word, found.count(word)) for word in ORDER if word in found]


# --- Where it comes from ------------------------------------------------------------------------------------

def coded(text):
    """(part, whether it stands between `backticks`), as sentences of experiments have them."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return [(text, False)]
    return [(part, number % 2 == 1) for number, part in enumerate(parts)]


def counted(number, word):
    return f"{number} {word}" + ("" if number == 1 else "s")


def machine(result):
    m = result["machine"]
    memory = f"{m['memory_mib'] / 1024:.0f} GiB" if m.get("memory_mib") else ""
    return ", ".join(str(part) for part in (m.get("processor"), counted(m["cores"], "core") if m.get("cores") else "", memory,
                                            m.get("system"), f"Linux {m['kernel']}" if m.get("kernel") else "") if part)


def when(result):
    return result["when"][:16].replace("T", " ") + " UTC"


def few(result):
    """A sentence, if nothing can be significant."""
    count = rounds(result)
    if count and not judge.rank(count):
        return [f"{counted(count, 'round')}: too few for an interval of 95 %, so nothing is called significant."]
    return []


def remarks(result):
    return [*(result.get("remarks") or []), *few(result)]
