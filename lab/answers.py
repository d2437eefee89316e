#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""answers.py - small demonstrations for docs/questions.md, each a table (make answers NAME=time-wait, or all of them).

The demonstrations count things, so that a busy machine gives the same table as an idle one; times are given roughly.  With
--write the tables go between the marks of the document.
"""
import argparse
import contextlib
import glob
import gzip
import itertools
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import command
import kind_echo
import kind_stages
import measures
import scratch
import table
from command import TOP, tell
from rig import (PATIENCE_S, REQUEST, Broken, Server, each_file, end_with_us, family, make_folder, raise_descriptors,
                 text_of)

PAGE = os.path.join(TOP, "docs/questions.md")
TIME_WAIT = "06"        # in /proc/net/tcp
CONNECTIONS = 100
BUFFER = 4096
PAUSE_S = 0.2           # between the halves of a message: longer than any server needs to take the first
ENGINES = ("pool", "fork", "thread", "select", "poll", "epoll", "uring")
POOL = 32               # threads of a pool, unless --threads says otherwise
SILENT = 260            # more than the 256 work items that a queue of the kernel runs at once by default
CROWD, CROWD_WORKERS = 50000, 4
REST_S = 4
HOT = ("session_pump", "conn_feed", "http_parse_request", "conn_sent", "site_find")
REQUESTS = 50
COUNTED, LEAST = 2000, 0.05


# --- TIME-WAIT ---------------------------------------------------------------------------------------------

def table_is_full():
    """Beyond net.ipv4.tcp_max_tw_buckets the kernel ends a connection without TIME-WAIT."""
    there = int(re.search(r"^TCP:.* tw (\d+)", text_of("/proc/net/sockstat"), re.MULTILINE)[1])
    return there > 0.9 * int(text_of("/proc/sys/net/ipv4/tcp_max_tw_buckets"))


def waiting(server, clients):
    """Sockets in TIME-WAIT of connections between these ports: (at the server's port, at the clients').  A set, because the
    kernel shows a socket twice if another one comes before it between two reads of the file."""
    rows = [line.split()[1:4] for line in text_of("/proc/net/tcp").splitlines()[1:]]
    ends = {(int(local.split(":")[1], 16), int(remote.split(":")[1], 16)) for local, remote, state in rows
            if state == TIME_WAIT}
    return (sum(local == server and remote in clients for local, remote in ends),
            sum(remote == server and local in clients for local, remote in ends))


def one_request(port, ending):
    """Send one request; the client's port."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as wire:
        closing = b"Connection: close\r\n\r\n" if ending == "the server" else b"\r\n"
        wire.sendall(REQUEST[:-2] + closing)
        while wire.recv(65536) and ending == "the server":
            pass
        if ending == "the client, by a reset":
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return wire.getsockname()[1]


def time_wait(binaries, folder):
    if table_is_full():
        raise Broken("there are as many sockets in TIME-WAIT as this machine keeps: wait a minute")
    rows = []
    for ending in ("the client", "the server", "the client, by a reset"):
        with Server(f"{binaries}/rung", "epoll", folder) as server:
            clients = {one_request(server.port, ending) for _ in range(CONNECTIONS)}
            time.sleep(PAUSE_S)
            rows.append([ending, *map(str, waiting(server.port, clients))])
            server.stop()
    return (f"{CONNECTIONS} connections, one after the other; sockets in TIME-WAIT when all have ended",
            ["who closes first", "at the server's port", "at the clients' ports"], rows)


# --- A stream has no messages ------------------------------------------------------------------------------

def one_receive(wire):
    """Take the bytes of one receive as the message."""
    wire.sendall(wire.recv(BUFFER))


def until_short(wire):
    """Read until a receive is shorter than the buffer, and take that for the end of the message."""
    got = data = wire.recv(BUFFER)
    while len(data) == BUFFER:
        data = wire.recv(BUFFER)
        got += data
    wire.sendall(got)


def by_peeking(wire):
    """Look how many bytes are there, and receive as many."""
    wire.recv(1, socket.MSG_PEEK)  # something
    wire.sendall(wire.recv(len(wire.recv(1 << 20, socket.MSG_PEEK))))


