# SPDX-License-Identifier: MIT
"""peers.py - servers that are not ours, each with a configuration of peers/: started, sent the same requests, always ended.

A Peer is used like a rig.Server.  It runs in the foreground in a process group of its own, as the user that runs the lab,
and writes below a temporary folder that is removed with it.  Names between @ signs in a configuration are filled in here.
"""
import grp
import hashlib
import http.client
import os
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from typing import NamedTuple

import scratch
import secure
from far import Far
from rig import (LIBC, PATIENCE_S, SETUP, Broken, bytes_of, children, cpu_ns, each_file, end_with_us, family, raise_descriptors,
                 text_of)

CONFIGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")
PATH = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
PORTS_TRIED_MAX = 5
SAID_MAX = 65536
TOLD_MAX = 600        # characters of a log that a sentence quotes
QUIET_S = 0.05         # if meanwhile no process began, ended or used more than QUIET_NS, the server has started
QUIET_NS = 1_000_000
PORT_TAKEN = re.compile("address already in use", re.IGNORECASE)
WORKER_DIED = re.compile(r"exited on signal \d+|exit signal [^\n]*")
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, NLM_F_DUMP, TCP_LISTEN = 4, 20, 0x1, 0x300, 10
PORT_AT, INODE_AT = 16 + 4, 16 + 68  # in a netlink message: struct inet_diag_msg behind struct nlmsghdr
PR_SET_SECUREBITS = 28
SECBIT_NO_SETUID_FIXUP = 4


class Recipe(NamedTuple):
    package: str    # Debian's
    program: str
    config: str     # a file of peers/
    arguments: tuple
    no_root: bool = False                  # refuses to run workers as root
    varies: bool = False                   # starts and ends workers as it likes
    stop: signal.Signals = signal.SIGTERM  # signal after which it exits with 0
    sendfile: str = ""                     # nginx only: on or off
    open_files: str = "max=20000 inactive=600s"  # nginx only: its open_file_cache, or off

    def filled(self, known):
        """The command and the configuration's text, with each @name@ replaced by its value in `known`.  The server listens on
        loopback, unless `known` has another address.  A line that begins with @compress@ or @tls@ is a comment,
        unless `known` has "" for it: the server then compresses text on the fly, or speaks TLS.  @secure@ is what nginx adds to
        its address for that."""
        every = {"address": "127.0.0.1", "compress": "# ", "tls": "# ", "secure": "", "cert": "", "key": "", "sendfile": self.sendfile,
                 "openfiles": self.open_files, **known}

        def put(text):
            return re.sub("@([a-z]+)@", lambda match: str(every[match[1]]), text)
        program = shutil.which(self.program, path=PATH)
        return [program, *map(put, self.arguments)], put(text_of(os.path.join(CONFIGS, self.config)))


def parts(workers):
    """The numbers that configurations need for `workers` workers, by their names there."""
    return {"workers": workers, "children": workers if workers > 1 else 0, "threads": 512 * workers}


NGINX, APACHE = ("-e", "@scratch@/error.log", "-c", "@config@"), ("-D", "FOREGROUND", "-f", "@config@")
PEERS = {
    "nginx-default": Recipe("nginx-light", "nginx", "nginx-default.conf", NGINX),
    "nginx-tuned": Recipe("nginx-light", "nginx", "nginx-tuned.conf", NGINX, sendfile="off"),
    "nginx-sendfile": Recipe("nginx-light", "nginx", "nginx-tuned.conf", NGINX, sendfile="on"),
    "nginx-opened": Recipe("nginx-light", "nginx", "nginx-tuned.conf", NGINX, sendfile="off", open_files="off"),
    "nginx-sendfile-opened": Recipe("nginx-light", "nginx", "nginx-tuned.conf", NGINX, sendfile="on", open_files="off"),
    "apache-default": Recipe("apache2", "apache2", "apache-default.conf", APACHE, no_root=True, varies=True),
    "apache-tuned": Recipe("apache2", "apache2", "apache-tuned.conf", APACHE, no_root=True),
    "lighttpd": Recipe("lighttpd", "lighttpd", "lighttpd.conf", ("-D", "-f", "@config@"), stop=signal.SIGINT),
    "h2o": Recipe("h2o", "h2o", "h2o.conf", ("-m", "worker", "-c", "@config@")),
    "caddy": Recipe("caddy", "caddy", "caddy.conf", ("run", "--adapter", "caddyfile", "--config", "@config@")),
}


def available():
    """{name: None, or why it cannot run here}."""
    return {name: None if shutil.which(one.program, path=PATH) else
            f"{one.program} is not installed (Debian's package {one.package}; {SETUP})"
            for name, one in PEERS.items()}


