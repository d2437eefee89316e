# SPDX-License-Identifier: MIT
"""measures.py - how a cell of an experiment is measured: a function for each kind.

measure(context, target, scenario, seconds) -> {"figures": {name of figures.py: number}, "limiter": sentence or None,
"percentiles": [[percentile, us], ...] if it has them}.  It raises Broken when what was measured would mean nothing.
Each function starts its own server or program, so that nothing an earlier cell left behind is counted.
"""
import contextlib
import gzip
import importlib
import json
import os
import random
import re
import subprocess
import tempfile
import time

import confined
import far
import secure
from far import Far
from rig import (ENGINE, PATIENCE_S, Broken, Cannot, Crowd, Server, busy, bytes_of, cpu_ns, disk_bytes, each_file, end_with_us, family,
                 field_kib, make_folder, scheduled, text_of, used_s)

PERCENTILES = {"p50": 50, "p75": 75, "p90": 90, "p99": 99, "p99_9": 99.9, "p99_99": 99.99, "max": 100}
LATENCIES = {"p50_us": "p50", "p90_us": "p90", "p99_us": "p99", "p999_us": "p99_9", "max_us": "max", "mean_us": "mean"}
BUSY = 0.9   # share of its processors' time from which on they count as the limit
WAITING = "waiting: neither processor was busy"
REST_S, SETTLE_S = 2, 0.2
BYTES = 1024
COMPRESSED_S = 0.5  # longest wait for compressed text from a server that compresses on the fly
QUIET_S, QUIET_NS = 0.05, 1_000_000  # a family that used no more than QUIET_NS in QUIET_S is asleep
KNOWN = 10_000  # files requested before a crawl
COUNT_ROUNDS = 20  # rounds of a counted program's work


class Context:
    """Where things are; `commands` and `configs` are what the targets were started with, for the result."""

    def __init__(self, binaries, folder, pace, seconds=1):
        self.rung, self.load = os.path.join(binaries, "rung"), os.path.join(binaries, "rung-load")
        self.programs, self.folder = os.path.join(binaries, "lab"), folder
        self.pace, self.seconds = pace, seconds
        self.commands, self.configs = {}, {}

    def started(self, target, argv, config=None):
        """Record the command, without this machine's paths and with the variables added to its environment."""
        env = ["env", *(f"{name}={value}" for name, value in target.get("env", {}).items())] if target.get("env") else []
        said = " ".join([*env, *argv]).replace(self.folder, "FOLDER")
        for folder in (os.path.dirname(self.rung), os.path.dirname(os.path.dirname(self.rung))):
            said = said.replace(folder + "/", "")
        self.commands.setdefault(target["name"], said)
        if config:
            self.configs.setdefault(target["name"], config.replace(self.folder, "FOLDER"))


# --- Files and servers -------------------------------------------------------------------------------------

def documents(context, scenario):
    """A folder with index.html and the files that a scenario asks for.  It is made once, whole or not at all: server and
    generator would agree on files that a full disk had cut short."""
    size, count = scenario.get("bytes", BYTES), scenario.get("files", 1)
    more = f"-{scenario['entries']}-names" if "entries" in scenario else "-text" if scenario.get("gzip") else ""
    more += f"-in-{scenario['folders']}" if "folders" in scenario else ""
    folder = os.path.join(context.folder, f"{size}x{count}{more}")
    if not os.path.isdir(folder):
        with tempfile.TemporaryDirectory(dir=context.folder) as scratch:
            made = os.path.join(scratch, "made")
            os.mkdir(made)
            make_folder(made)
            for number in range(scenario.get("folders", 0)):
                os.mkdir(os.path.join(made, str(number)))
            for name in paths_of(scenario):
                make_one(os.path.join(made, name), scenario)
            os.rename(made, folder)
    return folder


