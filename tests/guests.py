# SPDX-License-Identifier: MIT
"""guests.py - the layers that run inside a guest: modules are built, a Debian kernel boots, and pytest runs in it; a kernel
that finds faults is slow and runs one small program.

One boot runs many tests; they are counted one by one, from the report that the guest writes to a shared folder.  The
guest sees this machine's files and cannot change them (lab/vm/boot --root /).  If its kernel complains of the module,
the layer has failed, whatever the tests report; if the guest dies, the last tests that it began are named.
"""
import glob
import json
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lab"))
import engines
import faults
from faults import MODELS
from layer import compiled_once, seats
from reports import ended, junit, note_pytest
from rig import Broken, text_of
from vm import guest, kernel

PYTHON = "/usr/bin/python3"
PLANTED = "tests/planted"
IDLE = "tests/kernel/test_idle.py"
SENDER = "tests/kernel/test_sender.py"
DEBUG = tuple(name for name in kernel.BUILT if name.startswith("debug-"))  # the kernels with KASAN and fault injection
MEMORY_MIB = dict.fromkeys(DEBUG, 3072)  # KASAN keeps freed memory, and needs shadow memory
MEMORY_IDLE_MIB = 4096
MEMORY_OTHERS_MIB = 2048
VERSIONS = tuple(kernel.PACKAGES)
AT_A_TIME = 4  # tests, which mostly wait
PROGRAMS = {name: f"tests/kernel/{name}.py" for name in ("churn", "nomem", "drops")}
# {what: (folder, pytest's arguments, tests at a time, words for a stock kernel)}.  The life of a module runs on its own,
# with an allocator that records which code asked for what, checks its objects' edges and fills freed objects (left.py).
# Its kernel preempts everywhere, so that a work item and the thread that waits for it meet in more orders; in the other
# layers the kernel preempts as Debian's does by default.  The short life is the part that takes a minute: `make check-all`
# runs it each time.
STRICT = "slub_debug=FZPU preempt=full"
WHAT = {"life": ("tests/kernel", ["--ignore", IDLE], 0, STRICT),
        "short life": ("tests/kernel", ["--ignore", IDLE, "--ignore", SENDER, "-m", "not long"], 0, STRICT),
        "idle": (IDLE, [], 0, ""),
        "sender": (SENDER, [], 0, ""),
        "wire": ("tests/wire", [], AT_A_TIME, ""),
        "core": ("tests/wire", ["-m", "core"], AT_A_TIME, ""),
        "short core": ("tests/wire", ["-m", "core and not any_engine"], AT_A_TIME, ""),
        "drop": ("tests/drop/test_module.py", ["tests/drop/test_choice.py", "tests/drop/test_rights.py"], 0, ""),
        **{what: (path, [], 0, "slub_debug=FZPU") for what, path in PROGRAMS.items()}}
# The kernel's own modules that tests need: file systems that hang, and that change unseen; a list of listeners; a cable.
WANTED = dict.fromkeys(("life", "short life"), ("fuse", "nfsd", "nfsv4", "tcp_diag", "veth"))
# TLS, and the ciphers that it asks for: a guest has no modprobe.
TLS = ("tls", "gcm", "ctr", "aesni_intel", "ghash_clmulni_intel", "chacha20poly1305", "chacha_x86_64", "poly1305_x86_64")
KTLS = ["tests/wire/test_ktls.py", "tests/wire/test_ktls_last.py"]
LOG = "log_buf_len=4M"  # for tests that unload a module a thousand times: each time it logs a line, and none may be lost
FEW_CYCLES = "10"
# Times that a module is loaded and unloaded: a thousand where that takes five minutes, not fifteen.
DEEP_CYCLES = {name: "100" if name in DEBUG else "1000" for name in kernel.BUILT}
SEATS = 3  # of a guest that runs next to other layers (layer.py): two emulated processors that are seldom busy
SLOW = dict.fromkeys(kernel.BUILT, 10)  # times as slow as a stock kernel
TEST_S = 300  # for a test that hangs
LIMIT_S = dict.fromkeys(kernel.BUILT, 5400)
LIMIT_OTHERS_S = 2400
# A kernel says this if it boots while the machine is too busy to give it a whole millisecond.  Its clock then runs many
# times too fast, and it complains of stalls that the emulator causes.
MISTIMED = re.compile(r"tsc: PIT calibration deviates")


def slow(version):
    """How many times as long as usual a bounded time may be; RUNG_SLOW gives the factor for a machine that does other work."""
    return float(os.environ.get("RUNG_SLOW") or 1) * SLOW.get(version, 1)


