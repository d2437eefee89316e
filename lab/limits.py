# SPDX-License-Identifier: MIT
"""limits.py - which limit of the machine an experiment meets first, and what else spoils its figures.

Each limit is a row: how many connections it allows at once, what happens beyond, what to do.  If a limit is met
unnoticed, the limit is measured instead of the server: a burst that overflows the accept queue costs its clients a second
each, and no server caused that.  check() says all of it in sentences, before anything is measured.
"""
import glob
import os
import re
import resource
import time

from rig import family, text_of

SYSCTLS = ("net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_syncookies",
           "net.ipv4.ip_local_port_range", "net.ipv4.tcp_max_tw_buckets", "net.ipv4.tcp_tw_reuse",
           "net.ipv4.tcp_congestion_control", "net.core.default_qdisc", "fs.nr_open",
           "kernel.pid_max", "kernel.threads-max", "vm.max_map_count", "kernel.randomize_va_space")
BACKLOG = 4096  # of rung serve without --backlog
SPARE = 64      # descriptors that are not connections
MAPPINGS_SPARE = 200  # of a program before it has any connection
WATCH_S = 0.25
BUSY = 0.1      # of a processor: a process that takes less disturbs less than the rounds differ by themselves


# --- What the machine says ---------------------------------------------------------------------------------

def number(root, name):
    """A sysctl that is a number, or None."""
    try:
        return int(text_of(os.path.join(root, "proc/sys", name.replace(".", "/"))).split()[0])
    except (OSError, ValueError, IndexError):
        return None


def line(root, path):
    try:
        return text_of(os.path.join(root, path)).strip()
    except OSError:
        return None


def online(root):
    return len(re.findall(r"^processor\s*:", line(root, "proc/cpuinfo") or "", re.MULTILINE))


def virtual(root):
    return bool(re.search(r"^flags\s*:.*\bhypervisor\b", line(root, "proc/cpuinfo") or "", re.MULTILINE))


