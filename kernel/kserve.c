/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kserve.c - event and softirq: sockets call back, and a connection that can move is put on a list
 * of the processor it happened on; the work item that drains the list runs the same pump as every
 * engine.
 *
 * The idea: readiness without a wait.  The callbacks (bytes, room, state) run where the packet was
 * handled, in the bottom half.  They only mark and queue; one work item for each processor pumps
 * whatever gathered meanwhile, so that many requests share one wake-up.  Nothing here waits for the
 * network: an idle connection costs its memory and a timer, but no thread and no place in a work
 * queue.
 *
 * One owner at a time, as in NAPI.  IDLE: the callbacks'.  QUEUED: in one list.  RUNNING: being
 * pumped.  AGAIN: something happened during the pump, so it is queued again.  Only the owner pumps,
 * sets the timer and closes, which needs process context; all others only mark.
 *
 * softirq is a shortcut: the same list, drained in the bottom half, as long as nothing need be
 * waited for.  If the connection must be closed, its socket is in use or no memory is at hand, it
 * is handed to the work item; it belongs to the bottom half again when it wants to receive.  With
 * both models an answer that is not in memory is found and read elsewhere (kfar.c): a file system
 * may never answer.
 *
 * The cost of a request: one turn of the list, a receive and a send.
 */
#include <linux/cpumask.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <net/sock.h>
#include "../core/room.h"
#include "kready.h"

/* Connections pumped in one turn, before other work on this processor has its turn; packets wait
 * behind a bottom half, so its turns are shorter. */
enum { TURN_MAX = 64, SOFT_TURN_MAX = 16 };

/* --- Marking: from callbacks, timers and look() ----------------------------------------------- */

/* Adds r to the list of a lane; if the list was empty, starts its drain. */
static void lane_add(struct klane *l, struct kready *r)
{
    struct kserve *s = l->serve;

    kstat_add(s, KSTAT_WAKES, 1);
    if (!llist_add(&r->node, &l->ready))
        return;
    if (l->may_sleep)
        queue_work_on((int)(l - s->lane), s->wq, &l->work);
    else
        kcompat_bh_queue(&l->bh);
}

/* The caller has made r QUEUED.  The list is this processor's, whose cache has the packet. */
void kready_queue(struct kready *r)
{
    struct kserve *s = r->k.serve;
    int cpu = get_cpu();

    lane_add(r->soft ? &s->soft[cpu] : &s->lane[cpu], r);
    put_cpu();
}

/* May be called in any context. */
void kready_mark(struct kready *r)
{
    int state = atomic_read(&r->state), next;

    do {
        if (state == KREADY_QUEUED || state == KREADY_AGAIN)
            return; /* it is looked at anyway, after this */
        next = state == KREADY_IDLE ? KREADY_QUEUED : KREADY_AGAIN;
    } while (!atomic_try_cmpxchg(&r->state, &state, next));
    if (next == KREADY_QUEUED)
        kready_queue(r);
}

/* --- Pumping: the owner's --------------------------------------------------------------------- */

