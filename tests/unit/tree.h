/* SPDX-License-Identifier: MIT */
/* tree.h - a folder for the test under TMPDIR, a site that serves its "root", and short ways to
 * make files in it and to request them.  "root" has a neighbour "outside" that must never be
 * seen.
 */
#ifndef TESTS_UNIT_TREE_H
#define TESTS_UNIT_TREE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../../core/http_inside.h"
#include "../../server/site_inside.h"

struct tree {
    char top[256];
    int root;            /* descriptor of root/ */
    unsigned descriptors; /* open with the tree and without the site */
    struct site *site;
};

static inline unsigned open_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static inline void tree_open_site(struct tree *t, const struct site_options *opt)
{
    struct site_options o = *opt;
    char root[300];
    const char *why;

    if (t->site)
        site_close(t->site);
    snprintf(root, sizeof(root), "%s/root", t->top);
    o.root = root;
    assert_int_equal(site_open(&t->site, &o, &why), 0);
}

static const struct site_options usual = {.rules.listing = true, .rules.precompressed = true};

static inline int tree_set_up(void **state)
{
    struct tree *t = calloc(1, sizeof(*t));
    const char *tmp = getenv("TMPDIR");
    char path[300];

    assert_non_null(t);
    snprintf(t->top, sizeof(t->top), "%s/rung-site-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(t->top));
    assert_int_equal(chmod(t->top, 0755), 0);
    snprintf(path, sizeof(path), "%s/outside", t->top);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/root", t->top);
    assert_int_equal(mkdir(path, 0755), 0);
    t->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(t->root >= 0);
    t->descriptors = open_descriptors();
    tree_open_site(t, &usual);
    *state = t;
    return 0;
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline int tree_tear_down(void **state)
{
    struct tree *t = *state;

    assert_int_equal(atomic_load(&t->site->shared->listings_bytes), 0);
    site_close(t->site);
    assert_int_equal(open_descriptors(), t->descriptors);
    close(t->root);
    nftw(t->top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(t);
    return 0;
}

#define TREE_TEST(name) cmocka_unit_test_setup_teardown(name, tree_set_up, tree_tear_down)

/* A thread that changes the tree again and again, while the test requests the changed files. */
struct changer {
    void (*once)(const struct tree *t, void *arg, unsigned round);
    const struct tree *t;
    void *arg;
    pthread_t thread;
    atomic_bool over;
    atomic_uint rounds;
};

static inline void *changer_main(void *arg)
{
    struct changer *c = arg;

    while (!atomic_load(&c->over))
        c->once(c->t, c->arg, atomic_fetch_add(&c->rounds, 1));
    return NULL;
}

static inline void changer_begin(struct changer *c)
{
    assert_int_equal(pthread_create(&c->thread, NULL, changer_main, c), 0);
}

static inline void changer_end(struct changer *c)
{
    atomic_store(&c->over, true);
    pthread_join(c->thread, NULL);
}

static inline void make_file(const struct tree *t, const char *path, const char *content)
{
    int fd = openat(t->root, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    close(fd);
}

static inline void make_folder(const struct tree *t, const char *path)
{
    assert_int_equal(mkdirat(t->root, path, 0755), 0);
}

static inline void make_link(const struct tree *t, const char *target, const char *path)
{
    assert_int_equal(symlinkat(target, t->root, path), 0);
}

static inline void set_mtime(const struct tree *t, const char *path, time_t s, long ns)
{
    struct timespec times[2] = {{.tv_sec = s, .tv_nsec = ns}, {.tv_sec = s, .tv_nsec = ns}};

    assert_int_equal(utimensat(t->root, path, times, 0), 0);
}

/* The question that the core asks for a request without fields. */
static inline struct http_ask ask_for(const char *path, const char *query)
{
    static const struct http_head head;
    struct http_ask a = {.path = {path, strlen(path)}, .query = {query, strlen(query)}};

    http_accept_codings(&head, a.q);
    http_accept_listing(&head, &a);
    return a;
}

static inline int find(const struct tree *t, const char *path, struct source **source)
{
    struct http_ask a = ask_for(path, "");

    *source = NULL;
    return site_find(t->site, &a, true, source);
}

/* The result of find(), when the source itself does not matter. */
static inline int answer(const struct tree *t, const char *path)
{
    struct source *source;
    int err = find(t, path, &source);

    if (!err)
        site_release(t->site, source);
    return err;
}

/* Read a whole body, NUL-terminated; the source is released. */
static inline char *body_of(const struct tree *t, struct source *s, size_t *len)
{
    size_t cap = s->bytes ? (size_t)s->size + 1 : 1 << 16, n = 0, got;
    char *body = malloc(cap);

    assert_non_null(body);
    if (s->kind == SOURCE_BODY || s->bytes) {
        assert_true(s->size < cap);
        if (s->bytes)
            memcpy(body, s->bytes, (size_t)s->size);
        else
            assert_int_equal(pread(site_source_fd(s), body, (size_t)s->size, 0), s->size);
        n = (size_t)s->size;
    } else {
        assert_int_equal(s->kind, SOURCE_MADE);
        while ((got = s->next(s, body + n, cap - n > 65535 ? 65535 : cap - n)) > 0) {
            assert_int_not_equal(got, SOURCE_FAILED);
            n += got == SOURCE_LATER ? 0 : got;
            if (cap - n < 2 * CHUNK_BYTES_MAX) {
                cap *= 2;
                body = realloc(body, cap);
                assert_non_null(body);
            }
        }
    }
    body[n] = '\0';
    site_release(t->site, s);
    *len = n;
    return body;
}

static inline void assert_body(const struct tree *t, const char *path, const char *content)
{
    struct source *s;
    size_t len;
    char *body;

    assert_int_equal(find(t, path, &s), 0);
    body = body_of(t, s, &len);
    assert_int_equal(len, strlen(content));
    assert_string_equal(body, content);
    free(body);
}

#endif
