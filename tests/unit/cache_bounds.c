/* SPDX-License-Identifier: MIT */
/* cache_bounds.c - how much is kept: an entry for each order of preferences, within bytes and
 * watches; and by several threads at once.
 */
#include <sys/resource.h>
#include "kept.h"

static bool is_kept_now(struct tree *t, const char *path)
{
    struct source *s;
    bool kept;

    assert_int_equal(ask_as(path, identity, &s), 0);
    kept = is_kept(s);
    cache_source_release(t->site, s);
    return kept;
}

/* Enough requests for an answer to be kept, even where there is next to no room. */
enum { OFTEN = CACHE_TIMES_CROWDED };

/* --- Siblings --------------------------------------------------------------------------------- */

static enum coding coding_for(struct tree *t, const char *path, const uint16_t q[CODINGS])
{
    struct source *s;
    enum coding coding;

    assert_int_equal(ask_as(path, q, &s), 0);
    coding = s->coding;
    cache_source_release(t->site, s);
    return coding;
}

static void siblings_by_preference(void **state)
{
    struct tree *t = *state;

    make_file(t, "a.html", "plain");
    open_cache(t, PLENTY);
    for (int i = 0; i < 4; i++)
        assert_int_equal(coding_for(t, "/a.html", all), CODING_IDENTITY);
    make_file(t, "a.html.gz", "gz");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(coding_for(t, "/a.html", all), CODING_GZIP);
        assert_int_equal(coding_for(t, "/a.html", identity), CODING_IDENTITY);
    }
    make_file(t, "a.html.br", "br");
    for (int i = 0; i < 4; i++)
        assert_int_equal(coding_for(t, "/a.html", all), CODING_BR);
    set_mtime(t, "a.html.br", 1000, 0); /* older than the file itself */
    for (int i = 0; i < 4; i++)
        assert_int_equal(coding_for(t, "/a.html", all), CODING_GZIP);
    assert_int_equal(unlinkat(t->root, "a.html.gz", 0), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(coding_for(t, "/a.html", all), CODING_IDENTITY);
    close_cache();
}

/* An answer that depends on as much as possible, with no more room than that: each folder on the
 * way, each sibling's name, each sibling. */
static void room_for_what_it_depends_on(void **state)
{
    struct tree *t = *state;
    char path[2 * CACHE_DEPTH_MAX + 2] = "/", name[80];
    struct source *s;

    open_cache(t, PLENTY);
    for (size_t i = 0; i < CACHE_DEPTH_MAX; i++) {
        memcpy(path + 1 + 2 * i, "d/", 3);
        snprintf(name, sizeof(name), "%.*s", (int)(2 * i + 1), path + 1);
        make_folder(t, name);
    }
    for (enum coding coding = 0; coding < CODINGS; coding++) {
        snprintf(name, sizeof(name), "%sindex.html%s", path + 1, http_coding_suffix(coding));
        make_file(t, name, "x");
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask_as(path, identity, &s), 0);
        if (i == 2) {
            const struct cache_deps *deps = ((struct site_source *)s)->entry->deps;

            assert_int_equal(deps->count, CACHE_DEPS_MAX);
            assert_int_equal(deps->room, CACHE_DEPS_MAX);
        }
        cache_source_release(t->site, s);
    }
    make_file(t, "plain.bin", "x");
    warm(t, "/plain.bin", "x");
    assert_int_equal(cache->newest->deps->room, cache->newest->deps->count);
    assert_int_equal(cache->newest->deps->room, 2);
    close_cache();
}

