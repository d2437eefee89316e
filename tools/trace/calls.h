/* SPDX-License-Identifier: MIT */
/* calls.h - the part of trace.bpf.c that counts what the server asks of the kernel: --calls.
 *
 * The server is each process that listens at the port (attach.c puts it into the map) or has
 * received there, and each process that one of them starts; with all of its threads.
 */

enum { TASK_DEAD = 128 };

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, SERVERS_MAX);
    __type(key, __u32); /* the process */
    __type(value, __u32);
} servers SEC(".maps");

/* When counting ends: CLOCK_MONOTONIC; 0: not yet.  Requests are counted until then, too. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} until SEC(".maps");

/* The call that a thread of the server is in. */
struct asker {
    __u64 since; /* 0: in no call */
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

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, CALL_TIMES_MAX);
    __type(key, __u32);
    __type(value, __u64);
} call_times SEC(".maps");

static inline int is_server(__u32 process)
{
    return bpf_map_lookup_elem(&servers, &process) != 0;
}

static inline void add_server(__u32 process)
{
    __u32 one = 1;

    if (!is_server(process))
        bpf_map_update_elem(&servers, &process, &one, BPF_ANY);
}

static inline struct asker *asker_of(struct task_struct *task, __u64 flags)
{
    return bpf_task_storage_get(&askers, task, 0, flags);
}

/* This thread has received at the port.  It may be a thread of the kernel, which makes no calls. */
static inline void note_server(void)
{
    if (!count_calls)
        return;
    add_server(bpf_get_current_pid_tgid() >> 32);
    asker_of(bpf_get_current_task_btf(), BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* The counter of `what`; 0: counting has ended. */
static inline struct call_count *count_of(__u32 what, __u64 now)
{
    __u32 only = 0;
    __u64 *end = bpf_map_lookup_elem(&until, &only);

    return end && (!*end || now < *end) ? bpf_map_lookup_elem(&calls, &what) : 0;
}

static inline void count(__u32 what)
{
    struct call_count *c = count_of(what, bpf_ktime_get_ns());

    if (c)
        c->times++;
}

/* A call is counted when it begins, because some calls do not return. */
SEC("tp_btf/sys_enter")
int BPF_PROG(asking, struct pt_regs *regs, long call)
{
    struct call_count *c;
    struct asker *a;
    __u64 now;

    if (call < 0 || call >= COUNT_CALLS || !is_server(bpf_get_current_pid_tgid() >> 32))
        return 0;
    now = bpf_ktime_get_ns();
    c = count_of((__u32)call, now);
    a = asker_of(bpf_get_current_task_btf(), BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (!a || !c)
        return 0;
    c->times++;
    a->since = now;
    a->call = (__u64)call;
    return 0;
}

/* The number of bits of ns / FIRST_STEP_NS: there is no instruction for it. */
static inline __u32 step_of(__u64 ns)
{
    __u64 rest = ns / FIRST_STEP_NS;
    __u32 step = 0;

    for (int width = 32; width; width /= 2)
        if (rest >> width) {
            step += width;
            rest >>= width;
        }
    step += rest != 0;
    return step < CALL_STEPS ? step : CALL_STEPS - 1;
}

/* Two processors may count the first call of one duration at once: the second finds the place
 * there. */
static inline void count_time(__u64 call, __u64 ns)
{
    __u32 key = (__u32)call * CALL_STEPS + step_of(ns);
    __u64 none = 0, *times = bpf_map_lookup_elem(&call_times, &key);

    if (!times) {
        bpf_map_update_elem(&call_times, &key, &none, BPF_NOEXIST);
        times = bpf_map_lookup_elem(&call_times, &key);
    }
    if (times)
        __sync_fetch_and_add(times, 1);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(asked, struct pt_regs *regs, long result)
{
    struct asker *a = asker_of(bpf_get_current_task_btf(), 0);
    struct call_count *c;
    __u64 now, took;

    if (!a || !a->since)
        return 0;
    now = bpf_ktime_get_ns();
    took = now - a->since;
    c = count_of((__u32)a->call, now);
    a->since = 0;
    if (!c)
        return 0;
    c->ns += took;
    if (count_times)
        count_time(a->call, took);
    if (took > c->max_ns)
        c->max_ns = took;
    return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switching, int preempted, struct task_struct *from, struct task_struct *to)
{
    if (!(from->__state & TASK_DEAD) && asker_of(from, 0))
        count(!preempted && from->__state ? COUNT_WAITED : COUNT_PREEMPTED);
    return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(moving, struct task_struct *task, int to)
{
    if (asker_of(task, 0))
        count(COUNT_MOVED);
    return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(starting, struct task_struct *parent, struct task_struct *child)
{
    if (is_server((__u32)parent->tgid))
        add_server((__u32)child->tgid);
    return 0;
}

/* Another process may get this process's number next. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(ending, struct task_struct *task)
{
    __u32 process = (__u32)task->tgid;

    if (task->pid == task->tgid)
        bpf_map_delete_elem(&servers, &process);
    return 0;
}
