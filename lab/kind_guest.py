# SPDX-License-Identifier: MIT
"""kind_guest.py - instructions of a whole system for one request: client, kernel and server, counted in a guest.

A boot costs more than a cell, so a round is one boot: measure_all() takes all its targets and scenarios into a guest
in memory and measures each in turn.  The guest's clock is its count of instructions, so the time that the
client reports is the figure.  Rounds differ in the seed of the guest's randomness, which decides where things are in
memory and in hash tables: the spread of the rounds is the luck in a figure.

A target is rung (`engine`, `options`), rung inside the kernel (`model`; `options` are the module's parameters), a server
of peers.py (`peer`), or a lab program that serves (`program`, called with the port, the target's `args` and the
scenario's).  A scenario may have another `kernel`: that takes another boot, and modules built for it; and the numbers of
answers of the `short` and of the `long` run.  Clients request a file of `bytes` bytes, the listing of a folder of `entries`
entries, or `source` bytes of C source.
"""
import functools
import glob
import json
import os
import re
import shlex
import subprocess
import sys

from rig import BODY_BYTES, ENGINE, Broken, bytes_of
from vm import guest, kernel
from vm.image import Image

HERE = os.path.dirname(os.path.abspath(__file__))
PORT = 8080  # as in count.sh
KERNEL = "6.1"  # unless the scenario has another
DESCRIPTORS = 20000
# Answers of the short run and of the long one, unless the scenario has others.  Both take longer than the milliseconds in which a socket's behaviour changes.
ANSWERS = (500, 1500)
RESTED_MAX = 0.01  # share of the difference: while the processor is idle the clock jumps instead of counting
LIMIT_S = 600
MEMORY_MIB = 768
BUILD_S = 900  # time limit for the modules of one kernel
# Files that a program opens by a name that neither its configuration nor its linker knows.
BESIDE = {"lighttpd": ("/usr/lib/lighttpd/mod_dirlisting.so",)}
SERVE = ("/lab/rung serve /srv --engine {engine} --bind 127.0.0.1 --port {port} --workers 1 --idle-timeout 600s "
         "--drain-timeout 1s {options}")
LOAD = "/lab/module.sh rung_http port={port} root=/srv model={model} idle_timeout=600000 {options}"


# --- The guest's files --------------------------------------------------------------------------------------

def put_peer(image, context, target):
    """Put a peer's program, its configuration, and the files that this names into the image; the command."""
    import peers  # pylint: disable=import-outside-toplevel
    recipe, scratch = peers.PEERS[target["peer"]], f"/lab/{target['peer']}"
    command, text = recipe.filled({"root": "/srv", "port": PORT, "scratch": scratch, "config": f"{scratch}/config",
                                   "user": "root", "group": "root", "files": DESCRIPTORS, **peers.parts(1)})
    image.put(f"{scratch}/config", text)
    image.program(command[0])
    for path in (*re.findall(r"(/(?:etc|usr)/[\w./-]+)", text), *BESIDE.get(recipe.program, ())):
        if os.path.isfile(path):
            image.program(path)
    context.started(target, command, text)
    return shlex.join(command)


@functools.cache
def modules_for(version, build, lines=True):
    """The folder of our modules, which are built for that kernel if needed; lines=False: without those of the kernel's log."""
    more = [] if lines else ["--without-lines"]
    done = subprocess.run([sys.executable, "-B", os.path.join(HERE, "vm/build"), "--kernel", version, "--build", build, *more],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=BUILD_S, check=False)
    if done.returncode:
        raise Broken(f"the modules cannot be built for Linux {version}: {done.stdout.strip().split(chr(10))[-1]}")
    return os.path.join(build, f"kernel-{version}{'' if lines else '-no-lines'}", "kernel")


def put_model(image, context, target, version):
    """Put both modules and the script that loads them into the image; the command."""
    folder = modules_for(version, build_of(context))
    for name in ("rung_core.ko", "rung_http.ko"):
        image.copy(os.path.join(folder, name), f"/lab/{name}")
    image.copy(os.path.join(HERE, "vm/module.sh"), "/lab/module.sh")
    return "sh " + LOAD.format(port=PORT, model=target["model"], options=target.get("options", ""))


def put_target(image, context, target, version):
    """Put the files that a target needs into the image; its command, without the words that a scenario adds."""
    if "peer" in target:
        return put_peer(image, context, target)
    if "program" in target:
        image.program(os.path.join(context.programs, target["program"]), f"/lab/{target['program']}")
        command = f"/lab/{target['program']} {PORT} {target.get('args', '')}"
    elif "model" in target:
        command = put_model(image, context, target, version)
    else:
        command = SERVE.format(port=PORT, engine=target.get("engine", ENGINE), options=target.get("options", ""))
    context.started(target, [command.replace("/lab/", "").strip()])
    return command


def path_of(scenario):
    if "entries" in scenario:
        return f"{scenario['entries']}/"
    if "source" in scenario:
        return f"{scenario['source']}.c"
    return f"{scenario.get('bytes', BODY_BYTES)}.html"


def put_body(image, scenario):
    path = f"/srv/{path_of(scenario)}"
    if "entries" in scenario:
        for number in range(scenario["entries"]):
            image.put(f"{path}file-{number:05}.txt", b"x" * number)
    elif "source" in scenario:
        text = b"".join(bytes_of(name) for name in sorted(glob.glob(os.path.join(HERE, "../core/*.c"))))
        image.put(path, text[:scenario["source"]])
    else:
        image.put(path, b"x" * scenario.get("bytes", BODY_BYTES))


