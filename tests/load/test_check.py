# SPDX-License-Identifier: MIT
"""Files of --check that change during the run: a fault with a name of its own, and rung load does not crash."""
import os
import re
import time

import pytest
from aid import DONE, FAULTS, Liar, Witness, at, end, load, measured, reply, rung, start
from mini import BODY, Mini

BIG = bytes(range(1, 256)) * 4096  # a mebibyte, without a zero
CHANGED_AT = 10


def replaced(path):
    other = path.with_name("other")
    other.write_bytes(BIG[::-1])
    os.replace(other, path)


def linked(path):
    """Put an older link in its place, as when the link to a folder is changed: the replacement is not new."""
    os.replace(path.with_name("older"), path)


CHANGES = {
    "emptied": lambda path: os.truncate(path, 0),
    "shorter, in the middle of a page": lambda path: os.truncate(path, 70000),
    "a byte shorter": lambda path: os.truncate(path, len(BIG) - 1),
    "longer": lambda path: path.open("ab").write(b"more"),
    "replaced": replaced,
    "removed": os.unlink,
    "a link to an older one": linked,
}


def changing(folder, change, answer, *options, requests=40):
    """The file x changes when its tenth answer is due."""
    path, done = folder / "x", []
    path.with_name("target").write_bytes(BIG[::-1])
    path.with_name("older").symlink_to("target")
    path.write_bytes(BIG)

    def one(request):
        if len(server.asked) >= CHANGED_AT and not done:
            done.append(change(path))
        return answer(request, len(server.asked) >= CHANGED_AT)
    with Witness(one) as server:
        return measured("-n", requests, "-c", 1, "--check", folder, *options, server.url + "/x")


@pytest.mark.parametrize("name", CHANGES)
def test_the_server_changes_with_its_file(tmp_path, name):
    """The server is honest, but its answers no longer match the bytes that rung load read at the start."""
    run = changing(tmp_path, CHANGES[name], lambda request, late: reply(200, b"new" if late else BIG))
    assert run.errors() == {"check_file_changed": 40 - CHANGED_AT + 1} and run.status == FAULTS
    assert run.json["examples"][0]["error"] == "check_file_changed" and run.json["requests"]["answered"] == 40


@pytest.mark.parametrize("name", [name for name in CHANGES if "short" in name or name == "emptied"])
@pytest.mark.parametrize("options", [[], ["--mix", "range=50%"], ["--pipeline", 4], ["-t", 2, "-c", 2]], ids=str)
def test_a_file_that_is_cut_is_no_death(tmp_path, name, options):
    """The server keeps sending the old bytes; the pages of the file are gone.  Parts that are still there match."""
    def answer(request, _):
        if "range" not in request.field:
            return reply(200, BIG)
        first, last = map(int, request.field["range"][6:].split("-"))
        return reply(206, BIG[first:last + 1], Content_Range=f"bytes {first}-{last}/{len(BIG)}")
    run = changing(tmp_path, CHANGES[name], answer, *options)
    assert set(run.errors()) == {"check_file_changed"} and run.status == FAULTS
    assert 1 <= run.errors()["check_file_changed"] <= 40 - CHANGED_AT + 4


def test_an_answer_that_ends_where_its_file_does(tmp_path):
    """A server that has promised more bytes than there are can only close."""
    def cut(sock):
        os.truncate(tmp_path / "x", 5000)
        sock.sendall(reply(200, BIG)[:-1000])
        return False
    (tmp_path / "x").write_bytes(BIG)
    with Liar(at(CHANGED_AT, cut, reply(200, BIG))) as liar:
        run = measured("-n", CHANGED_AT + 1, "-c", 1, "--check", tmp_path, liar.url)
    assert run.errors() == {"check_file_changed": 1} and run.json["requests"]["lost"] == 1 and run.status == FAULTS


def test_a_sibling_that_is_cut(tmp_path):
    (tmp_path / "x.gz").write_bytes(BIG)
    run = changing(tmp_path, lambda path: os.truncate(path.with_name("x.gz"), 0),
                   lambda request, _: reply(200, BIG, Content_Encoding="gzip"), "--mix", "gzip=100%")
    assert run.errors() == {"check_file_changed": 40 - CHANGED_AT + 1}


def test_a_lie_beside_a_change_is_a_lie(tmp_path):
    """A wrong status, and a wrong body while another file changes: the change excuses neither."""
    run = changing(tmp_path, lambda path: os.truncate(path, 0), lambda request, late: reply(503 if late else 200, BIG))
    assert run.errors() == {"bad_status": 40 - CHANGED_AT + 1}
    (tmp_path / "again").mkdir()
    run = changing(tmp_path / "again", lambda path: os.truncate(path.with_name("target"), 0),
                   lambda request, late: reply(200, BIG[::-1] if late else BIG))
    assert run.errors() == {"wrong_body": 40 - CHANGED_AT + 1}


def test_rung_and_a_file_that_is_cut_again_and_again(tmp_path):
    """rung and rung load both read the file while it changes; a line of the report says what happened."""
    (tmp_path / "x").write_bytes(BIG)
    with rung("serve", "-p", 0, tmp_path) as server:
        process = start("-d", "1s", "-c", 4, "--check", tmp_path, f"http://127.0.0.1:{server.port}/x")
        while process.poll() is None:
            for size in (len(BIG), 0, 70000):
                os.truncate(tmp_path / "x", size)
            time.sleep(0.001)
        run = end(process)
    assert run.status == FAULTS and "verdict" in run.out
    assert re.search(r"errors +\d+ answers unlike their file below --check, which has changed since the run began, the "
                     r"first of http://127\.0\.0\.1:\d+/x\n", run.out), run.out


def test_a_trial_and_a_file_that_is_cut(tmp_path):
    (tmp_path / "x").write_bytes(BODY)
    with Mini() as server:
        honest = server.answer

        def answer(*args):
            if server.count > 20:
                os.truncate(tmp_path / "x", 0)
            honest(*args)
        server.answer = answer
        run = load("-o", "-", "--trial", "calm", "-d", "500ms", "--trial-worst", "20s", "--check", tmp_path, server.url)
    why = run.json["trials"][0]["why"]
    assert run.status == FAULTS and "answers unlike their file below --check, which has changed" in why, why


def test_a_file_that_is_touched_is_the_same(tmp_path):
    """A change of times alone is no error."""
    run = changing(tmp_path, os.utime, lambda request, _: reply(200, BIG))
    assert run.status == DONE and run.errors() == {}
