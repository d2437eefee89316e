/* SPDX-License-Identifier: MIT */
/* cache_listing.c - listings that are kept: which, until which change, how many, and when keeping
 * them pays.
 */
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include "kept.h"

enum { PAID = 16, AGAIN = 32, ASKS_MAX = 4096, TEXT_MAX = 1 << 20 };

static char first_text[TEXT_MAX], second_text[TEXT_MAX];

/* Ask as a loop and its helper do. */
static int list_as(const char *path, const char *query, struct source **s)
{
    struct http_ask ask = {.path = {path, strlen(path)}, .query = {query, strlen(query)}};
    int err;

    ask.text = strstr(query, "format=text") != NULL;
    ask.json = strstr(query, "format=json") != NULL;
    ask.q[CODING_IDENTITY] = 1000;
    cache_look(reader, now_ms);
    err = cache_find(reader, &ask, s);
    return err == -EINPROGRESS ? cache_list(reader, &ask, s) : err;
}

/* Put the listing's body into text; return whether it comes from memory. */
static bool text_of(struct tree *t, const char *path, const char *query, char *text)
{
    struct source *s = NULL;
    size_t len = 0, n;
    bool kept;

    assert_int_equal(list_as(path, query, &s), 0);
    assert_int_equal(s->kind, SOURCE_MADE);
    kept = is_kept(s);
    if (s->bytes) {
        assert_true(s->size < TEXT_MAX);
        memcpy(text, s->bytes, s->size);
        len = s->size;
    } else {
        while ((n = s->next(s, text + len, CHUNK_BYTES_MAX)) > 0)
            len += n == SOURCE_LATER ? 0 : n;
    }
    text[len] = '\0';
    cache_source_release(t->site, s);
    return kept;
}

static bool asked(struct tree *t, const char *path)
{
    return text_of(t, path, "", first_text);
}

/* The true listing: ask the site itself. */
static void true_text(struct tree *t, const char *path, char *text)
{
    struct http_ask ask = {.path = {path, strlen(path)}};
    struct source *s;
    size_t len = 0, n;

    assert_int_equal(site_find(t->site, &ask, true, &s), 0);
    while ((n = s->next(s, text + len, CHUNK_BYTES_MAX)) > 0)
        len += n;
    text[len] = '\0';
    cache_source_release(t->site, s);
}

/* Ask until the listing is kept, and until keeping has paid. */
static void keep(struct tree *t, const char *path)
{
    unsigned asks = 0;

    while (!asked(t, path) && asks < ASKS_MAX)
        asks++;
    assert_true(asks < ASKS_MAX);
    for (asks = 0; asks < PAID; asks++)
        assert_true(asked(t, path));
}

static void kept_from_the_second_time(void **state)
{
    static const char *const query[] = {"", "format=json", "format=text", "order=desc", "sort=size",
                                        "filter=1", "filter=2", "filter=none",
                                        "limit=1", "offset=1", "offset=1&limit=1"};
    struct tree *t = *state;
    struct source *s;

    make_folder(t, "d");
    make_folder(t, "d/sub");
    make_file(t, "d/file1", "1");
    make_file(t, "d/file20", "22");
    open_cache(t, PLENTY);
    for (unsigned i = 0; i < sizeof(query) / sizeof(query[0]); i++) {
        assert_false(text_of(t, "/d/", query[i], first_text));
        for (unsigned j = 0; j < 3; j++) {
            assert_true(text_of(t, "/d/", query[i], second_text));
            assert_string_equal(first_text, second_text);
        }
    }
    assert_int_equal(stats_sum(stats, STAT_CACHE_FILLS), 11);
    assert_int_equal(stats_sum(stats, STAT_CACHE_HITS), 22);
    assert_int_equal(list_as("/d/", "format=json", &s), 0);
    assert_string_equal(s->type, listing_type(LISTING_JSON));
    cache_source_release(t->site, s);
    assert_false(text_of(t, "/", "", first_text));
    assert_true(text_of(t, "/", "", first_text));
    close_cache();
}

/* --- Changes that end a listing --------------------------------------------------------------- */

static int by_another_name = -1, without_a_name = -1;

