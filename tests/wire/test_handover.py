# SPDX-License-Identifier: MIT
"""The next server takes the listeners over from the one before, under load: no request is lost."""
import contextlib
import errno
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.request

import pytest
from lib.crowd import sanitized
from lib.handover import Next, ticks
from lib.server import one_at_a_time

from cli import (BIN, as_root, EXIT_DONE, EXIT_LISTEN, PATIENCE, Running, begin, elf, large, no_port, site,  # noqa: F401
                 stuck_download, unix_get, wait_for)

pytestmark = pytest.mark.userspace("a process")

PROCESSES = ["--workers", "2", "--workers-as", "process"]
CHANGES = 3
# If an engine serves one connection, clients that wait for each other are evicted; that is no loss of a change.
CLIENTS = 1 if one_at_a_time() else 8
LOADS = {"kept connections": "on", "a connection for each request": "off"}


@pytest.fixture
def path(tmp_path):
    return f"{tmp_path}/handover"


def answers(server):
    """How many answers it says that it has given."""
    return int(server.said(r"stopped after (\d+) answer")[1])


@pytest.mark.core
def test_next_server(begin, site, path):
    """The first server stops when the next one serves, on the same port; then another one does the same, and the last one
    leaves nothing behind."""
    servers = [begin("-p", "0", "--handover", path, site)]
    assert servers[0].get("/file.txt").body == b"content\n"
    for _ in range(2):
        servers.append(begin("-p", "0", "--handover", path, site))
        assert servers[-1].ports == servers[0].ports
        servers[-2].said(rf"process {servers[-1].pid} serves now")
        assert servers[-2].end(None) == EXIT_DONE
        assert os.path.exists(path)
        assert servers[-1].get("/file.txt").body == b"content\n"
    assert [answers(server) for server in servers[:-1]] == [1, 1]
    assert servers[-1].end() == EXIT_DONE
    wait_for(lambda: not os.path.exists(path), "the name is removed")


@pytest.mark.parametrize("arrangement", [[], PROCESSES, [*PROCESSES, "--accept", "reuseport"]], ids=["one", "processes", "reuseport"])
@pytest.mark.parametrize("load", LOADS)
# shows U78
def test_under_load(begin, site, path, arrangement, load):
    """Three changes while clients ask without a pause: each request is answered, and each server has answered some.  Before
    each, a next server takes the listeners and ends."""
    if not elf() or sanitized():
        pytest.skip("a load that a sanitizer's pace does not change")
    options = ["-p", "0", "--handover", path, *arrangement, site]
    servers = [begin(*options)]
    with subprocess.Popen([f"{BIN}-load", "-c", str(CLIENTS), "-k", LOADS[load], "-t", "1", "-d", "600s", "--check", site, "-o", "-",
                           f"http://127.0.0.1:{servers[0].port}/file.txt"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
        try:
            for _ in range(CHANGES):
                wait_for(lambda: told_answers(servers[-1]) > 50, "it answers")
                Next(path, sets=2 if "reuseport" in arrangement else 1).end()
                servers.append(begin(*options))
                assert servers[-2].end(None) == EXIT_DONE
            wait_for(lambda: told_answers(servers[-1]) > 50, "it answers")
        finally:
            client.send_signal(signal.SIGINT)
            out, err = client.communicate(timeout=PATIENCE)
    result = json.loads(out)
    bad = {name: count for name, count in result["errors"].items() if count}
    assert not bad and client.returncode == 0, (bad, result["requests"], err)
    assert all(answers(server) > 0 for server in servers[:-1])


def told_answers(server):
    """The server's counter of answers."""
    before = server.count(r'"answers":')
    server.send(signal.SIGUSR1)
    wait_for(lambda: server.count(r'"answers":') > before, "counters")
    return int(server.said(r'"answers":(\d+)', last=True)[1])


def test_answer_goes_on(begin, large, path):
    """A download that the first server has begun is finished by it, while the next one serves."""
    first = begin("-p", "0", "--handover", path, "--drain-timeout", "60s", large)
    with stuck_download(first) as client:
        if one_at_a_time():
            pytest.skip("it has one connection at a time, and the port is not accepted until it ends")
        after = begin("-p", "0", "--handover", path, large)
        first.said("serves now")
        assert after.get("/", method="HEAD").status == 200
        assert first.process.poll() is None
        before = ticks(first)
        time.sleep(0.5)
        assert ticks(first) - before <= 5
        total = 4
        while piece := client.recv(1 << 20):
            total += len(piece)
    assert total > 1 << 30
    assert first.end(None) == EXIT_DONE


def test_unix_sockets(begin, site, path, tmp_path):
    """The names stay with the next server, and are removed by the last one."""
    web = f"{tmp_path}/web"
    server = None
    for _ in range(3):
        before, server = server, begin("-b", f"unix:{web}", "--handover", path, site, wait=False)
        server.said("rung: serving")
        assert before is None or before.end(None) == EXIT_DONE
        assert unix_get(web).endswith(b"content\n")
    if sanitized() or not elf():
        assert server.end() == EXIT_DONE
    else:
        server.kill()  # in the sandbox another process removes them
    wait_for(lambda: not os.path.exists(web) and not os.path.exists(path), "the names are removed")


@as_root
def test_as_another_user(begin, site):
    """Root binds and gives the socket to the user once; each next server is started by root, too."""
    folder = tempfile.mkdtemp(prefix="rung-handover-")
    os.chmod(folder, 0o755)
    try:
        server = None
        for _ in range(3):
            before, server = server, begin("-b", f"unix:{folder}/web", "--handover", f"{folder}/handover", "--user", "nobody", site, wait=False)
            server.said("rung: serving")
            assert before is None or before.end(None) == EXIT_DONE
            assert unix_get(f"{folder}/web").endswith(b"content\n")
            assert os.stat(f"{folder}/web").st_uid == 65534
        assert server.end() == EXIT_DONE
        wait_for(lambda: not os.listdir(folder), "the names are removed")
    finally:
        shutil.rmtree(folder)


def certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=a",
                    "-keyout", f"{folder}/key", "-out", f"{folder}/cert"], stderr=subprocess.DEVNULL, check=True)
    return f"{folder}/cert,{folder}/key"


