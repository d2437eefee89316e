/* SPDX-License-Identifier: MIT */
/* cache_ready.c - whole answers that are ready: for which requests, how long, in how much memory;
 * and that a helper leaves the reader to its loop. */
#include <sys/mman.h>
#include <time.h>
#include "kept.h"

enum { OLD_S = 1600000000, TRIES_MAX = 2000, TIMES = CACHE_READY_TIMES };

static const char *const dates[] = {"Sun, 06 Nov 1994 08:49:37 GMT",
                                    "Sun, 06 Nov 1994 08:49:38 GMT"};
static struct http_host host;
static const struct conn conn = {.host = &host.conn};

static void second(unsigned which)
{
    host.date = dates[which];
    host.date_s = OLD_S + 1000 + which;
}

/* Ask with the number of a head seen before; returns the source, perhaps a ready answer. */
static struct source *again(const char *path, uint64_t number)
{
    struct http_ask ask = {.path = {path, strlen(path)}, .conn = &conn, .again = number};
    struct source *s = NULL;

    memcpy(ask.q, identity, sizeof(ask.q));
    cache_look(reader, now_ms);
    if (!number || !cache_ready(reader, &ask, &s))
        assert_int_equal(cache_find(reader, &ask, &s), 0);
    return s;
}

static bool is_ready(struct tree *t, const char *path, uint64_t number)
{
    struct source *s = again(path, number);
    bool ready = s->whole != NULL;

    cache_source_release(t->site, s);
    return ready;
}

/* A ready answer has the bytes that the core would write. */
static void check(const struct source *s, const char *body)
{
    const struct whole *w = s->whole;
    char head[1024];
    int n = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nServer: rung\r\n"
                     "X-Content-Type-Options: nosniff\r\nDate: %s\r\n%.*s\r\n", host.date,
                     (int)s->fields_len, s->fields);

    assert_int_equal(w->date_s, host.date_s);
    assert_int_equal(w->head_len, n);
    assert_memory_equal(w->bytes, head, (size_t)n);
    assert_int_equal(w->len, (size_t)n + strlen(body));
    assert_ptr_equal(s->bytes, w->bytes + n);
    assert_int_equal(s->size, strlen(body));
    assert_memory_equal(s->bytes, body, strlen(body));
    assert_non_null(strstr(head, "Content-Length: "));
}

