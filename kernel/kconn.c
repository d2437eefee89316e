/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kconn.c - a connection, whatever its model: how it begins and ends, and whether it must end
 * because its time is up, its slot is wanted, or the server stops.
 */
#include <linux/ktime.h>
#include <net/sock.h>
#include "../core/room.h"
#include "kinside.h"

/* While clients wait for slots, klisten.c marks connections to be evicted at least every 40 ms.  A
 * connection may find its mark late, because a file system delayed it.  If klisten.c has not marked
 * any for this long, no client waits now, and the connection stays. */
enum { ASKED_MS = 200 };

void kconn_begin(struct kconn *k, struct kserve *s, struct socket *sock,
                 const struct conn_host *host)
{
    k->serve = s;
    k->sock = sock;
    k->flags = 0;
    k->times = (struct ktimes){0};
    conn_init(&k->conn, s->world.proto, host, (u64)ktime_to_ms(ktime_get_coarse()));
    kstat_add(s, KSTAT_ACCEPTED, 1);
    atomic_inc(&s->live);
    spin_lock(&s->lock);
    list_add_tail(&k->node, &s->conns);
    s->listed++;
    spin_unlock(&s->lock);
}

void kconn_finish(struct kconn *k)
{
    struct kserve *s = k->serve;

    spin_lock(&s->lock);
    list_del(&k->node);
    s->listed--;
    spin_unlock(&s->lock);
    kstat_add(s, KSTAT_BYTES, (unsigned long)k->conn.sent);
    /* Cut off: a reset shows it to the peer, and no send queue stays behind. */
    if (READ_ONCE(s->stop) == KSTOP_NOW || test_bit(KCONN_CUT, &k->flags) ||
        conn_unfinished(&k->conn))
        sock_no_linger(k->sock->sk);
    conn_fini(&k->conn);
    sock_release(k->sock);
    kstat_add(s, KSTAT_CLOSED, 1);
}

void kserve_left(struct kserve *s)
{
    bool last = atomic_dec_and_test(&s->live);

    if (READ_ONCE(s->paused))
        klisteners_room(s);
    if (last)
        wake_up_all(&s->gone);
}

/* Whether closing loses nothing: no answer is owed, and nothing has come. */
static bool kconn_idle(const struct kconn *k)
{
    return conn_idle(&k->conn) && !ksock_unread(k);
}

/* The connection's time is up, or it gives up its slot.  Ending a blocking connection makes its
 * send fail, and then it does not look unfinished any more. */
static bool goes(struct kconn *k, enum kstat_id why)
{
    if (conn_unfinished(&k->conn))
        set_bit(KCONN_CUT, &k->flags);
    if (!test_and_set_bit(KCONN_GOES, &k->flags))
        kstat_add(k->serve, why, 1);
    return true;
}

/* Whether the connection gives up its slot. */
static bool makes_room(struct kconn *k, u64 now_ms)
{
    const struct kserve *s = k->serve;
    const struct room room = {now_ms, s->conn_max, READ_ONCE(s->waiting)};
    const struct room_peer peer = {.acked = ksock_acked(k), .heard_ms = U64_MAX};
    enum room_claim claim = room_place(&k->conn, &room, &peer).claim;

    if (claim == ROOM_KEEPS || ksock_has_all(k))
        return false;
    return k->conn.want != CONN_RECV || !ksock_unread(k);
}

bool kconn_unwanted(struct kconn *k, u64 now_ms)
{
    int how = READ_ONCE(k->serve->stop);

    if (how != KSTOP_NOT)
        return how == KSTOP_NOW || kconn_idle(k);
    if (!test_bit(KCONN_EVICT, &k->flags))
        return false;
    clear_bit(KCONN_EVICT, &k->flags);
    if (now_ms > READ_ONCE(k->serve->asked_ms) + ASKED_MS)
        return false;
    return makes_room(k, now_ms) && goes(k, KSTAT_EVICTED);
}

bool kconn_overdue(struct kconn *k, u64 now_ms)
{
    if (now_ms < k->conn.deadline_ms || (ksock_unread(k) && conn_spoken(&k->conn, now_ms)))
        return false;
    return conn_overdue(&k->conn, ksock_acked(k), now_ms) && goes(k, KSTAT_EXPIRED);
}
