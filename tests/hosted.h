/* SPDX-License-Identifier: MIT */
/* hosted.h - one connection with the server's loop, worker and session around it, on the host of
 * fake.h and a clock that the test sets; no socket.
 */
#ifndef TESTS_HOSTED_H
#define TESTS_HOSTED_H
#include "../server/inside.h"
#include "fake.h"

enum { HOSTED_START = 1000 }; /* ms */

struct hosted {
    struct fake *fake;
    struct server server;
    struct worker worker;
    struct loop loop; /* its now_ms is the clock */
    struct session session;
    struct conn *c; /* the session's */
};

static inline struct hosted *hosted_of(void *ctx)
{
    return (struct hosted *)(void *)((char *)ctx - offsetof(struct hosted, loop));
}

static inline void *hosted_alloc(void *ctx, size_t bytes)
{
    return fake_alloc(hosted_of(ctx)->fake, bytes);
}

static inline void hosted_free(void *ctx, void *mem, size_t bytes)
{
    fake_free(hosted_of(ctx)->fake, mem, bytes);
}

static inline void hosted_release(void *ctx, struct source *source)
{
    fake_release(hosted_of(ctx)->fake, source);
}

static inline void hosted_answered(void *ctx, void *note, uint64_t body_bytes, bool complete)
{
    fake_answered(hosted_of(ctx)->fake, note, body_bytes, complete);
}

static inline void hosted_forget(void *ctx, const struct conn *conn)
{
    fake_forget(hosted_of(ctx)->fake, conn);
}

static inline int hosted_find(void *ctx, const struct http_ask *ask, struct source **source)
{
    must(session_of_conn(ask->conn) == &hosted_of(ctx)->session);
    return fake_find(hosted_of(ctx)->fake, ask, source);
}

static inline void *hosted_answer(void *ctx, const struct conn *conn,
                                  const struct http_receipt *receipt)
{
    must(session_of_conn(conn) == &hosted_of(ctx)->session);
    return fake_answer(hosted_of(ctx)->fake, conn, receipt);
}

/* Opens a `struct hosted` that is zero, except for the fields of the server that the protocol
 * reads: these are set before. */
static inline void hosted_open(struct hosted *h, const struct conn_proto *proto)
{
    h->fake = fake_open();
    h->loop.host = h->fake->host;
    h->loop.host.conn = (struct conn_host){
        &h->loop, hosted_alloc, hosted_free, hosted_release, hosted_answered, hosted_forget,
        h->fake->host.conn.head_ms, h->fake->host.conn.idle_ms, h->fake->host.conn.send_ms,
        h->fake->host.conn.progress_bytes};
    h->loop.host.find = hosted_find;
    h->loop.host.answer = hosted_answer;
    h->worker.server = &h->server;
    h->loop.worker = &h->worker;
    h->loop.now_ms = HOSTED_START;
    h->session.fd = -1;
    h->c = &h->session.conn;
    conn_init(h->c, proto, &h->loop.host.conn, HOSTED_START);
}

static inline void hosted_close(struct hosted *h)
{
    conn_fini(h->c);
    fake_close(h->fake);
}

#endif
