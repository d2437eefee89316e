# SPDX-License-Identifier: MIT
"""floors.py - a lab program that serves, with the interface of rig.Server: the floor, which has one answer for all requests.

The scenario decides how it is started: its body is the scenario's first file, and it closes after each answer, or counts
pipelined requests, if the scenario says so.
"""
import os
import signal
import subprocess
import tempfile
import time

import peers
from rig import PATIENCE_S, Broken, Cannot, end_with_us


def words_of(target, scenario, body):
    """The program's arguments behind the port."""
    if "entries" in scenario or scenario.get("gzip"):
        raise Cannot(f"{target['name']} sends one fixed answer, so it cannot do this scenario")
    how = "close" if scenario.get("close") else "pipelined" if scenario.get("pipeline") else "keep"
    return [body, how, *target.get("args", "").split()]


class Floor:
    """The program on a free port of 127.0.0.1; `words` are its arguments behind the port."""

    def __init__(self, program, words, processors=None):
        self.program, self.usage = program, None
        self.port = peers.free_port()
        self.command = [program, str(self.port), *words]

        def prepare():
            end_with_us()
            if processors:
                os.sched_setaffinity(0, processors)
        self.said = tempfile.TemporaryFile()  # pylint: disable=consider-using-with
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.said, stderr=subprocess.STDOUT,
                                        preexec_fn=prepare)
        self.pid = self.process.pid
        try:
            self.await_port()
        except BaseException:
            self.close()
            raise

    def told(self):
        return os.pread(self.said.fileno(), 600, 0).decode(errors="replace").strip() or "it says nothing"

    def await_port(self):
        end = time.monotonic() + PATIENCE_S
        while not peers.listens([self.pid], self.port):
            if self.process.poll() is not None:
                raise Broken(f"{os.path.basename(self.program)} did not start: {self.told()}")
            if time.monotonic() > end:
                raise Broken(f"{os.path.basename(self.program)} does not listen on port {self.port}: {self.told()}")
            time.sleep(0.002)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ask it to stop before killing it: a thread killed while it waits in io_uring may spin in the kernel for ever
        (base/ring.h)."""
        if self.usage is None and self.process.returncode is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.said.close()

    def stop(self):
        """Ask the program to stop; when it has, return what it has used."""
        os.kill(self.pid, signal.SIGTERM)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self.process.returncode, self.usage = os.waitstatus_to_exitcode(status), usage
                if self.process.returncode:
                    raise Broken(f"{os.path.basename(self.program)} left with {self.process.returncode}: {self.told()}")
                return usage
            time.sleep(0.002)
        raise Broken(f"{os.path.basename(self.program)} does not end after SIGTERM")
