/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* conn_inside.h - the inside of a connection, for conn.c, outq.c and pump.c; protocols and
 * engines do not need it.
 *
 * The input queue and the send queue are the host's memory, allocated when first needed and freed
 * when empty.  They are not zeroed: a page that no answer reaches is never touched.
 */
#ifndef CORE_CONN_INSIDE_H
#define CORE_CONN_INSIDE_H
#include "conn.h"
#include "source.h"

/* conn->flags */
enum {
    CONN_CLOSING = 1,  /* no further input is used; closes when the output is out */
    CONN_MORE = 2,     /* an answer is in progress: its next piece comes from proto->more() */
    CONN_BODY = 4,     /* input is a request body */
    CONN_ENDED = 8,    /* the peer has finished sending: nothing unread is left or will come */
    CONN_BEGUN = 16,   /* RECV: the first byte of a message has come; its deadline stays */
    CONN_ASKED = 32,   /* the host has a job of ours whose result has not been taken yet */
    CONN_BLOCKED = 64, /* ... and conn_resume() has not been called yet; CLOSE: it never will be */
    CONN_SHUT = 128    /* conn_shuts() has returned true */
};

/* Input that waits: a partial message, pipelined requests. */
struct inq {
    uint32_t at, len; /* bytes[at..at+len) */
    uint32_t seen;    /* of len: the protocol has seen this many and needs more */
    char bytes[INQ_BYTES];
};

/* Output, filled from the start and emptied as a whole: nothing wraps, so that conn_out() is one
 * array. */
struct outq {
    struct segment seg[OUT_SEGMENTS_MAX];
    uint32_t first, count; /* seg[first..first+count) are to be sent */
    uint32_t used;         /* of bytes */
    bool state_clean;      /* state was zeroed for the current message */
    uint64_t body_bytes;   /* sent so far of the answer at the front */
    _Alignas(16) char state[CONN_STATE_BYTES];
    _Alignas(16) char bytes[OUTQ_BYTES];
    _Alignas(16) char keep[HEAD_BYTES_MAX];
    _Alignas(16) char work[CONN_WORK_BYTES];
};
_Static_assert(sizeof(struct outq) <= 65536, "what an answer that waits costs, at most");

static inline bool outq_has_output(const struct conn *c)
{
    return c->out && c->out->count;
}

bool outq_has_room(const struct conn *c); /* for another answer; there may be no send queue yet */
void outq_take(struct conn *c, size_t n); /* n bytes of the queue were sent */
void outq_reap(struct conn *c);           /* segments of no bytes at the front are done */
void outq_drop_first(struct conn *c, bool complete);
void outq_free(struct conn *c);

#endif
