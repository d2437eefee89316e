/* SPDX-License-Identifier: MIT */
/* dispatch.c - one thread waits for all, a crew does the work: readiness handed to a pool.
 *
 * The idea: epoll finds who is ready, a queue hands him to a thread, the thread pumps until the
 * connection would block and gives it back.  EPOLLONESHOT sees to it that one thread at a time has
 * a connection: who is out is not reported.  The thread arms it again by itself; what happens
 * between arming and giving back is noted on the session (see session_lend()) and done at once.
 * Only the waiting thread closes: those that have ended come home through a pipe.
 *
 * What it costs: a request passes through two threads and a queue, so a wake-up and an epoll_ctl
 * more than epoll.c, and the session's lines of cache travel.  What it buys: finding an answer may
 * block (a cold disk, a large folder), and the others go on; with --pool-queue lockfree those in
 * the same ring do not.  Where every answer is at hand it only loses.  Why there is more: a
 * coroutine may wait in the middle of its work without a thread: see coro.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "engine.h"
#include "../server/queue.h"

enum { EVENTS_MAX = 256, RETRY_MS = 100, FULL_MS = 10 };

struct crew {
    struct worker *worker;
    struct loop *loop;    /* the waiting thread's */
    struct queue *queue;
    int ep, home[2];      /* pipe of pointers to sessions that have ended */
    bool listening;
    unsigned count;
    struct hand {
        struct crew *crew;
        pthread_t thread;
        struct loop *lane;
        unsigned number;
    } hand[];
};

/* --- The crew --------------------------------------------------------------------------------- */

static bool arm(const struct crew *c, struct session *s, enum conn_want want)
{
    struct epoll_event ev = {.events = EPOLLONESHOT, .data.ptr = s};

    ev.events |= want == CONN_SEND ? EPOLLOUT : EPOLLIN;
    return epoll_ctl(c->ep, EPOLL_CTL_MOD, s->fd, &ev) == 0;
}

static void work_on(struct hand *h, struct session *s)
{
    enum conn_want want;

    loop_tick(h->lane);
    do {
        want = session_pump_lent(h->lane, s);
        if (want == CONN_CLOSE || !arm(h->crew, s, want)) {
            while (write(h->crew->home[1], &s, sizeof(s)) < 0 && errno == EINTR)
                continue; /* a pipe takes a pointer whole or waits */
            return;
        }
    } while (!session_back(s));
}

static void *work(void *arg)
{
    struct hand *h = arg;
    const struct tuning *t = &h->crew->worker->tuning;
    intptr_t item[QUEUE_TAKE_MAX];
    unsigned n, most = t->drain_all ? QUEUE_TAKE_MAX : 1;

    while ((n = queue_take(h->crew->queue, h->number, item, most)) > 0) {
        for (unsigned i = 0; i < n; i++)
            work_on(h, (struct session *)item[i]);
        if (t->yield)
            sched_yield();
    }
    return NULL;
}

static int hire(struct crew *c)
{
    const struct tuning *t = &c->worker->tuning;
    int err = 0;

    for (; c->count < t->threads && !err; c->count += !err) {
        struct hand *h = &c->hand[c->count];

        h->crew = c;
        h->number = c->count;
        err = lane_open(c->worker, &h->lane);
        if (err)
            break;
        err = -pthread_create(&h->thread, NULL, work, h);
        if (err)
            loop_close(h->lane);
    }
    queue_consumers(c->queue, c->count);
    return c->count ? 0 : err; /* fewer threads than asked for are enough */
}

/* --- The waiting thread ----------------------------------------------------------------------- */

static void welcome(struct crew *c, unsigned listener)
{
    for (unsigned n = 0; n < ACCEPT_BUDGET; n++) {
        struct session *s = loop_welcome(c->loop, listener);
        struct epoll_event ev = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = s};

        if (!s)
            return;
        if (epoll_ctl(c->ep, EPOLL_CTL_ADD, s->fd, &ev) < 0)
            session_close(c->loop, s);
    }
}

/* Those that have ended.  None of them has an event left in the batch at hand: it is armed for one
 * at a time, and was lent once more for that one. */
static void bury(struct crew *c)
{
    struct session *s[EVENTS_MAX];
    ssize_t n;

    do {
        n = read(c->home[0], s, sizeof(s));
        for (ssize_t i = 0; i < n / (ssize_t)sizeof(s[0]); i++)
            session_close(c->loop, s[i]);
    } while (n == (ssize_t)sizeof(s));
}

