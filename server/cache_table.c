/* SPDX-License-Identifier: MIT */
/* cache_table.c - the table of answers: its entries, their order, and when memory is released.
 *
 * A reader records in which epoch it enters the table, walks one bucket, takes a reference and
 * leaves.  It takes no lock, and writes nothing that other readers read except the count of
 * references.  A thread that removes an entry does not wait for readers: the entry is retired with
 * the next epoch, and the table's reference is released when no reader is left that entered before
 * (as in RCU, with the epoch for a grace period).  A body that is being sent lives until its last
 * byte is sent.
 *
 * Eviction follows SIEVE (Zhang et al., NSDI 2024): entries are in the order of arrival, a hit only
 * marks its entry, and a hand that moves from the oldest to the newest evicts the first entry
 * without a mark and takes the marks from those it passes.
 */
#include <stdlib.h>
#include "cache_inside.h"
#include "compress.h"

/* --- References ------------------------------------------------------------------------------- */

void cache_release(struct cache_entry *e)
{
    if (atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
        return;
    atomic_fetch_sub_explicit(&e->cache->bytes, e->bytes, memory_order_relaxed);
    stats_add(e->cache->stats, STAT_CACHE_BYTES, -(uint64_t)e->bytes);
    if (e->kind == CACHE_WHOLE)
        atomic_fetch_sub_explicit(&e->cache->ready_bytes, e->bytes, memory_order_relaxed);
    free(e);
}

void cache_source_release(struct site *site, struct source *source)
{
    struct cache_entry *e = ((struct site_source *)source)->entry;

    if (e)
        cache_release(e);
    else
        site_release(site, source);
}

void cache_reclaim(struct cache *c)
{
    struct cache_entry **at = &c->retired;
    uint64_t oldest = UINT64_MAX;

    for (struct cache_reader *r = c->readers; r && c->retired; r = r->next) {
        uint64_t entered = atomic_load(&r->at);

        if (entered && entered < oldest)
            oldest = entered;
    }
    while (*at) {
        struct cache_entry *e = *at;

        if (e->retired_at > oldest) {
            at = &e->retired;
            continue;
        }
        *at = e->retired;
        c->retired_bytes -= e->bytes;
        cache_release(e);
    }
}

/* --- Finding ---------------------------------------------------------------------------------- */

/* Whether the entry is for clients with these weights. */
static bool is_for(const struct cache_entry *e, const uint16_t q[CODINGS])
{
    if (!e->preference)
        return true;
    if (e->preference & PREFERENCE_BEST)
        return e->preference == (PREFERENCE_BEST | compress_best(q));
    return e->preference == (PREFERENCE_ORDER | http_order(q));
}

bool cache_same_key(const struct cache_entry *e, const struct cache_want *want)
{
    return e->hash == want->hash && e->kind == want->kind && e->path_len == want->path.len &&
           memcmp(e->text, want->path.ptr, want->path.len) == 0;
}

static bool matches(const struct cache_entry *e, const struct cache_want *want)
{
    return cache_same_key(e, want) && is_for(e, want->ask->q);
}

struct cache_entry *cache_get(struct cache_reader *r, const struct cache_want *want)
{
    struct cache *c = r->cache;
    struct cache_entry *e;

    atomic_store(&r->at, atomic_load(&c->epoch));
    e = atomic_load(&c->bucket[want->hash % CACHE_BUCKETS]);
    while (e && !matches(e, want))
        e = atomic_load(&e->next);
    if (e)
        atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&r->at, 0, memory_order_release);
    return e;
}

/* --- In and out of the table ------------------------------------------------------------------ */

struct cache_entry *cache_entry_new(struct cache *c, const struct cache_want *want, size_t more)
{
    size_t bytes = sizeof(struct cache_entry) + want->path.len + more;
    struct cache_entry *e = malloc(bytes);

