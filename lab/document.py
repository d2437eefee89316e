# SPDX-License-Identifier: MIT
"""document.py - results in the documents: a block of docs/lab/NAME.md for each, and the table of all in docs/lab/README.md.

This module needs only Python, so that every machine can check that the documents agree with the results (plots.py --check).
"""
import re

import counts
import figures
import judge
import standing
import view
from experiment import SOURCES

IN_CELL, ROWS_SHOWN = 6, 12  # longer lists are folded
GROUPS = {  # of the index; every experiment is in one of them (tests/lab/test_documents.py)
    "Which server, which engine": ("engines", "workloads", "nginx", "tls", "growth", "workers", "completion", "stages", "ab"),
    "How to wait, and for whom": ("connections", "each-connection", "echo", "echo-crowd", "echo-flood", "echo-sizes", "naps", "triggers",
                                  "scheduling"),
    "Threads and queues": ("pool-sweep", "pool-size", "pool-queues", "pool-balance", "dispatch-queues"),
    "Files and packets": ("sending", "descriptors", "data-set", "beyond-memory", "packets", "log-lines"),
    "Memory, timers, parsers, compilers": ("memory", "allocators", "timers", "timers-time", "parsers", "parsers-time", "builds"),
    "Inside the kernel": ("kernel-models", "kernel-peers", "kernel-cache", "kernel-echo", "kernel-echo-peers", "kernel-idle",
                          "kernel-messages", "kernel-buffer", "kernel-queues", "kernel-active", "kernel-log", "kernel-scheduling",
                          "kernel-threads"),
    "How to measure": ("counting", "generators", "steady", "tracing", "sandbox"),
}


def escaped(text):
    """The text of a line or of a table's cell: it has no markup of its own, except that `code` stays code."""
    return " ".join("".join(f"`{part}`".replace("|", "\\|") if code else plain(part) for part, code in view.coded(text)).split())


def plain(text):
    for char in "\\`*_|":
        text = text.replace(char, "\\" + char)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("](", "]\\(")


def row_of(parts):
    return "| " + " | ".join(parts) + " |"


def short(cell, of_base):
    """The base's figure, and for all others the ratio to it; the figure if there is no ratio."""
    if cell.kind or of_base or not cell.ratio:
        return escaped(cell.text)
    return escaped(cell.ratio.removeprefix("× ") + (" =" if cell.word == view.SAME else ""))


def asked_of(plan, key):
    """The scenarios in which a claim or a plot asks for a figure."""
    return {name for one in [*plan.get("claim", []), *plan.get("plot", [])] if one["figure"] == key
            for name in judge.scenarios_of(plan, one)}


def table(result, key, wanted=None):
    """wanted: only these scenarios."""
    if wanted is not None:
        result = {**result, "cells": [one for one in result["cells"] if one["scenario"] in wanted]}
    found, base = view.table(result, key), view.base(result)
    if not found.rows or not found.head:
        return []
    lines = [f"{found.caption[0].upper()}{found.caption[1:]}; ratio to {escaped(base)}, = no significant difference:", "",
             row_of([escaped(found.corner), *map(escaped, found.head)]), "|---" * (len(found.head) + 1) + "|"]
    for name, cells in found.rows:
        texts = [short(cell, base in (name, column)) for cell, column in zip(cells, found.head)]
        lines.append(row_of([escaped(name), *texts]))
    return [*lines, ""]


def standings(result):
    """The sentence and the table that say in which scenarios ours is ahead, behind or level."""
    found = standing.rows(result)
    if not found:
        return []
    lines = [standing.summary(result), "", row_of(standing.heads(result)), "|---" * len(standing.heads(result)) + "|"]
    for one in found:
        word = f"**{one.word}**" + (f" ({escaped(one.why)})" if one.why else "")
        lines.append(row_of([escaped(one.scenario), word, escaped(one.by), escaped(one.ours), escaped(one.other)]))
    return [*lines, ""]


