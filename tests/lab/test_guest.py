# SPDX-License-Identifier: MIT
"""lab/vm and kind_guest.py: what is put into a guest and how its output is read; and, marked long, guests that boot."""
import gzip
import json
import lzma
import os
import stat
import struct
import subprocess
import sys
import types
import zlib

import kind_guest
import measures
import peers
import pytest
import where
from command import TOP
from rig import Broken
from vm import guest, kernel, ticks
from vm.image import Image, libraries

BIN = os.path.dirname(os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung"))
CACHE = os.path.join(os.path.dirname(BIN), "vm")


# --- The image ----------------------------------------------------------------------------------------------

def unpacked(data):
    """{path: (mode, bytes)} of a cpio archive, by its specification."""
    found, at = {}, 0
    while True:
        assert data[at:at + 6] == b"070701" and at % 4 == 0
        mode, size, name_size = (int(data[at + 6 + 8 * field:at + 14 + 8 * field], 16) for field in (1, 6, 11))
        name = data[at + 110:at + 110 + name_size - 1].decode()
        start = -(-(at + 110 + name_size) // 4) * 4
        if name == "TRAILER!!!":
            return found
        found[name] = (mode, data[start:start + size])
        at = -(-(start + size) // 4) * 4


def written(image, path):
    with open(path, "wb") as file:
        image.write(file)
    return path.read_bytes()


def test_an_image_has_what_was_put_into_it(tmp_path):
    image = Image()
    image.put("/srv/deep/a.html", "text")
    image.put("/bin/run", b"\0\1\2", 0o755)
    image.folder("/dev")
    found = unpacked(written(image, tmp_path / "image"))
    assert list(found) == ["bin", "bin/run", "dev", "srv", "srv/deep", "srv/deep/a.html"]  # a folder before its files
    assert found["srv/deep/a.html"] == (stat.S_IFREG | 0o644, b"text") and found["bin/run"] == (stat.S_IFREG | 0o755, b"\0\1\2")
    assert found["srv"] == (stat.S_IFDIR | 0o755, b"")


def test_the_same_files_are_the_same_image(tmp_path):
    texts = []
    for number in range(2):
        image = Image()
        for name in ("ab"[number], "ba"[number]):  # in whatever order
            image.put(f"/{name}", name)
        texts.append(written(image, tmp_path / f"{number}"))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", peers.PEERS)
def test_another_server_is_put_into_it(monkeypatch, name):
    monkeypatch.setattr(Image, "program", lambda *_: None)  # it need not be installed here
    monkeypatch.setattr(peers.shutil, "which", lambda program, **_: f"/usr/sbin/{program}")
    image, told = Image(), []
    command = kind_guest.put_peer(image, types.SimpleNamespace(started=lambda *what: told.append(what)), {"peer": name})
    assert command.startswith(f"/usr/sbin/{peers.PEERS[name].program} ") and "@" not in command + told[0][2]
    assert "127.0.0.1" in told[0][2] and str(kind_guest.PORT) in told[0][2]


def test_a_program_brings_its_libraries():
    image = Image()
    image.program(os.path.join(BIN, "rung"), "/lab/rung")
    assert any(path.endswith("/libc.so.6") for path in image.entries) and any("/ld-linux" in path for path in image.entries)
    assert image.entries["lab/rung"][0] & 0o111 and libraries(__file__) == []


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(Broken, match="/nonexistent/x cannot be put into the guest: No such file"):
        Image().copy("/nonexistent/x")


# --- The kernel ---------------------------------------------------------------------------------------------

def packed(payload, sectors):
    image = bytearray((sectors + 1) * 512)
    image[0x1f1] = sectors
    struct.pack_into("<II", image, 0x248, 64, len(payload))
    return bytes(image) + b"\xcc" * 64 + payload + b"behind it"


@pytest.mark.parametrize("pack", [lzma.compress, lambda data: zlib.compress(data, wbits=31)], ids=["xz", "gzip"])
def test_the_bare_kernel(pack):
    assert kernel.bare(packed(pack(b"\x7fELF and more") + b"size", 27)) == b"\x7fELF and more"


def test_a_kernel_packed_otherwise():
    with pytest.raises(Broken, match="packed in a way unknown here"):
        kernel.bare(packed(b"LZ4?....", 1))


@pytest.fixture
def tree(tmp_path):
    """A kernel whose module c needs b and in_it, and whose b needs a; b is packed."""
    folder = tmp_path / "linux-6.1/lib/modules/6.1.0-9/kernel"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.ko").write_bytes(b"A\0depends=\0name=a\0")
    (folder / "deep/b.ko.xz").write_bytes(lzma.compress(b"B\0depends=a\0name=b\0"))
    (folder / "c-d.ko").write_bytes(b"C\0depends=b,in_it\0name=c_d\0")
    (folder.parent / "modules.builtin").write_text("kernel/in-it.ko\n")
    (tmp_path / "linux-6.1/vmlinux").write_bytes(b"\x7fELF")
    return tmp_path


def test_modules_come_after_what_they_need(tree):
    found = kernel.present("6.1", str(tree))
    assert found.release == "6.1.0-9" and kernel.present("6.12", str(tree)) is None
    assert [name for name, _ in kernel.modules(found, ["c_d", "a"])] == ["a", "b", "c_d"]
    assert dict(kernel.modules(found, ["b"]))["b"].startswith(b"B\0")
    with pytest.raises(Broken, match="Linux 6.1.0-9 has no module nope"):
        kernel.modules(found, ["nope"])


def test_a_module_of_ones_own(tree):
    (tree / "mine.ko").write_bytes(b"M\0depends=a\0")
    order = kernel.modules(kernel.present("6.1", str(tree)), [str(tree / "mine.ko")])
    assert [name for name, _ in order] == ["a", "mine"]


def test_a_kernel_nobody_has(tmp_path):
    with pytest.raises(Broken, match="no kernel 2.4 is known here, but 6.1 and 6.12"):
        kernel.fetch("2.4", str(tmp_path))
    assert os.listdir(tmp_path) == []


# --- What a guest said --------------------------------------------------------------------------------------

def run(answers, seconds, share=0.5, failed=0):
    return json.dumps({"elapsed_s": seconds, "requests": {"answered": answers}, "errors": {"total": failed},
                       "received_bytes": 700 * answers, "generator": {"threads": [{"cpu_share": share}]}})


def said(number, less, more, idle="7 107 207"):
    return f"@ {number} less\n{less}\n@ {number} more\n{more}\n@ {number} idle\n{idle}\n"


def test_a_cell_is_a_long_run_less_a_short_one():
    texts = kind_guest.told(said(0, run(100, 0.01), run(300, 0.02)) + said(12, run(1, 1), run(2, 2)))
    assert set(texts) == {0, 12}
    found = kind_guest.cell_of(texts[0])
    assert found["figures"] == pytest.approx({"instructions": 50000, "client_instructions": 25000, "answer_bytes": 700})


@pytest.mark.parametrize("output, words", [
    (said(0, run(1, 0.1), run(2, 0.2), "0 0 2000000"), "processor rested for 2%"),
    (said(0, run(1, 0.1), run(2, 0.2, failed=3)), "3 requests failed"),
    ("@ 0 why\nthe server does not answer: no luck\n", "does not answer: no luck"),
    ("@ 0 less\n{}\n", "said nothing about it")])
def test_a_cell_that_means_nothing(output, words):
    with pytest.raises(Broken, match=words):
        kind_guest.cell_of(kind_guest.told(output)[0])


def test_the_same_rest_in_both_runs_is_no_rest():
    """The guest may be idle while connections are made, which is before the first request."""
    assert kind_guest.cell_of(kind_guest.told(said(0, run(1, 0.1), run(2, 0.2), "0 5000000 10000000"))[0])


def test_half_a_word_is_no_figure():
    assert isinstance(kind_guest.attempt(kind_guest.told(said(0, run(1, 1), '{"elaps'))[0]), Broken)


def test_a_line_of_the_plan():
    scenario = {"name": "s", "connections": 16, "close": True, "bytes": 100, "args": "close"}
    assert kind_guest.line(3, "/lab/floor 8080 100", {"program": "floor"}, scenario) == \
        "cell 3 '/lab/floor 8080 100 close' 100.html 500 1500 -c 16 -k off"
    assert kind_guest.line(0, "/lab/rung serve", {}, scenario).startswith("cell 0 '/lab/rung serve' ")
    assert " 20/ 500 " in kind_guest.line(0, "x", {}, {"connections": 1, "entries": 20})
    assert " 1024.html 40 1500 " in kind_guest.line(0, "x", {}, {"connections": 1, "bytes": 1024, "short": 40})
    assert " 900.c 500 " in kind_guest.line(0, "x", {}, {"connections": 1, "source": 900})


def test_what_is_asked_for(tmp_path):
    image = Image()
    kind_guest.put_body(image, {"entries": 3})
    kind_guest.put_body(image, {"source": 900})
    found = unpacked(written(image, tmp_path / "image"))
    assert [name for name in found if name.startswith("srv/3/")] == [f"srv/3/file-0000{number}.txt" for number in range(3)]
    assert len(found["srv/900.c"][1]) == 900 and found["srv/900.c"][1].startswith(b"/* SPDX")


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Replaces lab/vm/build with a script that the test writes, in the tree of a build."""
    build = tmp_path / "build"
    (build / "release").mkdir(parents=True)
    (tmp_path / "lab/vm").mkdir(parents=True)
    (tmp_path / "lab/vm/module.sh").write_text("as it is")
    monkeypatch.setattr(kind_guest, "HERE", str(tmp_path / "lab"))
    kind_guest.modules_for.cache_clear()
    yield build, (tmp_path / "lab/vm/build").write_text
    kind_guest.modules_for.cache_clear()


def test_a_module_is_built_for_the_guests_kernel(built):
    build, does = built
    does("import os, sys\nfolder = f'{sys.argv[4]}/kernel-{sys.argv[2]}/kernel'\nos.makedirs(folder)\n"
         "for name in ('rung_core', 'rung_http'): open(f'{folder}/{name}.ko', 'w').write(name + sys.argv[2])\n")
    context, image = measures.Context(str(build / "release"), "/nonexistent", "quick"), Image()
    command = kind_guest.put_target(image, context, {"name": "m", "model": "event", "options": "cache=0"}, "6.12")
    assert command == "sh /lab/module.sh rung_http port=8080 root=/srv model=event idle_timeout=600000 cache=0"
    assert [image.entries[f"lab/{name}"][1] for name in ("rung_core.ko", "rung_http.ko", "module.sh")] == \
        [b"rung_core6.12", b"rung_http6.12", b"as it is"]
    assert context.commands == {"m": command.replace("/lab/", "")}
    kind_guest.put_target(Image(), context, {"name": "n", "model": "softirq"}, "6.12")  # the modules are not built again


def test_a_module_that_cannot_be_built_is_the_targets_own_fault(built):
    build, does = built
    does("print('much'); print('no headers here'); raise SystemExit(77)")
    context = measures.Context(str(build / "release"), "/nonexistent", "quick")
    with pytest.raises(Broken, match="the modules cannot be built for Linux 6.1: no headers here"):
        kind_guest.put_target(Image(), context, {"name": "m", "model": "event"}, "6.1")


@pytest.mark.parametrize("name, part", [
    ("read_fields [rung_core]", "parsing the request"), ("kstamp_valid [rung_http]", "finding the answer"),
    ("outq_take [rung_core]", "writing the head"), ("ready_called [rung_core]", "pump, lists"), ("__schedule", "waiting"),
    ("do_syscall_64", "system calls"), ("memcpy", "copying"), ("user space", "user space"), ("tcp_ack", "TCP, IP")])
def test_whose_a_function_is(name, part):
    assert where.part_of(name).startswith(part)


def test_functions_have_names():
    packed = gzip.compress(b"ffffffff81000100 T one\nffffffff81000000 t none\n"
                           b"ffffffff81000080 D data\nffffffffc0000000 t mine\t[rung_core]\n")
    assert where.names_of(packed) == ([0xffffffff81000000, 0xffffffff81000100, 0xffffffffc0000000],
                                      ["none", "one", "mine [rung_core]"])


def test_where_is_the_difference_of_two_runs(monkeypatch):
    names = [0xffffffff81000000, 0xffffffff81000100], ["none", "tcp_ack"]
    block, user = (0xffffffff81000104, 5), (0x401000, 3)
    runs = iter([({block: 1500, user: 7}, names), ({block: 5500, user: 4007, (0xffffffff81000000, 1): 4000}, names)])
    monkeypatch.setattr(where, "booted", lambda *_: next(runs))
    found = where.functions(None, {}, {})
    assert found == {"tcp_ack": 5, "user space": 3, "none": 1}
    assert where.table({"floor": where.parts(found)}).endswith("| user space | 0 |\n| TCP, IP, sockets and their memory | 10 |")


def test_only_a_guest_that_does_not_count_is_told(monkeypatch):
    monkeypatch.setattr(ticks, "khz", lambda: 2596120)
    assert guest.clock(guest.Job("true")) == ["tsc_early_khz=2596120"] and guest.clock(guest.Job("true", count=True)) == []
    monkeypatch.setattr(ticks, "khz", lambda: None)
    assert guest.clock(guest.Job("true")) == []


def test_without_an_emulator(monkeypatch):
    monkeypatch.setattr(guest, "QEMU", "no-such-emulator")
    with pytest.raises(Broken, match="there is no no-such-emulator: scripts/setup lab installs qemu-system-x86"):
        guest.boot(guest.Job("true"), None)


class Emulator:
    """A program in the emulator's place: its n-th start does the n-th of the given commands, with the serial lines in $c, $o and $s."""

    def __init__(self, tmp_path, monkeypatch, *starts):
        self.count = tmp_path / "count"
        self.count.write_text("")
        (tmp_path / "qemu").write_text(f"""#!/bin/sh
echo >>{self.count}
for word; do case $word in file:*/console) c=${{word#file:}} ;; file:*/output) o=${{word#file:}} ;; file:*/status) s=${{word#file:}} ;; esac; done
case $(wc -l <{self.count}) in
""" + "\n".join(f"{number}) {start} ;;" for number, start in enumerate(starts, 1)) + "\nesac\n")
        (tmp_path / "qemu").chmod(0o755)
        monkeypatch.setattr(guest, "QEMU", str(tmp_path / "qemu"))
        monkeypatch.setattr(guest, "missing", lambda: None)
        monkeypatch.setattr(guest, "furnished", lambda *_: Image())

    def starts(self):
        return self.count.read_text().count("\n")


LINUX = types.SimpleNamespace(image="/nowhere")
DIES, ENDS = "echo 'Oops: int3: 0000' >$c", f"echo '{guest.BEGUN}' >$c; echo 0 >$s; echo so >$o"


def test_a_kernel_that_dies_before_its_first_process_boots_again(tmp_path, monkeypatch):
    emulator = Emulator(tmp_path, monkeypatch, DIES, ENDS)
    assert guest.boot(guest.Job("x"), LINUX).output == "so\n" and emulator.starts() == 2


def test_a_kernel_that_always_dies_is_told(tmp_path, monkeypatch):
    emulator = Emulator(tmp_path, monkeypatch, *[DIES] * guest.BOOTS, ENDS)
    with pytest.raises(Broken, match="before its command; its kernel said: Oops: int3"):
        guest.boot(guest.Job("x"), LINUX)
    assert emulator.starts() == guest.BOOTS


def test_a_guest_that_dies_later_does_not_boot_again(tmp_path, monkeypatch):
    """The job may have killed it."""
    emulator = Emulator(tmp_path, monkeypatch, f"echo '{guest.BEGUN}' >$c; echo 'Oops: 0000' >>$c", ENDS)
    with pytest.raises(Broken, match="Oops: 0000"):
        guest.boot(guest.Job("x"), LINUX)
    assert emulator.starts() == 1


def test_a_kernel_that_hangs_before_its_first_process_boots_again(tmp_path, monkeypatch):
    monkeypatch.setattr(guest, "BOOT_S", 0.5)
    emulator = Emulator(tmp_path, monkeypatch, "exec sleep 100", f"echo '{guest.BEGUN}' >$c; sleep 1; echo 0 >$s", ENDS)
    assert guest.boot(guest.Job("x"), LINUX).status == 0 and emulator.starts() == 2


def test_a_kernel_that_never_begins_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(guest, "BOOT_S", 0.2)
    Emulator(tmp_path, monkeypatch, *["exec sleep 100"] * guest.BOOTS)
    with pytest.raises(Broken, match="the guest did not begin"):
        guest.boot(guest.Job("x"), LINUX)


# --- Guests that boot ---------------------------------------------------------------------------------------

@pytest.fixture(scope="session")
def linux():
    if reason := guest.missing():
        pytest.skip(reason)
    try:
        return kernel.fetch("6.1", CACHE)
    except Broken as error:
        pytest.skip(f"no kernel can be had: {error}")


@pytest.mark.long
def test_a_command_in_a_guest(linux, tmp_path):
    """A command's output and status; a file in the image, a shared folder, a module that it asks for, processors."""
    image = Image()
    image.put("/srv/x", "given")
    job = guest.Job("uname -r; cat /srv/x; nproc; lsmod | grep -c tls; cat /share/in >/share/out; exit 7", image,
                    modules=("tls",), share=str(tmp_path), cpus=2)
    (tmp_path / "in").write_text("shared")
    result = guest.boot(job, linux)
    assert result.output == f"{linux.release}\ngiven2\n1\n" and result.status == 7 and result.complaints == []
    assert (tmp_path / "out").read_text() == "shared"


@pytest.mark.long
def test_a_guest_is_told_how_fast_its_clock_ticks(linux):
    """A second after boot the kernel measures again, more precisely, and says that it refines the figure only if the two are within 1%."""
    said = guest.boot(guest.Job("for i in 1 2 3 4 5 6 7 8; do sleep 1; dmesg | grep -q Refined && break; done; "
                                "dmesg | grep 'tsc: '"), linux).output
    assert "Refined TSC clocksource calibration" in said and "calibrate against" not in said and "reference" not in said, said


@pytest.mark.long
def test_a_guest_with_this_machines_files(linux, tmp_path):
    """The guest cannot change this machine's files."""
    (tmp_path / "file").write_text("as it was")
    result = guest.boot(guest.Job(f"cat {tmp_path}/file; echo new >{tmp_path}/file; exec {sys.executable} -c 'print(6 * 7)'",
                                  root="/"), linux)
    assert (result.status, result.output) == (0, "as it was42\n") and (tmp_path / "file").read_text() == "as it was"


@pytest.mark.long
def test_a_guest_that_hangs_is_ended(linux):
    with pytest.raises(Broken) as told:
        guest.boot(guest.Job("echo here; echo there >/dev/console; sleep 1000", limit_s=15), linux)
    assert "did not end within 15 s" in str(told.value) and "  | there" in str(told.value) and "  | here" in str(told.value)


@pytest.mark.long
def test_a_kernel_that_panics_is_heard(linux):
    with pytest.raises(Broken) as told:
        guest.boot(guest.Job("echo c >/proc/sysrq-trigger"), linux)
    assert "its kernel said: " in str(told.value) and "Kernel panic - not syncing: sysrq triggered crash" in str(told.value)


@pytest.mark.long
def test_the_command(linux):
    assert linux

    def boot(*args):
        done = subprocess.run([f"{TOP}/lab/vm/boot", "--cache", CACHE, *args], stdin=subprocess.DEVNULL, text=True, timeout=200,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        return done.returncode, done.stdout, done.stderr
    assert boot("--count", "echo", "-n", "so;", "exit", "3") == (3, "so", "")
    assert boot("--module", "no_such", "true") == (125, "", f"boot: Linux {linux.release} has no module no_such\n")


@pytest.mark.long
def test_two_boots_count_the_same(linux):
    """With one seed the counts are equal to the instruction, whatever else this machine does.  With another seed they are nearly
    equal, because data is placed elsewhere in the guest's memory (six seeds were 1.2 % apart)."""
    assert linux
    context = measures.Context(BIN, "/nonexistent", "quick")
    cells = [({"name": "epoll", "engine": "epoll"}, {"name": "s", "connections": 16}),
             ({"name": "gone", "engine": "no-such"}, {"name": "s", "connections": 16})]
    (one, bad), (two, _), (again, _) = (kind_guest.measure_all(context, number, cells) for number in (0, 1, 0))
    assert not any(isinstance(each, Broken) for each in (one, two, again)), (one, two, again)
    first, second, third = (each["figures"]["instructions"] for each in (one, two, again))
    assert first == third and first == pytest.approx(second, rel=0.02) and 20000 < first < 200000
    assert first != second  # the seed has moved some data
    assert isinstance(bad, Broken) and "no-such" in str(bad)


@pytest.mark.long
def test_a_module_is_a_server_among_others(linux):
    """The module is loaded for its own cell alone: the next cell finds the port free.  A module that does not load says why."""
    assert linux
    cells = [({"name": name, "model": model, "options": options}, {"name": "s", "connections": 16})
             for name, model, options in (("one", "event", ""), ("bad", "no-such", ""), ("two", "softirq", "cache=1000000"))]
    one, bad, two = kind_guest.measure_all(measures.Context(BIN, "/nonexistent", "quick"), 0, cells)
    assert not isinstance(one, Broken) and not isinstance(two, Broken), (one, two)
    assert 20000 < two["figures"]["instructions"] < one["figures"]["instructions"] < 60000
    assert isinstance(bad, Broken) and "does not answer" in str(bad) and "model" in str(bad)


@pytest.mark.long
def test_where_instructions_go(linux, monkeypatch):
    """Each instruction has an owner: their sum is the number that counting finds between the same answers of a run (the floor
    takes 4 % fewer between later ones).  Neither method waits for this machine, so its load changes nothing."""
    assert linux
    monkeypatch.setattr(kind_guest, "ANSWERS", where.ANSWERS)
    scenario, context = {"name": "s", "connections": 16, "args": "keep"}, measures.Context(BIN, "/nonexistent", "quick")
    found = where.functions(context, {"name": "floor", "program": "floor", "args": "1024"}, scenario)
    (cell,) = kind_guest.measure_all(context, 0, [({"name": "floor", "program": "floor", "args": "1024"}, scenario)])
    assert sum(found.values()) == pytest.approx(cell["figures"]["instructions"], rel=0.005)
    assert found["tcp_ack"] > 500 and found[where.USER] > 800 and not any("[rung" in name for name in found)


@pytest.mark.long
def test_a_guest_with_work_of_its_own_counts_nothing(linux, monkeypatch):
    """Other work in the guest would be counted, too: for example a kernel that is still testing its ciphers."""
    assert linux
    boot = guest.boot

    def busy(job, chosen):
        job.command = "while :; do :; done &\n" + job.command.replace(". /lab/count.sh", ". /lab/count.sh; TRIES=3")
        return boot(job, chosen)
    monkeypatch.setattr(guest, "boot", busy)
    (cell,) = kind_guest.measure_all(measures.Context(BIN, "/nonexistent", "quick"), 0,
                                     [({"name": "epoll", "engine": "epoll"}, {"name": "s", "connections": 16})])
    assert isinstance(cell, Broken) and str(cell) == "the guest has work of its own that does not end"
