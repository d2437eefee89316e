/* SPDX-License-Identifier: MIT */
/* lists.c - schemes 1 and 2: one list of all timers, unsorted or sorted.
 *
 * In the unsorted list START and STOP take constant time, and every look at the clock goes through
 * all timers.  In the sorted list the clock looks only at the first one, and START searches.
 */
#include <stdlib.h>
#include "timers.h"

struct list {
    struct node *first;
};

static void *list_open(unsigned most, uint64_t now_ms)
{
    (void)most;
    (void)now_ms;
    return calloc(1, sizeof(struct list));
}

static void unsorted_start(void *set, struct node *n)
{
    chain_add(&((struct list *)set)->first, n);
}

static void list_stop(void *set, struct node *n)
{
    (void)set;
    chain_del(n);
}

static void unsorted_prolong(void *set, struct node *n, uint64_t at_ms)
{
    (void)set;
    n->at = at_ms;
}

static struct node *unsorted_expire(void *set, uint64_t now_ms)
{
    struct node *due = NULL, *next;

    for (struct node *n = ((struct list *)set)->first; n; n = next) {
        next = n->next;
        if (n->at <= now_ms) {
            chain_del(n);
            due_add(&due, n);
        }
    }
    return due;
}

static uint64_t wait_of(const struct node *first, uint64_t now_ms)
{
    if (!first)
        return UINT64_MAX;
    return first->at > now_ms ? first->at - now_ms : 0;
}

static uint64_t unsorted_next(void *set, uint64_t now_ms)
{
    const struct node *first = ((const struct list *)set)->first;

    for (const struct node *n = first; n; n = n->next)
        if (n->at < first->at)
            first = n;
    return wait_of(first, now_ms);
}

static void sorted_start(void *set, struct node *n)
{
    struct node **at = &((struct list *)set)->first;

    while (*at && (*at)->at < n->at)
        at = &(*at)->next;
    chain_add(at, n);
}

static void sorted_prolong(void *set, struct node *n, uint64_t at_ms)
{
    chain_del(n);
    n->at = at_ms;
    sorted_start(set, n);
}

static struct node *sorted_expire(void *set, uint64_t now_ms)
{
    struct node *due = NULL, *n;

    while ((n = ((struct list *)set)->first) && n->at <= now_ms) {
        chain_del(n);
        due_add(&due, n);
    }
    return due;
}

static uint64_t sorted_next(void *set, uint64_t now_ms)
{
    return wait_of(((const struct list *)set)->first, now_ms);
}

const struct scheme unsorted_scheme = {
    .name = "unsorted", .summary = "1: unsorted list", .most = 10000,
    .open = list_open, .close = free, .start = unsorted_start, .stop = list_stop,
    .prolong = unsorted_prolong, .expire = unsorted_expire, .next = unsorted_next,
};

const struct scheme sorted_scheme = {
    .name = "sorted", .summary = "2: sorted list", .most = 10000,
    .open = list_open, .close = free, .start = sorted_start, .stop = list_stop,
    .prolong = sorted_prolong, .expire = sorted_expire, .next = sorted_next,
};
