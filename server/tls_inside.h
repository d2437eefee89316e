/* SPDX-License-Identifier: MIT */
/* tls_inside.h - a connection's part of the protocol TLS, for tls.c and tls_lend.c. */
#ifndef SERVER_TLS_INSIDE_H
#define SERVER_TLS_INSIDE_H
#include "inside.h"
#include "tls.h"

struct tls {
    struct conn_proto proto; /* the connection's alone; its address leads here */
    struct nested nested;
    const struct tls_setup *setup;
    void *link;
    size_t said;     /* of the inner conn_out(): these bytes are in the outer send queue */
    uint32_t barren; /* bytes received since the last that were for the inner connection */
    uint16_t left;   /* of the record whose head has been seen */
    uint8_t head;    /* bytes of a head seen so far */
    bool blocked;    /* a handshake waits for room in the send queue */
    bool chosen;     /* what is spoken inside is known */
    bool over;       /* close_notify or an alert was written, or none may be */
    bool failed;     /* the rest of the answer cannot be sent */
    bool asked;      /* whether the kernel makes records is settled */
    bool by_kernel;  /* it does */
    bool ended;      /* the last words are said */
    struct tls_given given; /* by_kernel: ... except plain */
    uint64_t given_at;      /* what the outer connection had sent before the kernel's records */
    uint64_t lent_at;       /* ... and before the segments that it shows now */
};

static inline struct loop *tls_loop(const struct conn *c)
{
    return c->host->ctx;
}

static inline struct conn *tls_inner(struct conn *c, struct tls *t)
{
    t->nested.conn.host = c->host; /* the outer one may have been given to another thread */
    return &t->nested.conn;
}

/* --- tls_lend.c ------------------------------------------------------------------------------- */

/* Whether the kernel, which setup has, makes the records of the output that comes next.  It begins
 * here. */
bool tls_by_kernel(struct conn *c, struct tls *t);
/* Queues the inner output as it is. */
void tls_lend(struct conn *c, struct tls *t);
/* Nothing more is given to the kernel; close_notify unless t->over. */
void tls_say_last(struct conn *c, struct tls *t);
/* The connection is about to be freed. */
void tls_end_lent(struct conn *c, struct tls *t);

#endif
