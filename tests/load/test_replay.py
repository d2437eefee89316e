# SPDX-License-Identifier: MIT
"""Access logs that rung load replays: their order, their times, and the lines that are left out."""
import collections
import contextlib
import itertools
import re
import subprocess

import pytest
from aid import DONE, FAULTS, LOAD, OK, USAGE, Liar, Witness, end, environment, load, measured, reply, rung
from form import SCHEMA, complaints


def line(path, status=200, second=0, method="GET", zone="+0000"):
    return (f'127.0.0.1 - - [10/Oct/2000:13:{55 + second // 60}:{second % 60:02} {zone}] "{method} {path} HTTP/1.1" '
            f'{status} 5 "-" "any"\n')


def replayed(tmp_path, log, *options, answer=lambda request: OK):
    (tmp_path / "log").write_text(log)
    with Witness(answer) as server:
        run = measured("--replay", tmp_path / "log", *options, server.url)
    return run, server


def test_a_log_in_its_order_once(tmp_path):
    names = [f"/{number * 7919 % 50}" for number in range(300)]
    run, server = replayed(tmp_path, "".join(map(line, names)), "-c", 1)
    assert run.status == DONE and server.paths() == names and run.json["model"] == "closed"
    assert run.json["urls"] == 50 and run.json["workload"]["replay"]["lines"] == 300
    assert run.json["workload"]["order"] == "log" and run.json["workload"]["replay"]["speed"] is None
    run, server = replayed(tmp_path, "".join(map(line, names)), "-c", 4, "-t", 2)
    assert collections.Counter(server.paths()) == collections.Counter(names)
    run, server = replayed(tmp_path, "".join(map(line, names)), "-c", 1, "-n", 450)
    assert server.paths() == names + names[:150]
    run, server = replayed(tmp_path, "".join(map(line, names)), "-c", 1, "-n", 299)
    assert server.paths() == names[:299]
    run, server = replayed(tmp_path, line("/x"), "-c", 1, "-d", "300ms")
    assert run.json["requests"]["answered"] > 1 and set(server.paths()) == {"/x"}


def test_a_log_at_a_rate(tmp_path):
    names = [f"/{number}" for number in range(100)]
    run, server = replayed(tmp_path, "".join(map(line, names)), "-c", 1, "-R", 400)
    assert run.json["model"] == "open" and run.json["arrivals"] == "constant" and server.paths() == names
    assert run.json["schedule"]["due"] == 100 and server.asked[-1].at - server.asked[0].at >= 0.2
    run, server = replayed(tmp_path, "".join(map(line, names)), "-c", 2, "-R", 2000, "--arrivals", "poisson", "-t", 2)
    assert sorted(server.paths()) == sorted(names)


@pytest.mark.parametrize("threads", [1, 2])
# shows T03
def test_a_log_at_its_own_times(tmp_path, threads):
    """Gaps are the log's, N times shorter; lines of one second are spread over it; lines out of order are sorted."""
    log = (line("/0") + line("/1") + line("/4", second=4) + line("/2", second=2) +
           line("/3", second=3, zone="-0000") + line("/6", second=6).replace(":13:", ":14:").replace("+0000", "+0100"))
    run, server = replayed(tmp_path, log, "--replay-speed", 4, "-c", 4, "-t", threads)
    assert run.status == DONE and server.paths() == ["/0", "/1", "/2", "/3", "/4", "/6"]
    for request, second in zip(server.asked, (0, 0.5, 2, 3, 4, 6)):
        assert second / 4 - 0.05 <= request.at - server.asked[0].at <= second / 4 + 5, server.asked
    assert run.json["model"] == "open" and run.json["arrivals"] == "log" and run.json["rate_per_s"] is None
    assert run.json["workload"]["replay"]["speed"] == 4
    assert run.json["schedule"]["due"] == 6 and run.json["schedule"]["never_sent"] == 0
    assert not list(complaints(SCHEMA, run.json, SCHEMA))


