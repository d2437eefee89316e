/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kcache.c - the entries: found without a lock, kept up to a number of bytes, timed, and freed when
 * memory is short.
 *
 *   found     by path in a hash table, under RCU; a reference is taken unless the last is gone
 *   references one of the table, one of each answer under way.  Releasing the last one frees the
 *             entry, after a grace period and in a work item, because releasing a path may sleep
 *   bounds    the entries that can be found have <= bytes_max.  The oldest is evicted first; if it
 *             was used since it was queued, it goes to the end of the queue instead.  All entries
 *             that are not freed yet have <= twice that
 *   timer     one for each entry.  A hit only notes the time: a timer that fires early is set again
 */
#include <linux/jhash.h>
#include <linux/percpu.h>
#include <linux/refcount.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <linux/timer.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include "kcompat.h"
#include "kcache.h"

enum {
    CHANCES_MAX = 32, /* entries moved to the end of the queue to make room for one */
};

struct kentry {
    struct ksite_source source; /* first: connections know only this */
    struct kcache *cache;
    struct kcache_key key;      /* its path is in text */
    struct kstamp witness;
    struct rhash_head node;
    refcount_t references;
    struct list_head queue;
    size_t bytes;               /* charged to the cache */
    unsigned long used, old;    /* jiffies: when last asked for; when it is too old */
    unsigned long queued;
    struct timer_list timer;
    struct rcu_work burial;
    char text[];
};

struct kcache_percpu {
    unsigned long hits, misses;
};

struct kcache {
    size_t bytes_max;
    unsigned long keep;       /* jiffies */
    struct rhashtable table;
    struct kcache_percpu __percpu *percpu;
    struct workqueue_struct *wq;
    struct kgzip *gzip;       /* NULL: nothing is compressed */
    struct kcompat_shrinker shrinker;
    atomic_long_t unburied_bytes;
    atomic64_t versions; /* the number of the latest one */
    atomic_t unburied;
    wait_queue_head_t empty;
    spinlock_t lock;          /* guards the rest, and changes of the table; for bottom halves too */
    struct list_head queue;   /* oldest first */
    size_t bytes, entries;
    u64 stale, expired, evicted;
};

/* --- The table -------------------------------------------------------------------------------- */

static u32 hash_key(const void *data, u32 len, u32 seed)
{
    const struct kcache_key *key = data;

    return jhash(key->path.ptr, (u32)key->path.len, seed);
}

static u32 hash_entry(const void *data, u32 len, u32 seed)
{
    return hash_key(&((const struct kentry *)data)->key, 0, seed);
}

static int differs(struct rhashtable_compare_arg *arg, const void *data)
{
    const struct kcache_key *key = arg->key;
    const struct kcache_key *kept = &((const struct kentry *)data)->key;

    return key->path.len != kept->path.len ||
           (kept->order != KCACHE_ANY && kept->order != key->order) ||
           (kept->view != KCACHE_ANY && kept->view != key->view) ||
           memcmp(key->path.ptr, kept->path.ptr, key->path.len);
}

static const struct rhashtable_params by_path = {
    .head_offset = offsetof(struct kentry, node),
    .hashfn = hash_key,
    .obj_hashfn = hash_entry,
    .obj_cmpfn = differs,
    .automatic_shrinking = true,
};

/* --- The end of an entry ---------------------------------------------------------------------- */

/* No reader can see the entry any more, or ever could. */
static void entry_free(struct kentry *e)
{
    struct kcache *c = e->cache;

    kstamp_end(&e->witness);
    kfree(e->source.source.fields);
    kbody_free(&e->source.source);
    atomic_long_sub((long)e->bytes, &c->unburied_bytes);
    kfree(e);
    if (atomic_dec_and_test(&c->unburied))
        wake_up(&c->empty);
}

static void bury(struct work_struct *work)
{
    struct kentry *e = container_of(to_rcu_work(work), struct kentry, burial);

    timer_shutdown_sync(&e->timer);
    entry_free(e);
}

