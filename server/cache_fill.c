/* SPDX-License-Identifier: MIT */
/* cache_fill.c - an answer becomes an entry: watch first, read afterwards.
 *
 * The way to the file is watched (cache_way.c) before the file is read.  So whatever the site finds
 * afterwards either is still true or has sent an event that is in the queue, and that event ends
 * the entry, whether it is in the table yet or not.
 *
 * Three kinds of answers are kept: files of up to file_max bytes that are in the kernel's memory
 * now, redirects to a folder, and that nothing is there.  Refusals are not kept, nor is whatever a
 * symbolic link leads to, because a link's own path may change in folders that are not on the way.
 * Listings have a file of their own: cache_listing.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include "cache_inside.h"
#include "hash.h"

enum {
    MARK_TIMES = 7 << 1,     /* of a doorkeeper's mark: how often the key was asked for */
    MARK_BITS = 4,           /* ... below the bits of its hash */
    REFUSED_BITS = 10,       /* of a doorkeeper's mark: when it was refused, and that it was */
    REFUSED_MS_LOG = 14,     /* every 16 s keeping is tried again */
};

bool cache_equals_file(struct cache *c, const struct cache_entry *e)
{
    const struct source *s = &e->src.source;
    struct stat st;

    return fstatat(c->site->root_fd, e->text + e->path_len, &st,
                   AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 &&
           S_ISREG(st.st_mode) && st.st_ino == s->inode &&
           (uint64_t)st.st_size == (s->made ? s->made_of : s->size) &&
           st.st_mtim.tv_sec == s->mtime_s && (uint32_t)st.st_mtim.tv_nsec == s->mtime_ns &&
           st.st_ctim.tv_sec == s->ctime_s && (uint32_t)st.st_ctim.tv_nsec == s->ctime_ns;
}

/* --- Asked for before ------------------------------------------------------------------------- */

/* A doorkeeper's mark: bits of the hash, how often the key was asked for, and 1.  Two keys that
 * agree in these bits are taken for one: one of them is kept too early. */
static uint32_t doorkeeper_tag(const struct cache_want *want)
{
    return (uint32_t)(want->hash >> 29) << MARK_BITS | 1; /* never 0 */
}

/* Whether the mark is this key's: how often it was asked for, or a refusal at any time. */
static bool is_mark_of(uint32_t mark, uint32_t tag)
{
    return mark & 1 ? (mark & ~MARK_TIMES) == tag : mark && !((mark ^ tag) >> REFUSED_BITS);
}

/* Where the key's mark is, or will be.  It may lie in any place of a set: two keys that had one
 * place and were asked for in turn would overwrite each other's marks for ever, and neither would
 * be kept.  If all places are taken, the one whose mark is lost depends on the others' and on the
 * time, so that no two keys lose theirs to each other again and again. */
static _Atomic uint32_t *doorkeeper_at(struct cache *c, const struct cache_want *want)
{
    uint32_t tag = doorkeeper_tag(want), mark, all = (uint32_t)want->now_ms;
    _Atomic uint32_t *set = c->doorkeeper[want->hash % CACHE_DOORKEEPER], *free_one = NULL;

    for (unsigned i = 0; i < CACHE_DOORKEEPER_WAYS; i++) {
        mark = atomic_load_explicit(&set[i], memory_order_relaxed);
        if (is_mark_of(mark, tag))
            return &set[i];
        if (!mark)
            free_one = &set[i];
        all = (all ^ mark) * HASH_MIX_32;
    }
    return free_one ? free_one : &set[(all >> 16) % CACHE_DOORKEEPER_WAYS];
}

static unsigned times_asked(uint32_t mark, const struct cache_want *want)
{
    return (mark & ~MARK_TIMES) == doorkeeper_tag(want) ? (mark & MARK_TIMES) >> 1 : 0;
}

static uint32_t mark_of(const struct cache_want *want, unsigned times)
{
    return doorkeeper_tag(want) | times << 1;
}

/* Whether an entry is made now.  If there is next to no room, each new entry takes the place of
 * another that may be asked for as often.  Making an entry costs more than two answers without one,
 * so the key has to be asked for more often then. */
static bool is_worth_it(struct cache *c, const struct cache_want *want, unsigned times)
{
    bool crowded = atomic_load_explicit(&c->bytes, memory_order_relaxed) >=
                       c->bytes_max - c->bytes_max / CACHE_CROWDED_SHARE ||
                   atomic_load_explicit(&c->watches, memory_order_relaxed) >=
                       c->watches_max - c->watches_max / CACHE_CROWDED_SHARE;

    return want->was_kept || times + 1 >= (crowded ? CACHE_TIMES_CROWDED : CACHE_TIMES);
}

/* The mark of a key that was asked for again and cannot be kept: keeping it is tried again after a
 * while, not at each request.  The mark is even, so that it is no tag. */
static uint32_t doorkeeper_refusal(const struct cache_want *want)
{
    uint32_t when = (uint32_t)(want->now_ms >> REFUSED_MS_LOG) & ((1u << (REFUSED_BITS - 1)) - 1);

    return (doorkeeper_tag(want) >> REFUSED_BITS << REFUSED_BITS) | when << 1;
}

/* --- Making the entry ------------------------------------------------------------------------- */

static int ask_site(struct cache *c, const struct cache_want *want, struct source **source)
{
    if (want->kind == CACHE_PAGE)
        return site_page(c->site, want->status, source);
    return site_find(c->site, want->ask, false, source);
}

static bool is_kept(const struct cache *c, const struct cache_want *want, int err,
                    const struct source *s)
{
    if (err == -ENOENT)
        return want->kind == CACHE_PAGE || c->site->rules.hidden || !path_is_hidden(want->path);
    return !err && (s->kind == SOURCE_REDIRECT ||
                    (s->kind == SOURCE_BODY && s->size <= c->file_max));
}

/* Reads all of it, from memory: the loop does not wait for a disk. */
static bool read_body(int fd, char *to, size_t n)
{
    off_t at = 0;

    while ((size_t)at < n) {
        struct iovec left = {to + at, n - (size_t)at};
        ssize_t got = preadv2(fd, &left, 1, at, RWF_NOWAIT);

        if (got < 0 && errno == EOPNOTSUPP) /* tmpfs: it has no disk */
            got = preadv(fd, &left, 1, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
    }
    return true;
}

/* The path of the file that is sent, relative to the root; len 0: there is none. */
struct file_path {
    size_t len;
    char text[CACHE_PATH_BYTES_MAX + NAME_BYTES_MAX + CODING_SUFFIX_BYTES_MAX + 1];
};

static void file_path(const struct cache *c, const struct cache_want *want,
                      const struct source *s, struct file_path *file)
{
    const char *index = want->path.ptr[want->path.len - 1] == '/' ? c->site->rules.index : "";
    int n = 0;

    if (s && s->kind == SOURCE_BODY && want->kind == CACHE_PAGE)
        n = snprintf(file->text, sizeof(file->text), "%u.html", want->status);
    else if (s && s->kind == SOURCE_BODY)
        n = snprintf(file->text, sizeof(file->text), "%.*s%s%s", (int)want->path.len - 1,
                     want->path.ptr + 1, index, http_coding_suffix(s->coding));
    core_assert(n >= 0 && (size_t)n < sizeof(file->text));
    file->len = (size_t)n;
}

/* An entry with the site's answer; NULL: it cannot be kept. */
static struct cache_entry *entry_make(struct cache *c, const struct cache_want *want, int err,
                                      const struct source *s)
{
    struct file_path file;
    char fields[HTTP_FIELDS_BYTES_MAX];
    size_t fields_len = s ? http_fields_write(fields, s, time(NULL)) : 0;
    size_t size = s && s->kind == SOURCE_BODY ? (size_t)s->size : 0;
    struct cache_entry *e;
    char *at;

    file_path(c, want, s, &file);
    e = cache_entry_new(c, want, file.len + 1 + fields_len + size);
    if (!e)
        return NULL;
    e->err = err;
    e->file = file.len > 0;
    e->bytes += cache_deps_bytes(cache_deps_room(c, want));
    at = e->text + want->path.len;
    memcpy(at, file.text, file.len);
    at[file.len] = '\0';
    at += file.len + 1;
    if (!s)
        return e;
    e->src.source = *s;
    e->src.source.file = NULL;
    if (fields_len) {
        memcpy(at, fields, fields_len);
        e->src.source.fields = at;
        e->src.source.fields_len = fields_len;
        at += fields_len;
    }
    e->life_ms = s->kind == SOURCE_BODY && !fields_len ? CACHE_UNSETTLED_MS : CACHE_CHECK_MS;
    e->compares = fields_len && s->coding == CODING_IDENTITY;
    if (s->kind == SOURCE_BODY)
        e->src.source.bytes = at;
    if (size && !read_body(site_source_fd(s), at, size)) {
        free(e);
        return NULL;
    }
    return e;
}

/* A sibling was not chosen though the client prefers its coding: it is too old or cannot be read.
 * Comparing the file does not tell whether that is still so. */
static bool has_rival(const struct cache_way *w, const struct cache_want *want)
{
    for (enum coding coding = CODING_IDENTITY + 1; coding < CODINGS; coding++)
        if (w->files & 1u << coding && http_prefers(want->ask->q, coding, CODING_IDENTITY))
            return true;
    return false;
}

/* The way is being watched, so the answer that the site gives now can be kept. */
static int fill(struct cache_way *w, const struct cache_want *want, struct source **source,
                bool *kept)
{
    struct cache *c = w->c;
    struct cache_entry *e = NULL;
    struct source *found = NULL;
    int err = ask_site(c, want, &found);

    if (is_kept(c, want, err, found))
        e = entry_make(c, want, err, found);
    if (e) {
        e->preference = w->varies ? PREFERENCE_ORDER | http_order(want->ask->q) : 0;
        e->compares = e->compares && !has_rival(w, want);
        cache_variant_begin(c, want, e);
        atomic_fetch_add(&e->refs, 1); /* of the source given out; the table has one, too */
    }
    *kept = e && cache_publish(c, e, w->deps);
    if (!*kept) {
        cache_deps_free(c, w->deps);
        free(e);
        *source = found;
        return err;
    }
    if (found)
        site_release(c->site, found);
    if (err)
        cache_release(e);
    else
        *source = &e->src.source;
    return err;
}

int cache_fill(struct cache *c, const struct cache_want *want, struct source **source)
{
    _Atomic uint32_t *at = doorkeeper_at(c, want);
    uint32_t mark = atomic_load_explicit(at, memory_order_relaxed);
    unsigned times = times_asked(mark, want);
    struct cache_way w = {.c = c};
    bool kept;
    int err;

    if (mark == doorkeeper_refusal(want))
        return ask_site(c, want, source);
    if (is_worth_it(c, want, times))
        w.deps = cache_deps_new(c, cache_deps_room(c, want));
    if (w.deps && cache_way_watch(&w, want)) {
        err = fill(&w, want, source, &kept);
        if (kept)
            atomic_store_explicit(at, 0, memory_order_relaxed);
        return err;
    }
    if (w.deps) {
        cache_deps_free(c, w.deps);
        if (w.lasting)
            atomic_store_explicit(at, doorkeeper_refusal(want), memory_order_relaxed);
        return ask_site(c, want, source);
    }
    err = ask_site(c, want, source);
    if (is_kept(c, want, err, err ? NULL : *source))
        atomic_store_explicit(at,
                              mark_of(want, times < CACHE_TIMES_CROWDED ? times + 1 : times),
                              memory_order_relaxed);
    return err;
}