@contextlib.contextmanager
def toy(answer):
    """The port of a server that answers one message on one connection, in one of these ways."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            with contextlib.suppress(OSError), listener.accept()[0] as wire:
                answer(wire)
                while wire.recv(65536):  # stay until the client leaves
                    pass
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(PATIENCE_S)


def came_back(port, pieces):
    """What a client that waits for its whole message receives."""
    message = os.urandom(sum(pieces))
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        at, got = 0, b""
        for size in pieces:
            wire.sendall(message[at:at + size])
            at += size
            time.sleep(PAUSE_S if len(pieces) > 1 else 0)
        wire.settimeout(1)
        with contextlib.suppress(TimeoutError, ConnectionError):
            while len(got) < len(message) and (data := wire.recv(65536)):
                got += data
        wire.shutdown(socket.SHUT_WR)
    if got == message:
        return "whole"
    return f"{len(got)} bytes" if got else "nothing, for ever"


def stream(binaries, folder):
    kinds = [("one receive is a message", one_receive), ("until a receive is short", until_short),
             ("peeks how much there is", by_peeking)]
    rows = []
    for pieces in ((100,), (4096,), (4100,), (8192,), (2000, 2000)):
        cells = []
        for _, answer in kinds:
            with toy(answer) as port:
                cells.append(came_back(port, pieces))
        with kind_echo.Echo(f"{binaries}/rung", "epoll", folder) as server:
            cells.append(came_back(server.port, pieces))
            server.stop()
        rows.append([f"{sum(pieces)}" + (" in two halves" if len(pieces) > 1 else ""), *cells])
    return (f"What comes back of a message, from servers with a buffer of {BUFFER} bytes that look for its end, and "
            "from rung echo, which does not", ["bytes", *(name for name, _ in kinds), "`rung echo`"], rows)


# --- Silent clients ----------------------------------------------------------------------------------------

def newcomer(port):
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as wire:
        kind_echo.echoed(wire)
    took_s = time.monotonic() - began
    return "at once" if took_s < 1 else f"after {took_s:.0f} s"


def silent(binaries, folder):
    rows = []
    context = measures.Context(binaries, folder, "quick")
    for engine, count, workers in [*((name, SILENT, 0) for name in ENGINES), ("epoll", CROWD, CROWD_WORKERS)]:
        target, crowd = {"name": engine, "engine": engine}, {"workers": workers, "idle": count}
        with kind_echo.opened(context, target, crowd) as server:
            before = kind_echo.sockets(server.pid)
            with kind_echo.crowd(server.port, count):
                answered = newcomer(server.port)
                room = POOL if engine == "pool" else count
                held = kind_echo.all_held(server.pid, room, before)
            server.stop()
        rows.append([f"{engine}, {workers} processes" if workers else engine, f"{count:,}", answered, f"{held:,}"])
    return ("Clients that connect and never say anything; then one more comes and sends a byte",
            ["engine", "silent clients", "the newcomer is answered", "silent ones still held"], rows)


# --- System calls ------------------------------------------------------------------------------------------

def ask_some(port):
    """Send REQUESTS requests on one connection."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as wire:
        for _ in range(REQUESTS):
            wire.sendall(REQUEST)
            got = wire.recv(65536)
            head, _, body = got.partition(b"\r\n\r\n")
            length = int(re.search(rb"(?i)content-length: *(\d+)", head)[1])
            while len(body) < length:
                body += wire.recv(65536)


def attached(pid):
    """Wait until each process of a family is traced."""
    end = time.monotonic() + PATIENCE_S
    while any("TracerPid:\t0\n" in text for text in each_file(family(pid), "status")):
        if time.monotonic() > end:
            raise Broken("strace cannot attach to a server: it wants root, or kernel.yama.ptrace_scope 0")
        time.sleep(0.01)


@contextlib.contextmanager
def traced(pid, path):
    """strace writes the system calls of a family to this file as long as the `with` lasts."""
    argv = ["strace", "-f", "-qq", "-o", path, *itertools.chain(*(("-p", str(one)) for one in family(pid)))]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=end_with_us) as tracer:
        try:
            attached(pid)
            yield
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(PATIENCE_S)


