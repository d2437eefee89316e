/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kcache.c - the entries: found without a lock, kept up to a number of bytes, timed, and let go of
 * when memory is short.
 *
 *   found     by path in a hash table, under RCU; a reference is taken unless the last is gone
 *   references one of the table's, one of each answer under way.  The last queues the burial: after
 *             a grace period, in a work item, for letting go of a path may sleep
 *   bounds    bytes that can be found <= bytes_max, the oldest go first, but once more to the end
 *             of the queue if they were asked for meanwhile; all that is not buried <= twice that
 *   timer     one each.  A hit only notes the time: the timer fires early and is set again
 *
 * Bodies are whole pages of the page allocator, each with a count of its own, so that a socket may
 * take them without a copy and keep them longer than we do.
 */
#include <linux/file.h>
#include <linux/gfp.h>
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
    SAVES_AT_LEAST = 8, /* compressed is kept if an eighth is saved */
    CHANCES_MAX = 32,   /* entries that are sent to the end of the queue for one that needs room */
    PAGES_GFP = GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY,
};

struct kentry {
    struct ksite_source source; /* first: what connections know */
    struct kcache *cache;
    struct kcache_key key;      /* its path is in text */
    struct kwitness witness;
    struct rhash_head node;
    refcount_t references;
    struct list_head queue;
    size_t bytes;               /* charged */
    unsigned long born, used;   /* jiffies */
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
    atomic_t unburied;
    wait_queue_head_t empty;
    spinlock_t lock;          /* what follows, and changes of the table; taken in the bottom half */
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
           (kept->order != KCACHE_ANY_ORDER && kept->order != key->order) ||
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

/* Nobody can see it any more, or never could. */
static void entry_free(struct kentry *e)
{
    struct kcache *c = e->cache;

    kwitness_end(&e->witness);
    if (e->source.source.size)
        free_pages_exact((void *)e->source.source.bytes, e->source.source.size);
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

/* Not to be found any more; lock is held.  False: somebody else did that. */
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
    unsigned long old = e->born + msecs_to_jiffies(KCACHE_AGE_MS);

    return time_before(unwanted, old) ? unwanted : old;
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

struct source *kcache_find(struct kcache *cache, const struct kcache_key *key)
{
    struct kentry *e = entry_held(cache, key);

    if (e && !kwitness_agrees(&e->witness)) {
        take_out_for(e, &cache->stale);
        put(e);
        e = NULL;
    }
    if (!e) {
        this_cpu_inc(cache->percpu->misses);
        return NULL;
    }
    this_cpu_inc(cache->percpu->hits);
    if (READ_ONCE(e->used) != jiffies) /* many may share the line: written once a tick */
        WRITE_ONCE(e->used, jiffies);
    return &e->source.source;
}

void kcache_release(struct source *source)
{
    put(container_of(source, struct kentry, source.source));
}

/* --- Bodies ----------------------------------------------------------------------------------- */

static char *body_read(const struct source *source)
{
    char *body = alloc_pages_exact(source->size, PAGES_GFP);
    size_t at = 0;
    loff_t off = 0;

    while (body && at < source->size) {
        ssize_t n = kernel_read(source->file, body + at, source->size - at, &off);

        if (n <= 0) { /* an error, or it has become shorter */
            free_pages_exact(body, source->size);
            return NULL;
        }
        at += (size_t)n;
    }
    return body;
}

/* The body compressed, in its place; if that does not save, it stays as it is. */
static void body_compress(struct kgzip *gzip, struct source *s)
{
    size_t cap = s->size - s->size / SAVES_AT_LEAST;
    char *out = alloc_pages_exact(cap, PAGES_GFP);
    long n = out ? kgzip_write(gzip, (struct slice){s->bytes, s->size}, out, cap) : -ENOMEM;

    if (n < 0) {
        if (out)
            free_pages_exact(out, cap);
        return;
    }
    if (PAGE_ALIGN((size_t)n) < PAGE_ALIGN(cap)) /* the pages behind it */
        free_pages_exact(out + PAGE_ALIGN((size_t)n), PAGE_ALIGN(cap) - PAGE_ALIGN((size_t)n));
    free_pages_exact((void *)s->bytes, s->size);
    s->bytes = out;
    s->size = (uint64_t)n;
    s->coding = CODING_GZIP;
}

static int body_fill(struct kentry *e, const struct kcache_fill *fill)
{
    struct source *s = &e->source.source;

    s->file = NULL;
    s->bytes = "";
    if (s->size) {
        s->bytes = body_read(fill->source);
        if (!s->bytes) {
            s->size = 0;
            return -ENOMEM;
        }
    }
    if (fill->gzip && e->cache->gzip && s->size >= KCACHE_GZIP_BYTES_MIN)
        body_compress(e->cache->gzip, s);
    return kwitness_agrees(&e->witness) ? 0 : -ESTALE; /* what was read is what was vouched for */
}

/* What it takes, now. */
static void charge(struct kentry *e)
{
    size_t bytes = sizeof(*e) + e->key.path.len + PAGE_ALIGN(e->source.source.size);

    atomic_long_add((long)bytes - (long)e->bytes, &e->cache->unburied_bytes);
    e->bytes = bytes;
}

/* --- Keeping ---------------------------------------------------------------------------------- */

static struct kentry *entry_new(struct kcache *c, const struct kcache_key *key,
                                const struct kcache_fill *fill)
{
    struct kentry *e = kzalloc(sizeof(*e) + key->path.len, GFP_KERNEL);

    if (!e)
        return NULL;
    if (!kwitness_begin(&e->witness, fill)) {
        kfree(e);
        return NULL;
    }
    e->cache = c;
    e->source.source = *fill->source;
    e->source.cached = true;
    memcpy(e->text, key->path.ptr, key->path.len);
    e->key = (struct kcache_key){{e->text, key->path.len}, key->order};
    refcount_set(&e->references, 2); /* the table's and the caller's */
    e->born = e->used = e->queued = jiffies;
    timer_setup(&e->timer, expire, 0);
    INIT_RCU_WORK(&e->burial, bury);
    atomic_inc(&c->unburied);
    charge(e);
    return e;
}

/* Room for that many bytes; lock is held. */
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
    return err; /* -EEXIST: somebody was quicker */
}

int kcache_keep(struct kcache *cache, const struct kcache_key *key, const struct kcache_fill *fill,
                struct source **cached)
{
    size_t size = fill->source->size;
    struct kentry *e;
    int err;

    if (size > KCACHE_BODY_BYTES_MAX || key->path.len > KCACHE_PATH_BYTES_MAX ||
        2 * (size + PAGE_SIZE) > cache->bytes_max) /* the only thing there */
        return -EFBIG;
    if (atomic_long_read(&cache->unburied_bytes) + (long)size > 2 * (long)cache->bytes_max)
        return -ENOMEM;
    e = entry_new(cache, key, fill);
    if (!e)
        return -EAGAIN;
    err = body_fill(e, fill);
    charge(e);
    if (!err)
        err = put_in(e);
    if (err)
        entry_free(e);
    else
        *cached = &e->source.source;
    return err;
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
    destroy_workqueue(cache->wq); /* waits for the end of the last burial */
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