def everybody(result, key):
    """Rows are scenarios, columns targets; the least (or the most) of those that are compared is bold."""
    plan, base = result["plan"]["standing"], view.base(result)
    names = [name for name in view.targets(result) if any(view.cell(result, name, one, key).text != view.NONE
                                                          for one in view.scenarios(result))]
    unit = figures.FIGURES[key].unit
    lines = [f"All servers: {figures.FIGURES[key].words}, as a ratio to {escaped(base)}, whose column has its own figure. "
             "A cell has the median of the rounds and, below it, the interval; = no significant difference. Where the floor is not measured, "
             "it has the figure itself. **Bold**: the lowest value, floors excluded.", "",
             row_of(["scenario", *map(escaped, names)]), "|---" * (len(names) + 1) + "|"]
    for scenario in [one for one in view.scenarios(result) if view.has(result, one, key)]:
        best = judge.best_target(result, [*plan["ours"], *plan["others"]], scenario, key)
        cells = []
        for name in names:
            cell = view.cell(result, name, scenario, key)
            median, _, spread = short(cell, name == base).partition(" (")
            if spread and (name == base or not cell.ratio):
                median += f" {unit}"
            text = f"**{median}**" if best and name == best.name else median
            cells.append(text + ("<br>" + spread.replace(")", "") if spread else ""))
        lines.append(row_of([escaped(scenario), *cells]))
    return [*lines, ""]


def verdict_table(result):
    """For claims about each of our targets: a row for each claim, a column for each target, and the reasons below."""
    ours, told = result["plan"]["standing"]["ours"], judge.verdicts(result)
    if not told:
        return []
    lines, reasons = [row_of(["what is claimed", "expected", *map(escaped, ours)]), "|---" * (2 + len(ours)) + "|"], []
    for claim in result["plan"]["claim"]:
        mine = [one for one in told if one["claim"] is claim]
        cells = ["<br>".join(verdict_in_short(one) for one in mine if one["of"][0] == name) or view.NONE for name in ours]
        words = escaped(claim.get("says") or claim["document"])
        lines.append(row_of([words, escaped(view.expected(claim["expect"])), *cells]))
        if claim.get("reason") and any(one["verdict"] not in ("confirmed", "not measured") for one in mine):
            reasons.append(f"- **{words}** {escaped(claim['reason'])}")
    heading = ["", "Claims missed or not decided, with the reason as far as it was measured:", ""] if reasons else []
    return ["Verdicts, computed from the intervals:", "", *lines, *heading, *reasons, ""]


def verdict_in_short(told):
    found, other = told["found"], told["to"]
    amount = view.interval(found) if found else ""
    tail = f" {amount if other else view.unit(told['claim']['figure'], amount)}" if found else f": {told['why']}"
    names = judge.named(told["claim"], "to")
    whom = f" ({other[0]})" if other and ("to_best" in told["claim"] or len(names) > 1) else ""
    unsure = f": {told['why']}" if found and told["why"] else ""
    return f"**{told['verdict']}**" + ("" if tail.startswith(":") else " ") + escaped(tail + whom + unsure)


