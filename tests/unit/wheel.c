/* SPDX-License-Identifier: MIT */
/* wheel.c - the timing wheel against a list that is searched from end to end: nothing is lost,
 * nothing fires late, and a loop that sleeps for wheel_next_ms() misses nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "../../core/wheel.h"

enum { NODES = 300, OPERATIONS = 1000000, TURN_MS = WHEEL_SLOTS * WHEEL_TICK_MS };

/* The reference: one deadline each, or none. */
struct timer {
    struct wheel_node node;
    uint64_t deadline_ms;
    bool set;
};

static struct timer timers[NODES];
static struct wheel wheel;
static uint64_t now_ms;
static uint64_t random_state = 88172645463325252;

static unsigned random_below(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 16) % n;
}

static void add(struct timer *t, uint64_t deadline_ms)
{
    t->deadline_ms = deadline_ms;
    t->set = true;
    wheel_add(&wheel, &t->node, deadline_ms);
}

/* Expire as the wheel's users do: early ones are added again.  Returns how many fired. */
static unsigned expire(void)
{
    struct wheel_node *n;
    struct timer *t;
    unsigned fired = 0, met = 0;

    while ((n = wheel_pop(&wheel, now_ms))) {
        t = (struct timer *)n;
        assert_true(t->set);
        assert_null(n->pprev);
        assert_true(++met <= 2 * NODES);
        if (t->deadline_ms > now_ms) {
            wheel_add(&wheel, n, t->deadline_ms);
            continue;
        }
        t->set = false;
        fired++;
    }
    return fired;
}

/* After expire(): every timer overdue by a tick has fired, and the count is right. */
static void check(void)
{
    unsigned i, count = 0;

    for (i = 0; i < NODES; i++) {
        count += timers[i].set;
        if (timers[i].set)
            assert_true(timers[i].deadline_ms + WHEEL_TICK_MS > now_ms);
        assert_int_equal(timers[i].set, timers[i].node.pprev != NULL);
    }
    assert_int_equal(count, wheel.count);
}

/* No timer fires before wheel_next_ms(), and none that is due fires later. */
static void check_next(void)
{
    int next = wheel_next_ms(&wheel, now_ms);
    uint64_t first = UINT64_MAX;
    unsigned i;

    for (i = 0; i < NODES; i++)
        if (timers[i].set && timers[i].deadline_ms < first)
            first = timers[i].deadline_ms;
    if (first == UINT64_MAX) {
        assert_int_equal(next, -1);
        return;
    }
    assert_true(next >= 0);
    assert_true(now_ms + (unsigned)next < first + WHEEL_TICK_MS || next == 0);
    if (next > 1) {
        struct wheel copy = wheel; /* a pop that finds nothing changes no node */

        assert_null(wheel_pop(&copy, now_ms + (unsigned)next - 1));
    }
}

static uint64_t random_deadline(void)
{
    switch (random_below(8)) {
    case 0:
        return now_ms - random_below(100000);
    case 1:
        return now_ms + random_below(20 * TURN_MS);
    case 2: /* whole ticks and turns, where an error by one would show */
        return now_ms - now_ms % WHEEL_TICK_MS + random_below(3) * TURN_MS +
               random_below(3) * WHEEL_TICK_MS;
    default:
        return now_ms + random_below(TURN_MS + TURN_MS / 4);
    }
}

