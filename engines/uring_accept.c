/* SPDX-License-Identifier: MIT */
/* uring_accept.c - how uring accepts connections, and the other descriptors that it waits for:
 * wake_fd and stop_fd.
 *
 * One operation accepts for ever, so a connection costs no call at all.  But it never asks whether
 * there is a slot, so it is used while more slots are free than it can take before it is ended.
 * With fewer the listener is polled, as by epoll.c, and each connection is accepted when it has a
 * slot.
 *
 * A connection wakes one of the operations that wait for a listener.  When a process is killed, the
 * kernel ends its ring after it, in a thread of its own (io_ring_exit_work()), and until then that
 * ring's operation may be the one that is woken.  The connection then stays in the queue, and the
 * next one is lost in the same way.  So a worker whose listeners another process has used looks at
 * them itself for a while.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include "../base/clock.h"
#include "../base/net.h"
#include "uring.h"

enum {
    /* Connections that may be accepted before listening can be ended: a batch of completions, and
     * as many as there is room for while it is handled. */
    ACCEPTS_AHEAD = 2 * RING_CQES + LISTENERS_MAX,
    LOOK_MS = 100 /* between two looks at listeners that another process has used */
};

/* The state that a listener should have now. */
static enum listener_state listener_want(const struct uring *u, unsigned i)
{
    const struct loop *l = u->loop;
    const struct worker *w = loop_worker(l);

    /* stop_fd stays readable, and is polled until it is acted upon: it may be reported after
     * loop_tick() has looked */
    if (i == w->listeners + 1)
        return loop_stopping(l) ? OFF : POLLED;
    if (i == w->listeners)
        return POLLED;
    if (!loop_listening(l))
        return OFF;
    return u->ahead && w->conn_max > loop_live(l) + ACCEPTS_AHEAD ? MULTISHOT : POLLED;
}

/* EXCLUSIVE: a connection wakes one or a few of the workers that share the listener, not all. */
static void listener_open(struct uring *u, unsigned i, enum listener_state want)
{
    struct listener *one = &u->listener[i];
    uint64_t data = i * TAGS | TAG_LISTENER;
    unsigned events = POLLIN | (i < loop_worker(u->loop)->listeners ? EPOLLEXCLUSIVE : 0);

    if (want == MULTISHOT ? ring_accept(&u->ring, one->fd, data)
                          : ring_poll(&u->ring, one->fd, events, data))
        one->state = want; /* otherwise the next turn tries again */
}

void uring_listeners_tend(struct uring *u)
{
    for (unsigned i = 0; i < u->listeners; i++) {
        struct listener *one = &u->listener[i];
        enum listener_state want = u->ring.ending ? OFF : listener_want(u, i);

        if (one->state == want || one->leaving)
            continue;
        if (one->state == OFF)
            listener_open(u, i, want);
        else
            one->leaving = ring_cancel(&u->ring, i * TAGS | TAG_LISTENER);
    }
}

static void accepted(struct uring *u, int fd)
{
    struct session *s;

    if (fd == -EINVAL || fd == -EAGAIN)
        u->ahead = false; /* an older kernel */
    if (fd == -EINVAL || fd == -ECANCELED)
        return;
    s = loop_accepted(u->loop, fd);
    if (s)
        uring_begin_in_turn(u, s, CONN_RECV);
}

static void accept_waiting(struct uring *u, unsigned listener)
{
    for (unsigned n = 0; n < ACCEPT_BUDGET; n++) {
        struct session *s = loop_accept(u->loop, listener);

        if (!s)
            return;
        net_may_block(s->fd, true); /* the ring waits only for sockets that may block */
        uring_begin_in_turn(u, s, CONN_RECV);
    }
}

void uring_listeners_look(struct uring *u)
{
    uint64_t now_ms = u->look_until_ms ? clock_ms() : 0;

    if (!u->look_until_ms || now_ms < u->look_ms)
        return;
    u->look_ms = now_ms + LOOK_MS;
    if (now_ms >= u->look_until_ms)
        u->look_until_ms = 0;
    for (unsigned i = 0; loop_listening(u->loop) && i < loop_worker(u->loop)->listeners; i++)
        accept_waiting(u, i);
}

int uring_listeners_wait_ms(const struct uring *u, int wait_ms)
{
    return u->look_until_ms && (wait_ms < 0 || wait_ms > LOOK_MS) ? LOOK_MS : wait_ms;
}

static void woken(struct uring *u)
{
    struct session *s;

    loop_woken(u->loop);
    while ((s = loop_resumed(u->loop))) {
        enum conn_want want = session_woken(u->loop, s);

        if (!(s->engine_data & (INFLIGHT | STARVED)))
            uring_begin_in_turn(u, s, want);
        else if (want == CONN_SEND) /* it sends already, or it receives and has an answer now */
            (void)ring_cancel(&u->ring, uring_data(s, TAG_RECV));
    }
}

void uring_listener_completed(struct uring *u, unsigned i, const struct io_uring_cqe *cqe)
{
    struct listener *one = &u->listener[i];
    unsigned listeners = loop_worker(u->loop)->listeners;
    bool accepting = one->state == MULTISHOT;

    if (!(cqe->flags & IORING_CQE_F_MORE)) {
        one->state = OFF;
        one->leaving = false;
    }
    if (accepting)
        accepted(u, cqe->res);
    else if (cqe->res > 0 && i == listeners)
        woken(u);
    else if (cqe->res > 0 && i < listeners)
        accept_waiting(u, i);
}
