/* SPDX-License-Identifier: MIT */
/* uring_doors.c - how uring accepts connections, and the other descriptors that it watches: wake_fd
 * and stop_fd.
 *
 * One operation accepts for ever, so a connection costs no call at all.  But it never asks whether
 * there is a seat, so it is used while more seats are free than it can take before it is ended.
 * With fewer the listener is watched, as by epoll.c, and each connection is accepted when it has a
 * seat.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include "../base/net.h"
#include "uring.h"

enum {
    /* Connections that may be accepted before listening can be ended: a batch of completions, and
     * as many as there is room for while it is handled. */
    SEATS_AHEAD = 2 * RING_CQES + LISTENERS_MAX
};

/* The state that a door should have now. */
static enum door_state door_want(const struct uring *u, unsigned i)
{
    const struct loop *l = u->loop;

    if (i == l->worker->listeners + 1) /* stays readable, and is watched until it is acted upon: */
        return l->drain_ms ? SHUT : WATCHED; /* it may be reported after loop_tick() has looked */
    if (i == l->worker->listeners)
        return WATCHED;
    if (!loop_listening(l))
        return SHUT;
    return u->ahead && l->worker->seats > l->live + SEATS_AHEAD ? ACCEPTING : WATCHED;
}

/* EXCLUSIVE: a connection wakes one or a few of the workers that share the listener, not all. */
static void door_open(struct uring *u, unsigned i, enum door_state want)
{
    struct door *d = &u->door[i];
    uint64_t data = i * TAGS | TAG_DOOR;
    unsigned events = POLLIN | (i < u->loop->worker->listeners ? EPOLLEXCLUSIVE : 0);

    if (want == ACCEPTING ? ring_accept(&u->ring, d->fd, data)
                          : ring_poll(&u->ring, d->fd, events, data))
        d->state = want; /* otherwise the next turn tries again */
}

void uring_doors_tend(struct uring *u)
{
    for (unsigned i = 0; i < u->doors; i++) {
        struct door *d = &u->door[i];
        enum door_state want = u->ring.ending ? SHUT : door_want(u, i);

        if (d->state == want || d->leaving)
            continue;
        if (d->state == SHUT)
            door_open(u, i, want);
        else
            d->leaving = ring_cancel(&u->ring, i * TAGS | TAG_DOOR);
    }
}

static void accepted(struct uring *u, int fd)
{
    struct session *s;

    if (fd == -EINVAL || fd == -EAGAIN)
        u->ahead = false; /* an older kernel */
    if (fd == -EINVAL || fd == -ECANCELED)
        return;
    s = loop_adopt(u->loop, fd);
    if (s)
        uring_pursue(u, s, CONN_RECV);
}

static void welcome(struct uring *u, unsigned listener)
{
    for (unsigned n = 0; n < ACCEPT_BUDGET; n++) {
        struct session *s = loop_welcome(u->loop, listener);

        if (!s)
            return;
        net_may_block(s->fd, true); /* the ring waits only for sockets that may block */
        uring_pursue(u, s, CONN_RECV);
    }
}

static void woken(struct uring *u)
{
    struct session *s;

    loop_woken(u->loop);
    while ((s = loop_resumed(u->loop)))
        if (!(s->slot & FLYING)) /* otherwise earlier answers are still being sent */
            uring_pursue(u, s, session_woken(u->loop, s));
}

void uring_door_moved(struct uring *u, unsigned i, const struct io_uring_cqe *cqe)
{
    struct door *d = &u->door[i];
    unsigned listeners = u->loop->worker->listeners;
    bool accepting = d->state == ACCEPTING;

    if (!(cqe->flags & IORING_CQE_F_MORE)) {
        d->state = SHUT;
        d->leaving = false;
    }
    if (accepting)
        accepted(u, cqe->res);
    else if (cqe->res > 0 && i == listeners)
        woken(u);
    else if (cqe->res > 0 && i < listeners)
        welcome(u, i);
}
