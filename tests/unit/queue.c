/* SPDX-License-Identifier: MIT */
/* queue.c - unit tests of server/queue.c, each for both kinds, and for rings in turn: nothing is
 * lost, doubled or out of order, a full queue makes the producer wait, the end drains, and a
 * waiting thread costs nothing.  An argument says how many items the stress test passes instead of
 * ITEMS.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "../../server/queue.h"

enum { CONSUMERS_MAX = 5, ITEMS = 30000 };

static unsigned items = ITEMS;
static bool in_turn;

static struct queue *open_queue(bool lockfree, unsigned consumers, unsigned length)
{
    struct queue_plan plan = {lockfree, consumers, length, in_turn};
    struct queue *q = NULL;

    assert_int_equal(queue_open(&q, &plan), 0);
    assert_non_null(q);
    return q;
}

static uint64_t time_ms(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void nap(unsigned ms)
{
    struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&ts, NULL);
}

/* --- One thread ------------------------------------------------------------------------------- */

static void in_order(bool lockfree)
{
    struct queue *q = open_queue(lockfree, 1, 8);
    intptr_t item[QUEUE_TAKE_MAX];

    for (intptr_t round = 0; round < 100; round++) { /* past the ring's end many times */
        for (intptr_t i = 0; i < 5; i++)
            assert_int_equal(queue_put(q, round * 5 + i, 0), 0);
        assert_int_equal(queue_take(q, 0, item, 1), 1);
        assert_int_equal(item[0], round * 5);
        assert_int_equal(queue_take(q, 0, item, 3), 3);
        assert_int_equal(item[2], round * 5 + 3);
        assert_int_equal(queue_take(q, 0, item, QUEUE_TAKE_MAX), 1);
        assert_int_equal(item[0], round * 5 + 4);
    }
    queue_end(q);
    assert_int_equal(queue_take(q, 0, item, 1), 0);
    queue_close(q);
}

/* A queue holds exactly its length, a power of two or not. */
static void holds_its_length(bool lockfree)
{
    static const unsigned lengths[] = {1, 2, 3, 5, 8, 100};
    intptr_t item[1];

    for (unsigned k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
        struct queue *q = open_queue(lockfree, 1, lengths[k]);

        for (unsigned i = 0; i < lengths[k]; i++)
            assert_int_equal(queue_put(q, (intptr_t)i, 0), 0);
        assert_int_equal(queue_put(q, -1, 0), -EAGAIN);
        assert_int_equal(queue_take(q, 0, item, 1), 1);
        assert_int_equal(item[0], 0);
        assert_int_equal(queue_put(q, -2, 0), 0);
        assert_int_equal(queue_put(q, -3, 0), -EAGAIN);
        queue_close(q);
    }
}

/* shows D08, N04, S16 */
static void full_waits_its_time(bool lockfree)
{
    struct queue *q = open_queue(lockfree, 1, 2);
    uint64_t began_ms, cpu_ms;

    assert_int_equal(queue_put(q, 1, 0) | queue_put(q, 2, 0), 0);
    began_ms = time_ms(CLOCK_REALTIME);
    cpu_ms = time_ms(CLOCK_PROCESS_CPUTIME_ID);
    assert_int_equal(queue_put(q, 3, 300), -EAGAIN);
    assert_true(time_ms(CLOCK_REALTIME) - began_ms >= 299);
    assert_true(time_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu_ms < 150); /* asleep in that time */
    queue_close(q);
}

/* An item as wide as a pointer is returned unchanged. */
static void items_are_pointers(bool lockfree)
{
    struct queue *q = open_queue(lockfree, 1, 4);
    intptr_t item[2];

    assert_int_equal(queue_put(q, (intptr_t)q, 0) | queue_put(q, INTPTR_MIN, 0), 0);
    assert_int_equal(queue_take(q, 0, item, 2), 2);
    assert_ptr_equal((void *)item[0], q);
    assert_true(item[1] == INTPTR_MIN);
    queue_close(q);
}

/* Items put before the end are still taken after it. */
/* shows S15 */
static void end_drains(bool lockfree)
{
    struct queue *q = open_queue(lockfree, 3, 30);
    intptr_t item[QUEUE_TAKE_MAX];
    unsigned sum = 0, got = 0, n;

    for (unsigned i = 1; i <= 30; i++)
        assert_int_equal(queue_put(q, (intptr_t)i, 0), 0);
    queue_end(q);
    for (unsigned consumer = 0; consumer < 3; consumer++)
        while ((n = queue_take(q, consumer, item, 4)) > 0)
            for (unsigned i = 0; i < n; i++, got++)
                sum += (unsigned)item[i];
    assert_int_equal(got, 30);
    assert_int_equal(sum, 30 * 31 / 2);
    queue_close(q);
}

