# SPDX-License-Identifier: MIT
"""Other servers: each one that is installed starts, sends the file, has all its processor time counted, and leaves nothing behind."""
import os
import re
import signal
import socket
import time

import peers
import pytest
import rig

REASONS = peers.available()
INSTALLED = [pytest.param(name, marks=pytest.mark.skipif(bool(reason), reason=reason or "")) for name, reason in REASONS.items()]
VARIANTS = ("nginx-default", "nginx-sendfile", "nginx-opened", "nginx-sendfile-opened", "apache-default")
PROGRAMS = [one for one in INSTALLED if one.values[0] not in VARIANTS]
nginx = pytest.mark.skipif(bool(REASONS["nginx-tuned"]), reason="nginx is not installed")
apache = pytest.mark.skipif(bool(REASONS["apache-tuned"]), reason="Apache is not installed")


@pytest.fixture
def folder(tmp_path):
    rig.make_folder(tmp_path)
    return tmp_path


def nothing_is_left(server):
    """No process of its group, no listener on its port and no file is left."""
    assert not peers.living(server.process.pid)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", server.port))
        probe.listen()
    assert not os.path.exists(server.scratch.name)


def wait_for(condition):
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


def asks(server, connections=20, each=50):
    for _ in range(connections):
        client = rig.Client(server.port)
        for _ in range(each):
            client.ask()
        client.close()


@pytest.mark.parametrize("name", INSTALLED)
# shows U50
def test_it_serves_and_is_paid_for(name, folder):
    """stop() returns the time of the workers, too: the master has waited for each of them."""
    with peers.Peer(name, folder, processors=sorted(os.sched_getaffinity(0))[:1]) as server:
        peers.check_file(name, server.port, folder, "index.html")
        assert "@" not in re.sub(r"#.*", "", server.config_text).replace("webmaster@localhost", "")
        assert server.command[0].startswith("/") and str(server.port) in server.config_text
        assert server.scratch.name not in f"{server.command} {server.config_text}"
        before_ns = rig.cpu_ns(server.pid)
        asks(server)
        used_ns = rig.cpu_ns(server.pid)
        usage = server.stop()
        assert used_ns - before_ns > 1e6
        assert 0.95 * used_ns < (usage.ru_utime + usage.ru_stime) * 1e9 < 1.5 * used_ns + 0.1e9
    nothing_is_left(server)


@pytest.mark.parametrize("name", INSTALLED)
def test_it_is_ended_without_being_asked(name, folder):
    with pytest.raises(KeyError), peers.Peer(name, folder) as server:
        raise KeyError
    nothing_is_left(server)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_port_taken(name, folder, monkeypatch):
    """Another port is tried; the program that listens at the first one is never measured."""
    found = []
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        taken, real = stranger.getsockname()[1], peers.free_port

        def port():
            found.append(real() if found else taken)
            return found[-1]
        monkeypatch.setattr(peers, "free_port", port)
        with peers.Peer(name, folder) as server:
            assert server.port == found[1] != taken
            peers.check_file(name, server.port, folder, "index.html")


