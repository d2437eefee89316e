# SPDX-License-Identifier: MIT
"""Refusals: lines that are no pairs, input beyond the limits, wrong words.  A refusal changes nothing."""
import pytest
from aid import BAD_LINES, DONE, FAILED, USAGE, Listener, drop, dropped
from space import sockets

LINE_MAX, PAIRS_MAX = 160, 100000  # tools/drop/drop.h
bad = pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES)


@bad
def test_a_bad_line(there, line, tmp_path):
    """A bad line is refused at the start, in the middle and at the end; the pairs around it are not dropped."""
    path = tmp_path / "pairs"
    wrong = line.replace("{}", there)
    for number in (1, 2, 3):
        lines = [there] * 2
        lines.insert(number - 1, wrong)
        path.write_text("\n".join(lines) + "\n")
        run = drop("--yes", "--pairs", path)
        assert run.status == USAGE and f"rung: {path}, line {number}: '" in run.err and not run.out, run.err


@bad
def test_a_bad_operand(there, line):
    run = drop("--yes", *there.split(), *line.replace("{}", there).split(" "))
    assert run.status == USAGE and "rung: '" in run.err and not run.out, run.err


@pytest.mark.parametrize("data", [b"\0", b"%b\0", b"\0%b", b"%b\0%b", b"%b%b", b"%b;", b"\x1b[2J", b"\xff\xfe", b"%b # note"])
def test_bytes_that_are_no_text(there, data):
    run = drop("--yes", "--pairs", "-", text=data.replace(b"%b", there.encode()))
    assert run.status == USAGE and "rung: standard input, line 1: '" in run.err
    assert "\x1b" not in run.err


def test_a_line_without_its_end(there):
    """If standard input is cut off, the rest of a line is read as another pair."""
    local, peer = there.split()
    assert drop("--yes", "--pairs", "-", text=f"{local} {peer[:-1]}".encode()).status == DONE  # a pair, of no socket


@pytest.mark.parametrize("blanks", ["  {}", "{}  ", "\t{}\r", "{}\r"])
def test_blanks_do_no_harm(blanks):
    with Listener() as listener:
        listener.end(1)
        line = blanks.format(sockets("time-wait")[0].pair).replace(" 127", " \t 127")
        assert dropped("--pairs", "-", text=line.encode() + b"\n")["dropped"] == 1


@pytest.mark.parametrize("length, status", [(LINE_MAX, DONE), (LINE_MAX + 1, USAGE), (100000, USAGE)])
@pytest.mark.parametrize("end", ["", "\n"])
def test_length_of_a_line(there, length, status, end):
    line = there.replace("127.0.0.1:", "127.9.9.9:")
    run = drop("--yes", "--pairs", "-", text=(line.ljust(length) + end).encode())
    assert run.status == status
    if status != DONE:
        assert f"the line has {length} bytes, and a pair at most {LINE_MAX}" in run.err


def test_long_lines_that_say_nothing(there):
    """A comment may be as long as a pair, and so may a line of blanks."""
    for text in ("#" * LINE_MAX, " " * LINE_MAX):
        assert drop("--yes", "--pairs", "-", text=text.encode()).status == DONE
        assert drop("--yes", "--pairs", "-", text=text[:1].encode() + text.encode()).status == USAGE


def test_number_of_pairs(there):
    line = b"127.9.9.9:1 127.9.9.9:2\n"
    assert dropped("--pairs", "-", text=line * PAIRS_MAX)["pairs"] == {"given": PAIRS_MAX, "found": 0}
    run = drop("--yes", "--pairs", "-", text=line * PAIRS_MAX + there.encode())
    assert run.status == USAGE and f"line {PAIRS_MAX + 1}: more than {PAIRS_MAX} pairs" in run.err


def test_number_of_sockets():
    with Listener() as listener:
        listener.end(6)
        run = drop("--yes", "-p", listener.port, "--most", "5")
        assert run.status == FAILED and "more than 5 sockets fit" in run.err and not run.out
        assert len(sockets("time-wait")) == 6
        assert drop("-p", listener.port, "--most", "5").status == FAILED
        assert dropped("-p", listener.port, "--most", "6")["dropped"] == 6


@pytest.mark.parametrize("args, words", [
    (["-p", "0"], "--port: '0' is not a port from 1 to 65535"),
    (["-p", "65536"], "is not a port"), (["-p", "x"], "is not a port"), (["-p", "80-"], "is not a port"), (["-p", "-1"], "is not a port"),
    (["-p", "80-79"], "is not a port"), (["-p", "80-65536"], "is not a port"), (["-p", "1-99999999999999999999"], "is not a port"),
    (["-p", "80,81"], "is not a port"), (["-p", " 80"], "is not a port"),
    (["--peer", "localhost"], "it is no address"), (["--peer", "10.0.0.0/33"], "how many bits"), (["--peer", "::/129"], "how many bits"),
    (["--peer", "10.0.0.0/"], "how many bits"), (["--peer", "10.0.0.0/x"], "how many bits"), (["--peer", "/8"], "it is no address"),
    (["--peer", "10.0.0.1:0"], "a port is a number"), (["--peer", ":"], "a port is a number"), (["--peer", "[::1"], "after the bracket"),
    (["--peer", "[::1]80"], "after the bracket"), (["--peer", "[10.0.0.1]:80"], "IPv6 addresses alone"), (["--peer", "x" * 500], "too long"),
    (["--state", "timewait"], "--state: there is no 'timewait'; did you mean time-wait?"), (["-s", "close"], "there is no 'close'"),
    (["-s", "xyzzy"], "there is no 'xyzzy'"), (["-4", "-6", "-p", "1"], "no socket is both"),
    (["--through", "magic"], "there is no 'magic'"), (["--most", "0"], "out of range"), (["--most", "4000001"], "out of range"),
    (["--pots", "1"], "did you mean --port?"), (["127.0.0.1:1"], "a pair is two ends"), (["--pairs", "/nonexistent/x"], "cannot read the pairs"),
    (["--pairs", "/"], "cannot read /: "), (["x" * 3000, "y"], "too long for a pair"),
    (["1.1.1.1:1"] * 5, "one PAIR too many"), ([f"-p{n}" for n in range(1, 10)], "at most 8 of them")])
def test_words(there, args, words):
    run = drop("--yes", *args)
    assert run.status in (USAGE, FAILED) and words in run.err and run.err.startswith("rung: ") and not run.out, run.err
    assert run.err.count("\n") == 1


@pytest.mark.parametrize("port", (1, 65535))
def test_the_least_and_the_largest_port(port):
    with Listener(port=port) as listener:
        listener.end(2)
        seen = sockets("time-wait")[0]
        assert dropped(*seen.pair.split())["dropped"] == 1
        assert dropped("-p", port)["dropped"] == 1
