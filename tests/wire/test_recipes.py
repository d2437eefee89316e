# SPDX-License-Identifier: MIT
"""The recipes of docs/proxies.md, with the real proxies: the command line and the configuration are read from the page, only
their ports and paths are changed.  A client from 127.0.0.9 asks through the proxy, and lies about where it comes from."""
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess

import pytest
from cli import log_lines
from lib.client import PATIENCE, Wire, request
from lib.metrics import Watch
from lib.secured import Secured
from lib.server import TOP, wait_for
from lib.trees import sparse

pytestmark = [pytest.mark.userspace("recipes"), pytest.mark.any_engine("the proxy is the same for every engine")]
CLIENT = "127.0.0.9"
BIG = 32 << 20
PATHS = os.environ.get("PATH", "") + ":/usr/sbin"


def page():
    """{name: (the command line, the configuration)}"""
    with open(f"{TOP}/docs/proxies.md", encoding="utf-8") as file:
        found = re.findall(r"<!-- recipe: ([a-z ]+) -->\n```\n(rung [^\n]*)\n```\n```[a-z]+\n(.*?)```\n", file.read(), re.S)
    return {name: (command, config) for name, command, config in found}


RECIPES = page()
NGINX = """daemon off; master_process off; pid {folder}/pid; error_log stderr crit; {user}
events {{ worker_connections 64; }}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
{config}}}
"""
HAPROXY = """global
    maxconn 100
    stats socket {folder}/stats
defaults
    timeout connect 5s
    timeout client 60s
    timeout server 60s
{config}"""
CADDY = """{{
    admin off
    auto_https off
}}
{config}"""
WAYS = {
    "nginx": (NGINX, lambda path: ["nginx", "-c", path, "-e", "stderr"]),
    "haproxy": (HAPROXY, lambda path: ["haproxy", "-db", "-q", "-f", path]),
    "caddy": (CADDY, lambda path: ["caddy", "run", "--adapter", "caddyfile", "--config", path]),
}