/* Ask until the file is kept and its fields are final, as it has not changed for long enough. */
static void settle(struct tree *t, const char *path)
{
    bool final = false;

    for (unsigned i = 0; !final && i < TRIES_MAX; i++) {
        struct source *s = again(path, 0);

        final = s->fields != NULL;
        cache_source_release(t->site, s);
        now_ms += CACHE_UNSETTLED_MS;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_true(final);
}

static void make_old(const struct tree *t, const char *name, const char *body)
{
    make_file(t, name, body);
    set_mtime(t, name, OLD_S, 0);
}

static void make_ready(struct tree *t, const char *path, uint64_t number)
{
    settle(t, path);
    for (unsigned i = 0; i < TIMES; i++)
        assert_int_equal(is_ready(t, path, number), i == TIMES - 1);
}

static void open_ready(struct tree *t, size_t bytes)
{
    second(0);
    open_cache(t, bytes);
}

static uint64_t wholes(void)
{
    return stats_sum(stats, STAT_CACHE_WHOLES);
}

/* --- For which requests ----------------------------------------------------------------------- */

static void who_asks_again(void **state)
{
    struct tree *t = *state;
    struct source *s, *next;
    uint64_t hits;

    make_old(t, "a", "one");
    open_ready(t, PLENTY);
    settle(t, "/a");
    hits = stats_sum(stats, STAT_CACHE_HITS);
    for (unsigned i = 1; i < TIMES; i++)
        assert_false(is_ready(t, "/a", 16));
    s = again("/a", 16);
    check(s, "one");
    next = again("/a", 16);
    assert_ptr_equal(next, s);
    assert_false(is_ready(t, "/a", 0)); /* asked without its number */
    assert_false(is_ready(t, "/a", 17)); /* another head */
    assert_false(is_ready(t, "/a", 32)); /* ... in the same place */
    assert_int_equal(stats_sum(stats, STAT_CACHE_HITS) - hits, TIMES + 4);
    assert_int_equal(wholes(), 1);
    cache_source_release(t->site, s);
    check(next, "one"); /* it no longer has its place */
    cache_source_release(t->site, next);
    close_cache();
}

/* The number stands for the request: another request in its place gets its own answer. */
static void one_place_for_two(void **state)
{
    struct tree *t = *state;

    make_old(t, "a", "one");
    make_old(t, "b", "two");
    open_ready(t, PLENTY);
    make_ready(t, "/a", 1);
    for (unsigned i = 0; i < 2; i++) {
        struct source *s;

        make_ready(t, "/b", 1 + CACHE_READY);
        s = again("/b", 1 + CACHE_READY);
        check(s, "two");
        cache_source_release(t->site, s);
        make_ready(t, "/a", 1);
    }
    assert_int_equal(wholes(), 5);
    close_cache();
}

static void not_what_is_none(void **state)
{
    struct tree *t = *state;

    make_folder(t, "d");
    make_old(t, "empty", "");
    open_ready(t, PLENTY);
    settle(t, "/empty");
    for (unsigned i = 0; i < 3 * TIMES; i++) {
        struct source *s = again("/d", 1);

        assert_int_equal(s->kind, SOURCE_REDIRECT);
        cache_source_release(t->site, s);
        assert_false(is_ready(t, "/empty", 2));
    }
    assert_int_equal(wholes(), 0);
    close_cache();
}

/* --- How long --------------------------------------------------------------------------------- */

static void for_its_second(void **state)
{
    struct tree *t = *state;
    struct source *s;

    make_old(t, "a", "one");
    open_ready(t, PLENTY);
    make_ready(t, "/a", 1);
    second(1);
    for (unsigned i = 1; i < TIMES; i++)
        assert_false(is_ready(t, "/a", 1));
    s = again("/a", 1);
    check(s, "one");
    cache_source_release(t->site, s);
    assert_int_equal(wholes(), 2);
    close_cache();
}

static void until_a_change(void **state)
{
    struct tree *t = *state;
    struct http_ask ask = {.path = {"/a", 2}, .conn = &conn, .again = 1};
    struct source *s, *old;

    make_old(t, "a", "one");
    open_ready(t, PLENTY);
    make_ready(t, "/a", 1);
    old = again("/a", 1);
    write_over(t, "a", "two");
    s = again("/a", 1);
    assert_null(s->whole);
    assert_int_not_equal(old, s);
    cache_source_release(t->site, s);
    check(old, "one"); /* an answer that is being sent stays as it was */
    cache_source_release(t->site, old);
    set_mtime(t, "a", OLD_S, 0);
    make_ready(t, "/a", 1);
    s = again("/a", 1);
    check(s, "two");
    cache_source_release(t->site, s);
    assert_int_equal(unlinkat(t->root, "a", 0), 0);
    cache_look(reader, now_ms);
    assert_false(cache_ready(reader, &ask, &s));
    assert_int_equal(cache_find(reader, &ask, &s), -ENOENT);
    close_cache();
}

/* Another entry ends: the ready answer is looked up again, and is not made again. */
static void others_may_change(void **state)
{
    struct tree *t = *state;
    struct source *s, *other;

    make_old(t, "a", "one");
    make_old(t, "b", "x");
    open_ready(t, PLENTY);
    settle(t, "/b");
    make_ready(t, "/a", 1);
    s = again("/a", 1);
    write_over(t, "b", "y");
    other = again("/a", 1);
    assert_ptr_equal(other, s);
    cache_source_release(t->site, other);
    cache_source_release(t->site, s);
    assert_int_equal(wholes(), 1);
    close_cache();
}

/* A change that sends no event is seen as late as without ready answers: after a second. */
static void until_it_is_compared(void **state)
{
    struct tree *t = *state;
    char *map;
    int fd;

    make_old(t, "a", "one");
    open_ready(t, PLENTY);
    fd = openat(t->root, "a", O_RDWR | O_CLOEXEC);
    map = mmap(NULL, 3, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    make_ready(t, "/a", 1);
    map[0] = 'T';
    assert_true(is_ready(t, "/a", 1));
    now_ms += CACHE_CHECK_MS;
    assert_false(is_ready(t, "/a", 1));
    assert_true(body_is(t, "/a", "Tne"));
    munmap(map, 3);
    close(fd);
    close_cache();
}

/* After a second the entry is still the same, so the answer is ready for one more second. */
static void compared_and_the_same(void **state)
{
    struct tree *t = *state;

    make_old(t, "a", "one");
    open_ready(t, PLENTY);
    make_ready(t, "/a", 1);
    now_ms += CACHE_CHECK_MS;
    assert_true(is_ready(t, "/a", 1));
    assert_int_equal(wholes(), 1);
    close_cache();
}

/* --- In how much memory ----------------------------------------------------------------------- */

/* The size of a whole answer with that file. */
static size_t answer_bytes(struct tree *t, const char *path)
{
    struct source *s = again(path, 0);
    size_t bytes = http_whole_bytes(&host, s);

    cache_source_release(t->site, s);
    return bytes;
}

static void long_answers_are_not_made(void **state)
{
    struct tree *t = *state;
    off_t size = JOINED_BYTES_MAX / 2;

    open_ready(t, PLENTY);
    make_zeros(t, "a", size);
    set_mtime(t, "a", OLD_S, 0);
    settle(t, "/a");
    size += JOINED_BYTES_MAX - (off_t)answer_bytes(t, "/a"); /* four digits, as before */
    for (unsigned more = 0; more < 2; more++) {
        make_zeros(t, "a", size + more);
        set_mtime(t, "a", OLD_S, 0);
        settle(t, "/a");
        assert_int_equal(answer_bytes(t, "/a"), JOINED_BYTES_MAX + more);
        for (unsigned i = 0; i < TIMES; i++)
            is_ready(t, "/a", 1);
        assert_int_equal(is_ready(t, "/a", 1), more == 0);
    }
    close_cache();
}

/* Ready answers get a share of the cache, whichever reader asks; and all of it is given back. */
static void memory_is_bounded(void **state)
{
    struct tree *t = *state;
    const size_t most = LITTLE / CACHE_READY_SHARE;
    struct cache_reader *mine, *other;
    unsigned ready = 0;
    size_t used;
    char name[16];

    open_ready(t, LITTLE);
    mine = reader;
    other = cache_reader_open(cache);
    for (unsigned i = 0; i < 2 * CACHE_READY; i++) {
        snprintf(name, sizeof(name), "/f%u", i);
        make_zeros(t, name + 1, 1000);
        set_mtime(t, name + 1, OLD_S, 0);
        settle(t, name);
        reader = i % 2 ? mine : other;
        for (unsigned n = 0; n < TIMES; n++)
            ready += is_ready(t, name, 100 + i / 2);
        assert_true(atomic_load(&cache->ready_bytes) <= most);
        assert_true(atomic_load(&cache->bytes) <= LITTLE);
    }
    used = atomic_load(&cache->ready_bytes);
    assert_in_range(ready, 2, most / 1000);
    assert_in_range(used, most - 2000, most);
    reader = mine;
    cache_reader_close(other);
    assert_in_range(atomic_load(&cache->ready_bytes), 1, used - 1000);
    close_cache(); /* asserts that nothing is left */
}

/* When another thread has the lock, the answer comes from the entry. */
static void nobody_waits(void **state)
{
    struct tree *t = *state;

    make_old(t, "a", "one");
    open_ready(t, PLENTY);
    settle(t, "/a");
    cache_look(reader, now_ms); /* the removal of watches is an event, too */
    pthread_mutex_lock(&cache->lock);
    for (unsigned i = 0; i < 2 * TIMES; i++)
        assert_false(is_ready(t, "/a", 1));
    pthread_mutex_unlock(&cache->lock);
    second(1);
    make_ready(t, "/a", 1);
    close_cache();
}

/* --- Threads ---------------------------------------------------------------------------------- */

enum { READERS = 3, ASKS = 3000 };

static void *read_often(void *arg)
{
    struct tree *t = arg;
    struct cache_reader *r = cache_reader_open(cache);
    struct http_host mine = {.date = dates[0], .date_s = OLD_S};
    struct conn c = {.host = &mine.conn};
    struct http_ask ask = {.path = {"/a", 2}, .conn = &c, .again = 7};

    for (int i = 0; i < ASKS; i++) {
        struct source *s;

        mine.date_s = OLD_S + i / 1000;
        cache_look(r, START + (uint64_t)i);
        if (!cache_ready(r, &ask, &s))
            assert_int_equal(cache_find(r, &ask, &s), 0);
        if (s->bytes)
            assert_true(memcmp(s->bytes, "one", 3) == 0 || memcmp(s->bytes, "two", 3) == 0);
        if (s->whole)
            assert_memory_equal(s->whole->bytes + s->whole->head_len, s->bytes, 3);
        cache_source_release(t->site, s);
    }
    cache_reader_close(r);
    return NULL;
}

/* Each thread has a ready answer of its own, while the file changes; tsan and asan check them. */
static void many_at_once(void **state)
{
    struct tree *t = *state;
    pthread_t thread[READERS];

    make_old(t, "a", "one");
    open_ready(t, PLENTY);
    settle(t, "/a");
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, read_often, t), 0);
    for (int i = 0; i < 50; i++) {
        const char *body = i % 2 ? "one" : "two";
        struct source *s;

        make_old(t, "b", body);
        assert_int_equal(renameat(t->root, "b", t->root, "a"), 0);
        for (unsigned n = 0; n < 2 * TIMES; n++) {
            body_is(t, "/a", body);
            s = again("/a", 1);
            if (s->bytes)
                assert_memory_equal(s->bytes, body, 3);
            cache_source_release(t->site, s);
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    for (int i = 0; i < READERS; i++)
        pthread_join(thread[i], NULL);
    close_cache();
}

/* --- Which thread has the reader -------------------------------------------------------------- */

enum { LISTED = 32, LOOKS = 4096 };

static void *list_all(void *arg)
{
    struct tree *t = arg;

    for (int i = 0; i < LISTED; i++) {
        struct http_ask ask = {.path = {"/d/", 3}, .q[CODING_IDENTITY] = 1000};
        struct source *s;

        if (cache_list(reader, &ask, &s) == 0)
            cache_source_release(t->site, s);
    }
    return NULL;
}

/* A helper makes listings while the loop goes on looking: they share no part of the reader. */
static void a_loop_and_its_helper(void **state)
{
    struct tree *t = *state;
    pthread_t helper;

    make_folder(t, "d");
    make_file(t, "d/file", "x");
    open_cache(t, 64 * PLENTY);
    assert_int_equal(pthread_create(&helper, NULL, list_all, t), 0);
    for (int i = 0; i < LOOKS; i++)
        cache_look(reader, ++now_ms);
    assert_int_equal(pthread_join(helper, NULL), 0);
    close_cache();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(who_asks_again),        TREE_TEST(one_place_for_two),
        TREE_TEST(not_what_is_none),      TREE_TEST(for_its_second),
        TREE_TEST(until_a_change),        TREE_TEST(others_may_change),
        TREE_TEST(until_it_is_compared),  TREE_TEST(compared_and_the_same),
        TREE_TEST(long_answers_are_not_made), TREE_TEST(memory_is_bounded),
        TREE_TEST(nobody_waits),          TREE_TEST(many_at_once),
        TREE_TEST(a_loop_and_its_helper),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
