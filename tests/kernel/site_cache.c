/* SPDX-License-Identifier: MIT */
/* site_cache.c - files that the kernel's site keeps in memory: queried without sleeping, it answers
 * as the disk would, as gzip where that is smaller, and stays within its bounds.  Runs in a guest,
 * as root (ksite.py).
 */
#include "cached.h"

/* --- The same answer -------------------------------------------------------------------------- */

static void the_same_answer(void **state)
{
    struct tree *t = *state;
    struct http_ask a = plain("/dir/page.html");
    struct source *disk, *memory;
    struct twin w;
    size_t len;
    char *body;

    make_folder(t, "dir");
    make_file(t, "dir/page.html", "<p>hello");
    make_file(t, "dir/index.html", "index");
    make_file(t, "empty", "");
    set_mtime(t, "dir/page.html", 1600000000, 123456789);
    assert_int_equal(site_find(t->site, &a, true, &disk), 0);
    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES});
    assert_int_equal(try_once(t, "/dir/page.html"), -EINPROGRESS);
    memory = kept(t, &a);
    assert_non_null(memory);
    assert_non_null(memory->bytes);
    assert_null(memory->file);
    assert_int_equal(memory->kind, SOURCE_BODY);
    assert_int_equal(memory->size, disk->size);
    assert_int_equal(memory->inode, disk->inode);
    assert_int_equal(memory->mtime_s, disk->mtime_s);
    assert_int_equal(memory->mtime_ns, disk->mtime_ns);
    assert_int_equal(memory->ctime_s, disk->ctime_s);
    assert_int_equal(memory->ctime_ns, disk->ctime_ns);
    assert_int_equal(memory->vary, disk->vary);
    assert_string_equal(memory->type, disk->type);
    body = body_of(t, memory, &len);
    assert_string_equal(body, "<p>hello");
    free(body);
    free(disk); /* it belongs to another site, which is closed */
    /* An index by its folder's name, and a file without a byte. */
    a = plain("/dir/");
    memory = kept(t, &a);
    assert_non_null(memory);
    body = body_of(t, memory, &len);
    assert_string_equal(body, "index");
    free(body);
    assert_true(is_kept(t, "/empty"));
    w = counts(t);
    assert_int_equal(w.entries, 3);
    assert_true(w.hits >= 3);
    assert_true(w.misses >= 3);
}

static void what_is_not_kept(void **state)
{
    struct tree *t = *state;
    char path[600], *big = calloc(1, KEPT_MAX + 2);
    struct http_ask a;
    int fd;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES});
    make_folder(t, "dir");
    make_file(t, "dir/file", "x");
    make_link(t, "dir", "link");
    make_link(t, "dir/file", "name");
    make_folder(t, "dir/empty");
    /* Reached through a link; folders and redirects; a missing name. */
    const char *const never[] = {"/link/file", "/name", "/dir", "/dir/empty/", "/nothing"};
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
        a = plain(never[i]);
        assert_true(is_never_kept(t, &a));
    }
    assert_true(is_kept(t, "/dir/file"));
    /* A body of the largest size, and one byte more. */
    memset(big, 'b', KEPT_MAX + 1);
    make_file(t, "big", big);
    a = plain("/big");
    assert_true(is_never_kept(t, &a));
    fd = openat(t->root, "big", O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, KEPT_MAX), 0);
    close(fd);
    assert_true(is_kept(t, "/big"));
    free(big);
    /* ... and a path of the greatest length, and one byte more. */
    memset(path, 'd', sizeof(path));
    path[0] = path[201] = path[402] = '/';
    path[201] = path[402] = '\0';
    make_folder(t, path + 1);
    path[201] = '/';
    make_folder(t, path + 1);
    path[402] = '/';
    path[512] = '\0';
    make_file(t, path + 1, "x");
    assert_true(is_kept(t, path));
    path[512] = 'd';
    path[513] = '\0';
    make_file(t, path + 1, "x");
    a = plain(path);
    assert_true(is_never_kept(t, &a));
}

/* --- Siblings and gzip ------------------------------------------------------------------------ */

