/* SPDX-License-Identifier: MIT */
/* cache.c - answers that are kept: from the second request on, until something changes, and exactly
 * those that may be.  Every test counts descriptors before and after.
 */
#include <poll.h>
#include <sys/mman.h>
#include "kept.h"

/* --- Kept answers ----------------------------------------------------------------------------- */

static void kept_from_the_second_time(void **state)
{
    struct tree *t = *state;

    make_folder(t, "d");
    make_file(t, "d/a.html", "hello");
    set_mtime(t, "d/a.html", 1600000000, 5);
    open_cache(t, PLENTY);
    assert_false(body_is(t, "/d/a.html", "hello"));
    assert_true(body_is(t, "/d/a.html", "hello"));
    assert_int_equal(stats_sum(stats, STAT_CACHE_HITS), 0);
    assert_true(body_is(t, "/d/a.html", "hello"));
    assert_int_equal(stats_sum(stats, STAT_CACHE_HITS), 1);
    assert_int_equal(stats_sum(stats, STAT_CACHE_FILLS), 1);
    close_cache();
}

/* Everything that an answer says about the file is the same as without a cache. */
static void the_same_source(void **state)
{
    struct tree *t = *state;
    struct source *a, *b;

    make_file(t, "a.html", "hello");
    open_cache(t, PLENTY);
    warm(t, "/a.html", "hello");
    assert_int_equal(find(t, "/a.html", &a), 0);
    assert_int_equal(ask_as("/a.html", identity, &b), 0);
    assert_true(is_kept(b));
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->coding, b->coding);
    assert_int_equal(a->vary, b->vary);
    assert_int_equal(a->size, b->size);
    assert_ptr_equal(a->type, b->type);
    assert_int_equal(a->inode, b->inode);
    assert_int_equal(a->mtime_s, b->mtime_s);
    assert_int_equal(a->mtime_ns, b->mtime_ns);
    assert_int_equal(a->ctime_s, b->ctime_s);
    assert_int_equal(a->ctime_ns, b->ctime_ns);
    cache_source_release(t->site, a);
    cache_source_release(t->site, b);
    close_cache();
}

static void an_empty_file(void **state)
{
    struct tree *t = *state;

    make_file(t, "empty.txt", "");
    open_cache(t, PLENTY);
    warm(t, "/empty.txt", "");
    close_cache();
}

static void what_is_not_there(void **state)
{
    struct tree *t = *state;

    make_file(t, "file", "x");
    open_cache(t, PLENTY);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(error_of(t, "/none"), -ENOENT);
        assert_int_equal(error_of(t, "/none/below"), -ENOENT);
        assert_int_equal(error_of(t, "/file/below"), -ENOENT);
    }
    assert_int_equal(stats_sum(stats, STAT_CACHE_HITS), 3);
    make_folder(t, "none");
    make_file(t, "none/below", "here");
    assert_false(body_is(t, "/none/below", "here"));
    assert_int_equal(unlinkat(t->root, "file", 0), 0);
    make_folder(t, "file");
    make_file(t, "file/below", "too");
    assert_false(body_is(t, "/file/below", "too"));
    close_cache();
}

/* The removal of a folder that is open sends no event to itself. */
static void the_root_goes(void **state)
{
    struct tree *t = *state;
    char root[300];

    open_cache(t, PLENTY);
    for (int i = 0; i < 3; i++)
        assert_int_equal(error_of(t, "/none"), -ENOENT);
    assert_int_equal(stats_sum(stats, STAT_CACHE_HITS), 1);
    snprintf(root, sizeof(root), "%s/root", t->top);
    assert_int_equal(rmdir(root), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(error_of(t, "/none"), -ESTALE);
    close_cache();
}

static void a_redirect(void **state)
{
    struct tree *t = *state;
    struct source *s;

    make_folder(t, "d");
    open_cache(t, PLENTY);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask_as("/d", identity, &s), 0);
        assert_int_equal(s->kind, SOURCE_REDIRECT);
        assert_int_equal(is_kept(s), i > 0);
        cache_source_release(t->site, s);
    }
    assert_int_equal(unlinkat(t->root, "d", AT_REMOVEDIR), 0);
    make_file(t, "d", "a file");
    assert_false(body_is(t, "/d", "a file"));
    close_cache();
}

