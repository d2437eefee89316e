# SPDX-License-Identifier: MIT
"""Mixes of kinds of requests: the requests sent, the answers expected, and a report for each kind of wrong answer."""
import collections
import itertools
import re

import pytest
from aid import DONE, FAULTS, USAGE, Witness, load, measured, reply, rung

BODY = bytes(range(256)) * 40
TAG, DATE = '"abc"', "Tue, 15 Nov 1994 12:45:26 GMT"
KINDS = ("plain", "conditional", "range", "gzip", "br", "zstd", "missing")


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    """A folder of files to compare with: x has siblings, y has none, empty is empty."""
    folder = tmp_path_factory.mktemp("truth")
    (folder / "x").write_bytes(BODY)
    (folder / "y").write_bytes(BODY[:1000])
    (folder / "empty").write_bytes(b"")
    for suffix in ("gz", "br", "zst"):
        (folder / f"x.{suffix}").write_bytes(suffix.encode() * 100)
    return folder


def body_of(request):
    return {"/x": BODY, "/y": BODY[:1000], "/empty": b""}.get(request.path)


def honest(request):
    """The answers of a server that supports conditions, single ranges, and siblings of /x."""
    body, field = body_of(request), request.field
    if body is None:
        return reply(404, b"no")
    if field.get("if-none-match") == TAG or field.get("if-modified-since") == DATE:
        return reply(304, ETag=TAG)
    if found := re.fullmatch(r"bytes=(\d+)-(\d+)", field.get("range", "")):
        first, last = int(found[1]), int(found[2])
        assert first <= last < len(body)
        return reply(206, body[first:last + 1], ETag=TAG, Content_Range=f"bytes {first}-{last}/{len(body)}")
    coding = field.get("accept-encoding", "identity")
    if coding != "identity" and request.path == "/x":
        return reply(200, {"gzip": b"gz", "br": b"br", "zstd": b"zst"}[coding] * 100, Content_Encoding=coding)
    return reply(200, body, ETag=TAG, Last_Modified=DATE)


def mixed(answer, truth, mix, *options, path="/x"):
    with Witness(answer) as server:
        run = measured("-c", 1, "-n", 40, "--mix", mix, *(["--check", truth] if truth else []), *options,
                       *(server.url + one for one in path.split()))
    kinds = run.json["mix"]
    assert sum(kind["sent"] for kind in kinds.values()) == run.json["requests"]["sent"]
    assert sum(kind["answered"] for kind in kinds.values()) == run.json["requests"]["answered"]
    return run, server


# --- Requests that are sent -------------------------------------------------------------------------------------

def kind_of(request):
    field = request.field
    told = [name for name in ("if-none-match", "if-modified-since", "range", "accept-encoding") if name in field]
    assert len(told) <= 1
    if not told:
        return "missing" if re.search(r"/no-such-[0-9a-f]{16}$", request.path) else "plain"
    return {"if-none-match": "conditional", "if-modified-since": "conditional", "range": "range"}.get(
        told[0], field["accept-encoding"] if told[0] == "accept-encoding" else None)


