# SPDX-License-Identifier: MIT
"""page.py - results as pages for a browser: one for each, and one for all.

A page is a single file: no network, no script, light or dark as its reader wishes, for a desk, a telephone and paper.
All that comes from a result is text and escaped; only our own drawings are markup.
"""
import base64
import csv
import io
import json
import os

import counts
import document
import draw
import figures
import jinja2
import sheet
import standing
import theme
import view
from markupsafe import Markup

HERE = os.path.dirname(os.path.abspath(__file__))
DOCUMENTS = os.path.join(os.path.dirname(HERE), "docs", "lab")


def words(text):
    """The text escaped, with `code` as code."""
    return Markup("").join(Markup("<code>{}</code>").format(part) if code else part for part, code in view.coded(text))


def templates():
    found = jinja2.Environment(loader=jinja2.FileSystemLoader(HERE), autoescape=True, undefined=jinja2.StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    found.filters["words"] = words
    return found


def css():
    with open(os.path.join(HERE, "page.css"), encoding="utf-8") as file:
        return Markup(theme.css() + "\n" + file.read())


def data_url(kind, text):
    return f"data:{kind};base64," + base64.b64encode(text.encode()).decode()


def as_json(result):
    return json.dumps(result, ensure_ascii=False, separators=(",", ":")) + "\n"


def as_csv(result):
    """A line for each cell: every figure that any cell has is a column, an invalid cell has none and says why."""
    had = {key for one in result["cells"] for key in one.get("figures") or {}}
    keys = [key for key in figures.FIGURES if key in had] + sorted(had - set(figures.FIGURES))
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["target", "scenario", "round", *keys, "limiter", "error"])
    for one in result["cells"]:
        rows.writerow([one["target"], one["scenario"], one["round"] + 1, *((one.get("figures") or {}).get(key, "") for key in keys),
                       one.get("limiter") or "", one.get("error") or ""])
    return out.getvalue()


# --- One result ---------------------------------------------------------------------------------------------

def drawings(result):
    for number, plot in enumerate(draw.plots(result), 1):
        yield {"heading": draw.heading(plot), "reading": draw.reading(result, plot),
               "wide": Markup(draw.as_svg(result, number, use=draw.INLINE)),
               "narrow": Markup(draw.as_svg(result, number, sheet.NARROW, draw.INLINE))}


def told(value):
    """Any JSON value as one line of text."""
    if isinstance(value, dict):
        return "; ".join(f"{key} {told(one)}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(told, value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def machine_rows(result):
    """The known properties of the machine, as rows."""
    return [(key.replace("_", " "), told(value)) for key, value in result["machine"].items() if value not in (None, "", [], {})]


def answer_of(result):
    """The answer of the experiment's document, if it was written for this result, or ""."""
    try:
        with open(os.path.join(DOCUMENTS, f"{result['name']}.md"), encoding="utf-8") as file:
            when, answer = document.answered(file.read())
    except OSError:  # an installed lab has no documents
        return ""
    return answer if when == document.minute(result) else ""


def html(result):
    wanted = view.wanted_keys(result["plan"])
    tables = [(key, view.table(result, key)) for key in view.keys(result)]
    return templates().get_template("page.html.j2").render(
        result=result, plan=result["plan"], answer=answer_of(result), view=view, css=css(), claims=list(view.claims(result)), coloured=view.COLOURED,
        standings=standing.rows(result), standing_heads=standing.heads(result) if standing.rows(result) else [],
        standing_summary=standing.summary(result), invalid=view.invalid(result), cannots=view.cannots(result), missing=list(result["missing"].items()), plots=list(drawings(result)),
        limiters=list(view.limiters(result)), remarks=view.remarks(result), machine=machine_rows(result),
        main=[table for key, table in tables if key in wanted], more=[table for key, table in tables if key not in wanted],
        waits=list(view.percentile_tables(result)), names=list(counts.tables(result)),
        experiment=json.dumps(result["plan"], indent=1, ensure_ascii=False),
        json_url=data_url("application/json", as_json(result)), csv_url=data_url("text/csv", as_csv(result)))


# --- All of them --------------------------------------------------------------------------------------------

def row(name, plan, result):
    """A row of the index; result is None for an experiment that was never run, and plan is then used."""
    if result is None:
        return {"name": name, "title": plan.get("title", name), "question": plan.get("question", ""), "ran": False, "plot": ""}
    plots, bad = draw.plots(result), len(view.invalid_cells(result))
    return {"name": name, "title": result["plan"]["title"], "question": result["plan"]["question"], "ran": True,
            "answer": answer_of(result),
            "tally": view.tally(result), "invalid": view.counted(bad, "invalid measurement") if bad else "",
            "when": result["when"][:10], "pace": result["pace"], "commit": result["commit"], "missing": list(result["missing"]),
            "plot": data_url("image/svg+xml", draw.as_svg(result, 1, sheet.NARROW, draw.PLAIN)) if plots else "",
            "alt": f"{draw.heading(plots[0])}: the page has the figures" if plots else ""}


def index(plans, results):
    """plans: name -> plan of every experiment; results: name -> result."""
    return templates().get_template("index.html.j2").render(
        css=css(), coloured=view.COLOURED, machines=list(dict.fromkeys(view.machine(one) for one in results.values())),
        groups=[(group, [row(name, plans.get(name), results.get(name)) for name in names])
                for group, names in document.grouped(plans, results)])
