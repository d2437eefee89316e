/* SPDX-License-Identifier: MIT */
/* check.c - a scheme against a model that looks at every timer: no timer is lost, or expires
 * twice, too early or too late, and a caller that sleeps as long as next() says misses none.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include "timers.h"

enum { NODES = 500 };

struct model {
    const struct scheme *s;
    void *set;
    uint64_t now_ms;
    struct dice dice;
    struct node node[NODES];
    uint64_t expected[NODES]; /* when it is due, or 0: it is in no set */
};

static bool wrong(const struct model *m, const char *what)
{
    fprintf(stderr, "timers: %s, at %llu ms: %s\n", m->s->name, (unsigned long long)m->now_ms,
            what);
    return true;
}

/* Short, long, beyond every wheel, at turns of wheels, or past already. */
static uint64_t random_deadline(struct model *m)
{
    uint64_t range_ms = m->s->range_ms ? m->s->range_ms : (uint64_t)1 << 26;

    switch (dice_below(&m->dice, 8)) {
    case 0:
        return m->now_ms - dice_below(&m->dice, 1000);
    case 1:
        return m->now_ms + dice_below(&m->dice, (uint32_t)range_ms);
    case 2:
        return (m->now_ms | 4095) + dice_below(&m->dice, 3);
    case 3:
        return (m->now_ms | 63) + dice_below(&m->dice, 3);
    case 4:
        return m->now_ms + dice_below(&m->dice, 64);
    default:
        return m->now_ms + dice_below(&m->dice, 20000);
    }
}

/* A deadline that has passed already expires with the next tick. */
static void expect(struct model *m, unsigned i, uint64_t at_ms)
{
    m->expected[i] = at_ms > m->now_ms ? at_ms : m->now_ms + 1;
}

static void operate(struct model *m)
{
    unsigned i = dice_below(&m->dice, NODES);
    struct node *n = &m->node[i];
    uint64_t at_ms = random_deadline(m);

    if (m->expected[i] == 0) {
        n->at = at_ms;
        m->s->start(m->set, n);
        expect(m, i, at_ms);
    } else if (dice_below(&m->dice, 2)) {
        m->s->prolong(m->set, n, at_ms);
        expect(m, i, at_ms);
    } else {
        m->s->stop(m->set, n);
        m->expected[i] = 0;
    }
}

static uint64_t soonest(const struct model *m)
{
    uint64_t first = UINT64_MAX;

    for (unsigned i = 0; i < NODES; i++)
        if (m->expected[i] && m->expected[i] < first)
            first = m->expected[i];
    return first;
}

static bool expire_wrong(struct model *m)
{
    for (struct node *n = m->s->expire(m->set, m->now_ms); n; n = n->due) {
        uint64_t *expected = &m->expected[n - m->node];

        if (*expected == 0)
            return wrong(m, "a timer expires that was stopped, or has expired");
        if (n->at > m->now_ms)
            return wrong(m, "a timer expires too early");
        *expected = 0;
    }
    uint64_t first = soonest(m);

    if (first <= m->now_ms && m->now_ms - first >= m->s->late_ms)
        return wrong(m, "a timer is overdue");
    return false;
}

static bool next_wrong(struct model *m)
{
    uint64_t wait_ms = m->s->next(m->set, m->now_ms), first = soonest(m);

    if (first == UINT64_MAX)
        return wait_ms != UINT64_MAX && wrong(m, "waits for something where there is nothing");
    if (wait_ms == UINT64_MAX || m->now_ms + wait_ms > first + m->s->late_ms)
        return wrong(m, "would sleep too long");
    return false;
}

static bool tick_wrong(struct model *m)
{
    uint64_t wait_ms;

    switch (dice_below(&m->dice, 64)) {
    case 0: /* long asleep */
        m->now_ms += dice_below(&m->dice, 1 << 24);
        break;
    case 1: case 2: case 3: /* as long as next() says */
        wait_ms = m->s->next(m->set, m->now_ms);
        m->now_ms += wait_ms == UINT64_MAX ? 1 : wait_ms;
        break;
    default:
        m->now_ms += dice_below(&m->dice, 100);
    }
    if (expire_wrong(m) || next_wrong(m))
        return true;
    return m->s->next(m->set, m->now_ms) == 0 && wrong(m, "would not sleep, though nothing is due");
}

/* Sleeps as long as next() says until the end: all timers expire, in a bounded number of turns. */
static bool end_wrong(struct model *m)
{
    for (unsigned turns = 0; soonest(m) != UINT64_MAX; turns++) {
        uint64_t wait_ms = m->s->next(m->set, m->now_ms);

        if (wait_ms == UINT64_MAX || turns > 1000000)
            return wrong(m, "timers stand that never come");
        m->now_ms += wait_ms ? wait_ms : 1;
        if (expire_wrong(m) || next_wrong(m))
            return true;
    }
    return false;
}

static int with_model(const struct scheme *s, int (*what)(struct model *m, unsigned n), unsigned n)
{
    struct model *m = calloc(1, sizeof(*m));
    int err = 1;

    if (m) {
        m->s = s;
        m->now_ms = 1000000;
        m->dice.state = 88172645463325252;
        m->set = s->open(NODES, m->now_ms);
        if (m->set) {
            err = what(m, n);
            s->close(m->set);
        }
        free(m);
    }
    return err;
}

static int random_operations(struct model *m, unsigned operations)
{
    while (operations-- > 0) {
        operate(m);
        if (dice_below(&m->dice, 8) == 0 && (next_wrong(m) || tick_wrong(m)))
            return 1;
    }
    return end_wrong(m);
}

int check(const struct scheme *s, unsigned operations)
{
    return with_model(s, random_operations, operations);
}

/* The deadlines of connections that are never idle for long, in a loop that looks at the clock. */
static int prolongations(struct model *m, unsigned count)
{
    size_t before;

    for (unsigned i = 0; i < NODES; i++) {
        m->node[i].at = m->now_ms + 60000;
        m->s->start(m->set, &m->node[i]);
        m->expected[i] = m->node[i].at;
    }
    before = mallinfo2().uordblks;
    for (unsigned i = 0; i < count; i++) {
        m->s->prolong(m->set, &m->node[i % NODES], m->now_ms + 60000);
        expect(m, i % NODES, m->now_ms + 60000);
        m->now_ms += 3;
        if (m->s->expire(m->set, m->now_ms))
            return wrong(m, "a timer expires that was prolonged");
    }
    if (mallinfo2().uordblks != before)
        return wrong(m, "prolonging takes memory");
    return end_wrong(m);
}

int check_memory(const struct scheme *s, unsigned count)
{
    return with_model(s, prolongations, count);
}
