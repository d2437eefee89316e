/* SPDX-License-Identifier: MIT */
/* crew.h - the threads of pool.c and dispatch.c: started once, fed by a queue, and joined at the
 * end.
 *
 * A hand is one thread.  Each has a lane, a loop that is not woken, to serve sessions with.  Each
 * also has a worker of its own, because the state of accepting (the listener's turn, the end) is
 * per thread.  If some threads cannot be started, the crew works with fewer, down to one.
 */
#ifndef ENGINES_CREW_H
#define ENGINES_CREW_H
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include "engine.h"
#include "../server/queue.h"

struct hand {
    struct crew *crew;
    pthread_t thread;
    struct worker worker;
    struct loop *lane;
    unsigned number;
    unsigned next, taken; /* of item[]: the items taken from the queue in one call */
    intptr_t item[QUEUE_TAKE_MAX];
};

struct crew {
    struct worker *worker;
    struct queue *queue; /* NULL: each thread accepts for itself */
    void *boss;          /* the engine's own */
    unsigned count;
    struct hand hand[];
};

/* No thread is started yet.  0 or -errno. */
static inline int crew_open(struct crew **crew, struct worker *w, void *boss)
{
    const struct tuning *t = &w->tuning;
    struct queue_plan plan = {t->queue == QUEUE_LOCKFREE, t->threads, t->queue_length};
    struct crew *c = calloc(1, sizeof(*c) + t->threads * sizeof(struct hand));
    int err;

    if (!c)
        return -ENOMEM;
    c->worker = w;
    c->boss = boss;
    err = t->queue == QUEUE_ACCEPT ? 0 : queue_open(&c->queue, &plan);
    if (err)
        free(c);
    else
        *crew = c;
    return err;
}

/* Start the threads, which run work(struct hand *).  0, or -errno if not even one started. */
static inline int crew_hire(struct crew *c, void *(*work)(void *))
{
    int err = 0;

    while (c->count < c->worker->tuning.threads && !err) {
        struct hand *h = &c->hand[c->count];

        h->crew = c;
        h->number = c->count;
        worker_copy(&h->worker, c->worker);
        err = lane_open(&h->worker, &h->lane);
        if (err)
            break;
        err = -pthread_create(&h->thread, NULL, work, h);
        if (err)
            loop_close(h->lane);
        c->count += !err;
    }
    if (c->queue)
        queue_consumers(c->queue, c->count);
    if (c->count)
        worker_hired(c->worker, c->count);
    return c->count ? 0 : err;
}

/* Give this hand its next item; false: the queue has ended. */
static inline bool crew_take(struct hand *h, intptr_t *item)
{
    const struct tuning *t = &h->worker.tuning;

    if (h->next == h->taken) {
        if (h->taken && t->yield)
            sched_yield();
        h->next = 0;
        h->taken = queue_take(h->crew->queue, h->number, h->item,
                              t->drain_all ? QUEUE_TAKE_MAX : 1);
    }
    if (!h->taken)
        return false;
    *item = h->item[h->next++];
    return true;
}

/* End the queue, wait until the threads have done all that was queued, and free the crew. */
static inline void crew_close(struct crew *c)
{
    if (c->queue)
        queue_end(c->queue);
    for (unsigned i = 0; i < c->count; i++) {
        pthread_join(c->hand[i].thread, NULL);
        worker_accept_over(&c->hand[i].worker);
        loop_close(c->hand[i].lane);
    }
    if (c->queue)
        queue_close(c->queue);
    free(c);
}

#endif