static void siblings_come_and_go(void **state)
{
    struct tree *t = *state;
    struct http_ask a = coded("/page.html"), p = plain("/page.html");
    struct source *s;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES});
    make_file(t, "page.html", "plain");
    s = kept(t, &a);
    assert_int_equal(s->coding, CODING_IDENTITY);
    assert_false(s->vary);
    site_release(t->site, s);
    assert_int_equal(try_once(t, "/page.html"), 0); /* one answer for all */
    make_file(t, "page.html.gz", "gzip");
    assert_int_equal(site_twin_try(t->site, &a, &s), -EINPROGRESS);
    s = kept(t, &a);
    assert_int_equal(s->coding, CODING_GZIP);
    assert_true(s->vary);
    site_release(t->site, s);
    assert_int_equal(try_once(t, "/page.html"), -EINPROGRESS); /* other clients get another */
    s = kept(t, &p);
    assert_int_equal(s->coding, CODING_IDENTITY);
    assert_true(s->vary);
    site_release(t->site, s);
    assert_int_equal(counts(t).entries, 2);
    /* The original is written: its sibling is too old. */
    overwrite(t, "page.html", "PLAIN");
    assert_int_equal(site_twin_try(t->site, &a, &s), -EINPROGRESS);
    s = kept(t, &a);
    assert_int_equal(s->coding, CODING_IDENTITY);
    site_release(t->site, s);
    /* The sibling is written, so it is newer again.  That does not change its folder. */
    make_file(t, "page.html.gz", "GZIP");
    rest_ms(50);
    assert_int_equal(unlinkat(t->root, "page.html.gz", 0), 0);
    assert_int_equal(site_twin_try(t->site, &a, &s), -EINPROGRESS);
}

/* shows D26, K38 */
static void compressed(void **state)
{
    static const size_t sizes[] = {512, 513, 4095, 4096, 4097, 16384, 16385, 70000, KEPT_MAX};
    struct tree *t = *state;
    char *text = malloc(KEPT_MAX + 1);
    struct http_ask a, p;
    struct source *s;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES, .compress = true});
    for (size_t i = 0; i < KEPT_MAX; i++)
        text[i] = "the quick brown fox, a lazy dog\n"[(i * i / 7 + i) % 32];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char path[32];

        snprintf(path, sizeof(path), "/t%zu.txt", sizes[i]);
        make_bytes(t, path + 1, text, sizes[i]);
        a = coded(path);
        s = kept(t, &a);
        assert_non_null(s);
        assert_int_equal(s->coding, CODING_GZIP);
        assert_true(s->vary);
        assert_true(s->size <= sizes[i] - sizes[i] / 8);
        assert_gunzips(t, s, text, sizes[i]);
        p = plain(path); /* clients that do not take gzip get the file, with Vary */
        s = kept(t, &p);
        assert_int_equal(s->coding, CODING_IDENTITY);
        assert_int_equal(s->size, sizes[i]);
        assert_true(s->vary);
        site_release(t->site, s);
    }
    free(text);
}

/* shows D26, K38 */
static void not_compressed(void **state)
{
    struct tree *t = *state;
    static char noise[20000], text[600];
    uint32_t x = 1;
    struct http_ask a;
    struct source *s;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES, .compress = true});
    for (size_t i = 0; i < sizeof(noise); i++) {
        x = x * 1664525 + 1013904223;
        noise[i] = (char)(x >> 24);
    }
    memset(text, 't', sizeof(text));
    make_bytes(t, "noise.txt", noise, sizeof(noise)); /* does not get smaller: sent as it is */
    a = coded("/noise.txt");
    s = kept(t, &a);
    assert_int_equal(s->coding, CODING_IDENTITY);
    assert_int_equal(s->size, sizeof(noise));
    assert_memory_equal(s->bytes, noise, sizeof(noise));
    site_release(t->site, s);
    make_bytes(t, "small.txt", text, 511);
    make_bytes(t, "image.png", text, 600);
    for (unsigned i = 0; i < 2; i++) {
        a = coded(i ? "/image.png" : "/small.txt");
        s = kept(t, &a);
        assert_int_equal(s->coding, CODING_IDENTITY);
        assert_false(s->vary);
        site_release(t->site, s);
    }
    /* gzip liked less than the file itself; and a sibling, which is preferred. */
    make_bytes(t, "text.txt", text, 600);
    a = coded("/text.txt");
    a.q[CODING_GZIP] = 500;
    a.q[CODING_IDENTITY] = 1000;
    s = kept(t, &a);
    assert_int_equal(s->coding, CODING_IDENTITY);
    site_release(t->site, s);
    make_bytes(t, "text.txt.gz", "sibling", 7);
    a = coded("/text.txt");
    s = kept(t, &a);
    assert_int_equal(s->coding, CODING_GZIP);
    assert_memory_equal(s->bytes, "sibling", 7);
    site_release(t->site, s);
}

