/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* wheel.c - the hashed timing wheel of wheel.h.
 *
 * A node waits in the slot of the first tick that begins at or after its time, so rounding never
 * makes it early.  A node further away than a turn is put into the last slot before the one being
 * looked at: it fires early, and its owner, which compares deadlines anyway, adds it again.  So a
 * slot never holds a node that must stay when the slot is emptied, and the loop `pop, compare, add
 * again` ends.
 */
#include "wheel.h"

void wheel_init(struct wheel *w, uint64_t now_ms)
{
    memset(w, 0, sizeof(*w));
    w->tick = w->first = now_ms / WHEEL_TICK_MS;
}

void wheel_add(struct wheel *w, struct wheel_node *n, uint64_t at_ms)
{
    uint64_t tick = at_ms / WHEEL_TICK_MS + (at_ms % WHEEL_TICK_MS != 0);
    struct wheel_node **slot;

    if (tick < w->tick)
        tick = w->tick;
    if (tick - w->tick >= WHEEL_SLOTS)
        tick = w->tick + WHEEL_SLOTS - 1;
    if (tick < w->first)
        w->first = tick;
    slot = &w->slot[tick % WHEEL_SLOTS];
    n->next = *slot;
    n->pprev = slot;
    if (*slot)
        (*slot)->pprev = &n->next;
    *slot = n;
    w->count++;
}

void wheel_del(struct wheel *w, struct wheel_node *n)
{
    if (!n->pprev)
        return;
    *n->pprev = n->next;
    if (n->next)
        n->next->pprev = n->pprev;
    n->next = NULL;
    n->pprev = NULL;
    w->count--;
}

struct wheel_node *wheel_pop(struct wheel *w, uint64_t now_ms)
{
    uint64_t now = now_ms / WHEEL_TICK_MS;
    struct wheel_node *n;

    if (w->tick > now)
        return NULL;
    if (w->count == 0)
        w->tick = now;
    else if (now - w->tick >= WHEEL_SLOTS) /* long asleep: all is due, in one turn */
        w->tick = now - WHEEL_SLOTS + 1;
    for (;; w->tick++) {
        n = w->slot[w->tick % WHEEL_SLOTS];
        if (n) {
            wheel_del(w, n);
            return n;
        }
        if (w->tick == now) /* not past it: nodes added for the past go here */
            return NULL;
    }
}

int wheel_next_ms(struct wheel *w, uint64_t now_ms)
{
    uint64_t at_ms;

    if (w->count == 0)
        return -1;
    if (w->first < w->tick)
        w->first = w->tick;
    while (!w->slot[w->first % WHEEL_SLOTS])
        w->first++;
    at_ms = w->first * WHEEL_TICK_MS;
    if (at_ms <= now_ms)
        return 0;
    return at_ms - now_ms < INT_MAX ? (int)(at_ms - now_ms) : INT_MAX;
}
