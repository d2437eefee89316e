# SPDX-License-Identifier: MIT
"""System calls of a running server, made to fail from outside."""
import contextlib
import re
import shutil
import signal
import subprocess

import pytest

from .client import PATIENCE
from .crowd import sanitized

needed = [pytest.mark.userspace("system calls that another process can make fail"),
          pytest.mark.skipif(not shutil.which("strace"), reason="strace is needed"),
          pytest.mark.skipif(sanitized(), reason="a sanitizer and strace do not go together")]


def failing(server, call, how):
    """Inside the context, that call fails in all of the server's threads, and in those it starts, as `how` says:
    strace(1), inject."""
    return attached(server, "-e", f"trace={call}", "-e", f"inject={call}:{how}")


@contextlib.contextmanager
def attached(server, *options):
    """strace, with these options, attached to all of the server's threads and to those it starts."""
    pids = server.pids()
    command = ["strace", "-f", *options, *(f"--attach={pid}" for pid in pids)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
        try:
            for pid in pids:
                line = strace.stderr.readline()
                if "Operation not permitted" in line:
                    pytest.skip("strace may attach to its own children only: kernel.yama.ptrace_scope")
                assert re.search(r"[Pp]rocess \d+ attached", line), f"{pid}: {line}"
            yield
        finally:
            strace.send_signal(signal.SIGINT)
            strace.communicate(timeout=PATIENCE)
