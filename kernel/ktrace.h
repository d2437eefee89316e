/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* ktrace.h - the modules' own trace points, for rung trace, bpftrace, perf and others; the server
 * in user space has the same (server/probe.h).
 *
 *   rung:rung_accepted   a connection was taken from the listener's queue
 *   rung:rung_answer     an answer was decided: its number on the connection, and when the head of
 *                        the request was read and the answer found (CLOCK_MONOTONIC in
 *                        nanoseconds, 0: not reached); `compressed` if the answer has a coding
 *
 * tools/trace/probes.h reads the arguments.  While no tracer is attached, each costs a nop, and no
 * clock is read.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rung

#if !defined(KERNEL_KTRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define KERNEL_KTRACE_H
#include <linux/tracepoint.h>
#include <net/sock.h>

TRACE_EVENT(rung_accepted,
    TP_PROTO(const struct sock *sk),
    TP_ARGS(sk),
    TP_STRUCT__entry(
        __field(const void *, sk)
        __field(u16, port)
    ),
    TP_fast_assign(
        __entry->sk = sk;
        __entry->port = sk->sk_num;
    ),
    TP_printk("sk=%p port=%u", __entry->sk, __entry->port)
);

TRACE_EVENT(rung_answer,
    TP_PROTO(const struct sock *sk, u32 ordinal, u64 parsed, u64 found, u64 compressed),
    TP_ARGS(sk, ordinal, parsed, found, compressed),
    TP_STRUCT__entry(
        __field(const void *, sk)
        __field(u16, port)
        __field(u32, ordinal)
        __field(u64, parsed)
        __field(u64, found)
        __field(u64, compressed)
    ),
    TP_fast_assign(
        __entry->sk = sk;
        __entry->port = sk->sk_num;
        __entry->ordinal = ordinal;
        __entry->parsed = parsed;
        __entry->found = found;
        __entry->compressed = compressed;
    ),
    TP_printk("sk=%p port=%u ordinal=%u parsed=%llu found=%llu compressed=%llu", __entry->sk,
              __entry->port, __entry->ordinal, __entry->parsed, __entry->found,
              __entry->compressed)
);

#endif

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE ktrace
#include <trace/define_trace.h>
