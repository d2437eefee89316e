/* SPDX-License-Identifier: MIT */
/* h2_world.h - one connection of hosted.h that speaks HTTP/2.  The host has no files here, and one
 * job at a time.
 */
#ifndef TESTS_H2_WORLD_H
#define TESTS_H2_WORLD_H
#include "../server/h2.h"
#include "hosted.h"

struct h2_world {
    struct hosted h;
    void (*hears)(struct h2_world *w, const char *bytes, size_t n); /* the client, or NULL */
    void *client;
    size_t sip; /* bytes of a send; 0: as many as there are */
    uint64_t taken;
};

static inline int h2_world_find(void *ctx, const struct http_ask *ask, struct source **source)
{
    struct fake *fake = hosted_of(ctx)->fake;
    const struct conn *job = fake->job;
    int err;

    if (ask->path.len > 1 && (ask->path.ptr[1] == 'f' || ask->path.ptr[1] == 't'))
        return -ENOENT;
    if (!job || job == ask->conn)
        return hosted_find(ctx, ask, source);
    if (ask->path.len > 1 && ask->path.ptr[1] == 'w')
        return -EAGAIN; /* 503: the fake host has one job at a time */
    fake->job = NULL;
    err = hosted_find(ctx, ask, source);
    fake->job = job;
    return err;
}

static inline struct h2_world *h2_world_open(void)
{
    struct h2_world *w = calloc(1, sizeof(*w));

    must(w);
    hosted_open(&w->h, h2_protocol());
    w->h.loop.host.find = h2_world_find;
    return w;
}

static inline void h2_world_close(struct h2_world *w)
{
    hosted_close(&w->h);
    free(w);
}

/* Takes what one send takes. */
static inline void h2_world_take(struct h2_world *w)
{
    struct conn_out out = conn_out(w->h.c);
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
    conn_sent(w->h.c, taken, w->h.loop.now_ms);
}

/* The host's job is done, as loop_resumed() has it. */
static inline void h2_world_job_done(struct h2_world *w)
{
    struct conn *c = (struct conn *)(uintptr_t)w->h.fake->job;

    w->h.fake->job_done = true;
    conn_resume(c, w->h.loop.now_ms);
    while (c->nested) {
        c = ((struct nested *)c)->outer;
        conn_kick(c, w->h.loop.now_ms);
    }
}

static inline bool h2_world_listens(const struct h2_world *w)
{
    return w->h.c->want == CONN_RECV || w->h.c->want == CONN_LINGER || conn_glances(w->h.c);
}

#endif
