# SPDX-License-Identifier: MIT
"""The commands other than the server: help, manual, completion in real shells, doctor, and the load generator against
others."""
import json
import os
import re
import shutil
import subprocess
import time

import pytest
from conftest import BIN, TEXT, curl, free_port, needs, run, wait_for

COMMANDS = re.findall(r"(?m)^  ([a-z]+) {2,}", run(BIN, "help"))


def test_help_names_every_command():
    assert {"serve", "config", "engines", "doctor", "load", "trace", "drop", "man", "completion"} <= set(COMMANDS), COMMANDS


@needs("mandoc")
@pytest.mark.parametrize("command", ["serve", "load", "drop", "trace"])
def test_manual_pages(tmp_path, command):
    (tmp_path / "page.1").write_text(run(BIN, "man", command))
    assert "# SYNOPSIS" in run("mandoc", "-T", "markdown", tmp_path / "page.1")
    assert "ERROR" not in run("mandoc", "-T", "lint", "-W", "error", tmp_path / "page.1", status=None)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(tmp_path, shell):
    if not shutil.which(shell):
        pytest.skip(f"not installed: {shell}")
    (tmp_path / "completion").write_text(run(BIN, "completion", shell))
    run(shell, "-n", tmp_path / "completion")
    if shell == "fish":
        os.symlink(BIN, tmp_path / "rung")
        said = run("env", f"PATH={tmp_path}:{os.environ['PATH']}", f"HOME={tmp_path}", "fish", "-c",
                   f"source {tmp_path}/completion; complete -C 'rung --security-h'")
        assert "--security-headers" in said


def test_doctor_and_engines():
    said = run(BIN, "doctor", status=None)
    assert "sandbox: files" in said and "io_uring" in said
    assert {row["name"] for row in json.loads(run(BIN, "engines", "--json"))} >= {"epoll", "uring", "pool", "naive"}


@pytest.mark.parametrize("words, answer", [(["--host", "0.0.0.0"], "--bind"), (["--directory", "/"], "rung"), (["--engin", "epoll"], "--engine"),
                                           (["--cert", "a.pem"], "--tls"), (["--engine", "epol"], "epoll")])
def test_spellings_of_others(words, answer):
    assert answer in run(BIN, *words, status=2)


NGINX = """daemon off; pid {top}/pid; error_log stderr; worker_processes 1; {user} events {{}}
http {{ access_log off; client_body_temp_path {top}/1; proxy_temp_path {top}/2; fastcgi_temp_path {top}/3; uwsgi_temp_path {top}/4; scgi_temp_path {top}/5;
server {{ listen 127.0.0.1:{port}; listen 127.0.0.1:{tls} ssl http2; ssl_certificate {cert}; ssl_certificate_key {key}; root {site}; }} }}
"""


@needs("nginx", "curl", "openssl")
def test_load_against_nginx(tmp_path, site, pairs):
    """rung load asks a server that is not ours: plain, over https, and by HTTP/2."""
    port, tls = free_port(), free_port()
    cert, key = pairs("localhost").split(",")
    (tmp_path / "conf").write_text(NGINX.format(top=tmp_path, port=port, tls=tls, cert=cert, key=key, site=site, user="user root;" if os.geteuid() == 0 else ""))
    with subprocess.Popen(["nginx", "-p", tmp_path, "-c", tmp_path / "conf"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as nginx:
        try:
            wait_for(lambda: curl(f"http://127.0.0.1:{port}/hello.txt", status=None) == TEXT, "nginx")
            for words in ([f"http://127.0.0.1:{port}/hello.txt"], [f"https://127.0.0.1:{tls}/hello.txt"], ["--http2", f"https://127.0.0.1:{tls}/hello.txt"]):
                said = run(BIN, "load", "--requests", "200", *words)
                assert re.search(r"(?m)^ +answers +200,", said) and re.search(r"(?m)^ +errors +none$", said), said
        finally:
            nginx.terminate()


@needs("systemd-socket-activate", "curl")
def test_socket_activation(site):
    port = free_port()
    with subprocess.Popen(["systemd-socket-activate", "-l", f"127.0.0.1:{port}", BIN, "serve", str(site)], stdin=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as server:
        try:
            end = time.monotonic() + 30
            while curl(f"http://127.0.0.1:{port}/hello.txt", status=None) != TEXT:
                assert time.monotonic() < end
        finally:
            server.terminate()
            assert server.wait(60) == 0


@needs("zbarimg", "script")
def test_the_code_for_a_phone(site, tmp_path):
    """A camera reads the printed address from the terminal."""
    typed = subprocess.Popen(["script", "-qfec", f"timeout -s INT 3 {BIN} -p 0 --public {site}", tmp_path / "typed"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm"})
    typed.wait(60)
    text = re.sub(r"\x1b\[[0-9;]*m", "", (tmp_path / "typed").read_text(errors="replace"))
    lines = [line.rstrip("\r") for line in text.splitlines() if re.search("[\u2580\u2584\u2588]", line)]
    if not lines:
        pytest.skip("this rung was built without libqrencode, or there is no address of the network")
    dots = [[(char in "\u2580\u2588", char in "\u2584\u2588") for char in line] for line in lines]
    rows = [[pair[half] for pair in line] for line in dots for half in (0, 1)]
    wide, edge, zoom = max(len(row) for row in rows) + 8, 4, 8
    white = [[0] * wide] * edge
    bits = [*white, *([0] * edge + [int(bit) for bit in row] + [0] * (wide - edge - len(row)) for row in rows), *white]
    picture = "\n".join(" ".join(str(bit) for bit in row for _ in range(zoom)) for row in bits for _ in range(zoom))
    (tmp_path / "code.pbm").write_text(f"P1\n{wide * zoom} {len(bits) * zoom}\n{picture}\n")
    read = run("zbarimg", "-q", "--raw", tmp_path / "code.pbm").split()[-1]  # it may complain of what it lacks, first
    assert read.startswith("http://") and read.rstrip("/") in text
