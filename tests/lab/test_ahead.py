# SPDX-License-Identifier: MIT
"""The page of an experiment that asks which server is ahead: first the answer, then all targets, then verdicts and reasons."""
import re

import pytest
import sample

pytest.importorskip("matplotlib", reason="matplotlib is not installed")
pytest.importorskip("jinja2", reason="jinja2 is not installed")
import document  # noqa: E402 pylint: disable=wrong-import-position
import draw  # noqa: E402 pylint: disable=wrong-import-position
import page  # noqa: E402 pylint: disable=wrong-import-position
import view  # noqa: E402 pylint: disable=wrong-import-position


def test_who_is_ahead_comes_first():
    result = sample.standings()
    text, html_page = document.markdown(result), page.html(result)
    assert re.match(r"Of 2 scenarios, ours is [a-z]+ in", text)
    assert text.index("| small | **") < text.index("All servers: ") < text.index("![Which") < text.index("At the floor.")
    assert html_page.index("Which server is ahead") < html_page.index('id="verdicts"')


def test_a_table_of_everybody():
    """Cells are ratios to the floor with the interval beneath.  The floor's own column, and scenarios without the floor, have figures."""
    small, large = [line for line in document.markdown(sample.standings()).split("\n") if re.match(r"\| (small|large) \| (\d|-)", line)]
    assert "Bold" in document.markdown(sample.standings())
    number = r"(\*\*)?[\d.]+( =)?(\*\*)?( =)?<br>[\d.]+\.\.[\d.]+( =)?"
    assert re.fullmatch(rf"\| small \| [\d.]+ us<br>[\d.]+\.\.[\d.]+ \| {number} \| {number} \| does not \|", small), small
    assert re.fullmatch(rf"\| large \| - \|( (\*\*)?[\d.]+ us(\*\*)?<br>[\d.]+\.\.[\d.]+ \|){{3}}", large), large
    assert small.count("**") == large.count("**") == 2


def test_invalid_cells_of_one_kind_are_one_line():
    result = sample.standings()
    bad = [one for one in result["cells"] if one["scenario"] == "large"][:4]
    for number, one in enumerate(bad):
        one.update(target="others", round=(0, 1, 2, 5)[number], error=f"requests failed: {3 - number} closed_early")
    bad[3]["error"] = "the server ended"
    assert view.invalid(result) == ["others, large: requests failed: 1 to 3 closed_early (round 1 to 3)",
                                    "others, large: the server ended (round 6)"]
    assert len(view.invalid_cells(result)) == 4
    assert view.merged(["took 0.05 s at 10.007 of 1,008", "took 2.50 s at 1 of 9"]) == "took 0.05 s at 10.007 of 1,008"


def test_what_is_not_offered_is_said_and_is_not_invalid():
    result = sample.standings()
    assert "- Not offered, small: others does not do that." in document.markdown(result) and view.invalid(result) == []
    assert "Not offered, small: others does not do that" in page.html(result)
    assert "does not" in draw.as_svg(result, 1)


def test_a_reason_is_given_for_what_is_missed():
    for text in (document.markdown(sample.standings()), page.html(sample.standings()).partition("Configuration")[0].partition("The experiment")[0]):
        assert "than that." in text and "Never shown" not in text


def test_bars_of_a_ratio():
    result = sample.standings()
    assert draw.heading(draw.plots(result)[0]) == "processor time a request / that of floor"
    assert "The dashed line is floor: 1." in draw.reading(result, draw.plots(result)[0])
    svg = draw.as_svg(result, 1)
    median = view.amount(view.judge.ratio(result, "ours", "floor", "small", "cpu_us").median)
    assert median in re.findall(r">([\d.]+)<", svg)
