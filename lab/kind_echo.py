# SPDX-License-Identifier: MIT
"""kind_echo.py - kind echo: rung echo measured, what an engine costs without HTTP.

A scenario of kind echo says what its clients do:

    clients = 100       each sends one message when all are connected, and waits; repeated `times` times
    connections = 10    each sends messages of `bytes` without a pause, while `idle` others are silent
    floods = 50         each sends without an end and reads nothing; one more connection is measured

`workers` are processes of the server: the limit on descriptors is per process, so a larger crowd needs several."""
import contextlib
import multiprocessing
import functools
import os
import re
import selectors
import socket
import statistics
import struct
import threading
import time

import measures
from rig import PATIENCE_S, Broken, Server, end_with_us, family, memory_bytes, text_of, used_s

TIMES = {"quick": 5, "full": 15}   # a burst is over in milliseconds: one alone says little
BYTES = "16-32"
CROWD_MAX = 15000   # connections that one process of ours holds, limited by descriptors and the ports of one address
SPARE = 1000        # connections in addition to the crowd
SLACK = 2           # sockets that a server has for a moment when it starts
FLOOD_S = 1
IP_BIND_ADDRESS_NO_PORT = 24  # choose the port on connect(): ports in TIME-WAIT to other ends are then free
CHUNK = bytes(65536)
ONE_BYTE = b"."
BY_RESET = struct.pack("ii", 1, 0)


class Echo(Server):
    """rung echo with long time-outs, for silent clients."""
    says = re.compile(r"echoing at echo://127\.0\.0\.1:(\d+)/")

    def argv(self, rung, engine, folder):
        return [rung, "echo", "--engine", engine, "--bind", "127.0.0.1", "--port", "0", "--workers", "1",
                "--head-timeout", "600s", "--idle-timeout", "600s", "--send-timeout", "600s", "--drain-timeout", "1s"]


def opened(context, target, scenario, ours=None):
    options = target.get("options", "").split()
    if workers := scenario.get("workers"):
        options += ["--workers", str(workers), "--workers-as", "process", "--accept", "reuseport",
                    "--max-connections", str(scenario.get("idle", 0) + SPARE)]
    server = Echo(context.rung, target.get("engine", "epoll"), context.folder, target.get("wrap", "").split(), options,
                  ours)
    context.started(target, server.command)
    return server


# --- Silent clients ----------------------------------------------------------------------------------------

def echoed(wire, byte=ONE_BYTE):
    wire.sendall(byte)
    if wire.recv(1) != byte:
        raise Broken("an echoed byte was wrong or missing")


def sit(port, address, count, pipe):
    """In a process of its own: open `count` connections from an own address, and keep them silent until the parent ends
    this process.  The server is not asked to answer: silent clients send nothing at all."""
    end_with_us()
    wires = []
    try:
        for _ in range(count):
            wires.append(socket.socket())
            wires[-1].settimeout(PATIENCE_S)
            wires[-1].setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            wires[-1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, BY_RESET)  # no connection stays in TIME-WAIT after us
            wires[-1].bind((address, 0))
            wires[-1].connect(("127.0.0.1", port))
        pipe.send(None)
    except OSError as error:
        pipe.send(f"connection {len(wires)} of {count}: {error}")
    pipe.poll(None)


@contextlib.contextmanager
def crowd(port, count):
    """`count` silent connections as long as the `with` lasts."""
    seats, method = [], multiprocessing.get_context("fork")
    try:
        for number in range(0, count, CROWD_MAX):
            ours, theirs = method.Pipe()
            seat = method.Process(target=sit, args=(port, f"127.0.0.{2 + number // CROWD_MAX}",
                                                    min(CROWD_MAX, count - number), theirs), daemon=True)
            seat.start()
            seats.append((seat, ours))
        for _, ours in seats:
            if not ours.poll(PATIENCE_S * 3):
                raise Broken(f"{count} idle connections were not made in time")
            if said := ours.recv():
                raise Broken(f"{count} idle connections cannot be had: {said}")
        yield
    finally:
        for seat, ours in seats:
            ours.close()
            seat.terminate()
            seat.join()


def sockets(pid):
    """How many sockets a family has; a socket that several processes share counts once."""
    found = set()
    for one in family(pid):
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{one}/fd"):
                with contextlib.suppress(OSError):
                    found.add(os.readlink(f"/proc/{one}/fd/{fd}"))
    return sum(link.startswith("socket:") for link in found)


def all_held(pid, count, before):
    """How many of `count` new connections are held after a while: the server may have closed some to accept others."""
    end = time.monotonic() + PATIENCE_S
    while (held := sockets(pid) - before + SLACK) < count and time.monotonic() < end:
        time.sleep(0.05)
    return min(held, count)


# --- What clients do ---------------------------------------------------------------------------------------

