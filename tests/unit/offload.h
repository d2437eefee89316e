/* SPDX-License-Identifier: MIT */
/* offload.h - a site that waits for the test at every listing, and a helper thread that queries it.
 *
 * The site here is ours: site_find(), cache_source_release() and site_listing_...() of this file
 * take the place of the server's.  "/now" is answered at once; every other path is later, and waits
 * for a turn that the test gives.  "/longN/" is a listing of N slices, each with a turn, and is
 * then one byte; "/refill/" is endless bytes, each made by a slice; the first byte of "/refillN/"
 * takes N.  All sources are released in the end.
 */
#ifndef TESTS_UNIT_OFFLOAD_H
#define TESTS_UNIT_OFFLOAD_H
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>
#include "../../server/cache.h"
#include "../../server/inside.h"

enum { JOBS_MAX = 512, LONGS = 8, PATIENCE_MS = 30000 };

/* The source that find() gives here. */
struct slow {
    struct source source;
    unsigned slices;   /* left until it is made */
    bool endless, at_hand, broken;
    char name[16];     /* its path */
    void *owner;
};

struct site {
    pthread_mutex_t lock; /* guards all of it */
    pthread_cond_t moved;
    unsigned turns;       /* listings that may be made */
    unsigned begun, made, released;
    char last[64];        /* path and query of the last one, joined */
    char order[4096];     /* the last letter of the path of each look and slice */
    unsigned orders;
    int error;
};

static struct site the_site = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .moved = PTHREAD_COND_INITIALIZER,
};

/* With the lock held: a turn of the helper. */
static inline void turn(struct site *site, const char *path, size_t len)
{
    site->begun++;
    pthread_cond_broadcast(&site->moved);
    while (site->turns == 0)
        pthread_cond_wait(&site->moved, &site->lock);
    site->turns--;
    if (site->orders < sizeof(site->order) - 1)
        site->order[site->orders++] = path[len - 2];
}

int site_find(struct site *site, const struct http_ask *ask, bool may_block, struct source **source)
{
    struct slow *s;
    int error;

    if (!may_block && !slice_is(ask->path, "/now"))
        return -EINPROGRESS;
    pthread_mutex_lock(&site->lock);
    if (may_block) {
        turn(site, ask->path.ptr, ask->path.len);
        memset(site->last, 0, sizeof(site->last));
        memcpy(site->last, ask->path.ptr, ask->path.len);
        memcpy(site->last + ask->path.len, ask->query.ptr, ask->query.len);
    }
    error = site->error;
    if (!error)
        site->made++;
    pthread_mutex_unlock(&site->lock);
    if (error)
        return error;
    s = calloc(1, sizeof(*s));
    assert_non_null(s);
    assert_true(ask->path.len < sizeof(s->name));
    memcpy(s->name, ask->path.ptr, ask->path.len);
    if (strncmp(s->name, "/long", 5) == 0)
        s->slices = (unsigned)(s->name[5] - '0');
    s->endless = strncmp(s->name, "/refill", 7) == 0;
    if (s->endless && s->name[7] >= '0' && s->name[7] <= '9')
        s->slices = (unsigned)(s->name[7] - '0');
    s->source.next = site_listing_next;
    *source = &s->source;
    return 0;
}

bool site_listing_ready(const struct source *source)
{
    const struct slow *s = (const struct slow *)source;

    return s->broken || (s->endless ? s->at_hand : s->slices == 0);
}

bool site_listing_long(const struct source *source)
{
    return !((const struct slow *)source)->endless;
}

void *site_listing_owner(const struct source *source)
{
    return ((const struct slow *)source)->owner;
}

void site_listing_help(struct source *source, struct listing_help help)
{
    source->next = help.next;
    ((struct slow *)source)->owner = help.owner;
}

size_t site_listing_next(struct source *source, char *buf, size_t cap)
{
    struct slow *s = (struct slow *)source;

    assert_true(cap > 0);
    if (!site_listing_ready(source))
        return SOURCE_LATER;
    if (s->broken)
        return SOURCE_FAILED;
    *buf = 'b';
    s->at_hand = false;
    return 1;
}

int site_listing_step(struct source *source)
{
    struct slow *s = (struct slow *)source;
    int error;

    pthread_mutex_lock(&the_site.lock);
    turn(&the_site, s->name, strlen(s->name));
    error = the_site.error;
    pthread_mutex_unlock(&the_site.lock);
    s->broken = error != 0;
    s->slices -= s->slices > 0;
    s->at_hand = s->slices == 0;
    return error ? error : s->slices ? -EINPROGRESS : 0;
}

void cache_source_release(struct site *site, struct source *source)
{
    pthread_mutex_lock(&site->lock);
    site->released++;
    pthread_mutex_unlock(&site->lock);
    free(source);
}

/* --- The test's side -------------------------------------------------------------------------- */

struct desk {
    struct offload *offload;
    int wake_fd;
    struct session session[JOBS_MAX + 2];
};

static inline int set_up(void **state)
{
    struct desk *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    b->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_true(b->wake_fd >= 0);
    the_site.turns = the_site.begun = the_site.made = the_site.released = 0;
    the_site.error = 0;
    the_site.orders = 0;
    memset(the_site.order, 0, sizeof(the_site.order));
    assert_int_equal(offload_open(&b->offload, &the_site, b->wake_fd, LONGS), 0);
    *state = b;
    return 0;
}

static inline void give_turns(unsigned n)
{
    pthread_mutex_lock(&the_site.lock);
    the_site.turns += n;
    pthread_cond_broadcast(&the_site.moved);
    pthread_mutex_unlock(&the_site.lock);
}

static inline int tear_down(void **state)
{
    struct desk *b = *state;

    give_turns(1000);
    offload_close(b->offload);
    close(b->wake_fd);
    free(b);
    assert_int_equal(the_site.made, the_site.released);
    return 0;
}

/* Wait until the helper is inside its n-th listing. */
static inline void wait_begun(unsigned n)
{
    pthread_mutex_lock(&the_site.lock);
    while (the_site.begun < n)
        pthread_cond_wait(&the_site.moved, &the_site.lock);
    pthread_mutex_unlock(&the_site.lock);
}

static inline void wait_woken(struct desk *b)
{
    struct pollfd p = {.fd = b->wake_fd, .events = POLLIN};
    uint64_t n;

    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    assert_int_equal(read(b->wake_fd, &n, sizeof(n)), sizeof(n));
}

static inline struct conn *wait_done(struct desk *b)
{
    struct conn *c = offload_done(b->offload);

    while (!c) {
        wait_woken(b);
        c = offload_done(b->offload);
    }
    return c;
}

static inline int ask(struct desk *b, const struct conn *c, const char *path,
                      struct source **source)
{
    char *copy = strdup(path); /* freed after the call, like a request's bytes */
    struct http_ask a = {.path = {copy, strlen(copy)}, .query = {"q=1", 3}, .conn = c};
    int result = offload_find(b->offload, &a, source);

    memset(copy, 'x', strlen(path));
    free(copy);
    return result;
}

/* Ask for a listing, have it made by one turn, and wait until it is reported. */
static inline void ask_made(struct desk *b, unsigned conn, const char *path)
{
    struct source *s = NULL;

    assert_int_equal(ask(b, &b->session[conn].conn, path, &s), -EINPROGRESS);
    give_turns(1);
    assert_ptr_equal(wait_done(b), &b->session[conn].conn);
}

#define OFFLOAD_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
