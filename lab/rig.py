# SPDX-License-Identifier: MIT
"""rig.py - the base of the lab's measurements: a rung that is started and always ended, clients, and /proc.

Nothing outlives its `with`: a server is asked to stop, then killed.  If this program itself dies, the kernel
ends its servers (PR_SET_PDEATHSIG).
"""
import contextlib
import ctypes
import os
import re
import resource
import select
import signal
import socket
import subprocess
import tempfile
import time

from far import Far

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = os.path.exists(os.path.join(TOP, "Makefile"))  # false: this is the copy that make install made
SETUP = "scripts/setup lab" if SOURCES else f"{TOP}/scripts/setup lab"

ENGINE = "epoll"  # rung's, if a target names none: the choice of auto differs from machine to machine
BODY_BYTES, CHANGED_S = 1024, 1_600_000_000  # of the small file: its size, and its time of modification
REQUEST = b"GET /index.html HTTP/1.1\r\nHost: lab\r\n\r\n"
PATIENCE_S = 20  # time limit for operations that take milliseconds; beyond it something is broken
KERNEL_STACK_BYTES = 16384  # THREAD_SIZE of x86-64 and arm64
WORDS_MAX = 65536
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CPUCLOCK_SCHED = 2  # clock_getcpuclockid(3): the clock of a process, from its pid
SERVING = re.compile(r"serving .* at https?://[\d.]+:(\d+)/")
CLEAN_ENV = {name: value for name, value in os.environ.items() if not name.startswith("RUNG_")}
LIBC = ctypes.CDLL(None, use_errno=True)


class Broken(Exception):
    """A measurement that would mean nothing: the server or the client did not do what was to be measured."""


class Cannot(Broken):
    """The server does not offer what a scenario asks for: nothing failed, and there is nothing to measure."""


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def raise_descriptors():
    """Raise our limit on descriptors as far as we may, for the servers that inherit it; returns the limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def adopt_orphans():
    """The children of a server that has ended become ours, so that we can wait for them."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_us():
    """In a new process: the kernel ends it when we end, however we end."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def make_folder(path):
    """Put a file into the folder and make it look old: during a file's first second, nothing of it is cached for long."""
    name = os.path.join(path, "index.html")
    with open(name, "wb") as file:
        file.write(b"x" * BODY_BYTES)
    os.utime(name, (CHANGED_S, CHANGED_S))


# --- Processes, as /proc shows them ------------------------------------------------------------------------

def children(pid):
    """The children of all threads of a process.  A thread that ends leaves its children to another thread, so all are then
    read again."""
    while True:
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            return []  # it ended while we looked
        try:
            found = [text_of(f"/proc/{pid}/task/{task}/children") for task in tasks]
            return [int(child) for text in found for child in text.split()]
        except OSError:
            pass


def family(pid):
    """A process and all below it."""
    found = [pid]
    for one in found:
        found += children(one)
    return found


def lives(pid):
    """Whether a process runs; one that has ended and that its parent has not waited for yet does not."""
    try:
        return text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def each_file(pids, name):
    """The texts of /proc/PID/NAME, without the processes that have ended."""
    for pid in pids:
        try:
            yield text_of(f"/proc/{pid}/{name}")
        except OSError:
            pass


def field_kib(texts, name):
    """Sum of a field, in KiB, over texts of each_file()."""
    found = (re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE) for text in texts)
    return sum(int(match[1]) for match in found if match)


def disk_bytes(pid):
    """Bytes that the living processes of a family have made the kernel read from a disk."""
    found = (re.search(r"^read_bytes: (\d+)", text, re.MULTILINE) for text in each_file(family(pid), "io"))
    return sum(int(match[1]) for match in found if match)


def cpu_ns(pid):
    """Processor time that the living threads of a family have used."""
    return scheduled(pid)[0]