/* Consumers that never came get nothing. */
static void fewer_consumers(bool lockfree)
{
    struct queue *q = open_queue(lockfree, 4, 40);
    intptr_t item[QUEUE_TAKE_MAX];
    unsigned got = 0, n;

    queue_consumers(q, 2);
    for (intptr_t i = 0; i < 20; i++)
        assert_int_equal(queue_put(q, i, 0), 0);
    queue_end(q);
    for (unsigned consumer = 0; consumer < 2; consumer++)
        while ((n = queue_take(q, consumer, item, QUEUE_TAKE_MAX)) > 0)
            got += n;
    assert_int_equal(got, 20);
    queue_close(q);
}

/* --- Several threads -------------------------------------------------------------------------- */

struct consumer {
    struct queue *queue;
    pthread_t thread;
    unsigned number, most;  /* taken at once */
    unsigned pause;         /* takes before it naps; 0: never */
    atomic_uint got;
    bool disorder;
    unsigned char *seen;    /* one for each item, shared: every item has one taker */
};

static void *consume(void *arg)
{
    struct consumer *c = arg;
    intptr_t item[QUEUE_TAKE_MAX], last = -1;
    unsigned n, takes = 0;

    while ((n = queue_take(c->queue, c->number, item, c->most)) > 0) {
        for (unsigned i = 0; i < n; i++) {
            c->disorder |= item[i] <= last;
            last = item[i];
            if (c->seen)
                c->seen[item[i]]++;
        }
        atomic_fetch_add(&c->got, n);
        if (c->pause && ++takes % c->pause == 0)
            nap(1);
    }
    return NULL;
}

static void consumers_start(struct consumer c[], unsigned count, struct queue *q)
{
    for (unsigned i = 0; i < count; i++) {
        c[i].queue = q;
        c[i].number = i;
        c[i].most = c[i].most ? c[i].most : 1;
        assert_int_equal(pthread_create(&c[i].thread, NULL, consume, &c[i]), 0);
    }
}

static void consumers_join(struct consumer c[], unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        pthread_join(c[i].thread, NULL);
}

/* Short queues, so that both sides sleep and wake all the time; one consumer takes one item at a
 * time, others take many, and one is slow. */
static void stress(bool lockfree, unsigned count, unsigned length, int wait_ms)
{
    struct consumer c[CONSUMERS_MAX] = {{.most = 1}, {.most = QUEUE_TAKE_MAX}, {.most = 3},
                                        {.most = 2, .pause = 500}, {.most = 1}};
    struct queue *q = open_queue(lockfree, count, length);
    unsigned char *seen = calloc(items, 1);
    unsigned got = 0;

    assert_non_null(seen);
    for (unsigned i = 0; i < count; i++)
        c[i].seen = seen;
    consumers_start(c, count, q);
    for (intptr_t i = 0; i < items; i++)
        while (queue_put(q, i, wait_ms) != 0)
            assert_true(wait_ms >= 0);
    queue_end(q);
    consumers_join(c, count);
    for (unsigned i = 0; i < count; i++) {
        assert_false(c[i].disorder);
        got += atomic_load(&c[i].got);
    }
    assert_int_equal(got, items);
    for (unsigned i = 0; i < items; i++)
        assert_int_equal(seen[i], 1);
    free(seen);
    queue_close(q);
}

/* shows D32, S15, S17, S21 */
static void survives_stress(bool lockfree)
{
    stress(lockfree, 1, 1, -1);
    stress(lockfree, 2, 2, -1);
    stress(lockfree, CONSUMERS_MAX, CONSUMERS_MAX, -1);
    stress(lockfree, CONSUMERS_MAX, 64, -1);
    stress(lockfree, 3, 3, 1); /* waits that time out, again and again */
    stress(lockfree, 3, 8, 0);
}

/* A full queue's producer is woken by the first take. */
static void *take_one_late(void *arg)
{
    struct consumer *c = arg;
    intptr_t item[1];

    nap(100);
    atomic_fetch_add(&c->got, queue_take(c->queue, 0, item, 1));
    return NULL;
}

static void taking_wakes_the_producer(bool lockfree)
{
    struct queue *q = open_queue(lockfree, 1, 1);
    struct consumer c = {.queue = q};

    assert_int_equal(queue_put(q, 1, 0), 0);
    assert_int_equal(pthread_create(&c.thread, NULL, take_one_late, &c), 0);
    assert_int_equal(queue_put(q, 2, -1), 0); /* would otherwise block for ever */
    pthread_join(c.thread, NULL);
    assert_int_equal(atomic_load(&c.got), 1);
    queue_close(q);
}

/* Idle consumers, and a producer that puts an item now and then. */
/* shows D09, S17 */
static void parked_cost_nothing(bool lockfree)
{
    struct consumer c[CONSUMERS_MAX] = {{0}};
    struct queue *q = open_queue(lockfree, CONSUMERS_MAX, 16);
    uint64_t cpu_ms;
    unsigned got = 0;

    consumers_start(c, CONSUMERS_MAX, q);
    nap(50);
    cpu_ms = time_ms(CLOCK_PROCESS_CPUTIME_ID);
    for (intptr_t i = 0; i < 10; i++) {
        nap(50);
        assert_int_equal(queue_put(q, i, -1), 0);
    }
    assert_true(time_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu_ms < 250);
    queue_end(q);
    consumers_join(c, CONSUMERS_MAX);
    for (unsigned i = 0; i < CONSUMERS_MAX; i++)
        got += atomic_load(&c[i].got);
    assert_int_equal(got, 10);
    queue_close(q);
}