def governor(root):
    """The governor that chooses the clock's rate, or None; several names, if processors differ."""
    paths = glob.glob(os.path.join(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"))
    return " and ".join(sorted({text_of(path).strip() for path in paths})) or None


def turbo(root):
    """Whether the clock may exceed its nominal rate: on, off, or None."""
    for path, on in (("intel_pstate/no_turbo", "0"), ("cpufreq/boost", "1")):
        if (said := line(root, "sys/devices/system/cpu/" + path)) is not None:
            return "on" if said == on else "off"
    return None


def ports(root):
    """How many ports an address has for connections to one server."""
    try:
        first, last = map(int, text_of(os.path.join(root, "proc/sys/net/ipv4/ip_local_port_range")).split())
        return last - first + 1
    except (OSError, ValueError):
        return None


# --- Limits ------------------------------------------------------------------------------------------------

def needs(plan):
    """The most that any scenario asks for: {"held": connections that are open together, "burst": connections that come
    together, "closing": whether each request has its own connection}."""
    rows = plan.get("scenario", [])
    burst = max((row.get("connections", row.get("clients", 0)) for row in rows), default=0)
    held = max((row.get("connections", row.get("clients", 0)) + row.get("idle", row.get("rests", 0)) for row in rows),
               default=0)
    return {"held": held, "burst": burst, "closing": any(row.get("close") for row in rows)}


def engines(plan):
    """Words of all targets, to see which of them create threads or map stacks."""
    return set(" ".join(f"{row.get('options', '')} {row.get('engine', '')}" for row in plan.get("target", [])).split())


def limits(plan, root):
    """Rows: (what is limited, "held" or "burst", how many it allows, what happens beyond, what to do)."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    somaxconn, syn = number(root, "net.core.somaxconn"), number(root, "net.ipv4.tcp_max_syn_backlog")
    rows = [("open files of a process", "held", files - SPARE, "the server pauses its listeners",
             "raise the hard limit (ulimit -Hn, LimitNOFILE) before the lab starts"),
            ("ports of an address (net.ipv4.ip_local_port_range)", "held", ports(root), "connect() fails",
             "widen the range, or give the clients several addresses (rung load --source)"),
            ("the accept queue (the lesser of net.core.somaxconn and --backlog)", "burst",
             somaxconn and min(somaxconn, BACKLOG), "a client's first packets are repeated, a second later",
             "sysctl -w net.core.somaxconn=4096 or more, and --backlog")]
    if number(root, "net.ipv4.tcp_syncookies") == 0:
        rows.append(("half-open connections (net.ipv4.tcp_max_syn_backlog)", "burst", syn, "first packets are dropped",
                     "raise it, or turn net.ipv4.tcp_syncookies on"))
    words = engines(plan)
    if {"thread", "fork"} & words:
        most = [room for room in (number(root, "kernel.threads-max"), number(root, "kernel.pid_max")) if room]
        rows.append(("threads and processes (kernel.threads-max, kernel.pid_max)", "held", min(most, default=None),
                     "the accepting thread serves by itself", "raise both"))
    if "coro" in words and (maps := number(root, "vm.max_map_count")):
        rows.append(("mappings of a process (vm.max_map_count; a coroutine has two)", "held",
                     (maps - MAPPINGS_SPARE) // 2, "newcomers are refused", "raise it"))
    return [row for row in rows if row[2]]


def binding(plan, root):
    """Sentences: every limit that is too low for the experiment, and the next one above its needs."""
    want = needs(plan)
    rows = sorted(limits(plan, root), key=lambda row: row[2])
    for what, key, room, beyond, remedy in rows:
        if room < want[key]:
            yield (f"{what[0].upper()}{what[1:]}: room for {room:,}, and the experiment has {want[key]:,} "
                   f"{'at once' if key == 'held' else 'that come together'}: beyond, {beyond}. To do: {remedy}.")
    above = [row for row in rows if row[2] >= want[row[1]]]
    if want["held"] and above:
        yield (f"The limit that binds next is {above[0][0]}: room for {above[0][2]:,}, "
               f"of which the experiment takes {want[above[0][1]]:,}.")
    if want["closing"] and (room := ports(root)):
        reuse = number(root, "net.ipv4.tcp_tw_reuse")
        yield (f"A connection for each request, and {room:,} ports: each rests in TIME-WAIT for 60 s at the side that "
               "closes first" + (", and on loopback is taken again before (net.ipv4.tcp_tw_reuse)." if reuse in (1, 2)
                                 else f": {room // 60:,} connections a second are all. To do: sysctl -w net.ipv4.tcp_tw_reuse=1."))


# --- Noise -------------------------------------------------------------------------------------------------

def cpu_ticks(root, but=()):
    """{pid: ticks that it has used}, for all processes except those in `but`."""
    used = {}
    for entry in os.listdir(os.path.join(root, "proc")):
        if entry.isdigit() and int(entry) not in but:
            try:
                fields = text_of(os.path.join(root, "proc", entry, "stat")).rpartition(")")[2].split()
                used[entry] = int(fields[11]) + int(fields[12])
            except (OSError, IndexError, ValueError):
                pass  # it ended while we looked
    return used


def busy(before, after, ticks):
    """How many processes took more than their share of that time, and how many processors' worth together."""
    shares = [(after[pid] - before.get(pid, after[pid])) / ticks for pid in after]
    shares = [share for share in shares if share >= BUSY]
    return len(shares), sum(shares)


def others(root):
    """A sentence about other processes that are computing now.  Processes are counted, not named."""
    mine, before, began = family(os.getpid()), cpu_ticks(root, family(os.getpid())), time.monotonic()
    time.sleep(WATCH_S)
    ticks = (time.monotonic() - began) * os.sysconf("SC_CLK_TCK")
    count, share = busy(before, cpu_ticks(root, {*mine, *family(os.getpid())}), ticks)
    if count:
        yield (f"{count} other {'process takes' if count == 1 else 'processes take'} {share:.1f} processors now "
               "(top shows which). To do: end them, or wait; else trust ratios of the same round only.")


def time_wait(root):
    """A sentence, if the kernel has hardly any room left for connections in TIME-WAIT."""
    most = number(root, "net.ipv4.tcp_max_tw_buckets")
    there = re.search(r"^TCP:.* tw (\d+)", line(root, "proc/net/sockstat") or "", re.MULTILINE)
    if most and there and int(there[1]) > 0.9 * most:
        yield (f"{int(there[1]):,} sockets are in TIME-WAIT, and net.ipv4.tcp_max_tw_buckets is {most:,}: beyond, "
               "connections end without it, and cost less than they do elsewhere. To do: wait a minute.")


def noise(root):
    """Sentences about anything other than the server that makes figures differ."""
    cores = len(os.sched_getaffinity(0))
    load = float((line(root, "proc/loadavg") or "0").split()[0])
    if load > cores / 2:
        yield (f"The load average is {load:.1f} on {cores} processors: the machine is not at rest. "
               "To do: wait until it is below a half of a processor each.")
    yield from others(root)
    yield from time_wait(root)
    if cores < 3:
        yield (f"{cores} processor{'s' if cores > 1 else ''}: server, clients and the kernel's own work share "
               f"{'them' if cores > 1 else 'it'}. Processor time a request is of use, requests a second are less so.")
    if virtual(root):
        yield ("This is a virtual machine: its host gives and takes processor time unseen, and sets clock rate and "
               "turbo. To do: trust ratios of the same round, and counts.")
    elif not line(root, "sys/devices/system/cpu/isolated"):
        yield "No processor is isolated (isolcpus=): the scheduler may put anything beside the server."
    if (how := governor(root)) and how != "performance":
        yield f"The governor is {how}: the clock follows the load. To do: governor = \"performance\" under [settings]."
    if turbo(root) == "on":
        yield ("Turbo is on: the clock depends on heat and on how many processors are busy. "
               "To do: turbo = \"off\" under [settings].")


def check(plan, root="/"):
    """All sentences, the limits first; [] if there is nothing to report."""
    return [*binding(plan, root), *noise(root)]
