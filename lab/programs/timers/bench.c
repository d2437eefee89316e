/* SPDX-License-Identifier: MIT */
/* bench.c - what an operation costs while many timers are in the set.
 *
 *   start, stop  one of the two, at random deadlines of up to a minute; the other one is not timed
 *   restart      both: a request that ends in time, the commonest life of a timer
 *   update       a timer gets another deadline, nearer or further
 *   expire       sleep until the next one, restart those that are due: a loop without a tick
 *   serve        each timer is a connection that asks once a second and may rest for a minute: its
 *                deadline moves away, then the loop looks at the clock and asks how long to sleep
 *
 * A round is a fixed number of operations, or those of a few seconds of that clock, so that it
 * includes work that a scheme does now and then for many timers.  The caller counts instructions:
 * it runs N rounds and 2N, and the difference is N rounds of nothing but this.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "timers.h"

enum {
    LIFE_MS = 60000,
    UNITS = 256,
    BATCH = 32,
    ENOUGH_NS = 200000000, /* in the measured operations */
    LONGEST_NS = 1000000000, /* with the others: a sorted list stops at once and starts slowly */
    ROUNDS_MAX = 1 << 20
};

struct bench {
    const struct scheme *s;
    void *set;
    struct node *node;
    unsigned count;
    uint64_t now_ms;
    struct dice dice;
    uint64_t spent_ns; /* in the measured operations */
    uint64_t slept_ms; /* uses next()'s result, so that the compiler keeps the call */
    unsigned ahead;    /* expire: timers taken beyond the round's */
    unsigned parts;    /* serve: fraction of a millisecond, in 1/count */
};

static uint64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t deadline(struct bench *b)
{
    return b->now_ms + 1 + dice_below(&b->dice, LIFE_MS);
}

static void start(struct bench *b, struct node *n)
{
    n->at = deadline(b);
    b->s->start(b->set, n);
}

static int later_first(const void *a, const void *b)
{
    uint64_t one = ((const struct node *)a)->at, other = ((const struct node *)b)->at;

    return (one < other) - (one > other);
}

/* Fills the set as it is after a long time: each timer has the rest of a life left. */
static void fill(struct bench *b)
{
    unsigned i;

    for (i = 0; i < b->count; i++) {
        uint64_t one = deadline(b), other = deadline(b);

        b->node[i].at = one < other ? one : other;
    }
    if (b->s->most < UINT32_MAX) /* fills a sorted list without searching: it is not measured */
        qsort(b->node, b->count, sizeof(b->node[0]), later_first);
    for (i = 0; i < b->count; i++)
        b->s->start(b->set, &b->node[i]);
}

/* Like fill(), for connections: they came one after the other, and each has asked lately. */
static void fill_served(struct bench *b)
{
    uint64_t began_ms = b->now_ms;
    struct node *n;

    for (unsigned i = 0; i < b->count; i++) {
        uint64_t now_ms = began_ms + (uint64_t)LIFE_MS * i / b->count;

        if (now_ms - b->now_ms >= 60) {
            b->now_ms = now_ms;
            b->s->expire(b->set, now_ms);
        }
        b->node[i].at = now_ms + LIFE_MS;
        b->s->start(b->set, &b->node[i]);
    }
    for (n = b->node; n < b->node + b->count; n++)
        b->s->prolong(b->set, n, b->now_ms + LIFE_MS - dice_below(&b->dice, 2000));
}

static void restart(struct bench *b, unsigned units)
{
    uint64_t began = clock_ns();

    while (units-- > 0) {
        struct node *n = &b->node[dice_below(&b->dice, b->count)];

        b->s->stop(b->set, n);
        start(b, n);
    }
    b->spent_ns += clock_ns() - began;
}

/* Neighbouring nodes are as random as any others: the work of a scheme depends on deadlines. */
static void in_batches(struct bench *b, unsigned units, bool starts)
{
    uint64_t times[3];
    unsigned i;

    for (unsigned done = 0; done < units; done += BATCH) {
        struct node *n = &b->node[dice_below(&b->dice, b->count - BATCH)];

        times[0] = clock_ns();
        for (i = 0; i < BATCH; i++)
            b->s->stop(b->set, &n[i]);
        times[1] = clock_ns();
        for (i = 0; i < BATCH; i++)
            n[i].at = deadline(b);
        if (starts)
            times[1] = clock_ns();
        for (i = 0; i < BATCH; i++)
            b->s->start(b->set, &n[i]);
        times[2] = clock_ns();
        b->spent_ns += starts ? times[2] - times[1] : times[1] - times[0];
    }
}

