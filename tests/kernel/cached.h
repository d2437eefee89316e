/* SPDX-License-Identifier: MIT */
/* cached.h - a tree whose site keeps files in memory, and how to query what it has there. */
#ifndef TESTS_KERNEL_CACHED_H
#define TESTS_KERNEL_CACHED_H
#include <time.h>
#include <zlib.h>
#include "../unit/tree.h"
#include "twin_site.h"

enum { CACHE_BYTES = 8 << 20, KEPT_MAX = 256 << 10, PATIENCE_MS = 5000 };

static const struct site_options usual_cached = {
    .rules = {.listing = true, .precompressed = true}};

static inline void open_cached(struct tree *t, struct twin_cache cache)
{
    site_twin_cache = cache;
    tree_open_site(t, &usual_cached);
}

static inline int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static inline void rest_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static inline struct http_ask plain(const char *path)
{
    return ask_for(path, "");
}

static inline struct http_ask coded(const char *path)
{
    struct http_ask a = ask_for(path, "");

    a.q[CODING_GZIP] = 1000;
    return a;
}

/* Ask until the answer is kept, because a fresh change is not kept yet.  The source, or NULL. */
static inline struct source *kept(const struct tree *t, const struct http_ask *a)
{
    int64_t deadline = now_ms() + PATIENCE_MS;
    struct source *s;

    while (site_twin_try(t->site, a, &s)) {
        if (now_ms() > deadline)
            return NULL;
        if (site_find(t->site, a, true, &s) == 0)
            site_release(t->site, s);
        rest_ms(5);
    }
    return s;
}

static inline bool is_kept(const struct tree *t, const char *path)
{
    struct http_ask a = plain(path);
    struct source *s = kept(t, &a);

    if (s)
        site_release(t->site, s);
    return s;
}

/* Whether the answer is never kept, although it is asked for again and again for a while. */
static inline bool is_never_kept(const struct tree *t, const struct http_ask *a)
{
    struct source *s;

    for (int i = 0; i < 20; i++) {
        if (site_find(t->site, a, true, &s) == 0)
            site_release(t->site, s);
        if (site_twin_try(t->site, a, &s) == 0) {
            site_release(t->site, s);
            return false;
        }
        rest_ms(10);
    }
    return true;
}

static inline int try_once(const struct tree *t, const char *path)
{
    struct http_ask a = plain(path);
    struct source *s;
    int err = site_twin_try(t->site, &a, &s);

    if (!err)
        site_release(t->site, s);
    return err;
}

static inline struct twin counts(const struct tree *t)
{
    struct twin w;

    site_twin_count(t->site, &w);
    return w;
}

static inline void make_bytes(const struct tree *t, const char *path, const char *bytes, size_t n)
{
    int fd = openat(t->root, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

static inline void overwrite(const struct tree *t, const char *path, const char *text)
{
    int fd = openat(t->root, path, O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, text, strlen(text), 0), strlen(text));
    close(fd);
}

static inline void assert_gunzips(const struct tree *t, struct source *s, const char *content,
                                  size_t n)
{
    z_stream z = {0};
    size_t len;
    char *body = body_of(t, s, &len), *out = malloc(n + 1);

    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK); /* gzip only; checks the sum and length */
    z.next_in = (unsigned char *)body;
    z.avail_in = (unsigned)len;
    z.next_out = (unsigned char *)out;
    z.avail_out = (unsigned)n + 1;
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.total_out, n);
    assert_int_equal(z.avail_in, 0);
    assert_memory_equal(out, content, n);
    inflateEnd(&z);
    free(out);
    free(body);
}

#endif
