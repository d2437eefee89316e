/* SPDX-License-Identifier: MIT */
/* calls.h - the part of trace.bpf.c that counts what the server asks of the kernel: --calls.
 *
 * The server is every process that has received at the port, with all of its threads.
 */

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, __u32); /* the process */
    __type(value, __u32);
} servers SEC(".maps");

/* The call that a thread of one is in. */
struct asker {
    __u64 since; /* 0: in none */
    __u64 call;
};

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct asker);
} askers SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, COUNTS);
    __type(key, __u32);
    __type(value, struct call_count);
} calls SEC(".maps");

/* This process has received at the port. */
static inline void note_server(void)
{
    __u32 process = bpf_get_current_pid_tgid() >> 32, one = 1;

    if (count_calls && !bpf_map_lookup_elem(&servers, &process))
        bpf_map_update_elem(&servers, &process, &one, BPF_ANY);
}

static inline void count(__u32 what, __u64 ns)
{
    struct call_count *c = bpf_map_lookup_elem(&calls, &what);

    if (!c)
        return;
    c->times++;
    c->ns += ns;
    if (ns > c->max_ns)
        c->max_ns = ns;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(asking, struct pt_regs *regs, long call)
{
    __u32 process = bpf_get_current_pid_tgid() >> 32;
    struct asker *a;

    if (call < 0 || call >= COUNT_CALLS || !bpf_map_lookup_elem(&servers, &process))
        return 0;
    a = bpf_task_storage_get(&askers, bpf_get_current_task_btf(), 0,
                             BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (a) {
        a->since = bpf_ktime_get_ns();
        a->call = (__u64)call;
    }
    return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(asked, struct pt_regs *regs, long result)
{
    struct asker *a = bpf_task_storage_get(&askers, bpf_get_current_task_btf(), 0, 0);

    if (!a || !a->since)
        return 0;
    count((__u32)a->call, bpf_ktime_get_ns() - a->since);
    a->since = 0;
    return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switching, int preempted, struct task_struct *from, struct task_struct *to)
{
    if (bpf_task_storage_get(&askers, from, 0, 0))
        count(!preempted && from->__state ? COUNT_SLEPT : COUNT_PREEMPTED, 0);
    return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(moving, struct task_struct *task, int to)
{
    if (bpf_task_storage_get(&askers, task, 0, 0))
        count(COUNT_MOVED, 0);
    return 0;
}
