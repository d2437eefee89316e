/* SPDX-License-Identifier: MIT */
/* trace.bpf.c - the programs that run in the kernel: they see packets, receives and sends of one
 * port, and when threads that receive there were woken.
 *
 * The programs decide nothing.  The sequence numbers of a packet, a receive or a send go into a
 * ring, with the first bytes of the payload; flow.c makes requests of them.  The ring wakes no
 * process: a reader that looks every few milliseconds costs less than half of what a wake-up for
 * each event does.
 *
 *   arrived, left    cgroup_skb: each packet of any socket, of a process or of the kernel
 *   received, sent   by any caller: read, recv, sendfile, io_uring, a module
 *   state            established, gone
 *   again            segments that TCP sends again
 *   waking, running  of threads that have received at the port
 *   accepting        connections that accept4() has returned
 *   answer, taken    the trace points of the server itself (server/probe.h)
 *   module_answer, module_taken   those of rung's modules (kernel/ktrace.h)
 *   asking, asked, switching, moving, starting, ending   the server's system calls: --calls
 */
#include "kern.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "event.h"

enum {
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
const volatile __u32 count_calls = 0;   /* the programs of calls.h are attached */
const volatile __u32 count_times = 0;   /* ... and how long each call took is counted, too */
struct trace_counts counts;

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 24);
} ring SEC(".maps");

/* A thread that receives at the port: when it last fell asleep, was woken after that, and ran.  A
 * thread that is woken before it is fully asleep leaves the processor nevertheless, so the last
 * wake-up is kept too. */
struct thread {
    __u64 asleep, called, woken, run;
    __u64 known; /* it has received before */
};

/* The value is stored with the task itself: a thread that is not ours costs one look. */
struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct thread);
} threads SEC(".maps");

/* What the client had acknowledged when it last sent; deep: it once sent again and had acknowledged
 * nothing more, so it may not have waited for an answer.  left: large packets since then. */
struct talk {
    __u32 sent, ack, left, deep;
};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct talk);
} talks SEC(".maps");

/* The reader of the ring counts events: a counter here would go from processor to processor. */
static inline void publish(struct event *e)
{
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

#include "calls.h"

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
    __u16 from;
    __u8 tcp_flags, early;
    __u8 peer[16] __attribute__((aligned(8)));
};

/* Where TCP begins; 0: the packet is not TCP. */
static inline __u32 tcp_at(struct __sk_buff *skb)
{
    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    struct ipv4_head *v4 = data;
    struct ipv6_head *v6 = data;

    if (skb->protocol == bpf_htons(0x0800)) {
        if ((void *)(v4 + 1) > end || v4->protocol != PROTOCOL_TCP)
            return 0;
        return (v4->version_words & 15u) * 4;
    }
    if ((void *)(v6 + 1) > end || v6->next != PROTOCOL_TCP)
        return 0;
    return sizeof(*v6);
}

/* The sender's address, for an event of its arrival. */
static inline void read_peer(struct __sk_buff *skb, struct packet *p)
{
    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    struct ipv4_head *v4 = data;
    struct ipv6_head *v6 = data;

    __builtin_memset(p->peer, 0, sizeof(p->peer));
    if (skb->protocol == bpf_htons(0x0800) && (void *)(v4 + 1) <= end) {
        p->peer[10] = p->peer[11] = 0xff;
        __builtin_memcpy(p->peer + 12, &v4->from, 4);
    } else if ((void *)(v6 + 1) <= end) {
        __builtin_memcpy(p->peer, v6->from, 16);
    }
}

/* Whether this is a packet of TCP that goes to our port, or comes from there.  Half of the packets
 * on the loopback interface are of the client's side, so the ports are checked first. */