def folded(summary, lines):
    return [f"<details><summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def measured(verdict):
    """One measurement of a claim: where, what was found, and why no more is known."""
    return escaped(verdict.scenario) + (f": {escaped(verdict.found)}" if verdict.found else "") + (f" ({escaped(verdict.why)})" if verdict.why else "")


def found_of(claim):
    """(what was found, the verdicts) as two cells, line by line."""
    told = [measured(one) for one in claim.verdicts]
    words = [one.verdict for one in claim.verdicts]
    if len(told) > IN_CELL:
        return f"{len(told)} measurements, below", "<br>".join(f"{words.count(word)} **{word}**" for word in view.ORDER if word in words)
    alike = [f"**{words[0]}**"] if len(set(words)) == 1 else [f"**{word}**" for word in words]
    return "<br>".join(told), "<br>".join(alike)


def claims(result):
    """A row for each claim; of a claim with many measurements the list is below."""
    rows, lists = [], []
    for claim in view.claims(result):
        words = [escaped(text) for text in (claim.document, claim.says) if text]
        source = [f"*{escaped(claim.source)}*:"] if claim.source else []
        found, verdict = found_of(claim)
        rows.append(row_of([" ".join([*source, *words]), f"{escaped(claim.looked)}: {escaped(claim.expected)}", found, verdict]))
        if len(claim.verdicts) > IN_CELL:
            lists += folded(words[-1], [f"- **{one.verdict}**, {measured(one)}" for one in claim.verdicts])
        if claim.reason:
            lists += [f"- **{words[-1]}** {escaped(claim.reason)}", ""]
    return ["| claim | expected | found here | verdict |", "|---|---|---|---|", *rows, "", *lists] if rows else []


def limits(result):
    """A line for each limit, however many scenarios it applied to."""
    where = {}
    for scenario, text in view.limiters(result):
        where.setdefault(text, []).append(scenario)
    count = sum(map(len, where.values()))
    return [f"- The limit{'' if len(names) == count else ', ' + escaped('; '.join(names))}: {escaped(text)}."
            for text, names in where.items()]


def picture(result):
    """The path of the first plot, relative to the document."""
    return f"img/{result['name']}-1.png"


def origin(result):
    load = (result.get("load_before") or [0])[0], (result.get("load_after") or [0])[0]
    return (f"{escaped(view.machine(result))}; commit {escaped(result['commit'])}; `{result['command']}` ({result['pace']}, "
            f"{view.counted(view.rounds(result), 'round')}) at {view.when(result)}, {result['seconds']:.0f} s; "
            f"load average {load[0]:.1f} before, {load[1]:.1f} after." + elsewhere(result))


def elsewhere(result):
    """A sentence about clients on another machine, or ""."""
    return f" Clients were on another machine, by `{result['client']}`." if result.get("client") else ""


def markdown(result):
    """The text between the marks of docs/lab/NAME.md."""
    main = result["plan"].get("standing", {}).get("figure")
    drawn = [f"![{escaped(result['plan']['question'])}]({picture(result)})", ""] \
        if result["plan"].get("plot", view.keys(result)) else []
    if main:  # first which is ahead, then the figures behind it
        lines = [*standings(result), *everybody(result, main), *drawn, *verdict_table(result)]
    else:
        lines = [*claims(result), *drawn]
    keys = [key for key in view.wanted_keys(result["plan"]) or view.keys(result)[:1] if key in view.keys(result) and key != main]
    for key in keys:
        rows = table(result, key, asked_of(result["plan"], key) if main else None)
        long = len(rows) > ROWS_SHOWN + 5 and (main or key != keys[0])
        lines += folded(escaped(figures.FIGURES[key].words), rows[:-1]) if long else rows
    for found in counts.tables(result):
        lines += [f"{escaped(found.caption)}:", "", row_of([found.corner, *found.head]), "|---|---|"]
        lines += [*(row_of([escaped(name), escaped(cells[0].text)]) for name, cells in found.rows), ""]
    lines += [] if main else limits(result)
    lines += [f"- {escaped(name)} was not run here: {escaped(why)}." for name, why in result["missing"].items()]
    lines += [f"- Not offered, {escaped(line)}." for line in view.cannots(result)]
    bad = [f"- Invalid: {escaped(line)}." for line in view.invalid(result)]
    lines += folded("invalid measurements", bad) if len(bad) > IN_CELL else bad
    lines += [f"- {escaped(line)}" for line in view.few(result)]
    return "\n".join([*lines, *([""] if lines and lines[-1] else []), origin(result)])


def whole(result):
    """A new document for a result that has none yet."""
    plan = result["plan"]
    return (f"# {escaped(plan['title'])}\n\n**{escaped(plan['question'])}**\n\n{escaped(plan['method'])}\n\n"
            f"{mark(result)}\n{markdown(result)}\n{mark(result, '/')}\n")


def mark(result, slash=""):
    return f"<!-- {slash}lab {result['name']} -->"


def row(result):
    """The result's row in the table of all experiments, with the verdicts on its claims."""
    plan, bad = result["plan"], len(view.invalid_cells(result))
    told = ", ".join(f"{count} {word}" for word, count in view.tally(result)) or "no claim"
    told += f"; {view.counted(bad, 'invalid measurement')}" if bad else ""
    absent = f"; without {', '.join(result['missing'])}" if result["missing"] else ""
    return row_of([f"[{escaped(plan['title'])}]({result['name']}.md)", escaped(plan["question"]), told,
                   escaped(f"{result['when'][:10]}, {result['pace']}, commit {result['commit']}{absent}")])


def claimed(plans, results):
    """Claims of other documents: {source: {its words: {experiment: [verdict]}}}, experiments in their order."""
    found = {}
    for name in sorted({*plans, *results}):
        told = [(one.source, one.document, [each.verdict for each in one.verdicts]) for one in view.claims(results[name])] \
            if name in results else [(one.get("source"), one.get("document"), []) for one in plans[name].get("claim", [])]
        for source, words, verdicts in told:
            if source and words:
                found.setdefault(source, {}).setdefault(words, {}).setdefault(name, []).extend(verdicts)
    return found


def became(name, verdicts, plans, results):
    """[Title](name.md): 2 confirmed, 1 undecided."""
    if name not in results:
        return f"{escaped(plans[name].get('title', name))}: not run here yet"
    counts_of = ", ".join(f"{verdicts.count(word)} {word}" for word in view.ORDER if word in verdicts)
    return f"[{escaped(results[name]['plan']['title'])}]({name}.md): {counts_of}"


def said(plans, results):
    """The block of docs/lab/claims.md: a table for each document."""
    found, lines = claimed(plans, results), []
    for who in SOURCES:
        mine = {source: rows for source, rows in sorted(found.items()) if source.startswith(who + ", ")}
        if mine:
            lines += ["", f"## {who}", "", "| section | from | claim | verdict here |", "|---|---|---|---|"]
        for source, rows in mine.items():
            section, _, kind = source.removeprefix(who + ", ").rpartition("; ")
            lines += [row_of([escaped(section), kind, escaped(words),
                              "<br>".join(became(*place, plans, results) for place in places.items())]) for words, places in rows.items()]
    return "\n".join(lines[1:])


def grouped(plans, results):
    """(group, names of those of its experiments that there are), and a last group of those that are in none."""
    there = {*plans, *results}
    groups = {**GROUPS, "Others": sorted(there.difference(*GROUPS.values()))}
    return [(group, mine) for group, names in groups.items() if (mine := [name for name in names if name in there])]


def index(plans, results):
    """A table for each group of experiments; one that was never run says so."""
    lines = []
    for group, names in grouped(plans, results):
        rows = [row(results[name]) if name in results else
                row_of([escaped(plans[name].get("title", name)), escaped(plans[name].get("question", "")), "", "not run here yet"])
                for name in names]
        lines += ["", f"### {group}", "", "| experiment | question | verdicts | measured |", "|---|---|---|---|", *rows]
    return "\n".join(lines[1:])


def answered(text):
    """(minute of the run for which a document's answer was written, the answer), or ("", "")."""
    found = re.search(r"^<!-- answer ([\d: -]+) -->\n\*\*Answer\.\*\* (.+?)\n\n", text, re.MULTILINE | re.DOTALL)
    return (found[1], " ".join(found[2].split())) if found else ("", "")


def minute(result):
    return result["when"][:16].replace("T", " ")
