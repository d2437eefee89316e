/* SPDX-License-Identifier: MIT */
/* trace.bpf.c - the programs that run in the kernel: they see packets, receives and sends of one
 * port, and when threads that receive there were woken.
 *
 * They decide nothing.  A packet's sequence numbers, a receive's and a send's go into a ring, with
 * the first bytes of the payload; flow.c makes requests of them.  The ring wakes nobody: a reader
 * that looks every few milliseconds costs less than half of what a wake-up for each event does.
 *
 *   arrived, left    cgroup_skb: each packet of any socket, of a process or of the kernel
 *   received, sent   whoever calls: read, recv, sendfile, io_uring, a module
 *   state            established, gone
 *   waking, running  of threads that have received at the port
 *   accepting        connections that accept4() has returned
 *   answer, taken    the trace points of the server itself (server/probe.h)
 */
#include "kern.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/usdt.bpf.h>
#include "event.h"

enum {
    THREADS_MAX = 16384,
    FAMILY_IPV4 = 2,
    FAMILY_IPV6 = 10,
    PROTOCOL_TCP = 6,
    STATE_ESTABLISHED = 1,
    STATE_CLOSE = 7,
    STATE_LISTEN = 10,
    STATE_NEW = 12, /* a connection that is not a socket yet */
    PASS = 1
};

/* attach.c sets these in this order (struct fixed). */
const volatile __u32 port = 0;        /* of the server, as people write it */
const volatile __u32 sample_mask = 0; /* a connection is watched if its cookie has none of these */
const volatile __u32 watch_threads = 0; /* waking and running are attached, both */
struct trace_counts counts;

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 24);
} ring SEC(".maps");

/* A thread that receives at the port: when it last fell asleep, was woken after that, and ran.  One
 * that is woken before it has quite fallen asleep leaves the processor all the same, so the last
 * call is kept too. */
struct thread {
    __u64 asleep, called, woken, run;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, THREADS_MAX);
    __type(key, __u32);
    __type(value, struct thread);
} threads SEC(".maps");

/* Packets that have left since the client last sent; whether it ever sent before there was one. */
struct talk {
    __u32 sent, left, deep;
};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct talk);
} talks SEC(".maps");

static inline void publish(struct event *e)
{
    __sync_fetch_and_add(&counts.events, 1);
    bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

static inline struct event *reserve(__u64 cookie, __u8 kind)
{
    struct event *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);

    if (!e) {
        __sync_fetch_and_add(&counts.lost, 1);
        return 0;
    }
    __builtin_memset(e, 0, sizeof(*e));
    e->ns = bpf_ktime_get_ns();
    e->cookie = cookie;
    e->kind = kind;
    return e;
}

/* --- Packets ---------------------------------------------------------------------------------- */

struct ipv4_head {
    __u8 version_words, tos;
    __be16 len, id, fragment;
    __u8 ttl, protocol;
    __be16 sum;
    __be32 from, to;
};

struct ipv6_head {
    __be32 version_flow;
    __be16 len;
    __u8 next, hops;
    __u8 from[16], to[16];
};

struct tcp_head {
    __be16 from, to;
    __be32 seq, ack;
    __u8 words, flags;
};
enum { TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4 };

struct packet {
    __u32 at, len; /* of the payload in the packet */
    __u32 seq, ack;
    __u16 from, to;
    __u8 tcp_flags, early;
    __u8 peer[16] __attribute__((aligned(8)));
};

/* Where TCP begins; 0: it is none. */
static inline __u32 read_ip(struct __sk_buff *skb, struct packet *p)
{
    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    struct ipv4_head *v4 = data;
    struct ipv6_head *v6 = data;

    if (skb->protocol == bpf_htons(0x0800)) {
        if ((void *)(v4 + 1) > end || v4->protocol != PROTOCOL_TCP)
            return 0;
        p->peer[10] = p->peer[11] = 0xff;
        __builtin_memcpy(p->peer + 12, &v4->from, 4);
        return (v4->version_words & 15u) * 4;
    }
    if ((void *)(v6 + 1) > end || v6->next != PROTOCOL_TCP)
        return 0;
    __builtin_memcpy(p->peer, v6->from, 16);
    return sizeof(*v6);
}

