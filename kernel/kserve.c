/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kserve.c - event and softirq: sockets call back, and a connection that can move is put on a list
 * of the processor it happened on; the work item that drains the list runs the same pump as every
 * engine.
 *
 * The idea: readiness without a wait.  The callbacks (khook.c) run where the packet was handled, in
 * the bottom half.  They only mark and queue (kready.c); one work item for each processor pumps
 * whatever gathered meanwhile (kpump.c), so that many requests share one wake-up.  Nothing here
 * waits for the network: an idle connection costs its memory and a timer, but no thread and no
 * place in a work queue.  With softirq the bottom half drains a list of its own.
 *
 * The cost of a request: one turn of the list, a receive and a send.
 */
#include <linux/cpumask.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include "kready.h"

/* Connections pumped in one turn, before other work on this processor has its turn; packets wait
 * behind a bottom half, so its turns are shorter. */
enum { TURN_MAX = 64, SOFT_TURN_MAX = 16 };

/* True: there may be more. */
static bool context_turn(struct kcontext *cx)
{
    unsigned n, most = cx->may_sleep ? TURN_MAX : SOFT_TURN_MAX;

    kstat_add(cx->serve, KSTAT_TURNS, 1);
    for (n = 0; n < most; n++) {
        struct llist_node *first = cx->rest;

        if (!first)
            first = llist_reverse_order(llist_del_all(&cx->ready)); /* oldest first */
        if (!first)
            return false;
        cx->rest = first->next;
        kready_run(cx, llist_entry(first, struct kready, node));
        if (cx->may_sleep)
            cond_resched();
    }
    return true;
}

static void context_work(struct work_struct *work)
{
    struct kcontext *cx = container_of(work, struct kcontext, work);

    if (context_turn(cx))
        queue_work_on((int)(cx - cx->serve->context), cx->serve->wq, work);
}

static void context_bh(struct kcompat_bh *bh)
{
    struct kcontext *cx = container_of(bh, struct kcontext, bh);

    if (context_turn(cx))
        kcompat_bh_queue(bh);
}

/* --- Contexts: one for each processor --------------------------------------------------------- */

static void contexts_close(struct kcontext *contexts)
{
    unsigned cpu;

    if (!contexts)
        return;
    for_each_possible_cpu(cpu) {
        if (!contexts[cpu].may_sleep && contexts[cpu].serve)
            kcompat_bh_end(&contexts[cpu].bh);
        kcontext_close(&contexts[cpu]);
    }
    kvfree(contexts);
}

static int contexts_open(struct kcontext **contexts, struct kserve *s, bool may_sleep)
{
    struct kcontext *all = kvcalloc(nr_cpu_ids, sizeof(*all), GFP_KERNEL);
    unsigned cpu;
    int err;

    if (!all)
        return -ENOMEM;
    for_each_possible_cpu(cpu) {
        init_llist_head(&all[cpu].ready);
        INIT_WORK(&all[cpu].work, context_work);
        kcompat_bh_init(&all[cpu].bh, context_bh);
        err = kcontext_open(&all[cpu], s, may_sleep, KREACH_MEMORY);
        if (err) {
            contexts_close(all);
            return err;
        }
        kcontext_remember(&all[cpu]);
    }
    *contexts = all;
    return 0;
}

/* No connection is left, so the lists are empty.  But a context's work may still be queued, or be
 * about to be queued.  It is queued in four places, and none of them can do so after
 * drain_workqueue():
 *
 *   context_work() itself, after a full turn, even if the list is empty by then.  flush_workqueue()
 *     would not wait for that, because it comes after the flush.  drain_workqueue() flushes until
 *     the queue stays empty, and meanwhile accepts only work that is queued by such work.
 *   ready_hand(), in a bottom half.  A turn that is running may find the connection in the list and
 *     close it before the bottom half calls queue_work_on().  kcompat_bh_end() waits until the
 *     bottom half has returned, so it comes before the drain.
 *   ready_rest(), in a work item of kfar.c, which hands the connection to a context with the same
 *     gap.
 *     kfar_close() waits until that work item has returned, so it comes before the drain as well.
 *   kready_queue(), for kready_mark() and khook_accept().  A callback of the socket does this
 *     under sk_callback_lock, which ksock_unhook() takes for writing; a timer does it in its
 *     function, for which timer_shutdown_sync() waits.  Both have returned when kready_close()
 *     counts the connection as gone.  listener_accept(), which accepts connections and asks others
 *     to leave, ended in klisteners_close(), and stop() has returned in the thread that runs this,
 *     or that started it.
 *
 * A bottom half queues itself as well, after a full turn of its own.  kcompat_bh_end() prevents it:
 * tasklet_kill() holds the bit that tasklet_schedule() needs, and cancel_work_sync() holds the one
 * that queue_work() needs. */
static void ready_close(struct kserve *s)
{
    contexts_close(s->soft);
    kfar_close(s);
    if (s->wq)
        drain_workqueue(s->wq);
    contexts_close(s->context);
}

static int ready_open(struct kserve *s)
{
    int err = contexts_open(&s->context, s, true) ?: kfar_open(s);

    if (!err && s->opt.model == KMODEL_SOFTIRQ) {
        err = contexts_open(&s->soft, s, false);
        err = err ?: kbufpool_reserve(s);
    }
    return err; /* what was opened is closed with the server */
}

const struct kmodel_ops kready_ops = {
    .open = ready_open,
    .close = ready_close,
    .accept = khook_accept,
    .kick = kready_kick,
};
