/* SPDX-License-Identifier: MIT */
/* h2_world.h - one connection that speaks HTTP/2, on the host of fake.h and a clock that the test
 * sets; no socket.  The host has no files here, and one job at a time.
 */
#ifndef TESTS_H2_WORLD_H
#define TESTS_H2_WORLD_H
#include "../server/h2.h"
#include "../server/inside.h"
#include "fake.h"

enum { H2_WORLD_START = 1000 };

struct h2_world {
    struct fake *fake;
    struct server server;
    struct worker worker;
    struct loop loop;
    struct session session;
    struct conn *c; /* the session's */
    void (*hears)(struct h2_world *w, const char *bytes, size_t n); /* the client, or NULL */
    void *client;
    size_t sip; /* bytes of a send; 0: as many as there are */
    uint64_t taken;
};

static inline struct h2_world *h2_world_of(void *ctx)
{
    return (struct h2_world *)(void *)((char *)ctx - offsetof(struct h2_world, loop));
}

static inline void *h2_world_alloc(void *ctx, size_t bytes)
{
    return fake_alloc(h2_world_of(ctx)->fake, bytes);
}

static inline void h2_world_free(void *ctx, void *mem, size_t bytes)
{
    fake_free(h2_world_of(ctx)->fake, mem, bytes);
}

static inline void h2_world_release(void *ctx, struct source *source)
{
    fake_release(h2_world_of(ctx)->fake, source);
}

static inline void h2_world_answered(void *ctx, void *note, uint64_t body_bytes, bool complete)
{
    fake_answered(h2_world_of(ctx)->fake, note, body_bytes, complete);
}

static inline void h2_world_forget(void *ctx, const struct conn *conn)
{
    fake_forget(h2_world_of(ctx)->fake, conn);
}

static inline int h2_world_find(void *ctx, const struct http_ask *ask, struct source **source)
{
    struct h2_world *w = h2_world_of(ctx);
    const struct conn *job = w->fake->job;
    int err;

    must(session_of_conn(ask->conn) == &w->session);
    if (ask->path.len > 1 && (ask->path.ptr[1] == 'f' || ask->path.ptr[1] == 't'))
        return -ENOENT;
    if (!job || job == ask->conn)
        return fake_find(w->fake, ask, source);
    if (ask->path.len > 1 && ask->path.ptr[1] == 'w')
        return -EAGAIN; /* 503: the fake host has one job at a time */
    w->fake->job = NULL;
    err = fake_find(w->fake, ask, source);
    w->fake->job = job;
    return err;
}

static inline void *h2_world_answer(void *ctx, const struct conn *conn,
                                    const struct http_receipt *receipt)
{
    return fake_answer(h2_world_of(ctx)->fake, conn, receipt);
}

static inline struct h2_world *h2_world_open(void)
{
    struct h2_world *w = calloc(1, sizeof(*w));

    must(w);
    w->fake = fake_open();
    w->loop.host = w->fake->host;
    w->loop.host.conn = (struct conn_host){
        &w->loop, h2_world_alloc, h2_world_free, h2_world_release, h2_world_answered,
        h2_world_forget, w->fake->host.conn.head_ms, w->fake->host.conn.idle_ms,
        w->fake->host.conn.send_ms, w->fake->host.conn.progress_bytes};
    w->loop.host.find = h2_world_find;
    w->loop.host.answer = h2_world_answer;
    w->worker.server = &w->server;
    w->loop.worker = &w->worker;
    w->loop.now_ms = H2_WORLD_START;
    w->session.fd = -1;
    w->c = &w->session.conn;
    conn_init(w->c, h2_protocol(), &w->loop.host.conn, H2_WORLD_START);
    return w;
}

static inline void h2_world_close(struct h2_world *w)
{
    conn_fini(w->c);
    fake_close(w->fake);
    free(w);
}

/* Takes what one send takes. */
static inline void h2_world_take(struct h2_world *w)
{
    struct conn_out out = conn_out(w->c);
    size_t sip = w->sip ? w->sip : SIZE_MAX, taken = 0;

    must(out.count);
    for (unsigned i = 0; i < out.count && taken < sip; i++) {
        size_t part = out.seg[i].len < sip - taken ? (size_t)out.seg[i].len : sip - taken;

        must(out.seg[i].bytes);
        if (w->hears)
            w->hears(w, out.seg[i].bytes, part);
        taken += part;
    }
    w->taken += taken;
    conn_sent(w->c, taken, w->loop.now_ms);
}

/* The host's job is done, as loop_resumed() has it. */
static inline void h2_world_job_done(struct h2_world *w)
{
    struct conn *c = (struct conn *)(uintptr_t)w->fake->job;

    w->fake->job_done = true;
    conn_resume(c, w->loop.now_ms);
    while (c->nested) {
        c = ((struct nested *)c)->outer;
        conn_kick(c, w->loop.now_ms);
    }
}

static inline bool h2_world_listens(const struct h2_world *w)
{
    return w->c->want == CONN_RECV || w->c->want == CONN_LINGER || conn_glances(w->c);
}

#endif