/* Whether it is a packet of TCP. */
static inline int read_packet(struct __sk_buff *skb, struct packet *p)
{
    __u32 at = read_ip(skb, p), head;
    struct tcp_head tcp;

    if (!at || bpf_skb_load_bytes(skb, at, &tcp, sizeof(tcp)))
        return 0;
    head = (tcp.words >> 4) * 4u;
    p->at = at + head;
    p->len = skb->len > p->at ? skb->len - p->at : 0;
    p->seq = bpf_ntohl(tcp.seq);
    p->ack = bpf_ntohl(tcp.ack);
    p->from = bpf_ntohs(tcp.from);
    p->to = bpf_ntohs(tcp.to);
    p->tcp_flags = tcp.flags;
    return 1;
}

static inline void fill(struct event *e, const struct packet *p)
{
    e->seq = p->seq;
    e->ack = p->ack;
    e->len = p->len;
    e->flags = (p->tcp_flags & TCP_FIN ? EVENT_FIN : 0) |
               (p->tcp_flags & TCP_RST ? EVENT_RESET : 0) | (p->early ? EVENT_EARLY : 0);
    e->peer_port = p->from;
    __builtin_memcpy(e->peer, p->peer, sizeof(e->peer));
}

/* An event with room bytes for payload behind it.  The verifier wants the length in one register
 * whose bounds, 1 and room, it has seen tested.  The compiler tests a copy, or drops the test of
 * what it knows already: so the test is written in assembly. */
#define PUBLISH_WITH(skb, p, cookie, what, room)                                              \
    do {                                                                                      \
        struct event *e_ = bpf_ringbuf_reserve(&ring, sizeof(struct event) + (room), 0);      \
        __u64 n_ = (p)->len;                                                                  \
                                                                                              \
        if (!e_) {                                                                            \
            __sync_fetch_and_add(&counts.lost, 1);                                            \
            break;                                                                            \
        }                                                                                     \
        __builtin_memset(e_, 0, sizeof(*e_));                                                 \
        e_->ns = bpf_ktime_get_ns();                                                          \
        e_->cookie = (cookie);                                                                \
        e_->kind = (what);                                                                    \
        fill(e_, p);                                                                          \
        __asm__ volatile("if %0 > 0 goto +1\n%0 = 1\nif %0 < %1 goto +1\n%0 = %1"              \
                         : "+r"(n_) : "i"(room));                                             \
        if (!bpf_skb_load_bytes(skb, (p)->at, e_ + 1, n_))                                    \
            e_->kept = n_;                                                                    \
        publish(e_);                                                                          \
    } while (0)

/* How much of the payload is kept at most. */
static inline __u32 most_kept(struct __sk_buff *skb, __u8 kind)
{
    struct bpf_sock *sk = skb->sk ? bpf_sk_fullsock(skb->sk) : 0;
    struct talk *t = sk ? bpf_sk_storage_get(&talks, sk, 0, BPF_SK_STORAGE_GET_F_CREATE) : 0;

    if (!t)
        return KEPT_FIRST;
    if (kind == EVENT_OUT) {
        t->left++;
        return t->deep ? KEPT_DEEP : t->left > KEPT_PACKETS ? KEPT_REST : KEPT_FIRST;
    }
    t->deep = t->deep || (t->sent && !t->left);
    t->sent = 1;
    t->left = 0;
    return t->deep ? KEPT_DEEP : KEPT_FIRST;
}

