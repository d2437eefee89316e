/* SPDX-License-Identifier: MIT */
/* nonblock.c - no waiting at all: try every socket in turn, and nap when none was ready.
 *
 * The idea: sockets that never block, and a sweep.  Each turn tries every connection and every
 * listener; -EAGAIN means not yet, on to the next.  No set, no registration, no call that waits:
 * an event loop cannot be smaller.
 *
 * What it costs: a sweep is one system call per connection, ready or not, so ten thousand idle
 * connections are ten thousand useless calls before the one that matters.  After a sweep that found
 * nothing the loop sleeps, longer each time up to --nap: a busy loop would burn a processor to
 * learn nothing, and a long nap is latency added to the next request.  There is no good length;
 * that is the point.  Why there is more: the kernel knows which sockets are ready; select() asks it
 * once for all of them.
 */
#include <time.h>
#include "engine.h"

enum { NAP_US_FIRST = 50 };

static void nap(unsigned *length_us, unsigned longest_us)
{
    struct timespec ts = {.tv_sec = *length_us / 1000000, .tv_nsec = *length_us % 1000000 * 1000};

    nanosleep(&ts, NULL);
    *length_us = *length_us * 2 < longest_us ? *length_us * 2 : longest_us;
}

/* Pump the session.  Says whether anything moved. */
static bool try(struct loop *l, struct session *s)
{
    uint64_t sent = s->conn.sent;
    uint32_t requests = s->conn.requests;
    enum conn_want want;

    if (s->conn.want == CONN_WAIT)
        return false; /* its answer is being made: loop_resumed() gives it out when it is ready */
    want = session_pump(l, s);
    if (want == CONN_CLOSE) {
        session_close(l, s);
        return true;
    }
    return s->conn.sent != sent || s->conn.requests != requests;
}

/* Try all sessions and listeners once.  Says whether anything moved. */
static bool sweep(struct loop *l)
{
    struct session *s, *next;
    bool moved = false;

    for (s = loop_next(l, NULL); s; s = next) {
        next = loop_next(l, s);
        moved |= try(l, s);
    }
    loop_woken(l);
    while ((s = loop_resumed(l)))
        moved |= try(l, s);
    for (unsigned i = 0; i < loop_worker(l)->listeners && loop_listening(l); i++)
        for (unsigned n = 0; n < ACCEPT_BUDGET && (s = loop_accept(l, i)); n++)
            moved |= try(l, s) || true;
    return moved;
}

static int nonblock_run(struct worker *w)
{
    unsigned nap_us = NAP_US_FIRST;
    struct session *s;
    struct loop *l;
    int err = loop_open(w, &l);

    if (err)
        return err;
    while (!loop_done(l)) {
        if (sweep(l))
            nap_us = NAP_US_FIRST;
        else
            nap(&nap_us, w->tuning.nap_ms * 1000);
        loop_tick(l);
        while ((s = loop_expired(l)))
            session_close(l, s);
    }
    loop_close(l);
    return 0;
}

const struct engine engine_nonblock = {
    .name = "nonblock",
    .summary = "one loop asks every socket in turn, and naps when none is ready",
    .use = "you want to see what asking all the time costs",
    .model = ENGINE_READINESS,
    .may_block = false,
    .capacity = ENGINE_DESCRIPTORS,
    .run = nonblock_run,
};
