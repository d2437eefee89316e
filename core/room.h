/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* room.h - all slots are taken: which connections give up theirs to those that wait.
 *
 * The rule is here once, and every acceptor uses it.  A connection keeps its slot while it makes
 * use of it.  While others wait, connections that make no use of theirs are closed, the longest
 * unused first within each kind: first those that are idle between two requests or silent since
 * they were accepted, then those whose request's head is still incomplete, then those that have
 * their last answer, then those that move a body slower than ROOM_PACE_BYTES a second.  How long an
 * incomplete head may last shrinks as more connections wait for each slot, so that a crowd of slow
 * clients ten times as large does not delay the others ten times as much.
 */
#ifndef CORE_ROOM_H
#define CORE_ROOM_H
#include "conn.h"

enum {
    /* The request of a client that has only just connected, or been answered, may be on its way: a
     * round trip across a continent. */
    ROOM_IDLE_MS = 40,

    /* A head or a body makes no progress.  For a head: with as many connections waiting as there
     * are slots, half of it, and so on down to ROOM_IDLE_MS. */
    ROOM_PATIENCE_MS = 500,

    /* The last answer is out: closing sooner may destroy what the peer has not read yet. */
    ROOM_LINGER_MS = 250,

    /* A body that moves more than that in a second keeps its slot. */
    ROOM_PACE_BYTES = 16384
};

/* The connections that a worker serves, and those that wait, as they are now. */
struct room {
    uint64_t now_ms;
    unsigned conn_max;   /* connections that can be served at once */
    unsigned waiting; /* connections that wait for a slot */
};

/* What the socket's owner knows of the peer beyond the machine's state. */
struct room_peer {
    uint64_t acked;    /* as for conn_overdue(); looked at while want is CONN_SEND */
    uint64_t heard_ms; /* when something last arrived from it; UINT64_MAX: not known */
};

/* The lower claim is closed first; of equal claims, the one that has lasted longer. */
enum room_claim { ROOM_IDLE, ROOM_HEADLESS, ROOM_SAID, ROOM_SLOW, ROOM_KEEPS };
struct room_place {
    enum room_claim claim;
    uint64_t since_ms;
};

/* How long a connection may make no use of its slot now. */
uint32_t room_patience_ms(const struct room *r);

/* When an idle connection was last active. */
uint64_t room_idle_since_ms(const struct conn *c);

/* The place of a connection now.  A body that was fast enough so far begins a new window of
 * --send-timeout, so that it is judged by what moves from now on. */
struct room_place room_place(struct conn *c, const struct room *r, const struct room_peer *peer);

/* Like room_place(), for a connection that another thread may be pumping: nothing is written, and
 * the connection's host is not read (times has its time-outs).  The result is a guess; the owner
 * decides with room_place(). */
struct room_place room_look(const struct conn *c, const struct conn_host *times,
                            const struct room *r, const struct room_peer *peer);

/* A body is judged by what moves from now on, for example because the host was slow until now. */
void room_body_again(struct conn *c, uint64_t acked, uint64_t now_ms);

/* Whether a goes before b. */
bool room_before(const struct room_place *a, const struct room_place *b);

struct room_victim {
    struct room_place place;
    struct conn *conn; /* NULL: it has ended meanwhile */
};

/* A row of at most `most` victims, count of them so far, the first to be closed in front: new is
 * added if there is room, or if it comes before the last one.  Returns the new count. */
unsigned room_row_add(struct room_victim *row, unsigned count, unsigned most,
                      struct room_victim new);

#endif
