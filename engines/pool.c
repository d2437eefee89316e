/* SPDX-License-Identifier: MIT */
/* pool.c - a fixed crew of blocking threads: each serves one connection after the other.
 *
 * The idea: threads are made once.  Somebody must give each newcomer to one of them.  With
 * --pool-queue accept the kernel's accept queue is the queue, and each thread accepts for itself;
 * otherwise one thread accepts and hands on: mutex is one ring under a lock, lockfree a ring for
 * each thread without one (see queue.h).  A full queue makes the accepting thread wait, and the
 * kernel holds the newcomers: back-pressure, nothing is dropped.
 *
 * What it costs: no thread is started per connection; handing on costs a wake-up, and with accept
 * one for each idle thread, for all of them sleep in poll() on the same listeners.  A thread
 * belongs to its connection until that ends: as many clients as there are threads would occupy the
 * house by saying nothing, so the watcher closes the idlest while another waits.  Why there is
 * more: dispatch.c lends a thread to a connection only while there is something to do, and
 * select.c needs one thread for all.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include "engine.h"
#include "../server/queue.h"

struct crew {
    struct worker *worker;
    struct queue *queue; /* NULL: each accepts for itself */
    unsigned count;
    struct hand {
        struct crew *crew;
        pthread_t thread;
        struct worker worker; /* accepting is a thread's own business: its turn, its end */
        struct loop *loop;
        unsigned number;
    } hand[];
};

static void serve_accepted(struct hand *h)
{
    int fd;

    while ((fd = worker_accept(&h->worker)) >= 0)
        session_serve(h->loop, fd);
}

static void serve_queued(struct hand *h)
{
    const struct tuning *t = &h->worker.tuning;
    intptr_t fd[QUEUE_TAKE_MAX];
    unsigned n;

    while ((n = queue_take(h->crew->queue, h->number, fd, t->drain_all ? QUEUE_TAKE_MAX : 1)) > 0) {
        for (unsigned i = 0; i < n; i++) {
            worker_queued(h->crew->worker, -1);
            session_serve(h->loop, (int)fd[i]);
        }
        if (t->yield)
            sched_yield();
    }
}

static void *work(void *arg)
{
    struct hand *h = arg;

    if (h->crew->queue)
        serve_queued(h);
    else
        serve_accepted(h);
    return NULL;
}

/* Threads that could not be had are done without, down to one. */
static int hire(struct crew *c)
{
    const struct tuning *t = &c->worker->tuning;
    int err = 0;

    for (; c->count < t->threads && !err; c->count += !err) {
        struct hand *h = &c->hand[c->count];

        h->crew = c;
        h->number = c->count;
        h->worker = *c->worker;
        err = loop_open(&h->worker, &h->loop);
        if (err)
            break;
        err = -pthread_create(&h->thread, NULL, work, h);
        if (err)
            loop_close(h->loop);
    }
    return c->count ? 0 : err;
}

/* Hand on what comes.  Once told to stop, whoever waits for a thread gets his turn: the watcher
 * ends the others. */
static void hand_on(struct crew *c)
{
    int fd;

    queue_consumers(c->queue, c->count);
    while ((fd = worker_accept(c->worker)) >= 0) {
        worker_queued(c->worker, +1);
        queue_put(c->queue, fd, -1);
    }
    queue_end(c->queue);
}

static int pool_run(struct worker *w)
{
    const struct tuning *t = &w->tuning;
    struct queue_plan plan = {t->queue == QUEUE_LOCKFREE, t->threads, t->queue_length};
    struct crew *c = calloc(1, sizeof(*c) + t->threads * sizeof(struct hand));
    int err = 0;

    if (!c)
        return -ENOMEM;
    c->worker = w;
    if (t->queue != QUEUE_ACCEPT)
        err = queue_open(&c->queue, &plan);
    if (!err) {
        err = hire(c);
        if (c->queue && !err)
            hand_on(c);
        for (unsigned i = 0; i < c->count; i++) {
            pthread_join(c->hand[i].thread, NULL);
            worker_accept_over(&c->hand[i].worker);
            loop_close(c->hand[i].loop);
        }
        if (c->queue)
            queue_close(c->queue);
    }
    free(c);
    return err;
}

const struct engine engine_pool = {
    .name = "pool",
    .summary = "a fixed crew of blocking threads, fed by a queue",
    .model = ENGINE_BLOCKING,
    .may_block = true,
    .crew = true,
    .capacity = ENGINE_THREADS,
    .run = pool_run,
};
