/* SPDX-License-Identifier: MIT */
/* health.c - the three answers to /.rung/health: static sources, which never change. */
#include "health.h"

#define TEXT "text/plain; charset=utf-8"
#define SAID(kind_, text) \
    {.kind = kind_, .bytes = text, .size = sizeof(text) - 1, .type = TEXT}

enum { SERVING, DRAINING, NO_WORKER, STATES };

/* The first counts as made for its request: Cache-Control is no-cache.  The others are pages of an
 * error. */
static struct source said[STATES] = {
    [SERVING] = SAID(SOURCE_MADE, "ok\n"),
    [DRAINING] = SAID(SOURCE_BODY, "draining\n"),
    [NO_WORKER] = SAID(SOURCE_BODY, "no worker\n"),
};

unsigned health_workers(const struct server *srv)
{
    unsigned running = 0;

    if (!srv->arrangement.processes)
        return srv->arrangement.workers;
    for (unsigned i = 0; i < srv->arrangement.workers; i++)
        running += srv->worker_pid[i] != 0;
    return running;
}

static unsigned state_of(const struct server *srv)
{
    if (atomic_load_explicit(&srv->stopping, memory_order_relaxed))
        return DRAINING;
    return health_workers(srv) ? SERVING : NO_WORKER;
}

bool health_is_asked(struct slice path)
{
    return slice_is(path, "/.rung/health");
}

int health_find(const struct server *srv, struct source **source)
{
    unsigned state = state_of(srv);

    *source = &said[state];
    return state == SERVING ? 0 : -EAGAIN;
}

int health_page(const struct server *srv, struct source **source)
{
    unsigned state = state_of(srv);

    *source = &said[state];
    return state == SERVING ? -ENOENT : 0; /* it changed meanwhile: the usual page will do */
}

bool health_owns(const struct source *source)
{
    return source >= said && source < said + STATES;
}