static void put(struct kentry *e)
{
    if (refcount_dec_and_test(&e->references))
        queue_rcu_work(e->cache->wq, &e->burial);
}

/* Takes the entry out of the table; lock is held.  False: it was taken out before. */
static bool take_out(struct kentry *e)
{
    struct kcache *c = e->cache;

    if (rhashtable_remove_fast(&c->table, &e->node, by_path))
        return false;
    list_del(&e->queue);
    c->bytes -= e->bytes;
    c->entries--;
    timer_delete(&e->timer);
    put(e);
    return true;
}

static void take_out_for(struct kentry *e, u64 *reason)
{
    struct kcache *c = e->cache;

    spin_lock_bh(&c->lock);
    if (take_out(e))
        ++*reason;
    spin_unlock_bh(&c->lock);
}

static unsigned long due(const struct kentry *e)
{
    unsigned long unwanted = READ_ONCE(e->used) + e->cache->keep;

    return time_before(unwanted, e->old) ? unwanted : e->old;
}

static void expire(struct timer_list *timer)
{
    struct kentry *e = container_of(timer, struct kentry, timer);

    if (time_before(jiffies, due(e)))
        mod_timer(timer, due(e));
    else
        take_out_for(e, &e->cache->expired);
}

/* --- Hits ------------------------------------------------------------------------------------- */

static struct kentry *entry_held(struct kcache *cache, const struct kcache_key *key)
{
    struct kentry *e;

    rcu_read_lock();
    e = rhashtable_lookup(&cache->table, key, by_path);
    if (e && !refcount_inc_not_zero(&e->references))
        e = NULL;
    rcu_read_unlock();
    return e;
}

static bool is_old(const struct kentry *e)
{
    return time_after_eq(jiffies, e->old); /* its timer may be late */
}

struct source *kcache_find(struct kcache *cache, const struct kcache_key *key)
{
    struct kentry *e = entry_held(cache, key);

    if (e && (is_old(e) || !kstamp_valid(&e->witness))) {
        take_out_for(e, is_old(e) ? &cache->expired : &cache->stale);
        put(e);
        e = NULL;
    }
    if (!e) {
        this_cpu_inc(cache->percpu->misses);
        return NULL;
    }
    this_cpu_inc(cache->percpu->hits);
    if (READ_ONCE(e->used) != jiffies) /* many processors may share the line: written once a tick */
        WRITE_ONCE(e->used, jiffies);
    return &e->source.source;
}

void kcache_release(struct source *source)
{
    put(container_of(source, struct kentry, source.source));
}

/* --- Keeping ---------------------------------------------------------------------------------- */

/* The fields that every whole answer has.  If there is no memory for them, they are written each
 * time. */
static void fields_fill(struct source *s)
{
    char text[HTTP_FIELDS_BYTES_MAX];
    size_t len = http_fields_write(text, s, ktime_get_real_seconds());

    s->fields = len ? kmemdup(text, len, GFP_KERNEL) : NULL;
    s->fields_len = s->fields ? len : 0;
}

/* Charges the entry for the memory that it takes now. */
static void charge(struct kentry *e)
{
    const struct source *s = &e->source.source;
    size_t bytes = sizeof(*e) + e->key.path.len + s->fields_len + PAGE_ALIGN(s->size);

    atomic_long_add((long)bytes - (long)e->bytes, &e->cache->unburied_bytes);
    e->bytes = bytes;
}

/* Bytes that a body may need: never so many that another like it could not be kept. */
static size_t room_for(const struct kcache *c, const struct kcache_fill *fill)
{
    size_t most = rounddown(c->bytes_max / 2, PAGE_SIZE);

    if (fill->source->kind != SOURCE_MADE)
        return fill->source->size;
    return min_t(size_t, KCACHE_BODY_BYTES_MAX, most > PAGE_SIZE ? most - PAGE_SIZE : 0);
}

