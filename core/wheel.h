/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* wheel.h - a hashed timing wheel: add, remove and expire in constant time.
 *
 * Slots of WHEEL_TICK_MS; a time-out further away than one turn stays in its slot and is looked at once a
 * turn.  Timers are lazy by use: moving a deadline later costs nothing, the owner re-adds a node that fires
 * early.  Never late by more than a tick after wheel_pop() is called; may be early, never loses a node.
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
    uint32_t count; /* nodes in it */
    struct wheel_node *slot[WHEEL_SLOTS];
};

void wheel_init(struct wheel *w, uint64_t now_ms);

/* Node must not be in a wheel.  at_ms in the past fires at the next pop. */
void wheel_add(struct wheel *w, struct wheel_node *n, uint64_t at_ms);

/* Harmless for a node that is in no wheel. */
void wheel_del(struct wheel *w, struct wheel_node *n);

/* Next node whose slot has come, already removed, or NULL when the wheel has caught up with now_ms.
 * It may be early by whole turns: compare its deadline, and add it again. */
struct wheel_node *wheel_pop(struct wheel *w, uint64_t now_ms);

/* Milliseconds until wheel_pop() may have something: exact or early, never late.  -1: it is empty. */
int wheel_next_ms(const struct wheel *w, uint64_t now_ms);

#endif