static void change(struct tree *t, unsigned number)
{
    switch (number) {
    case 0: make_file(t, "d/new", "x"); break;
    case 1: assert_int_equal(renameat(t->root, "d/new", t->root, "d/newer"), 0); break;
    case 2: assert_int_equal(unlinkat(t->root, "d/newer", 0), 0); break;
    case 3: write_over(t, "d/file", "longer than it was"); break;
    case 4: set_mtime(t, "d/file", 1000000000, 0); break;
    case 5: make_folder(t, "d/folder"); break;
    case 6: assert_int_equal(unlinkat(t->root, "d/folder", AT_REMOVEDIR), 0); break;
    case 7: set_mtime(t, "d/sub", 1000000000, 0); break;
    case 8: make_file(t, "d/sub/file", ""); break; /* changes the subfolder's time */
    case 9: assert_int_equal(unlinkat(t->root, "d/sub/file", 0), 0); break;
    case 10: assert_int_equal(linkat(t->root, "d/file", t->root, "elsewhere", 0), 0); break;
    case 11: write_over(t, "elsewhere", "written by its other name, and longer"); break;
    case 12:
        by_another_name = openat(t->root, "elsewhere", O_WRONLY | O_CLOEXEC);
        assert_int_equal(unlinkat(t->root, "elsewhere", 0), 0);
        break;
    case 13: assert_int_equal(pwrite(by_another_name, "end", 3, 100), 3); break;
    case 14:
        assert_int_equal(renameat(t->root, "other", t->root, "d/other"), 0);
        break;
    case 15: assert_int_equal(ftruncate(without_a_name, 77), 0); break;
    case 16: assert_int_equal(renameat(t->root, "d", t->root, "e"), 0); break;
    default: assert_int_equal(renameat(t->root, "e", t->root, "d"), 0);
    }
}

static void every_change_counts(void **state)
{
    struct tree *t = *state;
    char link[64];

    make_folder(t, "d");
    make_folder(t, "d/sub");
    make_file(t, "d/file", "1");
    without_a_name = openat(t->root, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(without_a_name >= 0);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", without_a_name);
    assert_int_equal(linkat(AT_FDCWD, link, t->root, "other", AT_SYMLINK_FOLLOW), 0);
    open_cache(t, PLENTY);
    for (unsigned i = 0; i <= 17; i++) {
        if (i != 17)
            keep(t, "/d/");
        if (i == 8 || i == 9) /* so that its time moves by seconds */
            set_mtime(t, "d/sub", 1000000000, 0), keep(t, "/d/");
        change(t, i);
        if (i == 16) {
            assert_int_equal(error_of(t, "/d/"), -ENOENT);
            continue;
        }
        asked(t, "/d/");
        true_text(t, "/d/", second_text);
        assert_string_equal(first_text, second_text);
    }
    close(by_another_name);
    close(without_a_name);
    close_cache();
}

static void an_index_comes_and_goes(void **state)
{
    struct tree *t = *state;

    make_folder(t, "d");
    make_file(t, "d/file", "1");
    open_cache(t, PLENTY);
    for (unsigned i = 0; i < 3; i++) {
        keep(t, "/d/");
        make_file(t, "d/index.html", "index");
        warm(t, "/d/", "index");
        assert_int_equal(unlinkat(t->root, "d/index.html", 0), 0);
    }
    keep(t, "/d/");
    close_cache();
}

/* The removal of a folder that is open sends no event to itself. */
static void the_root_goes(void **state)
{
    struct tree *t = *state;
    struct source *s;
    char root[300];

    open_cache(t, PLENTY);
    keep(t, "/");
    snprintf(root, sizeof(root), "%s/root", t->top);
    assert_int_equal(rmdir(root), 0);
    assert_int_equal(list_as("/", "", &s), -ESTALE);
    close_cache();
}

/* Stores through a mapping send no event; an entry older than a second is compared. */
static void an_old_one_is_compared(void **state)
{
    struct tree *t = *state;
    struct source *s;
    struct cache_entry *e;

    make_folder(t, "d");
    make_file(t, "d/file", "1");
    open_cache(t, PLENTY);
    keep(t, "/d/");
    for (unsigned same = 2; same-- > 0;) {
        assert_int_equal(list_as("/d/", "", &s), 0);
        e = ((struct site_source *)s)->entry;
        atomic_fetch_sub(&e->checked_ms, CACHE_CHECK_MS);
        now_ms = clock_ms();
        if (!same) /* as if a time had changed unseen */
            *strstr((char *)(uintptr_t)s->bytes, "<time") = '<' + 1;
        assert_int_equal(asked(t, "/d/"), same);
        assert_non_null(strstr(first_text, "<time"));
        assert_true(asked(t, "/d/"));
        cache_source_release(t->site, s);
    }
    close_cache();
}

/* --- Which listings are kept, and how many ---------------------------------------------------- */

static bool is_ever_kept(struct tree *t, const char *path)
{
    for (unsigned i = 0; i < 4; i++)
        if (asked(t, path))
            return true;
    return false;
}

static void what_is_not_kept(void **state)
{
    struct tree *t = *state;

    for (char name[] = "a"; name[0] <= 'g'; name[0]++)
        make_folder(t, name);
    make_link(t, "nothing", "a/link");
    assert_int_equal(mkfifoat(t->root, "b/fifo", 0644), 0);
    make_link(t, "later", "c/index.html");
    make_folder(t, "d/index.html");
    make_file(t, "e/.hidden", "x");
    make_link(t, "nothing", "e/.link");
    make_link(t, "d", "link");
    make_folder(t, "f/sub");
    open_cache(t, PLENTY);
    assert_false(is_ever_kept(t, "/a/"));
    assert_false(is_ever_kept(t, "/b/"));
    assert_false(is_ever_kept(t, "/c/"));
    assert_true(is_ever_kept(t, "/d/")); /* a folder is not an index page */
    assert_true(is_ever_kept(t, "/e/")); /* its names are not shown */
    assert_true(is_ever_kept(t, "/f/"));
    assert_true(is_ever_kept(t, "/g/"));
    assert_false(is_ever_kept(t, "/link/"));
    make_file(t, "c/file", "x");
    for (unsigned i = 0; i < 4; i++) /* the missing target of the link may appear elsewhere */
        assert_false(text_of(t, "/c/", "filter=file", first_text));
    make_folder(t, "h");
    make_file(t, "h/file", "x");
    make_link(t, "nothing", "h/link");
    assert_false(text_of(t, "/h/", "filter=file", first_text));
    assert_true(text_of(t, "/h/", "filter=file", first_text)); /* the link is not shown */
    close_cache();
}

static void make_names(const struct tree *t, const char *folder, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        char name[64];

        snprintf(name, sizeof(name), "%s/%04u", folder, i);
        make_file(t, name, "");
    }
}

