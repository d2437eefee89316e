#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""drops.py - rung_drop under clients: sockets dropped by their pairs, in namespaces that come and go, while the module
is loaded and unloaded beneath the processes that write to its file.

Like churn.py, it has few imports and is run by tests/kernel/inside.py; /share/found.json has the findings.  Each
process makes a network namespace, connections in it, and drops some of them: both ends of a dropped connection must have
an error, and every other connection must still pass a byte.
"""
import errno
import os
import random
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "wire"), os.path.join(os.path.dirname(HERE), "drop")]
import churn  # noqa: E402 - found by the line above
import space  # noqa: E402
from lib import insmod  # noqa: E402
from lib.client import require  # noqa: E402

FILE = "/proc/thread-self/net/rung_drop"
MOST = 24  # connections of one namespace
WRONG = ("127.0.0.1:1", "127.0.0.1:1 127.0.0.1", "127.0.0.1:0 127.0.0.1:9", "[::1:1 [::1]:2", "127.0.0.1%no:1 127.0.0.1:2",
         "x" * 200, "\0")
SECONDS = 3
ROUNDS = int(os.environ.get("RUNG_DROP_ROUNDS") or 12)


def end_of(name):
    return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"


def pair_of(end):
    return f"{end_of(end.getsockname())} {end_of(end.getpeername())}"


def tell(text):
    """Makes one write: 0, or the error's number; None if the module is not loaded."""
    try:
        fd = os.open(FILE, os.O_WRONLY)
    except FileNotFoundError:
        return None
    try:
        os.write(fd, text.encode())
        return 0
    except OSError as error:
        return error.errno
    finally:
        os.close(fd)


def broken(end):
    end.settimeout(churn.PATIENCE_S)
    try:
        return end.recv(1) == b"never sent"
    except OSError as error:
        return error.errno in (errno.ECONNABORTED, errno.ECONNRESET)


def alive(end):
    try:
        end.getpeername()
        return True
    except OSError:
        return False


class Dropper:
    def __init__(self, board, number):
        self.board, self.number, self.chance = board, number, random.Random(f"dropper {number}")
        self.dropped = self.made = 0

    def connections(self):
        host = self.chance.choice(["127.0.0.1", "::1"])
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, 0), family=family, backlog=MOST) as listener:
            found = []
            for _ in range(self.chance.randrange(1, MOST)):
                client = socket.create_connection(listener.getsockname()[:2], churn.PATIENCE_S)
                found.append((client, listener.accept()[0]))
        self.made += len(found)
        return found

    def drop(self, pairs):
        """Drops some of the connections, each by one end; a wrong line among them changes nothing."""
        chosen = self.chance.sample(pairs, self.chance.randrange(1, len(pairs) + 1))
        lines = "".join(f"{pair_of(self.chance.choice(one))}\n" for one in chosen)
        wrong = tell(f"{lines}{self.chance.choice(WRONG)}\n")
        said = tell(lines)
        if None in (wrong, said):
            return False
        require(wrong in (errno.EINVAL, errno.ENODEV), "a wrong line is taken:", wrong)
        require(said == 0, "sockets that are there are not dropped:", said)
        for one in chosen:
            require(broken(one[0]) and broken(one[1]), "an end of a dropped connection has no error")
        require(tell(lines) in (errno.ENOENT, None), "dropped twice")
        for client, server in (one for one in pairs if one not in chosen):
            server.sendall(b"x")
            require(client.recv(1) == b"x", "another connection was hit")
        self.dropped += len(chosen)
        return True

    def waiting(self, pairs):
        """Drops connections in TIME-WAIT: the client has closed first."""
        lines = ""
        for client, server in pairs:
            lines += pair_of(client) + "\n"
            client.close()
            server.close()
        if lines and (said := tell(lines)) is not None:
            require(said in (0, errno.ENOENT), "what waits cannot be dropped:", said)

    def once(self):
        with space.fresh():
            pairs = self.connections()
            try:
                if not self.drop(pairs):
                    time.sleep(0.01)
                self.waiting([one for one in pairs if alive(one[0])])
            finally:
                for client, server in pairs:
                    client.close()
                    server.close()

    def run(self):
        while (phase := self.board.get(churn.PHASE)) != churn.END:
            if phase == churn.REST:
                self.board.put(churn.ROWS + 3 * self.number, self.board.get(churn.SERIAL), self.dropped, self.made)
                time.sleep(0.005)
                continue
            try:
                self.once()
            except (OSError, churn.Sloppy):
                if not self.board.get(churn.EXCUSED):
                    raise
                time.sleep(0.01)


def load():
    churn.load("rung_drop", None)


# shows D30
def rounds(board):
    """Loads while the droppers run, and unloads beneath them."""
    for _ in range(ROUNDS):
        load()
        board.turn(churn.ASK)
        churn.busy(board, SECONDS)
        board.turn(churn.LEAVE, True)
        insmod.unload("rung_drop")
        churn.busy(board, SECONDS / 10)
        board.turn(churn.REST)
    return f"{ROUNDS} rounds"


def again_and_again(board):
    """Loads and unloads without a rest, while namespaces are made and left."""
    board.turn(churn.ASK, True)
    for _ in range(churn.CYCLES):
        load()
        insmod.unload("rung_drop")
        churn.look_after()
    board.turn(churn.REST)
    return f"{churn.CYCLES} times"


def main():
    board = churn.Board()
    for number in range(churn.CLIENTS):
        churn.forked(Dropper(board, number).run)
    status = churn.tell([("rung_drop, beneath writers", lambda: rounds(board)),
                         ("rung_drop, loaded and unloaded", lambda: again_and_again(board))], None, board.count)
    board.turn(churn.END)
    return status


if __name__ == "__main__":
    sys.exit(main())