def reserved():
    """A socket with a free port, which no other program is given while the socket is open.  A proxy can listen there, because
    both say SO_REUSEADDR.  Caddy would share a port with another Caddy (SO_REUSEPORT), and say nothing."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", 0))
    return one


class Proxy:
    """A proxy that runs with a recipe's configuration."""

    def __init__(self, name, config, folder):
        self.place = reserved()
        self.port = self.place.getsockname()[1]
        kind = name.split()[0]
        frame, command = WAYS[kind]
        config = re.sub(r"(listen |bind :|http://:)(80|443)\b", lambda match: f"{match[1]}{self.port}", config)
        path = f"{folder}/proxy.conf"
        os.makedirs(f"{folder}/nginx")
        with open(path, "w", encoding="ascii") as file:
            file.write(frame.format(folder=f"{folder}/nginx", config=config, user="user root;" if os.geteuid() == 0 else ""))
        words = command(path)
        words[0] = shutil.which(words[0], path=PATHS)
        self.kind, self.stats = kind, f"{folder}/nginx/stats"
        self.said = open(f"{folder}/said", "w+b")
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said,
                                        env={**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)})
        wait_for(self.listens, f"{kind} listens")

    def listens(self):
        self.said.seek(0)
        assert self.process.poll() is None, self.said.read().decode("utf-8", "replace")
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def saw_503(self):
        """Whether a health check got that answer, by what the proxy says of it."""
        if self.kind == "caddy":
            self.said.seek(0)
            return b'"status_code":503' in self.said.read()
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(self.stats)
            sock.sendall(b"show stat\n")
            lines = b"".join(iter(lambda: sock.recv(65536), b"")).decode().splitlines()
        names = lines[0].removeprefix("# ").split(",")
        rows = [dict(zip(names, line.split(","))) for line in lines[1:] if line]
        return any(row["svname"] == "one" and row["check_status"].startswith("L7STS") and row["check_code"] == "503" for row in rows)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self.said.close()
            self.place.close()

    def ask(self, target="/hello.txt", secured=False, fields=("X-Forwarded-For: 203.0.113.66", 'Forwarded: for="203.0.113.67"')):
        """(status, body) of an answer to CLIENT."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE, (CLIENT, 0)) as sock:
            wire = Secured(sock) if secured else sock
            wire.sendall(request(target, fields=[*fields, "Connection: close"]))
            answer = b""
            while piece := wire.recv(65536):
                answer += piece
            if secured:
                wire.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), body


def begin(name, start, root, folder, *more):
    """(rung, its log, the proxy)"""
    command, config = RECIPES[name]
    if not shutil.which(name.split()[0], path=PATHS):
        pytest.skip(f"{name.split()[0]} is not installed")
    log, words = folder / "log", [*shlex.split(command)[1:-1], *more]
    where = dict.fromkeys(re.findall(r"127\.0\.0\.1:(\d+)|port (\d+)", config))
    if "--port" in words:  # the ports of this page are not free here: rung chooses
        port = words[words.index("--port") + 1]
        words[words.index("--port") + 1] = "0"
        words += ["-b", "127.0.0.1"]
    if "--metrics" in words:
        words[words.index("--metrics") + 1] = "0"
    path = str(folder / "s")
    words = [word.replace("/run/rung/http", path) for word in words]
    rung = start(root, *words, "--log-file", log)
    if "--port" in words:
        config = config.replace(f"127.0.0.1:{port}", f"127.0.0.1:{rung.addresses[0][1]}")
    if "--metrics" in words:
        config = re.sub(r"(port |health_port )9100", lambda match: f"{match[1]}{Watch(rung).address[1]}", config)
    config = config.replace("/run/rung/http", path)
    assert where or path in config
    return rung, log, Proxy(name, config, folder)


def test_the_page_has_recipes():
    assert len(RECIPES) >= 7 and {name.split()[0] for name in RECIPES} == set(WAYS)


@pytest.mark.parametrize("name", [name for name in RECIPES if "fleet" not in name])  # that one is in test_fleet.py
# shows U28
def test_recipe(start, standard, tmp_path, name):
    """The client's real address is in the log, whatever it said itself."""
    rung, log, proxy = begin(name, start, standard, tmp_path)
    with open(f"{standard}/hello.txt", "rb") as file:
        hello = file.read()
    try:
        for _ in range(3):
            assert proxy.ask(secured="tls" in name) == (200, hello)
        assert proxy.ask("/none", secured="tls" in name)[0] == 404
        lines = log_lines(log, 4)
        assert [line.split(" ")[0] for line in lines if "/.rung/" not in line][:4] == [CLIENT] * 4, lines
        if "--metrics" not in RECIPES[name][0] and "tls" not in name:
            assert rung.stats()["unproxied"] == 0
    finally:
        proxy.stop()


@pytest.mark.long
@pytest.mark.parametrize("name", ["haproxy http", "caddy tcp"])
def test_a_server_that_drains_gets_no_more(start, tree, tmp_path, name):
    """The check of a server gets 503 as soon as it drains, while it still answers a slow client."""
    if not shutil.which(name.split()[0], path=PATHS):
        pytest.skip(f"{name.split()[0]} is not installed")
    sparse(f"{tree}/big.bin", BIG, {})
    with open(f"{tree}/hello.txt", "w", encoding="ascii") as file:
        file.write("Hello\n")
    rung, _, proxy = begin(name, start, tree, tmp_path, "--drain-timeout", "60s")
    try:
        wait_for(lambda: proxy.ask()[0] == 200, "the first check was good")
        with Wire(rung.address, rcvbuf=65536, secured=False) as wire:
            wire.send(request("/big.bin"))
            wire.head()
            rung.process.send_signal(signal.SIGTERM)
            rung.wait_said("stopping")
            wait_for(proxy.saw_503, "the check has failed")
            assert proxy.ask()[0] in (502, 503)
            wire.take(BIG)
        rung.finish()
    finally:
        proxy.stop()
