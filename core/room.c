/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* room.c - all slots are taken: which connections give up theirs.  A connection's own deadline says
 * since when it has been in its state, so nothing else is kept for this. */
#include "room.h"
#include "conn_inside.h"

uint32_t room_patience_ms(const struct room *r)
{
    uint32_t slots = r->conn_max ? r->conn_max : 1;
    uint32_t ms = ROOM_PATIENCE_MS / (1 + r->waiting / slots);

    return ms > ROOM_IDLE_MS ? ms : ROOM_IDLE_MS;
}

static uint64_t idle_since_ms(const struct conn *c, const struct conn_host *times)
{
    return c->deadline_ms - (c->sent ? times->idle_ms : times->head_ms);
}

uint64_t room_idle_since_ms(const struct conn *c)
{
    return idle_since_ms(c, c->host);
}

/* The place of a connection in its state since since_ms: it gives up its slot after ms. */
static struct room_place place(enum room_claim claim, uint64_t since_ms, const struct room *r,
                               uint32_t ms)
{
    bool goes = since_ms + ms <= r->now_ms;

    return (struct room_place){goes ? claim : ROOM_KEEPS, since_ms};
}

static struct room_place place_idle(const struct conn *c, const struct conn_host *times,
                                    const struct room *r, uint64_t heard_ms)
{
    uint64_t since_ms = idle_since_ms(c, times);

    if (heard_ms < since_ms) /* it waited in the accept queue, and was silent there too */
        since_ms = heard_ms;
    return place(ROOM_IDLE, since_ms, r, ROOM_IDLE_MS);
}

/* Bytes of a body that moved since its window began.  If the peer has fewer bytes than it seemed to
 * have then, earlier answers were on their way, and how much it has taken since is not known:
 * "fewer" wraps round to a large number. */
static uint32_t grown(const struct conn *c, uint64_t acked)
{
    return c->want == CONN_SEND ? (uint32_t)acked - c->moved : c->moved;
}

static bool is_body(const struct conn *c)
{
    return c->want == CONN_SEND || (c->want == CONN_RECV && c->flags & CONN_BODY);
}

/* The time does not depend on how many wait: a rate shows only over some round trips, because
 * acknowledgements come in bursts. */
static struct room_place place_body(const struct conn *c, const struct conn_host *times,
                                    const struct room *r, uint64_t acked)
{
    uint64_t since_ms = c->deadline_ms - times->send_ms;
    struct room_place p = place(ROOM_SLOW, since_ms, r, ROOM_PATIENCE_MS);

    if ((uint64_t)grown(c, acked) * 1000 >= (r->now_ms - since_ms) * ROOM_PACE_BYTES)
        p.claim = ROOM_KEEPS;
    return p;
}

struct room_place room_look(const struct conn *c, const struct conn_host *times,
                            const struct room *r, const struct room_peer *peer)
{
    if (is_body(c))
        return place_body(c, times, r, peer->acked);
    if (c->want == CONN_LINGER)
        return place(ROOM_SAID, c->deadline_ms - LINGER_MS, r, ROOM_LINGER_MS);
    if (c->want != CONN_RECV || c->owes)
        return (struct room_place){ROOM_KEEPS, r->now_ms};
    if (!conn_idle(c))
        return place(ROOM_HEADLESS, c->deadline_ms - times->head_ms, r, room_patience_ms(r));
    return place_idle(c, times, r, peer->heard_ms);
}

void room_body_again(struct conn *c, uint64_t acked, uint64_t now_ms)
{
    c->moved = c->want == CONN_SEND ? (uint32_t)acked : 0;
    c->deadline_ms = now_ms + c->host->send_ms;
}

struct room_place room_place(struct conn *c, const struct room *r, const struct room_peer *peer)
{
    struct room_place p = room_look(c, c->host, r, peer);

    /* With less than progress_bytes moved, conn_overdue() would lose count of them. */
    if (p.claim == ROOM_KEEPS && is_body(c) && p.since_ms + ROOM_PATIENCE_MS <= r->now_ms &&
        grown(c, peer->acked) >= c->host->progress_bytes)
        room_body_again(c, peer->acked, r->now_ms);
    return p;
}

bool room_before(const struct room_place *a, const struct room_place *b)
{
    return a->claim != b->claim ? a->claim < b->claim : a->since_ms < b->since_ms;
}

unsigned room_row_add(struct room_victim *row, unsigned count, unsigned most,
                      struct room_victim new)
{
    unsigned i;

    if (!most || (count == most && !room_before(&new.place, &row[count - 1].place)))
        return count;
    count += count < most;
    for (i = count - 1; i > 0 && room_before(&new.place, &row[i - 1].place); i--)
        row[i] = row[i - 1];
    row[i] = new;
    return count;
}
