# SPDX-License-Identifier: MIT
"""Documents and pages of all results together: rewritten, compared, and made from a run."""
import gzip
import json
import os
import subprocess
import sys

import pytest
import sample

pytest.importorskip("matplotlib", reason="matplotlib is not installed")
pytest.importorskip("jinja2", reason="jinja2 is not installed")
import document  # noqa: E402 pylint: disable=wrong-import-position
import experiment  # noqa: E402 pylint: disable=wrong-import-position
import page  # noqa: E402 pylint: disable=wrong-import-position
import plots  # noqa: E402 pylint: disable=wrong-import-position
import view  # noqa: E402 pylint: disable=wrong-import-position
from test_pages import small  # noqa: E402 pylint: disable=wrong-import-position


def test_what_documents_claim():
    """Each sentence of a document has a row, grouped by document and section; the verdicts of one experiment are counted together."""
    source, result = "kecho report, One | two; chart", {**sample.pools(), "name": "pools"}
    mine, *_ = result["plan"]["claim"]
    result["plan"] = {**result["plan"], "claim": [{**mine, "document": "It is fast.", "source": source} for _ in range(2)]}
    plans = {"never": {"title": "Never", "claim": [{"document": "It is fast.", "source": source},
                                                   {"document": "It is slow.", "source": "khttpd notes, Two; text"}, {"says": "Ours."}]}}
    told = ", ".join(f"{count} {word}" for word, count in view.tally(result))
    assert document.said(plans, {"pools": result}).split("\n") == [
        "## khttpd notes", "", "| section | from | claim | verdict here |", "|---|---|---|---|",
        "| Two | text | It is slow. | Never: not run here yet |", "", "## kecho report", "",
        "| section | from | claim | verdict here |", "|---|---|---|---|",
        f"| One \\| two | chart | It is fast. | Never: not run here yet<br>[{result['plan']['title']}](pools.md): {told} |"]


def documents_of(tmp_path, monkeypatch, *made):
    """Makes a tree with these results, in which plots.py then runs."""
    for folder in ("lab/results", "lab/experiments", "docs/lab"):
        os.makedirs(tmp_path / folder)
    for one in made:
        (tmp_path / f"lab/results/{one['name']}.json").write_text(json.dumps(one))
    (tmp_path / "lab/experiments/never.toml").write_text('title = "Never"\nquestion = "Why?"\n')
    (tmp_path / "docs/lab/README.md").write_text("# Lab\n\n<!-- experiments -->\n<!-- /experiments -->\n")
    (tmp_path / "docs/lab/claims.md").write_text("# Claims\n\n<!-- claims -->\n<!-- /claims -->\n")
    monkeypatch.setattr(plots.command, "TOP", str(tmp_path))


def plots_main(monkeypatch, *args):
    monkeypatch.setattr("sys.argv", ["plots.py", *args])
    monkeypatch.chdir(".")
    return plots.main()


def answer(path, when):
    """Put an answer in front of a document's generated block."""
    before, _, rest = path.read_text().partition("<!-- lab")
    before = before.partition("<!-- answer")[0]
    path.write_text(f"{before}<!-- answer {when} -->\n**Answer.** Yes.\n\n<!-- lab{rest}")


@pytest.mark.parametrize("verdict, words", [("undecided", "**Not decided:** the rounds differ."), ("not measured", "**Not measured:** it is quick.")])
def test_open_verdicts_are_explained(monkeypatch, verdict, words):
    """By a person: what the generated block says of them counts for nothing."""
    block = f"<!-- lab sample -->\n{words}\n<!-- /lab sample -->\n"
    monkeypatch.setattr(plots.view, "tally", lambda result: [("confirmed", 2), ("undecided", verdict == "undecided"),
                                                             ("not measured", verdict == "not measured")])
    assert plots.unexplained({}, f"# Sample\n\n{block}") == [verdict]
    assert not plots.unexplained({}, f"# Sample\n\n{words}\n\n{block}")
    monkeypatch.setattr(plots.view, "tally", lambda result: [("confirmed", 2)])
    assert not plots.unexplained({}, f"# Sample\n\n{block}")


