/* SPDX-License-Identifier: MIT */
/* kept.h - a cache in front of a tree's site, and short ways to query it as a loop does. */
#ifndef TESTS_UNIT_KEPT_H
#define TESTS_UNIT_KEPT_H
#include "../../server/cache_inside.h"
#include "tree.h"

enum { PLENTY = 8 << 20, LITTLE = 64 << 10, START = 5000 };

static struct stats *stats;
static struct cache *cache;
static struct cache_reader *reader;
static uint64_t now_ms;

static inline void open_cache_as(struct tree *t, struct cache_limits limits)
{
    now_ms = START;
    assert_int_equal(stats_open(&stats, 1), 0);
    cache = cache_share(t->site, limits, stats);
    reader = cache_reader_open(cache);
}

static inline void open_cache(struct tree *t, size_t bytes)
{
    open_cache_as(t, (struct cache_limits){.bytes = bytes});
}

static inline void close_cache(void)
{
    cache_reader_close(reader);
    cache_leave(cache);
    stats_close(stats);
}

/* Ask as a loop does: a received request may have been sent after a change. */
static inline int ask_as(const char *path, const uint16_t q[CODINGS], struct source **s)
{
    struct http_ask ask = {.path = {path, strlen(path)}};

    memcpy(ask.q, q, sizeof(ask.q));
    cache_look(reader, now_ms);
    return cache_find(reader, &ask, s);
}

static const uint16_t identity[CODINGS] = {[CODING_IDENTITY] = 1000};
static const uint16_t all[CODINGS] = {1000, 1000, 1000, 1000};

static inline bool is_kept(const struct source *s)
{
    return ((const struct site_source *)s)->entry != NULL;
}

/* Require 200 with that body; return whether it comes from memory. */
static inline bool body_is(struct tree *t, const char *path, const char *body)
{
    struct source *s = NULL;
    char text[256] = "";
    bool kept;

    assert_int_equal(ask_as(path, identity, &s), 0);
    assert_int_equal(s->kind, SOURCE_BODY);
    assert_int_equal(s->size, strlen(body));
    if (s->bytes)
        memcpy(text, s->bytes, s->size);
    else
        assert_int_equal(pread(site_source_fd(s), text, sizeof(text), 0), s->size);
    assert_memory_equal(text, body, strlen(body));
    kept = is_kept(s);
    cache_source_release(t->site, s);
    return kept;
}

static inline int error_of(struct tree *t, const char *path)
{
    struct source *s = NULL;
    int err = ask_as(path, identity, &s);

    if (!err)
        cache_source_release(t->site, s);
    return err;
}

/* Request a file often enough for it to be kept. */
static inline void warm(struct tree *t, const char *path, const char *body)
{
    body_is(t, path, body);
    body_is(t, path, body);
    assert_true(body_is(t, path, body));
}

static inline void make_zeros(const struct tree *t, const char *name, off_t size)
{
    int fd = openat(t->root, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    char *zeros = calloc(1, (size_t)size); /* a hole is not in memory */

    assert_true(fd >= 0 && zeros);
    assert_int_equal(write(fd, zeros, (size_t)size), size);
    free(zeros);
    close(fd);
}

static inline void write_over(struct tree *t, const char *name, const char *bytes)
{
    int fd = openat(t->root, name, O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, strlen(bytes), 0), strlen(bytes));
    close(fd);
}

#endif