/* The least loaded consumer is served first: when all are idle, they take turns. */
/* shows S17 */
static void test_rings_take_turns(void **state)
{
    struct queue *q = open_queue(true, 4, 40);
    intptr_t item[QUEUE_TAKE_MAX];

    (void)state;
    for (intptr_t i = 0; i < 8; i++)
        assert_int_equal(queue_put(q, i, 0), 0);
    for (unsigned consumer = 0; consumer < 4; consumer++)
        assert_int_equal(queue_take(q, consumer, item, QUEUE_TAKE_MAX), 2);
    for (intptr_t i = 0; i < 4; i++)
        assert_int_equal(queue_put(q, i, 0), 0);
    assert_int_equal(queue_take(q, 2, item, QUEUE_TAKE_MAX), 1);
    assert_int_equal(queue_put(q, 9, 0), 0); /* into the only empty ring */
    assert_int_equal(queue_take(q, 2, item, QUEUE_TAKE_MAX), 1);
    assert_int_equal(item[0], 9);
    queue_close(q);
}

/* In turn, the next ring gets an item, even if it has more than others; a full one is passed over,
 * and keeps no turn. */
/* shows S39 */
static void test_rings_in_turn(void **state)
{
    struct queue_plan plan = {true, 3, 6, true};
    struct queue *q;
    intptr_t item[QUEUE_TAKE_MAX];

    (void)state;
    assert_int_equal(queue_open(&q, &plan), 0);
    for (intptr_t i = 0; i < 4; i++)
        assert_int_equal(queue_put(q, i, 0), 0);
    assert_int_equal(queue_take(q, 2, item, 1), 1);
    assert_int_equal(item[0], 2);
    assert_int_equal(queue_put(q, 4, 0), 0); /* into ring 1, which has one; ring 2 has none */
    assert_int_equal(queue_take(q, 1, item, QUEUE_TAKE_MAX), 2);
    assert_int_equal(item[1], 4);
    for (intptr_t i = 5; i < 8; i++) /* 2; 1, because 0 is full; 2 */
        assert_int_equal(queue_put(q, i, 0), 0);
    assert_int_equal(queue_take(q, 2, item, QUEUE_TAKE_MAX), 2);
    assert_int_equal(item[0] * 10 + item[1], 57);
    for (intptr_t i = 8; i < 11; i++) /* 1, 2, 2 */
        assert_int_equal(queue_put(q, i, 0), 0);
    assert_int_equal(queue_put(q, 11, 0), -EAGAIN); /* all are full */
    assert_int_equal(queue_take(q, 0, item, QUEUE_TAKE_MAX), 2);
    assert_int_equal(item[0] * 10 + item[1], 3);
    queue_close(q);
}

/* Any number of full rings is passed over at once. */
static void test_the_only_ring_with_room(void **state)
{
    struct queue_plan plan = {true, 5, 5, true};
    struct queue *q;
    intptr_t item[1];

    (void)state;
    assert_int_equal(queue_open(&q, &plan), 0);
    for (intptr_t i = 0; i < 5; i++)
        assert_int_equal(queue_put(q, i, 0), 0);
    assert_int_equal(queue_take(q, 4, item, 1), 1);
    assert_int_equal(queue_put(q, 5, 0), 0);
    assert_int_equal(queue_put(q, 6, 0), -EAGAIN);
    assert_int_equal(queue_take(q, 4, item, 1), 1);
    assert_int_equal(item[0], 5);
    queue_close(q);
}

#define EACH(name) \
    static void test_##name(void **state) \
    { \
        (void)state; \
        name(false); \
        name(true); \
        in_turn = true; \
        name(true); \
        in_turn = false; \
    }
EACH(in_order)
EACH(holds_its_length)
EACH(full_waits_its_time)
EACH(items_are_pointers)
EACH(end_drains)
EACH(fewer_consumers)
EACH(survives_stress)
EACH(taking_wakes_the_producer)
EACH(parked_cost_nothing)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_holds_its_length),
        cmocka_unit_test(test_full_waits_its_time),
        cmocka_unit_test(test_items_are_pointers),
        cmocka_unit_test(test_end_drains),
        cmocka_unit_test(test_fewer_consumers),
        cmocka_unit_test(test_survives_stress),
        cmocka_unit_test(test_taking_wakes_the_producer),
        cmocka_unit_test(test_parked_cost_nothing),
        cmocka_unit_test(test_rings_take_turns),
        cmocka_unit_test(test_rings_in_turn),
        cmocka_unit_test(test_the_only_ring_with_room),
    };

    if (argc > 1)
        items = (unsigned)strtoul(argv[1], NULL, 10);
    alarm(300); /* a test that hangs fails */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
