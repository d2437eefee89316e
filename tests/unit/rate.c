/* SPDX-License-Identifier: MIT */
/* rate.c - buckets of tokens: what a rate says, both sides of a burst, a clock that goes on for
 * days, and threads that share one bucket. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include "../../server/rate.h"
#include <cmocka.h>

#define SECOND_NS UINT64_C(1000000000)
#define DAY_NS (86400 * SECOND_NS)
#define YEARS_NS (450 * 365 * DAY_NS)

static struct rate rate_of(const char *text)
{
    struct rate r = {0};

    if (!rate_parse(&r, text))
        fail_msg("%s is a rate", text);
    return r;
}

/* How many tokens the bucket gives at that time; `most` at most. */
static unsigned taken(const struct rate *r, _Atomic uint64_t *full_ns, uint64_t now_ns,
                      unsigned most)
{
    unsigned n = 0;

    while (n < most && rate_take(r, full_ns, now_ns))
        n++;
    return n;
}

static void test_texts(void **state)
{
    static const struct {
        const char *text;
        uint64_t each_ns, burst;
    } good[] = {
        {"1", SECOND_NS, 1}, {"10", SECOND_NS / 10, 10}, {"10/s", SECOND_NS / 10, 10},
        {"10r/s", SECOND_NS / 10, 10}, {"600/m", SECOND_NS / 10, 600},
        {"30r/m:1", 2 * SECOND_NS, 1}, {"1/h", 3600 * SECOND_NS, 1},
        {"10/s:20", SECOND_NS / 10, 20}, {"10:1", SECOND_NS / 10, 1},
        {"1000000/s:1000000", 1000, 1000000}, {"1/h:1000000", 3600 * SECOND_NS, 1000000},
        {"007/s", SECOND_NS / 7, 7}};
    static const char *const bad[] = {
        "", "0", "0/s", "/s", "s", "r/s", "10/", "10/d", "10/ss", "10r", "10rs", "10/s:", "10/s:0",
        "10/s:x", "10/s:5x", "10/s 5", " 10", "-1", "+1", "1.5/s", "1e3", "1000001", "10/s:1000001",
        "99999999999999999999", "10/s:5:5", "10:", "10k/s", "10/S"};

    (void)state;
    for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct rate r = rate_of(good[i].text);

        if (r.each_ns != good[i].each_ns || r.ahead_ns != (good[i].burst - 1) * r.each_ns)
            fail_msg("%s: a token each %lu ns", good[i].text, (unsigned long)r.each_ns);
    }
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rate r;

        if (rate_parse(&r, bad[i]))
            fail_msg("'%s' is no rate", bad[i]);
    }
}

static void test_burst_and_then_one_by_one(void **state)
{
    struct rate r = rate_of("10/s:4");
    _Atomic uint64_t full_ns = 0;
    uint64_t now_ns = 7 * SECOND_NS;

    (void)state;
    assert_int_equal(taken(&r, &full_ns, now_ns, 100), 4);
    assert_false(rate_take(&r, &full_ns, now_ns + r.each_ns - 1));
    assert_true(rate_take(&r, &full_ns, now_ns + r.each_ns));
    assert_false(rate_take(&r, &full_ns, now_ns + r.each_ns));
    assert_int_equal(taken(&r, &full_ns, now_ns + 4 * r.each_ns, 100), 3);
    /* full again: a long rest gives no more than a burst */
    assert_int_equal(taken(&r, &full_ns, now_ns + 8 * r.each_ns, 100), 4);
    assert_int_equal(taken(&r, &full_ns, now_ns + DAY_NS, 100), 4);
}

/* A client that goes on asking is served at the rate; refused requests cost it nothing. */
static void test_refusals_cost_nothing(void **state)
{
    struct rate r = rate_of("100/s:1");
    _Atomic uint64_t full_ns = 0;
    unsigned served = 0;

    (void)state;
    for (uint64_t ms = 0; ms < 1000; ms++)
        served += rate_take(&r, &full_ns, SECOND_NS + ms * 1000000);
    assert_int_equal(served, 100);
}

/* Another thread's clock may be a little behind. */
static void test_clock_that_is_behind(void **state)
{
    struct rate r = rate_of("10/s:2");
    _Atomic uint64_t full_ns = 0;

    (void)state;
    assert_true(rate_take(&r, &full_ns, SECOND_NS));
    assert_true(rate_take(&r, &full_ns, SECOND_NS));
    assert_false(rate_take(&r, &full_ns, SECOND_NS - 5000000));
    assert_false(rate_take(&r, &full_ns, SECOND_NS));
    assert_true(rate_take(&r, &full_ns, SECOND_NS + r.each_ns));
}

static void test_days(void **state)
{
    struct rate r = rate_of("3/s:5");
    _Atomic uint64_t full_ns = 0;
    uint64_t served = 0;

    (void)state;
    for (uint64_t second = 0; second < 30 * 86400; second++)
        served += taken(&r, &full_ns, (second + 1) * SECOND_NS, 1000);
    assert_in_range(served, 30 * 86400 * 3 + 2, 30 * 86400 * 3 + 5);
}

static void test_nothing_overflows(void **state)
{
    struct rate r = rate_of("1/h:1000000");
    _Atomic uint64_t full_ns = 0;

    (void)state;
    assert_int_equal(taken(&r, &full_ns, YEARS_NS, 1000001), 1000000);
    assert_true(full_ns > YEARS_NS);
    assert_false(rate_take(&r, &full_ns, YEARS_NS + 3600 * SECOND_NS - 1));
    assert_true(rate_take(&r, &full_ns, YEARS_NS + 3600 * SECOND_NS));
    r = rate_of("1000000/s:1000000");
    full_ns = 0;
    assert_int_equal(taken(&r, &full_ns, 0, 1000001), 1000000);
    assert_int_equal(taken(&r, &full_ns, SECOND_NS, 1000001), 1000000);
}

static void test_retry(void **state)
{
    static const struct {
        const char *text;
        unsigned seconds;
    } rows[] = {{"1000000/s", 1}, {"2/s", 1}, {"1/s", 1}, {"59/m", 2}, {"60/m", 1}, {"1/m", 60},
                {"7/m", 9}, {"1/h:9", 3600}};

    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rate r = rate_of(rows[i].text);
        _Atomic uint64_t full_ns = 0;

        assert_int_equal(rate_retry_s(&r), rows[i].seconds);
        while (rate_take(&r, &full_ns, DAY_NS))
            ;
        assert_true(rate_take(&r, &full_ns, DAY_NS + rows[i].seconds * SECOND_NS));
    }
}

enum { THREADS = 4, TRIES = 50000 };

struct shared {
    struct rate r;
    _Atomic uint64_t full_ns;
    atomic_uint served;
};

static void *take_many(void *arg)
{
    struct shared *s = arg;

    for (unsigned i = 0; i < TRIES; i++)
        if (rate_take(&s->r, &s->full_ns, SECOND_NS))
            atomic_fetch_add(&s->served, 1);
    return NULL;
}

static void test_threads(void **state)
{
    struct shared s = {.r = rate_of("1/h:70000")};
    pthread_t thread[THREADS];

    (void)state;
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, take_many, &s), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(s.served, 70000);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_burst_and_then_one_by_one),
        cmocka_unit_test(test_refusals_cost_nothing),
        cmocka_unit_test(test_clock_that_is_behind),
        cmocka_unit_test(test_days),
        cmocka_unit_test(test_nothing_overflows),
        cmocka_unit_test(test_retry),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
