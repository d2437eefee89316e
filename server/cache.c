/* SPDX-License-Identifier: MIT */
/* cache.c - the table of answers: finding, eviction, and when memory is released.
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
 * without a mark and takes the marks from those it passes.  A key becomes an entry when it is asked
 * for again, so that a crawl over a million files leaves everything as it was.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../base/say.h"
#include "cache_inside.h"
#include "hash.h"

/* --- References ------------------------------------------------------------------------------- */

void cache_release(struct cache_entry *e)
{
    if (atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
        return;
    atomic_fetch_sub_explicit(&e->cache->bytes, e->bytes, memory_order_relaxed);
    if (e->kind == CACHE_WHOLE)
        atomic_fetch_sub_explicit(&e->cache->ready_bytes, e->bytes, memory_order_relaxed);
    free(e);
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

/* --- In and out of the table ------------------------------------------------------------------ */

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

void cache_unpublish(struct cache *c, struct cache_entry *e)
{
    _Atomic(struct cache_entry *) *at = &c->bucket[e->hash % CACHE_BUCKETS];

    while (atomic_load(at) != e)
        at = &atomic_load(at)->next;
    atomic_store(at, atomic_load(&e->next));
    line_del(c, e);
    cache_variant_forget(c, e);
    if (e->kind == CACHE_LISTING)
        cache_listing_ended(c, e);
    e->retired_at = atomic_fetch_add(&c->epoch, 1) + 1;
    e->retired = c->retired;
    c->retired = e;
    c->retired_bytes += e->bytes;
    stats_add(c->stats, STAT_CACHE_ENDS, 1);
}

/* Whether the entry is marked, or its sources are in use: evicting it would free no memory then. */
static bool is_spared(struct cache_entry *e)
{
    return atomic_load_explicit(&e->refs, memory_order_relaxed) > 1 ||
           atomic_exchange_explicit(&e->visited, false, memory_order_relaxed);
}

/* In the second round only entries that are being sent or were just asked for are spared. */
bool cache_evict(struct cache *c)
{
    struct cache_entry *e = c->hand ? c->hand : c->oldest;
    size_t tries = 2 * c->entries;

    for (; tries > 0 && is_spared(e); tries--)
        e = e->newer ? e->newer : c->oldest;
    c->hand = e;
    if (tries == 0)
        return false;
    cache_cut(c, e->deps);
    return true;
}

static bool same_key(const struct cache_entry *e, const struct cache_want *want)
{
    return e->hash == want->hash && e->kind == want->kind && e->path_len == want->path.len &&
           memcmp(e->text, want->path.ptr, want->path.len) == 0;
}

/* The entry that this one replaces: one of the same key and preference; locked. */
static struct cache_entry *predecessor(struct cache *c, const struct cache_entry *e)
{
    struct cache_want want = {.kind = (enum cache_kind)e->kind, .path = {e->text, e->path_len},
                              .hash = e->hash};
    struct cache_entry *old = atomic_load(&c->bucket[e->hash % CACHE_BUCKETS]);

    while (old && !(same_key(old, &want) &&
                    (old->preference == e->preference || !old->preference || !e->preference)))
        old = atomic_load(&old->next);
    return old;
}

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

static void enter(struct cache *c, struct cache_entry *e, struct cache_deps *deps)
{
    _Atomic(struct cache_entry *) *bucket = &c->bucket[e->hash % CACHE_BUCKETS];

    e->deps = deps;
    e->src.source.version = ++c->versions;
    deps->entry = e;
    atomic_fetch_add(&c->bytes, e->bytes);
    line_add(c, e);
    if (e->kind == CACHE_LISTING)
        cache_listing_added(c, e);
    atomic_store(&e->next, atomic_load(bucket));
    atomic_store(bucket, e);
    stats_add(c->stats, STAT_CACHE_FILLS, 1);
}

bool cache_replace(struct cache *c, struct cache_entry *old, struct cache_entry *made)
{
    if (!old->deps || !cache_make_room(c, made))
        return false;
    enter(c, made, old->deps);
    old->deps = NULL;
    cache_unpublish(c, old);
    return true;
}

bool cache_publish(struct cache *c, struct cache_entry *e, struct cache_deps *deps)
{
    struct cache_entry *old;
    bool fits;

    pthread_mutex_lock(&c->lock);
    fits = !deps->cut && (e->kind != CACHE_LISTING || cache_listing_room(c, e)) &&
           cache_make_room(c, e) && !deps->cut;
    if (fits) {
        while ((old = predecessor(c, e)) != NULL)
            cache_cut(c, old->deps);
        enter(c, e, deps);
    }
    pthread_mutex_unlock(&c->lock);
    return fits;
}

/* --- Finding ---------------------------------------------------------------------------------- */

static bool matches(const struct cache_entry *e, const struct cache_want *want)
{
    return same_key(e, want) && cache_variant_matches(e, want->ask->q);
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

/* Whether the entry may still be given out: events decide that, and a comparison for changes that
 * send none. */
static bool is_good(struct cache *c, struct cache_entry *e, uint32_t now_ms)
{
    uint32_t age_ms = now_ms - atomic_load_explicit(&e->checked_ms, memory_order_relaxed);

    if (!e->file) /* a root that is removed while it is open sends no event */
        return !e->err || e->kind == CACHE_PAGE || !site_is_gone(c->site);
    if (age_ms < e->life_ms)
        return true;
    if (e->compares && cache_equals_file(c, e)) {
        atomic_store_explicit(&e->checked_ms, now_ms, memory_order_relaxed);
        return true;
    }
    cache_cut_entry(c, e);
    return false;
}

static int find(struct cache_reader *r, struct cache_want *want, struct source **source)
{
    struct cache *c = r->cache;
    uint64_t epoch = atomic_load(&c->epoch); /* before the table is entered */
    struct cache_entry *e = cache_get(r, want);

    if (e && !is_good(c, e, (uint32_t)want->now_ms)) {
        cache_release(e);
        e = NULL;
        want->was_kept = true;
    }
    if (!e)
        return cache_fill(c, want, source);
    if (!atomic_load_explicit(&e->visited, memory_order_relaxed))
        atomic_store_explicit(&e->visited, true, memory_order_relaxed);
    if (atomic_load_explicit(&e->variant, memory_order_relaxed) == VARIANT_WANTED)
        cache_variant_ask(c, e);
    stats_add(c->stats, STAT_CACHE_HITS, 1);
    if (!e->err) {
        if (want->ask->again)
            e = cache_ready_put(r, want->ask, e, epoch);
        *source = &e->src.source;
        return 0;
    }
    int err = e->err;

    cache_release(e);
    return err;
}

int cache_find(struct cache_reader *reader, const struct http_ask *ask, struct source **source)
{
    struct cache *c = reader->cache;
    struct cache_want want = {.kind = CACHE_FIND, .ask = ask, .path = ask->path,
                              .now_ms = reader->now_ms};
    int err;

    if (atomic_load_explicit(&c->listed, memory_order_relaxed) && ask->path.len &&
        ask->path.ptr[ask->path.len - 1] == '/') {
        err = cache_listing_find(reader, ask, source);
        if (err != -ENODATA)
            return err;
    }
    if (ask->path.len > CACHE_PATH_BYTES_MAX)
        return site_find(c->site, ask, false, source);
    want.hash = hash_of(c->key, ask->path.ptr, ask->path.len);
    return find(reader, &want, source);
}

int cache_page(struct cache_reader *reader, unsigned status, struct source **source)
{
    static const struct http_ask ask;
    char text[4] = {'/', (char)('0' + status / 100 % 10), (char)('0' + status / 10 % 10),
                    (char)('0' + status % 10)};
    struct cache_want want = {.kind = CACHE_PAGE, .ask = &ask, .status = status,
                              .path = {text, sizeof(text)}, .now_ms = reader->now_ms};

    want.hash = hash_of(reader->cache->key, text, sizeof(text));
    return find(reader, &want, source);
}

/* --- Open and close --------------------------------------------------------------------------- */

static void say_refusal(int err)
{
    if (err == -EMFILE)
        say_error("answers are not kept in memory: no inotify instance or descriptor is left; "
                  "raise fs.inotify.max_user_instances or ulimit -n");
    else
        say_error("answers are not kept in memory: %s", say_why(err));
}

static struct cache *cache_open(struct site *site, size_t bytes, struct stats *stats)
{
    struct cache *c;
    struct stat st;
    int err = -ENODATA; /* no random number */

    if (!bytes || !cache_fits(site->root_fd) || fstat(site->root_fd, &st) < 0)
        return NULL;
    c = calloc(1, sizeof(*c)); /* only used pages of its tables take memory */
    if (!c)
        return NULL;
    c->site = site;
    c->stats = stats;
    c->dev = st.st_dev;
    c->bytes_max = bytes;
    c->body_max = bytes / CACHE_BODY_SHARE < CACHE_BODY_BYTES_MAX ? bytes / CACHE_BODY_SHARE
                                                                  : CACHE_BODY_BYTES_MAX;
    atomic_store(&c->epoch, 1);
    if (hash_key(&c->key) < 0 || (err = cache_watch_open(c)) < 0) {
        say_refusal(err);
        free(c);
        return NULL;
    }
    pthread_mutex_init(&c->lock, NULL);
    cache_variants_open(c);
    return c;
}

struct cache *cache_share(struct site *site, size_t bytes, struct stats *stats)
{
    struct cache *c;

    pthread_mutex_lock(&site->rolls_lock);
    if (!site->cache)
        site->cache = cache_open(site, bytes, stats);
    c = site->cache;
    site->cache_shares += c != NULL;
    if (c)
        site_has_cache(site, c->body_max);
    pthread_mutex_unlock(&site->rolls_lock);
    return c;
}

void cache_leave(struct cache *cache)
{
    struct site *site = cache ? cache->site : NULL;
    bool last;

    if (!cache)
        return;
    pthread_mutex_lock(&site->rolls_lock);
    last = --site->cache_shares == 0;
    if (last)
        site->cache = NULL;
    pthread_mutex_unlock(&site->rolls_lock);
    if (!last)
        return;
    cache_variants_close(cache);
    if (cache->readers)
        return; /* a disk hangs, and memory it may still write to stays: see uring.c */
    cache_watch_close(cache);
    cache_reclaim(cache);
    core_assert(!cache->retired && !atomic_load(&cache->bytes));
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

struct cache_reader *cache_reader_open(struct cache *cache)
{
    struct cache_reader *r = cache ? calloc(1, sizeof(*r)) : NULL;

    if (!r)
        return NULL;
    r->cache = cache;
    pthread_mutex_lock(&cache->lock);
    r->next = cache->readers;
    r->link = &cache->readers;
    if (r->next)
        r->next->link = &r->next;
    cache->readers = r;
    pthread_mutex_unlock(&cache->lock);
    return r;
}

void cache_reader_close(struct cache_reader *reader)
{
    if (!reader)
        return;
    cache_ready_close(reader);
    pthread_mutex_lock(&reader->cache->lock);
    *reader->link = reader->next;
    if (reader->next)
        reader->next->link = reader->link;
    pthread_mutex_unlock(&reader->cache->lock);
    free(reader);
}