def cache(layer):
    return os.environ.get("RUNG_VM") or os.path.join(layer.build, "vm")


def built(layer, version, *more):
    """The folder of the modules for that kernel, those of more folders next to them; None if the layer already has the reason."""
    if reason := guest.missing():
        layer.skip(f"Linux {version}", reason)
        return None
    argv = [PYTHON, "-B", "lab/vm/build", "--kernel", version, "--build", layer.build, "--cache", cache(layer), *more]
    status, output = layer.once(argv, 900)
    if status == 77:
        layer.skip(f"Linux {version}", output.strip().split("\n")[-1])
    elif status != 0:
        layer.fail(f"modules for Linux {version} ({ended(status)})", output)
    return os.path.join(layer.build, f"kernel-{version}/kernel") if status == 0 else None


def sources(short):
    """A layer's job: core/ and kernel/ as modules, and the site's unit tests in a guest.  If it is short, the modules are those that
    other layers boot; otherwise they are compiled with the installed headers, too."""
    def job(layer):
        name = "core/ and kernel/ compile and link under Kbuild"
        if short and not guest.missing():
            modules = built(layer, VERSIONS[0])
            if modules:
                layer.ok(name)
        else:
            modules = f"{layer.build}/kernel/kernel"
            layer.single(name, ["scripts/kernel-compile", layer.build], 300)
        if modules:
            layer.single("no circles of files in the modules (cycles.py)", [PYTHON, "tests/cycles.py", os.path.dirname(modules)], 60)
        layer.make("twins")
        layer.single("the kernel's site passes the server's unit tests", [PYTHON, "tests/kernel/ksite.py", layer.build], 600)
    return job


def booted(layer, version, tests, append):
    """Runs tests in a guest: (the shared folder, the guest's result or None, why it died or None).  Modules
    that the tests do not load themselves are loaded before."""
    folder = tempfile.mkdtemp(prefix="rung-share-")
    with open(f"{folder}/job.json", "w", encoding="utf-8") as file:
        json.dump(tests, file)
    job = guest.Job(f"cd '{os.getcwd()}' && exec {PYTHON} -B tests/kernel/inside.py", share=folder, root="/", cpus=2,
                    memory_mib=MEMORY_IDLE_MIB if IDLE in tests["paths"] else MEMORY_MIB.get(version, MEMORY_OTHERS_MIB),
                    limit_s=LIMIT_S.get(version, LIMIT_OTHERS_S), append=f"{append} {LOG}",
                    modules=tuple(tests.get("modules", ())))
    try:
        result = guest.boot(job, kernel.fetch(version, cache(layer)))
    except Broken as error:
        layer.log(f"--- guest: {error}")
        return folder, None, str(error)
    layer.log(f"--- guest: status {result.status}, {result.seconds:.1f} s\n{result.output}\n--- console\n"
              f"{result.console}")
    return folder, result, None


def complaints(folder, result):
    """Lines that the kernel should not have logged: on its console, and as the guest itself found them."""
    inside = text_of(f"{folder}/complaints").split("\n") if os.path.exists(f"{folder}/complaints") else []
    return list(dict.fromkeys([*(result.complaints if result else []), *filter(None, inside)]))


def note_program(layer, folder, result):
    """Notes the findings of a program, chapter by chapter; returns the chapters."""
    if not os.path.exists(f"{folder}/found.json"):
        layer.fail(f"the program ({ended(result.status)})", result.output)
        return []
    with open(f"{folder}/found.json", encoding="utf-8") as file:
        chapters = json.load(file)
    for name, fault, figures, _ in chapters:
        if fault:
            layer.fail(name, fault)
        else:
            layer.ok(name)
            layer.said.append(f"{layer.name}: {name}: {figures}")
    return chapters


# A file with this line asks a process of user space for something: the module skips all of its tests.
USERSPACE = re.compile(r"^pytestmark = \[?pytest\.mark\.userspace\(", re.M)


def for_modules(args):
    """The wire tests' files that have a test for the module: an emulated processor takes minutes to read them all."""
    for path in sorted(glob.glob("tests/wire/test_*.py")):
        text = text_of(path)
        if not USERSPACE.search(text) and (not args or "mark.core" in text):
            yield path


def compiled(layer, paths, args):
    """The environment in which a guest finds the tests, and all that they import, compiled by this machine."""
    env = {**compiled_once(layer), "RUNG_BIN": os.path.join(layer.build, "release", "rung")}
    layer.command([PYTHON, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "-o", "addopts=", *args, *paths], 120, env)
    return {"PYTHONPYCACHEPREFIX": os.path.abspath(env["PYTHONPYCACHEPREFIX"])}


