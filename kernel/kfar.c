/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kfar.c - where connections of event and softirq are pumped while they may have to wait for a file
 * system.
 *
 * A context serves all connections of a processor, so nothing in it may wait for a disk, for a
 * server far away or for a process that never answers (FUSE).  A connection that needs more than
 * memory is handed to one of two queues.  A work item there owns it, pumps it once, and hands it to
 * a context again.  The queues are unbound, so a long listing does not occupy a processor's context
 * either. Each queue has KFAR_PLACES.
 *
 * There are two queues so that file systems mounted below the folder cannot take the places of the
 * folder itself: a search begins in the first queue, crosses no mount there, and moves to the
 * second when it meets one.
 *
 * The cost: two changes of context, and a scratch buffer for as long as the work item runs.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include "../core/conn_inside.h"
#include "kready.h"

/* Connections that are pumped at once in each queue, with a worker and its stack for each.  These
 * are enough requests for a disk to choose from.  Connections that make listings work instead of
 * waiting: more of them would keep all other threads off the processors (128 were seen to stall RCU
 * in a slow guest). */
enum { KFAR_PLACES = 32 };

/* Connections that wait for another mount may hold a quarter of the memory for buffers: each keeps
 * an input queue and a send queue as well as its slot (KSLOTS_WAIT_SHARE). */
enum { BUFFERS_WAIT_SHARE = 4 };

static struct kcontext *context_new(struct kserve *s, enum kreach reach)
{
    struct kcontext *cx = kzalloc(sizeof(*cx), GFP_KERNEL);

    if (cx && kcontext_open(cx, s, true, reach)) {
        kfree(cx);
        return NULL;
    }
    if (cx)
        cx->brief = true;
    return cx;
}

static void far_run(struct kserve *s, struct kready *r)
{
    struct kcontext *cx;

    /* A connection that must end asks no more of a file system.  Its client may have left while it
     * waited here. */
    if (READ_ONCE(s->stop) == KSTOP_NOW || ksock_gone(&r->k)) {
        kready_close(r);
        return;
    }
    cx = context_new(s, r->away ? KREACH_AWAY : KREACH_HOME);
    if (!cx) {
        kstat_add(s, KSTAT_NO_BUFFER, 1);
        kready_close(r);
        return;
    }
    kready_run(cx, r);
    kcontext_close(cx);
    kfree(cx);
}

/* s outlives this work item, because kfar_close() waits for it.  After far_run() r may be freed, or
 * be in the other queue already. */
static void far_work(struct work_struct *work)
{
    struct kready *r = container_of(work, struct kready, far);
    struct kserve *s = r->k.serve;
    bool away = r->away;

    far_run(s, r);
    atomic_dec(&s->far[away]);
}

void kfar_init(struct kready *r)
{
    r->away = false;
    INIT_WORK(&r->far, far_work);
}

int kfar_open(struct kserve *s)
{
    const long each = PAGE_ALIGN(sizeof(struct outq)) + PAGE_ALIGN(sizeof(struct inq));

    if (!s->world.find)
        return 0;
    s->far_most = (unsigned)max_t(long, 1, min_t(long, s->conn_max / KSLOTS_WAIT_SHARE,
                                                 s->buffer_bytes_max / BUFFERS_WAIT_SHARE / each));
    s->far_wq[0] = alloc_workqueue("%s_home", WQ_UNBOUND, KFAR_PLACES, s->name);
    s->far_wq[1] = alloc_workqueue("%s_away", WQ_UNBOUND, KFAR_PLACES, s->name);
    return s->far_wq[0] && s->far_wq[1] ? 0 : -ENOMEM;
}

void kfar_close(struct kserve *s)
{
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(s->far_wq); i++)
        if (s->far_wq[i])
            destroy_workqueue(s->far_wq[i]);
}