static struct kentry *entry_new(struct kcache *c, const struct kcache_key *key,
                                const struct kcache_fill *fill)
{
    struct kentry *e = kzalloc(sizeof(*e) + key->path.len, GFP_KERNEL);
    bool made = fill->source->kind == SOURCE_MADE;

    if (!e)
        return NULL;
    e->cache = c;
    e->source.source = *fill->source;
    e->source.source.size = 0;
    e->source.cached = true;
    memcpy(e->text, key->path.ptr, key->path.len);
    e->key = *key;
    e->key.path.ptr = e->text;
    refcount_set(&e->references, 2); /* the table's and the caller's */
    e->used = e->queued = jiffies;
    e->old = made ? fill->since + msecs_to_jiffies(KCACHE_LISTING_AGE_MS)
                  : jiffies + msecs_to_jiffies(KCACHE_AGE_MS);
    timer_setup(&e->timer, expire, 0);
    INIT_RCU_WORK(&e->burial, bury);
    atomic_inc(&c->unburied);
    return e;
}

/* Makes room for that many bytes; lock is held. */
static void make_room(struct kcache *c, size_t bytes)
{
    unsigned chances = 0;
    struct kentry *e;

    while (c->bytes + bytes > c->bytes_max && !list_empty(&c->queue)) {
        e = list_first_entry(&c->queue, struct kentry, queue);
        if (READ_ONCE(e->used) != e->queued && chances++ < CHANCES_MAX) {
            e->queued = READ_ONCE(e->used);
            list_move_tail(&e->queue, &c->queue);
        } else if (take_out(e)) {
            c->evicted++;
        }
    }
}

static int put_in(struct kentry *e)
{
    struct kcache *c = e->cache;
    int err;

    spin_lock_bh(&c->lock);
    make_room(c, e->bytes);
    err = rhashtable_lookup_insert_key(&c->table, &e->key, &e->node, by_path);
    if (!err) {
        list_add_tail(&e->queue, &c->queue);
        c->bytes += e->bytes;
        c->entries++;
        mod_timer(&e->timer, due(e));
    }
    spin_unlock_bh(&c->lock);
    return err; /* -EEXIST: another thread was quicker */
}

static int body_fill(struct kentry *e, const struct kcache_fill *fill)
{
    struct kcache *c = e->cache;
    struct source *s = &e->source.source;

    s->size = room_for(c, fill);
    charge(e);
    if (atomic_long_read(&c->unburied_bytes) <= 2 * (long)c->bytes_max)
        return kbody_fill(s, fill, c->gzip);
    s->size = 0;
    return -ENOMEM;
}

int kcache_keep(struct kcache *cache, const struct kcache_key *key, const struct kcache_fill *fill,
                struct source **cached)
{
    bool made = fill->source->kind == SOURCE_MADE, vouched;
    size_t size = room_for(cache, fill);
    struct kentry *e;
    int err;

    if (size > KCACHE_BODY_BYTES_MAX || key->path.len > KCACHE_PATH_BYTES_MAX ||
        2 * (size + PAGE_SIZE) > cache->bytes_max || /* no other would fit */
        (made && size < CHUNK_BYTES_MAX))
        return -EFBIG;
    e = entry_new(cache, key, fill);
    if (!e)
        return -ENOMEM;
    vouched = fill->lasting && !fill->source->young && kstamp_begin(&e->witness, fill);
    err = vouched || made ? body_fill(e, fill) : -EAGAIN;
    vouched = vouched && !err && kstamp_valid(&e->witness); /* nothing changed while it was read */
    if (!err && !vouched && !made)
        err = -ESTALE;
    if (!err) {
        fields_fill(&e->source.source);
        e->source.source.version = (u64)atomic64_inc_return(&cache->versions);
    }
    charge(e);
    if (err) {
        entry_free(e);
        return err;
    }
    if (!vouched || put_in(e))
        refcount_dec(&e->references); /* the table's: it does not have the entry */
    *cached = &e->source.source;
    return 0;
}

