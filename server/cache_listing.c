/* SPDX-License-Identifier: MIT */
/* cache_listing.c - listings that are kept.
 *
 * A listing shows names, kinds, sizes and times.  So it depends on every folder on its path, on all
 * names in its folder, and on every child that it shows.  Each child has a watch of its own: the
 * folder's watch reports a write only if it goes by a name in that folder, and a file may be
 * written to by another one, or by a descriptor that was opened under another one; that it has one
 * link now does not rule that out.  A subfolder's time changes with the names in it, so its watch
 * is a folder's.  All watches are placed before the folder is read.
 *
 * A change that sends no event (docs/cache.md) is found by making the listing again when the kept
 * one is older than CACHE_CHECK_MS, and comparing the bytes.
 *
 * Listings are kept and removed where they are made: on a thread that may block.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cache_inside.h"
#include "hash.h"
#include "site_archive.h"

enum {
    VIEW_BYTES = 3 + 2 * sizeof(uint32_t), /* in the key: format, column, direction, page */
    DENTS_BYTES = 32768,
    FAILS_LASTING = 4 /* a listing that cannot be kept now cannot be kept soon */
};

/* --- The key: path, NUL, and view ------------------------------------------------------------- */

struct key {
    struct cache_want want;
    struct listing_view view;
    char text[CACHE_PATH_BYTES_MAX + 1 + VIEW_BYTES + LISTING_FILTER_BYTES_MAX];
};

static bool key_make(struct key *k, const struct cache *c, const struct http_ask *ask)
{
    size_t len = ask->path.len;
    char *view = k->text + len + 1;

    if (len == 0 || len > CACHE_PATH_BYTES_MAX || ask->path.ptr[len - 1] != '/')
        return false;
    listing_view_read(&k->view, ask);
    memcpy(k->text, ask->path.ptr, len);
    k->text[len++] = '\0'; /* a view may have any byte, a path any but this one */
    view[0] = (char)('0' + k->view.format);
    view[1] = (char)('0' + k->view.sort);
    view[2] = (char)('0' + k->view.descending);
    memcpy(view + 3, &k->view.offset, sizeof(uint32_t));
    memcpy(view + 3 + sizeof(uint32_t), &k->view.limit, sizeof(uint32_t));
    memcpy(view + VIEW_BYTES, k->view.filter, k->view.filter_len);
    len += VIEW_BYTES + k->view.filter_len;
    k->want = (struct cache_want){.kind = CACHE_LISTING, .ask = ask, .path = {k->text, len},
                                  .hash = hash_of(c->key, k->text, len)};
    return true;
}

/* --- Finding ---------------------------------------------------------------------------------- */

static bool is_fresh(const struct cache_entry *e, uint64_t now_ms)
{
    uint32_t checked_ms = atomic_load_explicit(&e->checked_ms, memory_order_relaxed);
    int32_t age_ms = (int32_t)((uint32_t)now_ms - checked_ms); /* < 0: checked by another thread */

    return age_ms < e->life_ms && age_ms > -(int32_t)e->life_ms; /* it wraps after 25 days */
}

static int give(struct cache *c, struct cache_entry *e, struct source **source)
{
    atomic_fetch_add_explicit(&e->hits, 1, memory_order_relaxed);
    if (!atomic_load_explicit(&e->visited, memory_order_relaxed))
        atomic_store_explicit(&e->visited, true, memory_order_relaxed);
    stats_add(c->stats, STAT_CACHE_HITS, 1);
    *source = &e->src.source;
    return 0;
}

int cache_listing_find(struct cache_reader *r, const struct http_ask *ask, struct source **source)
{
    struct cache_entry *e;
    struct key k;

    if (!key_make(&k, r->cache, ask))
        return -ENODATA;
    e = cache_get(r, &k.want);
    if (!e)
        return -ENODATA;
    if (is_fresh(e, r->now_ms) && !site_is_gone(r->cache->site))
        return give(r->cache, e, source);
    cache_release(e);
    if (!ask->head)
        stats_add(r->cache->stats, STAT_CACHE_MISSES, 1);
    return ask->head ? -ENODATA : -EINPROGRESS; /* for HEAD nothing need be made */
}

/* --- The children ----------------------------------------------------------------------------- */

struct children {
    struct cache *c;
    struct cache_deps *deps; /* NULL: they are counted */
    const struct listing_view *view;
    int folder;
    unsigned names, shown;
    bool lasting; /* one of them cannot be kept: see docs/cache.md */
};

