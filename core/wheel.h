/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* wheel.h - a hashed timing wheel: add, remove and expire in constant time.
 *
 * Slots of WHEEL_TICK_MS; a time-out further away than one turn (16 s) fires about a turn from
 * now and is added again.  Timers are lazy by use: moving a deadline later costs nothing, the
 * owner re-adds a node that fires early.  Late by less than a tick where wheel_pop() is called in
 * time; never loses a node.
 *
 * Owner: one loop, no locks.  Nodes are the caller's memory.
 */
#ifndef CORE_WHEEL_H
#define CORE_WHEEL_H
#include "env.h"

enum { WHEEL_SLOTS = 256, WHEEL_TICK_MS = 64 };

struct wheel_node {
    struct wheel_node *next, **pprev; /* pprev NULL: not in a wheel */
};

struct wheel {
    uint64_t tick;  /* the next tick to look at */
    uint64_t first; /* from tick to this one, not included, all slots are empty */
    uint32_t count; /* nodes in it */
    struct wheel_node *slot[WHEEL_SLOTS];
};

void wheel_init(struct wheel *w, uint64_t now_ms);

/* Node must not be in a wheel.  at_ms before this tick fires at the next pop. */
void wheel_add(struct wheel *w, struct wheel_node *n, uint64_t at_ms);

/* Harmless for a node that is in no wheel. */
void wheel_del(struct wheel *w, struct wheel_node *n);

/* Next node whose slot has come, already removed, or NULL when the wheel has caught up with now_ms.
 * A node that is far away is returned early: compare its deadline, and add it again at its
 * deadline, which is after now_ms.  Then the same now_ms returns it at most once more, after a
 * sleep longer than a turn. */
struct wheel_node *wheel_pop(struct wheel *w, uint64_t now_ms);

/* Milliseconds until wheel_pop() may have something: exact or early, never late.  -1: it is
 * empty. */
int wheel_next_ms(struct wheel *w, uint64_t now_ms);

#endif
