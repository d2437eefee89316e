/* SPDX-License-Identifier: MIT */
/* wheels.c - schemes 4 to 6: an array of lists, one for each millisecond, used as a ring.
 *
 * The simple wheel has a slot for every possible time-out.  The hashed ones have fewer slots than
 * that, so a slot holds timers of several turns.  A sorted slot is read up to the first timer that
 * stays, and START searches.  With unsorted slots START takes constant time, and a turn of the
 * wheel meets each timer once.
 */
#include <stdlib.h>
#include "timers.h"

enum { HASHED_SLOTS = 4096 };

struct slots {
    uint64_t tick; /* the last one that is done */
    unsigned count, slots;
    struct node *slot[];
};

static void *slots_open(unsigned slots, uint64_t now_ms)
{
    struct slots *w = calloc(1, sizeof(*w) + slots * sizeof(w->slot[0]));

    if (w) {
        w->tick = now_ms;
        w->slots = slots;
    }
    return w;
}

static void *wheel_open(unsigned most, uint64_t now_ms)
{
    (void)most;
    return slots_open(RANGE_MS, now_ms);
}

static void *hashed_open(unsigned most, uint64_t now_ms)
{
    (void)most;
    return slots_open(HASHED_SLOTS, now_ms);
}

/* A timer that is due already expires with the next tick. */
static struct node **slot_of(struct slots *w, uint64_t at_ms)
{
    return &w->slot[(at_ms > w->tick ? at_ms : w->tick + 1) % w->slots];
}

static void slots_start(void *set, struct node *n)
{
    struct slots *w = set;

    chain_add(slot_of(w, n->at), n);
    w->count++;
}

static void slots_start_sorted(void *set, struct node *n)
{
    struct slots *w = set;
    struct node **at = slot_of(w, n->at);

    while (*at && (*at)->at < n->at)
        at = &(*at)->next;
    chain_add(at, n);
    w->count++;
}

static void slots_stop(void *set, struct node *n)
{
    chain_del(n);
    ((struct slots *)set)->count--;
}

static void slots_prolong(void *set, struct node *n, uint64_t at_ms)
{
    slots_stop(set, n);
    n->at = at_ms;
    slots_start(set, n);
}

static void slots_prolong_sorted(void *set, struct node *n, uint64_t at_ms)
{
    slots_stop(set, n);
    n->at = at_ms;
    slots_start_sorted(set, n);
}

/* The first tick to look at, so that each slot is looked at once at most. */
static uint64_t first_tick(const struct slots *w, uint64_t now_ms)
{
    if (w->count == 0)
        return now_ms + 1;
    return now_ms > w->tick + w->slots ? now_ms - w->slots + 1 : w->tick + 1;
}

static struct node *slots_expire(void *set, uint64_t now_ms)
{
    struct slots *w = set;
    struct node *due = NULL, *n, *next;

    for (uint64_t tick = first_tick(w, now_ms); tick <= now_ms; tick++) {
        for (n = w->slot[tick % w->slots]; n; n = next) {
            next = n->next;
            if (n->at <= now_ms) {
                slots_stop(w, n);
                due_add(&due, n);
            }
        }
    }
    w->tick = now_ms;
    return due;
}

static struct node *slots_expire_sorted(void *set, uint64_t now_ms)
{
    struct slots *w = set;
    struct node *due = NULL, *n;

    for (uint64_t tick = first_tick(w, now_ms); tick <= now_ms; tick++) {
        while ((n = w->slot[tick % w->slots]) && n->at <= now_ms) {
            slots_stop(w, n);
            due_add(&due, n);
        }
    }
    w->tick = now_ms;
    return due;
}

/* The first slot that is not empty: exact in the simple wheel, maybe turns early in the others. */
static uint64_t slots_next(void *set, uint64_t now_ms)
{
    const struct slots *w = set;
    uint64_t tick = w->tick + 1;

    if (w->count == 0)
        return UINT64_MAX;
    while (!w->slot[tick % w->slots])
        tick++;
    return tick > now_ms ? tick - now_ms : 0;
}

const struct scheme wheel_scheme = {
    .name = "wheel", .summary = "4: simple wheel", .range_ms = RANGE_MS, .most = UINT32_MAX,
    .open = wheel_open, .close = free, .start = slots_start, .stop = slots_stop,
    .prolong = slots_prolong, .expire = slots_expire, .next = slots_next,
};

const struct scheme hashed_sorted_scheme = {
    .name = "hashed_sorted", .summary = "5: hashed wheel, sorted slots", .most = UINT32_MAX,
    .open = hashed_open, .close = free, .start = slots_start_sorted, .stop = slots_stop,
    .prolong = slots_prolong_sorted, .expire = slots_expire_sorted, .next = slots_next,
};

const struct scheme hashed_scheme = {
    .name = "hashed", .summary = "6: hashed wheel, unsorted slots", .most = UINT32_MAX,
    .open = hashed_open, .close = free, .start = slots_start, .stop = slots_stop,
    .prolong = slots_prolong, .expire = slots_expire, .next = slots_next,
};
