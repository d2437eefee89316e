/* SPDX-License-Identifier: MIT */
/* dispatch.c - one thread waits for all connections, and a pool of threads does the work.
 *
 * The idea: epoll reports the ready connections, a queue hands each one to a thread, and the thread
 * pumps until the connection would block and gives it back.  EPOLLONESHOT ensures that one thread
 * at a time has a connection: one that is lent out is not reported again until it is re-armed.  The
 * thread re-arms it by itself; an event between arming and giving back is noted on the session (see
 * session_schedule()) and handled at once.  Only the waiting thread closes: sessions that have
 * ended are returned to it through a pipe.
 *
 * What it costs: a request passes through two threads and a queue, so it costs a wake-up and an
 * epoll_ctl more than with epoll.c, and the session's cache lines move between processors.  What it
 * gains: finding an answer may block (a cold disk, a large folder) while the others go on; with
 * --pool-queue lockfree those in the same ring do not.  Where no answer blocks, all this is only a
 * cost.  Why there is more: a coroutine may wait in the middle of its work without a thread: see
 * coro.c.
 */
#include <fcntl.h>
#include "thread_pool.h"
#include "epset.h"

enum { FULL_MS = 10 };

struct dispatcher {
    struct loop *loop; /* the waiting thread's */
    struct epset set;
    struct thread_pool *pool;
    int home[2];       /* pipe of pointers to sessions that have ended */
};

/* --- The pool --------------------------------------------------------------------------------- */

static bool arm(const struct dispatcher *d, struct session *s, enum conn_want want)
{
    struct epoll_event ev = {.events = EPOLLONESHOT, .data.ptr = s};

    ev.events |= want == CONN_SEND ? EPOLLOUT : EPOLLIN;
    return epoll_ctl(d->set.fd, EPOLL_CTL_MOD, s->fd, &ev) == 0;
}

static void work_on(struct pool_thread *self, struct session *s)
{
    const struct dispatcher *d = self->pool->owner;
    enum conn_want want;

    loop_tick(self->loop);
    do {
        want = session_pump_scheduled(self->loop, s);
        if (want == CONN_CLOSE || !arm(d, s, want)) {
            while (write(d->home[1], &s, sizeof(s)) < 0 && errno == EINTR)
                continue; /* a pipe takes the whole pointer, or write() waits */
            return;
        }
    } while (!session_complete(s));
}

static void *work(void *arg)
{
    struct pool_thread *self = arg;
    intptr_t item;

    while (thread_pool_take(self, &item))
        work_on(self, (struct session *)item);
    return NULL;
}

/* --- The waiting thread ----------------------------------------------------------------------- */

static void accept_waiting(struct dispatcher *d, unsigned listener)
{
    for (unsigned n = 0; n < ACCEPT_BUDGET; n++) {
        struct session *s = loop_accept(d->loop, listener);

        if (!s)
            return;
        if (epset_add(&d->set, s->fd, EPOLLIN | EPOLLONESHOT, s) < 0)
            session_close(d->loop, s);
    }
}

/* Close the sessions that have ended.  None of them has an event left in the current batch: its
 * descriptor is armed for one event at a time, and the session was lent again for that event. */
static void reap(struct dispatcher *d)
{
    struct session *s[EVENTS_MAX];
    ssize_t n;

    do {
        n = read(d->home[0], s, sizeof(s));
        for (ssize_t i = 0; i < n / (ssize_t)sizeof(s[0]); i++)
            session_close(d->loop, s[i]);
    } while (n == (ssize_t)sizeof(s));
}

/* While the queue is full, all connections wait with this thread.  But the pool may be waiting for
 * this thread: when thousands of sessions end at once, the pipe is full too. */
static void hand_out(struct dispatcher *d, struct session *s)
{
    int wait_ms = 0;

    for (; queue_put(d->pool->queue, (intptr_t)s, wait_ms) < 0; wait_ms = FULL_MS)
        reap(d);
}

static void handle(struct dispatcher *d, void *who)
{
    int listener = epset_listener(&d->set, who);

    if (listener >= 0)
        accept_waiting(d, (unsigned)listener);
    else if (who == d)
        reap(d);
    else if (who != d->set.worker && session_schedule(d->loop, who))
        hand_out(d, who);
}

static int turns(struct dispatcher *d)
{
    struct epoll_event ev[EVENTS_MAX];
    struct session *s;

    while (!loop_done(d->loop)) {
        int n = epset_wait(&d->set, d->loop, ev);

        if (n < 0)
            return n;
        for (int i = 0; i < n; i++)
            handle(d, ev[i].data.ptr);
        while ((s = loop_expired(d->loop)))
            session_close(d->loop, s);
    }
    return 0;
}

/* --- Open and close --------------------------------------------------------------------------- */

static int dispatcher_open(struct dispatcher *d, struct worker *w)
{
    int err = epset_open(&d->set, d->loop);

    if (!err && pipe2(d->home, O_CLOEXEC) < 0)
        err = -errno;
    if (err)
        return err;
    fcntl(d->home[0], F_SETFL, O_NONBLOCK); /* only this end: a write may wait */
    err = epset_add(&d->set, d->home[0], EPOLLIN, d);
    if (!err)
        err = thread_pool_open(&d->pool, w, d);
    return err ? err : thread_pool_start(d->pool, work);
}

static void dispatcher_close(struct dispatcher *d)
{
    if (d->home[0] >= 0)
        close(d->home[0]); /* not read any more: a thread of the pool must not wait for it */
    if (d->pool)
        thread_pool_close(d->pool);
    if (d->home[1] >= 0)
        close(d->home[1]);
}

/* The waiting thread looks up no answers, so no helper has to wake it: its loop is a blocking one,
 * like those of the pool's threads. */
static int dispatch_run(struct worker *w)
{
    struct dispatcher d = {.home = {-1, -1}};
    int err = loop_open_blocking(w, &d.loop);

    if (err)
        return err;
    err = dispatcher_open(&d, w);
    if (!err)
        err = turns(&d);
    dispatcher_close(&d);
    loop_close(d.loop); /* also closes sessions that ended last and were not read from the pipe */
    epset_close(&d.set);
    return err;
}

const struct engine engine_dispatch = {
    .name = "dispatch",
    .summary = "one loop waits for all; a fixed number of threads does the work",
    .use = "some requests are much work, and others must not wait",
    .model = ENGINE_READINESS,
    .may_block = false,
    .thread_pool = true,
    .capacity = ENGINE_DESCRIPTORS,
    .run = dispatch_run,
};