/* Requests as from a crawler: a view is requested again when all others have been, so no two views
 * may keep each other out. */
static void many_in_turn(void **state)
{
    enum { MANY = 200 };
    struct tree *t = *state;
    unsigned kept = 0;
    char query[32];

    make_folder(t, "d");
    make_file(t, "d/file", "x");
    open_cache(t, 64 * PLENTY);
    cache->watches_max = 1u << 20;
    for (unsigned turn = 0; turn < 3; turn++) {
        for (unsigned i = 0; i < MANY; i++) {
            snprintf(query, sizeof(query), "format=text&filter=%u", i);
            kept += text_of(t, "/d/", query, first_text) ? 1 : 0;
        }
    }
    /* Few sets of places, if any, have more keys than places. */
    assert_in_range(atomic_load(&cache->listed), MANY - MANY / 25, MANY);
    assert_in_range(kept, MANY, MANY + MANY);
    close_cache();
}

/* A client may ask for any number of views; a view of nothing is a listing, too. */
static void no_more_listings_than_that(void **state)
{
    struct tree *t = *state;
    char query[32];

    make_folder(t, "d");
    make_file(t, "d/file", "x");
    open_cache(t, 64 * PLENTY);
    cache->watches_max = 1u << 20;
    for (unsigned i = 0; i < CACHE_LISTINGS_MAX + 3; i++) {
        snprintf(query, sizeof(query), "format=text&filter=%u", i);
        assert_false(text_of(t, "/d/", query, first_text));
        assert_true(text_of(t, "/d/", query, second_text));
        assert_string_equal(second_text, "");
        assert_int_equal(atomic_load(&cache->listed),
                         i < CACHE_LISTINGS_MAX ? i + 1 : CACHE_LISTINGS_MAX);
    }
    make_file(t, "d/other", "x");
    assert_false(text_of(t, "/d/", query, second_text));
    assert_int_equal(atomic_load(&cache->listed), 0);
    close_cache();
}

/* Ended listings give their watches back when the next listing is requested, kept or not. */
static void watches_come_back(void **state)
{
    struct tree *t = *state;
    unsigned before;

    make_folder(t, "d");
    make_folder(t, "e");
    make_names(t, "d", 0, 100);
    make_file(t, "page.html", "a file");
    open_cache(t, PLENTY);
    warm(t, "/page.html", "a file");
    before = cache->watches;
    assert_true(is_ever_kept(t, "/d/"));
    assert_true(cache->watches > before + 100);
    make_file(t, "d/new", "");
    assert_true(body_is(t, "/page.html", "a file"));
    assert_int_equal(atomic_load(&cache->listed), 0);
    assert_false(asked(t, "/e/"));
    assert_int_equal(cache->watches, before);
    close_cache();
}

