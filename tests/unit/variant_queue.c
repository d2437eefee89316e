/* SPDX-License-Identifier: MIT */
/* variant_queue.c - many entries to be compressed: which are queued, how many, and how they
 * end.
 */
#include "variant.h"

enum { MANY = CACHE_VARIANTS_MAX + 8 };

static char many_names[MANY][12];

static void make_many(struct tree *t)
{
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(many_names[i], sizeof(many_names[i]), "/%03u.txt", i);
        make_text(t, many_names[i] + 1, 'x', SIZE);
    }
    pause_ms(200); /* no file is young any more */
}

static void ask_many(struct tree *t, int times)
{
    for (int turn = 0; turn < times; turn++)
        for (unsigned i = 0; i < MANY; i++)
            assert_int_not_equal(first_byte(t, many_names[i], wants), 0);
}

/* The first entries fill the queue, however slow this machine is; the others find it full. */
static void ask_until_full(struct tree *t)
{
    for (unsigned turn = 0; turn < 3 || atomic_load(&cache->variants.count) < CACHE_VARIANTS_MAX;
         turn++) {
        assert_true(turn < 1000);
        for (unsigned i = 0; i <= CACHE_VARIANTS_MAX; i++)
            assert_int_not_equal(first_byte(t, many_names[i], wants), 0);
    }
    ask_many(t, 3);
}

static void a_crawl_queues_nothing(void **state)
{
    struct tree *t = *state;

    make_many(t);
    open_cache(t, PLENTY);
    atomic_store(&held, true);
    ask_many(t, 2); /* all are kept, and none was requested since */
    assert_int_equal(atomic_load(&cache->variants.count), 0);
    assert_int_equal(cache->variants.state, VARIANTS_IDLE);
    assert_int_equal(atomic_load(&writes), 0);
    close_cache();
}

static void the_queue_has_an_end(void **state)
{
    struct tree *t = *state;

    make_many(t);
    open_cache(t, PLENTY);
    atomic_store(&held, true);
    ask_until_held(t, many_names[0]);
    ask_until_full(t);
    assert_int_equal(atomic_load(&cache->variants.count), CACHE_VARIANTS_MAX);
    let_go(1);
    let_end(STAT_CACHE_VARIANTS, CACHE_VARIANTS_MAX + 1);
    assert_int_equal(atomic_load(&cache->variants.count), 0);
    for (unsigned i = 0; i < MANY; i++)
        ask_until(t, many_names[i], 'X'); /* entries that found it full are asked for again */
    assert_int_equal(atomic_load(&writes), MANY);
    close_cache();
}

/* Entries that leave the table leave the queue, first, last and in the middle; the rest is made. */
static void the_queue_forgets(void **state)
{
    static const unsigned gone[] = {1, 2, 9, CACHE_VARIANTS_MAX, MANY - 1};
    struct tree *t = *state;

    make_many(t);
    open_cache(t, PLENTY);
    atomic_store(&held, true);
    ask_until_held(t, many_names[0]);
    ask_until_full(t);
    assert_int_equal(atomic_load(&cache->variants.count), CACHE_VARIANTS_MAX);
    for (unsigned i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
        assert_int_equal(unlinkat(t->root, many_names[gone[i]] + 1, 0), 0);
    cache_look(reader, now_ms);
    assert_int_equal(atomic_load(&cache->variants.count), CACHE_VARIANTS_MAX - 4);
    let_go(1);
    let_end(STAT_CACHE_VARIANTS, CACHE_VARIANTS_MAX - 3);
    assert_int_equal(atomic_load(&writes), CACHE_VARIANTS_MAX - 3);
    close_cache();
}

/* The end waits for the variant being made, and makes no other. */
static void ends_with_a_full_queue(void **state)
{
    struct tree *t = *state;

    make_many(t);
    open_cache(t, PLENTY);
    atomic_store(&held, true);
    ask_until_held(t, many_names[0]);
    ask_until_full(t);
    cache->variants.ending = true; /* before the thread goes on: otherwise it might make others */
    let_go(1);
    close_cache();
    assert_int_equal(atomic_load(&writes), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        VARIANT_TEST(a_crawl_queues_nothing),
        VARIANT_TEST(the_queue_has_an_end),
        VARIANT_TEST(the_queue_forgets),
        VARIANT_TEST(ends_with_a_full_queue),
    };
    const struct CMUnitTest none[] = {cmocka_unit_test(built_without_libraries)};

    if (!has_library())
        return cmocka_run_group_tests(none, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
