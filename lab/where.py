#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""where.py - where the instructions of a request go, function by function, for targets of the experiment counting.

    lab/where.py --build build 'kernel, softirq' floor            what the parts of a request take, side by side
    lab/where.py --build build 'kernel, softirq' --functions 40   ... and the functions that take most

A plugin for the emulator (vm/where.c) counts how often each block of instructions is executed.  Two boots of the same
guest differ only in the number of answers; the difference of the counts, divided by it, is the cost of a request.  The guest's
own symbol table says which function a block belongs to.  All of user space is one line, because addresses there belong to
several processes.
"""
import argparse
import base64
import bisect
import collections
import gzip
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True

import experiment  # noqa: E402 - no bytecode next to our files
import kind_guest
import measures
import scratch
from rig import Broken, text_of
from vm import guest, kernel
from vm.image import Image

HERE = os.path.dirname(os.path.abspath(__file__))
ANSWERS = (1500, 5500)
USER = "user space"
USER_END = 1 << 47
# The first pattern that a function's name fits decides; functions of a module have its name behind them.
PARTS = (
    ("parsing the request", r"(read_|take_|http_parse|head_clear|path_decode|add_byte|end_component|target_read|authority|"
                            r"judge|http_field|http_next|only_value|http_accept|next_weighed|input|http_list).* \[rung"),
    ("finding the answer, and whether it still holds", (r"(ksite|kcache|kstamp|folder_|entry_held|hash_|differs|look|see|"
                                                        r"is_old|order_of|view_of|context_find|host_find|host_release|rht_).* \[rung")),
    ("writing the head, queueing", r"(answer_|http_reply|reply_|put_|text_|http_d|from_unix|to_unix|outq|conn_put|"
                                   r"conn_wrote|conn_space|conn_room|host_|http_mark|http_cond|not_since).* \[rung"),
    ("pump, lists, callbacks", r" \[rung"),
    ("names, files: looking up, opening, closing", (
        r"path_openat|do_filp_open|link_path_walk|walk_component|path_init|terminate_walk|complete_walk|step_into|handle_mounts|"
        r"^_*lookup_|simple_lookup|^_*d_(lookup|alloc|hash|add|same|instantiate|free|set)|dput|dentry|lockref|getname|putname|strncpy_from|"
        r"hashlen|hash_name|do_open|vfs_open|open_flags|openat|^do_sys_open|alloc_empty_file|alloc_file|inode_permission|"
        r"generic_permission|legitimize|unlazy|mnt(get|put)|nameidata|may_open|close_fd|filp_close|filp_flush|^_*x64_sys_close|locks_remove|notify|"
        r"statx|fstat|getattr|fillattr|cp_new_stat|unused_fd|alloc_fd|fd_install|expand_files|^__fput|security_(file|inode|path)|"
        r"apparmor_file|aa_file|^_*ima_|file_free|__close_range|pick_file")),
    ("waiting, waking, changing to another", (
        r"schedule|^psi_|^_*update_(load|curr|cfs|rq|min|avg)|_fair$|queue_entity|queue_task|^__switch_to|switch_mm|"
        r"try_to_wake|ttwu|^ep_|epoll|wake_|worker|queue_work|process_one_work|tasklet|pick_next|set_next|put_prev|rcu_note|"
        r"rseq|sched_|rq_clock|finish_task|pwq_|resched|preempt_w|select_task|cpuacct|calc_delta|(set|get|clear)_work|_poll")),
    ("system calls, without what they are for", (
        r"SYSCALL|syscall|sysret|fget|fput|exit_to_user|^__x64_sys|^x64_sys|^__sys_|sockfd_lookup|import_single|move_addr|"
        r"fpregs|put_user")),
    ("copying, and checking what is copied", (
        r"^_*mem(cpy|set|cmp|chr|move)|copy_user|_iter$|clear_page|skb_copy|check_object|virt_addr_valid|heap_object|"
        r"skb_datagram|copy_datagram")),
    (USER, rf"^{USER}"),
    ("TCP, IP, sockets and their memory", r""),
)


def plugin(folder):
    """vm/where.c as the emulator loads it."""
    path = os.path.join(folder, "where.so")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", path, os.path.join(HERE, "vm/where.c")],
                   stdin=subprocess.DEVNULL, check=True, timeout=60)
    return path


def blocks_of(path):
    """{(address, instructions): times}"""
    found = {}
    for line in text_of(path).splitlines():
        address, instructions, times = line.split()
        found[int(address, 16), int(instructions)] = int(times)
    return found


def names_of(packed):
    """([address], [name]) of functions, in order; from the kernel's table, which is packed with gzip."""
    words = [line.split() for line in gzip.decompress(packed).decode("ascii").splitlines()]
    found = sorted((int(one[0], 16), " ".join(one[2:])) for one in words if one[1] in "tTwW")
    return [address for address, _ in found], [name for _, name in found]


