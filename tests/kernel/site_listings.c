/* SPDX-License-Identifier: MIT */
/* site_listings.c - listings that the kernel's site keeps in memory: as the disk would answer, each
 * view by itself, without a walk.  An added or removed entry is seen at once, and the data that a
 * listing shows of an entry is two seconds old at most.  Runs in a guest, as root (ksite.py).
 */
#include "cached.h"

/* A listing is kept if nothing in it has changed for two seconds, or three: seconds are whole. */
enum { AGE_MS = 2000, LATE_MS = 600, KEPT_LISTING_MAX = KEPT_MAX - CHUNK_BYTES_MAX };

static char *listed(const struct tree *t, const struct http_ask *a, size_t *len)
{
    struct source *s;

    assert_int_equal(site_find(t->site, a, true, &s), 0);
    assert_int_equal(s->kind, SOURCE_MADE);
    return body_of(t, s, len);
}

static char *kept_body(const struct tree *t, const struct http_ask *a, size_t *len)
{
    struct source *s = kept(t, a);

    assert_non_null(s);
    assert_non_null(s->bytes);
    assert_int_equal(s->kind, SOURCE_MADE);
    return body_of(t, s, len);
}

static void fill(const struct tree *t)
{
    make_folder(t, "dir");
    make_file(t, "dir/a", "1");
    make_file(t, "dir/b", "22");
    make_folder(t, "dir/c");
    make_link(t, "a", "dir/link");
}

/* Make a folder whose listing as text has that many bytes: rows of a known length. */
enum { ROW_BYTES = 41 };
static void make_listing_of(const struct tree *t, const char *folder, size_t bytes)
{
    char path[300], name[256];
    size_t row;

    make_folder(t, folder);
    for (unsigned i = 0; bytes; i++, bytes -= row) {
        row = bytes < 2 * (ROW_BYTES + 200) ? bytes : ROW_BYTES + 200;
        if (row > ROW_BYTES + 250)
            row /= 2;
        snprintf(name, sizeof(name), "%06u", i);
        memset(name + 6, 'n', sizeof(name) - 6);
        name[row - ROW_BYTES] = '\0';
        snprintf(path, sizeof(path), "%s/%s", folder, name);
        make_file(t, path, "");
    }
}

static int open_own(const struct tree *t, unsigned number)
{
    char path[32];

    snprintf(path, sizeof(path), "%u", number);
    return openat(t->root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* One tree for all tests; it has to rest before any of it is kept.  Tests that change it have a
 * tree of their own in it. */
enum { OWN_TREES = 10, FOLDERS = 40, SMALL_CACHE = 128 << 10 };

static int prepare(void **state)
{
    int err = tree_set_up(state);
    struct tree *t = *state, own = *t;
    char path[32];

    fill(t);
    make_link(t, "dir", "name");
    make_folder(t, "index");
    make_file(t, "index/index.html", "index");
    make_listing_of(t, "most", KEPT_LISTING_MAX);
    make_listing_of(t, "more", KEPT_LISTING_MAX + 1);
    make_listing_of(t, "none", 0);
    make_listing_of(t, "large", SMALL_CACHE / 2);
    for (unsigned i = 0; i < OWN_TREES; i++) {
        snprintf(path, sizeof(path), "%u", i);
        make_folder(t, path);
        own.root = open_own(t, i);
        fill(&own);
        close(own.root);
    }
    for (unsigned i = 0; i < FOLDERS; i++) {
        snprintf(path, sizeof(path), "f%u", i);
        make_folder(t, path);
    }
    rest_ms(AGE_MS + 1000);
    return err;
}

/* --- The same answer, without a walk ---------------------------------------------------------- */

static void every_view(void **state)
{
    static const char *const views[] = {"", "format=json", "format=text", "sort=size",
        "sort=time&order=desc", "format=json&sort=size&order=desc"};
    enum { VIEWS = sizeof(views) / sizeof(views[0]) };
    struct tree *t = *state;
    char *disk[VIEWS], *memory;
    size_t len[VIEWS], n;
    struct twin before, w;

    open_cached(t, (struct twin_cache){0});
    for (size_t i = 0; i < VIEWS; i++) {
        struct http_ask a = ask_for("/dir/", views[i]);

        disk[i] = listed(t, &a, &len[i]);
    }
    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES, .ms = 60000});
    for (size_t i = 0; i < VIEWS; i++) {
        struct http_ask a = ask_for("/dir/", views[i]), head = a;
        struct source *s;

        free(listed(t, &a, &n));
        before = counts(t);
        memory = listed(t, &a, &n);
        assert_int_equal(n, len[i]);
        assert_memory_equal(memory, disk[i], n);
        free(memory);
        assert_int_equal(site_twin_try(t->site, &a, &s), 0);
        assert_int_equal(s->size, len[i]);
        assert_false(s->vary);
        site_release(t->site, s);
        head.head = true;
        assert_int_equal(site_find(t->site, &head, true, &s), 0);
        assert_int_equal(s->size, len[i]);
        site_release(t->site, s);
        w = counts(t);
        assert_int_equal(w.walks, before.walks);
        assert_int_equal(w.hits, before.hits + 3);
        free(disk[i]);
    }
    assert_true(counts(t).entries > 1);
}