static void an_index(void **state)
{
    struct tree *t = *state;

    make_folder(t, "d");
    make_file(t, "d/index.html", "index");
    make_file(t, "index.html", "top");
    open_cache(t, PLENTY);
    warm(t, "/d/", "index");
    warm(t, "/", "top");
    assert_int_equal(unlinkat(t->root, "d/index.html", 0), 0);
    assert_int_equal(error_of(t, "/d/"), -EINPROGRESS); /* a listing */
    assert_int_equal(error_of(t, "/d/"), -EINPROGRESS);
    assert_int_equal(error_of(t, "/d/"), -EINPROGRESS);
    assert_true(body_is(t, "/", "top"));
    close_cache();
}

static void pages_for_errors(void **state)
{
    struct tree *t = *state;
    struct source *s;

    open_cache(t, PLENTY);
    for (int i = 0; i < 3; i++) {
        cache_look(reader, now_ms);
        assert_int_equal(cache_page(reader, 404, &s), -ENOENT);
    }
    assert_int_equal(stats_sum(stats, STAT_CACHE_HITS), 1);
    make_file(t, "404.html", "sorry");
    for (int i = 0; i < 3; i++) {
        cache_look(reader, now_ms);
        assert_int_equal(cache_page(reader, 404, &s), 0);
        assert_int_equal(is_kept(s), i > 0);
        cache_source_release(t->site, s);
    }
    close_cache();
}

/* None of these may be kept, however often it is requested. */
static void what_is_not_kept(void **state)
{
    struct tree *t = *state;

    make_folder(t, "d");
    make_file(t, "d/a", "real");
    make_file(t, "secret", "x");
    make_file(t, ".hidden", "x");
    assert_int_equal(fchmodat(t->root, "secret", 0, 0), 0);
    assert_int_equal(symlinkat("d", t->root, "way"), 0);
    assert_int_equal(symlinkat("d/a", t->root, "link"), 0);
    assert_int_equal(mkfifoat(t->root, "fifo", 0644), 0);
    make_zeros(t, "big", CACHE_BODY_BYTES_MAX + 1);
    open_cache(t, PLENTY);
    for (int i = 0; i < 4; i++) {
        assert_false(body_is(t, "/way/a", "real"));
        assert_false(body_is(t, "/link", "real"));
        assert_int_equal(error_of(t, "/secret"), -EACCES);
        assert_int_equal(error_of(t, "/fifo"), -EACCES);
        assert_int_equal(error_of(t, "/.hidden"), -ENOENT);
        assert_int_equal(error_of(t, "/d/"), -EINPROGRESS);
        assert_int_equal(error_of(t, "/big"), 0);
    }
    assert_int_equal(stats_sum(stats, STAT_CACHE_FILLS), 0);
    assert_int_equal(cache->watches, 0);
    make_zeros(t, "big", CACHE_BODY_BYTES_MAX);
    for (int i = 0; i < 2; i++)
        assert_int_equal(error_of(t, "/big"), 0);
    assert_int_equal(stats_sum(stats, STAT_CACHE_FILLS), 1);
    close_cache();
}

/* Where a file is read to be sent, as for TLS, larger ones are kept, though not compressed. */
static void larger_files_are_kept(void **state)
{
    static const struct {
        size_t cache, size;
        uint64_t fills;
    } rows[] = {{PLENTY, CACHE_READ_BYTES_MAX, 1},
                {PLENTY, CACHE_READ_BYTES_MAX + 1, 0},
                {LITTLE, LITTLE / CACHE_BODY_SHARE, 1},
                {LITTLE, LITTLE / CACHE_BODY_SHARE + 1, 0}};
    struct tree *t = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        make_zeros(t, "file", (off_t)rows[i].size);
        open_cache_as(t, (struct cache_limits){.bytes = rows[i].cache, .reads = true});
        for (int again = 0; again < 3; again++)
            assert_int_equal(error_of(t, "/file"), 0);
        assert_int_equal(stats_sum(stats, STAT_CACHE_FILLS), rows[i].fills);
        assert_true(site_compress_max(t->site) <= CACHE_BODY_BYTES_MAX);
        close_cache();
    }
}

/* --- Changes that end an entry ---------------------------------------------------------------- */