static inline int read_packet(struct __sk_buff *skb, struct packet *p, __u8 kind)
{
    __u32 at = tcp_at(skb);
    struct tcp_head *there = (void *)(long)skb->data + at, tcp;

    if (!at)
        return 0;
    if ((void *)(there + 1) <= (void *)(long)skb->data_end)
        tcp = *there;
    else if (bpf_skb_load_bytes(skb, at, &tcp, sizeof(tcp)))
        return 0;
    if ((kind == EVENT_IN ? tcp.to : tcp.from) != bpf_htons(port) || tcp.flags & TCP_SYN)
        return 0;
    p->at = at + (tcp.words >> 4) * 4u;
    p->len = skb->len > p->at ? skb->len - p->at : 0;
    p->seq = bpf_ntohl(tcp.seq);
    p->ack = bpf_ntohl(tcp.ack);
    p->tcp_flags = tcp.flags;
    p->early = 0;
    p->from = bpf_ntohs(tcp.from);
    read_peer(skb, p);
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

/* Publishes an event with room bytes for payload behind it.  The verifier wants the length in one
 * register, and must have seen its bounds, 1 and room, tested.  The compiler tests a copy, or drops
 * a test whose result it knows, so the test is written in assembly. */
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

/* The most bytes of the payload that are kept.  All bytes of a small packet that leaves are kept,
 * and the state of its socket is not read: it may be in another processor's cache. */
static inline __u32 most_kept(struct __sk_buff *skb, const struct packet *p, __u8 kind)
{
    struct bpf_sock *sk = skb->sk;
    struct talk *t;

    if (!sk || (kind == EVENT_OUT && p->len <= KEPT_REST))
        return KEPT_FIRST;
    t = bpf_sk_storage_get(&talks, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
    if (!t)
        return KEPT_FIRST;
    if (kind == EVENT_OUT) {
        t->left++;
        return t->deep ? KEPT_DEEP : t->left > KEPT_PACKETS ? KEPT_REST : KEPT_FIRST;
    }
    t->deep = t->deep || (t->sent && t->ack == p->ack);
    t->sent = 1;
    t->ack = p->ack;
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
    most = most_kept(skb, p, kind);
    if (p->len <= KEPT_SMALL)
        PUBLISH_WITH(skb, p, cookie, kind, KEPT_SMALL);
    else if (p->len <= KEPT_MORE)
        PUBLISH_WITH(skb, p, cookie, kind, KEPT_MORE);
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
    struct bpf_sock *sk = skb->sk;
    struct packet p;

    if (!read_packet(skb, &p, EVENT_IN))
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
    struct packet p;

    if (read_packet(skb, &p, EVENT_OUT) && (p.len || p.tcp_flags & (TCP_FIN | TCP_RST)))
        publish_packet(skb, &p, EVENT_OUT);
    return PASS;
}

/* --- Sockets ---------------------------------------------------------------------------------- */

/* The helper makes the cookie if the socket has none yet. */
static inline __u64 cookie_of(struct sock *sk)
{
    __u64 cookie = (__u64)sk->__sk_common.skc_cookie.counter;

    cookie = cookie ? cookie : bpf_get_socket_cookie(sk);
    return (cookie & sample_mask) != 0 ? 0 : cookie;
}

static inline int is_ours(struct sock *sk)
{
    return sk->__sk_common.skc_num == port && sk->sk_protocol == PROTOCOL_TCP;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(received, struct sock *sk, int ret)
{
    struct tcp_sock *tcp;
    struct thread *t;
    struct event *e;
    __u64 cookie;

    if (ret <= 0 || !is_ours(sk))
        return 0;
    note_server();
    cookie = cookie_of(sk);
    tcp = bpf_skc_to_tcp_sock(sk);
    e = cookie && tcp ? reserve(cookie, EVENT_RECV) : 0;
    if (!e)
        return 0;
    t = watch_threads ? bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0,
                                             BPF_LOCAL_STORAGE_GET_F_CREATE) : 0;
    e->seq = tcp->copied_seq;
    e->len = (__u32)ret;
    e->tid = (__u32)bpf_get_current_pid_tgid();
    e->pid = (__u32)(bpf_get_current_pid_tgid() >> 32);
    if (t && t->known) {
        e->flags = EVENT_KNOWN | (t->asleep ? EVENT_ASLEEP : 0);
        e->woken = t->woken;
        e->run = t->run;
    }
    if (t)
        t->known = 1;
    publish(e);
    return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(sent, struct sock *sk, int ret)
{
    struct tcp_sock *tcp;
    struct event *e;
    __u64 cookie;

    if (ret <= 0 || !is_ours(sk))
        return 0;
    cookie = cookie_of(sk);
    tcp = bpf_skc_to_tcp_sock(sk);
    e = cookie && tcp ? reserve(cookie, EVENT_SEND) : 0;
    if (e) {
        e->seq = tcp->write_seq;
        e->len = (__u32)ret;
        e->tid = (__u32)bpf_get_current_pid_tgid();
        publish(e);
    }
    return 0;
}

/* A segment that was not acknowledged in time is sent again. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(again, const struct sock *sk, const void *skb)
{
    if (sk->__sk_common.skc_num == port)
        __sync_fetch_and_add(&counts.again, 1);
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

/* A closed socket has given its port back: skc_num is 0 then, but inet_sport is not. */
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
    struct thread *t = bpf_task_storage_get(&threads, task, 0, 0);

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
    struct thread *t;

    if (!preempted && from->pid && from->__state) {
        t = bpf_task_storage_get(&threads, from, 0, 0);
        if (t) {
            t->asleep = bpf_ktime_get_ns();
            t->woken = t->run = 0;
        }
    }
    t = to->pid ? bpf_task_storage_get(&threads, to, 0, 0) : 0;
    if (t && t->asleep && !t->run) {
        if (!t->woken)
            t->woken = t->called;
        t->run = bpf_ktime_get_ns();
    }
    return 0;
}

#include "probes.h"

char terms[] SEC("license") = "Dual MIT/GPL";
