/* SPDX-License-Identifier: MIT */
/* heap.c - scheme 3, first half: a binary min-heap in an array, each node knowing its place.
 *
 * START, STOP and a new deadline move one node along one path from the root: O(log n).  The keys
 * are in the array, so that comparing touches no node; moving one does.
 *
 * The lazy heap is the same one, changed only for deadlines that come nearer: a key is the deadline
 * or an earlier one, and a node that comes to the top too early sinks to where it belongs.
 *
 * The locked heap is the first one behind a mutex, for many threads that start timers and one that
 * expires them.
 */
#include <pthread.h>
#include <stdlib.h>
#include "timers.h"

struct entry {
    uint64_t key;
    struct node *node;
};

struct heap {
    pthread_mutex_t lock; /* locked heap only: all that follows, and the nodes in it */
    unsigned count;
    struct entry entry[];
};

static void *heap_open(unsigned most, uint64_t now_ms)
{
    struct heap *h = malloc(sizeof(*h) + most * sizeof(h->entry[0]));

    (void)now_ms;
    if (h) {
        h->count = 0;
        pthread_mutex_init(&h->lock, NULL);
    }
    return h;
}

static void heap_close(void *set)
{
    pthread_mutex_destroy(&((struct heap *)set)->lock);
    free(set);
}

static inline void put(struct heap *h, unsigned i, struct entry e)
{
    h->entry[i] = e;
    e.node->index = i;
}

/* Moves the hole at i up to the place of e. */
static void rise(struct heap *h, unsigned i, struct entry e)
{
    for (unsigned up; i > 0 && h->entry[up = (i - 1) / 2].key > e.key; i = up)
        put(h, i, h->entry[up]);
    put(h, i, e);
}

static void sink(struct heap *h, unsigned i, struct entry e)
{
    for (unsigned down; (down = 2 * i + 1) < h->count; i = down) {
        down += down + 1 < h->count && h->entry[down + 1].key < h->entry[down].key;
        if (h->entry[down].key >= e.key)
            break;
        put(h, i, h->entry[down]);
    }
    put(h, i, e);
}

static void move(struct heap *h, unsigned i, struct entry e)
{
    if (i > 0 && h->entry[(i - 1) / 2].key > e.key)
        rise(h, i, e);
    else
        sink(h, i, e);
}

static void heap_start(void *set, struct node *n)
{
    struct heap *h = set;

    rise(h, h->count++, (struct entry){n->at, n});
}

static void heap_stop(void *set, struct node *n)
{
    struct heap *h = set;
    struct entry last = h->entry[--h->count];

    if (last.node != n)
        move(h, n->index, last);
}

static void heap_prolong(void *set, struct node *n, uint64_t at_ms)
{
    n->at = at_ms;
    move(set, n->index, (struct entry){at_ms, n});
}

/* Only in the lazy heap can the key of a node be too early. */
static struct node *heap_expire(void *set, uint64_t now_ms)
{
    struct heap *h = set;
    struct node *due = NULL, *n;

    while (h->count > 0 && h->entry[0].key <= now_ms) {
        n = h->entry[0].node;
        if (n->at > now_ms) {
            sink(h, 0, (struct entry){n->at, n});
            continue;
        }
        heap_stop(h, n);
        due_add(&due, n);
    }
    return due;
}

static uint64_t heap_next(void *set, uint64_t now_ms)
{
    const struct heap *h = set;

    if (h->count == 0)
        return UINT64_MAX;
    return h->entry[0].key > now_ms ? h->entry[0].key - now_ms : 0;
}

static void lazy_prolong(void *set, struct node *n, uint64_t at_ms)
{
    struct heap *h = set;

    n->at = at_ms;
    if (at_ms < h->entry[n->index].key)
        rise(h, n->index, (struct entry){at_ms, n});
}

/* --- Behind a mutex --------------------------------------------------------------------------- */

static void locked_start(void *set, struct node *n)
{
    pthread_mutex_lock(&((struct heap *)set)->lock);
    heap_start(set, n);
    pthread_mutex_unlock(&((struct heap *)set)->lock);
}

static void locked_stop(void *set, struct node *n)
{
    pthread_mutex_lock(&((struct heap *)set)->lock);
    if (n->index != UINT32_MAX) /* otherwise it has expired meanwhile */
        heap_stop(set, n);
    n->index = UINT32_MAX;
    pthread_mutex_unlock(&((struct heap *)set)->lock);
}

static void locked_prolong(void *set, struct node *n, uint64_t at_ms)
{
    pthread_mutex_lock(&((struct heap *)set)->lock);
    if (n->index != UINT32_MAX)
        heap_prolong(set, n, at_ms);
    pthread_mutex_unlock(&((struct heap *)set)->lock);
}

static struct node *locked_expire(void *set, uint64_t now_ms)
{
    struct node *due;

    pthread_mutex_lock(&((struct heap *)set)->lock);
    due = heap_expire(set, now_ms);
    for (struct node *n = due; n; n = n->due)
        n->index = UINT32_MAX;
    pthread_mutex_unlock(&((struct heap *)set)->lock);
    return due;
}

static uint64_t locked_next(void *set, uint64_t now_ms)
{
    struct heap *h = (struct heap *)(uintptr_t)set; /* the lock is not what const promises */
    uint64_t wait_ms;

    pthread_mutex_lock(&h->lock);
    wait_ms = heap_next(h, now_ms);
    pthread_mutex_unlock(&h->lock);
    return wait_ms;
}

const struct scheme heap_scheme = {
    .name = "heap", .summary = "3: binary heap", .most = UINT32_MAX,
    .open = heap_open, .close = heap_close, .start = heap_start, .stop = heap_stop,
    .prolong = heap_prolong, .expire = heap_expire, .next = heap_next,
};

const struct scheme lazy_heap_scheme = {
    .name = "lazy_heap", .summary = "3, lazy: binary heap", .most = UINT32_MAX,
    .open = heap_open, .close = heap_close, .start = heap_start, .stop = heap_stop,
    .prolong = lazy_prolong, .expire = heap_expire, .next = heap_next,
};

const struct scheme locked_heap_scheme = {
    .name = "locked_heap", .summary = "3, shared: binary heap and a mutex", .most = UINT32_MAX,
    .open = heap_open, .close = heap_close, .start = locked_start, .stop = locked_stop,
    .prolong = locked_prolong, .expire = locked_expire, .next = locked_next,
};
