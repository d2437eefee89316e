/* SPDX-License-Identifier: MIT */
/* site_races.c - files that the kernel's site keeps in memory are never older than the disk was
 * when the answer was requested: files that change all the time while several threads ask.  Runs in
 * a guest, as root (ksite.py).  An argument chooses among the tests by their names.
 */
#include "cached.h"

/* --- Races ------------------------------------------------------------------------------------ */

/* The file holds a number that only grows.  The number written is published before anyone asks, so
 * a smaller answer is stale. */
struct counter {
    atomic_uint written;
    bool in_place;
};

static void step(const struct tree *t, void *arg, unsigned round)
{
    struct counter *c = arg;
    char text[16];

    snprintf(text, sizeof(text), "%08u", round + 1);
    if (c->in_place) {
        overwrite(t, "number.txt", text);
    } else {
        make_file(t, "number.next", text);
        assert_int_equal(renameat(t->root, "number.next", t->root, "number.txt"), 0);
    }
    atomic_store(&c->written, round + 1);
    if (round % 4 == 3)
        rest_ms(40); /* long enough that it is kept */
}

static void *ask_for_it(void *arg)
{
    struct changer *c = arg;
    const struct counter *counter = c->arg;
    struct http_ask a = plain("/number.txt");
    uintptr_t hits = 0;

    while (!atomic_load(&c->over)) {
        unsigned least = atomic_load(&counter->written), number;
        struct source *s;
        char *body;
        size_t len;

        if (site_twin_try(c->t->site, &a, &s) == 0)
            hits++;
        else
            assert_int_equal(site_find(c->t->site, &a, true, &s), 0);
        body = body_of(c->t, s, &len);
        assert_int_equal(len, 8);
        number = (unsigned)strtoul(body, NULL, 10);
        free(body);
        if (number < least)
            fail_msg("%u after %u was written", number, least);
    }
    return (void *)hits;
}

static void race(struct tree *t, bool in_place)
{
    struct counter counter = {.in_place = in_place};
    struct changer c = {.once = step, .t = t, .arg = &counter};
    pthread_t thread[3];
    uintptr_t hits = 0;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES});
    make_file(t, "number.txt", "00000000");
    changer_begin(&c);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask_for_it, &c), 0);
    rest_ms(4000);
    changer_end(&c);
    for (unsigned i = 0; i < 3; i++) {
        void *n;

        pthread_join(thread[i], &n);
        hits += (uintptr_t)n;
    }
    print_message("%u writes, %lu hits, %llu of them found stale\n", atomic_load(&counter.written),
                  (unsigned long)hits, (unsigned long long)counts(t).stale);
    assert_true(hits > 1000);
    assert_true(counts(t).stale > 10);
}

/* shows K36 */
static void a_file_replaced_again_and_again(void **state)
{
    race(*state, false);
}

static void a_file_written_again_and_again(void **state)
{
    race(*state, true);
}

/* --- Slow searches ---------------------------------------------------------------------------- */

/* A search result ages by up to this much, at random, before it is kept: longer than the ticks by
 * which times distinguish changes. */
enum { LATE_US = 40000, FILES = 8, SECONDS = 3, OLD = 1600000000 };

struct asker {
    const struct tree *t;
    void (*path)(char path[16], unsigned number);
    atomic_bool over;
    pthread_t thread[4];
};

static void *ask_all(void *arg)
{
    struct asker *asker = arg;
    struct source *s;
    char path[16];

    for (unsigned i = 0; !atomic_load(&asker->over); i++) {
        struct http_ask a;

        asker->path(path, i % FILES);
        a = coded(path);
        if (site_find(asker->t->site, &a, true, &s) == 0)
            site_release(asker->t->site, s);
    }
    return NULL;
}

static void asker_begin(struct asker *asker)
{
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&asker->thread[i], NULL, ask_all, asker), 0);
}

static void asker_end(struct asker *asker)
{
    atomic_store(&asker->over, true);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(asker->thread[i], NULL);
}

/* How many of the files are answered from memory, in that coding. */
static unsigned found_kept(const struct asker *asker, enum coding coding)
{
    struct source *s;
    unsigned n = 0;
    char path[16];

    for (unsigned i = 0; i < FILES; i++) {
        struct http_ask a;

        asker->path(path, i);
        a = coded(path);
        if (site_twin_try(asker->t->site, &a, &s) == 0) {
            n += s->coding == coding;
            site_release(asker->t->site, s);
        }
    }
    return n;
}

/* Ask all the time, while `spoil` makes answers in that coding wrong and right again: no answer
 * that was found earlier and is wrong now is kept. */
static void spoil_again_and_again(struct asker *asker, enum coding coding,
                                  void (*spoil)(const struct tree *t, bool wrong))
{
    int64_t end = now_ms() + SECONDS * 1000;
    unsigned rounds = 0, hits = 0, wrong = 0;

    asker_begin(asker);
    for (; now_ms() < end; rounds++) {
        spoil(asker->t, true);
        for (unsigned i = 0; i < 10; i++) {
            wrong += found_kept(asker, coding);
            rest_ms(10);
        }
        spoil(asker->t, false);
        rest_ms(rounds * 37 % 300);
        hits += found_kept(asker, coding);
    }
    asker_end(asker);
    print_message("spoilt %u times, %u kept before that\n", rounds, hits);
    assert_int_equal(wrong, 0);
    assert_true(hits > 0);
}

static void lock_above(const struct tree *t, bool wrong)
{
    assert_int_equal(fchmodat(t->root, "a", wrong ? 0700 : 0755, 0), 0);
}

static void below_two_folders(char path[16], unsigned number)
{
    snprintf(path, 16, "/a/b/%u.txt", number);
}

/* An answer found just before a folder above is locked, and kept just after, is not given to other
 * requests that come then. */
static void a_folder_locked_again_and_again(void **state)
{
    struct tree *t = *state;
    struct asker asker = {.t = t, .path = below_two_folders};
    char path[16];

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES, .late_us = LATE_US});
    make_folder(t, "a");
    make_folder(t, "a/b");
    for (unsigned i = 0; i < FILES; i++) {
        below_two_folders(path, i);
        make_file(t, path + 1, "old");
    }
    spoil_again_and_again(&asker, CODING_IDENTITY, lock_above);
}

static void with_a_sibling(char path[16], unsigned number)
{
    snprintf(path, 16, "/%u.txt", number);
}

static void make_newer(const struct tree *t, bool wrong)
{
    char path[16];

    for (unsigned i = 0; i < FILES; i++) {
        with_a_sibling(path, i);
        set_mtime(t, path + 1, wrong ? OLD + 2 : OLD, 0);
    }
}

/* A sibling that was chosen just before its original became newer is not kept for it. */
static void originals_made_newer_again_and_again(void **state)
{
    struct tree *t = *state;
    struct asker asker = {.t = t, .path = with_a_sibling};
    char path[24];

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES, .late_us = LATE_US});
    for (unsigned i = 0; i < FILES; i++) {
        with_a_sibling(path, i);
        make_file(t, path + 1, "plain");
        snprintf(path, sizeof(path), "/%u.txt.gz", i);
        make_file(t, path + 1, "gzip");
        set_mtime(t, path + 1, OLD + 1, 0);
    }
    make_newer(t, false);
    spoil_again_and_again(&asker, CODING_GZIP, make_newer);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(a_file_replaced_again_and_again),
        TREE_TEST(a_file_written_again_and_again),
        TREE_TEST(a_folder_locked_again_and_again),
        TREE_TEST(originals_made_newer_again_and_again),
    };

    alarm(300);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