static void what_is_not_kept(void **state)
{
    struct tree *t = *state;
    struct http_ask filtered = ask_for("/dir/", "filter=a"), linked = plain("/name/");
    struct http_ask first = ask_for("/dir/", "limit=1"), later = ask_for("/dir/", "offset=1");
    struct http_ask indexed = ask_for("/index/", "filter=a");
    struct source *s;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES});
    assert_true(is_never_kept(t, &filtered));
    assert_true(is_never_kept(t, &first));
    assert_true(is_never_kept(t, &later));
    assert_true(is_never_kept(t, &linked));
    assert_int_equal(site_find(t->site, &filtered, true, &s), 0);
    assert_non_null(s->bytes); /* it is still made before its head */
    site_release(t->site, s);
    s = kept(t, &indexed); /* an index is one for all views */
    assert_non_null(s);
    assert_int_equal(s->kind, SOURCE_BODY);
    site_release(t->site, s);
    assert_true(is_kept(t, "/dir/"));
}

/* shows D25 */
static void both_sides_of_the_longest(void **state)
{
    struct tree *t = *state;
    struct http_ask most = ask_for("/most/", "format=text");
    struct http_ask more = ask_for("/more/", "format=text");
    struct http_ask none = ask_for("/none/", "format=text");
    char *body;
    size_t len;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES});
    body = kept_body(t, &most, &len);
    assert_int_equal(len, KEPT_LISTING_MAX);
    free(body);
    free(kept_body(t, &none, &len));
    assert_int_equal(len, 0);
    assert_true(is_never_kept(t, &more));
    body = listed(t, &more, &len); /* a listing too long to keep is made again, whole */
    assert_int_equal(len, KEPT_LISTING_MAX + 1);
    assert_int_equal(body[len - 1], '\n');
    free(body);
}

static void compressed(void **state)
{
    struct tree *t = *state;
    struct http_ask zip = coded("/dir/"), as_it_is = plain("/dir/");
    struct source *s;
    size_t len;
    char *body;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES, .compress = true});
    s = kept(t, &as_it_is);
    assert_non_null(s);
    assert_int_equal(s->coding, CODING_IDENTITY);
    assert_true(s->vary);
    body = body_of(t, s, &len);
    s = kept(t, &zip);
    assert_non_null(s);
    assert_int_equal(s->coding, CODING_GZIP);
    assert_int_equal(s->kind, SOURCE_MADE);
    assert_true(s->size < len / 2);
    assert_gunzips(t, s, body, len);
    free(body);
}

/* --- Changes ---------------------------------------------------------------------------------- */