def inside(version, model, what):
    """A layer's job: these tests, in a guest with that kernel, of the modules with that model."""
    path, args, processes, append = WHAT[what]

    def job(layer):
        layer.row = ("kernel " + (model or what), f"Linux {version}: {what}")
        modules = built(layer, version)
        if not modules or not layer.make("all"):
            return
        paths = list(for_modules(args)) if path == "tests/wire" else [path]
        env = {"RUNG_ENGINE": "kernel", "RUNG_MODULES": modules, "RUNG_ARGS": f"model={model}",
               "RUNG_BIN": os.path.join(layer.build, "release", "rung"),
               "RUNG_CYCLES": FEW_CYCLES if what == "short life" else
                              os.environ.get("RUNG_CYCLES") or DEEP_CYCLES.get(version, ""),
               "RUNG_NTH_STEP": os.environ.get("RUNG_NTH_STEP") or "",
               "RUNG_SLOW": f"{slow(version):g}", "PYTEST_TIMEOUT": f"{TEST_S * slow(version):g}"}
        if what not in PROGRAMS:
            env |= compiled(layer, paths, args)
        tests = {"paths": paths, "args": args, "processes": processes, "env": env, "program": PROGRAMS.get(what),
                 "modules": WANTED.get(what, ())}
        if what == "drop":
            tests["modules"] = [f"{modules}/rung_drop.ko", "tcp_diag", "unix_diag"]
            env |= {"RUNG_DROP": os.path.join(layer.build, "release", "rung-drop"), "RUNG_DROP_THROUGH": "module",
                    "RUNG_DROP_KO": f"{modules}/rung_drop.ko"}
        folder, result, died = booted(layer, version, tests, append)
        chapters = []
        if died:
            layer.fail("the guest died", died)
        elif what in PROGRAMS:
            chapters = note_program(layer, folder, result)
        else:
            outcome = (junit(f"{folder}/report.xml"), result.status, result.output)
            note_pytest(layer, outcome, lambda: junit(f"{folder}/again.xml"))
        if version in kernel.BUILT and result and MISTIMED.search(result.console):
            layer.fail("the guest's clock goes wrong, so nothing is kept of it: run it again when the machine is less busy")
            return
        heard = complaints(folder, result)
        for line in heard:
            layer.fail(f"the kernel complains: {line[:160]}", line)
        if (version, what, model) in faults.cells():
            if what not in PROGRAMS and not died:
                chapters = [["life", " ".join(layer.failed), "", {"tests": len(layer.passed), "seconds": round(result.seconds)}]]
            heard += [f"the guest died: {died}"] if died else [] if chapters else ["the program has ended before its end"]
            faults.keep(faults.row((version, what, model), kernel.fetch(version, cache(layer)).release, chapters, heard))
        kept = os.path.join(layer.build, "log", layer.name.replace(" ", "-"))
        shutil.rmtree(kept, ignore_errors=True)
        shutil.move(folder, kept)
    return job


def ktls(version, engine, args=""):
    """A layer's job: the server of user space with that engine, whose records the guest's kernel makes.  With options for every
    server: the core wire tests; without: those of --ktls."""
    def job(layer):
        layer.row = (f"ktls {engine}", f"Linux {version}: {'wire' if args else 'ktls'}")
        if reason := guest.missing():
            layer.skip(f"Linux {version}", reason)
            return
        if not layer.make("all"):
            return
        env = {"RUNG_ENGINE": engine, "RUNG_ARGS": args, "RUNG_BIN": os.path.join(layer.build, "release", "rung"),
               "RUNG_SLOW": f"{slow(version):g}", "PYTEST_TIMEOUT": f"{TEST_S * slow(version):g}"}
        paths, marks = (["tests/wire"], ["-m", "core"]) if args else (KTLS, [])
        tests = {"paths": paths, "args": marks, "processes": AT_A_TIME, "env": {**env, **compiled(layer, paths, marks)}, "modules": TLS}
        folder, result, died = booted(layer, version, tests, "")
        if died:
            layer.fail("the guest died", died)
        else:
            note_pytest(layer, (junit(f"{folder}/report.xml"), result.status, result.output), lambda: junit(f"{folder}/again.xml"))
        for line in complaints(folder, result):
            layer.fail(f"the kernel complains: {line[:160]}", line)
        kept = os.path.join(layer.build, "log", layer.name.replace(" ", "-"))
        shutil.rmtree(kept, ignore_errors=True)
        shutil.move(folder, kept)
    return job


