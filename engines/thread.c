/* SPDX-License-Identifier: MIT */
/* thread.c - a thread for each connection: while one waits, the others run.
 *
 * The idea: the blocking code of naive.c, once per connection, all at the same time.  The main
 * thread only accepts.  A thread that waits for a slow client waits alone; the kernel's scheduler
 * is the event loop.
 *
 * What it costs: starting and ending a thread for each connection, a stack and a set of buffers
 * while it lives (rung's stacks are small: STACK_BYTES), and a context switch each time a
 * connection waits.  A request on a kept-alive connection makes no more calls than with naive.c.
 * A thousand idle clients are a thousand stacks that do nothing.  Why there is more: a pool
 * pays for its threads once (pool.c), and one thread can wait for all connections (select.c).
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include "../base/clock.h"
#include "engine.h"

enum { STACK_BYTES = 256 * 1024, SLOT_WAIT_MS = 100 };

struct threads {
    struct worker *worker;
    pthread_attr_t attr;
    pthread_mutex_t lock; /* guards count */
    pthread_cond_t gone;
    unsigned count;
};

struct errand {
    struct threads *threads;
    int fd;
};

static void leave(struct threads *t)
{
    pthread_mutex_lock(&t->lock);
    t->count--;
    pthread_cond_signal(&t->gone);
    pthread_mutex_unlock(&t->lock);
}

static void serve(struct worker *w, int fd)
{
    struct loop *l;

    if (loop_open(w, &l) < 0) {
        worker_refuse(w, fd);
        return;
    }
    session_serve(l, fd);
    loop_close(l);
}

static void *run_errand(void *arg)
{
    struct errand e = *(struct errand *)arg;

    free(arg);
    serve(e.threads->worker, e.fd);
    leave(e.threads);
    return NULL;
}

/* The accepting thread never serves: a slow client would keep all others waiting.  If no thread can
 * be started, one of those that serve must end first; until then the kernel's queue holds the
 * rest. */
static int start(struct threads *t, int fd)
{
    struct errand *e = malloc(sizeof(*e));
    pthread_t thread;
    int err = ENOMEM;

    if (e) {
        *e = (struct errand){t, fd};
        err = pthread_create(&thread, &t->attr, run_errand, e);
    }
    if (err)
        free(e);
    return err;
}

static void send_out(struct threads *t, int fd)
{
    unsigned tries = 0;
    int err;

    pthread_mutex_lock(&t->lock);
    t->count++;
    pthread_mutex_unlock(&t->lock);
    while ((err = start(t, fd)) != 0 && worker_retries(t->worker, err, &tries))
        ;
    if (!err)
        return;
    worker_close(t->worker, fd);
    leave(t);
}

/* Wait until fewer than n threads serve; if n is not 1, until the server stops at the latest. */
static void wait_for_slot(struct threads *t, unsigned n)
{
    struct timespec ts;

    pthread_mutex_lock(&t->lock);
    while (t->count >= n && (n == 1 || !atomic_load(t->worker->stopping))) {
        ts = clock_after(CLOCK_REALTIME, SLOT_WAIT_MS);
        pthread_cond_timedwait(&t->gone, &t->lock, &ts);
    }
    pthread_mutex_unlock(&t->lock);
}

static int thread_run(struct worker *w)
{
    struct threads t = {.worker = w};
    size_t stack = STACK_BYTES > PTHREAD_STACK_MIN ? STACK_BYTES : (size_t)PTHREAD_STACK_MIN;
    int fd;

    pthread_mutex_init(&t.lock, NULL);
    pthread_cond_init(&t.gone, NULL);
    pthread_attr_init(&t.attr);
    pthread_attr_setdetachstate(&t.attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&t.attr, stack);
    while ((fd = worker_accept(w)) >= 0) {
        send_out(&t, fd);
        wait_for_slot(&t, w->conn_max);
    }
    wait_for_slot(&t, 1); /* for all threads: the watchdog ends their connections */
    pthread_attr_destroy(&t.attr);
    pthread_cond_destroy(&t.gone);
    pthread_mutex_destroy(&t.lock);
    return 0;
}

const struct engine engine_thread = {
    .name = "thread",
    .summary = "a thread for each connection",
    .use = "code may block, and there are some hundreds of clients",
    .model = ENGINE_BLOCKING,
    .may_block = true,
    .capacity = ENGINE_DESCRIPTORS,
    .stack_bytes = STACK_BYTES,
    .run = thread_run,
};