def make_one(path, scenario):
    """A folder with `entries` names, or a file of `bytes` bytes, either text or random."""
    if "entries" in scenario:
        os.mkdir(path)
        for name in entries_of(scenario):
            os.close(os.open(os.path.join(path, name), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        return
    size, chance = scenario.get("bytes", BYTES), random.Random(os.path.basename(path))
    with open(path, "wb") as file:
        file.write(text_of_words(chance, size) if scenario.get("gzip") else chance.randbytes(min(size, 1 << 24)))
        if size > 1 << 24:
            file.truncate(size)  # a file larger than 16 MiB ends in a hole: no server compresses it


def entries_of(scenario):
    return [f"file-{number:04}.txt" for number in range(scenario["entries"])]


def text_of_words(chance, size):
    """Random words, some of them more frequent, as in a language: gzip shrinks the text to a third."""
    words = ["".join(chance.choices("etaoinshrdlucmfwypvbgk", k=chance.randint(2, 9))) for _ in range(400)]
    weights = [1 / place for place in range(1, len(words) + 1)]
    return " ".join(chance.choices(words, weights, k=size)).encode()[:size]


def form_of(scenario):
    """The pattern of the names, with {} for a number."""
    return "names{}/" if "entries" in scenario else "file{}.txt" if scenario.get("gzip") else "file{}.bin"


def names_of(count, form="file{}.bin"):
    return [form.format("")] if count == 1 else [form.format(number) for number in range(count)]


def paths_of(scenario):
    """The names, spread evenly over the scenario's `folders`."""
    names, folders = names_of(scenario.get("files", 1), form_of(scenario)), scenario.get("folders")
    return [f"{number % folders}/{name}" for number, name in enumerate(names)] if folders else names


def processors(scenario):
    """The processors of the server and those of the generator; None: the kernel decides."""
    mine = sorted(os.sched_getaffinity(0))
    if not scenario.get("pinned", True) or len(mine) < 2:
        return (mine if Far.client else None), None
    return mine[:1], mine[-1:]


def rung_of(context, target):
    """The program of a target that is ours: rung, another file, or another build of these sources (MODE) next to it."""
    if "build" in target:
        return os.path.join(os.path.dirname(os.path.dirname(context.rung)), target["build"], "rung")
    return target.get("binary", context.rung)


def open_target(context, target, scenario, folder, wrap=()):
    ours = processors(scenario)[0]
    tls = secure.certificate(context.folder) if scenario.get("tls") else None
    if "peer" in target:
        import peers  # pylint: disable=import-outside-toplevel
        server = peers.Peer(target["peer"], folder, processors=ours, workers=target.get("workers", 1), wrap=wrap,
                            compress=scenario.get("gzip", False), tls=tls)
        context.started(target, server.command, server.config_text)
        return server
    if "program" in target:
        if Far.client:
            raise Cannot(f"{target['name']} listens on {far.HERE} only, where clients on another machine do not reach it")
        import floors  # pylint: disable=import-outside-toplevel
        body = os.path.join(folder, paths_of(scenario)[0])
        words = floors.words_of(target, scenario, body)
        server = floors.Floor(os.path.join(context.programs, target["program"]), words, ours)
        context.started(target, server.command)
        return server
    engine = target.get("engine", ENGINE)
    options = [*target.get("options", "").split(), *scenario.get("options", "").split(), *(["--tls", f"{tls.cert},{tls.key}"] if tls else [])]
    server = Server(rung_of(context, target), engine, folder, [*wrap, *target.get("wrap", "").split()], options, ours, target.get("env"))
    context.started(target, server.command)
    return server


# --- The generator -----------------------------------------------------------------------------------------

def told(out, err, whole=True):
    """The JSON that rung load printed; whole: Broken unless every request was answered as it should be."""
    try:
        data = json.loads(out)
    except ValueError:
        raise Broken("rung load: " + " ".join(err.split())[-300:]) from None
    if whole and (data["errors"]["total"] or not data["requests"]["answered"]):
        kinds = [f"{count} {name}" for name, count in data["errors"].items() if count and name != "total"]
        raise Broken("requests failed: " + (", ".join(kinds) or "none was answered"))
    return data


def generate(context, argv, patience_s, allowed=None, whole=True):
    """Run rung load on this machine; its JSON."""
    def prepare():
        end_with_us()
        if allowed:
            os.sched_setaffinity(0, allowed)
    return answer_of([context.load, "-o", "-", *argv], patience_s, whole, prepare)


def generate_far(argv, patience_s):
    """Run rung load on the other machine, which has none of our files: a list of URLs goes through its standard input."""
    urls = bytes_of(argv[argv.index("--urls") + 1]).decode() if "--urls" in argv else None
    words = ["-" if urls and before == "--urls" else word for before, word in zip([None, *argv], argv)]
    return answer_of(far.command(["-o", "-", *words]), patience_s + far.PATIENCE_S, True, end_with_us, urls)


def answer_of(argv, patience_s, whole, prepare, said=None):
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL if said is None else subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, preexec_fn=prepare)
    try:
        return told(*process.communicate(said, timeout=patience_s), whole)
    except subprocess.TimeoutExpired:
        raise Broken(f"rung load did not end within {patience_s:.0f} s") from None
    finally:
        process.kill()
        process.wait()


def load_options(context, scenario, port, before=False):
    """A scenario as options of rung load.  before: the files requested before a crawl."""
    options = ["-c", str(scenario.get("connections", 1)), "-t", str(scenario.get("threads", 1)), "-T", "10s"]
    if scenario.get("close"):
        options += ["-k", "off"]
    if rate := scenario.get("rate"):
        options += ["-R", str(rate), "--arrivals", "poisson"]
    if depth := scenario.get("pipeline"):
        options += ["--pipeline", str(depth)]
    if scenario.get("gzip"):
        options += ["-H", "Accept-Encoding: gzip"]
    options += scenario.get("load", "").split()
    if scenario.get("tls"):
        options += ["--cacert", secure.certificate(context.folder).cert]
    url, names = f"{'https' if scenario.get('tls') else 'http'}://{Far.address}:{port}/", paths_of(scenario)
    if len(names) == 1:
        return [*options, url + scenario.get("path", names[0])]
    random.Random(1).shuffle(names)
    if scenario.get("crawl"):
        names = names[:KNOWN] if before else names[KNOWN:]
    path = os.path.join(context.folder, "urls")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{url}{name}\n" for name in names)
    return [*options, "--urls", path]


# --- Kind load ---------------------------------------------------------------------------------------------

def limiter(data, cpu_s, allowed):
    """allowed: the server's processors; None: server and generator share all of them."""
    share, threads = cpu_s / data["elapsed_s"], data["generator"]["threads"]
    if allowed and share >= BUSY * len(allowed):
        return "the server's processor"
    if not allowed and share + sum(one["cpu_share"] for one in threads) >= BUSY * len(os.sched_getaffinity(0)):
        return "the processors, which server and generator share"
    if data["generator"]["was_the_limit"] or max(one["cpu_share"] + one["waited_for_cpu_share"] for one in threads) >= BUSY:
        return "the generator"
    return WAITING if allowed else "waiting: the processors that server and generator share were not all busy"


def filesystem(folder):
    """The type of a folder's file system, or "" where mountinfo and stat() give it different numbers."""
    number = os.stat(folder).st_dev
    found = re.search(rf"^\d+ \d+ {os.major(number)}:{os.minor(number)} .* - (\S+) ", text_of("/proc/self/mountinfo"), re.MULTILINE)
    return found[1] if found else ""


def forget(folder):
    """Make the kernel drop these files from memory."""
    if (kind := filesystem(folder)) in ("tmpfs", "ramfs"):
        raise Broken(f"{folder} is memory ({kind}), where no file is cold: set TMPDIR to a folder on a disk")
    for name in os.listdir(folder):
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def duration(scenario, seconds):
    """The duration as options of rung load.  Cold files are requested once: the second time they are warm."""
    once = scenario.get("cold") or scenario.get("once")
    return ["-n", str(scenario.get("files", 1))] if once else ["-d", f"{seconds * 1000:.0f}ms"]


def listed(target, port, scenario, path):
    """Raise Cannot or Broken unless the answer is a listing of that folder."""
    import peers  # pylint: disable=import-outside-toplevel
    status, _, body = peers.fetch(target["name"], port, path)
    if status in (403, 404):
        raise Cannot(f"{target['name']} makes no listing of a folder: status {status}")
    absent = [name for name in entries_of(scenario) if name.encode() not in body]
    if status != 200 or absent:
        raise Broken(f"{target['name']} lists {path} with status {status}, without {len(absent)} of its names")


def compressed(target, port, folder, path):
    """Raise Cannot or Broken unless the answer is that text, compressed; the first answers may be uncompressed."""
    import peers  # pylint: disable=import-outside-toplevel
    end = time.monotonic() + COMPRESSED_S
    while True:
        status, coding, body = peers.fetch(target["name"], port, path, "gzip")
        if coding != "identity" or time.monotonic() > end:
            break
        time.sleep(0.02)
    if coding == "identity":
        raise Cannot(f"{target['name']} sends text as it is to a client that takes gzip")
    if status != 200 or gzip.decompress(body) != bytes_of(os.path.join(folder, path.lstrip("/"))):
        raise Broken(f"{target['name']} sends {path} with status {status} as {coding}, but the decoded text differs")


def checked(target, server, scenario, folder):
    """Check the answers that rung load cannot compare with a file: listings and compressed text."""
    for name in paths_of(scenario)[:1]:
        if "entries" in scenario:
            listed(target, server.port, scenario, "/" + name)
        elif scenario.get("gzip"):
            compressed(target, server.port, folder, "/" + name)


def warm(context, target, server, scenario, folder):
    """Request each file twice, because a server may cache a file at its second request; only once if the files must be
    cold afterwards.  All targets must send the bytes of the files.  A target that has a single answer for everything is
    compared only if there is one file."""
    options, theirs = load_options(context, scenario, server.port, before=True), processors(scenario)[1]
    files, compare = scenario.get("files", 1), ["--check", folder]
    files = KNOWN if scenario.get("crawl") else files
    if "memory" in scenario:  # a page that the generator reads is not the server's
        forget(folder)
        compare = []
    checked(target, server, scenario, folder)
    if "entries" in scenario or scenario.get("gzip") or "program" in target and files > 1:
        compare = []
    asked = files if scenario.get("cold") or "memory" in scenario else 2 * files
    generate(context, ["-n", str(max(scenario.get("connections", 1), asked)), *compare, *options], PATIENCE_S + 60, theirs)


def settled(pid):
    """Wait until a server is asleep: work for an answer may continue after the answer is sent."""
    end, before = time.monotonic() + PATIENCE_S, None
    while time.monotonic() < end and (now := cpu_ns(pid) // QUIET_NS) != before:
        before = now
        time.sleep(QUIET_S)


def under_load(context, target, server, scenario, seconds):
    folder, (ours, theirs) = documents(context, scenario), processors(scenario)
    if scenario.get("warm", not scenario.get("once")):
        warm(context, target, server, scenario, folder)
    options = load_options(context, scenario, server.port)
    if scenario.get("cold"):
        forget(folder)
    with Crowd(server.port) as idle:
        if scenario.get("idle") and not idle.grow(scenario["idle"], PATIENCE_S):
            raise Broken(f"{scenario['idle']} idle connections were not all answered")
        before_s, queued_ns, read = used_s(server.pid), scheduled(server.pid)[1], disk_bytes(server.pid)
        asked = [*duration(scenario, seconds), *options]
        data = generate_far(asked, seconds + PATIENCE_S) if Far.client else generate(context, asked, seconds + PATIENCE_S, theirs)
        if scenario.get("tls"):
            secure.check(target["name"], data["tls"])
        if scenario.get("once"):
            settled(server.pid)
        if scenario.get("crawl") and data["requests"]["sent"] > data["urls"]:
            raise Broken(f"all {data['urls']} files were requested, some twice, so this is not a crawl: use more files or less time")
        cpu_s, queued_ns = used_s(server.pid) - before_s, scheduled(server.pid)[1] - queued_ns  # before the idle connections are closed
        rss, read = field_kib(each_file(family(server.pid), "smaps_rollup"), "Pss"), disk_bytes(server.pid) - read
    if scenario.get("once"):
        checked(target, server, scenario, folder)
    usage, answers, latency = server.stop(), data["requests"]["answered"], data["latency_us"]
    return {"figures": {"cpu_us": cpu_s * 1e6 / answers, "per_second": data["requests_per_s"], "rss_kib": rss,
                        "bytes_per_second": data["received_bytes_per_s"],
                        "switches": (usage.ru_nvcsw + usage.ru_nivcsw) / answers,
                        "preempted": usage.ru_nivcsw / answers, "queued_us": queued_ns / 1e3 / answers,
                        "disk_kib": read / 1024 / answers,
                        **{figure: latency[key] for figure, key in LATENCIES.items()}},
            "limiter": limiter(data, cpu_s, ours),
            "percentiles": [[at, latency[key]] for key, at in PERCENTILES.items()]}


def at_rest(server, scenario):
    """Processor time per second while no client sends a request."""
    with Crowd(server.port) as crowd:
        if not crowd.grow(scenario["rests"], PATIENCE_S):
            raise Broken(f"{scenario['rests']} connections were not all answered")
        time.sleep(SETTLE_S)
        before_us = cpu_ns(server.pid) / 1e3
        time.sleep(REST_S)
        used_us = cpu_ns(server.pid) / 1e3 - before_us
    server.stop()
    return {"figures": {"cpu_us_a_second": used_us / REST_S}, "limiter": None}


def beside(scenario):
    """The process that shares the server's processors, if the scenario asks for one."""
    if scenario.get("beside") not in (None, "busy"):
        raise Broken(f"beside = {scenario['beside']!r}: only \"busy\" is known, a process that never sleeps")
    return busy(processors(scenario)[0] or os.sched_getaffinity(0)) if "beside" in scenario else contextlib.nullcontext()


def load(context, target, scenario, seconds):
    folder, seconds = documents(context, scenario), scenario.get("seconds", seconds)
    if "memory" in scenario:
        return confined_load(context, target, scenario, seconds)
    with open_target(context, target, scenario, folder) as server, beside(scenario):
        if "rests" in scenario:
            return at_rest(server, scenario)
        return under_load(context, target, server, scenario, seconds)


def confined_load(context, target, scenario, seconds):
    """A server that has `memory` MiB for itself and for the pages of the files that it reads."""
    folder, limit = documents(context, scenario), scenario["memory"] << 20
    with confined.Memory(limit) as group, open_target(context, target, scenario, folder) as server:
        group.take(server.pid)
        found = under_load(context, target, server, scenario, seconds)
        if scenario.get("files", 1) * scenario.get("bytes", BYTES) > limit and not group.times_full():
            raise Broken(f"{target['name']} had all its files in {limit >> 20} MiB, although they are larger")
    return found


# --- Kinds program and count: no server, one of lab/programs -----------------------------------------------

def program_argv(context, target, scenario):
    return [os.path.join(context.programs, target["program"]), *target.get("args", "").split(),
            *scenario.get("args", "").split()]


def ran(argv, patience_s=600):
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=patience_s,
                              preexec_fn=end_with_us, check=False)
    except subprocess.TimeoutExpired:
        raise Broken(f"{os.path.basename(argv[0])} did not end within {patience_s} s") from None
    if done.returncode:
        raise Broken(f"{os.path.basename(argv[0])} left with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout


def json_of(out, argv):
    try:
        return json.loads(out)
    except ValueError:
        raise Broken(f"{os.path.basename(argv[0])} printed no JSON: {out[:80]!r}") from None


def program(context, target, scenario, _seconds):
    """The figures are the one JSON object that the program prints."""
    argv = program_argv(context, target, scenario)
    context.started(target, argv)
    return {"figures": json_of(ran(argv), argv), "limiter": None}


def events(path):
    """{event: count}, from a file of callgrind."""
    lines = text_of(path).splitlines()
    names = next(line for line in lines if line.startswith("events: ")).split()[1:]
    sums = next(line for line in reversed(lines) if line.startswith(("totals: ", "summary: "))).split()[1:]
    return dict(zip(names, map(int, sums)))


def counted(context, argv, rounds):
    """(the JSON it printed, {event: count}) of a program under callgrind that does `rounds` rounds of its work."""
    out = os.path.join(context.folder, "callgrind.out")
    said = ran(["valgrind", "--quiet", "--tool=callgrind", "--branch-sim=yes", f"--callgrind-out-file={out}", *argv,
                str(rounds)])
    return json_of(said, argv), events(out)


def count(context, target, scenario, _seconds):
    """Instructions for one unit of work: a long run minus a short one, so that the cost of starting and ending cancels."""
    argv = program_argv(context, target, scenario)
    context.started(target, [*argv, "ROUNDS"])
    rounds = scenario.get("count_rounds", COUNT_ROUNDS)
    _, few = counted(context, argv, rounds)
    told_units, many = counted(context, argv, 2 * rounds)
    units = rounds * told_units["units"]
    more = {name: (many[name] - few.get(name, 0)) / units for name in many}
    return {"figures": {"instructions": more["Ir"], "branches": more.get("Bc", 0), "jumps": more.get("Bi", 0),
                        "mispredicted": more.get("Bcm", 0) + more.get("Bim", 0)}, "limiter": None}


KINDS = {"load": load, "program": program, "count": count}


def kind(name):
    """The function of a kind: one of KINDS, or measure() of kind_NAME.py.  None: there is none."""
    try:
        return KINDS.get(name) or importlib.import_module("kind_" + name).measure
    except ModuleNotFoundError:
        return None


def whole_round(name):
    """measure_all(context, number, cells) of a kind that measures all cells of a round at once, or None.

    cells are [(target, scenario)]; it returns for each what measure() does, or the Broken that it would raise.
    """
    return None if name in KINDS else getattr(importlib.import_module("kind_" + name), "measure_all", None)