def called(text):
    """({name: how often}, TCP options that were set); an interrupted call has its name on two lines."""
    names = re.findall(r"^(?:\d+ +)?(\w+)\(", text, re.MULTILINE)
    return ({name: names.count(name) for name in names},
            sorted(set(re.findall(r"setsockopt\(\d+, SOL_TCP, (\w+)", text))))


def calls(binaries, folder):
    import peers  # pylint: disable=import-outside-toplevel
    servers = {"rung": lambda: Server(f"{binaries}/rung", "epoll", folder),
               "rung, `--cache 0`": lambda: Server(f"{binaries}/rung", "epoll", folder, options=("--cache", "0")),
               "nginx, as Debian has it": lambda: peers.Peer("nginx-default", folder),
               "nginx, tuned": lambda: peers.Peer("nginx-sendfile", folder),
               "Apache, as Debian has it": lambda: peers.Peer("apache-default", folder)}
    rows, path = [], os.path.join(folder, "strace")
    for name, start in servers.items():
        try:
            with start() as server:
                ask_some(server.port)
                with traced(server.pid, path):
                    ask_some(server.port)
                    time.sleep(PAUSE_S)
                counts, options = called(text_of(path))
            each = [f"{call} {count / REQUESTS:.0f}" for call, count in sorted(counts.items())
                    if count >= 0.9 * REQUESTS]
            once = [call for call, count in sorted(counts.items()) if count < 0.9 * REQUESTS and "sockopt" in call]
            rows.append([name, ", ".join(each), ", ".join(once) or "none", ", ".join(options) or "none"])
        except Broken as error:
            rows.append([name, str(error), "", ""])
    return (f"One connection, {REQUESTS} requests for a file of 1 KiB", ["server", "calls for each request",
            "socket options asked or set besides, by", "TCP options it sets on the way"], rows)


def counted(binaries, folder):
    context = measures.Context(binaries, folder, "quick")
    servers = {"rung, epoll": {"engine": "epoll"}, "rung, uring": {"engine": "uring"}, "rung, thread": {"engine": "thread"},
               "nginx, as Debian has it": {"peer": "nginx-default"}, "nginx, tuned": {"peer": "nginx-sendfile"},
               "Apache, as Debian has it": {"peer": "apache-default"}}
    rows, scenario = [], {"connections": 1}
    documents = measures.documents(context, scenario)
    for name, target in servers.items():
        try:
            with measures.open_target(context, {"name": name, **target}, scenario, documents) as server:
                load = ["-n", str(COUNTED), *measures.load_options(context, scenario, server.port)]
                measures.generate(context, load, PATIENCE_S)  # the server may then have the file in memory
                with kind_stages.Tracer(context, server.port, "--quiet", "--calls") as tracer:
                    measures.generate(context, load, PATIENCE_S)
                    _, summary = tracer.ended()
                server.stop()
            rows.append([name, *in_words(summary)])
        except Broken as error:
            rows.append([name, str(error), ""])
    return (f"One connection, {COUNTED} requests for a file of 1 KiB that were asked for before",
            ["server", "calls for each request", "context switches for each request"], rows)


def in_words(summary):
    """Calls that are made for at least one request in twenty, and context switches, from a summary of rung trace."""
    if summary["seen"] != COUNTED or summary["lost_events"] or summary["calls"] is None:
        raise Broken(f"rung trace saw {summary['seen']} of {COUNTED} requests, and lost {summary['lost_events']} events")
    each = {one["call"]: one["count"] / summary["seen"] for one in summary["calls"]}
    return (", ".join(f"{call} {times:.1f}" for call, times in sorted(each.items()) if times >= LEAST),
            f"{sum(summary['switches'].values()) / summary['seen']:.1f}")


# --- Timers at rest ----------------------------------------------------------------------------------------

def rest(binaries, folder):
    rows, path = [], os.path.join(folder, "strace")
    for count in (0, 100, 1000):
        with Server(f"{binaries}/rung", "epoll", folder, options=("--idle-timeout", "60s")) as server, \
                contextlib.ExitStack() as stack:
            for _ in range(count):
                wire = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE_S))
                wire.sendall(REQUEST)
                wire.recv(65536)
            time.sleep(PAUSE_S)
            with traced(server.pid, path):
                time.sleep(REST_S)
            counts, _ = called(text_of(path))
            rows.append([f"{count:,}", f"{sum(counts.values())}"])
    return (f"System calls of a server at rest in {REST_S} s, beside connections that were answered and have a deadline "
            "each", ["connections", "calls"], rows)


