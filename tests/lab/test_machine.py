# SPDX-License-Identifier: MIT
"""What a result says about the machine, and what an experiment says about its limits, on machines made of files."""
import json
import os
import resource
import subprocess
import sys

import limits
import machine
import pytest
from command import TOP

RUNG = os.path.abspath(os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung")
CPUINFO = """processor\t: {0}
model name\t: Fast One 3000
siblings\t: 4
cpu cores\t: 2
flags\t\t: fpu vme{1}
"""
CPU = "sys/devices/system/cpu"
DESKTOP = {
    "proc/cpuinfo": "\n".join(CPUINFO.format(number, "") for number in range(4)),
    "proc/meminfo": "MemTotal:        8388608 kB\n", "proc/loadavg": "0.10 0.20 0.30 1/100 4242\n",
    "proc/cmdline": "root=/dev/sda1 secret=1 mitigations=off isolcpus=3 quiet -- idle=poll\n",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance\n", f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave\n",
    f"{CPU}/intel_pstate/no_turbo": "0\n", f"{CPU}/isolated": "3\n",
    f"{CPU}/cpu0/cache/index0/level": "1\n", f"{CPU}/cpu0/cache/index0/type": "Data\n",
    f"{CPU}/cpu0/cache/index0/size": "48K\n",
    f"{CPU}/vulnerabilities/meltdown": "Not affected\n", f"{CPU}/vulnerabilities/mds": "Vulnerable\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "proc/sys/net/core/somaxconn": "128\n", "proc/sys/net/ipv4/tcp_max_syn_backlog": "64\n",
    "proc/sys/net/ipv4/tcp_syncookies": "0\n", "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
    "proc/sys/net/ipv4/tcp_tw_reuse": "0\n", "proc/sys/kernel/threads-max": "1000\n",
    "proc/sys/kernel/pid_max": "500\n", "proc/sys/vm/max_map_count": "1200\n",
}


def made(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


@pytest.fixture
def desktop(tmp_path):
    return made(tmp_path, DESKTOP)


def test_what_a_machine_is(desktop):
    told = machine.describe(RUNG, desktop)
    assert told["processor"] == "Fast One 3000" and told["online"] == 4 and told["threads_a_core"] == 2
    assert told["caches"] == {"L1d": "48K"} and told["memory_mib"] == 8192 and told["virtual"] is False
    assert told["governor"] == "performance and powersave" and told["turbo"] == "on" and told["isolated"] == "3"
    assert told["mitigations"] == {"mds": "Vulnerable"} and told["huge_pages"] == "madvise"
    assert told["command_line"] == ["mitigations=off", "isolcpus=3"]  # nothing private
    assert told["sysctls"]["net.core.somaxconn"] == "128" and told["sysctls"]["net.ipv4.tcp_congestion_control"] is None
    assert told["sysctls"]["net.ipv4.ip_local_port_range"] == "32768 60999"
    assert told["descriptors"]["hard"] == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    json.dumps(told)


# shows U51
def test_what_this_machine_is():
    """This machine can be described, whatever it lacks, and the binary says how it was built."""
    told = machine.describe(RUNG)
    assert told["cores"] >= 1 and told["online"] >= told["cores"] and told["kernel"] in os.uname().release
    assert told["versions"]["python3"].split(".")[:2] == [str(part) for part in sys.version_info[:2]]
    assert "C11" in told["compiler"] and " -O2" in told["flags"]


def test_a_machine_that_tells_little(tmp_path):
    root = made(tmp_path, {"proc/cpuinfo": "Hardware: odd\n", "proc/meminfo": ""})
    told = machine.describe("/nonexistent", root)
    assert told["governor"] is told["turbo"] is told["memory_mib"] is told["compiler"] is told["flags"] is None
    assert told["caches"] == told["mitigations"] == {} and told["processor"] and told["online"] == 0
    assert machine.check({}, root) is not None


def plan(options="", **scenario):
    return {"target": [{"options": options}], "scenario": [scenario]}


def said(root, **scenario):
    return "\n".join(limits.binding(plan(**scenario), root))


# shows E24
def test_the_accept_queue_binds_a_burst(desktop):
    assert "The accept queue" in said(desktop, connections=129) and "room for 128" in said(desktop, connections=129)
    below = said(desktop, connections=64)
    assert "next is half-open connections" in below and "To do" not in below
    both = said(desktop, connections=300)
    assert both.index("Half-open") < both.index("The accept queue")  # the tightest limit first
    assert "accept queue" not in said(desktop, idle=300) or "next is" in said(desktop, idle=300)


# shows E24
def test_cookies_lift_the_queue_of_half_open_ones(desktop):
    made_of = os.path.join(desktop, "proc/sys/net/ipv4/tcp_syncookies")
    with open(made_of, "w", encoding="ascii") as file:
        file.write("1\n")
    assert "alf-open" not in said(desktop, connections=100)


def test_what_engines_need_is_asked_for_them_alone(desktop):
    assert "Threads" in said(desktop, idle=501, options="--engine thread")
    assert "Threads" not in said(desktop, idle=500, options="--engine thread")
    assert "hreads" not in said(desktop, idle=501, options="--engine epoll")
    assert "Mappings" in said(desktop, idle=501, options="--engine coro")
    assert "Mappings" not in said(desktop, idle=500, options="--engine coro")


# shows E24
def test_descriptors_and_ports(desktop):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert "Open files" in said(desktop, idle=hard) and "Ports" in said(desktop, idle=28233)
    assert "Ports" not in said(desktop, idle=28232)
    assert "470 connections a second" in said(desktop, connections=1, close=True)


def test_noise(desktop, tmp_path):
    told = "\n".join(limits.noise(desktop))
    assert "Turbo is on" in told and "governor is performance and powersave" in told and "load average" not in told
    assert "isolated" not in told and "virtual" not in told
    made(tmp_path, {"proc/loadavg": "64 64 64 1/1 1\n", "proc/cpuinfo": CPUINFO.format(0, " hypervisor")})
    told = "\n".join(limits.noise(desktop))
    assert "load average is 64.0" in told and "virtual machine" in told


def test_who_else_is_busy_is_counted_and_not_named():
    """Busy processes are counted from given figures and on this machine, with a process that has another parent and so is not ours."""
    assert limits.busy({"1": 0, "2": 5}, {"1": 50, "2": 5, "3": 900}, 100) == (1, 0.5)  # process 3 began in between
    spin = subprocess.run(["sh", "-c", "(while :; do :; done) >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE,
                          text=True, timeout=20, check=True)
    pid = int(spin.stdout)
    try:
        told = "\n".join(limits.others("/"))
    finally:
        os.kill(pid, 9)
    assert "other process" in told and "sh" not in told.replace("shows", "")
