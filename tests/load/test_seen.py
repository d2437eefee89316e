# SPDX-License-Identifier: MIT
"""A head that was seen before is compared rather than parsed: any change in it is still noticed."""
import time

import pytest
from aid import DONE, OK, Liar, Witness, measured, reply

HEAD = b"HTTP/1.1 200 OK\r\nDate: Tue, 24 Nov 2026 12:00:00 GMT\r\nX-Connection: close\r\nContent-Length: 5\r\n\r\n"
SEEN_PLACES = 16  # of answer.h: two targets that are this far apart share a place
LONGER = HEAD.replace(b"X-", b"X-Long: " + b"l" * 1100 + b"\r\nX-")


def in_turn(answers):
    """An answer function that sends these answers in order; each is bytes, or a list of pieces to send separately."""
    def answer(sock, number):
        for piece in answers[number] if isinstance(answers[number], list) else [answers[number]]:
            sock.sendall(piece)
            time.sleep(0.002 if isinstance(answers[number], list) else 0)
        return True
    return answer


def asked_in_turn(answers, *options):
    with Liar(in_turn(answers)) as liar:
        return measured("-n", len(answers), "-c", 1, *options, liar.url)


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    folder = tmp_path_factory.mktemp("truth")
    (folder / "x").write_bytes(b"hello")
    return folder


@pytest.mark.parametrize("head", [HEAD, LONGER], ids=["short", "beyond what is kept"])
def test_each_byte_of_a_head_is_compared(head):
    """A NUL anywhere makes the head malformed."""
    places = range(len(head)) if head is HEAD else [*range(1000, 1050), len(head) - 1]
    answers = []
    for place in places:
        answers += [head + b"hello", head[:place] + b"\0" + head[place + 1:] + b"hello"]
    assert asked_in_turn(answers).errors() == {"bad_framing": len(places)}


@pytest.mark.parametrize("old, new, kind", [
    (b"200 OK", b"404 OK", "bad_status"), (b"Length: 5", b"Length: 4", "wrong_length"),
    (b"Length: 5", b"Length: 6", "wrong_length"), (b"hello", b"hellO", "wrong_body"), (b"hello", b"Hello", "wrong_body")])
def test_one_byte_has_another_meaning(truth, old, new, kind):
    body = {b"Length: 4": b"hell", b"Length: 6": b"hello!"}.get(new, b"hello")
    lie = (HEAD + body).replace(old, new)
    run = asked_in_turn([HEAD + b"hello"] * 3 + [lie, lie, HEAD + b"hello"], "--check", truth)
    assert run.errors() == {kind: 2} and run.json["requests"]["answered"] == 6


def test_a_status_is_wrong_each_time_it_comes():
    lie = HEAD.replace(b"200", b"503") + b"hello"
    assert asked_in_turn([lie] * 10).errors() == {"bad_status": 10}


def test_a_server_that_closes_is_believed_each_time():
    """A head seen before says Connection: close; each such answer is the last one of its connection."""
    run = asked_in_turn([HEAD + b"hello", *[HEAD.replace(b"X-Connection", b"Connection") + b"hello"] * 5, HEAD + b"hello"])
    assert run.errors() == {} and run.json["connects"]["made"] == 6


@pytest.mark.parametrize("body, errors", [(b"hello", {}), (b"hellO", {"wrong_body": len(HEAD) + 4})], ids=["right", "wrong"])
def test_an_answer_is_split_at_every_byte(truth, body, errors):
    answers = []
    for place in range(1, len(HEAD) + len(body)):
        answers += [HEAD + b"hello", [(HEAD + body)[:place], (HEAD + body)[place:]]]
    run = asked_in_turn(answers, "--check", truth)
    assert run.errors() == errors and run.json["requests"]["answered"] == len(answers)


@pytest.mark.parametrize("head", [HEAD, LONGER], ids=["short", "beyond what is kept"])
def test_many_answers_in_one_piece(truth, head):
    """Pipelined answers: each begins where the one before it ends."""
    lie = head + b"hellO"
    run = asked_in_turn([head + b"hello"] * 3 + [lie] + [head + b"hello"] * 60, "--check", truth, "--pipeline", 16)
    assert run.errors() == {"wrong_body": 1} and run.json["requests"]["answered"] == 64


def test_targets_that_share_a_place(tmp_path):
    """Each target has its own length; then one of two that share a place gets the other's answer."""
    for n in range(SEEN_PLACES + 1):
        (tmp_path / f"{n:02}").write_bytes(b"a" * (10 + n))
    bodies = [one.read_bytes() for one in sorted(tmp_path.iterdir())]

    def run(bodies):
        with Witness(lambda request: reply(200, bodies[int(request.path[1:])])) as server:
            return measured("-n", 20 * len(bodies), "-c", 1, "--walk", tmp_path, "--check", tmp_path, server.url)
    assert run(bodies).errors() == {}
    assert run([*bodies[:-1], bodies[0]]).errors() == {"wrong_length": 20}


def test_methods_that_share_a_place(tmp_path):
    """A head that is the same byte for byte has no body when it answers HEAD."""
    wanted = ["GET /0", *[f"GET /{n}" for n in range(1, SEEN_PLACES)], "HEAD /0"]
    (tmp_path / "log").write_text("".join(f'1.2.3.4 - - [01/Jan/2026:00:00:00 +0000] "{one} HTTP/1.1" 200 5\n' for one in wanted))

    def answer(request):
        return reply(200, b"hello")[:-5 if request.method == "HEAD" else None]
    with Witness(answer) as server:
        run = measured("-n", 10 * len(wanted), "-c", 1, "-T", "2s", "--replay", tmp_path / "log", server.url)
        assert [f"{one.method} {one.path}" for one in server.asked[:len(wanted)]] == wanted
    assert run.errors() == {} and run.status == DONE


def test_a_head_that_is_refused_is_not_kept():
    """Malformed heads between right ones: neither is taken for the other."""
    bad = OK.replace(b"Length: 5", b"Length: x")
    assert asked_in_turn([OK, bad, OK, bad, bad, OK]).errors() == {"bad_framing": 3}
