/* SPDX-License-Identifier: MIT */
/* cache_room.c - entries get a place in the table, and others are evicted for them. */
#include "cache_inside.h"

enum { WATCH_SHARE = 2 /* all listings together: one in two of the cache's watches */ };

/* --- Listings: within the share of all listings ----------------------------------------------- */

/* Evicts the oldest one that is not being sent and was not asked for since the last time. */
static bool evict_listing(struct cache *c)
{
    struct cache_entry *oldest = NULL;

    for (unsigned round = 0; round < 2 && !oldest; round++)
        for (struct cache_entry *e = c->listings; e; e = e->listing)
            if (atomic_load_explicit(&e->refs, memory_order_relaxed) == 1 &&
                !atomic_exchange_explicit(&e->visited, false, memory_order_relaxed))
                oldest = e;
    if (oldest)
        cache_cut(c, oldest->deps);
    return oldest;
}

/* Makes room for that listing. */
static bool listing_room(struct cache *c, const struct cache_entry *e)
{
    size_t bytes = c->bytes_max / CACHE_BODY_SHARE;
    unsigned watches = c->watches_max / WATCH_SHARE;

    if (e->bytes > bytes || e->watches > watches)
        return false;
    while (c->listing_bytes + e->bytes > bytes || c->listing_watches + e->watches > watches ||
           atomic_load_explicit(&c->listed, memory_order_relaxed) >= CACHE_LISTINGS_MAX)
        if (!evict_listing(c))
            return false;
    return true;
}

/* --- All entries ------------------------------------------------------------------------------ */

/* Retired entries will be free when their readers have left: no others are evicted in their place,
 * and until then there is no room. */
bool cache_make_room(struct cache *c, const struct cache_entry *e)
{
    while (atomic_load(&c->bytes) - c->retired_bytes + e->bytes > c->bytes_max ||
           c->watches > c->watches_max)
        if (!(c->watches > c->watches_max && cache_sweep_one(c)) && !cache_evict(c))
            return false;
    cache_reclaim(c);
    return atomic_load(&c->bytes) + e->bytes <= c->bytes_max;
}

bool cache_replace(struct cache *c, struct cache_entry *old, struct cache_entry *made)
{
    if (!old->deps || !cache_make_room(c, made))
        return false;
    cache_enter(c, made, old->deps);
    old->deps = NULL;
    cache_unpublish(c, old);
    return true;
}

/* The entry that this one replaces: one of the same key and preference; locked. */
static struct cache_entry *predecessor(struct cache *c, const struct cache_entry *e)
{
    struct cache_want want = {.kind = (enum cache_kind)e->kind, .path = {e->text, e->path_len},
                              .hash = e->hash};
    struct cache_entry *old = atomic_load(&c->bucket[e->hash % CACHE_BUCKETS]);

    while (old && !(cache_same_key(old, &want) &&
                    (old->preference == e->preference || !old->preference || !e->preference)))
        old = atomic_load(&old->next);
    return old;
}

bool cache_publish(struct cache *c, struct cache_entry *e, struct cache_deps *deps)
{
    struct cache_entry *old;
    bool fits;

    pthread_mutex_lock(&c->lock);
    fits = !deps->cut && (e->kind != CACHE_LISTING || listing_room(c, e)) &&
           cache_make_room(c, e) && !deps->cut;
    if (fits) {
        while ((old = predecessor(c, e)) != NULL)
            cache_cut(c, old->deps);
        cache_enter(c, e, deps);
    }
    pthread_mutex_unlock(&c->lock);
    return fits;
}
