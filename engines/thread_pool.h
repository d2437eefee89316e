/* SPDX-License-Identifier: MIT */
/* thread_pool.h - the threads of pool.c and dispatch.c: started once, fed by a queue, and joined at
 * the end.
 *
 * Each thread has a loop that is not woken, to serve sessions with.  Each also has a worker
 * of its own, because the state of accepting (the listener's turn, the end) is per thread.  If some
 * threads cannot be started, the pool works with fewer, down to one.
 */
#ifndef ENGINES_THREAD_POOL_H
#define ENGINES_THREAD_POOL_H
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include "engine.h"
#include "../server/queue.h"

struct pool_thread {
    struct thread_pool *pool;
    pthread_t thread;
    struct worker worker;
    struct loop *loop;
    unsigned number;
    unsigned next, taken; /* of item[]: the items taken from the queue in one call */
    intptr_t item[QUEUE_TAKE_MAX];
};

struct thread_pool {
    struct worker *worker;
    struct queue *queue; /* NULL: each thread accepts for itself */
    void *owner;         /* the engine's own */
    unsigned count;
    struct pool_thread thread[];
};

/* No thread is started yet.  0 or -errno. */
static inline int thread_pool_open(struct thread_pool **opened, struct worker *w, void *owner)
{
    const struct tuning *t = &w->tuning;
    struct queue_plan plan = {t->queue == QUEUE_LOCKFREE, t->threads, t->queue_length, t->in_turn};
    struct thread_pool *pool = calloc(1, sizeof(*pool) + t->threads * sizeof(struct pool_thread));
    int err;

    if (!pool)
        return -ENOMEM;
    pool->worker = w;
    pool->owner = owner;
    err = t->queue == QUEUE_ACCEPT ? 0 : queue_open(&pool->queue, &plan);
    if (err)
        free(pool);
    else
        *opened = pool;
    return err;
}

/* Start the threads, which run work(struct pool_thread *).  0, or -errno if none started. */
static inline int thread_pool_start(struct thread_pool *pool, void *(*work)(void *))
{
    int err = 0;

    while (pool->count < pool->worker->tuning.threads && !err) {
        struct pool_thread *self = &pool->thread[pool->count];

        self->pool = pool;
        self->number = pool->count;
        worker_copy(&self->worker, pool->worker);
        err = loop_open_blocking(&self->worker, &self->loop);
        if (err)
            break;
        err = -pthread_create(&self->thread, NULL, work, self);
        if (err)
            loop_close(self->loop);
        pool->count += !err;
    }
    if (pool->queue)
        queue_consumers(pool->queue, pool->count);
    if (pool->count)
        worker_has_threads(pool->worker, pool->count);
    return pool->count ? 0 : err;
}

/* Give the thread its next item; false: the queue has ended. */
static inline bool thread_pool_take(struct pool_thread *self, intptr_t *item)
{
    const struct tuning *t = &self->worker.tuning;

    if (self->next == self->taken) {
        if (self->taken && t->yield)
            sched_yield();
        self->next = 0;
        self->taken = queue_take(self->pool->queue, self->number, self->item,
                                 t->drain_all ? QUEUE_TAKE_MAX : 1);
    }
    if (!self->taken)
        return false;
    *item = self->item[self->next++];
    return true;
}

/* End the queue, wait until the threads have done all that was queued, and free the pool. */
static inline void thread_pool_close(struct thread_pool *pool)
{
    if (pool->queue)
        queue_end(pool->queue);
    for (unsigned i = 0; i < pool->count; i++) {
        pthread_join(pool->thread[i].thread, NULL);
        worker_accept_over(&pool->thread[i].worker);
        loop_close(pool->thread[i].loop);
    }
    if (pool->queue)
        queue_close(pool->queue);
    free(pool);
}

#endif