/* shows S05 */
static void test_random(void **state)
{
    unsigned i, turn;

    (void)state;
    memset(timers, 0, sizeof(timers));
    now_ms = 1000 * TURN_MS - 12345;
    memset(&wheel, 0xa5, sizeof(wheel)); /* whatever was there before */
    wheel_init(&wheel, now_ms);
    for (turn = 0; turn < OPERATIONS; turn++) {
        struct timer *t = &timers[random_below(NODES)];

        switch (random_below(16)) {
        case 0:
            now_ms += random_below(3 * WHEEL_TICK_MS);
            break;
        case 1:
            if (random_below(200) == 0)
                now_ms += random_below(5 * TURN_MS); /* after a long sleep */
            break;
        case 2:
            wheel_del(&wheel, &t->node); /* harmless when the timer is not set */
            t->set = false;
            break;
        case 3:
            t->deadline_ms = t->set ? t->deadline_ms + random_below(TURN_MS) : 0; /* lazily moved */
            break;
        default:
            if (!t->set)
                add(t, random_deadline());
        }
        if (turn % 8 == 0) {
            expire();
            check();
            check_next();
        }
    }
    now_ms += 21 * TURN_MS;
    for (i = 0; i < 40 && wheel.count > 0; i++, now_ms += TURN_MS)
        expire();
    assert_int_equal(wheel.count, 0);
    assert_int_equal(wheel_next_ms(&wheel, now_ms), -1);
}

/* A timer fires at its time if that is the beginning of a tick, otherwise at the next tick. */
/* shows K24 */
static void test_exact(void **state)
{
    struct timer *t = &timers[0];

    (void)state;
    now_ms = 1000 * WHEEL_TICK_MS;
    wheel_init(&wheel, now_ms);
    assert_int_equal(wheel_next_ms(&wheel, now_ms), -1);
    assert_null(wheel_pop(&wheel, now_ms));
    add(t, now_ms + 2 * WHEEL_TICK_MS);
    assert_int_equal(wheel_next_ms(&wheel, now_ms), 2 * WHEEL_TICK_MS);
    now_ms += 2 * WHEEL_TICK_MS - 1;
    assert_int_equal(wheel_next_ms(&wheel, now_ms), 1);
    assert_int_equal(expire(), 0);
    now_ms++;
    assert_int_equal(wheel_next_ms(&wheel, now_ms), 0);
    assert_int_equal(expire(), 1);
    add(t, now_ms + 1);
    assert_int_equal(wheel_next_ms(&wheel, now_ms), WHEEL_TICK_MS);
    now_ms += WHEEL_TICK_MS;
    assert_int_equal(expire(), 1);
    add(t, 0);
    assert_int_equal(wheel_next_ms(&wheel, now_ms), 0);
    assert_int_equal(expire(), 1);
    add(t, now_ms + TURN_MS - WHEEL_TICK_MS); /* as far as one turn of the wheel reaches */
    assert_int_equal(wheel_next_ms(&wheel, now_ms), TURN_MS - WHEEL_TICK_MS);
    wheel_del(&wheel, &t->node);
    wheel_del(&wheel, &t->node);
    add(t, now_ms + TURN_MS); /* further: found early, and then again */
    assert_int_equal(wheel_next_ms(&wheel, now_ms), TURN_MS - WHEEL_TICK_MS);
    now_ms += TURN_MS - WHEEL_TICK_MS;
    assert_int_equal(expire(), 0);
    assert_int_equal(wheel.count, 1);
    now_ms += WHEEL_TICK_MS;
    assert_int_equal(expire(), 1);
    add(t, UINT64_MAX); /* never */
    assert_int_equal(wheel_next_ms(&wheel, now_ms), TURN_MS - WHEEL_TICK_MS);
    assert_null(wheel_pop(&wheel, now_ms - 1000)); /* a clock that was set back */
    assert_int_equal(expire(), 0);
    wheel_del(&wheel, &t->node);
    assert_int_equal(wheel.count, 0);
}

/* A clock set back, and one set back further than an int of milliseconds can hold. */
static void test_clock_back(void **state)
{
    struct timer *t = &timers[0];

    (void)state;
    now_ms = (uint64_t)1 << 40;
    wheel_init(&wheel, now_ms);
    add(t, now_ms + 10 * WHEEL_TICK_MS);
    assert_null(wheel_pop(&wheel, now_ms - TURN_MS));
    assert_int_equal(wheel_next_ms(&wheel, now_ms - TURN_MS), TURN_MS + 10 * WHEEL_TICK_MS);
    assert_int_equal(wheel_next_ms(&wheel, 0), INT_MAX);
    now_ms += 10 * WHEEL_TICK_MS;
    assert_int_equal(expire(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_clock_back),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