def booted(context, target, scenario, answers, folder):
    """Boot one guest: how often its blocks were executed, and the names of its functions."""
    image, version = Image(), scenario.get("kernel", kind_guest.KERNEL)
    commands, missing = kind_guest.put_all(image, context, [(target, scenario)], version)
    if missing:
        raise missing[target["name"]]
    words = kind_guest.line(0, commands[target["name"]], target, scenario).split(" ")
    load = " ".join(words[words.index(str(kind_guest.ANSWERS[1])) + 1:])
    command = commands[target["name"]] + (f" {scenario.get('args', '')}" if "program" in target else "")
    lines = (". /lab/count.sh", f"path={scenario.get('bytes', kind_guest.BODY_BYTES)}.html", "settle || exit 1",
             f"setsid sh -c 'exec {command}' >/tmp/said 2>&1 &", "server=$!",
             f"measured {kind_guest.ANSWERS[0]} {answers} {load} || {{ cat /tmp/why; exit 1; }}",
             "gzip -1 </proc/kallsyms | base64", "end_server", "exit 0")
    # No folder of this machine is shared: while the guest waits for it, its clock jumps from timer to timer, and the work of
    # these timers depends on this machine's time.
    job = guest.Job("\n".join(lines), image, count=True, limit_s=kind_guest.LIMIT_S, memory_mib=kind_guest.MEMORY_MIB,
                    plugin=f"{plugin(folder)},out={folder}/blocks")
    result = guest.boot(job, kernel.fetch(version, kind_guest.cache_of(context)))
    if result.status:
        raise Broken(f"{target['name']}: {result.output.strip()}")
    return blocks_of(f"{folder}/blocks"), names_of(base64.b64decode(result.output))


def functions(context, target, scenario):
    """{function: instructions of a request}"""
    with scratch.Folder("where") as folder:
        less, more = (booted(context, target, scenario, answers, folder) for answers in ANSWERS)
    addresses, names = more[1]
    found = collections.Counter()
    for block in less[0].keys() | more[0].keys():
        times = more[0].get(block, 0) - less[0].get(block, 0)
        at = bisect.bisect_right(addresses, block[0]) - 1
        name = USER if block[0] < USER_END or at < 0 else names[at]
        found[name] += times * block[1] / (ANSWERS[1] - ANSWERS[0])
    return found


def part_of(name):
    return next(part for part, pattern in PARTS if re.search(pattern, name))


def parts(found):
    total = collections.Counter()
    for name, instructions in found.items():
        total[part_of(name)] += instructions
    return total


def table(columns):
    """{target: {part: instructions}} as a table for the documents."""
    lines = ["| | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for part, _ in PARTS:
        lines.append(f"| {part} | " + " | ".join(f"{round(one[part], -1):,.0f}" for one in columns.values()) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="where", description="Where the instructions of a request go.")
    parser.add_argument("--build", default=os.path.join(HERE, "../build"), metavar="DIR", help="where rung was built")
    parser.add_argument("--scenario", default="16 connections", help="of the experiment counting")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="name the N that take most")
    parser.add_argument("target", nargs="+", help="of the experiment counting")
    given = parser.parse_args()
    plan = experiment.load("counting")
    scenario = next((one for one in plan["scenario"] if one["name"] == given.scenario), None)
    targets = [one for name in given.target for one in plan["target"] if one["name"] == name]
    if not scenario or len(targets) < len(given.target):
        parser.error("the experiment counting has no such target or scenario")
    context = measures.Context(os.path.join(given.build, "release"), "/nonexistent", "quick")
    try:
        found = {target["name"]: functions(context, target, scenario) for target in targets}
    except Broken as error:
        sys.exit(f"where: {error}")
    print(table({name: parts(one) for name, one in found.items()}))
    for name, one in found.items():
        for function, instructions in one.most_common(given.functions):
            print(f"{instructions:9,.0f}  {name}: {function}")


if __name__ == "__main__":
    main()
