/* SPDX-License-Identifier: MIT */
/* probes.h - the part of trace.bpf.c that attaches to the server itself: its trace points
 * (server/probe.h) and the end of accept4(), which name a socket by a descriptor of the process,
 * and the trace points of the modules (kernel/ktrace.h), which have the socket.
 */
#include <bpf/usdt.bpf.h>

/* The cookie of a socket; 0: it has another port, is not sampled, or has sent and received nothing
 * since the trace began. */
static inline __u64 cookie_read(const struct sock *sk)
{
    __u64 cookie;

    if (BPF_CORE_READ(sk, __sk_common.skc_num) != port)
        return 0;
    cookie = (__u64)BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
    return (cookie & sample_mask) != 0 ? 0 : cookie;
}

/* The cookie of the socket behind a descriptor of this process, if it is one of ours; otherwise 0.
 * Structures that the task points to are read directly, by their types, which costs less than a
 * helper's call. */
static inline __u64 cookie_behind(long fd)
{
    struct fdtable *table = bpf_get_current_task_btf()->files->fdt;
    struct file *file = 0;
    struct socket *socket;

    if (fd < 0 || fd >= table->max_fds)
        return 0;
    bpf_probe_read_kernel(&file, sizeof(file), table->fd + fd);
    socket = BPF_CORE_READ(file, private_data);
    if (!socket || BPF_CORE_READ(socket, file) != file) /* it is not a socket */
        return 0;
    return cookie_read(BPF_CORE_READ(socket, sk));
}

static inline void publish_accept(__u64 cookie)
{
    struct event *e = cookie ? reserve(cookie, EVENT_ACCEPT) : 0;

    if (e)
        publish(e);
}

struct exit_of_call {
    __u64 common;
    long number, result;
};

SEC("tp/syscalls/sys_exit_accept4")
int accepting(struct exit_of_call *call)
{
    publish_accept(cookie_behind(call->result));
    return 0;
}

SEC("usdt")
int BPF_USDT(taken, int fd)
{
    publish_accept(cookie_behind(fd));
    return 0;
}

struct stamps {
    __u64 parsed, found, compressed;
};

static inline void publish_answer(__u64 cookie, __u32 ordinal, const struct stamps *s)
{
    struct event *e = cookie ? reserve(cookie, EVENT_ANSWER) : 0;

    if (!e)
        return;
    e->seq = ordinal;
    e->parsed = s->parsed;
    e->found = s->found;
    e->compressed = s->compressed;
    publish(e);
}

SEC("usdt")
int BPF_USDT(answer, int fd, __u32 ordinal, const struct stamps *from)
{
    __u64 cookie = cookie_behind(fd);
    struct stamps s = {0};

    if (cookie)
        bpf_probe_read_user(&s, sizeof(s), from);
    publish_answer(cookie, ordinal, &s);
    return 0;
}

/* A module may have no description of its types, so these programs take plain numbers. */
static inline __u64 cookie_of_module(struct bpf_raw_tracepoint_args *args)
{
    __u64 cookie = cookie_read((const struct sock *)args->args[0]);

    if (cookie)
        __sync_fetch_and_add(&counts.module, 1);
    return cookie;
}

SEC("raw_tp/rung_accepted")
int module_taken(struct bpf_raw_tracepoint_args *args)
{
    publish_accept(cookie_of_module(args));
    return 0;
}

SEC("raw_tp/rung_answer")
int module_answer(struct bpf_raw_tracepoint_args *args)
{
    const struct stamps s = {args->args[2], args->args[3], args->args[4]};

    publish_answer(cookie_of_module(args), (__u32)args->args[1], &s);
    return 0;
}
