/* SPDX-License-Identifier: MIT */
/* site_roll.c - a folder's entries, sorted by core/folder.c: made by one thread, then read by every
 * listing that may show them.
 *
 * A roll lives as long as a listing reads it.  Another listing gets it only if its folder was read
 * after that listing was asked for: an answer never lacks a change that was complete before its
 * request.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include "site_inside.h"

enum {
    /* glibc would raise its threshold to the largest block that was ever freed, and keep such
     * blocks in each thread's arena: 32 threads that had listed kept 193 MB. */
    MAPPED_BYTES_MIN = 256 << 10,
};

int rolls_open(struct site *site)
{
    if (charges_open(site))
        return -1;
    mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES_MIN);
    errno = pthread_mutex_init(&site->rolls_lock, NULL);
    return errno ? -1 : 0;
}

void rolls_close(struct site *site)
{
    if (!site->shared)
        return;
    pthread_mutex_destroy(&site->rolls_lock);
    charges_close(site);
}

uint64_t rolls_now(struct site *site)
{
    uint64_t now;

    pthread_mutex_lock(&site->rolls_lock);
    now = ++site->moments;
    pthread_mutex_unlock(&site->rolls_lock);
    return now;
}

struct roll *roll_open(struct site *site, const struct listing *listing)
{
    struct site_roll *r = calloc(1, sizeof(*r) + listing->path.len);

    if (!r)
        return NULL;
    memcpy(r->path, listing->path.ptr, listing->path.len);
    r->roll.totals.path = (struct slice){r->path, listing->path.len};
    r->roll.totals.view = listing->view;
    r->refs = 1;
    r->begun = rolls_now(site);
    return &r->roll;
}

void roll_made(struct site *site, struct roll *roll)
{
    struct site_roll *r = (struct site_roll *)roll;

    pthread_mutex_lock(&site->rolls_lock);
    if (!r->made) {
        r->made = true;
        r->next = site->rolls;
        if (r->next)
            r->next->prev = r;
        site->rolls = r;
    }
    pthread_mutex_unlock(&site->rolls_lock);
}

/* --- Sharing ---------------------------------------------------------------------------------- */

static bool same_bytes(const char *a, const char *b, size_t n)
{
    return n == 0 || memcmp(a, b, n) == 0;
}

/* Format and page do not count: all are made from the same entries. */
static bool is_same(const struct listing *a, const struct listing *b)
{
    const struct listing_view *v = &a->view, *w = &b->view;

    return v->sort == w->sort && v->descending == w->descending && v->filter_len == w->filter_len &&
           a->path.len == b->path.len && same_bytes(v->filter, w->filter, v->filter_len) &&
           same_bytes(a->path.ptr, b->path.ptr, a->path.len);
}

struct roll *roll_find(struct site *site, const struct listing *listing, uint64_t asked)
{
    struct site_roll *r;

    pthread_mutex_lock(&site->rolls_lock);
    r = site->rolls;
    while (r && !(r->begun > asked && is_same(&r->roll.totals, listing)))
        r = r->next;
    if (r)
        r->refs++;
    pthread_mutex_unlock(&site->rolls_lock);
    return r ? &r->roll : NULL;
}

void roll_put(struct site *site, struct roll *roll)
{
    struct site_roll *r = (struct site_roll *)roll;
    bool last;

    if (!r)
        return;
    pthread_mutex_lock(&site->rolls_lock);
    last = --r->refs == 0;
    if (last && r->made) {
        *(r->prev ? &r->prev->next : &site->rolls) = r->next;
        if (r->next)
            r->next->prev = r->prev;
    }
    pthread_mutex_unlock(&site->rolls_lock);
    if (!last)
        return;
    charge_back(site, roll->entries.room + roll->names.room);
    free(roll->entries.mem);
    free(roll->names.mem);
    free(r);
}
