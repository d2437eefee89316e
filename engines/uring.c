/* SPDX-License-Identifier: MIT */
/* uring.c - completion: the calls themselves are handed to the kernel, which says how they went.
 *
 * The idea: readiness asks whether a call would succeed and then makes it; here the call is queued
 * in memory shared with the kernel (io_uring), many of them enter with one system call, and each
 * leaves a completion.  A connection either reads or writes, never both, so it has at most one
 * operation in flight; session->engine_data records it.  Memory that an operation points to
 * stays until it completes: if a session's time is up, its operation is cancelled first, then it is
 * closed.
 *
 * uring_ops.c begins operations, uring_starved.c queues the sessions that found no buffer, and
 * uring_accept.c accepts connections.  What it costs: docs/engines/uring.md.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include "../base/clock.h"
#include "uring.h"

enum {
    END_MS = 5000,       /* wait for operations that cannot be cancelled: a disk may hang */
    LOOK_UNTIL_MS = 5000 /* see uring_listeners_look() */
};

/* --- Completions ------------------------------------------------------------------------------ */

/* Whether the session's operation goes on.  The kernel adds POLLRDHUP to the events asked for, so
 * if the peer has ended its side and reads slowly, a poll for one event would complete at once, for
 * ever.  A multishot poll, which reports each change, is used then, and cancelled when it reports
 * another event.  If the ring takes no cancel while the session is leaving, loop_expired() gives it
 * out again. */
static bool stays_polled(struct uring *u, struct session *s, const struct io_uring_cqe *cqe)
{
    uint64_t data = uring_data(s, TAG_WRITABLE);

    if (cqe->flags & IORING_CQE_F_MORE) {
        if (cqe->res != POLLRDHUP && !ring_cancel(&u->ring, data) && s->engine_data & LEAVING) {
            s->engine_data &= ~(unsigned)LEAVING;
            session_cancel_undo(u->loop, s);
        }
        return true;
    }
    return cqe->res == POLLRDHUP && !(s->engine_data & LEAVING) &&
           ring_poll_multishot(&u->ring, s->fd, POLLOUT, data);
}

/* A batch of completions brings more requests at once than a readiness loop has in hand, and each
 * holds memory until its answer is sent.  If there is none for a request, its bytes stay where they
 * are and are looked at again a millisecond later, until the session's time is up. */
static bool waits_for_memory(struct uring *u, struct session *s, const struct io_uring_cqe *cqe)
{
    if (cqe->res <= 0 || loop_has_memory(u->loop) ||
        !ring_timeout(&u->ring, uring_data(s, TAG_TIMEOUT)))
        return false;
    u->holding++;
    s->engine_data &= LEAVING;
    s->engine_data |= INFLIGHT | HOLDING | ring_held(cqe) << PIECE_SHIFT;
    return true;
}

/* The operation of a session is over.  If the session was being ended (leave()), a request that was
 * received before its cancel took effect is still served: evicting must not lose it. */
static void session_completed(struct uring *u, struct session *s, const struct io_uring_cqe *cqe)
{
    enum tag tag = cqe->user_data % TAGS;
    int n = cqe->res;
    enum conn_want want = (enum conn_want)s->conn.want;
    bool turned = n == -ECANCELED && tag == TAG_RECV && want == CONN_SEND; /* see woken() */
    bool again = turned || n == -EINTR || n == -EAGAIN || n == -ENOBUFS;
    bool leaving = s->engine_data & LEAVING && (tag != TAG_RECV || n <= 0);

    if ((tag == TAG_WRITABLE && stays_polled(u, s, cqe)) ||
        (tag == TAG_RECV && !(s->engine_data & LEAVING) && waits_for_memory(u, s, cqe)))
        return;
    if (s->engine_data & LEAVING && !leaving)
        session_cancel_undo(u->loop, s);
    s->engine_data &= ~(unsigned)LEAVING;
    if (tag == TAG_READ && n > 0 && !leaving && uring_transmit_read(u, s, (size_t)n))
        return;
    ring_piece_end(&u->ring, s->engine_data >> PIECE_SHIFT);
    s->engine_data = 0;
    if (leaving)
        want = CONN_CLOSE;
    else if (tag == TAG_RECV && !again)
        want = session_fed(u->loop, s, ring_bytes(&u->ring, cqe), n);
    else if ((tag == TAG_SEND || tag == TAG_READ) && !again)
        want = session_sent(u->loop, s, tag == TAG_READ && n > 0 ? -EBUSY : n);
    ring_give_back(&u->ring, cqe);
    if (want == CONN_SEND && n == -EAGAIN &&
        (tag == TAG_READ ? uring_transmit(u, s, true)
                         : ring_poll(&u->ring, s->fd, POLLOUT, uring_data(s, TAG_WRITABLE))))
        s->engine_data |= INFLIGHT;
    else if (tag != TAG_RECV || n != -ENOBUFS || want == CONN_CLOSE || !uring_starve(u, s))
        uring_begin_in_turn(u, s, want);
}

