#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""trigger.py [--check|--write] - level against edge and one-shot: what epoll reports about one socket, counted.

The socket is one end of a TCP connection over loopback, without a server.  Events happen before epoll is asked about them,
so the counts show the kernel's rules, not the machine's speed.  At a wake-up STEP bytes are moved, or as many as there are
until -EAGAIN; then epoll is asked again, until it reports nothing more.  Left over are the bytes that could still be moved
at that moment and that epoll will not report.

--check: the counts obey the rules, and docs/engines/readiness.md shows them.  --write: put them there.
"""
import fcntl
import os
import re
import select
import socket
import struct
import sys
import termios
import time

BYTES, STEP, PIECES, ASKED = 4096, 512, 8, 100
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../docs/engines/readiness.md")
FLAGS = {"level": 0, "edge": select.EPOLLET, "one-shot": select.EPOLLONESHOT, "one-shot, armed anew": select.EPOLLONESHOT}
HEAD = ["who is told", "wake-ups", "transfers", "epoll_ctl", "left over"]


class Told:
    """One watched end of a connection; counts the wake-ups, calls and bytes moved."""

    def __init__(self, trigger, events):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.peer = socket.create_connection(listener.getsockname())
            self.sock = listener.accept()[0]
        self.sock.setblocking(False)
        self.set, self.wanted = select.epoll(), events | FLAGS[trigger]
        self.set.register(self.sock, self.wanted)
        self.again = trigger == "one-shot, armed anew"
        self.wakes = self.transfers = self.changes = self.moved = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in (self.set, self.sock, self.peer):
            end.close()

    def arrives(self, count):
        """Let the peer send `count` bytes, and wait until all of them are here."""
        before = self.unread()
        self.peer.sendall(bytes(count))
        while self.unread() < before + count:
            time.sleep(0.001)

    def unread(self):
        return struct.unpack("i", fcntl.ioctl(self.sock, termios.FIONREAD, bytes(4)))[0]

    def until_silent(self, turn, at_most=ASKED):
        """Call turn() at each wake-up, until epoll reports nothing more or turn() returns False."""
        for _ in range(at_most):
            if not self.set.poll(0):
                return
            self.wakes += 1
            if turn() is False:
                return
            if self.again:
                self.set.modify(self.sock, self.wanted)
                self.changes += 1

    def read(self, size=STEP):
        """Bytes moved, 0 at the end, None: would block."""
        self.transfers += 1
        try:
            got = len(self.sock.recv(size))
        except BlockingIOError:
            return None
        self.moved += got
        return got

    def read_all(self):
        while self.read():
            pass

    def write(self):
        """False: nothing is left to be written."""
        self.transfers += 1
        self.moved += self.sock.send(bytes(min(STEP, BYTES - self.moved)))
        return self.moved < BYTES

    def write_all(self):
        while self.write():
            pass
        return False

    def row(self, who, left):
        return [who, self.wakes, self.transfers, self.changes, left]


# --- What is tried ----------------------------------------------------------------------------------------

def read_at_once(trigger, whole):
    with Told(trigger, select.EPOLLIN) as told:
        told.arrives(BYTES)
        told.until_silent(told.read_all if whole else told.read)
        return told.unread(), told


def read_pieces(trigger, whole):
    """A piece has two steps, so one read takes half of it."""
    with Told(trigger, select.EPOLLIN) as told:
        for _ in range(PIECES):
            told.arrives(2 * STEP)
            told.until_silent(told.read_all if whole else told.read, 1)
        told.until_silent(told.read_all if whole else told.read)
        return told.unread(), told


def read_end(trigger, whole):
    """Bytes and the end of the stream are there; the buffer is larger than both need."""
    seen = []

    def turn():
        got = told.read(2 * BYTES)
        while whole and got:
            got = told.read(2 * BYTES)
        seen.append(got == 0)
        return not seen[-1]
    with Told(trigger, select.EPOLLIN) as told:
        told.arrives(BYTES)
        told.peer.shutdown(socket.SHUT_WR)
        while not ended(told.sock):
            time.sleep(0.001)
        told.until_silent(turn)
        return "-" if any(seen) else "the end", told


def ended(sock):
    """Whether the peer's FIN has come (TCP_CLOSE_WAIT)."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == 8


def write_room(trigger, whole):
    """The socket has room for all bytes."""
    with Told(trigger, select.EPOLLOUT) as told:
        told.until_silent(told.write_all if whole else told.write)
        return BYTES - told.moved, told


