# SPDX-License-Identifier: MIT
"""The URLs that rung load requests: folders, popularity."""
import collections
import os
import re
import resource
import shutil
import subprocess

import pytest
from aid import DONE, FAULTS, LOAD, OK, PATIENCE, USAGE, Witness, end, environment, load, measured, reply, rung, start
from test_replay import line, replayed

# tools/load: the most URLs, and the bytes each may take; bytes of a small file, of all of them; large files that are mapped
SANITIZED = "asan" in LOAD or "tsan" in LOAD
# For tests that take the thread sanitizer a quarter of a minute or more, and in which no second thread does anything.
ONE_THREAD = pytest.mark.skipif("tsan" in LOAD, reason="one thread does all of it, and the thread sanitizer looks at several")
URLS_MAX, URL_BYTES, SMALL, HELD, MAPPED = 2000000, 300, 1 << 16, 256 << 20, 1 << 15


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A folder with all kinds of names; NAMED has the paths that rung serves."""
    top = tmp_path_factory.mktemp("tree")
    for name in ("index.html", "a.txt", "b b.bin", "a#b?c%20", "\u00fc.txt", "sub/index.html", "sub/c.css", "sub/deep/x",
                 "sub/xindex.html", "a.txt.gz", ".hidden", ".git/config", "sub/.x", ".well-known/security.txt"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(name.encode() * 3)
    (top / "none").mkdir()
    (top / "inside").symlink_to("sub/c.css")
    (top / "folder").symlink_to("sub")
    (top / "circle").symlink_to(".")
    (top / "outside").symlink_to("/etc/hostname")
    (top / "climbs").symlink_to(f"../{top.name}/a.txt")
    (top / "dangling").symlink_to("nowhere")
    os.mkfifo(top / "pipe")
    return top


NAMED = {"/", "/a.txt", "/b%20b.bin", "/a%23b%3Fc%2520", "/%C3%BC.txt", "/sub/", "/sub/c.css", "/sub/deep/x",
         "/sub/xindex.html", "/a.txt.gz", "/.well-known/security.txt", "/inside"}


# --- Folders ----------------------------------------------------------------------------------------------------

def test_a_walk_asks_every_file_once(tree):
    with Witness(lambda request: OK) as server:
        run = measured("-n", len(NAMED), "-c", 1, "--walk", tree, server.url)
        assert run.status == DONE and run.json["urls"] == len(NAMED)
        assert set(server.paths()) == NAMED
        assert server.paths().index("/.well-known/security.txt") < server.paths().index("/a.txt") < server.paths().index("/sub/")
    assert run.json["workload"] == {"source": "walk", "path": str(tree), "order": "turn", "zipf": None, "think_ms": None,
                                    "thinking": None, "replay": None}


@pytest.mark.parametrize("clients, threads", [(8, 1), (16, 2)])
def test_connections_share_the_urls(tmp_path, clients, threads):
    """Each connection begins at a URL of its own and skips those of the others, however fast it is served."""
    count = 400
    with Witness(lambda request: OK) as server:
        (tmp_path / "urls").write_text("".join(f"{server.url}/{number}\n" for number in range(count)))
        run = measured("-n", count, "-c", clients, "-t", threads, "--urls", tmp_path / "urls")
    assert run.status == DONE and len(server.asked) == count
    asked = {}
    for request in server.asked:
        asked.setdefault(request.connection, []).append(int(request.path[1:]))
    assert len({numbers[0] for numbers in asked.values()}) == len(asked) <= clients
    for numbers in asked.values():
        assert numbers == [(numbers[0] + clients * turn) % count for turn in range(len(numbers))]


def test_few_urls_are_asked_for_by_each_connection(tmp_path):
    with Witness(lambda request: OK) as server:
        (tmp_path / "urls").write_text("".join(f"{server.url}/{number}\n" for number in range(4)))
        run = measured("-n", 80, "-c", 8, "-t", 1, "--urls", tmp_path / "urls")
    assert run.status == DONE and all(12 <= server.paths().count(f"/{number}") <= 28 for number in range(4))


def test_rung_serves_what_a_walk_names(tree):
    """Every name exists, and every body is the file's; with several threads, too."""
    with rung("serve", "-p", 0, tree) as server:
        run = measured("-n", 20 * len(NAMED), "-c", 4, "-t", 2, "--walk", f"{tree}/", "--check", tree,
                       f"http://127.0.0.1:{server.port}")
        assert run.status == DONE and run.json["status"] == {"200": 20 * len(NAMED)}
        text = load("-n", 24, "--walk", tree, "--zipf", "1", f"http://127.0.0.1:{server.port}").out
        assert f"workload   12 URLs, the files below {tree}, by Zipf's law with exponent 1\n" in text