/* If this ends the pause of bytes that wait for memory, handle them as if they had come now. */
static void unhold(struct uring *u, struct session *s, const struct io_uring_cqe *cqe)
{
    struct io_uring_cqe held = *cqe;

    if (s->engine_data & HOLDING) {
        ring_unheld(s->engine_data >> PIECE_SHIFT, &held);
        held.user_data = uring_data(s, TAG_RECV);
        s->engine_data &= INFLIGHT | LEAVING;
        u->holding--;
    }
    session_completed(u, s, &held);
}

/* End a session whose time is up or whose slot is needed. */
static void leave(struct uring *u, struct session *s)
{
    if (!(s->engine_data & (INFLIGHT | STARVED))) {
        session_close(u->loop, s);
        return;
    }
    session_cancel_begin(s);
    s->engine_data |= LEAVING;
    if (s->engine_data & STARVED)
        return;
    if (s->conn.want == CONN_SEND)
        (void)ring_cancel(&u->ring, uring_data(s, TAG_WRITABLE)); /* a poll may report no more */
    if (s->conn.want == CONN_SEND)
        shutdown(s->fd, SHUT_RDWR); /* ends the operation that is in flight */
    else if (!ring_cancel(&u->ring, uring_data(s, TAG_RECV)))
        shutdown(s->fd, SHUT_RD); /* more may have to be sent: conn_stays_open() */
}

/* --- Turns ------------------------------------------------------------------------------------ */

/* Handle only the completions that are there now: operations begun here may complete at once, and
 * other sessions wait. */
static void reap(struct uring *u)
{
    struct io_uring_cqe cqe;
    unsigned n = io_uring_cq_ready(&u->ring.uring);

    if (n)
        loop_received(u->loop);
    for (; n > 0 && ring_next(&u->ring, &cqe); n--) {
        if (cqe.user_data % TAGS == TAG_LISTENER)
            uring_listener_completed(u, (unsigned)(cqe.user_data / TAGS), &cqe);
        else
            unhold(u, (struct session *)(uintptr_t)(cqe.user_data & ~(TAGS - 1ull)), &cqe);
    }
}

static int turns(struct uring *u)
{
    struct loop *l = u->loop;
    struct session *s;

    while (!loop_done(l)) {
        int err;

        uring_listeners_tend(u);
        err = ring_wait(&u->ring, uring_may_feed(u) ? 0
                                                    : uring_listeners_wait_ms(u, loop_wait_ms(l)));
        if (err)
            return err;
        loop_tick(l);
        reap(u);
        uring_listeners_look(u);
        uring_feed_starved(u);
        while ((s = loop_expired(l)))
            leave(u, s);
    }
    return 0;
}

/* End all sessions that are not leaving yet. */
static void leave_all(struct uring *u)
{
    struct session *s, *next;

    for (s = loop_next(u->loop, NULL); s; s = next) {
        next = loop_next(u->loop, s);
        if (!(s->engine_data & LEAVING))
            leave(u, s);
    }
}

/* End every operation in flight and wait for it: memory that it points to must outlive it.  False:
 * a disk hangs, and the memory that it may still write to has to stay. */
static bool end(struct uring *u)
{
    u->ring.ending = true;
    for (unsigned ms = 0; leave_all(u), u->ring.inflight && ms < END_MS; ms++) {
        uring_listeners_tend(u);
        (void)ring_wait(&u->ring, 1);
        reap(u);
    }
    return !u->ring.inflight;
}

static int uring_open(struct uring *u, struct worker *w)
{
    int err = loop_open(w, &u->loop);

    if (err)
        return err;
    err = ring_open(&u->ring);
    if (err) {
        loop_close(u->loop);
        return err;
    }
    for (unsigned i = 0; i < w->listeners; i++)
        u->listener[i].fd = w->listener[i];
    u->listener[w->listeners].fd = loop_wake_fd(u->loop);
    u->listener[w->listeners + 1].fd = w->stop_fd;
    u->listeners = w->listeners + 2;
    u->ahead = true;
    u->look_until_ms = w->used_before ? clock_ms() + LOOK_UNTIL_MS : 0;
    if (w->shared)
        u->look_until_ms = UINT64_MAX;
    return 0;
}

static int uring_run(struct worker *w)
{
    struct uring *u = calloc(1, sizeof(*u));
    int err = u ? uring_open(u, w) : -ENOMEM;

    if (!err) {
        err = turns(u);
        if (!end(u))
            return -ETIMEDOUT;
        ring_close(&u->ring);
        loop_close(u->loop);
        free(u->starved.session);
    }
    free(u);
    return err;
}

const struct engine engine_uring = {
    .name = "uring",
    .summary = "one loop hands its calls to the kernel, which reports the results",
    .use = "in doubt: many clients, busy or idle; from Linux 5.19 on",
    .model = ENGINE_COMPLETION,
    .may_block = false,
    .capacity = ENGINE_DESCRIPTORS,
    .probe = ring_refusal,
    .run = uring_run,
};