def write_nothing(trigger, _whole):
    """There is nothing to write, but "writable" is watched all the same."""
    with Told(trigger, select.EPOLLOUT) as told:
        told.until_silent(lambda: True)
        return "-", told


ONE, ALL = f"{STEP} a wake-up", "until -EAGAIN"
TRIALS = [  # caption, trial, {(trigger, whole): (wake-ups, transfers, epoll_ctl, left over)}
    (f"Reading: {BYTES} bytes came at once", read_at_once, {
        ("level", False): (BYTES // STEP, BYTES // STEP, 0, 0),
        ("edge", False): (1, 1, 0, BYTES - STEP),
        ("edge", True): (1, BYTES // STEP + 1, 0, 0),
        ("one-shot", False): (1, 1, 0, BYTES - STEP),
        ("one-shot, armed anew", False): (BYTES // STEP, BYTES // STEP, BYTES // STEP, 0)}),
    (f"Reading: {PIECES} pieces of {2 * STEP} bytes, each there before the wake-up", read_pieces, {
        ("level", False): (2 * PIECES, 2 * PIECES, 0, 0),
        ("edge", False): (PIECES, PIECES, 0, PIECES * STEP),
        ("edge", True): (PIECES, 3 * PIECES, 0, 0),
        ("one-shot", False): (1, 1, 0, 2 * PIECES * STEP - STEP),
        ("one-shot, armed anew", False): (2 * PIECES, 2 * PIECES, 2 * PIECES, 0)}),
    (f"Reading: {BYTES} bytes and the end of the stream, one read takes all bytes", read_end, {
        ("level", False): (2, 2, 0, "-"),
        ("edge", False): (1, 1, 0, "the end"),
        ("edge", True): (1, 2, 0, "-"),
        ("one-shot", False): (1, 1, 0, "the end"),
        ("one-shot, armed anew", False): (2, 2, 1, "-")}),
    (f"Writing: {BYTES} bytes, and room for all of them", write_room, {
        ("level", False): (BYTES // STEP, BYTES // STEP, 0, 0),
        ("edge", False): (1, 1, 0, BYTES - STEP),
        ("edge", True): (1, BYTES // STEP, 0, 0),
        ("one-shot", False): (1, 1, 0, BYTES - STEP),
        ("one-shot, armed anew", False): (BYTES // STEP, BYTES // STEP, BYTES // STEP - 1, 0)}),
    (f"Writing: nothing to write, epoll asked {ASKED} times", write_nothing, {
        ("level", False): (ASKED, 0, 0, "-"),
        ("edge", False): (1, 0, 0, "-"),
        ("one-shot", False): (1, 0, 0, "-")}),
]


def measured():
    """(caption, rows, rules): the counts, and what they must be."""
    for caption, trial, rules in TRIALS:
        rows = []
        for trigger, whole in rules:
            left, told = trial(trigger, whole)
            how = "" if trial is write_nothing else f", {ALL if whole else 'one read' if trial is read_end else ONE}"
            rows.append(told.row(trigger + how, left))
        yield caption, rows, [list(rule) for rule in rules.values()]


def markdown(found):
    lines = []
    for caption, rows, _ in found:
        lines += [f"{caption}:", "", "| " + " | ".join(HEAD) + " |", "|---" + "|--:" * (len(HEAD) - 1) + "|",
                  *("| " + " | ".join(map(str, row)) + " |" for row in rows), ""]
    return "\n".join(lines)


def main():
    found, wrong = list(measured()), 0
    for caption, rows, rules in found:
        for row, rule in zip(rows, rules):
            if row[1:] != rule:
                print(f"{caption}: {row[0]}: counted {row[1:]}, by the rules {rule}", file=sys.stderr)
                wrong = 1
    with open(PAGE, encoding="utf-8") as file:
        old = file.read()
    new = re.sub(r"(<!-- trigger -->\n).*?(<!-- /trigger -->)", lambda m: m[1] + markdown(found) + m[2], old, flags=re.DOTALL)
    if sys.argv[1:] == ["--check"]:
        if new != old or "<!-- trigger -->" not in old:
            print(f"{os.path.relpath(PAGE)}: its tables are out of date: make trigger", file=sys.stderr)
            wrong = 1
    elif sys.argv[1:] == ["--write"]:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(new)
    else:
        print(markdown(found), end="")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