static inline void publish_packet(struct __sk_buff *skb, const struct packet *p, __u8 kind)
{
    __u64 cookie = bpf_get_socket_cookie(skb);
    struct event *e;
    __u32 most;

    if ((cookie & sample_mask) != 0)
        return;
    if (p->len == 0) {
        e = reserve(cookie, kind);
        if (e) {
            fill(e, p);
            publish(e);
        }
        return;
    }
    most = most_kept(skb, kind);
    if (p->len <= KEPT_SMALL)
        PUBLISH_WITH(skb, p, cookie, kind, KEPT_SMALL);
    else if (p->len <= KEPT_REST || most == KEPT_REST)
        PUBLISH_WITH(skb, p, cookie, kind, KEPT_REST);
    else if (p->len <= KEPT_MIDDLE)
        PUBLISH_WITH(skb, p, cookie, kind, KEPT_MIDDLE);
    else if (p->len <= KEPT_LARGE)
        PUBLISH_WITH(skb, p, cookie, kind, KEPT_LARGE);
    else if (p->len <= KEPT_FIRST || most == KEPT_FIRST)
        PUBLISH_WITH(skb, p, cookie, kind, KEPT_FIRST);
    else
        PUBLISH_WITH(skb, p, cookie, kind, KEPT_DEEP);
}

SEC("cgroup_skb/ingress")
int arrived(struct __sk_buff *skb)
{
    struct packet p = {0};
    struct bpf_sock *sk = skb->sk;

    if (!read_packet(skb, &p) || p.to != port || p.tcp_flags & TCP_SYN)
        return PASS;
    p.early = sk && (sk->state == STATE_LISTEN || sk->state == STATE_NEW);
    if (!p.early || p.len)
        publish_packet(skb, &p, EVENT_IN);
    return PASS;
}

/* A packet that only acknowledges says nothing about an answer. */
SEC("cgroup_skb/egress")
int left(struct __sk_buff *skb)
{
    struct packet p = {0};

    if (read_packet(skb, &p) && p.from == port && !(p.tcp_flags & TCP_SYN) &&
        (p.len || p.tcp_flags & (TCP_FIN | TCP_RST)))
        publish_packet(skb, &p, EVENT_OUT);
    return PASS;
}

/* --- Sockets ---------------------------------------------------------------------------------- */

static inline __u64 cookie_of(struct sock *sk)
{
    __u64 cookie = bpf_get_socket_cookie(sk);

    return (cookie & sample_mask) != 0 ? 0 : cookie;
}

