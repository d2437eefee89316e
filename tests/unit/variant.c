/* SPDX-License-Identifier: MIT */
/* variant.c - entries that are compressed: when, for which clients, with which fields, and that a
 * change during the compression leaves nothing behind.
 */
#include "variant.h"

/* The file is sent at first; then the variant is, and nothing is made twice. */
static void made_when_asked_for_again(void **state)
{
    struct tree *t = *state;
    struct source *s;

    make_text(t, "a.txt", 'x', SIZE);
    open_cache(t, PLENTY);
    atomic_store(&held, true);
    ask_until_held(t, "/a.txt");
    assert_int_equal(first_byte(t, "/a.txt", wants), 'x');
    let_go(1);
    ask_until(t, "/a.txt", 'X');
    now_ms += 10 * CACHE_CHECK_MS; /* compared with its file, which has not changed */
    assert_int_equal(ask_as("/a.txt", wants, &s), 0);
    assert_true(is_kept(s) && s->vary);
    assert_int_equal(s->coding, some);
    assert_int_equal(s->size, SIZE / 2);
    assert_int_equal(s->made_of, SIZE);
    assert_true(s->made == compress_hash((struct slice){s->bytes, SIZE / 2}));
    assert_int_equal(s->mtime_s, OLD_S);
    assert_non_null(s->fields);
    cache_source_release(t->site, s);
    assert_int_equal(atomic_load(&writes), 1);
    assert_int_equal(stats_sum(stats, STAT_CACHE_VARIANTS), 1);
    assert_int_equal(stats_sum(stats, STAT_CACHE_PLAIN), 0);
    close_cache();
}

static void others_get_the_file(void **state)
{
    struct tree *t = *state;
    struct source *s;

    make_text(t, "a.txt", 'x', SIZE);
    open_cache(t, PLENTY);
    ask_until(t, "/a.txt", 'X');
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ask_as("/a.txt", identity, &s), 0);
        assert_true(s->vary && s->coding == CODING_IDENTITY && s->size == SIZE);
        cache_source_release(t->site, s);
        assert_int_equal(first_byte(t, "/a.txt", wants), 'X');
    }
    assert_int_equal(atomic_load(&writes), 1);
    close_cache();
}

/* The room used is that of the variant, and is given back with it. */
static void room_is_counted(void **state)
{
    struct tree *t = *state;
    size_t before;

    make_text(t, "a.txt", 'x', SIZE);
    open_cache(t, PLENTY);
    atomic_store(&held, true);
    ask_until_held(t, "/a.txt");
    before = atomic_load(&cache->bytes);
    let_go(1);
    ask_until(t, "/a.txt", 'X');
    cache_cut_entry(cache, cache->newest); /* and memory that has waited for readers is freed */
    assert_int_equal(atomic_load(&cache->bytes), 0);
    ask_until(t, "/a.txt", 'X');
    pthread_mutex_lock(&cache->lock);
    cache_reclaim(cache);
    pthread_mutex_unlock(&cache->lock);
    assert_in_range(atomic_load(&cache->bytes), SIZE / 2, before - SIZE / 2 + 100);
    close_cache();
}

static void what_does_not_pay_is_not_tried_again(void **state)
{
    struct tree *t = *state;

    make_text(t, "a.txt", 'x', SIZE);
    open_cache(t, PLENTY);
    atomic_store(&saves_nothing, true);
    for (int tries = 0; stats_sum(stats, STAT_CACHE_PLAIN) == 0; tries++) {
        assert_true(tries < TRIES_MAX);
        assert_int_equal(first_byte(t, "/a.txt", wants), 'x');
        pause_ms(5);
    }
    for (int i = 0; i < 20; i++) {
        assert_int_equal(first_byte(t, "/a.txt", wants), 'x');
        pause_ms(1);
    }
    now_ms += 10 * CACHE_CHECK_MS;
    assert_int_equal(first_byte(t, "/a.txt", wants), 'x');
    assert_int_equal(atomic_load(&writes), 1);
    assert_int_equal(stats_sum(stats, STAT_CACHE_VARIANTS), 0);
    close_cache();
}

static bool varies(struct tree *t, const char *path)
{
    struct source *s;
    bool vary;

    assert_int_equal(ask_as(path, wants, &s), 0);
    vary = s->vary;
    cache_source_release(t->site, s);
    return vary;
}

static void bounds(void **state)
{
    static const struct {
        const char *name;
        size_t size;
        bool made;
    } cases[] = {
        {"least.txt", COMPRESS_BYTES_MIN, true}, {"less.txt", COMPRESS_BYTES_MIN - 1, false},
        {"most.txt", SIZE, true},                {"more.txt", SIZE + 1, false},
        {"image.png", SIZE, false},
    };
    struct tree *t = *state;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        make_text(t, cases[i].name, 'x', cases[i].size);
    open_cache(t, SIZE * CACHE_BODY_SHARE);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[32];

        snprintf(path, sizeof(path), "/%s", cases[i].name);
        assert_int_equal(varies(t, path), cases[i].made);
        if (cases[i].made)
            ask_until(t, path, 'X');
    }
    for (int tries = 0; tries < 20; tries++) {
        assert_int_equal(first_byte(t, "/less.txt", wants), 'x');
        assert_int_equal(first_byte(t, "/more.txt", wants), 'x');
        assert_int_equal(first_byte(t, "/image.png", wants), 'x');
        pause_ms(5);
    }
    assert_int_equal(atomic_load(&writes), 2);
    close_cache();
}

