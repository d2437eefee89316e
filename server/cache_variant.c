/* SPDX-License-Identifier: MIT */
/* cache_variant.c - variants: an entry's bytes in gzip, br or zstd, which take the entry's place.
 *
 * The first hit on an entry by a client that prefers a coding queues the entry.  One thread of the
 * cache, which the first such hit starts, compresses the bytes that are in memory; until then the
 * file is sent as it is.  Then the variant takes over what the entry depends on, under the lock and
 * in one step: if anything has changed since the file was read, the entry has been cut, there is
 * nothing to take over, and the variant is thrown away.  So a variant is as true as an entry.
 *
 * If coding saves too little, the entry stays and is not tried again.  The queue is short.  An
 * entry leaves it when it leaves the table; when the queue is full, the next hit tries again.  A
 * crawl queues nothing, because it hits nothing, and an entry that is evicted before it is hit
 * costs no compression.
 *
 * Siblings in the file's folder are the site's choice and take precedence.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include "../base/say.h"
#include "cache_inside.h"
#include "compress.h"

enum {
    NICENESS = 10, /* of the thread: threads that answer go first */
};

/* --- Which clients an entry is for ------------------------------------------------------------ */

void cache_variant_begin(struct cache *c, const struct cache_want *want, struct cache_entry *e)
{
    const struct source *s = &e->src.source;
    enum coding best;

    if (e->err || want->kind != CACHE_FIND || s->kind != SOURCE_BODY ||
        s->coding != CODING_IDENTITY ||
        !docroot_compresses(s->type, s->size, site_compress_max(c->site)))
        return;
    best = compress_best(want->ask->q);
    if (!e->preference) /* no siblings: only which coding is the best one makes a difference */
        e->preference = (uint16_t)(PREFERENCE_BEST | best);
    if (best == CODING_IDENTITY || !e->compares)
        return; /* an entry that lives only for a moment is not worth it */
    e->coding_wanted = (uint8_t)best;
    atomic_init(&e->variant, VARIANT_WANTED);
}

/* --- The queue -------------------------------------------------------------------------------- */

static struct cache_entry *take(struct cache_variants *v)
{
    struct cache_entry *e = v->queue[0];
    unsigned left = atomic_load(&v->count) - 1;

    memmove(&v->queue[0], &v->queue[1], left * sizeof(struct cache_entry *));
    atomic_store(&v->count, left);
    return e;
}

/* --- Making one ------------------------------------------------------------------------------- */

/* An entry with these coded bytes instead of e's, or NULL. */
static struct cache_entry *entry_of(const struct cache_entry *e, struct slice coded)
{
    const struct cache_want want = {.kind = (enum cache_kind)e->kind, .hash = e->hash,
                                    .path = {e->text, e->path_len},
                                    .now_ms = atomic_load(&e->checked_ms)};
    size_t file_len = strlen(e->text + e->path_len) + 1, fields_len;
    char fields[HTTP_FIELDS_BYTES_MAX], *at;
    struct source s = e->src.source;
    struct cache_entry *made;

    s.coding = (enum coding)e->coding_wanted;
    s.made = compress_hash(coded);
    s.made_of = s.size;
    s.size = coded.len;
    fields_len = http_fields_write(fields, &s, time(NULL));
    made = fields_len ? cache_entry_new(e->cache, &want, file_len + fields_len + coded.len) : NULL;
    if (!made)
        return NULL;
    made->life_ms = e->life_ms;
    made->compares = e->compares;
    made->file = e->file;
    made->preference = e->preference;
    made->bytes += cache_deps_bytes(cache_deps_room(e->cache, &want)); /* e's, taken over */
    at = made->text + e->path_len;
    memcpy(at, e->text + e->path_len, file_len);
    at += file_len;
    memcpy(at, fields, fields_len);
    memcpy(at + fields_len, coded.ptr, coded.len);
    s.fields = at;
    s.fields_len = fields_len;
    s.bytes = at + fields_len;
    made->src.source = s;
    return made;
}

/* NULL: it does not pay, or there is no memory. */
static struct cache_entry *variant_of(const struct cache_entry *e)
{
    const struct slice body = {e->src.source.bytes, (size_t)e->src.source.size};
    size_t cap = docroot_coded_max(body.len), n;
    struct cache_entry *made = NULL;
    char *out = malloc(cap);

    if (!out)
        return NULL;
    n = compress_write((enum coding)e->coding_wanted, body, out, cap);
    if (n)
        made = entry_of(e, (struct slice){out, n});
    else
        stats_add(e->cache->stats, STAT_CACHE_PLAIN, 1);
    free(out);
    return made;
}

/* Makes the variant of the first entry in the queue.  Locked, but not while it compresses. */
static void make_one(struct cache *c)
{
    struct cache_entry *e = take(&c->variants), *made;

    atomic_store(&e->variant, VARIANT_NONE);
    atomic_fetch_add(&e->refs, 1);
    pthread_mutex_unlock(&c->lock);
    made = variant_of(e);
    pthread_mutex_lock(&c->lock);
    if (made && cache_replace(c, e, made))
        stats_add(c->stats, STAT_CACHE_VARIANTS, 1);
    else
        free(made);
    cache_release(e);
    cache_reclaim(c);
}

static void *work(void *arg)
{
    struct cache *c = arg;

    (void)setpriority(PRIO_PROCESS, 0, NICENESS); /* this thread's; if it fails, like others */
    pthread_mutex_lock(&c->lock);
    while (!c->variants.ending) {
        if (atomic_load(&c->variants.count))
            make_one(c);
        else
            pthread_cond_wait(&c->variants.work, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* --- From outside ----------------------------------------------------------------------------- */

/* Whether there is a thread.  Locked. */
static bool start(struct cache *c)
{
    struct cache_variants *v = &c->variants;
    int err;

    if (v->state != VARIANTS_IDLE)
        return v->state == VARIANTS_RUN;
    err = pthread_create(&v->thread, NULL, work, c);
    v->state = err ? VARIANTS_FAILED : VARIANTS_RUN;
    if (err)
        say_error("cannot start the thread that compresses: %s; files are sent as they are; raise "
                  "ulimit -u and restart, or say --compress off", say_why(err));
    return !err;
}

void cache_variant_ask(struct cache *c, struct cache_entry *e)
{
    struct cache_variants *v = &c->variants;
    unsigned count;

    if (atomic_load_explicit(&v->count, memory_order_relaxed) == CACHE_VARIANTS_MAX)
        return; /* the next hit tries again */
    pthread_mutex_lock(&c->lock);
    count = atomic_load(&v->count);
    if (e->deps && atomic_load(&e->variant) == VARIANT_WANTED && count < CACHE_VARIANTS_MAX) {
        if (start(c)) {
            v->queue[count] = e;
            atomic_store(&v->count, count + 1);
            atomic_store(&e->variant, VARIANT_QUEUED);
            pthread_cond_signal(&v->work);
        } else {
            atomic_store(&e->variant, VARIANT_NONE);
        }
    }
    pthread_mutex_unlock(&c->lock);
}

void cache_variants_open(struct cache *c)
{
    pthread_cond_init(&c->variants.work, NULL);
}

void cache_variants_close(struct cache *c)
{
    struct cache_variants *v = &c->variants;
    bool runs;

    pthread_mutex_lock(&c->lock);
    v->ending = true;
    runs = v->state == VARIANTS_RUN;
    pthread_cond_signal(&v->work);
    pthread_mutex_unlock(&c->lock);
    if (runs)
        pthread_join(v->thread, NULL);
    pthread_cond_destroy(&v->work);
}
