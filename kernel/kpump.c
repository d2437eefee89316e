/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kpump.c - event and softirq: one pump of a connection, and where the connection goes after it.
 *
 * softirq is a shortcut: the same pump in the bottom half, as long as nothing need be waited for.
 * If the connection must be closed, its socket is in use or no memory is at hand, it is handed to
 * the work item; it belongs to the bottom half again when it wants to receive.  With both models
 * an answer that is not in memory is found and read elsewhere (kfar.c), because a file system may
 * never answer.
 */
#include <linux/sched.h>
#include <net/sock.h>
#include "../core/room.h"
#include "kready.h"

/* One pump.  False: the bottom half could not, because a process has the socket. */
static bool ready_pump(struct kline *line, struct pump *p, u64 now_ms)
{
    struct conn *c = &line->k->conn;
    struct sock *sk = line->k->sock->sk;
    struct kready *r = container_of(line->k, struct kready, k);
    bool owned;

    if (line->context->may_sleep || r->called) {
        r->called = false;
        conn_pump(c, p, now_ms);
        return true;
    }
    bh_lock_sock(sk);
    owned = sock_owned_by_user(sk);
    if (!owned)
        conn_pump(c, p, now_ms);
    bh_unlock_sock(sk);
    return !owned;
}

/* Called after each pump: whether the connection must end. */
static bool ready_ends(struct kready *r, u64 now_ms)
{
    struct kconn *k = &r->k;
    bool due = test_bit(KCONN_DUE, &k->flags) && test_and_clear_bit(KCONN_DUE, &k->flags);

    if (k->conn.want == CONN_CLOSE || kconn_unwanted(k, now_ms))
        return true;
    if (due && kconn_overdue(k, now_ms))
        return true;
    if (due || k->conn.deadline_ms < r->timer_ms)
        kready_time(r, now_ms);
    return false;
}

/* The bottom half found that the connection must end.  A request that has come since then is
 * answered first, unless the connection ends in the middle of an answer. */
static bool ready_still_ends(struct kready *r)
{
    struct kconn *k = &r->k;
    bool answers = k->conn.want == CONN_SEND || k->conn.want == CONN_WAIT;

    if (!test_bit(KCONN_END, &k->flags))
        return false;
    if (!answers || test_bit(KCONN_CUT, &k->flags) || READ_ONCE(k->serve->stop) == KSTOP_NOW)
        return true;
    clear_bit(KCONN_END, &k->flags);
    clear_bit(KCONN_GOES, &k->flags);
    return false;
}

/* Hands the connection from the bottom half to the work item, to close it or to sleep. */
static void ready_hand(struct kready *r, bool ends)
{
    kstat_add(r->k.serve, KSTAT_HANDED, 1);
    if (ends)
        set_bit(KCONN_END, &r->k.flags);
    r->soft = false;
    atomic_set(&r->state, KREADY_QUEUED);
    kready_add(&r->k.serve->context[smp_processor_id()], r);
}

/* This context has done what it may, and the connection needs more. */
static void ready_hand_on(struct kcontext *cx, struct kready *r, bool ends)
{
    bool waits = r->k.conn.want == CONN_WAIT;

    if (ends || !(waits || cx->may_sleep)) {
        ready_hand(r, ends);
        return;
    }
    r->soft = false;
    r->away = r->away || (waits && cx->reach == KREACH_HOME);
    kready_queue_far(r);
}

/* The connection waits for its socket, or moves on if something happened meanwhile.  This
 * context does not own it afterwards. */
static void ready_rest(struct kcontext *cx, struct kready *r, bool again)
{
    struct kserve *s = cx->serve;
    bool far = cx->reach != KREACH_MEMORY;

    if (r->k.conn.want == CONN_RECV) {
        r->soft = r->soft || (cx->may_sleep && s->soft);
        r->away = false;
    }
    if (!again && atomic_cmpxchg(&r->state, KREADY_RUNNING, KREADY_IDLE) == KREADY_RUNNING)
        return;
    r->soft = r->soft && !cx->may_sleep; /* this context has it already */
    atomic_set(&r->state, KREADY_QUEUED);
    kready_add(far ? &s->context[raw_smp_processor_id()] : cx, r);
}

/* Whether there is something to do now for which no callback will come. */
static bool ready_again(const struct kline *line, const struct pump *p)
{
    switch (line->k->conn.want) {
    case CONN_RECV:
    case CONN_LINGER:
        return p->more || kline_has_input(line);
    default:
        return p->more;
    }
}

/* A context may answer what is in memory, and wait for room to send it; the bottom half no more
 * than that. */
static bool ready_may_stay(const struct kcontext *cx, const struct kready *r)
{
    enum conn_want want = r->k.conn.want;

    return want == CONN_RECV || want == CONN_SEND || (cx->may_sleep && want != CONN_WAIT);
}

void kready_run(struct kcontext *cx, struct kready *r)
{
    struct kconn *k = &r->k;
    struct kline line = {.k = k, .context = cx, .flags = MSG_DONTWAIT};
    struct pump p = {.transport = cx->may_sleep ? &kline_transport : &kline_soft_transport,
                     .io = &line, .scratch = cx->scratch,
                     .recv_bytes = cx->serve->opt.recv_bytes};
    u64 now_ms = kcontext_tick(cx);
    bool pumped, ends;

    atomic_xchg(&r->state, KREADY_RUNNING); /* a full barrier: what was marked before is seen */
    k->conn.host = &cx->host.conn;
    if (!cx->may_sleep && !kbufpool_reserved(cx->serve)) {
        r->called = false;
        ready_hand(r, false);
        return;
    }
    if (cx->may_sleep && test_and_clear_bit(KCONN_SHUT, &k->flags))
        ksock_shut(k);
    if (cx->reach != KREACH_MEMORY && k->conn.want == CONN_WAIT)
        conn_resume(&k->conn, now_ms);
    cx->busy = true;
    pumped = ready_pump(&line, &p, now_ms);
    cx->busy = false;
    if (!pumped) {
        ready_hand(r, false);
        return;
    }
    /* this context may be freed before the connection is */
    k->conn.host = &k->serve->context[0].host.conn;
    if (line.late && k->conn.want == CONN_SEND)
        room_body_again(&k->conn, ksock_acked(k), now_ms);
    ends = ready_ends(r, now_ms) || ready_still_ends(r);
    if (ends && cx->may_sleep)
        kready_close(r);
    else if (ends || line.hand || !ready_may_stay(cx, r))
        ready_hand_on(cx, r, ends);
    else
        ready_rest(cx, r, ready_again(&line, &p));
}

/* If the packets of a pump return to this processor at once, another pump must not interrupt it. */
void kready_call(struct kready *r)
{
    struct kcontext *cx = &r->k.serve->soft[smp_processor_id()];

    if (cx->busy || atomic_cmpxchg(&r->state, KREADY_IDLE, KREADY_RUNNING) != KREADY_IDLE) {
        kready_mark(r);
    } else if (r->soft) {
        kstat_add(cx->serve, KSTAT_CALLS, 1);
        r->called = true;
        kready_run(cx, r);
    } else {
        atomic_set(&r->state, KREADY_QUEUED);
        kready_queue(r);
    }
}