    if (!e)
        return NULL;
    memset(e, 0, sizeof(*e)); /* text is filled when it is used */
    e->cache = c;
    e->kind = (uint8_t)want->kind;
    e->hash = want->hash;
    e->bytes = bytes;
    e->path_len = (uint32_t)want->path.len;
    memcpy(e->text, want->path.ptr, want->path.len);
    atomic_init(&e->refs, 1);
    atomic_init(&e->checked_ms, (uint32_t)want->now_ms);
    e->src.fd = -1;
    e->src.entry = e;
    return e;
}

static void line_del(struct cache *c, struct cache_entry *e)
{
    if (c->hand == e)
        c->hand = e->newer;
    *(e->newer ? &e->newer->older : &c->newest) = e->older;
    *(e->older ? &e->older->newer : &c->oldest) = e->newer;
    c->entries--;
}

static void line_add(struct cache *c, struct cache_entry *e)
{
    e->newer = NULL;
    e->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
    c->entries++;
}

void cache_enter(struct cache *c, struct cache_entry *e, struct cache_deps *deps)
{
    _Atomic(struct cache_entry *) *bucket = &c->bucket[e->hash % CACHE_BUCKETS];

    e->deps = deps;
    e->src.source.version = ++c->versions;
    deps->entry = e;
    atomic_fetch_add(&c->bytes, e->bytes);
    stats_add(c->stats, STAT_CACHE_BYTES, e->bytes);
    stats_add(c->stats, STAT_CACHE_ENTRIES, 1);
    line_add(c, e);
    if (e->kind == CACHE_LISTING)
        cache_listing_added(c, e);
    atomic_store(&e->next, atomic_load(bucket));
    atomic_store(bucket, e);
    stats_add(c->stats, STAT_CACHE_FILLS, 1);
}

/* The entry is not compressed any more. */
static void leave_queue(struct cache *c, const struct cache_entry *e)
{
    struct cache_variants *v = &c->variants;
    unsigned count = atomic_load(&v->count), i = 0;

    if (atomic_load(&e->variant) != VARIANT_QUEUED)
        return;
    while (i < count && v->queue[i] != e)
        i++;
    core_assert(i < count);
    memmove(&v->queue[i], &v->queue[i + 1], (count - i - 1) * sizeof(struct cache_entry *));
    atomic_store(&v->count, count - 1);
}

void cache_unpublish(struct cache *c, struct cache_entry *e)
{
    _Atomic(struct cache_entry *) *at = &c->bucket[e->hash % CACHE_BUCKETS];

    while (atomic_load(at) != e)
        at = &atomic_load(at)->next;
    atomic_store(at, atomic_load(&e->next));
    line_del(c, e);
    leave_queue(c, e);
    if (e->kind == CACHE_LISTING)
        cache_listing_ended(c, e);
    e->retired_at = atomic_fetch_add(&c->epoch, 1) + 1;
    e->retired = c->retired;
    c->retired = e;
    c->retired_bytes += e->bytes;
    stats_add(c->stats, STAT_CACHE_ENDS, 1);
    stats_add(c->stats, STAT_CACHE_ENTRIES, -(uint64_t)1);
}

/* --- The next to go --------------------------------------------------------------------------- */

/* Whether the entry is marked, or its sources are in use: evicting it would free no memory then. */
static bool is_spared(struct cache_entry *e)
{
    return atomic_load_explicit(&e->refs, memory_order_relaxed) > 1 ||
           atomic_exchange_explicit(&e->visited, false, memory_order_relaxed);
}

/* In the second round only entries that are being sent or were just asked for are spared. */
struct cache_entry *cache_victim(struct cache *c)
{
    struct cache_entry *e = c->hand ? c->hand : c->oldest;
    size_t tries = 2 * c->entries;

    for (; tries > 0 && is_spared(e); tries--)
        e = e->newer ? e->newer : c->oldest;
    c->hand = e;
    return tries ? e : NULL;
}