def message(scenario):
    """--message-min and --message-max, of "16-32" or a number."""
    least, _, most = str(scenario.get("bytes", BYTES)).partition("-")
    return ["--message-min", least, "--message-max", most or least]


def url(server):
    return f"echo://127.0.0.1:{server.port}"


def bursts(context, server, scenario, theirs):
    """All clients send one message each, at the same time; repeated several times.  Each latency is the median of the
    bursts, because something else may disturb a burst.  Processor time is that of a connection with its one message."""
    count, times = scenario["clients"], scenario.get("times", TIMES[context.pace])
    argv = ["-c", str(count), "-n", str(count), "-t", "1", "-T", "30s", *message(scenario), url(server)]
    before_s = used_s(server.pid)
    told = [measures.generate(context, argv, PATIENCE_S * 3, theirs)["latency_us"] for _ in range(times)]
    usage = server.stop()
    return {"figures": {"cpu_us": (usage.ru_utime + usage.ru_stime - before_s) * 1e6 / count / times,
                        **{figure: statistics.median(one[key] for one in told)
                           for figure, key in measures.LATENCIES.items()}},
            "limiter": None}


def steadily(context, server, scenario, seconds):
    """Clients that send without a pause, while a crowd is silent."""
    ours, theirs = measures.processors(scenario)
    options = ["-c", str(scenario["connections"]), "-t", "1", "-T", "10s", *message(scenario), url(server)]
    idle, before = scenario.get("idle", 0), sockets(server.pid)
    with crowd(server.port, idle):
        if idle and (held := all_held(server.pid, idle, before)) < idle:
            raise Broken(f"of {idle} silent connections {held} are held")
        ask = functools.partial(measures.generate, context, patience_s=seconds + PATIENCE_S, allowed=theirs, whole=False)
        failed = ask(["-n", str(10 * scenario["connections"]), *options])["errors"]["total"]  # this warms the server too
        before_s = used_s(server.pid)
        data = ask(["-d", f"{seconds * 1000:.0f}ms", *options])
        cpu_s = used_s(server.pid) - before_s
    failed += data["errors"]["total"]
    if failed:  # the number of failures is the answer; no other figure means anything
        return {"figures": {"failed": failed}, "limiter": None}
    server.stop()
    answers, latency = data["requests"]["answered"], data["latency_us"]
    return {"figures": {"cpu_us": cpu_s * 1e6 / answers, "per_second": data["requests_per_s"], "failed": 0,
                        **{figure: latency[key] for figure, key in measures.LATENCIES.items()}},
            "limiter": measures.limiter(data, cpu_s, ours),
            "percentiles": [[at, latency[key]] for key, at in measures.PERCENTILES.items()]}


def pour(wires, until):
    """Send on each connection as much as it takes, and read nothing."""
    with selectors.DefaultSelector() as selector:
        for wire in wires:
            wire.setblocking(False)
            selector.register(wire, selectors.EVENT_WRITE)
        while time.monotonic() < until:
            for key, _ in selector.select(0.05):
                try:
                    key.fileobj.send(CHUNK)
                except BlockingIOError:
                    pass
                except OSError:  # the server closed it: that is an answer too
                    selector.unregister(key.fileobj)


def tcp_bytes():
    """Bytes in the buffers of all TCP sockets on this machine."""
    pages = re.search(r"^TCP:.* mem (\d+)", text_of("/proc/net/sockstat"), re.MULTILINE)[1]
    return int(pages) * os.sysconf("SC_PAGESIZE")


def flood(context, server, scenario, theirs):
    count = scenario["floods"]
    with contextlib.ExitStack() as stack:
        wires = []
        for _ in range(count):
            wires.append(stack.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)))
            echoed(wires[-1])
        before, buffers = memory_bytes(server.pid)["pss"], tcp_bytes()
        pouring = threading.Thread(target=pour, args=(wires, time.monotonic() + FLOOD_S))
        pouring.start()
        data = measures.generate(context, ["-c", "1", "-t", "1", "-T", "10s", "-d", f"{FLOOD_S * 900}ms", url(server)],
                                 PATIENCE_S, theirs)
        pouring.join()
        after, more = memory_bytes(server.pid)["pss"], tcp_bytes()
    server.stop()
    return {"figures": {"client_bytes": (after - before) / count, "kernel_bytes": (more - buffers) / count,
                        **{figure: data["latency_us"][key] for figure, key in measures.LATENCIES.items()}},
            "limiter": None}


# --- The kind --------------------------------------------------------------------------------------------------

def measure(context, target, scenario, seconds):
    scenario = {**scenario, "pinned": target.get("pinned", scenario.get("pinned", True))}
    ours, theirs = measures.processors(scenario)
    with opened(context, target, scenario, ours) as server:
        if "clients" in scenario:
            return bursts(context, server, scenario, theirs)
        if "floods" in scenario:
            return flood(context, server, scenario, theirs)
        return steadily(context, server, scenario, seconds)