def ask_on(port, kept, over, answered, wrong):
    """Requests without a pause until over; on a kept connection until an answer ends it."""
    context = ssl._create_unverified_context()  # pylint: disable=protected-access
    while not over.is_set():
        client = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
        try:
            closes = False
            while not closes and not over.is_set():
                client.request("GET", "/file.txt", headers={} if kept else {"Connection": "close"})
                answer = client.getresponse()
                if answer.status != 200 or answer.read() != b"content\n":
                    wrong.append(answer.status)
                answered[0] += 1
                closes = answer.will_close
        except (OSError, http.client.HTTPException) as error:
            wrong.append(repr(error))
        client.close()


@pytest.mark.parametrize("kept", [True, False], ids=["kept connections", "a connection for each request"])
# shows U78
def test_under_load_with_tls(begin, site, path, tmp_path, kept):
    options = ["-p", "0", "--handover", path, "--tls", certificate(tmp_path), site]
    servers = [begin(*options)]
    port = int(re.search(r"https://127\.0\.0\.1:(\d+)/", servers[0].opening)[1])
    over, answered, wrong = threading.Event(), [0], []
    clients = [threading.Thread(target=ask_on, args=(port, kept, over, answered, wrong)) for _ in range(min(CLIENTS, 4))]
    for client in clients:
        client.start()
    try:
        for _ in range(CHANGES):
            seen = answered[0]
            wait_for(lambda: answered[0] > seen + 20, "answers")  # pylint: disable=cell-var-from-loop
            servers.append(begin(*options))
            assert servers[-2].end(None) == EXIT_DONE
        seen = answered[0]
        wait_for(lambda: answered[0] > seen + 20, "answers")
    finally:
        over.set()
        for client in clients:
            client.join()
    assert not wrong, wrong[:5]
    assert all(answers(server) > 0 for server in servers[:-1])


def refused(address, port):
    with socket.socket() as client:
        client.settimeout(PATIENCE)
        return client.connect_ex((address, port)) == errno.ECONNREFUSED


def test_other_addresses(begin, site, path):
    """The next server has the addresses that it asks for: some of the first one's, and others."""
    first = begin("-p", "0", "-b", "127.0.0.1", "-b", "127.0.0.2", "--handover", path, site)
    after = begin("-p", first.port, "-b", "127.0.0.3", "-b", "127.0.0.1", "--handover", path, site)
    assert first.end(None) == EXIT_DONE
    for address in ("127.0.0.1", "127.0.0.3"):
        assert after.get("/file.txt", host=address).status == 200
    assert refused("127.0.0.2", first.port)