def test_a_walk_below_a_folder_of_the_server(tree):
    with Witness(lambda request: OK) as server:
        assert measured("-n", len(NAMED), "-c", 1, "--walk", tree, f"{server.url}/x%20y/").status == DONE
        assert set(server.paths()) == {"/x%20y" + path for path in NAMED}


def test_a_walk_asks_by_the_method_of_the_command(tree):
    with Witness(lambda request: reply(200)) as server:
        assert measured("-n", len(NAMED), "-X", "HEAD", "--walk", tree, "--check", tree, server.url).status == FAULTS
        assert {request.method for request in server.asked} == {"HEAD"}


@pytest.mark.parametrize("words, said", [
    (["--walk", "/nonexistent", "http://127.0.0.1:1"], "cannot read the folder"),
    (["--walk", __file__, "http://127.0.0.1:1"], "cannot read the folder"),
    (["--walk", ".", "http://127.0.0.1:1/a"], "ends with a slash"),
    (["--walk", ".", "http://127.0.0.1:1/?a/"], "ends with a slash"),
    (["--walk", ".", "echo://127.0.0.1:1"], "no files"), (["--walk", ".", "http://"], "no host"),
    (["--walk", ".", "127.0.0.1:1", "127.0.0.1:2"], "one URL"), (["--walk", "."], "no URL is given"),
    (["--walk", ".", "--urls", "-", "127.0.0.1:1"], "use one of them"),
    (["--walk", ".", "--replay", "-", "127.0.0.1:1"], "use one of them"),
    (["--zipf", "-0.1", "127.0.0.1:1"], "not a number from 0"), (["--zipf", "10.01", "127.0.0.1:1"], "not a number from 0"),
    (["--zipf", "1x", "127.0.0.1:1"], "not a number from 0"), (["--zipf", "nan", "127.0.0.1:1"], "not a number from 0"),
    (["--zipf", "", "127.0.0.1:1"], "cannot be empty"),
    (["--replay", "/nonexistent", "127.0.0.1:1"], "cannot read"), (["--replay", ".", "127.0.0.1:1"], "cannot read"),
    (["--replay", "-"], "no URL is given"), (["--replay", "-", "127.0.0.1:1", "127.0.0.1:2"], "one URL"),
    (["--replay", "-", "127.0.0.1:1/a/"], "name the server alone"), (["--replay", "/dev/null", "127.0.0.1:1"], "no line of"),
    (["--replay", "-", "--zipf", "1", "127.0.0.1:1"], "the log's"), (["--replay", "-", "-X", "HEAD", "127.0.0.1:1"], "the log"),
    (["--replay", "-", "--mix", "range=1", "127.0.0.1:1"], "what the log says"),
    (["--replay", "-", "--body-check", "127.0.0.1:1"], "--check"),
    (["--replay-speed", "2", "127.0.0.1:1"], "--replay LOG"),
    (["--replay", "-", "--replay-speed", "2", "-R", "5", "127.0.0.1:1"], "not both"),
    (["--replay", "-", "--replay-speed", "2", "--find-knee", "127.0.0.1:1"], "a rate that can rise"),
    *((["--replay", "-", "--replay-speed", speed, "127.0.0.1:1"], "above 0") for speed in ("0", "-1", "x", "1x", "1000001", "nan")),
    (["--think", "1s", "-R", "5", "127.0.0.1:1"], "closed"), (["--think", "1s", "--find-knee", "127.0.0.1:1"], "closed"),
    (["--think", "1s", "--replay", "-", "--replay-speed", "1", "127.0.0.1:1"], "closed"),
    (["--think", "1s", "--pipeline", "2", "127.0.0.1:1"], "one request under way"),
    (["--think", "1s", "-k", "off", "127.0.0.1:1"], "only one"),
    (["--think", "1s", "--requests-per-connection", "1", "127.0.0.1:1"], "only one"),
    (["--think", "61m", "127.0.0.1:1"], "out of range"),
], ids=str)
def test_mistakes(words, said):
    run = load(*words)
    assert run.status == USAGE and said in run.err and run.out == "" and run.err.count("\n") == 1, run.err


def walked(folder, *before):
    return subprocess.run([*before, LOAD, "--walk", str(folder), "http://127.0.0.1:1"], stdin=subprocess.DEVNULL, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, env=environment())