/* --- When memory is short --------------------------------------------------------------------- */

static unsigned long shrink_count(struct shrinker *shrinker, struct shrink_control *control)
{
    struct kcache *c = container_of(kcompat_shrinker_of(shrinker), struct kcache, shrinker);

    return READ_ONCE(c->entries);
}

static unsigned long shrink(struct shrinker *shrinker, struct shrink_control *control)
{
    struct kcache *c = container_of(kcompat_shrinker_of(shrinker), struct kcache, shrinker);
    unsigned long n = 0;

    spin_lock_bh(&c->lock);
    while (n < control->nr_to_scan && !list_empty(&c->queue)) {
        if (take_out(list_first_entry(&c->queue, struct kentry, queue)))
            n++;
    }
    c->evicted += n;
    spin_unlock_bh(&c->lock);
    return n ? n : SHRINK_STOP;
}

static const struct kcompat_shrinking shrinking = {"rung-cache", shrink_count, shrink};

/* --- All of it -------------------------------------------------------------------------------- */

int kcache_open(struct kcache **cache, const struct kcache_options *opt)
{
    struct kcache *c = kzalloc(sizeof(*c), GFP_KERNEL);
    int err;

    if (!c)
        return -ENOMEM;
    c->bytes_max = opt->bytes_max;
    c->keep = max(msecs_to_jiffies(opt->keep_ms), 1ul);
    spin_lock_init(&c->lock);
    INIT_LIST_HEAD(&c->queue);
    init_waitqueue_head(&c->empty);
    err = rhashtable_init(&c->table, &by_path);
    if (err)
        goto no_table;
    err = -ENOMEM;
    c->percpu = alloc_percpu(struct kcache_percpu);
    if (!c->percpu)
        goto no_percpu;
    c->wq = alloc_workqueue("rung_cache", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
    if (!c->wq)
        goto no_queue;
    err = opt->gzip ? kgzip_open(&c->gzip) : 0;
    if (err)
        goto no_gzip;
    err = kcompat_shrinker_open(&c->shrinker, &shrinking);
    if (err)
        goto no_shrinker;
    *cache = c;
    return 0;
no_shrinker:
    kgzip_close(c->gzip);
no_gzip:
    destroy_workqueue(c->wq);
no_queue:
    free_percpu(c->percpu);
no_percpu:
    rhashtable_destroy(&c->table);
no_table:
    kfree(c);
    return err;
}

void kcache_close(struct kcache *cache)
{
    if (!cache)
        return;
    kcompat_shrinker_close(&cache->shrinker);
    spin_lock_bh(&cache->lock);
    while (!list_empty(&cache->queue))
        take_out(list_first_entry(&cache->queue, struct kentry, queue));
    spin_unlock_bh(&cache->lock);
    wait_event(cache->empty, !atomic_read(&cache->unburied));
    destroy_workqueue(cache->wq); /* waits until the last work item has returned */
    kgzip_close(cache->gzip);
    free_percpu(cache->percpu);
    rhashtable_destroy(&cache->table);
    kfree(cache);
}

void kcache_count(struct kcache *cache, struct ksite_counts *counts)
{
    int cpu;

    *counts = (struct ksite_counts){0};
    for_each_possible_cpu(cpu) {
        counts->hits += per_cpu_ptr(cache->percpu, cpu)->hits;
        counts->misses += per_cpu_ptr(cache->percpu, cpu)->misses;
    }
    spin_lock_bh(&cache->lock);
    counts->stale = cache->stale;
    counts->expired = cache->expired;
    counts->evicted = cache->evicted;
    counts->entries = cache->entries;
    counts->bytes = cache->bytes;
    spin_unlock_bh(&cache->lock);
}