/* Preferences in the same order share one entry, whatever the numbers. */
static void likes_are_what_counts(void **state)
{
    static const uint16_t same[][CODINGS] = {{500, 700}, {10, 20}, {1, 1}, {0, 1}},
                          other[CODINGS] = {20, 10, 0, 0};
    struct tree *t = *state;
    uint64_t fills;

    make_file(t, "a.html", "plain");
    make_file(t, "a.html.gz", "gz");
    open_cache(t, PLENTY);
    for (int i = 0; i < OFTEN; i++)
        assert_int_equal(coding_for(t, "/a.html", same[0]), CODING_GZIP);
    fills = stats_sum(stats, STAT_CACHE_FILLS);
    assert_int_equal(fills, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(coding_for(t, "/a.html", same[i]), CODING_GZIP);
    for (int i = 0; i < OFTEN; i++)
        assert_int_equal(coding_for(t, "/a.html", other), CODING_IDENTITY);
    assert_int_equal(stats_sum(stats, STAT_CACHE_FILLS), fills + 1);
    close_cache();
}

/* --- Bounds ----------------------------------------------------------------------------------- */

static void bytes_are_bounded(void **state)
{
    struct tree *t = *state;
    char name[32], path[33];

    open_cache(t, LITTLE);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        snprintf(path, sizeof(path), "/%s", name);
        make_zeros(t, name, 2000);
        for (int n = 0; n < OFTEN; n++)
            assert_int_equal(error_of(t, path), 0);
        assert_true(atomic_load(&cache->bytes) <= LITTLE);
    }
    assert_in_range(stats_sum(stats, STAT_CACHE_FILLS), 200, 200);
    assert_true(stats_sum(stats, STAT_CACHE_ENDS) > 100);
    close_cache();
}

static void watches_are_bounded(void **state)
{
    struct tree *t = *state;
    char name[32], path[33];

    open_cache(t, PLENTY);
    cache->watches_max = 10;
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        snprintf(path, sizeof(path), "/%s", name);
        make_file(t, name, "x");
        for (int n = 1; n <= OFTEN; n++)
            assert_int_equal(body_is(t, path, "x"), n >= (i < 9 ? CACHE_TIMES : OFTEN));
        assert_true(cache->watches <= 10);
    }
    close_cache();
}

/* Requests as from a crawler: a path is requested again when all others have been, so no two paths
 * may keep each other out. */
static void many_in_turn(void **state)
{
    enum { MANY = 4000 };
    struct tree *t = *state;
    uint64_t fills = 0;
    char path[33];

    open_cache(t, 2 * PLENTY);
    for (int n = 0; n <= CACHE_TIMES; n++) {
        fills = stats_sum(stats, STAT_CACHE_FILLS); /* before the last turn, in the end */
        for (int i = 0; i < MANY; i++) {
            snprintf(path, sizeof(path), "/none/%05d", i);
            assert_int_equal(error_of(t, path), -ENOENT);
        }
    }
    /* In one run of ten some set of places has more keys than places: the last turn fills for
     * it. */
    assert_in_range(fills, MANY - MANY / 500, MANY);
    assert_int_equal(stats_sum(stats, STAT_CACHE_HITS), fills);
    assert_in_range(stats_sum(stats, STAT_CACHE_FILLS), fills, MANY);
    close_cache();
}

/* Where each new entry displaces another, a key has to be requested more often. */
static void what_is_new_waits_where_it_is_crowded(void **state)
{
    struct tree *t = *state;
    uint64_t fills;
    char name[32], path[33];

    open_cache(t, LITTLE);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        snprintf(path, sizeof(path), "/%s", name);
        make_file(t, name, "x");
        body_is(t, path, "x");
        body_is(t, path, "x");
    }
    fills = stats_sum(stats, STAT_CACHE_FILLS);
    assert_in_range(fills, 20, 190);
    assert_int_equal(stats_sum(stats, STAT_CACHE_ENDS), 0); /* two requests displaced nothing */
    for (int n = 3; n <= OFTEN; n++)
        assert_int_equal(body_is(t, path, "x"), n == OFTEN);
    assert_int_equal(stats_sum(stats, STAT_CACHE_FILLS), fills + 1);
    close_cache();
}

