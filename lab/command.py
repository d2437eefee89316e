# SPDX-License-Identifier: MIT
"""command.py - the common part of the lab's commands: check before a long run, show its progress, and leave
behind a whole result or none.

A document without a place for the tables, a missing tool or a file that is no result is reported before anything is
measured.  If a measurement failed or was interrupted, the document stays as it was.
"""
import argparse
import json
import os
import shutil
import signal
import sys
import tempfile

import table
from rig import TOP, adopt_orphans, text_of


def parser_of(who, what):
    parser = argparse.ArgumentParser(prog=f"{who}.py", description=what)
    parser.add_argument("--rung", type=os.path.abspath, default=os.path.join(TOP, "build/release/rung"),
                        help="the binary to measure")
    parser.add_argument("--json", metavar="FILE", help="write the raw data")
    parser.add_argument("--from", dest="source", metavar="FILE", help="measure nothing: show such raw data")
    parser.add_argument("--write", metavar="PAGE", help="put the tables between the marks of a document")
    return parser


def need(who, *tools):
    for tool in tools:
        if not shutil.which(tool):
            sys.exit(f"{who}: there is no {tool}: make {who} installs and builds what is needed")


def tell(text):
    """Show the progress on a line of its own that the next one replaces; an empty text clears it."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def raw(who, path, *keys):
    """The data that --json wrote; exits with a sentence if the file has none."""
    try:
        data = json.loads(text_of(path))
    except OSError as error:
        sys.exit(f"{who}: {path}: {error.strerror}")
    except ValueError as error:
        sys.exit(f"{who}: {path} is not JSON: {error}")
    if not isinstance(data, dict) or set(keys) - set(data):
        sys.exit(f"{who}: {path} is not what {who}.py --json writes")
    return data


def put(path, text):
    """Replace a file in one step: it is the old one or the new one, never half of one."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(os.path.abspath(path)), delete=False) as file:
        try:
            file.write(text if isinstance(text, bytes) else text.encode())
            file.flush()
            os.chmod(file.name, os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def shown(who, options, data, found, mark):
    """Show the result on the terminal and write it to the files that were asked for; returns the status."""
    found = list(found)
    if options.json:
        put(options.json, json.dumps(data, indent=1) + "\n")
    print(table.plain(data, found))
    if options.write and data["errors"]:
        print(f"{who}: {options.write} stays as it was: measurements failed", file=sys.stderr)
    elif options.write:
        put(options.write, table.in_page(options.write, table.markdown(data, found), mark))
    return 1 if data["errors"] else 0


def run(who, main, kept="nothing was written"):
    """Run main() as a command that may be stopped: every `with` ends its server.  `kept` says what is kept of an interrupted
    run."""
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        status = main()
        sys.stdout.flush()
        sys.exit(status)
    except BrokenPipeError:  # the reader of the output, such as head or a pager, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        tell("")
        print(f"{who}: interrupted: {kept}", file=sys.stderr)
        sys.exit(130)
