/* SPDX-License-Identifier: MIT */
/* timers.h - many ways to keep time-outs behind one interface, so that one bench and one test
 * serve them all.
 *
 * The schemes are those of Varghese and Lauck's paper on timing wheels, by its numbers, and two
 * lazy ones, which show the cost of a postponed deadline if the set is not changed.  A set belongs
 * to one thread unless its scheme says otherwise; nodes are the caller's memory.  Times are
 * milliseconds of a monotonic clock.
 */
#ifndef LAB_TIMERS_H
#define LAB_TIMERS_H
#include "../../../core/wheel.h"

struct node {
    uint64_t at;      /* the deadline; while in a set, changed by the scheme alone */
    uint64_t armed;   /* lazy schemes: the deadline in the set, `at` or earlier */
    struct node *due; /* expire(): the next one of the chain */
    union {
        struct { /* a list: pprev is what points to it */
            struct node *next, **pprev;
        };
        struct { /* a tree */
            struct node *left, *right;
            uint32_t priority;
        };
        uint32_t index;          /* a heap: its place */
        struct wheel_node wheel; /* core/wheel.h */
    };
};

/* The longest time-out that the simple wheel has slots for; the others take any. */
enum { RANGE_MS = 65536 };

struct scheme {
    const char *name, *summary;
    uint64_t range_ms; /* time-outs stay below it; 0: no bound */
    uint64_t late_ms;  /* how late a node may be found due, if expire() is called in time */
    unsigned most;     /* with more timers some O(n) operation takes too long to wait for */
    /* Makes a set for at most `most` nodes; NULL: no memory. */
    void *(*open)(unsigned most, uint64_t now_ms);
    void (*close)(void *set);
    void (*start)(void *set, struct node *n); /* n->at says when; n is in no set */
    void (*stop)(void *set, struct node *n);  /* n is in this set */
    void (*prolong)(void *set, struct node *n, uint64_t at_ms); /* or shorten */
    /* Removes all nodes that are due by now; returns them as a chain in any order. */
    struct node *(*expire)(void *set, uint64_t now_ms);
    /* How long the caller may sleep before the next expire(): exact or too short, never too long;
     * UINT64_MAX: for ever. */
    uint64_t (*next)(void *set, uint64_t now_ms);
};

#define SCHEMES(X) X(unsorted) X(sorted) X(heap) X(tree) X(wheel) X(hashed_sorted) X(hashed) \
    X(hierarchical) X(lazy_heap) X(rung) X(locked_heap)
#define X(name) extern const struct scheme name##_scheme;
SCHEMES(X)
#undef X

static inline void chain_add(struct node **chain, struct node *n)
{
    n->next = *chain;
    n->pprev = chain;
    if (*chain)
        (*chain)->pprev = &n->next;
    *chain = n;
}

static inline void chain_del(struct node *n)
{
    *n->pprev = n->next;
    if (n->next)
        n->next->pprev = n->pprev;
}

static inline void due_add(struct node **due, struct node *n)
{
    n->due = *due;
    *due = n;
}

/* The random sequence, the same for every scheme. */
struct dice {
    uint64_t state;
};

static inline uint32_t dice_below(struct dice *d, uint32_t n)
{
    d->state ^= d->state << 13;
    d->state ^= d->state >> 7;
    d->state ^= d->state << 17;
    return (uint32_t)(((d->state >> 32) * n) >> 32);
}

/* bench.c: runs rounds of an operation with that many timers; rounds 0: as many as take a while.
 * Prints a JSON object.  Returns 0, or 2: no such operation. */
int bench(const struct scheme *s, const char *operation, unsigned timers, unsigned rounds);

/* check.c: random operations against a model that looks at every timer.  Returns 0, or 1 with a
 * sentence on standard error. */
int check(const struct scheme *s, unsigned operations);
/* Checks that prolonging allocates nothing. */
int check_memory(const struct scheme *s, unsigned prolongations);
/* shared.c: `adders` threads start and prolong, one expires.  Prints a JSON object. */
int shared(const struct scheme *s, unsigned adders, unsigned operations);

#endif