def test_what_a_walk_cannot_read_is_told(tree):
    """A folder that not even root may read, or a name that has gone when its turn comes: the whole walk fails."""
    weak = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    for locked, told in (("sub/deep", "sub/deep"), ("sub", "inside")):  # inside: a link whose target is not visible
        (tree / locked).chmod(0)
        try:
            run = walked(tree, *weak)
        finally:
            (tree / locked).chmod(0o755)
        if "setpriv: " in run.stderr:
            pytest.skip(run.stderr)
        assert run.returncode == USAGE and run.stderr == f"rung: --walk: cannot read {tree}/{told}: permission denied\n"
    run = walked("/proc/self/fd/")  # the program's own descriptor of that folder is listed, and then closed
    assert run.returncode == USAGE
    assert re.fullmatch(r"rung: --walk: cannot read /proc/self/fd/\d+: it does not exist any more\n", run.stderr)


@pytest.mark.skipif(not shutil.which("strace") or "asan" in LOAD, reason="strace is needed, and no sanitizer of leaks")
def test_a_folder_that_ends_in_an_error(tree):
    """Part of a folder's names must not pass for all of them."""
    run = walked(tree, "strace", "-f", "-o", "/dev/null", "-e", "trace=getdents64",
                 "-e", "inject=getdents64:error=EIO:when=2")
    assert run.returncode == USAGE and run.stderr == f"rung: --walk: cannot read {tree}: Input/output error\n"


