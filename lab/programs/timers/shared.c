/* SPDX-License-Identifier: MIT */
/* shared.c - one set for many threads: some start and prolong timers, one expires them.
 *
 * Only for a scheme that locks.  A node belongs to the thread that starts it, passes through the
 * set to the thread that expires it, and returns to its owner when that thread counts it.  A node
 * found in an impossible place makes the run fail.  The cost is a thread's time per operation.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "timers.h"

enum { NODES_EACH = 256, ADDERS_MAX = 64, LIFE_TICKS = 8, TICK_NS = 100000 };

struct place {
    struct node node;
    atomic_uint started, expired;
};

struct shared {
    const struct scheme *s;
    void *set;
    unsigned adders, operations;
    struct place *place; /* NODES_EACH for each adder */
    atomic_uint next_adder, running;
    _Atomic uint64_t now, spent_ns;
    bool broken;
};

static uint64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* A start is counted before the set's lock is taken, so the thread that expires it sees it. */
static bool stands(struct place *p)
{
    return atomic_load(&p->started) != atomic_load(&p->expired);
}

static void *add(void *arg)
{
    struct shared *h = arg;
    unsigned number = atomic_fetch_add(&h->next_adder, 1);
    struct place *mine = &h->place[number * NODES_EACH];
    struct dice dice = {88172645463325252 + number};
    uint64_t began = clock_ns();

    for (unsigned i = 0; i < h->operations; i++) {
        struct place *p = &mine[dice_below(&dice, NODES_EACH)];
        uint64_t at = atomic_load(&h->now) + 1 + dice_below(&dice, LIFE_TICKS);

        if (stands(p)) {
            h->s->prolong(h->set, &p->node, at); /* harmless if it expires meanwhile */
        } else {
            p->node.at = at;
            atomic_fetch_add(&p->started, 1);
            h->s->start(h->set, &p->node);
        }
    }
    atomic_fetch_add(&h->spent_ns, clock_ns() - began);
    atomic_fetch_sub(&h->running, 1);
    return NULL;
}

static void consume(struct shared *h)
{
    struct node *n, *next;

    for (n = h->s->expire(h->set, atomic_load(&h->now)); n; n = next) {
        struct place *p = (struct place *)((char *)n - offsetof(struct place, node));

        next = n->due;
        h->broken |= !stands(p) || n->at > atomic_load(&h->now);
        atomic_fetch_add(&p->expired, 1); /* from here its thread may start it again */
    }
    atomic_fetch_add(&h->now, 1);
}

/* Runs the threads until all have done their part, and expires until the set is empty. */
static int run(struct shared *h)
{
    const struct timespec tick = {.tv_nsec = TICK_NS};
    pthread_t thread[ADDERS_MAX];
    unsigned i, begun = 0, expired = 0;

    atomic_store(&h->running, h->adders);
    while (begun < h->adders && pthread_create(&thread[begun], NULL, add, h) == 0)
        begun++;
    atomic_fetch_sub(&h->running, h->adders - begun);
    while (atomic_load(&h->running) > 0) {
        consume(h);
        nanosleep(&tick, NULL);
    }
    for (i = 0; i < begun; i++)
        pthread_join(thread[i], NULL);
    for (i = 0; i <= LIFE_TICKS + 1; i++)
        consume(h);
    for (i = 0; i < h->adders * NODES_EACH; i++) {
        h->broken |= stands(&h->place[i]);
        expired += atomic_load(&h->place[i].expired);
    }
    if (h->broken || begun < h->adders || !expired ||
        h->s->next(h->set, atomic_load(&h->now)) != UINT64_MAX)
        return 1;
    printf("{\"ns\": %.2f, \"units\": %u, \"expired\": %u}\n",
           (double)atomic_load(&h->spent_ns) / h->adders / h->operations,
           h->adders * h->operations, expired);
    return 0;
}

int shared(const struct scheme *s, unsigned adders, unsigned operations)
{
    struct shared h = {.s = s, .adders = adders, .operations = operations};
    int err = 1;

    if (adders < 1 || adders > ADDERS_MAX)
        return 2;
    h.place = calloc(adders, NODES_EACH * sizeof(h.place[0]));
    h.set = h.place ? s->open(adders * NODES_EACH, 0) : NULL;
    if (h.set) {
        err = run(&h);
        s->close(h.set);
    }
    if (err)
        fprintf(stderr, "timers: %s: %s\n", s->name,
                h.set ? "a timer was lost, or came twice" : "no memory");
    free(h.place);
    return err;
}
