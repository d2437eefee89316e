/* SPDX-License-Identifier: MIT */
/* pool.c - a fixed number of blocking threads: each serves one connection after the other.
 *
 * The idea: the threads are started once, and each new connection is given to one of them.  With
 * --pool-queue accept the kernel's accept queue is the queue, and each thread accepts for itself.
 * Otherwise one thread accepts and queues the connections: mutex is one ring under a lock, lockfree
 * is a ring for each thread, without a lock (see queue.h).  A full queue makes the accepting thread
 * wait, and the kernel holds the new connections: back-pressure, nothing is dropped.
 *
 * What it costs: no thread is started per connection, but handing one on costs a wake-up; with
 * accept a connection wakes one or a few of the idle threads, which all wait for the same listeners
 * (EPOLLEXCLUSIVE).  A thread belongs to its connection until that ends.  As many silent clients as
 * there are threads would keep all others out, so the watchdog ends idle and slow connections while
 * others wait.  Why there is more: dispatch.c lends a thread to a connection only while there is
 * something to do, and select.c needs one thread for all connections.
 */
#include "thread_pool.h"

static void serve_accepted(struct pool_thread *self)
{
    int fd;

    while ((fd = worker_accept(&self->worker)) >= 0)
        session_serve(self->loop, fd);
}

static void serve_queued(struct pool_thread *self)
{
    intptr_t fd;

    while (thread_pool_take(self, &fd))
        session_serve(self->loop, (int)fd);
}

static void *work(void *arg)
{
    struct pool_thread *self = arg;

    if (self->pool->queue)
        serve_queued(self);
    else
        serve_accepted(self);
    return NULL;
}

/* Queue each connection that is accepted.  Once the server stops, queued connections still get a
 * thread, because the watchdog ends connections that occupy one. */
static void hand_on(struct thread_pool *pool)
{
    int fd;

    while ((fd = worker_accept(pool->worker)) >= 0) {
        worker_queued(pool->worker);
        queue_put(pool->queue, fd, -1);
    }
}

static int pool_run(struct worker *w)
{
    struct thread_pool *pool;
    int err = thread_pool_open(&pool, w, NULL);

    if (err)
        return err;
    err = thread_pool_start(pool, work);
    if (pool->queue && !err)
        hand_on(pool);
    thread_pool_close(pool);
    return err;
}

const struct engine engine_pool = {
    .name = "pool",
    .summary = "a fixed number of blocking threads, fed by a queue",
    .use = "code may block, and threads must have a bound",
    .model = ENGINE_BLOCKING,
    .may_block = true,
    .thread_pool = true,
    .capacity = ENGINE_THREADS,
    .run = pool_run,
};
