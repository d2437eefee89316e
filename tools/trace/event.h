/* SPDX-License-Identifier: MIT */
/* event.h - what the programs in the kernel report, and rung trace reads: one event a packet, a
 * receive or a send, in the order in which they happened.
 *
 * Sequence numbers are those of TCP, so that an event belongs to the bytes that it is about, not to
 * the bytes that came last.  Times are CLOCK_MONOTONIC in nanoseconds.
 */
#ifndef TRACE_EVENT_H
#define TRACE_EVENT_H
#include <linux/types.h>

enum event_kind {
    EVENT_IN,     /* a packet from the client: seq, len, ack, flags, the payload's first bytes */
    EVENT_OUT,    /* a packet to the client, likewise */
    EVENT_RECV,   /* a receive has ended: seq is the first byte not yet taken */
    EVENT_SEND,   /* a send has ended: seq is the first byte not yet queued */
    EVENT_OPEN,   /* the connection is established: it waits to be accepted */
    EVENT_ACCEPT, /* the server has taken the connection */
    EVENT_ANSWER, /* the server has decided an answer: seq is its ordinal on the connection */
    EVENT_CLOSE   /* the socket is gone */
};

enum event_flag {
    EVENT_FIN = 1,
    EVENT_RESET = 2,
    EVENT_KNOWN = 4,  /* RECV: the thread has been watched since before this receive */
    EVENT_ASLEEP = 8, /* RECV: ... and has slept; woken and run say when that was over */
    EVENT_EARLY = 16  /* IN: at the listener, with the packet that ends the handshake */
};

/* The payload behind an event takes the smallest of these sizes that holds it.  Each of the first
 * packets of an answer is kept up to KEPT_FIRST bytes, each later one up to KEPT_REST.  All of each
 * packet is kept if a client has sent again before it was answered, because several answers may
 * then be in one packet. */
enum {
    KEPT_SMALL = 256,
    KEPT_MORE = 512,
    KEPT_REST = 1024,
    KEPT_MIDDLE = 4096,
    KEPT_LARGE = 8192,
    KEPT_FIRST = 16384,
    KEPT_DEEP = 65528,
    KEPT_PACKETS = 8 /* the first packets of an answer */
};

struct event {
    __u64 ns;
    __u64 cookie;      /* of the socket */
    __u32 seq;
    union {
        __u32 ack;     /* IN, OUT */
        __u32 pid;     /* RECV: the thread's process */
    };
    __u32 len;         /* bytes of payload, or taken, or queued */
    __u32 tid;         /* RECV, SEND */
    __u8 kind, flags;
    __u16 kept;        /* bytes of payload behind this */
    __u16 peer_port;   /* IN, OPEN */
    __u16 unused;
    union {
        struct {
            __u64 woken, run;
        };
        struct {
            __u64 parsed, found, compressed; /* ANSWER; 0: not reached */
        };
        __u8 peer[16]; /* IN, OPEN: IPv4 as ::ffff:1.2.3.4 */
    };
};

/* The counters of the programs themselves. */
struct trace_counts {
    __u64 lost; /* events not written: the ring was full */
    __u64 again; /* segments that TCP has sent again */
    __u64 module; /* events of rung's modules at the port */
};

/* With --calls: places in the map of counts.  Before COUNT_CALLS are system calls, by number. */
enum {
    COUNT_CALLS = 512,
    COUNT_WAITED = COUNT_CALLS, /* a thread left its processor to wait */
    COUNT_PREEMPTED,            /* ... because another thread was to run */
    COUNT_MOVED,                /* a thread was given another processor */
    COUNTS,
    SERVERS_MAX = 4096 /* processes of the server that are known at a time */
};

/* Calls counted by their duration: the key is call * CALL_STEPS + step; step n > 0 ends at 2^n
 * times FIRST_STEP_NS. */
enum { FIRST_STEP_NS = 250, CALL_STEPS = 34, CALL_TIMES_MAX = 4096 /* places with a count */ };

struct call_count {
    __u64 times;
    __u64 ns, max_ns; /* of calls that have returned; waiting is included */
};

#endif
