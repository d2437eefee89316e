/* SPDX-License-Identifier: MIT */
/* cache_ready.c - whole answers, head and body, that are ready for requests that repeat.
 *
 * A file's answer does not change while its entry is in the table, except for the date, which
 * changes once a second.  So a thread that gets the same request several times in one second writes
 * the whole answer once, and gives that out for the rest of the second: no field is written, and
 * nothing is hashed or looked up.
 *
 * The thread may do so while nothing has left the table since the entry was found there.  The epoch
 * tells: it moves when an entry leaves, and before the thread that acts upon an event is done.
 * When the epoch has moved, the entry is looked up again; if it is the same one, by its number, the
 * whole answer is still valid.  The time until which the entry counts as equal to its file is kept
 * with it.
 *
 * A whole answer is an entry that is in no table.  Each thread has its own, one for each head that
 * its connections keep (core/http_recent.c), of bytes that would be copied anyway.  Whole answers
 * count as memory of the cache, and all together take no more than a share of it.
 */
#include <stdlib.h>
#include "cache_inside.h"

static struct cache_ready *place_of(struct cache_reader *r, const struct http_ask *ask)
{
    return &r->ready[ask->again % CACHE_READY];
}

static int64_t date_of(const struct http_ask *ask)
{
    return http_host_of(ask->conn)->date_s;
}

bool cache_ready(struct cache_reader *r, const struct http_ask *ask, struct source **source)
{
    struct cache_ready *p = place_of(r, ask);

    if (p->again != ask->again || !p->entry || p->epoch != atomic_load(&r->cache->epoch) ||
        p->date_s != date_of(ask) || r->now_ms >= p->until_ms)
        return false;
    atomic_fetch_add_explicit(&p->entry->refs, 1, memory_order_relaxed);
    stats_add(r->cache->stats, STAT_CACHE_HITS, 1);
    *source = &p->entry->src.source;
    return true;
}

/* --- Making one ------------------------------------------------------------------------------- */

/* Room is made as for any entry; a thread that would have to wait for the lock gets none. */
static bool has_room(struct cache *c, const struct cache_entry *e)
{
    bool has = atomic_load(&c->ready_bytes) + e->bytes <= c->bytes_max / CACHE_READY_SHARE &&
               pthread_mutex_trylock(&c->lock) == 0;

    if (!has)
        return false;
    has = atomic_load(&c->ready_bytes) + e->bytes <= c->bytes_max / CACHE_READY_SHARE &&
          cache_make_room(c, e);
    if (has) {
        atomic_fetch_add(&c->bytes, e->bytes);
        stats_add(c->stats, STAT_CACHE_BYTES, e->bytes);
        atomic_fetch_add(&c->ready_bytes, e->bytes);
    }
    pthread_mutex_unlock(&c->lock);
    return has;
}

static void fill(struct cache_entry *e, const struct http_host *host, const struct source *of)
{
    struct whole *whole = (struct whole *)(e + 1);
    char *bytes = (char *)(whole + 1);
    struct source *s = &e->src.source;

    whole->len = (uint32_t)http_whole_bytes(host, of);
    if (!http_whole_write(whole, bytes, host, of))
        core_failed("a whole answer has the bytes that it was said to have", __FILE__, __LINE__);
    *s = *of;
    s->whole = whole;
    s->bytes = bytes + whole->head_len;
    s->fields = s->bytes - 2 - s->fields_len; /* an empty line is between them */
}

/* NULL: the answer is too long, or there is no room. */
static struct cache_entry *whole_of(struct cache *c, const struct http_host *host,
                                    const struct source *source)
{
    const struct cache_want want = {.kind = CACHE_WHOLE, .path = {"", 0}};
    size_t bytes = http_whole_bytes(host, source);
    struct cache_entry *e;

    if (!bytes || bytes > JOINED_BYTES_MAX)
        return NULL;
    e = cache_entry_new(c, &want, sizeof(struct whole) + bytes);
    if (!e || !has_room(c, e)) {
        free(e);
        return NULL;
    }
    fill(e, host, source);
    stats_add(c->stats, STAT_CACHE_WHOLES, 1);
    return e;
}

static void drop(struct cache_ready *p)
{
    if (p->entry)
        cache_release(p->entry);
    *p = (struct cache_ready){0};
}

struct cache_entry *cache_ready_put(struct cache_reader *r, const struct http_ask *ask,
                                    struct cache_entry *e, uint64_t epoch)
{
    struct cache_ready *p = place_of(r, ask);
    uint32_t age_ms = (uint32_t)r->now_ms - atomic_load(&e->checked_ms);
    uint64_t version = e->src.source.version;

    if (!e->file || atomic_load(&e->variant) != VARIANT_NONE)
        return e;
    if (p->again != ask->again || p->version != version || p->date_s != date_of(ask)) {
        drop(p);
        *p = (struct cache_ready){
            .again = ask->again, .version = version, .date_s = date_of(ask)};
    }
    if (!p->entry && ++p->times == CACHE_READY_TIMES)
        p->entry = whole_of(r->cache, http_host_of(ask->conn), &e->src.source);
    if (!p->entry)
        return e;
    p->epoch = epoch;
    p->until_ms = r->now_ms + (age_ms < e->life_ms ? e->life_ms - age_ms : 0);
    cache_release(e);
    atomic_fetch_add_explicit(&p->entry->refs, 1, memory_order_relaxed);
    return p->entry;
}

void cache_ready_close(struct cache_reader *r)
{
    for (unsigned i = 0; i < CACHE_READY; i++)
        drop(&r->ready[i]);
}
