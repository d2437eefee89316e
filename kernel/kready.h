/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kready.h - a connection of event and softirq, between its socket's callbacks (kready.c) and those
 * who pump it (kserve.c).
 */
#ifndef KERNEL_KREADY_H
#define KERNEL_KREADY_H
#include <linux/timer.h>
#include "kinside.h"

enum { KREADY_IDLE, KREADY_QUEUED, KREADY_RUNNING, KREADY_AGAIN };

struct kready {
    struct kconn k;
    struct llist_node node; /* of a lane's list, QUEUED */
    atomic_t state;
    bool soft;    /* the bottom half pumps it; the owner's */
    u64 timer_ms; /* when its timer fires; the owner's */
    struct timer_list timer;
};

void kready_mark(struct kready *r);  /* it is to be looked at; any context */
void kready_queue(struct kready *r); /* whoever made it QUEUED puts it into a list */

int  kready_welcome(struct kserve *s, struct socket *sock);
void kready_look(struct kconn *k);
void kready_time(struct kready *r, u64 now_ms); /* the timer follows the deadline; the owner */
void kready_close(struct kready *r);            /* the one close path; the owner, may sleep */

#endif