@nginx
def test_every_port_taken(folder, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        monkeypatch.setattr(peers, "free_port", lambda: stranger.getsockname()[1])
        monkeypatch.setattr(peers, "PORTS_TRIED_MAX", 1)
        with pytest.raises(rig.Broken, match="nginx-tuned did not start: somebody else took each of 1 ports"):
            peers.Peer("nginx-tuned", folder)


@pytest.mark.parametrize("name", PROGRAMS)
def test_killed_while_measured(name, folder):
    with peers.Peer(name, folder) as server:
        os.kill(server.pid, signal.SIGKILL)
        wait_for(lambda: not rig.text_of(f"/proc/{server.pid}/cmdline"))
        with pytest.raises(rig.Broken, match=f"{name} (ended while it was measured, with|left with) -9"):
            server.stop()
    nothing_is_left(server)


@nginx
@apache
@pytest.mark.parametrize("name", ["nginx-tuned", "apache-tuned"])
def test_a_worker_killed_while_measured(name, folder):
    """The master starts another worker, so the figures are not of one server."""
    with peers.Peer(name, folder) as server:
        before = rig.children(server.pid)
        os.kill(before[0], signal.SIGKILL)
        wait_for(lambda: not set(before) & set(rig.children(server.pid)))
        with pytest.raises(rig.Broken, match=f"a worker of {name} died while it was measured: .*(9|killed)"):
            server.stop()
    nothing_is_left(server)


@nginx
def test_a_configuration_that_is_wrong(folder, monkeypatch, tmp_path):
    config = tmp_path / "wrong.conf"
    config.write_text("warp_speed on;\n")
    monkeypatch.setitem(peers.PEERS, "nginx-tuned", peers.PEERS["nginx-tuned"]._replace(config=str(config)))
    with pytest.raises(rig.Broken, match='nginx-tuned did not start: .*unknown directive "warp_speed"'):
        peers.Peer("nginx-tuned", folder)


def test_missing(folder, monkeypatch):
    monkeypatch.setattr(peers, "PATH", str(folder))
    assert peers.available() == {
        name: f"{one.program} is not installed (Debian's package {one.package}; scripts/setup lab)"
        for name, one in peers.PEERS.items()}
    with pytest.raises(rig.Broken, match="h2o is not installed"):
        peers.Peer("h2o", folder)


@nginx
def test_bytes_that_differ(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "index.html").write_bytes(b"x" * (rig.BODY_BYTES - 1) + b"y")
    (folder / "more.bin").write_bytes(b"more")
    with peers.Peer("nginx-tuned", folder) as one, peers.Peer("nginx-sendfile", folder) as two, \
            peers.Peer("nginx-default", other) as three:
        said = peers.same_bytes({"one": one, "two": two}, ["/index.html", "/more.bin", "/nothing"])
        assert said.startswith("one, two send the same bytes: /index.html (status 200, 1024 bytes, SHA-256 ")
        assert "/more.bin (status 200, 4 bytes" in said
        with pytest.raises(rig.Broken, match="three and one differ in /index.html: status 200, 1024 bytes, SHA-256 "):
            peers.same_bytes({"one": one, "two": two, "three": three}, ["/index.html"])
        with pytest.raises(rig.Broken, match="three sends index.html with status 200, 1024 bytes"):
            peers.check_file("three", three.port, folder, "index.html")
        with pytest.raises(rig.Broken, match="three sends more.bin with status 404"):
            peers.check_file("three", three.port, folder, "more.bin")
        two.stop()
        with pytest.raises(rig.Broken, match="two does not answer /index.html"):
            peers.same_bytes({"one": one, "two": two}, ["/index.html"])


def directives(path):
    """The directives, one a line, without comments and with single spaces."""
    lines = (re.sub(r"#.*", "", line).split() for line in rig.text_of(path).splitlines())
    return {" ".join(words) for words in lines if words and words != ["}"]}


@nginx
@apache
@pytest.mark.parametrize("shipped, ours, changed", [
    ("/etc/nginx/nginx.conf", "nginx-default.conf",
     r"user|pid|error_log|access_log|ssl_|include .*sites-enabled"),
    ("/etc/apache2/apache2.conf", "apache-default.conf",
     r"(DefaultRuntimeDir|PidFile|User|Group|ErrorLog|Include ports|IncludeOptional .*/sites|</?Directory|LogFormat \"%[{h].*"
     r"(referer|agent|common)$|Require all|AllowOverride|Options)")])
# shows S36
def test_default_is_what_debian_ships(shipped, ours, changed):
    said = {line.replace("IncludeOptional ", "IncludeOptional /etc/apache2/") for line in directives(shipped)}
    missing = said - directives(os.path.join(peers.CONFIGS, ours))
    assert not [line for line in missing if not re.match(changed, line)]