def test_a_path_that_is_too_long(tmp_path):
    """Folders deeper than any path may be: the walk ends, with a reason."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=here)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    run = walked(tmp_path)
    assert run.returncode == USAGE and "too long" in run.stderr and run.stderr.count("\n") == 1


def test_an_empty_folder(tmp_path):
    (tmp_path / ".hidden").write_bytes(b"x")
    run = load("--walk", tmp_path, "http://127.0.0.1:1")
    assert run.status == USAGE and "there is no file below" in run.err


def test_more_files_than_a_process_can_map(tmp_path):
    """The last file is compared like the first."""
    (tmp_path / "x").write_bytes(b"hello")
    with Witness(lambda request: OK.replace(b"hello", b"hullo") if request.path == "/x?99999" else OK) as server:
        urls = tmp_path / "urls"
        urls.write_text("".join(f"{server.url}/x?{number}\n" for number in range(100000)))
        run = measured("-n", 100000, "-c", 1, "--pipeline", 64, "--urls", urls, "--check", tmp_path)
        assert run.json["urls"] == 100000 and run.errors() == {"wrong_body": 1}
        assert run.json["examples"][0]["url"].endswith("?99999") and run.json["examples"][0]["body_byte"] == 1


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's own memory is larger than the bound, and it takes a minute")
def test_as_many_urls_as_there_may_be(tmp_path):
    """The memory for all URLs is in proportion to their number; one URL more is refused."""
    def bounded():
        resource.setrlimit(resource.RLIMIT_AS, (URLS_MAX * URL_BYTES,) * 2)
    with Witness(lambda request: OK) as server:
        urls = tmp_path / "urls"
        urls.write_text("".join(f"{server.url}/{number}\n" for number in range(URLS_MAX)))
        run = end(start("-o", "-", "-n", 1, "--urls", urls, preexec_fn=bounded), PATIENCE)
        assert run.status == DONE and run.json["urls"] == URLS_MAX, run.err
        run = load("--urls", urls, server.url)
    assert run.status == USAGE and run.err == f"rung: more than {URLS_MAX} URLs, which is all that one run takes\n"


def last_of(tmp_path, count, body, answer, *options):
    """The errors found in the last of count files, one file under many URLs; the others are answered with 304."""
    (tmp_path / "x").write_bytes(body)
    with Witness(lambda request: answer if request.path == f"/x?{count - 1}" else reply(304)) as server:
        urls = tmp_path / "urls"
        urls.write_text("".join(f"{server.url}/x?{number}\n" for number in range(count)))
        run = measured("-n", count, "-c", 1, "--pipeline", 64, "--urls", urls, "--check", tmp_path, *options)
    assert run.json["urls"] == count and sum(run.errors().values()) == len(run.json["examples"])
    return [(one["error"], one["body_byte"]) for one in run.json["examples"]]


@ONE_THREAD
@pytest.mark.parametrize("size, count", [(SMALL, HELD // SMALL), (SMALL + 1, MAPPED)], ids=["copied", "mapped"])
def test_files_whose_bytes_are_in_memory_and_those_that_have_a_digest(tmp_path, size, count):
    """A wrong byte is found on both sides of the bound; its place in the body if the bytes are in memory."""
    body = (bytes(range(251)) * (size // 251 + 1))[:size]
    wrong = body[:777] + b"!" + body[778:]
    assert last_of(tmp_path, count, body, reply(200, body)) == []
    assert last_of(tmp_path, count, body, reply(200, wrong)) == [("wrong_body", 777)]
    for right in (reply(200, body), reply(206, b"a part"), reply(304)):
        assert last_of(tmp_path, count + 1, body, right) == []
    assert last_of(tmp_path, count + 1, body, reply(200, wrong)) == [("wrong_body", 0)]
    for other in (body[:-1], body + b"!"):
        assert [error for error, _ in last_of(tmp_path, count + 1, body, reply(200, other))] == ["wrong_length"]
    assert last_of(tmp_path, count + 1, body, reply(200, body), "--body-check") == []


def test_heads_of_files_that_have_a_digest(tmp_path):
    """An answer to HEAD has no body; its Content-Length is compared."""
    count, body = HELD // SMALL + 1, b"x" * SMALL
    whole = reply(200, body)
    assert last_of(tmp_path, count, body, whole.removesuffix(body), "-X", "HEAD") == []
    assert last_of(tmp_path, count, body, reply(200, body[1:]).removesuffix(body[1:]), "-X", "HEAD") == [("wrong_length", 0)]


def test_a_file_with_a_digest_that_changes(tmp_path):
    """The change is recognized, as for a file whose bytes are in memory."""
    count = HELD // SMALL + 1

    def answer(request):
        if request.path != f"/x?{count - 1}":
            return reply(304)
        (tmp_path / "x").write_bytes(b"y" * SMALL)
        return reply(200, b"y" * SMALL)
    (tmp_path / "x").write_bytes(b"x" * SMALL)
    with Witness(answer) as server:
        urls = tmp_path / "urls"
        urls.write_text("".join(f"{server.url}/x?{number}\n" for number in range(count)))
        run = measured("-n", count, "-c", 1, "--urls", urls, "--check", tmp_path)
    assert run.errors() == {"check_file_changed": 1}


def test_parts_of_files_beyond_the_bound(tmp_path):
    """A mix requests parts, so it keeps all files' bytes and reports the place of a wrong one."""
    count, body = HELD // SMALL + 1, b"x" * SMALL
    (tmp_path / "x").write_bytes(body)

    def answer(request):
        first, last = map(int, request.field["range"][6:].split("-"))
        part = bytearray(body[first:last + 1])
        if request.path == f"/x?{count - 1}":
            part[0] = ord("!")
        return reply(206, bytes(part), Content_Range=f"bytes {first}-{last}/{SMALL}")
    with Witness(answer) as server:
        urls = tmp_path / "urls"
        urls.write_text("".join(f"{server.url}/x?{number}\n" for number in range(count)))
        run = measured("-n", count, "-c", 1, "--urls", urls, "--check", tmp_path, "--mix", "range=100%")
    assert run.errors() == {"wrong_body": 1}


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1])
def test_files_that_are_copied_and_mapped(tmp_path, size):
    body = (bytes(range(251)) * (size // 251 + 1))[:size]
    for name in "abc":
        (tmp_path / name).write_bytes(body)
    with Witness(lambda request: reply(200, body)) as server:
        assert measured("-n", 6, "--walk", tmp_path, "--check", tmp_path, server.url).status == DONE
    with Witness(lambda request: reply(200, body[:-1] + b"!")) as server:
        run = measured("-n", 6, "--walk", tmp_path, "--check", tmp_path, server.url)
        assert run.errors() == {"wrong_length" if size == 0 else "wrong_body": 6}
        assert size == 0 or run.json["examples"][0]["body_byte"] == size - 1


# --- Popularity ---------------------------------------------------------------------------------------------------

def chi_square(counts, exponent):
    """The chi-square statistic of counts, in the order of places, against the shares of Zipf's law."""
    weights = [1 / place ** exponent for place in range(1, len(counts) + 1)]
    expected = [sum(counts) * weight / sum(weights) for weight in weights]
    return sum((found - wanted) ** 2 / wanted for found, wanted in zip(counts, expected))


PLACES, DRAWS = 20, 12000
SURELY_MORE = 50  # nineteen degrees of freedom: once in eight thousand seeds


def drawn(tmp_path, *options):
    with Witness(lambda request: OK) as server:
        urls = tmp_path / "urls"
        urls.write_text("".join(f"{server.url}/{place}\n" for place in range(PLACES)))
        run = measured("-n", DRAWS, "-c", 1, "--pipeline", 64, "--urls", urls, *options)
        assert run.status == DONE
        counts = collections.Counter(server.paths())
    return [counts[f"/{place}"] for place in range(PLACES)], run


def test_the_most_of_the_law_and_of_speed(tmp_path):
    """With exponent 10 nearly all requests are for the first URL; a log may be replayed a million times faster."""
    counts, run = drawn(tmp_path, "--zipf", "10")
    assert counts[0] > 0.99 * DRAWS and run.status == DONE
    run, server = replayed(tmp_path, line("/a") + line("/b", second=60), "--replay-speed", "1000000", "-c", 1)
    assert server.paths() == ["/a", "/b"] and run.json["workload"]["replay"]["speed"] == 1000000


@pytest.mark.parametrize("exponent", ["0", "0.7", "1.0", "2"])
def test_zipf_over_a_list(tmp_path, exponent):
    """The places are those of the list; the shares are those of the law with this exponent, and of no other."""
    counts, run = drawn(tmp_path, "--zipf", exponent)
    assert sum(counts) == DRAWS and chi_square(counts, float(exponent)) < SURELY_MORE, counts
    assert chi_square(counts, float(exponent) + 0.2) > SURELY_MORE, counts
    assert run.json["workload"]["order"] == "zipf" and run.json["workload"]["zipf"] == float(exponent)
    assert run.json["workload"]["source"] == "urls"


def test_without_zipf_in_turn(tmp_path):
    assert drawn(tmp_path)[0] == [DRAWS // PLACES] * PLACES


def test_zipf_in_threads_and_an_open_loop(tmp_path):
    for options in (["-t", 2, "-c", 4], ["-R", 100000, "-c", 4]):
        assert chi_square(drawn(tmp_path, "--zipf", 1, *options)[0], 1) < SURELY_MORE


def test_draws_are_seeded(tmp_path):
    first, again, other = (drawn(tmp_path, "--zipf", 1, "--seed", seed)[0] for seed in (7, 7, 8))
    assert first == again != other


def test_zipf_over_a_walk(tmp_path):
    """The places are drawn too, from the seed: names say nothing about popularity."""
    folder = tmp_path / "many"
    folder.mkdir()
    for place in range(PLACES):
        (folder / f"{place:02}").write_bytes(b"x")

    def ranked(seed):
        with Witness(lambda request: OK) as server:
            assert measured("-n", DRAWS, "-c", 1, "--pipeline", 64, "--walk", folder, "--zipf", 1, "--seed", seed,
                            server.url).status == DONE
            return [name for name, _ in collections.Counter(server.paths()).most_common()], \
                sorted(collections.Counter(server.paths()).values(), reverse=True)
    first, again, other = ranked(3), ranked(3), ranked(4)
    assert first == again and first[0] != sorted(first[0]) and first[0][:5] != other[0][:5]
    assert chi_square(first[1], 1) < SURELY_MORE and len(first[0]) == PLACES


# --- The schema ---------------------------------------------------------------------------------------------------

def test_json_fits_its_schema(tree, tmp_path):
    (tmp_path / "log").write_text(line("/a.txt") + line("/x", method="PUT"))
    with rung("serve", "-p", 0, tree) as server:
        url = f"http://127.0.0.1:{server.port}"
        for options in (["--walk", tree, "--zipf", "0.8", "--mix", "br=10%,missing=1%"], ["--replay", tmp_path / "log"],
                        ["--think", "1ms"], ["--replay", tmp_path / "log", "--replay-speed", 2],
                        ["--mix", "range=100%", "--check", tree]):
            run = measured("-n", 60, *options, url)
            assert run.status == DONE and run.json["form"] == 1  # aid.py compares each with the schema


# shows T01
def test_a_host_of_ones_own():
    """A Host field of the command replaces the URL's, so that a name can be requested from any address."""
    with Witness(lambda request: OK) as server:
        run = measured("-n", 20, "-c", 2, "-H", "Host: elsewhere.example", "-H", "X-More: 1", server.url)
    assert run.status == DONE and len(server.asked) == 20
    for one in server.asked:
        assert one.names.count("host") == 1 and one.field["host"] == "elsewhere.example" and one.field["x-more"] == "1"