static void add(const struct tree *t)
{
    make_file(t, "dir/new", "new");
}

static void take_away(const struct tree *t)
{
    assert_int_equal(unlinkat(t->root, "dir/a", 0), 0);
}

static void rename_one(const struct tree *t)
{
    assert_int_equal(renameat(t->root, "dir/a", t->root, "dir/A"), 0);
}

static void put_in_place(const struct tree *t)
{
    make_file(t, "new", "333");
    assert_int_equal(renameat(t->root, "new", t->root, "dir/a"), 0);
}

static void add_an_index(const struct tree *t)
{
    make_file(t, "dir/index.html", "index");
}

static void lock_it(const struct tree *t)
{
    assert_int_equal(fchmodat(t->root, "dir", 0700, 0), 0);
}

static void rename_it(const struct tree *t)
{
    assert_int_equal(renameat(t->root, "dir", t->root, "other"), 0);
}

static void exchange(const struct tree *t)
{
    make_folder(t, "other");
    assert_int_equal(renameat2(t->root, "dir", t->root, "other", RENAME_EXCHANGE), 0);
}

static void remove_it(const struct tree *t)
{
    static const char *const inside[] = {"dir/a", "dir/b", "dir/link"};

    for (size_t i = 0; i < 3; i++)
        assert_int_equal(unlinkat(t->root, inside[i], 0), 0);
    assert_int_equal(unlinkat(t->root, "dir/c", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(t->root, "dir", AT_REMOVEDIR), 0);
}

/* Changes of a folder's entries, its mode or its place are seen by the very next request. */
/* shows D25, K33 */
static void seen_at_once(void **state)
{
    static void (*const changes[])(const struct tree *) = {
        add, take_away, rename_one, put_in_place, add_an_index, lock_it, rename_it, exchange,
        remove_it};
    enum { CHANGES = sizeof(changes) / sizeof(changes[0]) };
    struct tree *t = *state, own = *t;
    struct source *s;
    char path[32];

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES, .ms = 60000});
    for (unsigned i = 0; i < CHANGES; i++) {
        struct http_ask a = plain(path);

        snprintf(path, sizeof(path), "/%u/dir/", i);
        a.path.len = strlen(path);
        own.root = open_own(t, i);
        s = kept(t, &a);
        assert_non_null(s);
        site_release(t->site, s);
        assert_int_equal(site_twin_try(t->site, &a, &s), 0);
        site_release(t->site, s);
        changes[i](&own);
        if (site_twin_try(t->site, &a, &s) != -EINPROGRESS)
            fail_msg("change %u is not seen", i);
        assert_int_equal(counts(t).stale, i + 1);
        close(own.root);
    }
}

/* A folder's attributes do not change when a file in it grows. */
/* shows K33 */
static void sizes_are_two_seconds_old_at_most(void **state)
{
    struct tree *t = *state, own = *t;
    struct http_ask a = ask_for("/9/dir/", "format=json");
    int64_t changed, kept_until = 0;
    size_t len;
    char *body;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES, .ms = 60000});
    own.root = open_own(t, 9);
    free(kept_body(t, &a, &len));
    changed = now_ms();
    overwrite(&own, "dir/a", "7777777");
    for (bool seen = false; !seen;) {
        int64_t asked = now_ms();

        body = listed(t, &a, &len);
        seen = strstr(body, "\"size_bytes\":7,");
        assert_true(seen || asked < changed + AGE_MS + LATE_MS);
        free(body);
        rest_ms(20);
    }
    /* A listing that changes again and again is not kept: each answer is the disk's.  Only if this
     * guest stood still for two seconds, as on a busy host, may one have been kept. */
    for (unsigned i = 0; i < 12; i++) {
        char text[16], size[32];

        memset(text, 'x', sizeof(text));
        text[8 + i % 4] = '\0';
        changed = now_ms();
        make_file(&own, "dir/b", text);
        snprintf(size, sizeof(size), "\"size_bytes\":%u,", 8 + i % 4);
        for (unsigned j = 0; j < 3; j++) {
            int64_t asked = now_ms();

            body = listed(t, &a, &len);
            assert_true(strstr(body, size) || asked < kept_until);
            free(body);
            if (now_ms() >= changed + AGE_MS)
                kept_until = now_ms() + AGE_MS;
            rest_ms(100);
        }
    }
    close(own.root);
}

