/* SPDX-License-Identifier: MIT */
/* cache.c - the cache of answers, the functions of cache.h: open a cache for each process, and ask
 * it.
 *
 * A key becomes an entry when it is asked for again (cache_fill.c), so that a crawl over a million
 * files leaves everything as it was.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "../base/say.h"
#include "cache_inside.h"
#include "hash.h"
#include "site_archive.h"

/* --- Finding ---------------------------------------------------------------------------------- */

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
    if (!e) {
        stats_add(c->stats, STAT_CACHE_MISSES, 1);
        return cache_fill(c, want, source);
    }
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

    if (ask->query.ptr && site_archive_asked(c->site, ask))
        return -EINPROGRESS;
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

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

static struct cache *cache_open(struct site *site, struct cache_limits limits, struct stats *stats)
{
    struct cache *c;
    struct stat st;
    int err = -ENODATA; /* no random number */

    if (!limits.bytes || !cache_fits(site->root_fd) || fstat(site->root_fd, &st) < 0)
        return NULL;
    c = calloc(1, sizeof(*c)); /* only used pages of its tables take memory */
    if (!c)
        return NULL;
    c->site = site;
    c->stats = stats;
    c->dev = st.st_dev;
    c->bytes_max = limits.bytes;
    c->body_max = lesser(limits.bytes / CACHE_BODY_SHARE, CACHE_BODY_BYTES_MAX);
    c->file_max = limits.reads ? lesser(limits.bytes / CACHE_BODY_SHARE, CACHE_READ_BYTES_MAX)
                               : c->body_max;
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

struct cache *cache_share(struct site *site, struct cache_limits limits, struct stats *stats)
{
    struct cache *c;

    pthread_mutex_lock(&site->rolls_lock);
    if (!site->cache)
        site->cache = cache_open(site, limits, stats);
    c = site->cache;
    site->cache_shares += c != NULL;
    if (c)
        site_has_cache(site, c->body_max);
    pthread_mutex_unlock(&site->rolls_lock);
    return c;
}

struct cache *cache_of(struct site *site)
{
    struct cache *c;

    pthread_mutex_lock(&site->rolls_lock);
    c = site->cache;
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
        return; /* a disk hangs, and may still write to the memory, which stays: see uring.c */
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
