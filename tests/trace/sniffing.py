# SPDX-License-Identifier: MIT
"""Helpers for the tests of rung trace sniff: a sniffer that runs during a test, network namespaces, frames made by hand."""
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE)]  # needed when this file runs as a program
from aid import PATIENCE, TRACE, Run, environment  # noqa: E402
from namespaces import Namespaces  # noqa: E402


class Sniffed(Run):
    """A sniffer that has ended: its lines as (from, to, first line), its summary."""

    def __init__(self, status, out, err):
        super().__init__(status, out, err)
        self.lines = [(one["from"], one["to"], one["line"]) for one in self.requests]
        self.texts = [text for _, _, text in self.lines]


class Sniffer:
    """A sniffer that listens once it is constructed; end() interrupts it and returns what it has seen."""

    def __init__(self, *args, within=()):
        self.process = subprocess.Popen([*within, TRACE, "sniff", *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment())
        self.said = self.process.stderr.readline()
        self.out = []
        self.reader = threading.Thread(target=lambda: self.out.append(self.process.stdout.read()), daemon=True)
        self.reader.start()
        if "sniffing on" not in self.said:
            self.said += self.process.stderr.read()
            self.process.wait(PATIENCE)
            raise AssertionError(self.said)

    def end(self, how=signal.SIGINT):
        if how:
            self.process.send_signal(how)
        err = self.process.stderr.read()
        self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return Sniffed(self.process.returncode, self.out[0], self.said + err)


@contextlib.contextmanager
def sniffing(*args, within=()):
    """Runs a sniffer; the list holds its run afterwards."""
    runs, sniffer = [], Sniffer(*args, within=within)
    try:
        yield runs
        runs.append(sniffer.end())
    finally:
        sniffer.process.kill()


def say(address, port):
    """An address and a port as the sniffer prints them."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class Two(Namespaces):
    """Two namespaces in which commands of this file can run."""

    def run(self, number, *args):
        """Runs this file in a namespace; main() has the commands."""
        done = subprocess.run([*self.within(number), sys.executable, "-B", os.path.abspath(__file__), *map(str, args)],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextlib.contextmanager
    def answering(self, number, address, answer):
        """A server in a namespace that gives the same answer to each request; yields its port."""
        with subprocess.Popen([*self.within(number), sys.executable, "-B", os.path.abspath(__file__), "serve", address,
                               json.dumps(answer)], stdout=subprocess.PIPE, text=True) as process:
            try:
                yield int(process.stdout.readline())
            finally:
                process.kill()


def frame(payload, source="10.9.0.2", target="10.9.0.1", tags=(), options=b""):
    """An Ethernet frame with VLAN tags and IPv4 options, for a port that is not open."""
    tcp = struct.pack(">HHIIBBHHH", 40000, 80, 1, 1, 0x50, 0x18, 1000, 0, 0) + payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45 + len(options) // 4, 0, 20 + len(options) + len(tcp), 0, 0x4000, 64, 6, 0,
                     socket.inet_aton(source), socket.inet_aton(target)) + options + tcp
    link = b"\xff" * 6 + b"\x02\0\0\0\0\1"
    for number, tag in enumerate(tags):
        link += struct.pack(">HH", 0x8100 if number == len(tags) - 1 else 0x88A8, tag)
    return link + b"\x08\0" + ip


# --- What runs in a namespace of its own -----------------------------------------------------------------


def put(frames, interface="eth0"):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((interface, 0))
        for one in frames:
            raw.send(one)


def serve(address, answer):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            client = listener.accept()[0]
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            head = b""
            while piece := client.recv(65536):
                head += piece
                while b"\r\n\r\n" in head:
                    head = head.partition(b"\r\n\r\n")[2]
                    for byte in answer.encode():
                        client.send(bytes([byte]))
            client.close()


def ask(address, port, texts, size):
    """Sends each request after the answer to the one before, in pieces of `size` bytes; prints the client's port."""
    with socket.create_connection((address, port), PATIENCE) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for text in texts:
            data = text.encode()
            for at in range(0, len(data), size):
                client.send(data[at:at + size])
            got = b""
            while not got.endswith(b"end"):
                piece = client.recv(65536)
                assert piece
                got += piece
        print(client.getsockname()[1])


def main(what, *args):
    if what == "serve":
        serve(args[0], json.loads(args[1]))
    elif what == "put":
        put([bytes.fromhex(one) for one in args])
    elif what == "flood":
        head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        put(frame(head, source=f"10.9.{number >> 8}.{number & 255}") for number in range(int(args[0])))
    else:
        ask(args[0], int(args[1]), json.loads(args[3]), int(args[2]))


if __name__ == "__main__":
    main(*sys.argv[1:])