@pytest.mark.parametrize("first, then, gap", [
    ("28/Feb/2023:23:59:58 +0000", "01/Mar/2023:00:00:00 +0000", 2),
    ("28/Feb/2024:23:59:59 +0000", "01/Mar/2024:00:00:00 +0000", 86401),
    ("31/Dec/2023:23:59:58 +0000", "01/Jan/2024:00:00:00 +0000", 2),
    ("28/Feb/2100:23:59:58 +0000", "01/Mar/2100:00:00:00 +0000", 2),
    ("01/Jan/2024:00:30:00 +0530", "31/Dec/2023:11:00:02 -0800", 2),
])
def test_days_and_zones(tmp_path, first, then, gap):
    """The gap is half a second if it is computed correctly; with a day too many the run would not end."""
    log = "".join(f'- - - [{time}] "GET /{number} HTTP/1.1" 200 5\n' for number, time in enumerate((first, then)))
    run, server = replayed(tmp_path, log, "--replay-speed", 2 * gap, "-c", 2)
    assert server.paths() == ["/0", "/1"] and run.status == DONE
    assert server.asked[1].at - server.asked[0].at >= 0.45


def test_a_timed_log_is_open_and_may_be_cut_short(tmp_path):
    """A slow server does not delay the intended time of any request; --requests and --duration end the run early."""
    log = "".join(line(f"/{second}", second=second) for second in range(4))
    run, _ = replayed(tmp_path, log, "--replay-speed", "real", "-n", 2)
    assert run.json["requests"]["answered"] == 2 and 1 <= run.json["elapsed_s"]
    assert "requests at the times of the log" in load_text(tmp_path, "--replay-speed", "10")
    run, _ = replayed(tmp_path, log, "--replay-speed", "real", "-d", "500ms")
    assert run.json["requests"]["answered"] == 1 == run.json["schedule"]["due"]
    assert load_text(tmp_path, "--replay-speed", "10").count("10 times as fast\n") == 1


def test_the_knee_of_a_log_and_a_mix(tmp_path, site):
    """Each step replays the log from its beginning, for as long as a step lasts."""
    (tmp_path / "log").write_text(line("/a.txt") + line("/empty"))
    with rung("serve", "-p", 0, site) as server:
        for what in (["--replay", tmp_path / "log"], ["--mix", "range=50%"]):
            run = load("--find-knee", "-R", 8, "-d", "500ms", "-o", "-", "--fail-if", "rps>10", *what,
                       f"http://127.0.0.1:{server.port}/")
            assert run.status == DONE and run.json["kept_per_s"] >= 8, run.err
            assert run.json["steps"][0]["requests"]["answered"] == 4
            assert not [words for step in run.json["steps"] for words in complaints(SCHEMA["$defs"]["run"], step, SCHEMA)]


def test_the_knee_of_a_short_log_has_all_connections(tmp_path):
    (tmp_path / "log").write_text(line("/a"))
    with Witness(lambda request: OK) as server:
        run = load("--find-knee", "-R", 1, "-c", 3, "-o", "-", "--fail-if", "rps>0.1", "--replay", tmp_path / "log",
                   server.url)
    assert run.json["steps"][0]["connections"] == 3 and run.json["steps"][0]["requests"]["answered"] == 2


@pytest.mark.parametrize("years, speed", [((1, 9999), "real"), ((2000, 2001), "1e-300"), ((1, 2000), "0.5")])
def test_a_log_that_would_take_centuries_is_not_hurried(tmp_path, years, speed):
    """The log's second line is due later than nanoseconds can count, but it is not sent at once for that reason."""
    log = "".join(line(f"/{year}").replace("/2000", f"/{year:04}", 1) for year in years)
    run, server = replayed(tmp_path, log, "--replay-speed", speed, "-d", "300ms")
    assert server.paths() == [f"/{years[0]}"] and run.json["schedule"]["due"] == 1 and run.status == DONE


def load_text(tmp_path, *options):
    with Witness(lambda request: OK) as server:
        return load("--replay", tmp_path / "log", *options, server.url).out


