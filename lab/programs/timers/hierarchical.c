/* SPDX-License-Identifier: MIT */
/* hierarchical.c - scheme 7: wheels of 64 slots, each slot as long as a turn of the wheel below.
 *
 * A node goes into the finest wheel that reaches its deadline.  When the clock comes to a slot of a
 * coarse wheel, its nodes are dealt out to the finer ones: each moves LEVELS - 1 times at most.  A
 * bit for each slot says whether it holds anything, so that the clock skips empty slots.  A node
 * beyond the reach of the coarsest wheel waits in its last slot and is dealt out again.
 */
#include <stdlib.h>
#include "timers.h"

enum { LEVELS = 4, BITS = 6, SLOTS = 1 << BITS };

struct wheels {
    uint64_t tick; /* the last one that is done */
    uint64_t busy[LEVELS];
    struct node *slot[LEVELS][SLOTS];
};

static void *wheels_open(unsigned most, uint64_t now_ms)
{
    struct wheels *w = calloc(1, sizeof(*w));

    (void)most;
    if (w)
        w->tick = now_ms;
    return w;
}

/* Uses the finest wheel in which the slot is neither the current one nor a turn beyond it. */
static void wheels_start(void *set, struct node *n)
{
    struct wheels *w = set;
    uint64_t at = n->at > w->tick ? n->at : w->tick + 1;
    uint64_t last = w->tick + ((uint64_t)(SLOTS - 1) << BITS * (LEVELS - 1));
    unsigned level = 0, i;

    if (at > last)
        at = last;
    while ((at >> BITS * level) - (w->tick >> BITS * level) >= SLOTS)
        level++;
    i = at >> BITS * level & (SLOTS - 1);
    chain_add(&w->slot[level][i], n);
    w->busy[level] |= (uint64_t)1 << i;
}

static void wheels_stop(void *set, struct node *n)
{
    struct wheels *w = set;
    size_t i = (size_t)((uintptr_t)n->pprev - (uintptr_t)w->slot) / sizeof(w->slot[0][0]);

    chain_del(n);
    if (i < LEVELS * SLOTS && !n->next) /* it was alone */
        w->busy[i / SLOTS] &= ~((uint64_t)1 << i % SLOTS);
}

static void wheels_prolong(void *set, struct node *n, uint64_t at_ms)
{
    wheels_stop(set, n);
    n->at = at_ms;
    wheels_start(set, n);
}

/* The time when the clock comes to the next slot that holds a node. */
static uint64_t soonest(const struct wheels *w)
{
    uint64_t first = UINT64_MAX;

    for (unsigned level = 0; level < LEVELS; level++) {
        uint64_t at = (w->tick >> BITS * level) + 1, bits = w->busy[level];
        unsigned turn = at % SLOTS;

        if (!bits)
            continue;
        bits = bits >> turn | bits << (SLOTS - turn) % SLOTS;
        at = (at + (unsigned)__builtin_ctzll(bits)) << BITS * level;
        if (at < first)
            first = at;
    }
    return first;
}

/* The clock is at the beginning of this slot: due nodes are taken, the others dealt out. */
static void empty(struct wheels *w, unsigned level, struct node **due)
{
    unsigned i = w->tick >> BITS * level & (SLOTS - 1);
    struct node *n = w->slot[level][i], *next;

    w->slot[level][i] = NULL;
    w->busy[level] &= ~((uint64_t)1 << i);
    for (; n; n = next) {
        next = n->next;
        if (n->at <= w->tick)
            due_add(due, n);
        else
            wheels_start(w, n);
    }
}

static struct node *wheels_expire(void *set, uint64_t now_ms)
{
    struct wheels *w = set;
    struct node *due = NULL;

    for (uint64_t at; (at = soonest(w)) <= now_ms;) {
        w->tick = at;
        for (unsigned level = LEVELS; level-- > 0;)
            if (!(at & (((uint64_t)1 << BITS * level) - 1)))
                empty(w, level, &due);
    }
    if (now_ms > w->tick)
        w->tick = now_ms;
    return due;
}

/* Exact for a node in the finest wheel; otherwise the time until nodes are dealt out. */
static uint64_t wheels_next(void *set, uint64_t now_ms)
{
    uint64_t at = soonest(set);

    if (at == UINT64_MAX)
        return at;
    return at > now_ms ? at - now_ms : 0;
}

const struct scheme hierarchical_scheme = {
    .name = "hierarchical", .summary = "7: hierarchical wheels", .most = UINT32_MAX,
    .open = wheels_open, .close = free, .start = wheels_start, .stop = wheels_stop,
    .prolong = wheels_prolong, .expire = wheels_expire, .next = wheels_next,
};