def put_all(image, context, cells, version):
    """Put everything that the cells need into the image; {target: command}, {target: why it cannot run}."""
    image.program(context.rung, "/lab/rung")
    image.program(context.load, "/lab/rung-load")
    image.copy(os.path.join(HERE, "vm/count.sh"), "/lab/count.sh")
    for name in ("/etc/passwd", "/etc/group", "/etc/mime.types"):
        if os.path.exists(name):
            image.copy(name)
    for scenario in {path_of(scenario): scenario for _, scenario in cells}.values():
        put_body(image, scenario)
    commands, missing = {}, {}
    for name, target in {target["name"]: target for target, _ in cells}.items():
        try:
            commands[name] = put_target(image, context, target, version)
        except Broken as error:
            missing[name] = error
    return commands, missing


def line(number, command, target, scenario):
    """One cell as a line of shell."""
    if "program" in target:
        command += f" {scenario.get('args', '')}"
    load = ["-c", scenario["connections"], *(["-k", "off"] if scenario.get("close") else []),
            *shlex.split(scenario.get("load", ""))]
    answers = [scenario.get(key, usual) for key, usual in zip(("short", "long"), ANSWERS)]
    return shlex.join(map(str, ["cell", number, command.strip(), path_of(scenario), *answers, *load]))


# --- The results --------------------------------------------------------------------------------------------

def told(output):
    """{number of a cell: {key: text}}, from the output of count.sh."""
    parts = re.split(r"^@ (\d+) (\w+)\n", output, flags=re.MULTILINE)
    found = {}
    for number, key, text in zip(parts[1::3], parts[2::3], parts[3::3]):
        found.setdefault(int(number), {})[key] = text.strip()
    return found


def client_ns(run):
    return sum(thread["cpu_share"] for thread in run["generator"]["threads"]) * run["elapsed_s"] * 1e9


def cell_of(texts):
    """The figures of one cell, from two runs and the time that the processor was idle in each."""
    if "idle" not in texts:
        raise Broken(texts.get("why") or "the guest said nothing about it")
    less, more = json.loads(texts["less"]), json.loads(texts["more"])
    if failed := less["errors"]["total"] + more["errors"]["total"]:
        raise Broken(f"{failed} requests failed")
    before, between, after = map(int, texts["idle"].split())
    rested = (after - between - (between - before)) / ((more["elapsed_s"] - less["elapsed_s"]) * 1e9)
    if rested > RESTED_MAX:
        raise Broken(f"the guest's processor rested for {rested:.0%} of the time: its clock counts only while it works")
    answers = more["requests"]["answered"] - less["requests"]["answered"]
    return {"figures": {"instructions": (more["elapsed_s"] - less["elapsed_s"]) * 1e9 / answers,
                        "client_instructions": (client_ns(more) - client_ns(less)) / answers,
                        "answer_bytes": (more["received_bytes"] - less["received_bytes"]) / answers},
            "limiter": "the guest's one processor"}


# --- The kind -----------------------------------------------------------------------------------------------

def build_of(context):
    return os.path.dirname(os.path.dirname(os.path.abspath(context.rung)))


def cache_of(context):
    """The folder of kernels, in the build folder."""
    return os.path.join(build_of(context), "vm")


def booted(context, version, number, cells):
    """Measure [(target, scenario)] in one guest with that kernel; the result of each, or Broken."""
    image = Image()
    commands, missing = put_all(image, context, cells, version)
    lines = [line(place, commands[target["name"]], target, scenario)
             for place, (target, scenario) in enumerate(cells) if target["name"] in commands]
    job = guest.Job("\n".join([". /lab/count.sh", *lines, "exit 0"]), image, count=True, seed=number + 1, limit_s=LIMIT_S,
                    memory_mib=MEMORY_MIB)
    result = guest.boot(job, kernel.fetch(version, cache_of(context)))
    if result.status or result.complaints:
        raise Broken(f"the guest's command left with {result.status}: {(result.complaints or [result.output[-400:]])[0]}")
    texts = told(result.output)
    return [missing.get(target["name"]) or attempt(texts.get(place, {})) for place, (target, _) in enumerate(cells)]


def attempt(texts):
    try:
        return cell_of(texts)
    except Broken as error:
        return error
    except (ValueError, KeyError) as error:
        return Broken(f"the guest's output is incomplete: {error!r}")


def by_boot(cells, boot_of, boot):
    """A boot for each value of boot_of(scenario): the results of boot(value, its cells) in the order of all cells; Broken
    for the cells of a boot that fails."""
    found = {}
    for which in dict.fromkeys(boot_of(scenario) for _, scenario in cells):
        mine = [place for place, (_, scenario) in enumerate(cells) if boot_of(scenario) == which]
        try:
            found.update(zip(mine, boot(which, [cells[place] for place in mine])))
        except Broken as error:
            found.update(dict.fromkeys(mine, error))
    return [found[place] for place in range(len(cells))]


def the_only(found):
    """The result of one cell alone."""
    (one,) = found
    if isinstance(one, Broken):
        raise one
    return one


def measure_all(context, number, cells):
    """A round's cells, all of them: what measure() would return for each, or Broken."""
    return by_boot(cells, lambda scenario: scenario.get("kernel", KERNEL),
                   lambda version, mine: booted(context, version, number, mine))


def measure(context, target, scenario, _seconds):
    """One cell alone, in a guest of its own."""
    return the_only(measure_all(context, 0, [(target, scenario)]))