static inline int is_ours(struct sock *sk)
{
    return sk->__sk_common.skc_num == port && sk->sk_protocol == PROTOCOL_TCP;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(received, struct sock *sk, int ret)
{
    struct thread fresh = {0}, *t;
    struct event *e;
    __u64 cookie;
    __u32 tid = (__u32)bpf_get_current_pid_tgid();

    if (ret <= 0 || !is_ours(sk))
        return 0;
    cookie = cookie_of(sk);
    e = cookie ? reserve(cookie, EVENT_RECV) : 0;
    t = bpf_map_lookup_elem(&threads, &tid);
    if (e) {
        e->seq = BPF_CORE_READ((struct tcp_sock *)sk, copied_seq);
        e->len = (__u32)ret;
        e->tid = tid;
        if (t && watch_threads) {
            e->flags = EVENT_KNOWN | (t->asleep ? EVENT_ASLEEP : 0);
            e->woken = t->woken;
            e->run = t->run;
        }
        publish(e);
    }
    if (!t)
        bpf_map_update_elem(&threads, &tid, &fresh, BPF_NOEXIST);
    return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(sent, struct sock *sk, int ret)
{
    struct event *e;
    __u64 cookie;

    if (ret <= 0 || !is_ours(sk))
        return 0;
    cookie = cookie_of(sk);
    e = cookie ? reserve(cookie, EVENT_SEND) : 0;
    if (e) {
        e->seq = BPF_CORE_READ((struct tcp_sock *)sk, write_seq);
        e->len = (__u32)ret;
        e->tid = (__u32)bpf_get_current_pid_tgid();
        publish(e);
    }
    return 0;
}

static inline void fill_peer(struct event *e, struct sock *sk)
{
    e->peer_port = bpf_ntohs(sk->__sk_common.skc_dport);
    if (sk->__sk_common.skc_family == FAMILY_IPV6) {
        if (bpf_core_field_exists(sk->__sk_common.skc_v6_daddr))
            BPF_CORE_READ_INTO(&e->peer, sk, __sk_common.skc_v6_daddr);
        return;
    }
    e->peer[10] = e->peer[11] = 0xff;
    __builtin_memcpy(e->peer + 12, &sk->__sk_common.skc_daddr, 4);
}

/* A socket that is closed has given its port back: skc_num is 0 then, and inet_sport is not. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state, struct sock *sk, int before, int after)
{
    struct event *e;
    __u64 cookie;

    if ((after != STATE_ESTABLISHED && after != STATE_CLOSE) || sk->sk_protocol != PROTOCOL_TCP ||
        BPF_CORE_READ((struct inet_sock *)sk, inet_sport) != bpf_htons(port))
        return 0;
    cookie = cookie_of(sk);
    e = cookie ? reserve(cookie, after == STATE_CLOSE ? EVENT_CLOSE : EVENT_OPEN) : 0;
    if (e) {
        fill_peer(e, sk);
        publish(e);
    }
    return 0;
}

/* --- Threads ---------------------------------------------------------------------------------- */

SEC("tp_btf/sched_waking")
int BPF_PROG(waking, struct task_struct *task)
{
    __u32 tid = (__u32)task->pid;
    struct thread *t = bpf_map_lookup_elem(&threads, &tid);

    if (!t)
        return 0;
    t->called = bpf_ktime_get_ns();
    if (t->asleep && !t->woken)
        t->woken = t->called;
    return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(running, int preempted, struct task_struct *from, struct task_struct *to)
{
    __u32 tid = (__u32)from->pid;
    struct thread *t = bpf_map_lookup_elem(&threads, &tid);

    if (t && !preempted && from->__state) {
        t->asleep = bpf_ktime_get_ns();
        t->woken = t->run = 0;
    }
    tid = (__u32)to->pid;
    t = bpf_map_lookup_elem(&threads, &tid);
    if (t && t->asleep && !t->run) {
        if (!t->woken)
            t->woken = t->called;
        t->run = bpf_ktime_get_ns();
    }
    return 0;
}

/* --- The server's side ------------------------------------------------------------------------ */

/* The socket behind a descriptor of this process, if it is one of ours; else 0. */
static inline __u64 cookie_behind(long fd)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    struct fdtable *table = BPF_CORE_READ(task, files, fdt);
    struct file **at, *file = 0;
    struct socket *socket;
    struct sock *sk;
    __u64 cookie;

    if (fd < 0 || fd >= BPF_CORE_READ(table, max_fds))
        return 0;
    at = BPF_CORE_READ(table, fd) + fd;
    bpf_probe_read_kernel(&file, sizeof(file), at);
    socket = BPF_CORE_READ(file, private_data);
    if (!socket || BPF_CORE_READ(socket, file) != file) /* something else lies there */
        return 0;
    sk = BPF_CORE_READ(socket, sk);
    if (BPF_CORE_READ(sk, __sk_common.skc_num) != port)
        return 0;
    cookie = (__u64)BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
    return (cookie & sample_mask) != 0 ? 0 : cookie;
}

static inline void publish_accept(long fd)
{
    __u64 cookie = cookie_behind(fd);
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
    publish_accept(call->result);
    return 0;
}

SEC("usdt")
int BPF_USDT(taken, int fd)
{
    publish_accept(fd);
    return 0;
}

struct stamps {
    __u64 parsed, found, compressed;
};

SEC("usdt")
int BPF_USDT(answer, int fd, __u32 ordinal, const struct stamps *from)
{
    __u64 cookie = cookie_behind(fd);
    struct event *e = cookie ? reserve(cookie, EVENT_ANSWER) : 0;
    struct stamps s = {0};

    if (!e)
        return 0;
    bpf_probe_read_user(&s, sizeof(s), from);
    e->seq = ordinal;
    e->parsed = s.parsed;
    e->found = s.found;
    e->compressed = s.compressed;
    publish(e);
    return 0;
}

char terms[] SEC("license") = "Dual MIT/GPL";