/* A listing lives for two seconds, requested or not. */
/* shows K37 */
static void two_seconds_of_life(void **state)
{
    struct tree *t = *state;
    struct http_ask a = plain("/dir/");
    int64_t since, asked;
    struct source *s;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES, .ms = 60000});
    since = now_ms();
    s = kept(t, &a);
    assert_non_null(s);
    site_release(t->site, s);
    while (asked = now_ms(), site_twin_try(t->site, &a, &s) == 0) {
        site_release(t->site, s);
        assert_true(asked < since + AGE_MS + LATE_MS);
        rest_ms(10);
    }
    assert_true(now_ms() >= since + AGE_MS - 50);
    assert_int_equal(counts(t).expired, 1);
    assert_int_equal(counts(t).bytes, 0);
}

/* --- Bounds ----------------------------------------------------------------------------------- */

/* shows K33 */
static void bounded_by_bytes(void **state)
{
    struct tree *t = *state;
    struct http_ask large = plain("/large/");
    char path[32];

    open_cached(t, (struct twin_cache){.bytes = SMALL_CACHE, .ms = 60000});
    for (unsigned i = 0; i < FOLDERS; i++) {
        snprintf(path, sizeof(path), "/f%u/", i);
        assert_true(is_kept(t, path));
        assert_true(counts(t).bytes <= SMALL_CACHE);
    }
    assert_true(counts(t).evicted > 0);
    assert_true(is_never_kept(t, &large)); /* there would be room for nothing else */
}

static void *ask_on(void *arg)
{
    struct changer *c = arg;
    struct http_ask a = ask_for("/dir/", "format=json");
    size_t len;

    while (!atomic_load(&c->over)) {
        char *body = listed(c->t, &a, &len);

        if (!strstr(body, "\"folders\":1,\"files\":3,\"others\":0,"))
            abort();
        free(body);
        atomic_fetch_add(&c->rounds, 1);
    }
    return NULL;
}

/* A listing is requested, expires, is made again and is evicted for lack of memory, all at once. */
/* shows K36 */
static void all_at_once(void **state)
{
    enum { ASKERS = 3 };
    struct tree *t = *state;
    struct changer asker[ASKERS] = {{0}};
    int64_t until;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES, .ms = 300});
    for (unsigned i = 0; i < ASKERS; i++) {
        asker[i].t = t;
        assert_int_equal(pthread_create(&asker[i].thread, NULL, ask_on, &asker[i]), 0);
    }
    for (until = now_ms() + 3 * AGE_MS; now_ms() < until; rest_ms(300)) {
        int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);

        assert_int_equal(write(fd, "2", 1), 1);
        close(fd);
    }
    for (unsigned i = 0; i < ASKERS; i++) {
        changer_end(&asker[i]);
        assert_true(atomic_load(&asker[i].rounds) > 10);
    }
    assert_true(counts(t).evicted > 0);
    assert_true(counts(t).hits > counts(t).walks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_view),
        cmocka_unit_test(what_is_not_kept),
        cmocka_unit_test(both_sides_of_the_longest),
        cmocka_unit_test(compressed),
        cmocka_unit_test(seen_at_once),
        cmocka_unit_test(sizes_are_two_seconds_old_at_most),
        cmocka_unit_test(two_seconds_of_life),
        cmocka_unit_test(bounded_by_bytes),
        cmocka_unit_test(all_at_once),
    };

    alarm(300);
    return cmocka_run_group_tests(tests, prepare, tree_tear_down);
}