/* An entry that is requested again and again stays while others come and go. */
static void the_popular_stays(void **state)
{
    struct tree *t = *state;
    char name[32], path[33];

    make_file(t, "index.html", "top");
    open_cache(t, LITTLE);
    warm(t, "/", "top");
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        snprintf(path, sizeof(path), "/%s", name);
        make_file(t, name, "x");
        for (int n = 0; n < OFTEN; n++)
            body_is(t, path, "x");
        body_is(t, "/", "top");
    }
    assert_true(stats_sum(stats, STAT_CACHE_ENDS) > 100);
    assert_true(stats_sum(stats, STAT_CACHE_HITS) > 290);
    close_cache();
}

/* A body that is being sent outlives its entry; the entry's memory counts until then. */
static void sent_while_it_ends(void **state)
{
    struct tree *t = *state;
    struct source *s;

    make_file(t, "a", "old");
    open_cache(t, PLENTY);
    warm(t, "/a", "old");
    assert_int_equal(ask_as("/a", identity, &s), 0);
    write_over(t, "a", "new");
    assert_false(body_is(t, "/a", "new"));
    assert_memory_equal(s->bytes, "old", 3);
    assert_int_not_equal(atomic_load(&cache->bytes), 0);
    cache_source_release(t->site, s);
    assert_int_equal(atomic_load(&cache->bytes), 0);
    close_cache();
}

/* A reader is in the table when the last entry ends, and has left it when the cache ends. */
static void read_while_it_ends(void **state)
{
    struct tree *t = *state;

    make_file(t, "a", "old");
    open_cache(t, PLENTY);
    warm(t, "/a", "old");
    atomic_store(&reader->at, atomic_load(&cache->epoch));
    write_over(t, "a", "new");
    cache_look(reader, now_ms);
    assert_int_not_equal(atomic_load(&cache->bytes), 0);
    atomic_store(&reader->at, 0);
    close_cache();
}

/* Make files of zeros with that name and a number; each is requested often enough to be kept. */
static void fill_up(struct tree *t, const char *name, unsigned from, unsigned n)
{
    char text[32], path[33];

    for (unsigned i = from; i < from + n; i++) {
        snprintf(text, sizeof(text), "%s%u", name, i);
        snprintf(path, sizeof(path), "/%s", text);
        make_zeros(t, text, LITTLE / 8);
        for (int turn = 0; turn < OFTEN; turn++)
            assert_int_equal(error_of(t, path), 0);
    }
}

/* While a thread is held up in the table nothing is freed, yet no more is evicted than needed. */
static void a_reader_that_is_held_up(void **state)
{
    struct tree *t = *state;
    struct cache_reader *other;
    uint64_t ends;

    open_cache(t, LITTLE);
    other = cache_reader_open(cache);
    fill_up(t, "f", 0, 10);
    ends = stats_sum(stats, STAT_CACHE_ENDS);
    atomic_store(&other->at, atomic_load(&cache->epoch));
    fill_up(t, "g", 0, 1);
    assert_in_range(stats_sum(stats, STAT_CACHE_ENDS) - ends, 1, 2);
    assert_true(atomic_load(&cache->bytes) <= LITTLE);
    atomic_store(&other->at, 0);
    fill_up(t, "h", 0, 1);
    assert_true(is_kept_now(t, "/h0"));
    cache_reader_close(other);
    close_cache();
}

/* Evicting an entry that is being sent would free no memory. */
static void what_is_sent_stays(void **state)
{
    struct tree *t = *state;
    struct source *sent[16];
    unsigned n = 0;
    char path[16];

    open_cache(t, LITTLE);
    fill_up(t, "f", 0, 6);
    for (unsigned i = 0; i < 6; i++) {
        snprintf(path, sizeof(path), "/f%u", i);
        assert_int_equal(ask_as(path, identity, &sent[n++]), 0);
        assert_true(is_kept(sent[i]));
    }
    fill_up(t, "g", 0, 10); /* more than fit */
    assert_true(atomic_load(&cache->bytes) <= LITTLE);
    for (unsigned i = 0; i < 6; i++) {
        snprintf(path, sizeof(path), "/f%u", i);
        assert_true(is_kept_now(t, path));
    }
    while (n > 0)
        cache_source_release(t->site, sent[--n]);
    fill_up(t, "h", 0, 10);
    assert_true(is_kept_now(t, "/h9"));
    close_cache();
}

