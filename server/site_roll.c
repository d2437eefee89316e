/* SPDX-License-Identifier: MIT */
/* site_roll.c - a folder's entries, sorted: made by one thread, then read by every listing that may
 * show them.
 *
 * An entry takes 40 bytes and its name, a quarter more while growing, so 100,000 names of 20 bytes
 * need about 7.5 MB and the longest ones 37 MB.  A roll lives as long as a listing reads it.  It is
 * given to another only if its folder was read after that one was asked for: an answer never lacks
 * a change that was complete before its request.
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

/* --- Gathering -------------------------------------------------------------------------------- */

struct roll *roll_open(struct site *site, const struct listing *listing)
{
    struct roll *r = calloc(1, sizeof(*r) + listing->path.len);

    if (!r)
        return NULL;
    memcpy(r->path, listing->path.ptr, listing->path.len);
    r->totals.path = (struct slice){r->path, listing->path.len};
    r->totals.view = listing->view;
    r->refs = 1;
    r->begun = rolls_now(site);
    return r;
}

/* Bytes of an array's element, and the number of elements it grows by at least. */
struct unit {
    size_t bytes, step;
};

/* More room in *mem, which has *room units.  0 or -EAGAIN. */
static int grow(struct site *site, void **mem, size_t *room, struct unit unit)
{
    size_t more = *room / 4 + unit.step;
    size_t bytes = more * unit.bytes;
    void *moved;

    if (!charge(site, bytes))
        return -EAGAIN;
    moved = realloc(*mem, (*room + more) * unit.bytes);
    if (!moved) {
        charge_back(site, bytes);
        return -EAGAIN;
    }
    *mem = moved;
    *room += more;
    return 0;
}

static void count_room(struct roll *r)
{
    r->charged = r->room * sizeof(*r->entries) + r->names_room;
}

/* The name's place is an offset until all are there, because the names may move. */
int roll_add(struct site *site, struct roll *r, const struct listing_entry *e)
{
    const struct unit entry = {sizeof(*e), 64};
    const struct unit character = {1, 4096}; /* the longest name fits */
    void *mem = r->entries;
    int err = 0;

    if (r->count == r->room)
        err = grow(site, &mem, &r->room, entry);
    r->entries = mem;
    mem = r->names;
    if (!err && r->names_room - r->names_len < e->name.len)
        err = grow(site, &mem, &r->names_room, character);
    r->names = mem;
    count_room(r);
    if (err)
        return err;
    memcpy(r->names + r->names_len, e->name.ptr, e->name.len);
    r->entries[r->count] = *e;
    r->entries[r->count].name.ptr = NULL;
    r->names_len += e->name.len;
    r->count++;
    listing_count(&r->totals, e);
    return 0;
}

static int compare(const void *a, const void *b, void *view)
{
    return listing_compare(view, a, b);
}

/* What is sorted in the place of entries: most comparisons need no more than the key. */
struct item {
    uint64_t key; /* listing_key() */
    size_t at;    /* of its entry */
};

static int compare_items(const void *a, const void *b, void *roll)
{
    const struct item *x = a, *y = b;
    const struct roll *r = roll;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return listing_compare(&r->totals.view, &r->entries[x->at], &r->entries[y->at]);
}

/* Each entry to the place where its item is: the permutation's cycles, one after the other. */
static void move_entries(struct listing_entry *entries, struct item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct listing_entry first = entries[i];
        size_t to = i, from;

        for (; (from = items[to].at) != i; to = from) {
            entries[to] = entries[from];
            items[to].at = to;
        }
        entries[to] = first;
        items[to].at = to;
    }
}

static void sort(struct roll *r)
{
    struct item *items = r->count < 2 ? NULL : malloc(r->count * sizeof(*items));
    size_t start = r->count ? r->entries[0].name.len : 0;

    if (!items) {
        if (r->count)
            qsort_r(r->entries, r->count, sizeof(*r->entries), compare, &r->totals.view);
        return;
    }
    for (size_t i = 0; i < r->count; i++) {
        size_t same = listing_start(r->entries[0].name, r->entries[i].name);

        start = same < start ? same : start;
    }
    for (size_t i = 0; i < r->count; i++)
        items[i] = (struct item){listing_key(&r->totals.view, &r->entries[i], start), i};
    qsort_r(items, r->count, sizeof(*items), compare_items, r);
    move_entries(r->entries, items, r->count);
    free(items);
}

void roll_made(struct site *site, struct roll *r)
{
    size_t at = 0;

    for (size_t i = 0; i < r->count; i++) {
        r->entries[i].name.ptr = r->names + at;
        at += r->entries[i].name.len;
    }
    sort(r);
    pthread_mutex_lock(&site->rolls_lock);
    r->made = true;
    r->next = site->rolls;
    if (r->next)
        r->next->prev = r;
    site->rolls = r;
    pthread_mutex_unlock(&site->rolls_lock);
}

/* --- Sharing ---------------------------------------------------------------------------------- */

static bool same_bytes(const char *a, const char *b, size_t n)
{
    return n == 0 || memcmp(a, b, n) == 0;
}

/* The format does not count: it is made of the same entries. */
static bool is_same(const struct listing *a, const struct listing *b)
{
    const struct listing_view *v = &a->view, *w = &b->view;

    return v->sort == w->sort && v->descending == w->descending && v->filter_len == w->filter_len &&
           a->path.len == b->path.len && same_bytes(v->filter, w->filter, v->filter_len) &&
           same_bytes(a->path.ptr, b->path.ptr, a->path.len);
}

struct roll *roll_find(struct site *site, const struct listing *listing, uint64_t asked)
{
    struct roll *r;

    pthread_mutex_lock(&site->rolls_lock);
    r = site->rolls;
    while (r && !(r->begun > asked && is_same(&r->totals, listing)))
        r = r->next;
    if (r)
        r->refs++;
    pthread_mutex_unlock(&site->rolls_lock);
    return r;
}

void roll_put(struct site *site, struct roll *r)
{
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
    charge_back(site, r->charged);
    free(r->entries);
    free(r->names);
    free(r);
}
