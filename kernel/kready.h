/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kready.h - a connection of event and softirq, between its socket's callbacks (khook.c) and its
 * pump (kpump.c).
 */
#ifndef KERNEL_KREADY_H
#define KERNEL_KREADY_H
#include <linux/timer.h>
#include "kinside.h"

enum { KREADY_IDLE, KREADY_QUEUED, KREADY_RUNNING, KREADY_AGAIN };

struct kready {
    struct kconn k;
    struct llist_node node; /* in a context's list while QUEUED */
    atomic_t state;
    bool soft;    /* the bottom half pumps it; the owner's */
    bool called;  /* ... in its socket's callback, which has the lock; the owner's */
    bool away;    /* its answer comes from another file system than the site's; the owner's */
    struct work_struct far; /* kfar.c's */
    u64 timer_ms; /* when its timer fires; the owner's */
    struct timer_list timer;
};

/* --- kready.c --------------------------------------------------------------------------------- */

void kready_mark(struct kready *r);  /* asks for a pump; in any context */
void kready_kick(struct kconn *k);   /* the same, as kmodel_ops.kick() */
/* Put a connection that the caller has made QUEUED into the list of a context, or of this
 * processor's. */
void kready_add(struct kcontext *cx, struct kready *r);
void kready_queue(struct kready *r);
void kready_queue_far(struct kready *r); /* kfar.c is to pump it; by the owner */
void kready_time(struct kready *r, u64 now_ms); /* the timer follows the deadline; by the owner */
void kready_close(struct kready *r);            /* the one close path; by the owner, may sleep */

/* --- kpump.c ---------------------------------------------------------------------------------- */

void kready_run(struct kcontext *cx, struct kready *r); /* pump it once; owned until it returns */
/* kready_mark() for the socket's callback, in the bottom half, with the socket's lock: pumps at
 * once, if that is possible. */
void kready_call(struct kready *r);

/* --- kfar.c: where a file system may be waited for -------------------------------------------- */

int kfar_open(struct kserve *s);
void kfar_close(struct kserve *s); /* no connection is left */
void kfar_init(struct kready *r);

/* --- khook.c ---------------------------------------------------------------------------------- */

int khook_accept(struct kserve *s, struct socket *sock); /* kmodel_ops.accept() */

#endif
