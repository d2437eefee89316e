# SPDX-License-Identifier: MIT
"""settings.py - the settings that an experiment asks for: made while it runs, and put back however it ends.

    [settings]
    aslr = "off"                  # of the programs that the lab starts, not of the machine
    governor = "performance"      # of every processor
    turbo = "off"
    processors = "0,1"            # those that the lab and all it starts may use
    descriptors = 20000           # how many of them each process may have
    somaxconn = 4096              # tcp_max_syn_backlog, ip_local_port_range, tcp_tw_reuse too
    "net.ipv4.tcp_congestion_control" = "reno"   # any other sysctl by its whole name
    optional = ["governor"]       # left as it is where it cannot be set, and the result says so

Settings that child processes inherit (address randomisation, processors, descriptors) are changed in this process alone:
no other process notices, and they end with us.  A setting of the machine is recorded in a journal before it is changed, so
that the next start puts back what a killed run left; a reboot forgets both.  One run at a time changes the machine.
A setting that cannot be made, or is not in force afterwards, is refused: no figure is reported under a wrong setting.
"""
import contextlib
import ctypes
import fcntl
import glob
import json
import os
import re
import resource
import signal
import subprocess

from rig import LIBC, Broken, text_of

ADDR_NO_RANDOMIZE, ASK = 0x0040000, 0xffffffff  # personality(2)
JOURNAL = "run/rung-lab-settings.json"
SHORT = {"somaxconn": "net.core.somaxconn", **{name: "net.ipv4." + name for name in (
    "tcp_max_syn_backlog", "ip_local_port_range", "tcp_tw_reuse", "tcp_syncookies", "tcp_fin_timeout")}}
SYSCTL = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)+")
ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Refused(Broken):
    """An experiment's demand that this machine does not meet."""


def words(value):
    """A setting's value as the kernel's files have it."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return " ".join(str(value).split())


# --- Knobs: read() the value, write() another, in words; OSError or Refused when that fails -----------------------

class File:
    """A file of /sys or /proc/sys.  `spelled` maps our words to the file's."""

    def __init__(self, path, spelled=None):
        self.path, self.spelled = path, spelled or {}

    def read(self):
        said = words(text_of(self.path))
        return next((ours for ours, theirs in self.spelled.items() if theirs == said), said)

    def write(self, value):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(self.spelled.get(value, value) + "\n")


class Randomisation:
    """Address randomisation of the programs that this process starts: a flag of the process, which children inherit."""

    def read(self):
        """Measured instead of read from the flag: whether the stacks of two programs have the same address."""
        stacks = {subprocess.run(["cat", "/proc/self/maps"], stdout=subprocess.PIPE, text=True, timeout=20,
                                 check=True).stdout.rpartition("[stack]")[0].rpartition("\n")[2] for _ in range(2)}
        return "off" if len(stacks) == 1 else "on"

    def write(self, value):
        if value not in ("on", "off"):
            raise Refused(f'"{value}" is neither "on" nor "off"')
        now = LIBC.personality(ctypes.c_ulong(ASK))
        want = now | ADDR_NO_RANDOMIZE if value == "off" else now & ~ADDR_NO_RANDOMIZE
        if now < 0 or LIBC.personality(ctypes.c_ulong(want)) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Processors:
    def read(self):
        return ",".join(map(str, sorted(os.sched_getaffinity(0))))

    def write(self, value):
        try:
            os.sched_setaffinity(0, {int(one) for one in value.split(",")})
        except ValueError:
            raise Refused(f'"{value}" is no list of processors such as "0,1"') from None


class Descriptors:
    def read(self):
        return str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    def write(self, value):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (int(value), max(hard, int(value))))
        except ValueError as error:
            raise Refused(f"{error} (the hard limit is {hard})") from None


def knobs(name, root):
    """The knobs of a setting; none: this machine does not have it."""
    system = os.path.join(root, "sys/devices/system/cpu")
    if name == "governor":
        return [File(path) for path in sorted(glob.glob(f"{system}/cpu[0-9]*/cpufreq/scaling_governor"))]
    if name == "turbo":
        found = [(f"{system}/intel_pstate/no_turbo", {"on": "0", "off": "1"}),
                 (f"{system}/cpufreq/boost", {"on": "1", "off": "0"})]
        return [File(path, spelled) for path, spelled in found if os.path.exists(path)][:1]
    own = {"aslr": Randomisation, "processors": Processors, "descriptors": Descriptors}
    if name in own:
        return [own[name]()]
    full = SHORT.get(name, name)
    if not SYSCTL.fullmatch(full):
        raise Refused(f"{name}: there is no such setting; there are {', '.join([*own, 'governor', 'turbo', *SHORT])}, "
                      "and every sysctl by its whole name")
    path = os.path.join(root, "proc/sys", full.replace(".", "/"))
    return [File(path)] if os.path.exists(path) else []


# --- The journal --------------------------------------------------------------------------------------------