/* --- Bounds ----------------------------------------------------------------------------------- */

static void bounded_by_bytes(void **state)
{
    enum { FILES = 100, SMALL_CACHE = 128 << 10 };
    struct tree *t = *state;
    static char page[4096];
    char path[32];
    struct twin w;

    open_cached(t, (struct twin_cache){.bytes = SMALL_CACHE, .ms = 60000});
    memset(page, 'p', sizeof(page));
    for (unsigned i = 0; i < FILES; i++) {
        snprintf(path, sizeof(path), "f%u", i);
        make_bytes(t, path, page, sizeof(page));
    }
    rest_ms(100);
    for (unsigned i = 0; i < FILES; i++) {
        snprintf(path, sizeof(path), "/f%u", i);
        assert_true(is_kept(t, path));
        assert_true(counts(t).bytes <= SMALL_CACHE);
        assert_true(is_kept(t, "/f0")); /* a requested entry stays */
        rest_ms(10);
    }
    w = counts(t);
    assert_true(w.evicted >= FILES - SMALL_CACHE / sizeof(page));
    assert_true(w.entries > 20 && w.entries <= SMALL_CACHE / sizeof(page));
    assert_int_equal(try_once(t, "/f0"), 0);
    assert_int_equal(try_once(t, "/f99"), 0);
    assert_int_equal(try_once(t, "/f1"), -EINPROGRESS);
}

/* Ask for the file again and again for that long, and return how often its entry expired meanwhile.
 * An entry may expire only if this guest stood still for as long as an entry lives, as on a busy
 * host. */
static unsigned ask_for_ms(const struct tree *t, int64_t ms, int64_t life_ms)
{
    enum { TICK_MS = 10 };
    int64_t began = now_ms(), asked = began;
    unsigned lost = 0;

    assert_true(is_kept(t, "/file"));
    while (now_ms() < began + ms) {
        int64_t before = now_ms();

        if (try_once(t, "/file")) {
            assert_true(now_ms() >= asked + life_ms - TICK_MS);
            assert_true(is_kept(t, "/file"));
            lost++;
        }
        asked = before;
        rest_ms(20);
    }
    return lost;
}

/* shows K37 */
static void nobody_asks(void **state)
{
    enum { LIFE_MS = 300 };
    struct tree *t = *state;
    int64_t deadline = now_ms() + 20000;
    unsigned lost;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES, .ms = LIFE_MS});
    make_file(t, "file", "x");
    make_file(t, "other", "x");
    assert_true(is_kept(t, "/other"));
    lost = ask_for_ms(t, 5 * LIFE_MS, LIFE_MS); /* a requested entry stays */
    assert_int_equal(try_once(t, "/other"), -EINPROGRESS);
    while (counts(t).entries) {
        assert_true(now_ms() < deadline);
        rest_ms(20);
    }
    assert_int_equal(counts(t).expired, lost + 2);
    assert_int_equal(counts(t).bytes, 0);
}

/* The kernel reclaims memory: every entry goes, but a body that is being sent stays whole. */
static void memory_is_short(void **state)
{
    struct tree *t = *state;
    struct http_ask a = plain("/file1");
    int64_t deadline = now_ms() + PATIENCE_MS;
    struct source *s;
    char path[32];
    int fd;

    open_cached(t, (struct twin_cache){.bytes = CACHE_BYTES, .ms = 60000});
    for (unsigned i = 0; i < 10; i++) {
        snprintf(path, sizeof(path), "/file%u", i);
        make_file(t, path + 1, "content");
        assert_true(is_kept(t, path));
    }
    assert_int_equal(site_twin_try(t->site, &a, &s), 0);
    do {
        fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, "2", 1), 1);
        close(fd);
        assert_true(now_ms() < deadline);
    } while (counts(t).entries);
    assert_int_equal(counts(t).evicted, 10);
    assert_memory_equal(s->bytes, "content", 7);
    site_release(t->site, s);
    assert_true(is_kept(t, "/file1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(the_same_answer),
        TREE_TEST(what_is_not_kept),
        TREE_TEST(siblings_come_and_go),
        TREE_TEST(compressed),
        TREE_TEST(not_compressed),
        TREE_TEST(bounded_by_bytes),
        TREE_TEST(nobody_asks),
        TREE_TEST(memory_is_short),
    };

    alarm(300);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