static void none_where_nothing_is_kept(void **state)
{
    static const struct site_options off = {.rules.precompressed = true};
    struct tree *t = *state;

    make_text(t, "a.txt", 'x', SIZE);
    open_cache(t, PLENTY);
    assert_true(varies(t, "/a.txt"));
    close_cache();
    tree_open_site(t, &off);
    open_cache(t, PLENTY);
    for (int i = 0; i < 20; i++) {
        assert_false(varies(t, "/a.txt"));
        pause_ms(2);
    }
    assert_int_equal(atomic_load(&writes), 0);
    close_cache();
}

/* --- A change while a variant is made --------------------------------------------------------- */

/* The event is handled before the variant is finished, which is then discarded; or afterwards, and
 * ends it. */
static void change_meanwhile(struct tree *t, void (*change)(struct tree *t), bool looked)
{
    uint64_t made = stats_sum(stats, STAT_CACHE_VARIANTS);

    make_text(t, "a.txt", 'x', SIZE);
    atomic_store(&held, true);
    ask_until_held(t, "/a.txt");
    change(t);
    if (looked)
        cache_look(reader, now_ms);
    let_go(1);
    while (looked && atomic_load(&waiting))
        pause_ms(1);
    if (!looked)
        let_end(STAT_CACHE_VARIANTS, made + 1);
    for (int i = 0; i < 20; i++) {
        assert_int_not_equal(first_byte(t, "/a.txt", wants), 'x');
        assert_int_not_equal(first_byte(t, "/a.txt", wants), 'X');
    }
}

static void in_place(struct tree *t)
{
    write_over(t, "a.txt", "y");
}

static void replaced(struct tree *t)
{
    make_text(t, "b.txt", 'y', SIZE);
    assert_int_equal(renameat(t->root, "b.txt", t->root, "a.txt"), 0);
}

static void removed(struct tree *t)
{
    (void)unlinkat(t->root, "a.txt", 0);
}

static void both_ways(struct tree *t, void (*change)(struct tree *t))
{
    open_cache(t, PLENTY);
    for (int looked = 0; looked < 2; looked++) {
        change_meanwhile(t, change, looked);
        change(t); /* a variant of what replaced it may exist by now */
        assert_int_not_equal(first_byte(t, "/a.txt", wants), 'x');
    }
    close_cache();
}

static void written_over_meanwhile(void **state)
{
    both_ways(*state, in_place);
}

static void replaced_meanwhile(void **state)
{
    struct tree *t = *state;

    both_ways(t, replaced);
    open_cache(t, PLENTY);
    ask_until(t, "/a.txt", 'Y');
    close_cache();
}

static void removed_meanwhile(void **state)
{
    both_ways(*state, removed);
}

static void add_sibling(struct tree *t)
{
    char name[16];

    snprintf(name, sizeof(name), "a.txt%s", http_coding_suffix(some));
    make_text(t, name, 's', 700);
}

/* A sibling is the user's own, and is preferred; when it goes, a variant is made again. */
static void a_sibling_comes_and_goes(void **state)
{
    struct tree *t = *state;
    char name[16];

    snprintf(name, sizeof(name), "a.txt%s", http_coding_suffix(some));
    open_cache(t, PLENTY);
    change_meanwhile(t, add_sibling, true);
    assert_int_equal(first_byte(t, "/a.txt", wants), 's');
    assert_int_equal(stats_sum(stats, STAT_CACHE_VARIANTS), 0);
    assert_int_equal(unlinkat(t->root, name, 0), 0);
    assert_int_equal(first_byte(t, "/a.txt", wants), 'x');
    ask_until(t, "/a.txt", 'X');
    add_sibling(t);
    assert_int_equal(first_byte(t, "/a.txt", wants), 's');
    close_cache();
}

/* A sibling that is too old is not sent.  It may be renewed unseen, so no variant replaces it. */
static void an_old_sibling(void **state)
{
    struct tree *t = *state;
    char name[16];

    snprintf(name, sizeof(name), "a.txt%s", http_coding_suffix(some));
    make_text(t, "a.txt", 'x', SIZE);
    add_sibling(t);
    set_mtime(t, name, OLD_S - 1, 0);
    open_cache(t, PLENTY);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(first_byte(t, "/a.txt", wants), 'x');
        pause_ms(5);
    }
    assert_int_equal(atomic_load(&writes), 0);
    close_cache();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        VARIANT_TEST(made_when_asked_for_again),
        VARIANT_TEST(others_get_the_file),
        VARIANT_TEST(room_is_counted),
        VARIANT_TEST(what_does_not_pay_is_not_tried_again),
        VARIANT_TEST(bounds),
        VARIANT_TEST(none_where_nothing_is_kept),
        VARIANT_TEST(written_over_meanwhile),
        VARIANT_TEST(replaced_meanwhile),
        VARIANT_TEST(removed_meanwhile),
        VARIANT_TEST(a_sibling_comes_and_goes),
        VARIANT_TEST(an_old_sibling),
    };
    const struct CMUnitTest none[] = {cmocka_unit_test(built_without_libraries)};

    if (!has_library())
        return cmocka_run_group_tests(none, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
