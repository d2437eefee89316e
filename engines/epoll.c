/* SPDX-License-Identifier: MIT */
/* epoll.c - one thread waits for all: the kernel keeps the set and reports the ready connections.
 *
 * The idea: readiness.  Every socket is registered once with what its connection wants;
 * epoll_wait() returns only those that can move, so a turn costs O(events), whatever the number of
 * connections.  There are three ways to report (--epoll-trigger).  level: a socket that still has
 * bytes is reported again, so a short read needs no second call to learn that nothing is left.
 * edge: what happens is reported once, so transfers go on until -EAGAIN.  oneshot: a socket is
 * reported once, and armed again after each turn.
 *
 * What it costs: a request is epoll_wait, receive, send; many events share one epoll_wait.  With
 * level a change of interest is one epoll_ctl more, paid only by connections that must wait for
 * something else: an answer that does not fit the socket's buffer, or one that is being made
 * elsewhere.  While an answer is made elsewhere the descriptor leaves the set, because a peer that
 * resets is reported again and again, whatever the interest.  With edge each turn has one more
 * receive, which finds nothing; with oneshot one more epoll_ctl.  Why there is more: readiness says
 * that a call will succeed, and the call must still be made; completion (io_uring) hands over the
 * call itself.
 */
#include "epset.h"

/* What a session waits for, kept in session->engine_data; 0: it is not in the set. */
static uint32_t interest(enum epoll_trigger trigger, enum conn_want want)
{
    const uint32_t once = trigger == TRIGGER_ONESHOT ? EPOLLONESHOT : 0;

    if (trigger == TRIGGER_EDGE)
        return EPOLLIN | EPOLLOUT | EPOLLET; /* whatever it wants: never changed */
    switch (want) {
    case CONN_RECV:
    case CONN_LINGER:
        return EPOLLIN | once;
    case CONN_SEND:
        return EPOLLOUT | once;
    default:
        return 0;
    }
}

/* Make the set say what the session wants.  0 or -errno: then it cannot be waited for.  With every
 * trigger EPOLL_CTL_MOD reports a socket that is ready now.  So it arms one-shot again; and with
 * edges it is the way back for a session that the budget stopped: behind the others, in the
 * kernel's own list of ready sockets. */
static int arm(const struct epset *set, const struct loop *l, struct session *s,
               enum conn_want want)
{
    enum epoll_trigger trigger = set->worker->tuning.trigger;
    struct epoll_event ev = {.events = interest(trigger, want), .data.ptr = s};
    int op = !s->engine_data ? EPOLL_CTL_ADD : ev.events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    bool again = trigger == TRIGGER_EDGE ? loop_has_more(l)
                                         : trigger == TRIGGER_ONESHOT && s->engine_data;

    if (ev.events == s->engine_data && !again)
        return 0;
    if (epoll_ctl(set->fd, op, s->fd, &ev) < 0)
        return -errno;
    s->engine_data = ev.events;
    return 0;
}

static void pump(const struct epset *set, struct loop *l, struct session *s)
{
    enum conn_want want = session_pump(l, s);

    if (want == CONN_CLOSE || arm(set, l, s, want) < 0)
        session_close(l, s); /* closing takes it out of the set */
}

/* A new connection is pumped before it is armed.  If its request is there already, as it mostly is
 * when clients make a connection for each request, this saves a turn, and often epoll_ctl() too. */
static void accept_waiting(const struct epset *set, struct loop *l, unsigned listener)
{
    for (unsigned n = 0; n < ACCEPT_BUDGET; n++) {
        struct session *s = loop_accept(l, listener);

        if (!s)
            return;
        pump(set, l, s);
    }
}

static void handle(const struct epset *set, struct loop *l, void *who)
{
    int listener = epset_listener(set, who);

    if (listener >= 0)
        accept_waiting(set, l, (unsigned)listener);
    else if (who == l)
        loop_woken(l);
    else if (who != set->worker &&
             (set->worker->tuning.trigger != TRIGGER_LEVEL || !session_receive(l, who)))
        pump(set, l, who);
}

static void pump_batch(const struct epset *set, struct loop *l)
{
    struct session *s;

    while ((s = session_received(l)))
        pump(set, l, s);
}

/* Calls that may close a session that was not reported come after the batch, which may hold its
 * event. */
static int turns(struct epset *set, struct loop *l)
{
    struct epoll_event ev[EVENTS_MAX];
    struct session *s;

    while (!loop_done(l)) {
        int n = epset_wait(set, l, ev);

        if (n < 0)
            return n;
        for (int i = 0; i < n; i++) {
            handle(set, l, ev[i].data.ptr);
            if (loop_batch_is_full(l))
                pump_batch(set, l);
        }
        pump_batch(set, l);
        while ((s = loop_resumed(l)))
            pump(set, l, s);
        while ((s = loop_expired(l)))
            session_close(l, s);
    }
    return 0;
}

static int epoll_run(struct worker *w)
{
    struct epset set;
    struct loop *l;
    int err = loop_open(w, &l);

    if (err)
        return err;
    if (w->tuning.trigger == TRIGGER_EDGE)
        loop_is_edge_triggered(l);
    err = epset_open(&set, l);
    if (!err)
        err = epset_add(&set, loop_wake_fd(l), EPOLLIN, l);
    if (!err)
        err = turns(&set, l);
    loop_close(l);
    epset_close(&set);
    return err;
}

const struct engine engine_epoll = {
    .name = "epoll",
    .summary = "one loop waits for all; the kernel reports the ready ones",
    .use = "io_uring is not available, or you choose how to send files",
    .model = ENGINE_READINESS,
    .may_block = false,
    .capacity = ENGINE_DESCRIPTORS,
    .run = epoll_run,
};
