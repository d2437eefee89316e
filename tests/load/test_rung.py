# SPDX-License-Identifier: MIT
"""rung load against rung: every engine, both protocols, every kind of address; both sides count the same."""
import json
import socket
import subprocess
import threading

import pytest
from aid import DONE, RUNG, USAGE, end, environment, load, measured, rung, start

ENGINES = json.loads(subprocess.run([RUNG, "engines", "--json"], stdout=subprocess.PIPE, check=True, timeout=30,
                                    env=environment()).stdout)
SERVING = [row for row in ENGINES if row["name"] != "null"]


def requests_of(run):
    assert run.status == DONE, run.out
    assert run.json["errors"]["total"] == 0
    return run.json["requests"]["answered"]


@pytest.mark.parametrize("row", SERVING, ids=lambda row: row["name"])
# shows E08, T06, U30
def test_engines_count_the_same(row, site):
    if not row["available"]:
        pytest.skip(row["reason"])
    connections = min(8, row["capacity"] or 8)
    with rung("serve", "-p", 0, "-e", row["name"], site) as server:
        url = f"http://127.0.0.1:{server.port}"
        run = measured("-n", 1500, "-c", connections, "-t", 2, "--check", site, f"{url}/a.txt", f"{url}/b%20b.bin",
                       f"{url}/empty")
        assert requests_of(run) == 1500
        counted = server.settled()
    assert counted["answers"] == counted["complete"] == 1500
    assert counted["accepted"] == run.json["connects"]["made"] >= connections
    assert counted["bytes"] == run.json["received_bytes"]
    assert run.json["connects"]["made"] == connections + run.json["connects"]["closed_while_idle"]


@pytest.mark.parametrize("options", [["-k", "off"], ["--requests-per-connection", 7], ["--pipeline", 16],
                                     ["--requests-per-connection", 10, "--pipeline", 4], ["--close", "reset", "-k", "off"],
                                     ["-R", 3000], ["-R", 3000, "--arrivals", "poisson", "--pipeline", 3],
                                     ["-X", "HEAD"], ["--source", "127.0.0.2,127.0.0.3"], ["--body-check"],
                                     ["-H", "Range: bytes=0-9", "--status", 206]], ids=str)
# shows S09, T01, U35
def test_ways_of_asking(options, site):
    with rung("serve", "-p", 0, site) as server:
        run = measured("-n", 700, "-c", 6, "-t", 2, *options, f"http://127.0.0.1:{server.port}/a.txt")
        assert requests_of(run) == 700
        counted = server.settled()
    assert counted["answers"] == 700
    assert counted["accepted"] == run.json["connects"]["made"]
    if options[:2] == ["-k", "off"]:
        assert counted["accepted"] >= 700
    if options[:2] == ["--requests-per-connection", 7]:
        assert 100 <= counted["accepted"] <= 106


# shows S09, T01, U35
def test_addresses(site, tmp_path):
    path = tmp_path / "socket"
    with rung("serve", "-p", 0, site) as server:
        for where in ("127.0.0.1", "[::1]", "localhost"):
            run = measured("-n", 50, "--check", site, f"http://{where}:{server.port}/a.txt")
            assert requests_of(run) == 50
        for family, host in (("-4", "localhost"), ("-6", "[::1]")):
            assert requests_of(measured("-n", 50, family, f"{host}:{server.port}")) == 50
        assert server.settled()["answers"] == 250
    with rung("serve", "-b", f"unix:{path}", site) as server:
        assert requests_of(measured("-n", 400, "-c", 20, "-u", path, "--check", site, "http://any/a.txt")) == 400
        assert requests_of(measured("-n", 400, "-c", 20, "-k", "off", "-u", path, "http://any/a.txt")) == 400
        assert server.settled()["answers"] == 800


@pytest.mark.parametrize("engine", ["epoll", "pool", "coro"])
@pytest.mark.parametrize("sizes", [(16, 32), (4090, 4090), (1, 65536), (1, 1000000), (1 << 20, 1 << 20)], ids=str)
# shows D24, E07, E08, E11, E12, E15, T06
def test_echo(engine, sizes):
    """Random lengths and bytes, compared with the echo, however the server splits it."""
    messages = 2000 if sizes[1] <= 65536 else 100
    with rung("echo", "-p", 0, "-e", engine) as server:
        run = measured("-n", messages, "-c", 8, "--message-min", sizes[0], "--message-max", sizes[1],
                       f"echo://127.0.0.1:{server.port}")
        assert requests_of(run) == messages
        assert run.json["received_bytes"] == run.json["sent_bytes"] >= messages * sizes[0]
        assert server.settled()["bytes"] == run.json["received_bytes"]


@pytest.mark.parametrize("buffer", [1, 1024])
# shows E12
def test_echo_of_a_small_buffer(buffer):
    """Messages of 4090 bytes are echoed in pieces as large as one read of the server."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        sock = listener.accept()[0]
        while data := sock.recv(buffer):
            sock.sendall(data)
    threading.Thread(target=serve, daemon=True).start()
    with listener:
        run = measured("-n", 20, "-c", 1, "--message-min", 4090, "--message-max", 4090,
                       f"echo://127.0.0.1:{listener.getsockname()[1]}")
    assert requests_of(run) == 20 and run.json["received_bytes"] == 20 * 4090


def test_the_longest_message():
    for option in ("--message-min", "--message-max"):
        run = load(option, (1 << 20) + 1, "echo://127.0.0.1:1")
        assert run.status == USAGE and "out of range" in run.err and "1m" in run.err, run.err


# shows U35
def test_urls_of_a_file(site, tmp_path):
    with rung("serve", "-p", 0, site) as server:
        urls = tmp_path / "urls"
        urls.write_text(f"# a comment\n\nhttp://127.0.0.1:{server.port}/a.txt\n  http://[::1]:{server.port}/\n"
                        f"http://127.0.0.1:{server.port}/empty\n")
        run = measured("-n", 300, "--check", site, "--urls", urls)
        assert requests_of(run) == 300 and run.json["urls"] == 3
        assert server.settled()["answers"] == 300


def test_an_idle_crowd(site):
    """The idle connections are open before the first request and until the last, and send nothing."""
    with rung("serve", "-p", 0, site) as server:
        process = start("-o", "-", "-c", 4, "--idle", 150, "-d", "1500ms", f"http://127.0.0.1:{server.port}/a.txt")
        while (now := server.counters())["answers"] == 0:
            pass
        assert now["open"] == 154
        run = end(process)
        assert run.json["idle"] == 150 and run.json["connections"] == 4 and run.status == DONE
        assert run.json["connects"] == {"made": 154, "closed_while_idle": 0}
        assert server.settled()["accepted"] == 154
    with rung("serve", "-p", 0, "--head-timeout", "300ms", site) as server:
        run = measured("-c", 1, "--idle", 5, "-d", "1500ms", f"http://127.0.0.1:{server.port}/a.txt")
        assert run.json["connects"]["closed_while_idle"] >= 5 and run.status == DONE
        assert run.json["connects"]["made"] == 6 + run.json["connects"]["closed_while_idle"]


def test_rung_load_is_rung_dash_load():
    asked = subprocess.run([RUNG, "load", "--help"], stdout=subprocess.PIPE, check=True, timeout=30, env=environment())
    assert asked.stdout.decode() == load("--help").out
    asked = subprocess.run([RUNG, "help", "load"], stdout=subprocess.PIPE, check=True, timeout=30, env=environment())
    assert asked.stdout.decode() == load("--help").out