def test_other_port(begin, site, path):
    first = begin("-p", "0", "--handover", path, site)
    after = begin("-p", no_port(), "--handover", path, site)
    assert first.end(None) == EXIT_DONE
    assert after.port != first.port and after.get("/file.txt").status == 200
    assert refused("127.0.0.1", first.port)


def test_an_address_that_the_first_one_covers(begin, site, path):
    """No other listener of a port can be opened while one has all addresses: a message says so, and nothing changes."""
    first = begin("-p", "0", "-b", "*", "--handover", path, site)
    after = Running("-p", first.port, "-b", "127.0.0.1", "--handover", path, site)
    after.said(rf"port {first.port} on 127\.0\.0\.1 is taken by .*{first.pid}")
    assert after.end(None) == EXIT_LISTEN
    first.said("serving goes on")
    assert first.get("/file.txt").status == 200


@pytest.mark.parametrize("processes", [[], PROCESSES], ids=["threads", "processes"])
def test_metrics(begin, large, path, processes):
    """The listener for metrics goes along, and while the first server finishes an answer, the next one is read.  One that has
    no metrics closes it."""
    options = ["-p", "0", "--handover", path, "--drain-timeout", "60s", *processes, large]
    first = begin("--metrics", "0", *options)
    port = int(first.said(r"metrics at http://127\.0\.0\.1:(\d+)/metrics")[1])
    with contextlib.ExitStack() as stack:
        if not one_at_a_time():
            stack.enter_context(stuck_download(first))
        after = begin("--metrics", "0", *options)
        assert int(after.said(r"metrics at http://127\.0\.0\.1:(\d+)/metrics")[1]) == port
        first.said("stopping: ")
        for _ in range(20):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
                assert "rung_draining 0\n" in page.read().decode()
    assert first.end(None) == EXIT_DONE
    begin(*options)
    assert after.end(None) == EXIT_DONE
    assert refused("127.0.0.1", port)


MANY = ["--workers", "40", "--workers-as", "process", "--accept", "reuseport", "-b", "127.0.0.1", "-b", "127.0.0.2"]


@pytest.mark.parametrize("options", [["--sandbox", "strict"], MANY], ids=["strict", "many listeners"])
def test_twice(begin, site, path, options):
    """The server that is in the sandbox makes no call that would end it; and 81 descriptors need two messages."""
    if "strict" in options and (sanitized() or not elf()):
        pytest.skip("a sanitizer or valgrind has no sandbox")
    first = begin("-p", "0", *options, "--handover", path, site)
    after = begin("-p", "0", *options, "--handover", path, site)
    assert first.end(None) == EXIT_DONE and after.ports == first.ports
    begin("-p", "0", *options, "--handover", path, site)
    assert after.end(None) == EXIT_DONE


def test_two_at_once(begin, site, path):
    """The next servers get the listeners one after the other; the one that came last stays."""
    servers = [begin("-p", "0", "--handover", path, site)]
    servers += [begin("-p", "0", "--handover", path, site, wait=False) for _ in range(3)]
    for server in servers[1:]:
        server.ready()
    wait_for(lambda: [server.process.poll() for server in servers].count(EXIT_DONE) == 3, "one is left")
    last = next(server for server in servers if server.process.poll() is None)
    assert last.ports == servers[0].ports and last.get("/file.txt").status == 200
    assert last.end() == EXIT_DONE
    wait_for(lambda: not os.path.exists(path), "the name is removed")


@pytest.mark.parametrize("processes", [[], PROCESSES], ids=["threads", "processes"])
def test_started_while_the_first_one_stops(begin, large, path, processes):
    """The first one has stopped accepting, so there is nothing to take over: the next one opens its own, and keeps the name."""
    if one_at_a_time():
        pytest.skip("it has one connection at a time, and leaves its listener when that ends")
    first = begin("-p", "0", "--handover", path, "--drain-timeout", "60s", *processes, large)
    with stuck_download(first):
        first.send(signal.SIGTERM)
        first.said("stopping: ")
        wait_for(lambda: refused("127.0.0.1", first.port), "it has left its listener")
        after = begin("-p", first.port, "--handover", path, *processes, large)
        assert after.get("/", method="HEAD").status == 200
        assert first.process.poll() is None
    assert first.end(None) == EXIT_DONE
    begin("-p", "0", "--handover", path, *processes, large)
    assert after.end(None) == EXIT_DONE
