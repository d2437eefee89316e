/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kcache.h - bodies of small files in memory, for answers that must not sleep.
 *
 * An entry is what one question found: a path, and the order in which the client likes codings,
 * lead to one body.  It never changes; it is one source for all connections at once, counted, freed
 * when the last of them is done and no reader can see it any more.  Whether it is still what is on
 * disk is asked at every hit, of what the kernel holds in memory (kwitness.c).  An entry that
 * nobody asked for during keep_ms goes, and every entry goes after KCACHE_AGE_MS.
 */
#ifndef KERNEL_KCACHE_H
#define KERNEL_KCACHE_H
#include <linux/path.h>
#include "ksite_inside.h"

enum {
    /* A body: what leaves in a few sends.  Larger ones are sent from the page cache anyway. */
    KCACHE_BODY_BYTES_MAX = 256 << 10,
    KCACHE_PATH_BYTES_MAX = 512,
    /* Who writes through a mapping tells nobody; so long may it go unnoticed. */
    KCACHE_AGE_MS = 10000,
    /* No use in compressing less: it leaves in one segment either way. */
    KCACHE_GZIP_BYTES_MIN = 512,
};

struct kcache;

struct kcache_options {
    size_t bytes_max; /* of entries that can be found; as much again may be on its way out */
    unsigned keep_ms;
    bool gzip;
};

int kcache_open(struct kcache **cache, const struct kcache_options *opt);
void kcache_close(struct kcache *cache); /* nobody has or seeks a source of it; NULL is fine */

/* What is asked.  order: the codings that may be sent instead of the original, the best first, two
 * bits each.  KCACHE_ANY_ORDER: there is but one answer; of what is kept only. */
enum { KCACHE_ANY_ORDER = 0xff };
struct kcache_key {
    struct slice path;
    uint8_t order;
};

/* The source, which is the caller's until kcache_release(), or NULL.  Both in any context. */
struct source *kcache_find(struct kcache *cache, const struct kcache_key *key);
void kcache_release(struct source *source);

/* What a search found and is to be kept.  Paths have no symbolic link on their way. */
struct kcache_fill {
    const struct source *source; /* its body is read from its file */
    const struct path *root;     /* the site's */
    const struct path *asked;    /* what the name leads to */
    const struct path *sent;     /* whose body that is: the same, or a sibling's */
    bool siblings;               /* a file that comes beside it may be the better answer */
    bool gzip;                   /* to be compressed, if that saves */
};

/* 0 and *cached, as of kcache_find(), or -errno: it is not to be kept.  Sleeps.  The fill stays the
 * caller's. */
int kcache_keep(struct kcache *cache, const struct kcache_key *key, const struct kcache_fill *fill,
                struct source **cached);

void kcache_count(struct kcache *cache, struct ksite_counts *counts);

/* --- kwitness.c: has anything changed that an answer rests on? ------------------------------- */

struct kwitness {
    struct path asked;
    struct dentry *sent;
    struct dentry *root;
    bool siblings;
    u64 sum;
};

/* Looks, and holds the paths until kwitness_end().  False: a change could not be told here, or the
 * last one is so young that the next might look the same; then nothing is held. */
bool kwitness_begin(struct kwitness *w, const struct kcache_fill *fill);
bool kwitness_agrees(const struct kwitness *w); /* in any context */
void kwitness_end(struct kwitness *w);          /* may sleep */

/* --- kgzip.c ---------------------------------------------------------------------------------- */

struct kgzip;
int kgzip_open(struct kgzip **gzip);
void kgzip_close(struct kgzip *gzip); /* NULL is fine */
/* The gzip file of some bytes (RFC 1952): its length, or -ENOSPC: it does not fit.  Sleeps. */
long kgzip_write(struct kgzip *gzip, struct slice in, char *out, size_t cap);

#endif
