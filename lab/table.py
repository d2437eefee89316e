# SPDX-License-Identifier: MIT
"""table.py - the raw data of cost.py as tables: for a terminal, and between the marks of a document.

A table is a caption, a head and rows of text; plain() and markdown() decide how it looks.
"""
import re
import statistics

NONE = "-"


# --- From rounds to cells ----------------------------------------------------------------------------------

def values(data, engine, key, pick):
    """One figure for each round, None where it failed."""
    rounds = data["engines"].get(engine, {}).get(key, [])
    return [None if "error" in one else pick(one) for one in rounds]


def median(figures):
    known = [figure for figure in figures if figure is not None]
    return statistics.median(known) if known else None


def ratios(data, engine, key, pick):
    """Ratios to the base, for the rounds that both have."""
    pairs = zip(values(data, engine, key, pick), values(data, data["base"], key, pick))
    return [mine / base for mine, base in pairs if mine is not None and base]


def brief(figure):
    if 0 < figure < 0.1:
        return f"{figure:.2g}" if figure >= 0.0001 else "< 0.0001"
    return f"{figure:.2f}" if figure < 10 else f"{figure:.1f}" if figure < 100 else f"{figure:,.0f}"


def spread(found):
    """median (min..max)"""
    low, middle, high = (brief(f) for f in (min(found), statistics.median(found), max(found)))
    return middle if low == high else f"{middle} ({low}..{high})"


def cell(data, engine, key, pick):
    found = ratios(data, engine, key, pick)
    if found:
        return spread(found)
    return "failed" if any("error" in one for one in data["engines"][engine].get(key, [])) else NONE


def amount(figure, unit=""):
    return NONE if figure is None else brief(figure) + unit


# --- The tables --------------------------------------------------------------------------------------------

def total(one):
    return one["total"]


def total_us(one):
    return one["total_us"]


def pss(one):
    return one["bytes"]["pss"]


def held(one):
    return one["held"]


def summary(data):
    base = data["base"]
    crowd = max((one.get("connections", 0) for one in data["engines"][base].get("cpu_crowd", [])), default=0)
    columns = (("calls", total, "system calls", " calls"), ("cpu_one", total_us, "CPU, 1 connection", " us"),
               ("cpu_crowd", total_us, f"CPU, {crowd} connections", " us"), ("idle", pss, "memory, idle", " B"),
               ("held", held, "held at once", ""))
    rows = []
    for engine in data["engines"]:
        if engine == base:
            cells = [f"1 = {amount(median(values(data, base, key, pick)), unit)}" for key, pick, _, unit in columns]
        else:
            cells = [cell(data, engine, key, pick) for key, pick, _, _ in columns]
        rows.append([engine, *cells])
    return (f"Ratio to {base}: median (least..most) of the rounds", ["engine", *(c[2] for c in columns)], rows)


def calls_of(data, engine):
    """System calls per request by name: the median of the rounds."""
    rounds = [one["by_name"] for one in data["engines"][engine].get("calls", []) if "error" not in one]
    names = sorted({name for one in rounds for name in one})
    found = {name: statistics.median(one.get(name, 0) for one in rounds) for name in names}
    return {name: count for name, count in found.items() if count >= 0.02}


def calls(data):
    """A table of system calls; those that all engines call equally often are named once, in the caption."""
    found = {engine: mine for engine in data["engines"] if (mine := calls_of(data, engine))}

    def text(engine, name):
        return f"{found[engine].get(name, 0):.2f}"
    names = sorted({name for mine in found.values() for name in mine})
    same = [name for name in names if len({text(engine, name) for engine in found}) == 1]
    first = next(iter(found), None)
    common = ", ".join(f"{name} {text(first, name)}" for name in same)
    rows = [[engine, ", ".join(f"{name} {text(engine, name)}" for name in mine if name not in same) or NONE]
            for engine, mine in found.items()]
    return (f"System calls per request, one connection kept alive. All engines: {common}", ["engine", "and"], rows)


def memory(data):
    rows = []
    for engine in data["engines"]:
        rounds = [one for one in data["engines"][engine].get("idle", []) if "error" not in one]
        if rounds:
            rows.append([engine, f"{rounds[0]['connections']:,}", *(
                amount(median([one["bytes"].get(part) for one in rounds]))
                for part in ("pss", "page_tables", "kernel_stacks", "sockets_about"))])
    return ("Bytes for each idle connection", ["engine", "connections", "its own pages (PSS)", "page tables",
                                               "kernel stacks", "sockets, about"], rows)


def rooms(data):
    rows = []
    for engine in data["engines"]:
        rounds = [one for one in data["engines"][engine].get("held", []) if "error" not in one]
        if rounds:
            rows.append([engine, f"{median([one['held'] for one in rounds]):,.0f}", f"{rounds[0]['bound']:,}"])
    return ("Connections held at once, all answering", ["engine", "held", "tried"], rows)


def tables(data):
    return [summary(data), calls(data), memory(data), rooms(data)]


def origin(data):
    m = data["machine"]
    load = data["load_before"][0], data["load_after"][0]
    return (f"{m['processor']}, {m['cores']} cores, {m['memory_mib'] / 1024:.0f} GiB, {m['system']}, "
            f"Linux {m['kernel']}; commit {data['commit']}; `{data['command']}` at {data['when']}, {data['seconds']:.0f} s; "
            f"load average {load[0]:.1f} before, {load[1]:.1f} after.")


def remarks(data):
    noisy = max(data["load_before"][0], data["load_after"][0]) > data["machine"]["cores"]
    found = ["The machine was noisy: more was running than it has cores. Trust the ratios, and only as far as their "
             "spread; not the absolute figures."] if noisy else []
    found += [f"{name} cannot run here: {reason}" for name, reason in data["cannot_run"].items()]
    return found + [f"FAILED {error}" for error in data["errors"]]


# --- On a terminal and on a page ---------------------------------------------------------------------------

def aligned(head, rows):
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in [head, *rows]]


def plain(data, found):
    lines = []
    for caption, head, rows in found:
        lines += [caption, *("  " + line for line in aligned(head, rows)), ""]
    return "\n".join([*lines, origin(data).replace("`", ""), *remarks(data)])


def markdown(data, found):
    lines = []
    for caption, head, rows in found:
        lines += [caption + ":", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|",
                  *("| " + " | ".join([f"`{row[0]}`", *row[1:]]) + " |" for row in rows), ""]
    return "\n".join([*lines, origin(data), *("\n" + remark for remark in remarks(data))])


def in_page(path, text, mark):
    """The document with this text between its marks."""
    try:
        with open(path, encoding="utf-8") as file:
            old = file.read()
    except OSError as error:
        raise SystemExit(f"{path}: {error.strerror}") from None
    new, count = re.subn(rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)",
                         lambda marks: marks[1] + text + "\n" + marks[2], old, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"{path} has no place between <!-- {mark} --> and <!-- /{mark} -->")
    return new