/* The queue is full: the others wait with us.  But the crew may be waiting for us: when thousands
 * end at once the pipe is full too. */
static void hand_out(struct crew *c, struct session *s)
{
    for (int wait_ms = 0; queue_put(c->queue, (intptr_t)s, wait_ms) < 0; wait_ms = FULL_MS)
        bury(c);
}

static void handle(struct crew *c, void *who)
{
    struct worker *w = c->worker;

    if (who == w) /* told to stop; readable for ever, so once is enough */
        epoll_ctl(c->ep, EPOLL_CTL_DEL, w->stop_fd, NULL);
    else if (who == c->loop)
        loop_woken(c->loop);
    else if (who == c)
        bury(c);
    else if ((int *)who >= w->listener && (int *)who < w->listener + w->listeners)
        welcome(c, (unsigned)((int *)who - w->listener));
    else if (session_lend(c->loop, who))
        hand_out(c, who);
}

static bool listen_on(struct crew *c)
{
    struct worker *w = c->worker;
    bool on = loop_listening(c->loop);

    for (unsigned i = 0; i < w->listeners && on != c->listening; i++) {
        struct epoll_event ev = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.ptr = &w->listener[i]};

        if (epoll_ctl(c->ep, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, w->listener[i], &ev) < 0 && on &&
            errno != EEXIST)
            return false;
    }
    c->listening = on;
    return true;
}

static int turns(struct crew *c)
{
    struct epoll_event ev[EVENTS_MAX];
    struct session *s;
    int n;

    while (!loop_done(c->loop)) {
        bool armed = listen_on(c);

        n = epoll_wait(c->ep, ev, EVENTS_MAX, armed ? loop_wait_ms(c->loop) : RETRY_MS);
        if (n < 0 && errno != EINTR)
            return -errno;
        loop_tick(c->loop);
        for (int i = 0; i < n; i++)
            handle(c, ev[i].data.ptr);
        while ((s = loop_expired(c->loop)))
            session_close(c->loop, s);
    }
    return 0;
}

/* --- Open and close --------------------------------------------------------------------------- */

static int watch_fd(const struct crew *c, int fd, void *who)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = who};

    return epoll_ctl(c->ep, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static int crew_open(struct crew *c)
{
    const struct tuning *t = &c->worker->tuning;
    struct queue_plan plan = {t->queue == QUEUE_LOCKFREE, t->threads, t->queue_length};
    int err = queue_open(&c->queue, &plan);

    if (err)
        return err;
    c->ep = epoll_create1(EPOLL_CLOEXEC);
    if (c->ep < 0 || pipe2(c->home, O_CLOEXEC) < 0)
        return -errno;
    fcntl(c->home[0], F_SETFL, O_NONBLOCK); /* only ours: the other end waits */
    err = watch_fd(c, c->worker->stop_fd, c->worker);
    if (!err)
        err = watch_fd(c, c->loop->wake_fd, c->loop);
    if (!err)
        err = watch_fd(c, c->home[0], c);
    return err ? err : hire(c);
}

static void crew_close(struct crew *c)
{
    if (c->queue)
        queue_end(c->queue);
    if (c->home[0] >= 0)
        close(c->home[0]); /* nobody reads any more: no hand is to wait for that */
    for (unsigned i = 0; i < c->count; i++) {
        pthread_join(c->hand[i].thread, NULL);
        loop_close(c->hand[i].lane);
    }
    if (c->queue)
        queue_close(c->queue);
    if (c->home[1] >= 0)
        close(c->home[1]);
    if (c->ep >= 0)
        close(c->ep);
}

static int dispatch_run(struct worker *w)
{
    struct crew *c = calloc(1, sizeof(*c) + w->tuning.threads * sizeof(struct hand));
    int err;

    if (!c)
        return -ENOMEM;
    *c = (struct crew){.worker = w, .ep = -1, .home = {-1, -1}};
    err = loop_open(w, &c->loop);
    if (!err) {
        err = crew_open(c);
        if (!err)
            err = turns(c);
        crew_close(c);
        loop_close(c->loop); /* also those that ended last, and came home to nobody */
    }
    free(c);
    return err;
}

const struct engine engine_dispatch = {
    .name = "dispatch",
    .summary = "one loop waits for all; a crew of threads does the work",
    .model = ENGINE_READINESS,
    .may_block = false,
    .crew = true,
    .capacity = ENGINE_DESCRIPTORS,
    .run = dispatch_run,
};