def scheduled(pid):
    """(ns that the living threads of a family ran, ns that they were ready while other threads ran)."""
    ran = queued = 0
    for one in family(pid):
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                told = text_of(f"/proc/{one}/task/{task}/schedstat").split()
                ran, queued = ran + int(told[0]), queued + int(told[1])
        except OSError:
            pass
    return ran, queued


def used_s(pid):
    """Processor time of a family: of its living processes, with the threads they had, and of children waited for.

    A process that ends while we look adds its time to that of its parent, which we may have read before: then all are
    read again."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        pids = family(pid)
        try:
            total = sum(map(own_s, pids))
        except OSError:
            continue
        if family(pid) == pids:
            return total
    raise Broken("processes of the server end all the time: what they have used cannot be told")


def own_s(pid):
    ticks = sum(map(int, text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()[13:15]))
    return time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED) + ticks / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid):
    """The memory of a family: its own pages by PSS, page tables, kernel stacks."""
    pids = family(pid)
    threads = sum(len(os.listdir(f"/proc/{one}/task")) for one in pids if os.path.isdir(f"/proc/{one}/task"))
    return {"pss": 1024 * field_kib(each_file(pids, "smaps_rollup"), "Pss"),
            "page_tables": 1024 * field_kib(each_file(pids, "status"), "VmPTE"),
            "kernel_stacks": KERNEL_STACK_BYTES * threads}


def socket_memory_bytes():
    """The kernel's memory for TCP sockets on this machine, or None (only root may read slabinfo).

    The sum has the buffers, in pages, and the objects behind a descriptor.  Both ends of our connections are on this
    machine, so half of the sum is the server's.  The objects that epoll keeps for a descriptor are the server's alone,
    so they count twice here.
    """
    try:
        slabs = text_of("/proc/slabinfo")
        pages = int(re.search(r"^TCP:.* mem (\d+)", text_of("/proc/net/sockstat"), re.MULTILINE)[1])
    except (OSError, TypeError):
        return None
    total = pages * os.sysconf("SC_PAGESIZE")
    for name, share in (("TCP", 1), ("sock_inode_cache", 1), ("filp", 1), ("eventpoll_epi", 2)):
        if found := re.search(rf"^{name}\s+(\d+)\s+\d+\s+(\d+)", slabs, re.MULTILINE):
            total += share * int(found[1]) * int(found[2])
    return total


# --- The server ---------------------------------------------------------------------------------------------

@contextlib.contextmanager
def busy(processors):
    """A process that never sleeps, on those processors."""
    def prepare():
        end_with_us()
        os.sched_setaffinity(0, processors)
    with subprocess.Popen(["sh", "-c", "while :; do :; done"], stdin=subprocess.DEVNULL, preexec_fn=prepare) as process:
        try:
            yield
        finally:
            process.kill()


class Server:
    """One rung with one worker on one free port.  `wrap` is a command that runs it, such as strace or chrt; `processors`
    are those it may use; `env` are variables added to its environment."""
    says = SERVING  # printed once it accepts connections

    def argv(self, rung, engine, folder):
        return [rung, "serve", folder, "--engine", engine, "--bind", Far.address, "--port", "0",
                "--workers", "1", "--idle-timeout", "600s", "--drain-timeout", "1s"]

    def __init__(self, rung, engine, folder, wrap=(), options=(), processors=None, env=None):
        self.usage = None
        self.command = [*wrap, *self.argv(rung, engine, folder), *options]

        def prepare():
            end_with_us()
            if processors:
                os.sched_setaffinity(0, processors)
        self.words = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.words,
            env={**CLEAN_ENV, **(env or {})}, preexec_fn=prepare)
        try:
            self.port = self.await_port()
            self.pid = self.serving_pid(os.path.basename(rung))
        except BaseException:
            self.kill()
            raise

    def said(self):
        # Not read(): the server shares our file position, and writes there.
        return os.pread(self.words.fileno(), WORDS_MAX, 0).decode(errors="replace")

    def await_port(self):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if found := self.says.search(self.said()):
                if "cannot be preloaded" in self.said():  # it would serve without, under a wrong name
                    raise Broken(f"{self.said().strip().splitlines()[0]}: {SETUP} installs what the lab needs")
                return int(found[1])
            if self.process.poll() is not None:
                break
            time.sleep(0.005)
        raise Broken(f"did not start: {self.said().strip()}")

    def serving_pid(self, name):
        """Some wrappers become the server (chrt), some are its parent (strace), some run it in themselves (valgrind)."""
        pid = self.process.pid
        return pid if text_of(f"/proc/{pid}/comm").strip() == name[:15] else (children(pid) or [pid])[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.usage is None:
            self.kill()
        self.words.close()

    def kill(self):
        pids = family(self.process.pid)
        for pid in reversed(pids):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        for pid in pids[1:]:
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass  # its parent has waited for it

    def stop(self):
        """Ask the server to stop; when it has, return what it and all its children have used."""
        os.kill(self.pid, signal.SIGTERM)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.usage = usage
                if self.process.returncode != 0:
                    raise Broken(f"left with {self.process.returncode}: {self.said().strip()}")
                return usage
            time.sleep(0.002)
        raise Broken("does not end after SIGTERM")


# --- Clients ------------------------------------------------------------------------------------------------

class Client:
    """One connection that requests the file and counts the complete answers."""

    def __init__(self, port):
        self.socket = socket.create_connection((Far.address, port), PATIENCE_S)
        self.socket.setblocking(False)
        self.rest = b""
        self.answers, self.gone = 0, False

    def close(self):
        self.socket.close()

    def send(self):
        try:
            self.socket.send(REQUEST)  # a request always fits into an idle connection's buffer
        except OSError:
            self.gone = True

    def read(self):
        """Read what has arrived."""
        try:
            data = self.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.gone |= not data
        self.rest += data
        head = self.rest.find(b"\r\n\r\n")
        if head >= 0 and len(self.rest) >= head + 4 + BODY_BYTES:
            if not self.rest.startswith(b"HTTP/1.1 200 ") or len(self.rest) != head + 4 + BODY_BYTES:
                raise Broken(f"answered {self.rest[:60]!r}")
            self.answers += 1
            self.rest = b""

    def ask(self):
        """Send one request and wait for its answer."""
        before = self.answers
        self.send()
        gather([self], before + 1, PATIENCE_S)
        if self.answers == before:
            raise Broken("no answer")


def gather(clients, answers, patience_s):
    """Read until each client has `answers` answers or is closed, or the time is up.  True: all have them."""
    poller = select.poll()
    waiting = {c.socket.fileno(): c for c in clients if c.answers < answers and not c.gone}
    for fd in waiting:
        poller.register(fd, select.POLLIN)
    end = time.monotonic() + patience_s
    while waiting and time.monotonic() < end:
        for fd, _ in poller.poll(100):
            client = waiting[fd]
            client.read()
            if client.answers >= answers or client.gone:
                poller.unregister(fd)
                del waiting[fd]
    return all(client.answers >= answers for client in clients)


class Crowd:
    """Many clients; all are closed at the end."""

    def __init__(self, port):
        self.port, self.clients = port, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for client in self.clients:
            client.close()

    def grow(self, count, patience_s):
        """Open `count` more connections, each answered once.  False: some could not connect or got no answer."""
        fresh = []
        for _ in range(count):
            try:
                fresh.append(Client(self.port))
            except OSError:
                break
            self.clients.append(fresh[-1])
        for client in fresh:
            client.send()
        return gather(fresh, 1, patience_s) and len(fresh) == count

    def alive(self, patience_s):
        """How many clients get a second answer while all are held, and are still open when the last one gets it."""
        known = [client for client in self.clients if client.answers]
        for client in known:
            client.send()
        gather(known, 2, patience_s)
        for client in known:
            client.read()
        return sum(client.answers >= 2 and not client.gone for client in known)

    def ended(self):
        """How many were answered and have been ended by the server since, as far as was read."""
        return sum(client.answers > 0 and client.gone for client in self.clients)
