/* SPDX-License-Identifier: MIT */
/* stats.c - counters: sums over slots, other processes, the law accepted = open + closed + lost,
 * JSON. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../server/inside.h"
#include <cmocka.h>

static void slots_are_summed(void **state)
{
    struct stats *s;

    (void)state;
    assert_int_equal(stats_open(&s, 3), 0);
    for (unsigned i = 0; i < STATS; i++)
        assert_int_equal(stats_sum(s, (enum stat_id)i), 0);
    for (unsigned slot = 0; slot < 3; slot++) {
        stats_use(s, slot);
        stats_add(s, STAT_BYTES, 1u << (8 * slot));
    }
    stats_use(s, 0);
    assert_int_equal(stats_sum(s, STAT_BYTES), 0x010101);
    assert_int_equal(stats_sum(s, STAT_BODY_BYTES), 0);
    stats_close(s);
}

struct counting {
    struct stats *stats;
    unsigned slot; /* 0: shared with others */
};

enum { TIMES = 100000 };

static void *count(void *arg)
{
    const struct counting *c = arg;

    if (c->slot)
        stats_own_begin(c->stats, c->slot);
    for (unsigned i = 0; i < TIMES; i++)
        stats_add(c->stats, STAT_BYTES, 1);
    stats_own_end();
    stats_add(c->stats, STAT_BYTES, 1);
    return NULL;
}

/* Two threads with counters of their own and two without: nothing is lost. */
static void own_ones_and_shared_ones(void **state)
{
    pthread_t thread[4];
    struct counting c[4];
    struct stats *s;

    (void)state;
    assert_int_equal(stats_open(&s, 3), 0);
    for (unsigned i = 0; i < 4; i++) {
        c[i] = (struct counting){s, i < 2 ? i + 1 : 0};
        assert_int_equal(pthread_create(&thread[i], NULL, count, &c[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(stats_sum(s, STAT_BYTES), 4 * (TIMES + 1));
    stats_close(s);
}

static void a_most_is_no_sum(void **state)
{
    static const uint64_t used[] = {4096, 12288, 8192};
    struct stats *s;

    (void)state;
    assert_int_equal(stats_open(&s, 3), 0);
    for (unsigned slot = 0; slot < 3; slot++) {
        stats_use(s, slot);
        stats_most(s, STAT_STACK_MOST, used[slot]);
        stats_most(s, STAT_STACK_MOST, 1);
    }
    assert_int_equal(stats_sum(s, STAT_STACK_MOST), 12288);
    stats_use(s, 0);
    stats_most(s, STAT_STACK_MOST, 16384);
    assert_int_equal(stats_sum(s, STAT_STACK_MOST), 16384);
    stats_close(s);
}

/* A child counts in shared memory and dies with two connections open. */
static void a_dead_process_loses_what_it_had_open(void **state)
{
    struct stats *s;
    int status;

    pid_t pid;

    (void)state;
    assert_int_equal(stats_open(&s, 2), 0);
    stats_add(s, STAT_ACCEPTED, 4);
    stats_add(s, STAT_CLOSED, 1);
    stats_add(s, STAT_CACHE_ENTRIES, 7);
    stats_add(s, STAT_CACHE_BYTES, 70);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        stats_use(s, 1);
        stats_add(s, STAT_ACCEPTED, 5);
        stats_add(s, STAT_CLOSED, 3);
        stats_add(s, STAT_CACHE_ENTRIES, 5);
        stats_own_begin(s, 1);
        stats_add(s, STAT_CACHE_ENTRIES, -(uint64_t)2);
        stats_add(s, STAT_CACHE_BYTES, 30);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(stats_live(s), 5);
    assert_int_equal(stats_sum(s, STAT_CACHE_ENTRIES), 10);
    assert_int_equal(stats_sum(s, STAT_CACHE_BYTES), 100);
    stats_lose(s, 1);
    assert_int_equal(stats_sum(s, STAT_LOST), 2);
    assert_int_equal(stats_live(s), 3);
    assert_int_equal(stats_sum(s, STAT_CACHE_ENTRIES), 7); /* its cache is gone with it */
    assert_int_equal(stats_sum(s, STAT_CACHE_BYTES), 70);
    stats_lose(s, 1); /* again: no connection is left to lose */
    assert_int_equal(stats_sum(s, STAT_LOST), 2);
    assert_int_equal(stats_sum(s, STAT_ACCEPTED),
                     stats_live(s) + stats_sum(s, STAT_CLOSED) + stats_sum(s, STAT_LOST));
    stats_close(s);
}

/* shows E08 */
static void json_names_every_counter(void **state)
{
    char buf[1024], small[16];
    struct stats *s;

    (void)state;
    assert_int_equal(stats_open(&s, 1), 0);
    stats_add(s, STAT_ACCEPTED, 7);
    stats_add(s, STAT_CLOSED, 2);
    stats_add(s, STAT_BODY_BYTES, 1ull << 60);
    stats_most(s, STAT_STACK_MOST, 4096);
    stats_json(s, buf, sizeof(buf));
    assert_string_equal(buf, "{\"open\":5,\"accepted\":7,\"closed\":2,\"lost\":0,"
                             "\"evicted\":0,\"expired\":0,\"refused\":0,"
                             "\"limited_connections\":0,\"unproxied\":0,"
                             "\"limited_requests\":0,\"tls_kernel\":0,"
                             "\"tls_kernel_refused\":0,"
                             "\"answers\":0,\"complete\":0,\"broken\":0,\"cache_hits\":0,"
                             "\"cache_misses\":0,\"cache_fills\":0,\"cache_ends\":0,"
                             "\"cache_wholes\":0,\"cache_variants\":0,\"cache_plain\":0,"
                             "\"uploads\":0,\"upload_bytes\":0,"
                             "\"body_bytes\":1152921504606846976,\"bytes\":0,"
                             "\"stack_most\":4096}");
    memset(small, 'x', sizeof(small));
    stats_json(s, small, sizeof(small) - 1);
    assert_int_equal(small[sizeof(small) - 1], 'x'); /* kept within its bounds */
    assert_non_null(memchr(small, '\0', sizeof(small) - 1));
    stats_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_summed),
        cmocka_unit_test(own_ones_and_shared_ones),
        cmocka_unit_test(a_most_is_no_sum),
        cmocka_unit_test(a_dead_process_loses_what_it_had_open),
        cmocka_unit_test(json_names_every_counter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