def test_every_experiment_is_in_one_group():
    names = [name for group in document.GROUPS.values() for name in group]
    assert sorted(names) == experiment.names()


def test_long_lists_are_folded():
    result = sample.pools()
    claim = result["plan"]["claim"][0]
    short = document.claims({**result, "plan": {**result["plan"], "claim": [claim]}})
    assert not any("<details>" in line for line in short)
    everybody = {**claim, "of": [one["name"] for one in result["plan"]["target"]], "to": "mutex"}
    everybody.pop("scenario", None)
    everybody["scenarios"] = [one["name"] for one in result["plan"]["scenario"]]
    text = "\n".join(document.claims({**result, "plan": {**result["plan"], "claim": [everybody]}}))
    folded = text.partition("<details>")[2].partition("</details>")[0]
    assert "measurements, below |" in text and folded.count("\n- **") == int(text.partition(" measurements")[0].split()[-1]) > 6


def test_all_of_it_and_nothing_twice(tmp_path, monkeypatch, capsys):
    documents_of(tmp_path, monkeypatch, small())
    assert plots_main(monkeypatch, "--check") == 1
    said = capsys.readouterr().out
    assert "docs/lab/sample.md does not say" in said and "docs/lab/README.md does not say" in said
    claims = tmp_path / "docs/lab/claims.md"
    claims.write_text(claims.read_text().replace("claims -->\n<", "claims -->\nBy hand.\n<"))
    assert plots_main(monkeypatch, "--out", str(tmp_path / "out")) == 0
    assert plots_main(monkeypatch, "--check") == 1
    assert "docs/lab/sample.md: read its answer against the run of 2026-01-02 03:04" in capsys.readouterr().out
    answer(tmp_path / "docs/lab/sample.md", "2026-01-02 03:04")
    assert plots_main(monkeypatch, "--check") == 0
    answer(tmp_path / "docs/lab/sample.md", "2026-01-02 03:05")
    assert plots_main(monkeypatch, "--check") == 1
    answer(tmp_path / "docs/lab/sample.md", "2026-01-02 03:04")
    made = sorted(os.listdir(tmp_path / "out"))
    assert made == sorted(["index.html", "sample.html", "sample.csv", "sample-1.png", "sample-1.svg"])
    readme, page_path = (tmp_path / "docs/lab" / name for name in ("README.md", "sample.md"))
    assert "not run here yet" in readme.read_text() and "[A sample](sample.md)" in readme.read_text()
    page_path.write_text(page_path.read_text() + "\nBy hand.\n")
    times = {path: os.stat(path).st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert plots_main(monkeypatch, "--out", str(tmp_path / "out")) == 0
    assert times == {path: os.stat(path).st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    page_path.write_text(page_path.read_text().replace("6 rounds", "60 rounds"))
    (tmp_path / "docs/lab/img/sample-1.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    capsys.readouterr()
    assert plots_main(monkeypatch, "--check") == 1
    said = capsys.readouterr().out
    assert "docs/lab/sample.md does not say" in said and "sample-1.png is not drawn from" in said


@pytest.mark.parametrize("text, words", [("{", "Expecting"), ("[]", "is no result"), ("{}", "is no result")])
def test_a_file_that_is_no_result(tmp_path, monkeypatch, text, words):
    documents_of(tmp_path, monkeypatch)
    (tmp_path / "lab/results/bad.json").write_text(text)
    with pytest.raises(SystemExit) as told:
        plots_main(monkeypatch, "--check")
    assert words in str(told.value) and "bad.json" in str(told.value)


def test_results_are_kept_compressed(tmp_path, monkeypatch, capsys):
    documents_of(tmp_path, monkeypatch)
    made, kept = tmp_path / "made.json", tmp_path / "lab/results/sample.json.gz"
    made.write_text(json.dumps(small()))
    assert plots_main(monkeypatch, "--keep", str(made), "--out", str(tmp_path / "out")) == 0
    assert json.loads(gzip.decompress(kept.read_bytes())) == small() and kept.stat().st_size < made.stat().st_size / 3
    before = kept.read_bytes()
    assert plots_main(monkeypatch, "--keep", str(kept), "--out", str(tmp_path / "out")) == 0 and kept.read_bytes() == before
    made.write_text("{}")
    with pytest.raises(SystemExit) as told:
        plots_main(monkeypatch, "--keep", str(made), "--check")
    assert "is no result" in str(told.value) and kept.read_bytes() == before
    kept.write_bytes(before[:100])
    capsys.readouterr()
    with pytest.raises(SystemExit) as told:
        plots_main(monkeypatch, "--check")
    assert "sample.json.gz" in str(told.value)


def test_a_result_that_cannot_be_measured_again_is_not_kept(tmp_path, monkeypatch, capsys):
    """One result of changed sources, and none of those that --keep names is kept."""
    documents_of(tmp_path, monkeypatch)
    clean, changed = tmp_path / "clean.json", tmp_path / "changed.json"
    clean.write_text(json.dumps(small()))
    changed.write_text(json.dumps({**small(), "commit": "abc1234 and changes"}))
    with pytest.raises(SystemExit) as told:
        plots_main(monkeypatch, "--keep", str(clean), str(changed), "--check")
    assert "changed.json is not kept: it was measured with commit abc1234 and changes" in str(told.value)
    assert not os.listdir(tmp_path / "lab/results")
    assert plots_main(monkeypatch, "--keep", str(clean), "--check") == 1 and "sample.md" in capsys.readouterr().out
    assert os.listdir(tmp_path / "lab/results") == ["sample.json.gz"]
    kept = tmp_path / "lab/results/sample.json.gz"
    kept.write_bytes(gzip.compress(changed.read_bytes()))
    assert plots_main(monkeypatch, "--check") == 1 and "nobody can repeat it" in capsys.readouterr().out


def test_code_stays_code():
    text = "a_b is `make x_y | <z>` & `q`"
    assert document.escaped(text) == "a\\_b is `make x_y \\| <z>` &amp; `q`"
    assert page.words(text) == "a_b is <code>make x_y | &lt;z&gt;</code> &amp; <code>q</code>"
    assert document.escaped("one ` alone <b>") == "one \\` alone &lt;b>" and page.words("one ` alone <b>") == "one ` alone &lt;b&gt;"


def test_pages_of_a_run(tmp_path):
    """rung lab draw draws the results of its folder.  A file that is no result is reported, and the others are drawn all the same."""
    (tmp_path / "sample.json").write_text(json.dumps(small()))
    (tmp_path / "bad.json").write_text("[]")
    done = subprocess.run([sys.executable, "-B", "lab/lab.py", "--out", str(tmp_path), "draw"], cwd=plots.command.TOP, text=True,
                          timeout=120, capture_output=True, check=False)
    assert done.returncode == 0 and "bad.json is no result of rung lab run" in done.stderr and "Traceback" not in done.stderr
    assert {"index.html", "sample.html", "sample.csv", "sample-1.png", "sample-1.svg"} <= set(os.listdir(tmp_path))
    done = subprocess.run([sys.executable, "-B", "lab/lab.py", "--out", str(tmp_path), "draw", "none"], cwd=plots.command.TOP,
                          text=True, timeout=120, capture_output=True, check=False)
    assert done.returncode == 1 and "rung lab run none makes it" in done.stderr


def test_what_is_shown_without_a_name(tmp_path):
    """Without a name all results are shown; when there is none, the message says how to make one."""
    def lab(*args):
        return subprocess.run([sys.executable, "-B", "lab/lab.py", "--out", str(tmp_path), *args], cwd=plots.command.TOP, text=True,
                              timeout=60, capture_output=True, check=False)
    for what in ("show", "draw"):
        done = lab(what)
        assert (done.returncode, done.stdout) == (1, "") and f"there is no result in {tmp_path}; rung lab run NAME" in done.stderr
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps({**small(), "name": name}))
    both, one = lab("show"), lab("show", "a")
    assert both.returncode == one.returncode == 0 and both.stdout == 2 * one.stdout and one.stdout.startswith("Which of these")
