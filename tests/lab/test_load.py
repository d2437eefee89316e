# SPDX-License-Identifier: MIT
"""Kind load: the files that are requested are the files served, whole, and cold where the scenario says so."""
import gzip
import os

import confined
import kind_crowd
import measures
import peers
import pytest
import secure
from command import TOP
from rig import Broken, Cannot

BIN = os.path.dirname(os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung"))


@pytest.fixture
def context(tmp_path):
    return measures.Context(BIN, str(tmp_path), "quick")


def test_files_that_a_full_disk_cut_short_are_never_served(context, monkeypatch):
    names = measures.names_of

    def full(*asked):
        yield names(*asked)[0]
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(measures, "names_of", full)
    with pytest.raises(OSError):
        measures.documents(context, {"files": 3})
    assert not os.listdir(context.folder)
    monkeypatch.setattr(measures, "names_of", names)
    assert len(os.listdir(measures.documents(context, {"files": 3}))) == 4


def test_cold_files_are_asked_for_once(context, monkeypatch):
    asked, generate = [], measures.generate

    def noted(context, argv, *rest):
        asked.append(argv[:2])
        return generate(context, argv, *rest)
    monkeypatch.setattr(measures, "generate", noted)
    monkeypatch.setattr(measures, "filesystem", lambda folder: "ext4")
    target, scenario = {"name": "it", "engine": "epoll"}, {"files": 7, "bytes": 100, "cold": True}
    assert measures.load(context, target, scenario, 5)["figures"]["cpu_us"] > 0
    assert asked == [["-n", "7"], ["-n", "7"]]


@pytest.mark.parametrize("scenario, asked", [
    ({"files": 7}, ["14", "-d"]), ({"files": 7, "once": True}, ["7"]), ({"files": 7, "warm": False}, ["-d"]),
    ({"connections": 30}, ["30", "-d"])])
def test_how_often_a_file_is_asked_for(context, monkeypatch, scenario, asked):
    """Each file is requested twice before measuring, because a server may cache a file on its second request; or once in all."""
    found, generate = [], measures.generate

    def noted(context, argv, *rest):
        found.append(argv[1] if argv[0] == "-n" else argv[0])
        return generate(context, argv, *rest)
    monkeypatch.setattr(measures, "generate", noted)
    assert measures.load(context, {"name": "it", "engine": "epoll"}, {"bytes": 100, **scenario}, 0.05)["figures"]["cpu_us"] > 0
    assert found == asked


def test_a_crawl(context, monkeypatch):
    """Some files are requested before; each of the others is requested at most once, and too few files are reported."""
    found, generate = [], measures.generate
    monkeypatch.setattr(measures, "KNOWN", 10)

    def noted(context, argv, *rest):
        with open(os.path.join(context.folder, "urls"), encoding="utf-8") as file:
            found.append({line.split("/", 3)[3].strip() for line in file})
        return generate(context, ["-n", "20" if len(found) == 1 else str(wanted), *argv[2:]], *rest)
    monkeypatch.setattr(measures, "generate", noted)
    target = {"name": "it", "engine": "epoll"}
    scenario = {"files": 50, "folders": 5, "bytes": 100, "crawl": True, "connections": 4}
    wanted = 40
    assert measures.load(context, target, scenario, 1)["figures"]["cpu_us"] > 0
    assert len(found[0]) == 10 and len(found[1]) == 40 and not found[0] & found[1]
    assert found[0] | found[1] == {f"{number % 5}/file{number}.bin" for number in range(50)}
    wanted = 41
    found.clear()
    with pytest.raises(Broken, match="all 40 files were requested, some twice"):
        measures.load(context, target, scenario, 1)


def test_the_listing_of_a_folder(context):
    target = {"name": "it", "engine": "epoll"}
    many = measures.load(context, target, {"entries": 300}, 0.05)["figures"]["bytes_per_second"]
    assert many > 0 and len(os.listdir(os.path.join(measures.documents(context, {"entries": 300}), "names"))) == 300
    assert measures.load(context, target, {"entries": 30, "files": 3, "once": True}, 0.05)["figures"]["cpu_us"] > 0
    with pytest.raises(Cannot, match="it makes no listing of a folder: status 403"):
        measures.load(context, {**target, "options": "--listing off"}, {"entries": 30}, 0.05)


def test_a_listing_that_lacks_a_name(context, monkeypatch):
    monkeypatch.setattr(peers, "fetch", lambda *_: (200, "identity", b"file-0000.txt file-0002.txt"))
    with pytest.raises(Broken, match="it lists /names/ with status 200, without 1 of its names"):
        measures.listed({"name": "it"}, 1, {"entries": 3}, "/names/")


def test_text_that_is_not_compressed(context, monkeypatch):
    monkeypatch.setattr(measures, "COMPRESSED_S", 0.05)
    target = {"name": "it", "engine": "epoll", "options": "--precompressed off"}
    folder = measures.documents(context, {"gzip": True, "bytes": 5000})
    with measures.open_target(context, target, {}, folder) as server:
        monkeypatch.setattr(peers, "fetch", lambda *_: (200, "identity", b"as it is"))
        with pytest.raises(Cannot, match="it sends text as it is to a client that takes gzip"):
            measures.compressed(target, server.port, folder, "/file.txt")


def test_text_that_is_compressed(context, monkeypatch):
    """The first answers may be uncompressed; the text is compared."""
    folder = measures.documents(context, {"gzip": True, "bytes": 5000})
    with open(os.path.join(folder, "file.txt"), "rb") as file:
        text = file.read()
    assert len(text) == 5000 and len(gzip.compress(text, 1)) < 2500
    answers = iter([(200, "identity", text), (200, "gzip", gzip.compress(text)), (200, "gzip", gzip.compress(text[1:]))])
    monkeypatch.setattr(peers, "fetch", lambda *_: next(answers))
    measures.compressed({"name": "it"}, 1, folder, "/file.txt")
    with pytest.raises(Broken, match="it sends /file.txt with status 200 as gzip, but the decoded text differs"):
        measures.compressed({"name": "it"}, 1, folder, "/file.txt")


@pytest.mark.skipif(peers.available()["nginx-tuned"] is not None, reason="nginx is not installed")
def test_nginx_compresses_where_that_is_measured(context):
    scenario = {"gzip": True, "bytes": 50000, "connections": 2}
    found = measures.load(context, {"name": "nginx", "peer": "nginx-tuned"}, scenario, 0.1)["figures"]
    assert found["bytes_per_second"] / found["per_second"] < 30000
    assert "\n    gzip on;" in context.configs["nginx"]
    context.configs.clear()
    found = measures.load(context, {"name": "nginx", "peer": "nginx-tuned"}, {"bytes": 50000}, 0.05)["figures"]
    assert found["bytes_per_second"] / found["per_second"] > 50000 and "\n    # gzip on;" in context.configs["nginx"]


def test_no_file_is_cold_in_memory(tmp_path, monkeypatch):
    assert measures.filesystem("/dev/shm") in ("tmpfs", "")
    monkeypatch.setattr(measures, "filesystem", lambda folder: "tmpfs")
    with pytest.raises(Broken, match="is memory"):
        measures.forget(str(tmp_path))


class Half:
    """A crowd of clients, of which the server holds every second one."""

    def __init__(self, _port):
        self.clients = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def grow(self, count, _patience_s):
        self.clients += [None] * count
        return True

    def alive(self, _patience_s):
        return len(self.clients) // 2

    def ended(self):
        return 0


def test_who_is_not_held_takes_no_memory(context, monkeypatch):
    bytes_told = iter([{"pss": 1000, "sockets_about": 7}, {"pss": 101000, "sockets_about": 7777}])
    monkeypatch.setattr(kind_crowd, "Crowd", Half)
    monkeypatch.setattr(kind_crowd, "bytes_of", lambda pid: next(bytes_told))
    found = kind_crowd.measure(context, {"name": "it", "engine": "epoll"}, {"clients": 20}, 0)
    assert found == {"figures": {"pss_bytes": 10000, "held": 10}, "limiter": "room for 10 of 20"}


@pytest.mark.parametrize("limit, held", [("1s", 0), ("600s", 20)])
def test_whom_the_server_ends_while_they_rest(context, monkeypatch, limit, held):
    """The server has room for all of them; its idle limit closed some, so the cost of one is unknown."""
    monkeypatch.setattr(kind_crowd, "SETTLE_S", 1.5)
    target = {"name": "it", "engine": "epoll", "options": f"--idle-timeout {limit}"}
    found = kind_crowd.measure(context, target, {"name": "s", "clients": 20}, 0)
    assert found["figures"]["held"] == held and ("pss_bytes" in found["figures"]) == (held == 20)
    assert found["limiter"] == (None if held else "connections that rest are ended: 20 of 20 were, 0 are held")


@pytest.mark.parametrize("cpu_s, busy, waited, pinned, told", [
    (0.95, 0.5, 0, True, "the server's processor"),
    (0.5, 0.8, 0.15, True, "the generator"),
    (0.5, 0.5, 0, True, measures.WAITING),
    (1.1, 0.8, 0.1, False, "the processors, which server and generator share"),
    (0.2, 0.95, 0, False, "the generator"),
    (0.9, 0.4, 0, False, "waiting: the processors that server and generator share were not all busy"),
])
def test_what_the_limit_was(monkeypatch, cpu_s, busy, waited, pinned, told):
    """If the server and the generator share two processors, neither has more than one of them to itself."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    threads = [{"cpu_share": busy, "waited_for_cpu_share": waited}]
    data = {"elapsed_s": 1, "generator": {"threads": threads, "was_the_limit": False}}
    assert measures.limiter(data, cpu_s, [0] if pinned else None) == told


def test_a_group_says_how_often_it_was_full():
    assert confined.reached("17\n") == 17
    assert confined.reached("low 0\nhigh 3\nmax 12\noom 0\noom_kill 0\n") == 12


MEMORY = {"name": "some", "bytes": 1 << 20, "connections": 4, "memory": 16, "load": "--zipf 0", "pinned": False}


@pytest.mark.parametrize("files, again", [(4, False), (48, True)])
def test_files_that_do_not_fit_are_read_again(context, files, again):
    """Each file is asked for once before the measurement, so files that fit are not read from the disk any more."""
    if measures.filesystem(context.folder) in ("tmpfs", "ramfs", ""):
        pytest.skip("the temporary folder is in memory, which has no disk")
    try:
        found = measures.load(context, {"name": "it", "engine": "epoll"}, {**MEMORY, "files": files}, 0.5)["figures"]
    except Cannot as error:
        pytest.skip(str(error))
    assert found["disk_kib"] > 64 if again else found["disk_kib"] < 16, found
    assert not os.path.exists(confined.Memory(1).path)


def test_a_limit_that_limits_nothing_is_noticed(context, monkeypatch):
    monkeypatch.setattr(confined.Memory, "times_full", lambda _: 0)
    with pytest.raises(Broken, match="in 16 MiB, although they are larger|memory cannot be limited|is memory"):
        measures.load(context, {"name": "it", "engine": "epoll"}, {**MEMORY, "files": 48}, 0.1)


@pytest.mark.parametrize("more", [{}, {"close": True, "load": "--resume on"}, {"load": "--http2 --streams 10"}], ids=["kept", "resumed", "http2"])
@pytest.mark.parametrize("target", [{"engine": "epoll"}, {"peer": "nginx-tuned"}, {"peer": "h2o"}], ids=["rung", "nginx", "h2o"])
def test_over_tls(context, target, more, monkeypatch):
    """Every server speaks TLS with the same cipher; one that chooses another one is refused."""
    if reason := peers.available().get(target.get("peer")):
        pytest.skip(reason)
    target, scenario = {"name": "it", **target}, {"bytes": 100, "connections": 2, "tls": True, **more}
    assert measures.load(context, target, scenario, 0.1)["figures"]["cpu_us"] > 0
    monkeypatch.setattr(secure, "CIPHER", "TLS_AES_128_GCM_SHA256")
    with pytest.raises(Broken, match="TLS_AES_256_GCM_SHA384"):
        measures.load(context, target, scenario, 0.1)