# shows T02
def test_shares_and_bytes_of_kinds(truth):
    """Each kind is sent as often as requested, with its own fields; the counts agree with the requests received."""
    mix = "conditional=20%,range=10%,gzip=30,br=5%,zstd=7.5%,missing=5%"
    run, server = mixed(honest, truth, mix, "-n", 6000, "--pipeline", 16)
    assert run.status == DONE and run.errors() == {}
    counts = collections.Counter(kind_of(request) for request in server.asked)
    wanted = {"plain": 22.5, "conditional": 20, "range": 10, "gzip": 30, "br": 5, "zstd": 7.5, "missing": 5}
    for kind in KINDS:
        row, share = run.json["mix"][kind], wanted[kind] / 100
        assert row["sent"] == row["answered"] == row["as_meant"] == counts[kind] and row["wrong"] == 0
        assert row["wanted_percent"] == wanted[kind] and row["not_compared"] == 0
        assert abs(counts[kind] - 6000 * share) < 6 * (6000 * share * (1 - share)) ** 0.5 + 16, kind
    assert run.json["status"] == {"200": sum(counts[kind] for kind in ("plain", "gzip", "br", "zstd")),
                                  "206": counts["range"], "304": counts["conditional"], "404": counts["missing"]}
    names = [request.path for request in server.asked if kind_of(request) == "missing"]
    assert len(set(names)) == len(names)
    assert {request.field["if-none-match"] for request in server.asked if "if-none-match" in request.field} == {TAG}
    ranges = [tuple(map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", request.field["range"]).groups()))
              for request in server.asked if "range" in request.field]
    assert all(0 <= first <= last < len(BODY) for first, last in ranges) and len(set(ranges)) > 500
    assert min(ranges)[0] < 1000 and max(ranges)[0] > len(BODY) - 1000
    assert run.json["examples"] == []


def test_a_missing_name_is_in_the_same_folder(truth):
    run, server = mixed(lambda request: reply(404), None, "missing=100", path="/a/b/c?d=/e /a/ /")
    folders = collections.Counter(re.sub(r"no-such-[0-9a-f]{16}$", "", path) for path in server.paths())
    assert run.status == DONE and set(folders) == {"/a/b/", "/a/", "/"} and run.json["status"] == {"404": 40}
    assert all(request.field["host"] == server.url[7:] and "user-agent" in request.field for request in server.asked)


def test_large_files_are_asked_in_parts_of_a_mebibyte():
    """A file that has grown to a tebibyte, as its parts say: offsets beyond 32 bits, never more than 1 MiB at once."""
    size = 1 << 40

    def answer(request):
        if "range" not in request.field:
            return reply(200, BODY)
        first, last = map(int, request.field["range"][6:].split("-"))
        return reply(206, b"x" * (last - first + 1), Content_Range=f"bytes {first}-{last}/{size}")
    run, server = mixed(answer, None, "range=100%")
    ranges = [tuple(map(int, request.field["range"][6:].split("-"))) for request in server.asked[2:]]
    assert run.status == DONE and len(ranges) == 38
    assert 1 << 19 < max(last - first + 1 for first, last in ranges) <= 1 << 20
    assert max(ranges)[0] > 1 << 38 and max(last for _, last in ranges) < size


def test_what_cannot_be_is_asked_plainly(truth):
    """No condition without a validator, no part of an empty file, and neither before the first answer."""
    run, server = mixed(lambda request: reply(200, BODY), None, "conditional=100%")
    assert run.json["mix"]["plain"]["sent"] == 40 and {kind_of(request) for request in server.asked} == {"plain"}
    run, server = mixed(honest, truth, "range=100%", path="/empty")
    assert run.json["mix"]["plain"]["sent"] == 40 and run.status == DONE
    run, server = mixed(honest, None, "range=50%,conditional=50%")
    assert [kind_of(request) for request in server.asked].count("plain") == 1 and run.status == DONE
    run, server = mixed(honest, truth, "range=100%")
    assert run.json["mix"]["range"]["sent"] == 40 and run.status == DONE


@pytest.mark.parametrize("length, used", [(192 - len("If-None-Match: \r\n"), True), (193 - len("If-None-Match: \r\n"), False)])
def test_long_validators_on_both_sides(length, used):
    tag = '"' + "t" * (length - 2) + '"'
    run, _ = mixed(lambda request: reply(304) if "if-none-match" in request.field else reply(200, BODY, ETag=tag), None,
                   "conditional=100%")
    assert run.status == DONE and run.json["mix"]["conditional"]["sent"] == (39 if used else 0)


def test_dates_where_there_is_no_tag():
    def answer(request):
        return reply(304) if request.field.get("if-modified-since") == DATE else reply(200, BODY, Last_Modified=DATE)
    run, server = mixed(answer, None, "conditional=100%")
    assert run.status == DONE and run.json["mix"]["conditional"]["as_meant"] == 39
    assert sum("if-modified-since" in request.field for request in server.asked) == 39


def test_threads_draw_each_for_itself():
    """No two threads draw the same random numbers: names are new over all threads, and so are parts."""
    for seed in ("1", "2"):
        with Witness(lambda request: reply(404)) as server:
            run = measured("-c", 3, "-t", 3, "-n", 90, "--seed", seed, "--mix", "missing=100%", server.url + "/")
        assert run.status == DONE and len(set(server.paths())) == 90


# --- Answers that are expected ------------------------------------------------------------------------------------

def lying(**lie):
    """Honest, except that the function given for a kind answers the requests of that kind."""
    def answer(request):
        kind = kind_of(request)
        return lie[kind](request) if kind in lie else honest(request)
    return answer


def part(request, body=None, **fields):
    first, last = map(int, request.field["range"][6:].split("-"))
    told = {"Content_Range": f"bytes {first}-{last}/{len(BODY)}", **fields}
    return reply(206, BODY[first:last + 1] if body is None else body, **{k: v for k, v in told.items() if v})


def shifted(request):
    first, last = map(int, request.field["range"][6:].split("-"))
    return reply(206, BODY[first + 1:last + 2], Content_Range=f"bytes {first + 1}-{last + 1}/{len(BODY)}")


def turned(data):
    return bytes([data[0] ^ 1]) + data[1:]


def wrong_part(request):
    first, last = map(int, request.field["range"][6:].split("-"))
    return part(request, turned(BODY[first:last + 1]))


FRESH = itertools.count()
LIES = {
    "whole though not modified": ("conditional", lambda r: reply(200, BODY, ETag=TAG), "bad_status"),
    "whole, the tag is weak now": ("conditional", lambda r: reply(200, BODY, ETag="W/" + TAG), "bad_status"),
    "whole without a validator": ("conditional", lambda r: reply(200, BODY), "bad_status"),
    "404 of a condition": ("conditional", lambda r: reply(404), "bad_status"),
    "412 of a condition": ("conditional", lambda r: reply(412), "bad_status"),
    "304 of another tag": ("conditional", lambda r: reply(304, ETag='"other"'), "wrong_field"),
    "a body of a changed file": ("conditional", lambda r: reply(200, turned(BODY), ETag=f'"{next(FRESH)}"'), "wrong_body"),
    "range ignored": ("range", lambda r: reply(200, BODY), "bad_status"),
    "416": ("range", lambda r: reply(416, Content_Range=f"bytes */{len(BODY)}"), "bad_status"),
    "no Content-Range": ("range", lambda r: part(r, Content_Range=None), "wrong_field"),
    "another part": ("range", shifted, "wrong_field"),
    "another size": ("range", lambda r: part(r, Content_Range=f"bytes {r.field['range'][6:]}/99999"), "wrong_field"),
    "another unit": ("range", lambda r: part(r, Content_Range=f"lines {r.field['range'][6:]}/*"), "wrong_field"),
    "no size": ("range", lambda r: part(r, Content_Range=f"bytes {r.field['range'][6:]}/"), "wrong_field"),
    "a size that the part does not fit in": (
        "range", lambda r: part(r, Content_Range=f"bytes {r.field['range'][6:]}/{r.field['range'].partition('-')[2]}"),
        "wrong_field"),
    "a size and more": ("range", lambda r: part(r, Content_Range=f"bytes {r.field['range'][6:]}/{len(BODY)}x"), "wrong_field"),
    "a wrong byte in a part": ("range", wrong_part, "wrong_body"),
    "a part too long": ("range", lambda r: part(r, BODY + b"!"), "wrong_length"),
    "a part too short": ("range", lambda r: part(r, b""), "wrong_length"),
    "a coding nobody named": ("gzip", lambda r: reply(200, b"br" * 100, Content_Encoding="br"), "wrong_field"),
    "an alias of another": ("br", lambda r: reply(200, b"gz" * 100, Content_Encoding="x-gzip"), "wrong_field"),
    "other coded bytes": ("gzip", lambda r: reply(200, b"gz" * 99 + b"gy", Content_Encoding="gzip"), "wrong_body"),
    "fewer coded bytes": ("br", lambda r: reply(200, b"br" * 99, Content_Encoding="br"), "wrong_length"),
    "coded, not saying so": ("zstd", lambda r: reply(200, b"zst" * 100), "wrong_length"),
    "another file instead": ("gzip", lambda r: reply(200, turned(BODY)), "wrong_body"),
    "406 of a coding": ("zstd", lambda r: reply(406), "bad_status"),
    "something is there": ("missing", lambda r: reply(200, BODY), "bad_status"),
    "gone": ("missing", lambda r: reply(410), "bad_status"),
    "plain with a wrong byte": ("plain", lambda r: reply(200, turned(BODY), ETag=TAG), "wrong_body"),
    "304 of no condition": ("plain", lambda r: reply(304), "bad_status"),
    "a part nobody wanted": ("gzip", lambda r: reply(206, b"x", Content_Range=f"bytes 0-0/{len(BODY)}"), "bad_status"),
    "plain not found": ("plain", lambda r: reply(404), "bad_status"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_of_each_kind(name, truth):
    kind, lie, fault = LIES[name]
    mix = "conditional=25%,missing=15%" if kind in ("plain", "conditional") else f"{kind}=40%,range=40%"
    mix = "range=50%" if kind == "range" else mix
    run, _ = mixed(lying(**{kind: lie}), None if "fit in" in name else truth, mix)
    row = run.json["mix"][kind]
    assert set(run.errors()) == {fault} and run.status == FAULTS, run.out
    assert row["wrong"] == run.errors()[fault] == row["answered"] > 0
    assert all(run.json["mix"][other]["wrong"] == 0 for other in KINDS if other != kind)
    assert run.json["examples"][0]["kind"] == kind and run.json["examples"][0]["error"] == fault


HONEST = {
    "a changed file": ("conditional", lambda r: reply(200, BODY, ETag='"new"'), False),
    "304 without a tag": ("conditional", lambda r: reply(304), True),
    "304, the tag is weak": ("conditional", lambda r: reply(304, ETag="W/" + TAG), True),
    "a size nobody knows": ("range", lambda r: part(r, Content_Range=f"bytes {r.field['range'][6:]}/*"), True),
    "Bytes": ("range", lambda r: part(r, Content_Range=f"Bytes {r.field['range'][6:]}/{len(BODY)}"), True),
    "not coded": ("gzip", lambda r: reply(200, BODY), False),
    "identity": ("gzip", lambda r: reply(200, BODY, Content_Encoding="identity"), False),
    "x-gzip": ("gzip", lambda r: reply(200, b"gz" * 100, Content_Encoding="x-gzip"), True),
    "GZIP": ("gzip", lambda r: reply(200, b"gz" * 100, Content_Encoding="GZIP"), True),
}


@pytest.mark.parametrize("name", HONEST)
def test_what_the_protocol_allows(name, truth):
    kind, answer, meant = HONEST[name]
    seen = set()

    def once(request):
        """A file changes once and then stays the same."""
        if name == "a changed file" and (seen or kind_of(request) == "conditional"):
            fresh = request.field.get("if-none-match") == '"new"'
            seen.add(request)
            return reply(304, ETag='"new"') if fresh else reply(200, BODY, ETag='"new"') if kind_of(request) in (
                "plain", "conditional") else honest(request)
        return lying(**{kind: answer})(request)
    run, _ = mixed(once, truth, f"{kind}=60%")
    row = run.json["mix"][kind]
    assert run.errors() == {} and run.status == DONE, run.out
    assert row["as_meant"] == {"a changed file": row["answered"] - 1}.get(name, row["answered"] if meant else 0)


def test_a_file_that_shrinks_is_no_error_without_check():
    """The server ends a part where the file now ends, and says so."""
    def answer(request):
        size = len(BODY) if kind_of(request) == "plain" else 3000
        if kind_of(request) == "plain":
            return reply(200, BODY)
        first, last = map(int, request.field["range"][6:].split("-"))
        last = min(last, size - 1)
        return reply(206, BODY[first:last + 1], Content_Range=f"bytes {first}-{last}/{size}") if first <= last else reply(
            206, b"x", Content_Range=f"bytes {first}-{first}/{first + 1}")
    run, _ = mixed(answer, None, "range=100%")
    assert run.errors() == {} and run.status == DONE


def test_coded_answers_without_a_sibling_are_told(truth):
    run, server = mixed(lying(gzip=lambda r: reply(200, b"any", Content_Encoding="gzip")), truth, "gzip=100%", path="/y")
    assert run.errors() == {} and run.json["mix"]["gzip"]["not_compared"] == 40 == run.json["mix"]["gzip"]["as_meant"]
    with Witness(server.reply) as server:
        text = load("-n", 40, "--mix", "gzip=100%", "--check", truth, server.url + "/y").out
    assert "not compared: 40 coded answers whose file has no sibling" in text
    run, _ = mixed(server.reply, None, "gzip=100%", path="/y")
    assert run.json["mix"]["gzip"]["not_compared"] == 0


# --- With rung ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("options", [[], ["--pipeline", 8], ["-k", "off"], ["--requests-per-connection", 5, "--pipeline", 3],
                                     ["-R", 2000], ["--zipf", 1, "--think", "1ms"], ["--body-check"]], ids=str)
def test_rung_answers_every_kind(tmp_path, options):
    """Files with siblings, compared byte by byte, in threads."""
    (tmp_path / "sub").mkdir()
    for name in ("index.html", "sub/a.txt", "sub/b.css"):
        (tmp_path / name).write_bytes(name.encode() * 3000)
        for suffix in ("gz", "br", "zst"):  # a server does not look into them
            (tmp_path / f"{name}.{suffix}").write_bytes(f"{name} as {suffix}".encode() * 500)
    with rung("serve", "-p", 0, tmp_path) as server:
        url = f"http://127.0.0.1:{server.port}"
        run = measured("-n", 1500, "-c", 6, "-t", 2, "--check", tmp_path, "--mix",
                       "conditional=20%,range=20%,gzip=15%,br=10%,zstd=10%,missing=5%", *options,
                       *(f"{url}/{name}" for name in ("", "sub/a.txt", "sub/b.css")))
        assert run.status == DONE and run.errors() == {}, run.out
        for kind, row in run.json["mix"].items():
            assert row["sent"] == row["answered"] == row["as_meant"] > 30, kind
            assert row["wrong"] == row["not_compared"] == 0
        assert server.settled()["answers"] == 1500


def test_the_report_has_a_row_for_each_kind(truth):
    with Witness(honest) as server:
        text = load("-n", 500, "-c", 1, "--mix", "range=50%,missing=1%", "--check", truth, server.url + "/x").out
    assert re.search(r"\n  mix +kind +wanted +sent +% +as meant +wrong\n +plain +49% ", text)
    assert re.search(r"\n +range +50% +\d+ +[\d.]+% +\d+ +0   \(206 and that part\)\n", text)
    assert "gzip" not in text and "missing" in text
    lie = lying(range=lambda r: reply(200, BODY))
    with Witness(lie) as server:
        text = load("-n", 50, "-c", 1, "--mix", "range=50%", "--check", truth, server.url + "/x").out
    assert "answers with another status, the first of range http://127.0.0.1" in text


@pytest.mark.parametrize("words, said", [
    (["--mix", "rang=10%"], "kinds are conditional, range"), (["--mix", "plain=10%"], "kinds are conditional"),
    (["--mix", "range"], "KIND=SHARE"), (["--mix", "range="], "0 to 100"), (["--mix", "range=x"], "0 to 100"),
    (["--mix", "range=-1"], "0 to 100"), (["--mix", "range=101%"], "0 to 100"), (["--mix", "range=10%%"], "0 to 100"),
    (["--mix", "range=nan"], "0 to 100"), (["--mix", "range=1%,range=2%"], "one share"),
    (["--mix", "range=60%,gzip=41%"], "more than 100"), (["--mix", "x" * 256], "too long"),
    (["--mix", "range=5%", "-X", "HEAD"], "only GET"), (["--mix", "range=5%", "--status", "200"], "each kind has its own"),
    (["--mix", "range=5%", "-H", "Range: bytes=0-1"], "leave 'Range: bytes=0-1' out"),
    (["--mix", "br=5%", "-H", "accept-encoding: gzip"], "br sends Accept-Encoding"),
    (["--mix", "conditional=5%", "-H", "If-Match: *"], "conditional sends If-"),
], ids=str)
def test_mistakes(words, said):
    run = load(*words, "http://127.0.0.1:1/")
    assert run.status == USAGE and said in run.err and run.out == "" and run.err.count("\n") == 1, run.err
    run = load("--mix", "range=5%", "echo://127.0.0.1:1")
    assert run.status == USAGE and "echo" in run.err


def test_shares_are_added_up_as_they_are_written(truth):
    """16.6 + 66.7 + 16.7 is 100 despite the rounding of doubles, so that no request is plain."""
    for mix in ("gzip=16.7,br=66.7,missing=16.6", "gzip=33.3,br=33.4,missing=33.3", "gzip=1,br=1.7,missing=97.3"):
        run, _ = mixed(honest, truth, mix)
        assert run.status == DONE and run.json["mix"]["plain"] == dict.fromkeys(run.json["mix"]["plain"], 0)


def test_a_name_that_leaves_no_room_for_a_suffix(tmp_path):
    """A name of 252 bytes has a sibling, one of 255 cannot have any; a link to itself is no sibling either."""
    for name in (252 * "a", 255 * "b"):
        (tmp_path / name).write_bytes(BODY)
    (tmp_path / (252 * "a" + ".gz")).write_bytes(b"gz")
    (tmp_path / "c").write_bytes(BODY)
    (tmp_path / "c.gz").symlink_to("c.gz")
    with Witness(lambda request: reply(200, b"gz" if request.path.endswith(".gz") else BODY)) as server:
        run = measured("-n", 20, "--mix", "gzip=100%", "--walk", tmp_path, "--check", tmp_path, server.url)
        assert run.status == DONE and run.json["urls"] == 4


def test_shares_on_both_sides(truth):
    for mix in ("range=0%", "range=100%", "range=60%,gzip=40%", "range=0.5%", " range=5% , gzip=5%"):
        assert mixed(honest, truth, mix)[0].status == DONE
    assert mixed(honest, truth, "range=1%", "-H", "Accept-Encoding: identity")[0].status == DONE
    assert mixed(honest, None, "range=1%", "-H", "Accept-Encoding: gzip")[0].json["mix"]["gzip"]["sent"] == 0
