/* SPDX-License-Identifier: MIT */
/* victims.c - the sessions that give up their slots: a short list, in the order in which they are
 * closed.  core/room.c decides that order; this file asks the socket for facts that the machine
 * does not know.  The caller owns the sessions and looks at each again before it ends it.
 */
#include "../base/net.h"
#include "inside.h"

struct room_place session_place(struct session *s, const struct room *r)
{
    struct room_peer peer = {.heard_ms = UINT64_MAX};
    struct room_place place;

    if (fetch_waits(s)) /* it waits for the disk, not for the peer */
        return (struct room_place){.claim = ROOM_KEEPS};
    if (s->conn.want == CONN_SEND) {
        peer.acked = net_acked(s->fd, s->conn.sent);
    } else if (!s->conn.sent && conn_idle(&s->conn)) {
        long silent_ms = net_silent_ms(s->fd);

        if (silent_ms >= 0 && (uint64_t)silent_ms < r->now_ms)
            peer.heard_ms = r->now_ms - (uint64_t)silent_ms;
    }
    place = room_place(&s->conn, r, &peer);
    if ((place.claim == ROOM_IDLE || place.claim == ROOM_HEADLESS) && net_unread(s->fd) > 0)
        place.claim = ROOM_KEEPS; /* a request has come, or more of one */
    return place;
}

void victims_begin(struct victims *v, const struct worker *w, uint64_t now_ms)
{
    unsigned waiting = worker_waiting(w), workers = w->server->arrangement.workers;

    if (worker_shares(w)) /* each worker makes room for its part of the shared queue */
        waiting = (waiting + workers - 1) / workers;
    v->room = (struct room){now_ms, w->conn_max, waiting};
    v->wanted = v->room.waiting < VICTIMS_MAX ? v->room.waiting : VICTIMS_MAX;
    v->next = v->count = 0;
}

void victims_look(struct victims *v, struct session *s)
{
    struct room_victim new = {session_place(s, &v->room), &s->conn};

    if (new.place.claim != ROOM_KEEPS)
        v->count = room_row_add(v->row, v->count, v->wanted, new);
}

void victims_forget(struct victims *v, const struct session *s)
{
    for (unsigned i = v->next; i < v->count; i++)
        if (v->row[i].conn == &s->conn)
            v->row[i].conn = NULL;
}
