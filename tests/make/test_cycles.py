# SPDX-License-Identifier: MIT
"""cycles.py finds files that need each other."""
import shutil
import subprocess

import cycles
import pytest

ON = "void b(void);\nvoid a(void);\nvoid a(void) { b(); }\n"
BACK = "void a(void);\nvoid (*const table[])(void);\nvoid (*const table[])(void) = {a};\nvoid b(void);\nvoid b(void) { }\n"
APART = "void b(void);\nvoid b(void) { }\n"


@pytest.fixture
def built(tmp_path, monkeypatch):
    """built(name=source...): compiles the sources, each as FOLDER/NAME.c -> what each needs."""
    monkeypatch.chdir(tmp_path)

    def build(folder="server", **sources):
        for place in (tmp_path / folder, tmp_path / "out" / folder):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
        for name, source in sources.items():
            (tmp_path / f"{folder}/{name}.c").write_text(source)
            subprocess.run(["gcc", "-c", f"{folder}/{name}.c", "-o", f"out/{folder}/{name}.o"], check=True)
        return cycles.needs(cycles.objects("out"))
    return build


def test_a_circle_by_a_table_is_found(built):
    arrows = built(a=ON, b=BACK)
    assert cycles.circles(arrows) == [{"server/a", "server/b"}]
    assert [line for line in cycles.complaints(arrows) if "needs server" in line] == \
        ["  server/a needs server/b: b", "  server/b needs server/a: a"]


def test_one_way_is_no_circle(built):
    arrows = built(a=ON, b=APART)
    assert cycles.circles(arrows) == []
    assert not list(cycles.complaints(arrows))


def test_what_takes_a_file_s_place_counts_as_that_file(built):
    """probe.c and probe_absent.c: whichever is built, and if both lie there."""
    for sources in ({"b": BACK}, {"b_absent": BACK}, {"b": BACK, "b_absent": APART}):
        assert cycles.circles(built(a=ON, **sources)) == [{"server/a", "server/b"}]


def test_tools_share_no_symbols(built):
    """Two programs may have functions of the same name."""
    arrows = built("tools/load", a=ON, b=BACK)
    assert cycles.circles({**arrows, **built("tools/trace", a=ON, b=APART)}) == [{"tools/load/a", "tools/load/b"}]


def test_the_modules_are_looked_at(built):
    assert cycles.circles(built("kernel", a=ON, b=BACK)) == [{"kernel/a", "kernel/b"}]


def test_an_object_without_a_source_is_left_out(built, tmp_path):
    built(a=ON, b=BACK)
    (tmp_path / "server/b.c").unlink()
    assert cycles.circles(cycles.needs(cycles.objects("out"))) == []
