#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""load_cost.py - what a request costs rung load, and what it costs wrk, asking the same nginx: make load-cost.

Three questions, none by a single clock reading.  Instructions: each generator under callgrind for a short and a long
run; the difference divided by the additional requests, so that starting cancels.  Processor time: user and system of
the generator per request.  Throughput: runs in turns (A B B A ...), the ratio of neighbours, its median and spread.
rung load checks every body while it is measured with --check; wrk checks nothing, and is the same in both tables.
"""
import argparse
import contextlib
import datetime
import os
import platform
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from rig import PATIENCE_S, Broken, end_with_us, make_folder, text_of

PAGE, BEGIN, END = "docs/load.md", "<!-- begin: make load-cost -->\n", "<!-- end -->"
NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
CONNECTIONS = 10
QUICK = {"rounds": 6, "seconds": 1, "short": 1, "long": 3}
FULL = {"rounds": 20, "seconds": 3, "short": 2, "long": 8}
CONFIG = """
daemon off; master_process off; pid {folder}/pid; error_log stderr crit; {user}
events {{ worker_connections 256; }}
http {{
    default_type text/html; access_log off; keepalive_requests 1000000000;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; root {folder}/root; }}
}}
"""


@contextlib.contextmanager
def nginx():
    """nginx on a free port, one process; yields its URL and the folder it serves."""
    with tempfile.TemporaryDirectory(prefix="rung-lab-") as folder, socket.socket() as probe:
        os.chmod(folder, 0o755)
        os.mkdir(f"{folder}/root")
        make_folder(f"{folder}/root")
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        with open(f"{folder}/conf", "w", encoding="ascii") as file:
            file.write(CONFIG.format(folder=folder, port=port, user="user root;" if os.geteuid() == 0 else ""))
        process = subprocess.Popen([NGINX, "-p", folder, "-c", f"{folder}/conf"], stdin=subprocess.DEVNULL,
                                   preexec_fn=end_with_us)
        try:
            end = time.monotonic() + PATIENCE_S
            while True:
                with socket.socket() as one:
                    if one.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if time.monotonic() > end or process.poll() is not None:
                    raise Broken("nginx does not answer")
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/index.html", f"{folder}/root"
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def run(command, asked):
    """Requests answered, wall seconds as the tool tells, and processor time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         timeout=asked * 20 + PATIENCE_S, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = sum(getattr(after, field) - getattr(before, field) for field in ("ru_utime", "ru_stime"))
    done = re.search(r"answers +(\d+), ([\d.]+) /s", out.stdout) or re.search(r"(\d+) requests in[^$]*?Requests/sec: +([\d.]+)",
                                                                            out.stdout)
    bad = re.search(r"Non-2xx|Socket errors", out.stdout) or ("answers" in out.stdout and "errors     none" not in out.stdout)
    if out.returncode or not done or bad:
        raise Broken(f"{command}: status {out.returncode}\n{out.stdout}{out.stderr}")
    return int(done[1]), float(done[2]), cpu


class Tools:
    def __init__(self, load, url, folder):
        basic = ["-c", str(CONNECTIONS), "-t", "1"]
        self.command = {"rung load": [load, *basic], "rung load --check": [load, *basic, "--check", folder],
                        "wrk": ["wrk", *basic]}
        self.url = url

    def run(self, tool, seconds, wrap=()):
        return run([*wrap, *self.command[tool], "-d", f"{seconds}s", self.url], seconds)


def instructions(tools, tool, plan):
    """Of the program and its libraries, per request; the kernel's are not seen."""
    found = []
    for seconds in (plan["short"], plan["long"]):
        with tempfile.NamedTemporaryFile() as out:
            answers = tools.run(tool, seconds, ("valgrind", "--quiet", "--tool=callgrind",
                                                f"--callgrind-out-file={out.name}"))[0]
            found.append((answers, int(re.search(r"^(?:summary|totals): (\d+)", text_of(out.name), re.MULTILINE)[1])))
    return (found[1][1] - found[0][1]) / (found[1][0] - found[0][0])


def turns(tools, rounds, seconds):
    """Requests per second and processor time per request of each tool, round by round."""
    names, found = list(tools.command), []
    for turn in range(rounds):
        one = {}
        for name in names if turn % 2 == 0 else names[::-1]:
            answers, rate, cpu = tools.run(name, seconds)
            one[name] = (rate, cpu / answers * 1e6)
        found.append(one)
    return found


def spread(values, digits=2):
    low, middle, high = (statistics.quantiles(values, n=4, method="inclusive"))
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def table(tools, counted, found):
    rows = ["| | instructions per request | processor time, us | throughput, of wrk's | processor time, of wrk's |",
            "|---|---|---|---|---|"]
    for name in tools.command:
        rate = spread([one[name][0] / one["wrk"][0] for one in found])
        cpu = spread([one[name][1] / one["wrk"][1] for one in found])
        rows.append(f"| {name} | {counted[name]:.0f} | {spread([one[name][1] for one in found], 1)} | "
                    + (f"{rate} | {cpu} |" if name != "wrk" else "1 | 1 |"))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--load", required=True, help="the rung-load to measure")
    parser.add_argument("--quick", action="store_true", help="a minute rather than five")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE}")
    opt = parser.parse_args()
    plan = QUICK if opt.quick else FULL
    missing = [name for name in ("wrk", "valgrind") if not shutil.which(name)] + ([] if NGINX else ["nginx"])
    if missing:
        print(f"load_cost.py: not installed: {', '.join(missing)} (scripts/setup lab)", file=sys.stderr)
        return 1
    with nginx() as (url, folder):
        tools = Tools(opt.load, url, folder)
        counted = {name: instructions(tools, name, plan) for name in tools.command}
        rows = table(tools, counted, turns(tools, plan["rounds"], plan["seconds"]))
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], stdout=subprocess.PIPE, text=True, check=False)
    model = re.search(r"model name\s*: (.*)", text_of("/proc/cpuinfo"))
    rows += ["", f"{datetime.date.today()}, commit {commit.stdout.strip()}, {model[1] if model else platform.machine()}, "
             f"{os.cpu_count()} processors, Linux {platform.release()}, {plan['rounds']} rounds of {plan['seconds']} s, "
             f"{CONNECTIONS} connections on one thread, a body of 1 KiB; median (quartiles)."]
    print("\n".join(rows))
    if opt.write:
        text = text_of(PAGE)
        head, rest = text.split(BEGIN)
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(head + BEGIN + "\n".join(rows) + "\n" + END + rest.split(END, 1)[1])
    dear = counted["rung load"] > counted["wrk"]
    if dear:
        print("rung load takes more instructions per request than wrk", file=sys.stderr)
    return 1 if dear else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as why:
        print(f"load_cost.py: {why}", file=sys.stderr)
        sys.exit(1)