/* The queue of events is longer than the kernel allows: everything ends. */
static void an_overflow(void **state)
{
    struct tree *t = *state;

    make_file(t, "a", "x");
    make_file(t, "b", "x");
    open_cache(t, PLENTY);
    warm(t, "/a", "x");
    warm(t, "/b", "x");
    for (int i = 0; i < 8000; i++) { /* in turn, otherwise each would be merged with the last */
        assert_int_equal(renameat(t->root, "a", t->root, "aa"), 0);
        assert_int_equal(renameat(t->root, "aa", t->root, "a"), 0);
    }
    write_over(t, "b", "y");
    assert_false(body_is(t, "/b", "y"));
    assert_false(body_is(t, "/a", "x"));
    close_cache();
}

static void none_of_no_bytes(void **state)
{
    struct tree *t = *state;

    open_cache(t, 0);
    assert_null(cache);
    assert_null(reader);
    close_cache();
}

/* Without an inotify instance rung serves as if the cache were off. */
static void no_descriptor(void **state)
{
    struct tree *t = *state;
    struct rlimit was, none;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = was;
    none.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    now_ms = START;
    assert_null(cache_share(t->site, (struct cache_limits){PLENTY, false}, NULL));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

/* --- Threads ---------------------------------------------------------------------------------- */

enum { READERS = 3, ASKS = 4000 };

static void *read_often(void *arg)
{
    struct tree *t = arg;
    struct cache_reader *r = cache_reader_open(cache);
    struct http_ask ask = {.path = {"/a", 2}};

    for (int i = 0; i < ASKS; i++) {
        struct source *s;
        int err;

        cache_look(r, START + (uint64_t)i);
        err = cache_find(r, &ask, &s);
        assert_true(err == 0 || err == -ENOENT);
        if (err)
            continue;
        if (s->bytes)
            assert_true(memcmp(s->bytes, "one", 3) == 0 || memcmp(s->bytes, "two", 3) == 0);
        cache_source_release(t->site, s);
    }
    cache_reader_close(r);
    return NULL;
}

/* Readers, fillers and events at once; tsan and asan check them. */
static void many_at_once(void **state)
{
    struct tree *t = *state;
    pthread_t thread[READERS];

    make_file(t, "a", "one");
    open_cache(t, PLENTY);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, read_often, t), 0);
    for (int i = 0; i < 300; i++) {
        make_file(t, "b", i % 2 ? "one" : "two");
        assert_int_equal(renameat(t->root, "b", t->root, "a"), 0);
        for (int n = 0; n < 3; n++) /* kept, or not because the fillers get in each other's way */
            body_is(t, "/a", i % 2 ? "one" : "two");
    }
    for (int i = 0; i < READERS; i++)
        pthread_join(thread[i], NULL);
    close_cache();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(siblings_by_preference),
        TREE_TEST(room_for_what_it_depends_on),
        TREE_TEST(likes_are_what_counts),
        TREE_TEST(bytes_are_bounded),
        TREE_TEST(watches_are_bounded),
        TREE_TEST(many_in_turn),
        TREE_TEST(what_is_new_waits_where_it_is_crowded),
        TREE_TEST(the_popular_stays),
        TREE_TEST(sent_while_it_ends),
        TREE_TEST(read_while_it_ends),
        TREE_TEST(a_reader_that_is_held_up),
        TREE_TEST(what_is_sent_stays),
        TREE_TEST(an_overflow),
        TREE_TEST(none_of_no_bytes),
        TREE_TEST(no_descriptor),
        TREE_TEST(many_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