class Journal:
    """The changes made to the machine: rows of {"path", "was", "set"} in the file's words, on disk before the change.
    The process that has it open holds its lock."""

    def __init__(self, root):
        self.path, self.rows, self.fd = os.path.join(root, JOURNAL), [], None
        self.boot = words(text_of("/proc/sys/kernel/random/boot_id"))
        self.net = os.readlink("/proc/self/ns/net")

    def open(self):
        """Take the lock.  OSError if we may not open the file, BlockingIOError if another process has the lock."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        self.fd = fd

    def close(self):
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def note(self, path, was, value):
        self.rows.append({"path": path, "was": was, "set": value})
        self.save()

    def save(self):
        text = json.dumps({"boot": self.boot, "net": self.net, "rows": self.rows}).encode() if self.rows else b""
        os.pwrite(self.fd, text, 0)
        os.ftruncate(self.fd, len(text))
        os.fsync(self.fd)

    def left(self):
        """Rows of a run that was killed, if they are of this boot and this network namespace."""
        try:
            told = json.loads(os.pread(self.fd, 1 << 20, 0))
            return told["rows"] if (told["boot"], told["net"]) == (self.boot, self.net) else []
        except (ValueError, KeyError, TypeError):
            return []

    def replay(self):
        """Put back what a killed run left, the last change first; a sentence for each."""
        for row in reversed(self.left()):
            try:
                now = words(text_of(row["path"]))
                if now == row["set"] and now != row["was"]:
                    File(row["path"]).write(row["was"])
                    yield f"{row['path']}: an earlier run was killed and left {row['set']}; put back to {row['was']}"
            except OSError as error:
                yield (f"{row['path']}: an earlier run was killed and left {row['set']}; {error.strerror}: "
                       "put it back by hand")
        self.save()


def recovered(journal, told, wanted):
    """Open the journal and empty it.  If this run does not need it, it is no error that another run holds it or that we
    may not open it."""
    if not wanted and not os.path.exists(journal.path):
        return
    try:
        journal.open()
    except BlockingIOError:
        if wanted:
            raise Refused("another run of the lab has changed settings of this machine: wait until it ends") from None
        return
    except OSError as error:
        if wanted:
            raise Refused(f"{journal.path}: {error.strerror}: what is changed could not be written down "
                          "(root can)") from None
        return
    for number, sentence in enumerate(journal.replay()):
        told[f"left behind, {number + 1}" if number else "left behind"] = sentence


# --- Setting and putting back --------------------------------------------------------------------------------

class Change:
    """One knob, turned: what it was, and what it is set to."""

    def __init__(self, knob, value):
        self.knob, self.value, self.was = knob, value, knob.read()

    def make(self, journal):
        if isinstance(self.knob, File):
            spelled = self.knob.spelled
            journal.note(self.knob.path, spelled.get(self.was, self.was), spelled.get(self.value, self.value))
        self.knob.write(self.value)
        if (now := self.knob.read()) != self.value:
            raise Refused(f"it was taken, and is {now}")

    def undo(self):
        """Undo the change; the outcome in words."""
        if (now := self.knob.read()) == self.was:
            return "put back"
        if now != self.value:
            return f"became {now} meanwhile, and is left so"
        self.knob.write(self.was)
        return "put back" if self.knob.read() == self.was else "could NOT be put back"


class Set:
    """All of an experiment's settings."""

    def __init__(self, root, told):
        self.root, self.told, self.made, self.journal = root, told, [], Journal(root)

    def turn(self, name, value):
        found = knobs(name, self.root)
        if not found:
            raise Refused("this machine has no such knob" +
                          (" (a virtual machine?)" if name in ("governor", "turbo") else ""))
        changes = [Change(knob, value) for knob in found]
        was = " and ".join(sorted({change.was for change in changes}))
        if was == value:
            self.told[name] = f"was {value} already"
            return
        self.told[name] = f"was {was}, set to {value}"
        for change in changes:
            self.made.append((name, change))  # before it is made, so that an interrupted change is undone too
            change.make(self.journal)

    def make(self, name, value, optional):
        """A sentence why the setting cannot be made, or None."""
        try:
            self.turn(name, value)
            return None
        except (Broken, OSError, subprocess.SubprocessError) as error:
            why = getattr(error, "strerror", None) or str(error)
        if not optional:
            return f"{name} cannot be set to {value}: {why}"
        self.told[name] = f"not set to {value}, and done without: {why}"
        return None

    def undo(self):
        """Put the settings back, the last change first.  The caller has blocked signals."""
        ends = {}
        for name, change in reversed(self.made):
            try:
                ends.setdefault(name, set()).add(change.undo())
            except (OSError, subprocess.SubprocessError) as error:
                ends.setdefault(name, set()).add(f"could NOT be put back: {error}")
        for name, said in ends.items():
            self.told[name] += ", " + " and ".join(sorted(said))
        if self.journal.fd is not None:
            self.journal.rows = []
            self.journal.save()


def asked(wanted):
    """(name -> value in words, names that are optional): a name with dots may come as tables in tables."""
    flat, optional = {}, set(wanted.get("optional", []))

    def walk(table, before):
        for name, value in table.items():
            if isinstance(value, dict):
                walk(value, f"{before}{name}.")
            else:
                flat[before + name] = words(value)
    walk({name: value for name, value in wanted.items() if name != "optional"}, "")
    if unknown := optional - set(flat):
        raise Refused(f"optional names what is not set: {', '.join(sorted(unknown))}")
    return flat, optional


@contextlib.contextmanager
def by_exception():
    """A signal that would end us at once raises SystemExit instead, so that every `with` is left properly."""
    def leave(number, _):
        raise SystemExit(128 + number)
    old = {}
    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                old[number] = signal.signal(number, leave)
    except ValueError:
        pass  # not the main thread, which alone may set handlers
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def settings(wanted, root="/"):
    """Make the settings; yields {"what": "was X, set to Y, put back"}, which is complete when the `with` has ended."""
    flat, optional = asked(wanted)
    told = {}
    work = Set(root, told)
    with by_exception():
        recovered(work.journal, told, [name for name in flat for knob in knobs(name, root) if isinstance(knob, File)])
        try:
            refusals = [why for name, value in flat.items() if (why := work.make(name, value, name in optional))]
            if refusals:
                raise Refused("; ".join(refusals) + ". Where figures mean something without it, say so: "
                              "optional = [...] under [settings]")
            yield told
        finally:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
            work.undo()
            work.journal.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
