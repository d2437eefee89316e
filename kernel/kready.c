/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kready.c - a connection of event and softirq is marked, put on the list of a processor or into
 * the queue of kfar.c, and closed.
 *
 * One owner at a time, as in NAPI.  IDLE: the callbacks'.  QUEUED: in one list.  RUNNING: being
 * pumped.  AGAIN: something happened during the pump, so it is queued again.  Only the owner pumps,
 * sets the timer and closes, which needs process context; all others only mark.
 */
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <net/sock.h>
#include "kready.h"

/* --- Marking: from callbacks, timers, kick() ------------------------------------------------- */

/* Adds r to the list of a context; if the list was empty, starts its drain. */
void kready_add(struct kcontext *cx, struct kready *r)
{
    struct kserve *s = cx->serve;

    kstat_add(s, KSTAT_WAKES, 1);
    if (!llist_add(&r->node, &cx->ready))
        return;
    if (cx->may_sleep)
        queue_work_on((int)(cx - s->context), s->wq, &cx->work);
    else
        kcompat_bh_queue(&cx->bh);
}

/* The caller has made r QUEUED.  The list is this processor's, whose cache has the packet. */
void kready_queue(struct kready *r)
{
    struct kserve *s = r->k.serve;
    int cpu = get_cpu();

    kready_add(r->soft ? &s->soft[cpu] : &s->context[cpu], r);
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

void kready_kick(struct kconn *k)
{
    kready_mark(container_of(k, struct kready, k));
}

/* --- By the owner ----------------------------------------------------------------------------- */

void kready_queue_far(struct kready *r)
{
    struct kserve *s = r->k.serve;

    kstat_add(s, KSTAT_FAR, 1);
    atomic_inc(&s->far[r->away]);
    atomic_set(&r->state, KREADY_QUEUED);
    queue_work(s->far_wq[r->away], &r->far);
}

/* A deadline that moves away leaves the timer alone: the timer fires early and is set again. */
void kready_time(struct kready *r, u64 now_ms)
{
    u64 at_ms = r->k.conn.deadline_ms;

    r->timer_ms = at_ms;
    mod_timer(&r->timer, jiffies + 1 + msecs_to_jiffies(at_ms > now_ms ? at_ms - now_ms : 0));
}

/* The one close path; called by the owner, in process context. */
void kready_close(struct kready *r)
{
    struct kserve *s = r->k.serve;

    ksock_unhook(s, r->k.sock);
    timer_shutdown_sync(&r->timer);
    kconn_finish(&r->k);
    kfree(r);
    kserve_left(s);
}