/* One pump.  False: the bottom half could not, because a process has the socket. */
static bool ready_pump(struct kline *line, struct pump *p, u64 now_ms)
{
    struct conn *c = &line->k->conn;
    struct sock *sk = line->k->sock->sk;
    struct kready *r = container_of(line->k, struct kready, k);
    bool owned;

    if (line->lane->may_sleep || r->called) {
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
    lane_add(&r->k.serve->lane[smp_processor_id()], r);
}

/* This lane has done what it may, and the connection needs more. */
static void ready_hand_on(struct klane *l, struct kready *r, bool ends)
{
    bool waits = r->k.conn.want == CONN_WAIT;

    if (ends || !(waits || l->may_sleep)) {
        ready_hand(r, ends);
        return;
    }
    r->soft = false;
    r->away = r->away || (waits && l->reach == KREACH_HOME);
    kfar_queue(r);
}

/* The connection waits for its socket, or moves on if something happened meanwhile.  This lane does
 * not own it afterwards. */
static void ready_rest(struct klane *l, struct kready *r, bool again)
{
    struct kserve *s = l->serve;
    bool far = l->reach != KREACH_MEMORY;

    if (r->k.conn.want == CONN_RECV) {
        r->soft = r->soft || (l->may_sleep && s->soft);
        r->away = false;
    }
    if (!again && atomic_cmpxchg(&r->state, KREADY_RUNNING, KREADY_IDLE) == KREADY_RUNNING)
        return;
    r->soft = r->soft && !l->may_sleep; /* this lane has it already */
    atomic_set(&r->state, KREADY_QUEUED);
    lane_add(far ? &s->lane[raw_smp_processor_id()] : l, r);
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

/* A lane may answer what is in memory, and wait for room to send it; the bottom half no more than
 * that. */
static bool ready_may_stay(const struct klane *l, const struct kready *r)
{
    enum conn_want want = r->k.conn.want;

    return want == CONN_RECV || want == CONN_SEND || (l->may_sleep && want != CONN_WAIT);
}

void kready_run(struct klane *l, struct kready *r)
{
    struct kconn *k = &r->k;
    struct kline line = {.k = k, .lane = l, .flags = MSG_DONTWAIT};
    struct pump p = {.transport = l->may_sleep ? &kline_transport : &kline_soft_transport,
                     .io = &line, .scratch = l->scratch};
    u64 now_ms = klane_tick(l);
    bool pumped, ends;

    atomic_xchg(&r->state, KREADY_RUNNING); /* a full barrier: what was marked before is seen */
    k->conn.host = &l->host;
    if (!l->may_sleep && !kshelves_stocked(l->serve)) {
        r->called = false;
        ready_hand(r, false);
        return;
    }
    if (l->may_sleep && test_and_clear_bit(KCONN_SHUT, &k->flags))
        ksock_shut(k);
    if (l->reach != KREACH_MEMORY && k->conn.want == CONN_WAIT)
        conn_resume(&k->conn, now_ms);
    l->busy = true;
    pumped = ready_pump(&line, &p, now_ms);
    l->busy = false;
    if (!pumped) {
        ready_hand(r, false);
        return;
    }
    k->conn.host = &k->serve->lane[0].host; /* this lane may be freed before the connection is */
    if (line.late && k->conn.want == CONN_SEND)
        room_body_again(&k->conn, ksock_acked(k), now_ms);
    ends = ready_ends(r, now_ms) || ready_still_ends(r);
    if (ends && l->may_sleep)
        kready_close(r);
    else if (ends || line.hand || !ready_may_stay(l, r))
        ready_hand_on(l, r, ends);
    else
        ready_rest(l, r, ready_again(&line, &p));
}

/* If the packets of a pump return to this processor at once, another pump must not interrupt it. */
void kready_call(struct kready *r)
{
    struct klane *l = &r->k.serve->soft[smp_processor_id()];

    if (l->busy || atomic_cmpxchg(&r->state, KREADY_IDLE, KREADY_RUNNING) != KREADY_IDLE) {
        kready_mark(r);
    } else if (r->soft) {
        kstat_add(l->serve, KSTAT_CALLS, 1);
        r->called = true;
        kready_run(l, r);
    } else {
        atomic_set(&r->state, KREADY_QUEUED);
        kready_queue(r);
    }
}

/* True: there may be more. */
static bool lane_turn(struct klane *l)
{
    unsigned n, most = l->may_sleep ? TURN_MAX : SOFT_TURN_MAX;

    kstat_add(l->serve, KSTAT_TURNS, 1);
    for (n = 0; n < most; n++) {
        struct llist_node *first = l->rest;

        if (!first)
            first = llist_reverse_order(llist_del_all(&l->ready)); /* oldest first */
        if (!first)
            return false;
        l->rest = first->next;
        kready_run(l, llist_entry(first, struct kready, node));
        if (l->may_sleep)
            cond_resched();
    }
    return true;
}

static void lane_work(struct work_struct *work)
{
    struct klane *l = container_of(work, struct klane, work);

    if (lane_turn(l))
        queue_work_on((int)(l - l->serve->lane), l->serve->wq, work);
}

static void lane_bh(struct kcompat_bh *bh)
{
    struct klane *l = container_of(bh, struct klane, bh);

    if (lane_turn(l))
        kcompat_bh_queue(bh);
}

/* --- Lanes: one for each processor ------------------------------------------------------------ */

static void lanes_close(struct klane *lanes)
{
    unsigned cpu;

    if (!lanes)
        return;
    for_each_possible_cpu(cpu) {
        if (!lanes[cpu].may_sleep && lanes[cpu].serve)
            kcompat_bh_end(&lanes[cpu].bh);
        klane_close(&lanes[cpu]);
    }
    kvfree(lanes);
}

static int lanes_open(struct klane **lanes, struct kserve *s, bool may_sleep)
{
    struct klane *all = kvcalloc(nr_cpu_ids, sizeof(*all), GFP_KERNEL);
    unsigned cpu;
    int err;

    if (!all)
        return -ENOMEM;
    for_each_possible_cpu(cpu) {
        init_llist_head(&all[cpu].ready);
        INIT_WORK(&all[cpu].work, lane_work);
        kcompat_bh_init(&all[cpu].bh, lane_bh);
        err = klane_open(&all[cpu], s, may_sleep, KREACH_MEMORY);
        if (err) {
            lanes_close(all);
            return err;
        }
        klane_remember(&all[cpu]);
    }
    *lanes = all;
    return 0;
}

/* No connection is left, so no list has one.  But a lane's work may still be queued, or about to
 * be.  It is queued in four places, and none of them can do so after drain_workqueue():
 *
 *   lane_work() itself, after a full turn, even if the list is empty by then.  flush_workqueue()
 *     would not wait for that, because it comes after the flush.  drain_workqueue() flushes until
 *     the queue stays empty, and meanwhile accepts only work that is queued by such work.
 *   ready_hand(), in a bottom half.  A turn that is running may find the connection in the list and
 *     close it before the bottom half calls queue_work_on().  kcompat_bh_end() waits until the
 *     bottom half has returned, so it comes before the drain.
 *   ready_rest(), in a work item of kfar.c, which hands the connection to a lane with the same gap.
 *     kfar_close() waits until that work item has returned, so it comes before the drain as well.
 *   kready_queue(), for kready_mark() and kready_welcome().  A callback of the socket does this
 *     under sk_callback_lock, which ksock_unhook() takes for writing; a timer does it in its
 *     function, for which timer_shutdown_sync() waits.  Both have returned when kready_close()
 *     counts the connection as gone.  door_accept(), which welcomes and evicts, ended in
 *     kdoors_close(), and stop() has returned in the thread that runs this, or that started it.
 *
 * A bottom half queues itself as well, after a full turn of its own.  kcompat_bh_end() prevents it:
 * tasklet_kill() holds the bit that tasklet_schedule() needs, and cancel_work_sync() holds the one
 * that queue_work() needs. */
static void ready_way_close(struct kserve *s)
{
    lanes_close(s->soft);
    kfar_close(s);
    if (s->wq)
        drain_workqueue(s->wq);
    lanes_close(s->lane);
}

static int ready_way_open(struct kserve *s)
{
    int err = lanes_open(&s->lane, s, true) ?: kfar_open(s);

    if (!err && s->opt.model == KMODEL_SOFTIRQ) {
        err = lanes_open(&s->soft, s, false);
        err = err ?: kshelves_stock(s);
    }
    return err; /* what was opened is closed with the server */
}

const struct kway kway_ready = {
    .open = ready_way_open,
    .close = ready_way_close,
    .welcome = kready_welcome,
    .look = kready_look,
};
