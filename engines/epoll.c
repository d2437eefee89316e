/* SPDX-License-Identifier: MIT */
/* epoll.c - one thread waits for all: the kernel keeps the set and reports who is ready.
 *
 * The idea: readiness.  Every socket is registered once with what its connection wants;
 * epoll_wait() returns only those that can move, so a turn costs O(events), whatever the number of
 * connections.  Level-triggered: a socket that still has bytes is reported again, so a short read
 * needs no second call to learn that nothing is left.
 *
 * What it costs: a request is epoll_wait, receive, send; many events share one epoll_wait.  A
 * change of interest is one epoll_ctl more, paid only by those that must wait for something else:
 * an answer that does not fit the socket's buffer, or one that is being made elsewhere.  Such a
 * descriptor leaves the set altogether, for a peer that resets is reported whatever the interest,
 * again and again.  Why there is more: readiness says that a call will succeed, and the call must
 * still be made; completion (io_uring) hands over the call itself.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "engine.h"

enum {
    EVENTS_MAX = 256, /* a turn; the kernel goes round, so nobody starves behind them */
    RETRY_MS = 100    /* listeners that could not be added */
};

/* What a session waits for, in session->slot; 0: it is not in the set. */
static uint32_t interest(enum conn_want want)
{
    switch (want) {
    case CONN_RECV:
    case CONN_LINGER:
        return EPOLLIN;
    case CONN_SEND:
        return EPOLLOUT;
    default:
        return 0;
    }
}

/* Make the set say what the session wants.  0 or -errno: then it cannot be waited for. */
static int arm(int ep, struct session *s, enum conn_want want)
{
    struct epoll_event ev = {.events = interest(want), .data.ptr = s};
    int op = !s->slot ? EPOLL_CTL_ADD : ev.events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;

    if (ev.events == s->slot)
        return 0;
    if (epoll_ctl(ep, op, s->fd, &ev) < 0)
        return -errno;
    s->slot = ev.events;
    return 0;
}

static void pump(int ep, struct loop *l, struct session *s)
{
    enum conn_want want = session_pump(l, s);

    if (want == CONN_CLOSE || arm(ep, s, want) < 0)
        session_close(l, s); /* closing takes it out of the set */
}

/* A new connection is armed without a look: its first bytes are rarely there yet, and if so it
 * is reported at once. */
static void welcome(int ep, struct loop *l, unsigned listener)
{
    for (unsigned n = 0; n < ACCEPT_BUDGET; n++) {
        struct session *s = loop_welcome(l, listener);

        if (!s)
            return;
        if (arm(ep, s, CONN_RECV) < 0)
            session_close(l, s);
    }
}

/* Listeners are in the set while there is room.  EXCLUSIVE: a connection wakes one or a few of the
 * workers that share the listener, not all.  False: the kernel has no memory for that now. */
static bool listen_on(int ep, struct loop *l, bool *listening)
{
    const struct worker *w = l->worker;
    bool on = loop_listening(l);

    for (unsigned i = 0; i < w->listeners && on != *listening; i++) {
        struct epoll_event ev = {.events = EPOLLIN | EPOLLEXCLUSIVE,
                                 .data.ptr = (void *)(uintptr_t)&w->listener[i]};

        if (epoll_ctl(ep, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, w->listener[i], &ev) < 0 && on &&
            errno != EEXIST)
            return false;
    }
    *listening = on;
    return true;
}

static void handle(int ep, struct loop *l, void *who)
{
    struct worker *w = l->worker;
    struct session *s;

    if (who == w) { /* told to stop; readable for ever, so once is enough */
        epoll_ctl(ep, EPOLL_CTL_DEL, w->stop_fd, NULL);
    } else if (who == l) {
        loop_woken(l);
        while ((s = loop_resumed(l)))
            pump(ep, l, s);
    } else if ((int *)who >= w->listener && (int *)who < w->listener + w->listeners) {
        welcome(ep, l, (unsigned)((int *)who - w->listener));
    } else {
        pump(ep, l, who);
    }
}

static int turns(int ep, struct loop *l)
{
    struct epoll_event ev[EVENTS_MAX];
    bool listening = false;
    struct session *s;
    int n;

    while (!loop_done(l)) {
        bool armed = listen_on(ep, l, &listening);

        n = epoll_wait(ep, ev, EVENTS_MAX, armed ? loop_wait_ms(l) : RETRY_MS);
        if (n < 0 && errno != EINTR)
            return -errno;
        loop_tick(l);
        for (int i = 0; i < n; i++)
            handle(ep, l, ev[i].data.ptr);
        while ((s = loop_expired(l)))
            session_close(l, s);
    }
    return 0;
}

static int watch_fd(int ep, int fd, void *who)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = who};

    return epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static int epoll_run(struct worker *w)
{
    struct loop *l;
    int ep, err = loop_open(w, &l);

    if (err)
        return err;
    ep = epoll_create1(EPOLL_CLOEXEC);
    err = ep < 0 ? -errno : 0;
    if (!err)
        err = watch_fd(ep, w->stop_fd, w);
    if (!err)
        err = watch_fd(ep, l->wake_fd, l);
    if (!err)
        err = turns(ep, l);
    loop_close(l);
    if (ep >= 0)
        close(ep);
    return err;
}

const struct engine engine_epoll = {
    .name = "epoll",
    .summary = "one loop waits for all; the kernel reports who is ready",
    .model = ENGINE_READINESS,
    .may_block = false,
    .capacity = ENGINE_DESCRIPTORS,
    .run = epoll_run,
};
