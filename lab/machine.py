# SPDX-License-Identifier: MIT
"""machine.py - what a result says of the machine that made it.

    describe()              the machine: processor, kernel, versions, how the server was compiled
    check(plan)             sentences: which of its limits an experiment meets first, what spoils figures
    with settings(wanted)   the settings that an experiment asks for; put back after it, however it ends

A value that cannot be read is None: a virtual machine, for example, has no governor.  Only those words of the kernel's
command line that change figures are kept, and no other process is ever named, because results are published.
"""
import os
import platform
import re
import resource
import shutil
import subprocess

from limits import SYSCTLS, check, governor, online, turbo, virtual
from rig import SOURCES, TOP, text_of
from settings import Refused, settings

__all__ = ["Refused", "check", "commit", "describe", "settings"]

MEASURED = ("core", "base", "server", "engines", "tools", "lab", "Makefile", "scripts/train")  # the measuring programs too
CHANGED = " and changes"  # behind the commit of a result whose sources were changed since
WORDS = re.compile(r"(mitigations|spectre\w*|spec_\w+|nospectre\w*|mds|l1tf|pti|nopti|retbleed|isolcpus|nohz(_full)?|"
                   r"rcu_nocbs|irqaffinity|intel_pstate|amd_pstate|cpufreq\.\S+|intel_idle\.\S+|processor\.\S+|idle|"
                   r"nosmt|maxcpus|nr_cpus|transparent_hugepage|hugepages|preempt|threadirqs|tsc|clocksource|audit|"
                   r"init_on_(alloc|free)|slab_nomerge|norandmaps)(=\S*)?$")
TOOLS = {"python3": "--version", "wrk": "-v", "strace": "-V", "valgrind": "--version", "nginx": "-v", "apache2": "-v",
         "lighttpd": "-v", "h2o": "-v", "caddy": "version"}
BINARY = os.path.join(TOP, "build/release/rung")


def output_of(*argv, errors=subprocess.DEVNULL, status=True):
    """The output of a command; "" if there is no such command or, unless status is False, if it fails."""
    try:
        return subprocess.run(argv, stdout=subprocess.PIPE, stderr=errors, cwd=TOP, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, check=status).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def read(root, path):
    """A file of /proc or /sys in one line, or None."""
    try:
        return " ".join(text_of(os.path.join(root, path)).split())
    except OSError:
        return None


def found(pattern, text, flags=re.MULTILINE):
    match = re.search(pattern, text or "", flags)
    return match[1] if match else None


# --- Parts -------------------------------------------------------------------------------------------------

def processor(root):
    """The processor: its name, threads of a core, caches, and how its clock is set."""
    info = text_of(os.path.join(root, "proc/cpuinfo"))
    siblings, cores = (found(rf"^{name}\s*: (\d+)", info) for name in ("siblings", "cpu cores"))
    caches = {}
    folder = os.path.join(root, "sys/devices/system/cpu/cpu0/cache")
    for index in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        level, kind, size = (read(folder, f"{index}/{name}") for name in ("level", "type", "size"))
        if size:
            caches[f"L{level}" + {"Data": "d", "Instruction": "i"}.get(kind, "")] = size
    return {"processor": found(r"^model name\s*: (.*)$", info) or platform.machine(),
            "cores": len(os.sched_getaffinity(0)), "online": online(root),
            "threads_a_core": int(siblings) // int(cores) if siblings and cores and int(cores) else None,
            "caches": caches, "virtual": virtual(root), "governor": governor(root), "turbo": turbo(root)}


def mitigations(root):
    """The kernel's mitigations, or lack of them, for faults of this processor."""
    folder = os.path.join(root, "sys/devices/system/cpu/vulnerabilities")
    rows = {name: read(folder, name) for name in sorted(os.listdir(folder))} if os.path.isdir(folder) else {}
    return {name: text for name, text in rows.items() if text and text != "Not affected"}


def command_line(root):
    """The words of the kernel's command line that change figures."""
    return [word for word in (read(root, "proc/cmdline") or "").split(" -- ")[0].split() if WORDS.match(word)]


def sysctls(root):
    return {name: read(root, "proc/sys/" + name.replace(".", "/")) for name in SYSCTLS}


def versions():
    """Versions of the installed tools and of the installed servers that are not ours."""
    places = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    there = {name: shutil.which(name, path=places) for name in TOOLS}
    said = {name: output_of(path, TOOLS[name], errors=subprocess.STDOUT, status=False)
            for name, path in there.items() if path}
    return {name: found(r"(\d+(?:\.\d+)+[\w.+-]*)", text) or "unknown" for name, text in said.items()}


def compiled(rung):
    """The compiler and its options, from the binary itself: {"compiler", "flags"}."""
    said = output_of("readelf", "--debug-dump=info", "--dwarf-depth=1", rung)
    lines = re.findall(r"DW_AT_producer *:(?: \(indirect [^)]*\):)? *(.*)$", said, re.MULTILINE)
    usual = max(lines, key=lines.count, default="")
    compiler, _, flags = usual.partition(" -")
    return {"compiler": compiler or None, "flags": "-" + flags if flags else None}


def commit():
    """The commit of the measured sources and of the measuring ones; make install records it."""
    if not SOURCES:
        return text_of(os.path.join(TOP, "commit")).strip()
    changed = output_of("git", "status", "--porcelain", "--", *MEASURED)
    return output_of("git", "rev-parse", "--short", "HEAD") + (CHANGED if changed else "")


def stolen_s(root="/"):
    """Seconds that the host of a virtual machine has given to others while a processor of ours had work: since boot,
    all processors together (proc_stat(5), steal)."""
    fields = read(root, "proc/stat").partition("\n")[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK") if len(fields) > 8 else 0.0


# --- The whole ---------------------------------------------------------------------------------------------

def describe(rung=BINARY, root="/"):
    """The whole description; `rung` is the binary that is measured."""
    memory = found(r"^MemTotal:\s+(\d+)", text_of(os.path.join(root, "proc/meminfo")))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {**processor(root), "memory_mib": int(memory) // 1024 if memory else None, "kernel": platform.release(),
            "system": platform.freedesktop_os_release().get("PRETTY_NAME", ""), "mitigations": mitigations(root),
            "command_line": command_line(root), "isolated": read(root, "sys/devices/system/cpu/isolated") or None,
            "huge_pages": found(r"\[(\w+)\]", read(root, "sys/kernel/mm/transparent_hugepage/enabled")),
            "sysctls": sysctls(root), "descriptors": {"soft": soft, "hard": hard},
            "versions": versions(), **compiled(rung)}
