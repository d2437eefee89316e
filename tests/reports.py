# SPDX-License-Identifier: MIT
"""reports.py - reads pytest's report, and counts its results in a layer."""
import os
import xml.etree.ElementTree

FEW = 10  # failed tests, which load may have made late


def ended(status):
    if status == "timeout":
        return "out of time"
    return f"signal {-status}" if status < 0 else f"status {status}"


def junit(path):
    """{test: (word, text)} of a report; empty where there is none.  A test that failed once has failed."""
    results = {}
    if not os.path.exists(path):
        return results
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        name = case.get("classname", "").rpartition(".")[2] + "::" + case.get("name", "")
        bad = [child for child in case if child.tag in ("failure", "error")]
        skip = case.find("skipped")
        word, child = ("failed", bad[0]) if bad else ("skipped", skip) if skip is not None else ("passed", None)
        text = "" if child is None else child.get("message", "") if word == "skipped" else child.text or ""
        if results.get(name, ("",))[0] != "failed":
            results[name] = (word, text)
    return results


def note_pytest(layer, outcome, once_more, crowded=False):
    """Runs a few failed tests again, alone, if other tests ran at the same time: load made them late, or they are broken.
    crowded: tests of this layer ran side by side."""
    results, status, output = outcome
    failed = [name for name, (word, _) in results.items() if word == "failed"]
    again = {}
    if failed and len(failed) <= FEW and layer.alone(crowded):
        again = once_more()
    for name, (word, text) in results.items():
        if word == "skipped":
            layer.skip(name, text)
        elif word == "passed" or again.get(name, ("",))[0] == "passed":
            layer.ok(name)
            if word == "failed":
                layer.unsteady.append(name)
                layer.log(f"--- unsteady: {name}\n{text}")
        else:
            layer.fail(name, text)
    if status not in (0, 1) or not results:
        layer.fail(f"pytest ({ended(status)})", output)
