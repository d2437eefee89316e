#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""sender.py - a process that does not use the module: it sends known bytes over loopback, and a second process compares them.

SIGTERM ends it: the sender stops, the receiver reads to the end and prints how many bytes arrived.  If one of them is wrong,
the receiver prints where, and the bytes that it found there, and the status is 1.
"""
import os
import random
import signal
import socket
import sys

PERIOD = 1 << 20
SENDS = (262144, 65536, 100_003, 4097, 511, 32768)  # long copies are interrupted, short ones share a page
PATTERN = random.Random(13).randbytes(PERIOD)
TWICE = PATTERN * 2  # so that a slice may begin anywhere


def send(sock):
    ending, at, turn = [], 0, 0
    signal.signal(signal.SIGTERM, lambda *_: ending.append(True))
    while not ending:
        piece = memoryview(TWICE)[at:at + SENDS[turn % len(SENDS)]]
        turn += 1
        sock.sendall(piece)
        at = (at + len(piece)) % PERIOD
    sock.shutdown(socket.SHUT_WR)


def difference(got, wanted):
    first = next(i for i, (one, other) in enumerate(zip(got, wanted)) if one != other)
    return first, bytes(got[first:first + 64])


def compare(sock):
    room, count = bytearray(1 << 18), 0
    while n := sock.recv_into(room):
        at = count % PERIOD
        if memoryview(room)[:n] != memoryview(TWICE)[at:at + n]:
            first, text = difference(room[:n], TWICE[at:at + n])
            print(f"byte {count + first} is wrong: {text!r}", flush=True)
            return 1
        count += n
    print(count, flush=True)
    return 0


def main():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        child = os.fork()
        if not child:
            listener.close()
            with socket.create_connection(address) as sock:
                send(sock)
            os._exit(0)
        signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
        with listener.accept()[0] as sock:
            print("ready", flush=True)
            wrong = compare(sock)
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
