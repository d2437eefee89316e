/* SPDX-License-Identifier: MIT */
/* uring_starved.c - sessions that wait for a buffer to receive into, in the order in which they
 * came.
 *
 * The kernel ends a receive with -ENOBUFS when all buffers of the set are taken.  If a thousand
 * clients send at once and each that found none began again with the next batch, nearly all of them
 * would fail each time.  So each waits here until buffers have been given back: as many begin
 * at a time as there are buffers.  While some wait, each session that wants to receive goes to the
 * end of the queue.  Otherwise it would take the buffer that the first in the queue waits for, and
 * a client that asks again at once would be served many times before the others.  A waiting session
 * has no operation in flight; if its time is up, it is closed when its turn comes.
 */
#include <stdlib.h>
#include "uring.h"

enum { STARVED_MIN = 256 };

/* Double the room; the sessions keep their order and begin at index 0. */
static bool grow(struct starved *q)
{
    unsigned room = q->room ? 2 * q->room : STARVED_MIN;
    struct session **session = calloc(room, sizeof(struct session *));

    if (!session)
        return false;
    for (unsigned i = 0; i < q->count; i++)
        session[i] = q->session[(q->first + i) % q->room];
    free(q->session);
    *q = (struct starved){.session = session, .room = room, .count = q->count};
    return true;
}

bool uring_starve(struct uring *u, struct session *s)
{
    struct starved *q = &u->starved;

    if (q->count == q->room && !grow(q))
        return false;
    q->session[(q->first + q->count++) % q->room] = s;
    s->engine_data = STARVED;
    return true;
}

bool uring_may_feed(const struct uring *u)
{
    return u->starved.count && u->holding < RING_BUFFERS;
}

void uring_feed_starved(struct uring *u)
{
    struct starved *q = &u->starved;

    for (unsigned buffers = RING_BUFFERS - u->holding; q->count && buffers; q->count--) {
        struct session *s = q->session[q->first];
        enum conn_want want = s->engine_data & LEAVING ? CONN_CLOSE : (enum conn_want)s->conn.want;
        unsigned inflight = u->ring.inflight;

        q->first = (q->first + 1) % q->room;
        s->engine_data = 0;
        uring_begin(u, s, want);
        buffers -= u->ring.inflight > inflight; /* otherwise the session was closed */
    }
}

void uring_begin_in_turn(struct uring *u, struct session *s, enum conn_want want)
{
    if (want != CONN_RECV || !u->starved.count || !uring_starve(u, s))
        uring_begin(u, s, want);
}