static void as_many_names_as_are_read_at_once(void **state)
{
    struct tree *t = *state;

    make_folder(t, "d");
    make_names(t, "d", 0, SITE_FIRST_NAMES - 2); /* "." and ".." */
    open_cache(t, PLENTY);
    assert_true(is_ever_kept(t, "/d/"));
    make_names(t, "d", SITE_FIRST_NAMES - 2, SITE_FIRST_NAMES - 1);
    assert_false(is_ever_kept(t, "/d/"));
    for (unsigned i = 0; i < 2 * AGAIN; i++)
        assert_false(asked(t, "/d/"));
    close_cache();
}

/* Listings may use a quarter of the cache, and half of its watches: the oldest ones go. */
static void a_share_for_all(void **state)
{
    struct tree *t = *state;
    unsigned kept = 0;
    char path[16];

    for (unsigned i = 0; i < 64; i++) {
        snprintf(path, sizeof(path), "d%u", i);
        make_folder(t, path);
        make_names(t, path, 0, 20);
    }
    for (char name[] = "x"; name[0] <= 'y'; name[0]++) {
        make_folder(t, name);
        make_names(t, name, 0, 20);
    }
    make_file(t, "a.html", "a file");
    open_cache(t, PLENTY / 32);
    warm(t, "/a.html", "a file");
    for (unsigned i = 0; i < 64; i++) {
        snprintf(path, sizeof(path), "/d%u/", i);
        kept += is_ever_kept(t, path);
        assert_true(cache->listing_bytes <= cache->bytes_max / 4);
        assert_true(cache->listing_watches <= cache->watches_max / 2);
    }
    assert_int_equal(kept, 64);
    assert_in_range(atomic_load(&cache->listed), 3, 12);
    assert_true(body_is(t, "/a.html", "a file"));
    cache->watches_max = 2 * 23;
    assert_true(is_ever_kept(t, "/x/")); /* watches: itself, the root, and twenty children */
    assert_int_equal(atomic_load(&cache->listed), 1);
    cache->watches_max = 2 * 22 - 1;
    assert_false(is_ever_kept(t, "/y/"));
    cache->watches_max = 1000;
    close_cache();
}

/* --- Cost ------------------------------------------------------------------------------------- */

/* A folder that changes at every moment is not kept again and again. */
static void what_does_not_pay(void **state)
{
    struct tree *t = *state;

    make_folder(t, "d");
    open_cache(t, PLENTY);
    for (unsigned i = 0; i < 2000; i++) {
        set_mtime(t, "d", 1000000000 + i, 0);
        make_file(t, "d/file", "x");
        assert_int_equal(unlinkat(t->root, "d/file", 0), 0);
        asked(t, "/d/");
    }
    assert_in_range(stats_sum(stats, STAT_CACHE_FILLS), 2, 7);
    keep(t, "/d/"); /* the folder no longer changes */
    for (unsigned i = 0; i < 5; i++) {
        set_mtime(t, "d", 1000000000 + i, 0);
        for (unsigned j = 0; j < PAID + 1; j++) /* the first of them makes it */
            assert_true(asked(t, "/d/"));
    }
    close_cache();
}

/* The watches of an ended listing are removed where the next one is made, not by the loop. */
static void watches_are_given_back(void **state)
{
    struct tree *t = *state;

    make_folder(t, "d");
    make_folder(t, "e");
    make_names(t, "d", 0, 300);
    open_cache(t, PLENTY);
    keep(t, "/d/");
    assert_in_range(cache->watches, 301, 303);
    for (unsigned i = 0; i < 300; i++) {
        char name[64];

        snprintf(name, sizeof(name), "d/%04u", i);
        assert_int_equal(unlinkat(t->root, name, 0), 0);
    }
    cache_look(reader, now_ms);
    assert_int_equal(atomic_load(&cache->listed), 0);
    keep(t, "/e/");
    assert_null(cache->dying);
    assert_in_range(cache->watches, 2, 3);
    close_cache();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(kept_from_the_second_time),
        TREE_TEST(every_change_counts),
        TREE_TEST(an_index_comes_and_goes),
        TREE_TEST(the_root_goes),
        TREE_TEST(an_old_one_is_compared),
        TREE_TEST(what_is_not_kept),
        TREE_TEST(as_many_names_as_are_read_at_once),
        TREE_TEST(a_share_for_all),
        TREE_TEST(many_in_turn),
        TREE_TEST(no_more_listings_than_that),
        TREE_TEST(watches_come_back),
        TREE_TEST(what_does_not_pay),
        TREE_TEST(watches_are_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