/* Opening a folder that waits to be mounted would mount it; and a mounted one is not kept. */
static bool is_mount(const struct children *ch, const char *name)
{
    struct stat folder, st;

    return fstat(ch->folder, &folder) < 0 ||
           fstatat(ch->folder, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 ||
           st.st_dev != folder.st_dev;
}

static bool see_child(struct children *ch, const struct dirent64 *d)
{
    struct slice name = {d->d_name, strlen(d->d_name)};
    const struct cache_child child = {ch->folder, d->d_name, d->d_type == DT_DIR};

    ch->names++;
    ch->lasting = ch->names > SITE_FIRST_NAMES;
    if (ch->lasting)
        return false;
    if (!folder_shows(&ch->c->site->rules, ch->view, name))
        return true;
    ch->lasting = d->d_type != DT_REG && d->d_type != DT_DIR;
    if (ch->lasting || (d->d_type == DT_DIR && is_mount(ch, d->d_name)))
        return false;
    ch->shown++;
    return !ch->deps || (ch->deps->count < ch->deps->room &&
                         cache_depend_child(ch->c, ch->deps, &child));
}

static bool see_children(struct children *ch)
{
    char *dents = malloc(DENTS_BYTES);
    bool good = dents;
    ssize_t n;

    while (good && (n = getdents64(ch->folder, dents, DENTS_BYTES)) != 0) {
        good = n > 0;
        for (ssize_t at = 0; good && at < n;) {
            const struct dirent64 *d = (const void *)(dents + at);

            good = see_child(ch, d);
            at += d->d_reclen;
        }
    }
    free(dents);
    return good;
}

/* Whether there is an index that is no page now, but may become one by its target or its rights. */
static bool has_index(const struct site *site, int folder)
{
    struct stat st;

    if (site->rules.index_len == 0)
        return false;
    if (fstatat(folder, site->rules.index, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
        return errno != ENOENT;
    return !S_ISDIR(st.st_mode);
}

/* Counts the entries first, so that the deps have room for them and no watch is placed for
 * nothing. */
static struct cache_deps *deps_for(struct children *ch, struct slice path)
{
    char text[CACHE_PATH_BYTES_MAX + 1] = ".";
    bool good = false;

    if (path.len > 1) {
        memcpy(text, path.ptr + 1, path.len - 1);
        text[path.len - 1] = '\0';
    }
    ch->folder = site_open_beneath(ch->c->site, text, O_RDONLY | O_DIRECTORY);
    if (ch->folder < 0)
        return NULL;
    ch->lasting = has_index(ch->c->site, ch->folder);
    if (!ch->lasting)
        good = see_children(ch);
    close(ch->folder);
    return good ? cache_deps_new(ch->c, CACHE_DEPS_MAX + ch->shown + 1) : NULL;
}

/* Watches everything that the listing depends on. */
static bool watch(struct children *ch, struct slice path)
{
    int folder = cache_watch_folder(ch->c, ch->deps, path, &ch->lasting);
    bool good = false;

    if (folder < 0)
        return false;
    ch->names = ch->shown = 0;
    ch->folder = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ch->folder >= 0) {
        good = see_children(ch) && !has_index(ch->c->site, ch->folder);
        close(ch->folder);
    }
    close(folder);
    return good;
}

/* --- Making the entry ------------------------------------------------------------------------- */

static const size_t TOO_LONG = SIZE_MAX;

/* The length of the whole body, or TOO_LONG if it has more than max bytes.  There is room for a
 * chunk more.  Afterwards the listing is as if nothing had been
 * read. */
static size_t read_body(struct source *s, char *to, size_t max)
{
    size_t len = 0, n = 1;

    while (n > 0 && len <= max) {
        n = site_listing_next(s, to + len, CHUNK_BYTES_MAX);
        core_assert(n <= CHUNK_BYTES_MAX);
        len += n;
    }
    folder_rewind(site_listing(s));
    return n == 0 ? len : TOO_LONG;
}

/* The entry has exactly the memory that it needs: shrinking a large one would leave it a mapping of
 * its own, and a change that ends a thousand would unmap each. */
static struct cache_entry *entry_make(struct cache *c, const struct key *k, struct source *s)
{
    char *body = malloc(c->body_max + CHUNK_BYTES_MAX);
    size_t size = body ? read_body(s, body, c->body_max) : TOO_LONG;
    struct cache_entry *e = size != TOO_LONG ? cache_entry_new(c, &k->want, size) : NULL;

    if (e)
        memcpy(e->text + e->path_len, body, size);
    free(body);
    if (!e)
        return NULL;
    e->life_ms = CACHE_CHECK_MS;
    atomic_init(&e->refs, 2); /* the table's, and that of the source given out */
    e->src.source = (struct source){.kind = SOURCE_MADE, .type = s->type, .size = size,
                                    .bytes = e->text + e->path_len};
    return e;
}

/* Makes the listing while everything is watched.  0 or -errno, and whether it is kept. */
static int make(struct children *ch, const struct key *k, struct source **source, bool *kept)
{
    struct cache *c = ch->c;
    struct cache_entry *e = NULL;
    int err = site_find(c->site, k->want.ask, true, source);

    if (!err && folder_is_plain(site_listing(*source)))
        e = entry_make(c, k, *source);
    if (e) {
        e->watches = ch->deps->count;
        e->bytes += cache_deps_bytes(ch->deps->room) + e->watches * sizeof(struct cache_node);
    }
    *kept = e && cache_publish(c, e, ch->deps);
    if (*kept) {
        site_release(c->site, *source);
        *source = &e->src.source;
    } else {
        free(e);
    }
    return err;
}

static int fill(struct cache *c, struct key *k, struct source **source)
{
    struct children ch = {.c = c, .view = &k->view};
    struct slice path = k->want.ask->path;
    bool kept = false;
    int err;

    ch.deps = deps_for(&ch, path);
    if (ch.deps && watch(&ch, path))
        err = make(&ch, k, source, &kept);
    else
        err = site_find(c->site, k->want.ask, true, source);
    if (kept)
        return err;
    if (ch.deps)
        cache_deps_free(c, ch.deps);
    cache_listing_failed(c, k->want.hash, ch.lasting ? FAILS_LASTING : 1);
    return err;
}

/* --- Again ------------------------------------------------------------------------------------ */

static bool same_body(const struct cache_entry *e, struct source *s)
{
    const struct source *kept = &e->src.source;
    char piece[CHUNK_BYTES_MAX];
    size_t at = 0, n;

    while ((n = site_listing_next(s, piece, sizeof(piece))) > 0) {
        core_assert(n <= CHUNK_BYTES_MAX);
        if (n > kept->size - at || memcmp(kept->bytes + at, piece, n) != 0)
            return false;
        at += n;
    }
    return at == kept->size;
}

/* Gives the kept listing if it equals one made now, otherwise the one made now. */
static int compare(struct cache *c, struct cache_entry *e, const struct http_ask *ask,
                   struct source **source)
{
    uint64_t begun_ms = clock_ms();
    int err;

    if (is_fresh(e, begun_ms) && !site_is_gone(c->site)) /* another thread has compared it */
        return give(c, e, source);
    err = site_find(c->site, ask, true, source);
    if (!err && folder_is_plain(site_listing(*source))) {
        if (same_body(e, *source)) {
            site_release(c->site, *source);
            atomic_store_explicit(&e->checked_ms, (uint32_t)begun_ms, memory_order_relaxed);
            return give(c, e, source);
        }
        folder_rewind(site_listing(*source));
    }
    cache_cut_entry(c, e);
    cache_release(e);
    return err;
}

/* Like cache_get(), for any thread. */
static struct cache_entry *get_locked(struct cache *c, const struct cache_want *want)
{
    struct cache_reader r = {.cache = c};
    struct cache_entry *e;

    pthread_mutex_lock(&c->lock);
    e = cache_get(&r, want);
    pthread_mutex_unlock(&c->lock);
    return e;
}

int cache_list(struct cache_reader *reader, const struct http_ask *ask, struct source **source)
{
    struct cache *c = reader->cache;
    struct cache_entry *e;
    struct key k;

    cache_sweep(c); /* the watches of listings that have ended */
    if (site_archive_asked(c->site, ask) || !key_make(&k, c, ask))
        return site_find(c->site, ask, true, source);
    e = get_locked(c, &k.want);
    if (e)
        return compare(c, e, ask, source);
    k.want.now_ms = clock_ms(); /* the reader's now_ms is for the loop's thread alone */
    if (!cache_listing_pays(c, k.want.hash, k.want.now_ms))
        return site_find(c->site, ask, true, source);
    return fill(c, &k, source);
}