LEFT_OUT = {
    "other_method": [line("/x", method="POST"), line("/x", method="OPTIONS"), line("/x", method="get")],
    "no_path": [line("*"), line("http://elsewhere/x"), line("/" + 8192 * "a"), line("/" + 66000 * "a")],
    "cut": [line("/" + 1995 * "a" + "..."), line("/" + 1000 * "a" + 248 * "\\x22" + "...")],
    "malformed": ["nonsense\n", '{"time":"2026-01-01T00:00:00.000Z","target":"/x"}\n', line("/x").replace("Oct", "Okt"),
                  line("/x").replace("10/", "32/"), line("/x").replace(":13:", ":24:"), line("/x").replace(" HTTP/1.1", ""),
                  line("/x y"), line("/x").replace(" 200 ", " 20 "), line("/x").replace(" 200 ", " 2000 "),
                  '1.1.1.1 - - [10/Oct/2000:13:55:36 +0000] "\\x16\\x03" 400 0 "-" "-"\n', line("/x")[:60] + "\n",
                  "[" * 500 + "\n",
                  '1.1.1.1 - - [10/Oct/2000:13:55:36 +0000] "GET" 400 0\n', line("/\0"),
                  "\0" * 40 + line("/x")],
}


def test_what_is_left_out_is_told(tmp_path):
    log = "\n" + line("/a") + "".join(itertools.chain(*LEFT_OUT.values())) + line("/b").rstrip("\n")
    run, server = replayed(tmp_path, log, "-c", 1)
    assert server.paths() == ["/a", "/b"] and run.status == DONE
    assert run.json["workload"]["replay"]["left_out"] == {kind: len(lines) for kind, lines in LEFT_OUT.items()}
    text = load_text(tmp_path)
    assert "left out: 3 lines of a method that is not GET or HEAD" in text
    assert f"left out: {len(LEFT_OUT['malformed'])} lines not of the form" in text
    (tmp_path / "log").write_text("".join(LEFT_OUT["other_method"] + LEFT_OUT["malformed"]))
    run = load("--replay", tmp_path / "log", "http://127.0.0.1:1")
    assert run.status == USAGE and "no line of" in run.err and "3 are neither GET nor HEAD" in run.err