def planted(version):
    """The test of the tests, run outside: a guest for each fault."""
    def job(layer):
        modules = built(layer, version, PLANTED)
        if not modules:
            return
        report = os.path.join(layer.build, "log", layer.name.replace(" ", "-") + ".xml")
        env = {"RUNG_PLANTED": os.path.join(os.path.dirname(modules), "planted"), "RUNG_KERNEL": version,
               "RUNG_CACHE": cache(layer)}
        argv = [PYTHON, "-B", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--junitxml", report, PLANTED]
        status, output = layer.command(argv, 3600, env)
        note_pytest(layer, (junit(report), status, output), dict)
    return job


def newest(layer):
    layer.single("core/ and kernel/ compile for the newest kernel", [PYTHON, "-B", "lab/vm/newest", "--build", layer.build,
                                                                     "--cache", cache(layer)], 600)


def dkms(layer):
    """DKMS builds the modules from the output of `make dkms`, for a kernel that is not this machine's."""
    if not shutil.which("dkms"):
        layer.skip("dkms", "it is not installed")
        return
    place = os.path.join(layer.build, "dkms")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(f"{place}/state")
    try:
        headers, release = (kernel.headers(VERSIONS[0], cache(layer)), kernel.fetch(VERSIONS[0], cache(layer)).release)
    except Broken as error:
        layer.skip("dkms", str(error))
        return
    if not layer.make("dkms", DESTDIR=place):
        return
    source = glob.glob(f"{place}/usr/src/rung-*")[0]
    trees = ["--dkmstree", f"{place}/state", "--sourcetree", f"{place}/usr/src"]
    named = ["-m", "rung", "-v", source.rpartition("-")[2]]
    layer.single("dkms add", ["dkms", "add", *trees, *named], 60)
    layer.single(f"dkms build for {release}", ["dkms", "build", *trees, *named, "-k", release, "--kernelsourcedir", headers],
                 600)


def built_kernel(version):
    """Builds a kernel that finds faults; that takes as long as everything else together."""
    def job(layer):
        layer.single(f"Debian's source built to find faults: {version}",
                     ["scripts/debug-kernel", *version.split("-"), cache(layer)], 7200)
    return job


# shows K06
def rows():
    """(name, its plans, job): of those that boot modules, `make check` has two that tell most, `make check-kernel` all."""
    both, deep, debug = ("all", "kernel"), ("kernel",), ("debug-kernel",)
    found = [("kernel short", ("check",), seats(SEATS, sources(True))), ("kernel", ("all",), seats(SEATS, sources(False)))]
    for version in VERSIONS:
        later = version != VERSIONS[0]
        found.append((f"kernel {version} planted", deep if later else both, seats(SEATS, planted(version))))
        found.append((f"kernel {version} drop", deep, seats(SEATS, inside(version, "", "drop"))))
        for model in MODELS:
            found.append((f"kernel {version} life {model}", (*deep, *debug), seats(SEATS, inside(version, model, "life"))))
            if not later and model == MODELS[0]:
                found += [(f"kernel {version} {what} {model}", plans, seats(SEATS, inside(version, model, what)))
                          for what, plans in (("short core", ("check",)), ("core", ("all",)), ("short life", ("all",)))]
            if later and model == MODELS[1]:
                found.append((f"kernel {version} sender {model}", ("check", "all"), seats(SEATS, inside(version, model, "sender"))))
            what = "wire" if not later and model in MODELS[:2] else "core"
            found.append((f"kernel {version} {what} {model}", deep, seats(SEATS, inside(version, model, what))))
            if model in MODELS[:2]:
                found.append((f"kernel {version} idle {model}", deep, inside(version, model, "idle")))
        for engine in engines.rows():
            if engine.serves and (not later or engine.name in ("epoll", "uring")):
                plans = both if not later and engine.name == "epoll" else deep
                found.append((f"kernel {version} ktls {engine.name}", plans, seats(SEATS, ktls(version, engine.name))))
    found += [(f"kernel {VERSIONS[0]} ktls wire {name}", deep, seats(SEATS, ktls(VERSIONS[0], name, "--tls self --ktls always")))
              for name in ("epoll", "thread")]
    found += [("kernel dkms", deep, dkms), ("kernel newest", deep, newest)]
    for version in kernel.BUILT:
        found.append((f"{version} build", debug, built_kernel(version)))
        found.append((f"{version} planted", debug, planted(version)))
        found += [(f"{version} {what} {model}".strip(), debug, inside(version, model, what))
                  for what, models in faults.programs(version).items() for model in models]
    return found