static void every_change_counts(void **state)
{
    struct tree *t = *state;

    make_folder(t, "d");
    make_folder(t, "e");
    make_file(t, "d/a", "old");
    open_cache(t, PLENTY);
    for (int i = 0; i < 20; i++) {
        warm(t, "/d/a", "old");
        write_over(t, "d/a", "new");
        assert_false(body_is(t, "/d/a", "new"));
        warm(t, "/d/a", "new");
        make_file(t, "d/b", "old");
        assert_int_equal(renameat(t->root, "d/b", t->root, "d/a"), 0);
        warm(t, "/d/a", "old");
        assert_int_equal(unlinkat(t->root, "d/a", 0), 0);
        assert_int_equal(error_of(t, "/d/a"), -ENOENT);
        assert_int_equal(error_of(t, "/d/a"), -ENOENT);
        make_file(t, "d/a", "old");
        warm(t, "/d/a", "old");
        assert_int_equal(renameat(t->root, "d", t->root, "e/d"), 0);
        assert_int_equal(error_of(t, "/d/a"), -ENOENT);
        warm(t, "/e/d/a", "old");
        assert_int_equal(renameat(t->root, "e/d", t->root, "d"), 0);
        assert_int_equal(error_of(t, "/e/d/a"), -ENOENT);
    }
    close_cache();
}

/* A change through a descriptor whose name is elsewhere, or gone. */
static void a_change_by_another_name(void **state)
{
    struct tree *t = *state;
    int fd;

    make_file(t, "a", "old");
    assert_int_equal(linkat(t->root, "a", t->root, "../outside/other", 0), 0);
    fd = openat(t->root, "../outside/other", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    open_cache(t, PLENTY);
    warm(t, "/a", "old");
    assert_int_equal(pwrite(fd, "new", 3, 0), 3);
    warm(t, "/a", "new");
    assert_int_equal(unlinkat(t->root, "../outside/other", 0), 0);
    warm(t, "/a", "new");
    assert_int_equal(pwrite(fd, "old", 3, 0), 3);
    assert_false(body_is(t, "/a", "old"));
    close(fd);
    close_cache();
}

/* Only root is served by modes; for other users the kernel itself refuses. */
static void modes_count(void **state)
{
    struct tree *t = *state;

    make_folder(t, "d");
    make_file(t, "d/a", "text");
    open_cache(t, PLENTY);
    warm(t, "/d/a", "text");
    assert_int_equal(fchmodat(t->root, "d", 0700, 0), 0);
    assert_int_equal(error_of(t, "/d/a"), geteuid() ? 0 : -EACCES);
    assert_int_equal(fchmodat(t->root, "d", 0755, 0), 0);
    warm(t, "/d/a", "text");
    assert_int_equal(fchmodat(t->root, "d/a", 0, 0), 0);
    assert_int_equal(error_of(t, "/d/a"), -EACCES);
    close_cache();
}

/* Stores through a mapping send no event: they are seen a second later. */
static void a_mapping(void **state)
{
    struct tree *t = *state;
    int fd;
    char *map;

    make_file(t, "a.bin", "old");
    set_mtime(t, "a.bin", 1600000000, 5);
    fd = openat(t->root, "a.bin", O_RDWR | O_CLOEXEC);
    map = mmap(NULL, 3, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(fd >= 0 && map != MAP_FAILED);
    poll(NULL, 0, 2100); /* until its times are settled: see core/stamp.c */
    open_cache(t, PLENTY);
    warm(t, "/a.bin", "old");
    memcpy(map, "new", 3);
    now_ms += CACHE_CHECK_MS;
    assert_true(body_is(t, "/a.bin", "new"));
    now_ms += CACHE_CHECK_MS;
    assert_true(body_is(t, "/a.bin", "new"));
    munmap(map, 3);
    close(fd);
    close_cache();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(kept_from_the_second_time),
        TREE_TEST(the_same_source),
        TREE_TEST(an_empty_file),
        TREE_TEST(what_is_not_there),
        TREE_TEST(the_root_goes),
        TREE_TEST(a_redirect),
        TREE_TEST(an_index),
        TREE_TEST(pages_for_errors),
        TREE_TEST(what_is_not_kept),
        TREE_TEST(larger_files_are_kept),
        TREE_TEST(every_change_counts),
        TREE_TEST(a_change_by_another_name),
        TREE_TEST(modes_count),
        TREE_TEST(a_mapping),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
