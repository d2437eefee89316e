/* SPDX-License-Identifier: MIT */
/* dispatch.c - one thread waits for all connections, a crew does the work: readiness handed to a
 * pool.
 *
 * The idea: epoll reports the ready connections, a queue hands each one to a thread, and the thread
 * pumps until the connection would block and gives it back.  EPOLLONESHOT ensures that one thread
 * at a time has a connection: one that is lent out is not reported again until it is re-armed.  The
 * thread re-arms it by itself; an event between arming and giving back is noted on the session (see
 * session_lend()) and handled at once.  Only the waiting thread closes: sessions that have ended
 * are returned to it through a pipe.
 *
 * What it costs: a request passes through two threads and a queue, so it costs a wake-up and an
 * epoll_ctl more than with epoll.c, and the session's cache lines move between processors.  What it
 * gains: finding an answer may block (a cold disk, a large folder) while the others go on; with
 * --pool-queue lockfree those in the same ring do not.  Where no answer blocks, all this is only a
 * cost.  Why there is more: a coroutine may wait in the middle of its work without a thread: see
 * coro.c.
 */
#include <fcntl.h>
#include "crew.h"
#include "epset.h"

enum { FULL_MS = 10 };

struct boss {
    struct loop *loop; /* the waiting thread's */
    struct epset set;
    struct crew *crew;
    int home[2];       /* pipe of pointers to sessions that have ended */
};

/* --- The crew --------------------------------------------------------------------------------- */

static bool arm(const struct boss *b, struct session *s, enum conn_want want)
{
    struct epoll_event ev = {.events = EPOLLONESHOT, .data.ptr = s};

    ev.events |= want == CONN_SEND ? EPOLLOUT : EPOLLIN;
    return epoll_ctl(b->set.fd, EPOLL_CTL_MOD, s->fd, &ev) == 0;
}

static void work_on(struct hand *h, struct session *s)
{
    const struct boss *b = h->crew->boss;
    enum conn_want want;

    loop_tick(h->lane);
    do {
        want = session_pump_lent(h->lane, s);
        if (want == CONN_CLOSE || !arm(b, s, want)) {
            while (write(b->home[1], &s, sizeof(s)) < 0 && errno == EINTR)
                continue; /* a pipe takes the whole pointer, or write() waits */
            return;
        }
    } while (!session_back(s));
}

static void *work(void *arg)
{
    struct hand *h = arg;
    intptr_t item;

    while (crew_take(h, &item))
        work_on(h, (struct session *)item);
    return NULL;
}

/* --- The waiting thread ----------------------------------------------------------------------- */

static void welcome(struct boss *b, unsigned listener)
{
    for (unsigned n = 0; n < ACCEPT_BUDGET; n++) {
        struct session *s = loop_welcome(b->loop, listener);

        if (!s)
            return;
        if (epset_add(&b->set, s->fd, EPOLLIN | EPOLLONESHOT, s) < 0)
            session_close(b->loop, s);
    }
}

/* Close the sessions that have ended.  None of them has an event left in the current batch: its
 * descriptor is armed for one event at a time, and the session was lent again for that event. */
static void bury(struct boss *b)
{
    struct session *s[EVENTS_MAX];
    ssize_t n;

    do {
        n = read(b->home[0], s, sizeof(s));
        for (ssize_t i = 0; i < n / (ssize_t)sizeof(s[0]); i++)
            session_close(b->loop, s[i]);
    } while (n == (ssize_t)sizeof(s));
}

/* While the queue is full, all connections wait with this thread.  But the crew may be waiting for
 * this thread: when thousands of sessions end at once, the pipe is full too. */
static void hand_out(struct boss *b, struct session *s)
{
    int wait_ms = 0;

    for (; queue_put(b->crew->queue, (intptr_t)s, wait_ms) < 0; wait_ms = FULL_MS)
        bury(b);
}

static void handle(struct boss *b, void *who)
{
    int listener = epset_listener(b->loop->worker, who);

    if (listener >= 0)
        welcome(b, (unsigned)listener);
    else if (who == b)
        bury(b);
    else if (who != b->loop->worker && session_lend(b->loop, who))
        hand_out(b, who);
}

static int turns(struct boss *b)
{
    struct epoll_event ev[EVENTS_MAX];
    struct session *s;

    while (!loop_done(b->loop)) {
        int n = epset_wait(&b->set, b->loop, ev);

        if (n < 0)
            return n;
        for (int i = 0; i < n; i++)
            handle(b, ev[i].data.ptr);
        while ((s = loop_expired(b->loop)))
            session_close(b->loop, s);
    }
    return 0;
}

/* --- Open and close --------------------------------------------------------------------------- */

static int boss_open(struct boss *b, struct worker *w)
{
    int err = epset_open(&b->set, w);

    if (!err && pipe2(b->home, O_CLOEXEC) < 0)
        err = -errno;
    if (err)
        return err;
    fcntl(b->home[0], F_SETFL, O_NONBLOCK); /* only this end: a write may wait */
    err = epset_add(&b->set, b->home[0], EPOLLIN, b);
    if (!err)
        err = crew_open(&b->crew, w, b);
    return err ? err : crew_hire(b->crew, work);
}

static void boss_close(struct boss *b)
{
    if (b->home[0] >= 0)
        close(b->home[0]); /* not read any more: a hand must not wait for it to be emptied */
    if (b->crew)
        crew_close(b->crew);
    if (b->home[1] >= 0)
        close(b->home[1]);
    epset_close(&b->set);
}

/* The waiting thread finds no answers, so no helper has to wake it: its loop is a lane too. */
static int dispatch_run(struct worker *w)
{
    struct boss b = {.home = {-1, -1}};
    int err = lane_open(w, &b.loop);

    if (err)
        return err;
    err = boss_open(&b, w);
    if (!err)
        err = turns(&b);
    boss_close(&b);
    loop_close(b.loop); /* also closes sessions that ended last and were not read from the pipe */
    return err;
}

const struct engine engine_dispatch = {
    .name = "dispatch",
    .summary = "one loop waits for all; a fixed number of threads does the work",
    .use = "some requests are much work, and others must not wait",
    .model = ENGINE_READINESS,
    .may_block = false,
    .crew = true,
    .capacity = ENGINE_DESCRIPTORS,
    .run = dispatch_run,
};