def ourselves():
    """Names of our user and group; a server that does not run as root ignores them, so they need not exist."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name
    except KeyError:
        return "nobody", "nogroup"


def free_port():
    with socket.socket() as probe:
        probe.bind((Far.address, 0))
        return probe.getsockname()[1]


def listening(port):
    """The names of the sockets that listen on this port.

    The kernel's table of listeners has them: reading /proc/net/tcp takes seconds with a hundred thousand connections in
    TIME-WAIT.
    """
    request = struct.pack("=IHHII4BI48x", 72, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 0, 0,
                          socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 1 << TCP_LISTEN)
    found = set()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.send(request)
        while True:
            data = kernel.recv(1 << 16)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                if kind != SOCK_DIAG_BY_FAMILY:
                    return found  # the end, or an error: then no listener is known
                if struct.unpack_from("!H", data, PORT_AT)[0] == port:
                    found.add(f"socket:[{struct.unpack_from('=I', data, INODE_AT)[0]}]")
                data = data[(length + 3) & ~3:]


def listens(pids, port):
    """Whether one of these processes listens on the port: another process may have taken it."""
    sockets = listening(port)
    return bool(sockets) and any(link in sockets for pid in pids for link in descriptors(pid))


def descriptors(pid):
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return  # it has ended
    for name in names:
        try:
            yield os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            pass  # it was closed while we looked


class PortTaken(Exception):
    pass


class Peer:
    """One such server on a free port, serving the given folder; it has the same interface as rig.Server.

    `workers` is the number of workers that a configuration sets; the "default" ones keep Debian's settings.  `compress`:
    compress text on the fly.  `tls`: a secure.Certificate.
    """

    def __init__(self, name, folder, processors=None, workers=1, wrap=(), compress=False, tls=None):
        self.name, self.recipe = name, PEERS[name]
        if reason := available()[name]:
            raise Broken(reason)
        self.folder, self.processors, self.workers, self.wrap = os.path.realpath(folder), processors, workers, wrap
        self.compress, self.tls, self.usage, self.process = compress, tls, None, None
        for attempt in range(PORTS_TRIED_MAX):
            self.port = free_port()
            try:
                self.begin()
                return
            except PortTaken:
                if attempt == PORTS_TRIED_MAX - 1:
                    raise Broken(f"{name} did not start: somebody else took each of {PORTS_TRIED_MAX} ports, "
                                 f"the last was {self.port}") from None

    # --- Starting

    def begin(self):
        self.scratch = scratch.Folder("peer")
        try:
            os.chmod(self.scratch.name, 0o755)
            self.words = tempfile.TemporaryFile()
            command, config = self.prepared()
            self.command, self.config_text = [*map(self.without_scratch, command)], self.without_scratch(config)
            self.process = subprocess.Popen([*self.wrap, *command], stdin=subprocess.DEVNULL, stdout=self.words,
                                            stderr=subprocess.STDOUT, env=self.environment(), preexec_fn=self.before,
                                            cwd=self.scratch.name)
            self.await_port()
            self.pid = children(self.process.pid)[0] if self.wrap else self.process.pid
            self.await_quiet()
        except BaseException:
            self.close()
            raise

    def prepared(self):
        """The command, and the text of the configuration that it is given."""
        user, group = ourselves()
        if self.recipe.no_root and os.geteuid() == 0:
            user, group = "nobody", "nogroup"
        config = os.path.join(self.scratch.name, "config")
        command, text = self.recipe.filled({
            "root": self.folder, "address": Far.address, "port": self.port, "scratch": self.scratch.name, "config": config, "user": user,
            "group": group, "files": raise_descriptors(), **({"compress": ""} if self.compress else {}),
            **({"tls": "", "secure": " ssl http2", "cert": self.tls.cert, "key": self.tls.key} if self.tls else {}),
            **parts(self.workers)})
        with open(config, "w", encoding="utf-8") as file:
            file.write(text)
        return command, text

    def without_scratch(self, text):
        """The text as it is reported: every run has another scratch folder."""
        return text.replace(self.scratch.name, "SCRATCH")

    def environment(self):
        home = self.scratch.name  # H2O_ROOT: h2o starts a helper from this folder and does not wait for it
        return {"PATH": PATH, "LANG": "C", "HOME": home, "TMPDIR": home, "XDG_DATA_HOME": home,
                "XDG_CONFIG_HOME": home, "H2O_ROOT": home, "GOMAXPROCS": str(self.workers)}

    def before(self):
        """In the new process."""
        os.setpgid(0, 0)
        end_with_us()
        if self.processors:
            os.sched_setaffinity(0, self.processors)
        if self.recipe.no_root and os.geteuid() == 0:
            # The workers change their user, and must still be allowed to read the folder.
            LIBC.prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0)

    def await_port(self):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                if PORT_TAKEN.search(self.said()):
                    raise PortTaken
                raise Broken(f"{self.name} did not start: {self.told()}")
            if listens(family(self.process.pid), self.port):
                return
            time.sleep(0.01)
        if PORT_TAKEN.search(self.said()):
            raise PortTaken
        raise Broken(f"{self.name} does not listen on port {self.port}: {self.told()}")

    def await_quiet(self):
        """Wait until the server has answered once and all processes that it begins with are asleep."""
        end, before = time.monotonic() + PATIENCE_S, None
        ask(self.name, self.port, "/", self.tls)
        while time.monotonic() < end and (now := (family(self.pid), cpu_ns(self.pid) // QUIET_NS)) != before:
            before = now
            time.sleep(QUIET_S)
        self.began_with = set(family(self.pid))

    # --- While it runs

    def said(self):
        """The text that the server has written to its standard error and its error log."""
        text = os.pread(self.words.fileno(), SAID_MAX, 0).decode(errors="replace")
        try:
            return text + text_of(os.path.join(self.scratch.name, "error.log"))[:SAID_MAX]
        except OSError:
            return text

    def told(self):
        return self.said().strip()[-TOLD_MAX:] or "it says nothing"

    # --- Its end

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """End the server, whatever it is doing, and remove its files."""
        if self.process:
            self.kill()
        self.words.close()
        self.scratch.cleanup()

    def kill(self):
        """Kill all processes of its group, also those whose parent has ended already."""
        end = time.monotonic() + PATIENCE_S
        while living(self.process.pid) and time.monotonic() < end:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                break
            time.sleep(0.001)
        self.process.wait()

    def ended(self):
        """Whether the server has ended; `usage` is then that of the server and of all children it has waited for."""
        if self.process.returncode is None:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode, self.usage = os.waitstatus_to_exitcode(status), usage
        return self.process.returncode is not None

    def stop(self):
        """Ask the server to stop; when all its processes have ended, return what they have used."""
        if self.ended():
            raise Broken(f"{self.name} ended while it was measured, with {self.process.returncode}: {self.told()}")
        lost = set() if self.recipe.varies else self.began_with - set(family(self.pid))
        died = WORKER_DIED.search(self.said())  # looked at now: how a worker ends after SIGTERM does not matter
        os.kill(self.pid, self.recipe.stop)
        end = time.monotonic() + PATIENCE_S
        while not self.ended() or self.process.returncode == 0 and living(self.process.pid):
            if time.monotonic() > end:
                raise Broken(f"{self.name} does not end after {self.recipe.stop.name}: {self.told()}")
            time.sleep(0.002)
        if self.process.returncode != 0:
            raise Broken(f"{self.name} left with {self.process.returncode}: {self.told()}")
        if died or lost:
            raise Broken(f"a worker of {self.name} died while it was measured: {died[0] if died else 'killed'}")
        return self.usage


def living(group):
    """Whether any process of a group still runs.  A zombie does not, unless other threads of its process are left."""
    stats = (text.rpartition(")")[2].split() for text in each_file(filter(str.isdigit, os.listdir("/proc")), "stat"))
    return any(fields[2] == str(group) and (fields[0] not in "ZX" or int(fields[17]) > 1) for fields in stats)


# --- The same bytes -----------------------------------------------------------------------------------------

def fetch(name, port, path, coding="identity", tls=None):
    """(status, coding, body) of an answer to a client that accepts this coding."""
    client = secure.connection(port, tls)
    try:
        client.request("GET", path, headers={"Accept-Encoding": coding, "Connection": "close"})
        answer = client.getresponse()
        return answer.status, answer.getheader("Content-Encoding", "identity"), answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Broken(f"{name} does not answer {path}: {error!r}") from None
    finally:
        client.close()


def ask(name, port, path, tls=None):
    """Status, length and SHA-256 of an uncompressed body."""
    status, coding, body = fetch(name, port, path, tls=tls)
    if coding != "identity":
        raise Broken(f"{name} sends {path} as {coding}, and was asked for the file as it is")
    return status, len(body), hashlib.sha256(body).hexdigest()


def check_file(name, port, folder, path):
    """Raise Broken unless the server's answer for /PATH is that file of the folder."""
    body = bytes_of(os.path.join(folder, path))
    expected = 200, len(body), hashlib.sha256(body).hexdigest()
    if (answer := ask(name, port, "/" + path)) != expected:
        raise Broken(f"{name} sends {path} with {in_words(answer)}; the file: {in_words(expected)}")


def same_bytes(servers, paths):
    """Request each path from each of {name: server}; a sentence that says what was compared.  Broken names the two servers
    that differ, and the path."""
    found = []
    for path in paths:
        answers = {name: ask(name, server.port, path) for name, server in servers.items()}
        (first, expected), *others = answers.items()
        for name, answer in others:
            if answer != expected:
                raise Broken(f"{name} and {first} differ in {path}: {in_words(answer)} and {in_words(expected)}")
        found.append(f"{path} ({in_words(expected)})")
    return f"{', '.join(servers)} send the same bytes: {', '.join(found)}"


def in_words(answer):
    status, length, digest = answer
    return f"status {status}, {length} bytes, SHA-256 {digest[:16]}"
