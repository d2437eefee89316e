# SPDX-License-Identifier: MIT
"""far.py - clients on another machine: how rung load is started there, and the address of this machine that it connects to.

Servers are started here and listen on that address; a command (`ssh HOST rung-load`) starts the generator.  This machine
still compares answers with files before each measurement, and holds the idle connections.
"""
import os
import shlex
import socket
import subprocess

HERE = "127.0.0.1"
SHELLS = ("ssh", "rsh")  # their arguments are parsed by a shell again
KINDS = {"load"}         # kinds of experiments that have no other clients than these
PATIENCE_S = 30


class Far:
    """The setting for the whole program: client () means that the generator runs here."""
    address, client = HERE, ()


class Unfit(Exception):
    """Clients cannot run on the other machine: a sentence says why."""


def command(argv):
    """The command that starts rung load with these arguments on the other machine."""
    quoted = map(shlex.quote, argv) if os.path.basename(Far.client[0]) in SHELLS else argv
    return [*Far.client, *quoted]


def settle(client, address):
    """Use clients on the other machine from now on.  Both arguments or neither are given; anything that cannot work is
    reported before the first measurement."""
    if bool(client) != bool(address):
        raise Unfit("--client, how rung load is started on another machine, and --address, where it reaches this one, go together")
    if not client:
        return
    try:
        with socket.create_server((address, 0)):
            pass
    except (OSError, OverflowError) as error:
        raise Unfit(f"--address {address}: no server can listen there: {getattr(error, 'strerror', None) or error}") from None
    try:
        Far.address, Far.client = address, tuple(shlex.split(client))
        done = subprocess.run(command(["--help"]), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S,
                              check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise Unfit(f"--client '{client}' cannot be started: {error}") from None
    if done.returncode or "rung load" not in done.stdout:
        said = " ".join((done.stderr or done.stdout).split())[-200:]
        raise Unfit(f"--client '{client}' does not start rung load: {said or f'it left with {done.returncode}'}")


def check(kinds):
    """Raise Unfit if an experiment of these kinds cannot have its clients on the other machine."""
    if Far.client and kinds - KINDS:
        raise Unfit(f"--client: {', '.join(sorted(kinds - KINDS))} measures on one machine; only experiments of the kind load can do "
                    "with clients elsewhere")
