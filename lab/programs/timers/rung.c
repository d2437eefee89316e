/* SPDX-License-Identifier: MIT */
/* rung.c - the server's own: core/wheel.h, used as server/session.c uses it.
 *
 * A lazy hashed wheel with coarse slots: a postponed deadline is only recorded, and a node that
 * fires early is added again.  A timer is late by less than a slot.
 */
#include <stdlib.h>
#include "timers.h"

static void *rung_open(unsigned most, uint64_t now_ms)
{
    struct wheel *w = malloc(sizeof(*w));

    (void)most;
    if (w)
        wheel_init(w, now_ms);
    return w;
}

static void rung_start(void *set, struct node *n)
{
    n->armed = n->at;
    wheel_add(set, &n->wheel, n->at);
}

static void rung_stop(void *set, struct node *n)
{
    wheel_del(set, &n->wheel);
}

static void rung_prolong(void *set, struct node *n, uint64_t at_ms)
{
    n->at = at_ms;
    if (at_ms >= n->armed)
        return;
    wheel_del(set, &n->wheel);
    rung_start(set, n);
}

static struct node *rung_expire(void *set, uint64_t now_ms)
{
    struct node *due = NULL, *n;
    struct wheel_node *w;

    while ((w = wheel_pop(set, now_ms))) {
        n = (struct node *)((char *)w - offsetof(struct node, wheel));
        if (n->at > now_ms)
            rung_start(set, n);
        else
            due_add(&due, n);
    }
    return due;
}

static uint64_t rung_next(void *set, uint64_t now_ms)
{
    int wait_ms = wheel_next_ms(set, now_ms);

    return wait_ms < 0 ? UINT64_MAX : (uint64_t)wait_ms;
}

const struct scheme rung_scheme = {
    .name = "rung", .summary = "6, lazy: core/wheel.h", .late_ms = WHEEL_TICK_MS - 1,
    .most = UINT32_MAX, .open = rung_open, .close = free, .start = rung_start, .stop = rung_stop,
    .prolong = rung_prolong, .expire = rung_expire, .next = rung_next,
};