def test_lines_on_both_sides():
    """As many lines as a replay may have, and one more."""
    if "tsan" in LOAD:
        pytest.skip("a log is read by one thread, and this would take a minute and a half")
    block = b'[10/Oct/2000:13:55:36 +0000] "GET /x HTTP/1.1" 200\n' * 40000
    for more in (b"", block[:len(block) // 40000]):
        with Witness(lambda request: OK) as server:
            process = subprocess.Popen([LOAD, "-o", "-", "-n", "1", "--replay", "-", server.url], env=environment(),
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            with contextlib.suppress(BrokenPipeError):
                for _ in range(100):
                    process.stdin.write(block)
                process.stdin.write(more)
            run = end(process)
        if more:
            assert run.status == USAGE and run.err == "rung: --replay: more than 4000000 lines; replay a part of it\n"
        else:
            assert run.status == DONE and run.json["workload"]["replay"]["lines"] == 4000000, run.err


def test_how_long_a_line_may_be(tmp_path):
    """Lines on both sides of the limit, in logs and lists of URLs; a file without lines is not kept beyond it."""
    longest = line("/a")[:-1].ljust(128 * 1024, "x")
    for log in (line("/b") + longest + "\n", line("/b") + longest):
        run, server = replayed(tmp_path, log, "-c", 1)
        assert server.paths() == ["/b", "/a"] and run.status == DONE
    for log in (line("/b") + longest + "x\n" + line("/c"), line("/b") + longest + "x"):
        (tmp_path / "log").write_text(log)
        run = load("--replay", tmp_path / "log", "http://127.0.0.1:1")
        assert run.status == USAGE
        assert run.err == f"rung: --replay: line 2 of {tmp_path}/log has more than 131072 bytes; is it the right file?\n"
    (tmp_path / "urls").write_text("# a list\n" + "#" * 128 * 1024 + "\nhttp://127.0.0.1:1/\n" + "#" * (128 * 1024 + 1))
    run = load("--urls", tmp_path / "urls")
    assert run.status == USAGE and f"--urls: line 4 of {tmp_path}/urls has more than" in run.err
    for option in (["--replay", "/dev/zero", "127.0.0.1:1"], ["--urls", "/dev/zero"]):
        run = load(*option)
        assert run.status == USAGE and "line 1 of /dev/zero has more than" in run.err and run.err.count("\n") == 1


FORMS = {
    '1.1.1.1 - - [10/Oct/2000:13:55:36 +0000] "GET /common HTTP/1.0" 200 5\n': "/common",
    'host:80 1.1.1.1 - joe [x] [10/Oct/2000:13:55:36 -0700] "GET /vhost?a=b HTTP/2.0" 304 - "r" "a" 12 "more"\n': "/vhost?a=b",
    '::1 - - [10/Oct/2000:13:55:36 +0000] "GET /q\\x22q\\"\\\\ HTTP/1.1" 200 5 "-" "-"\n': '/q"q"\\',
    '::1 - - [10/Oct/2000:13:55:36 +0000] "GET /\\xc3\\xbc%20\\x7f#x HTTP/1.1" 200 5 "-" "-"\n': "/%C3%BC%20%7F%23x",
    line("/" + 8191 * "a"): "/" + 8191 * "a",
    line("/" + 1985 * "a" + "..."): "/" + 1985 * "a" + "...",
}


def test_forms_of_lines(tmp_path):
    run, server = replayed(tmp_path, "".join(FORMS), "-c", 1)
    assert server.paths() == list(FORMS.values()) and sum(run.json["workload"]["replay"]["left_out"].values()) == 0


def test_heads_and_failures_of_a_log(tmp_path):
    """A request that failed in the log may fail with the same status; no other failure is allowed."""
    log = line("/gone", 404) + line("/x", method="HEAD") + line("/x", 304) + line("/back", 403) + line("/was500", 500)

    def answer(request):
        if request.method == "HEAD":
            return reply(200, Content_Length=77)[:-len("Content-Length: 0\r\n\r\n")] + b"\r\n"
        return reply(404) if request.path == "/gone" else OK
    run, server = replayed(tmp_path, log, "-c", 1, answer=answer)
    assert run.errors() == {} and run.json["status"] == {"200": 4, "404": 1}
    assert [request.method for request in server.asked] == ["GET", "HEAD", "GET", "GET", "GET"]
    for lie in (lambda request: reply(403), lambda request: reply(500)):
        run, _ = replayed(tmp_path, line("/gone", 404), answer=lie)
        assert run.errors() == {"bad_status": 1} and run.status == FAULTS
    run, _ = replayed(tmp_path, line("/gone", 404) + line("/gone", 200), "-c", 1, answer=answer)
    assert run.errors() == {"bad_status": 1} and run.json["urls"] == 2


def test_rungs_own_log(site, tmp_path):
    """rung writes a log, rung load replays it, and rung logs the same requests again."""
    logs = [tmp_path / "first", tmp_path / "again"]
    for log in logs:
        with rung("serve", "-p", 0, "--log", "combined", "--log-file", log, site) as server:
            url = f"http://127.0.0.1:{server.port}"
            if log == logs[0]:
                assert measured("-n", 200, "-c", 3, "--mix", "missing=20%,conditional=20%,range=20%", "--walk", site,
                                url).status == DONE
                assert measured("-n", 20, "-X", "HEAD", f"{url}/b%20b.bin").status == DONE
            else:
                run = measured("--replay", logs[0], "-c", 3, "--check", site, url)
                assert run.status == DONE and run.json["requests"]["answered"] == 220, run.out
                assert "not compared" not in load("--replay", logs[0], "--check", site, url).out
    asked = [collections.Counter(re.findall(r'"((?:GET|HEAD) .*?) HTTP', log.read_text())) for log in logs]
    assert asked[1] == asked[0] + asked[0]


def test_a_replay_compares_where_there_is_a_file(site, tmp_path):
    with rung("serve", "-p", 0, site) as server:
        (tmp_path / "log").write_text(line("/a.txt") + line("/sub") + line("/nothere", 404))
        (site / "sub").mkdir(exist_ok=True)
        try:
            run = load("--replay", tmp_path / "log", "--check", site, f"http://127.0.0.1:{server.port}")
        finally:
            (site / "sub").rmdir()
    assert run.status == DONE and "not compared: 1 requests that have no file below --check" in run.out
    with Liar(lambda sock, number: (sock.sendall(OK), True)[1]) as liar:
        run = measured("--replay", tmp_path / "log", "--check", site, liar.url[:-2])
    assert run.errors() == {"wrong_length": 1}
