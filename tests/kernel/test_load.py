# SPDX-License-Identifier: MIT
"""Loading: parameters that are right, and can be read; wrong ones, which leave nothing behind; the port."""
import errno
import os
import socket

import left
import pytest
from lib import insmod, module
from lib.client import Wire
from lib.trees import write

HELLO = b"Hello, world\n"


# shows E13, K01
def test_serves(start, site):
    server = start(site)
    for _ in range(3):
        assert server.ask("/hello.txt").body == HELLO
    assert server.ask("/list/").status == 200 and server.ask("/no").status == 404
    stats = server.check_counts()
    assert stats["accepted"] == 5 and stats["answers"] == 5
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        Wire(server.address)
    assert not os.path.exists(os.path.dirname(insmod.STATS.format(server.name, "stats")))
    assert not os.path.exists(f"/sys/module/{server.name}")


@pytest.mark.parametrize("name, value, reads", [
    ("idle_timeout", "4000", "4000"),
    ("head_timeout", "3000", "3000"), ("send_timeout", "2000", "2000"),
    ("min_progress", "1000", "1000"), ("max_body", "0", "0"), ("backlog", "7", "7"),
    ("max_connections", "9", "9"), ("send_bytes", "64", "64"),
    ("recv_bytes", "1", "1"), ("recv_bytes", "16384", "16384"), ("max_active", "1", "1"), ("max_active", "512", "512"),
    ("bind", "::1", "::1"), ("wq", "unbound", "unbound"), ("highpri", "1", "Y"),
    ("listing", "off", "N"), ("hidden", "on", "Y"), ("index", "start.html", "start.html")])
# shows E02, K03, K06, K08
def test_a_parameter_is_taken_and_can_be_read(start, site, name, value, reads):
    server = start(site, f"--{name}={value}")
    assert module.parameter(server.name, name) == reads
    assert [module.parameter(server.name, key) for key in ("port", "root", "model")] == ["0", site, module.MODEL]
    assert server.ask("/hello.txt").body == HELLO


@pytest.mark.parametrize("options, said", [([], False), (["--compress", "on"], True), (["--compress", "on", "--cache", "0"], False)])
# shows K39
def test_the_coding_it_makes(start, site, options, said):
    """`compress` turns the coding on, if there is memory to keep its results."""
    cache = left.text_of(insmod.STATS.format(start(site, *options).name, "cache"))
    assert ("compresses gzip\n" in cache) == said


BAD = [("model", "nonsense"), ("bind", "300.1.1.1"), ("bind", ""), ("port", "70000"), ("port", "x"),
       ("root", "{site}/no"), ("root", "{site}/hello.txt"), ("backlog", "0"), ("head_timeout", "99"), ("head_timeout", "3600001"),
       ("idle_timeout", "86400001"), ("send_timeout", "1"), ("min_progress", "0"), ("max_body", "4294967296"),
       ("max_connections", "-1"), ("send_bytes", "63"), ("send_bytes", "262145"),
       ("recv_bytes", "0"), ("recv_bytes", "16385"), ("max_active", "513"), ("listing", "maybe"), ("wq", "sideways"), ("root", "")]


@pytest.mark.parametrize("name, value", BAD, ids=lambda text: text or "empty")
# shows D18, K02, K04
def test_a_bad_parameter(kernel, site, name, value):
    """An error, a message in the log that names the parameter, and nothing is left behind."""
    value = value.format(site=site)
    kernel.expects("rung_h")
    before = left.at_rest()
    given = {"root": site, "port": 0, **module.ARGS, name: value}
    with pytest.raises(OSError) as told:
        name_loaded = module.load("rung_http", given)
        insmod.unload(name_loaded)
    assert told.value.errno in (errno.EINVAL, errno.ERANGE, errno.ENOENT, errno.ENOTDIR, errno.EADDRNOTAVAIL), told.value
    said = [text for _, text in kernel.records()]
    assert any(name in text or value and value in text or "cannot listen" in text for text in said), said
    assert [one for one in insmod.loaded() if one != "rung_core"] == []
    assert left.more(before) == {}


def test_a_parameter_nobody_knows(kernel, start, site):
    """Linux loads the module anyway and logs a message, which the tests treat as a complaint."""
    kernel.expects("unknown parameter 'colour' ignored")
    start(site, "--colour=blue")
    assert any("unknown parameter 'colour' ignored" in line for line in kernel.complaints())


# shows E02, K02
def test_the_port_is_taken(kernel, start, site):
    """The port is taken by a process, then by another module; then it is free again, though old connections linger."""
    kernel.expects("rung_h")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        before = left.at_rest()
        with pytest.raises(OSError) as told:
            start(site, "--port", holder.getsockname()[1])
        assert told.value.errno == errno.EADDRINUSE
        assert left.more(before) == {}
    first = start(site)
    for _ in range(5):
        assert first.ask("/hello.txt", fields=["Connection: close"]).body == HELLO
    with pytest.raises(OSError) as told:
        start(site, "--port", first.port)
    assert told.value.errno == errno.EADDRINUSE
    assert first.ask("/hello.txt").body == HELLO
    first.stop()
    again = start(site, "--port", first.port)
    assert again.ask("/hello.txt").body == HELLO


# shows K02
def test_two_at_once(start, site, tmp_path):
    """The parameters of one module do not affect the other: they share code, and nothing else."""
    os.chmod(tmp_path, 0o755)
    os.chmod(tmp_path.parent, 0o755)
    write(f"{tmp_path}/hello.txt", b"other\n")
    one, two = start(site), start(tmp_path, "--listing", "off")
    for _ in range(3):
        assert one.ask("/hello.txt").body == HELLO and two.ask("/hello.txt").body == b"other\n"
    assert one.ask("/").status == 200 and two.ask("/").status == 403
    one.stop()
    assert two.ask("/hello.txt").body == b"other\n"
    assert two.check_counts()["accepted"] == 5