# --- What the kernel offers ----------------------------------------------------------------------------------

def exports(_binaries, _folder):
    """Symbols that a module may use, from the newest installed Debian headers."""
    found = sorted(glob.glob("/usr/src/linux-headers-*/Module.symvers"))
    if not found:
        raise Broken("there are no kernel headers: apt-get install linux-headers-amd64")
    known = {line.split("\t")[1] for line in text_of(found[-1]).splitlines()}
    release = re.search(r"headers-([\d.]+)", found[-1])[1]
    rows = [[f"`{name}`", "yes" if {name, name + "_noprof"} & known else "no"]
            for name in ("alloc_workqueue", "create_workqueue", "d_path", "d_absolute_path", "kern_path")]
    return (f"What a module may call, of Linux {release}", ["symbol", "exported"], rows)


def kernel_options():
    for path in ("/proc/config.gz", f"/boot/config-{os.uname().release}"):
        with contextlib.suppress(OSError):
            with (gzip.open if path.endswith("gz") else open)(path, "rt", encoding="ascii") as file:
                return set(re.findall(r"^(CONFIG_\w+)=[ym]", file.read(), re.MULTILINE))
    raise Broken("this kernel does not tell how it was configured")


def tracing(binaries, _folder):
    options = kernel_options()
    rows = [[what, f"`{name}`", "yes" if name in options else "no"] for what, name in (
        ("programs in the kernel (BPF)", "CONFIG_BPF_SYSCALL"), ("... compiled to machine code", "CONFIG_BPF_JIT"),
        ("types of the kernel's structures (BTF)", "CONFIG_DEBUG_INFO_BTF"),
        ("each system call, in and out", "CONFIG_FTRACE_SYSCALLS"),
        ("places that the kernel's authors chose (tracepoints)", "CONFIG_TRACEPOINTS"),
        ("any function of the kernel or of a module (kprobes)", "CONFIG_KPROBES"),
        ("any function of a program (uprobes)", "CONFIG_UPROBES"), ("modules at all", "CONFIG_MODULES"))]
    symbols = subprocess.run(["nm", f"{binaries}/rung"], stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout
    there = [name for name in HOT if re.search(rf" [tT] {name}$", symbols, re.MULTILINE)]
    rows.append(["functions of rung's request path, by name", ", ".join(f"`{name}`" for name in HOT),
                 f"{len(there)} of {len(HOT)}"])
    return (f"Linux {os.uname().release} as it is configured, and the binary", ["to trace", "name", "here"], rows)


# --- The command -------------------------------------------------------------------------------------------

ANSWERS = {"time-wait": time_wait, "stream": stream, "silent": silent, "calls": calls, "counted": counted, "rest": rest, "exports": exports,
           "tracing": tracing}


def markdown(found):
    caption, head, rows = found
    return "\n".join([caption + ":", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|",
                      *("| " + " | ".join(row) + " |" for row in rows)])


def answer(options, name, folder):
    """Show and write the table of one answer; returns the status."""
    tell(f"{name} ...")
    try:
        text = markdown(ANSWERS[name](options.bin, folder))
    except Broken as error:
        tell("")
        print(f"answers: {name}: {error}", file=sys.stderr)
        return 1
    tell("")
    print(text + "\n")
    if options.write:
        command.put(PAGE, table.in_page(PAGE, text, "answer " + name))
    return 0


def main():
    parser = argparse.ArgumentParser(prog="answers.py", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"of {', '.join(ANSWERS)}; none: all")
    parser.add_argument("--bin", default=os.path.join(TOP, "build/release"), type=os.path.abspath,
                        help="the folder of the binaries")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/questions.md")
    options = parser.parse_args()
    if unknown := set(options.names) - set(ANSWERS):
        parser.error(f"no answer {', '.join(sorted(unknown))}; there are {', '.join(ANSWERS)}")
    raise_descriptors()
    with scratch.Folder("answers") as folder:
        make_folder(folder)
        return max([answer(options, name, folder) for name in options.names or ANSWERS])


if __name__ == "__main__":
    command.run("answers", main)