static void starts(struct bench *b, unsigned units)
{
    in_batches(b, units, true);
}

static void stops(struct bench *b, unsigned units)
{
    in_batches(b, units, false);
}

static void update(struct bench *b, unsigned units)
{
    uint64_t began = clock_ns();

    while (units-- > 0) {
        struct node *n = &b->node[dice_below(&b->dice, b->count)];

        b->s->prolong(b->set, n, deadline(b));
    }
    b->spent_ns += clock_ns() - began;
}

/* Starts all due timers again; returns how many. */
static unsigned take(struct bench *b)
{
    struct node *n = b->s->expire(b->set, b->now_ms), *next;
    unsigned taken = 0;

    for (; n; n = next, taken++) {
        next = n->due;
        start(b, n);
    }
    return taken;
}

static void expire(struct bench *b, unsigned units)
{
    uint64_t began = clock_ns(), wait_ms;

    while (b->ahead < units) {
        wait_ms = b->s->next(b->set, b->now_ms);
        b->now_ms += wait_ms ? wait_ms : 1;
        b->ahead += take(b);
    }
    b->ahead -= units;
    b->spent_ns += clock_ns() - began;
}

static void serve(struct bench *b, unsigned units)
{
    uint64_t began = clock_ns();

    while (units-- > 0) {
        struct node *n = &b->node[dice_below(&b->dice, b->count)];

        b->s->prolong(b->set, n, b->now_ms + LIFE_MS);
        for (b->parts += 1000; b->parts >= b->count; b->parts -= b->count)
            b->now_ms++;
        take(b);
        b->slept_ms += b->s->next(b->set, b->now_ms);
    }
    b->spent_ns += clock_ns() - began;
}

static const struct operation {
    const char *name;
    void (*fill)(struct bench *b);
    void (*round)(struct bench *b, unsigned units);
    unsigned timers_a_unit; /* a round has at least one unit for this many timers; 0: any */
} operations[] = {
    {"start", fill, starts, 0},   {"stop", fill, stops, 0},
    {"restart", fill, restart, 0}, {"update", fill, update, 0},
    {"expire", fill, expire, 8},  /* four seconds */
    {"serve", fill_served, serve, 16}, /* a slot of core/wheel.h */
};

/* ns per operation, over that many rounds; rounds 0: until ENOUGH_NS or LONGEST_NS. */
static double measured(struct bench *b, const struct operation *o, unsigned units, unsigned rounds)
{
    uint64_t began = clock_ns();
    unsigned done = 0;

    do
        o->round(b, units);
    while (++done < (rounds ? rounds : ROUNDS_MAX) &&
           (rounds || (b->spent_ns < ENOUGH_NS && clock_ns() - began < LONGEST_NS)));
    return (double)b->spent_ns / done / units;
}

int bench(const struct scheme *s, const char *operation, unsigned timers, unsigned rounds)
{
    struct bench b = {.s = s, .count = timers, .now_ms = 1000000, .dice = {88172645463325252}};
    const struct operation *o = operations;
    const struct operation *end = o + sizeof(operations) / sizeof(operations[0]);
    unsigned units;

    while (o < end && strcmp(o->name, operation) != 0)
        o++;
    if (o == end)
        return 2;
    units = o->timers_a_unit ? timers / o->timers_a_unit : 0;
    if (units < UNITS)
        units = UNITS;
    b.node = calloc(timers, sizeof(b.node[0]));
    b.set = s->open(timers, b.now_ms);
    if (b.node && b.set) {
        o->fill(&b);
        printf("{\"ns\": %.2f, \"units\": %u}\n", measured(&b, o, units, rounds), units);
        s->close(b.set);
    }
    free(b.node);
    if (!b.set)
        fprintf(stderr, "timers: no memory for %u timers\n", timers);
    return b.set ? 0 : 1;
}
