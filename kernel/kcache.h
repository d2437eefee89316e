/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kcache.h - bodies of small files and listings in memory, for answers that must not sleep.
 *
 * An entry is what one question found: a path, the order in which the client likes codings, and the
 * view of a folder lead to one body.  It never changes; it is one source for all connections at
 * once, counted, freed when the last of them is done and no reader can see it any more.  Whether it
 * is still what is on disk is asked at every hit, of what the kernel holds in memory (kwitness.c).
 * An entry that nobody asked for during keep_ms goes, and every entry when it is old.
 */
#ifndef KERNEL_KCACHE_H
#define KERNEL_KCACHE_H
#include <linux/path.h>
#include "../core/stamp.h"
#include "ksite_inside.h"

enum {
    /* A body: what leaves in a few sends.  Larger ones are sent from the page cache anyway. */
    KCACHE_BODY_BYTES_MAX = 256 << 10,
    KCACHE_PATH_BYTES_MAX = 512,
    /* Who writes through a mapping tells nobody; so long may it go unnoticed. */
    KCACHE_AGE_MS = 10000,
    /* What is in a folder may change and its folder not tell: what a listing says of it is no older
     * than this.  Nor is one kept in which something has changed within the same time. */
    KCACHE_LISTING_AGE_MS = 2000,
};

struct kcache;

struct kcache_options {
    size_t bytes_max; /* of entries that can be found; as much again may be on its way out */
    unsigned keep_ms;
    bool gzip;
};

int kcache_open(struct kcache **cache, const struct kcache_options *opt);
void kcache_close(struct kcache *cache); /* nobody has or seeks a source of it; NULL is fine */

/* What is asked.  order: http_order().  view: of a folder, a number for each that is kept.
 * KCACHE_ANY, of what is kept only: there is but one answer. */
enum { KCACHE_ANY = 0xff };
struct kcache_key {
    struct slice path;
    uint8_t order, view;
};

/* The source, which is the caller's until kcache_release(), or NULL.  Both in any context. */
struct source *kcache_find(struct kcache *cache, const struct kcache_key *key);
void kcache_release(struct source *source);

/* What a search found and is to be kept.  Paths have no symbolic link on their way. */
struct kcache_fill {
    struct source *source;    /* its body is read from its file, or made to its end */
    const struct path *root;  /* the site's */
    const struct path *asked; /* what the name leads to */
    const struct path *sent;  /* whose body that is: the same, or a sibling's */
    bool siblings;            /* a file that comes beside it may be the better answer */
    bool gzip;                /* to be compressed, if that saves */
    bool lasting;             /* else for this answer alone: only of use to what is made */
    u64 seen;                 /* kwitness_sum() before it was made, or its name walked again */
    unsigned long since;      /* of a made one: jiffies then */
};

/* 0 and *cached, as of kcache_find(), or -errno: its body is not to be had in memory.  What may not
 * be found again is there for the caller alone: so the head of a listing does not tell whether it
 * was kept.  Sleeps.  The fill stays the caller's. */
int kcache_keep(struct kcache *cache, const struct kcache_key *key, const struct kcache_fill *fill,
                struct source **cached);

void kcache_count(struct kcache *cache, struct ksite_counts *counts);

/* --- kwitness.c: has anything changed that an answer rests on? ------------------------------- */

/* Everything that changes this file system goes through this kernel and shows in its inodes; its
 * page cache is the truth, and it waits for a disk at most. */
bool kwitness_local(const struct super_block *sb);

struct kwitness {
    struct path asked;
    struct dentry *sent;
    struct dentry *root;
    bool siblings;
    u64 sum;
};

/* What stamps its files, and the time now: to be asked before a file is looked at. */
struct stamp_clock kwitness_clock(const struct super_block *sb);

/* What is seen now; 0: a change could not be told here, or the last one is so young that the next
 * might look the same. */
u64 kwitness_sum(const struct kcache_fill *fill);

/* Looks, and holds the paths until kwitness_end().  False: it is not what was seen before, or not
 * what the source says; then nothing is held, and there is nothing to end. */
bool kwitness_begin(struct kwitness *w, const struct kcache_fill *fill);
bool kwitness_agrees(const struct kwitness *w); /* in any context */
void kwitness_end(struct kwitness *w);          /* may sleep */

/* --- kcache_body.c ---------------------------------------------------------------------------- */

/* s is a copy of the fill's source, its size the room that there is.  0, and its body is in memory
 * of its own until kbody_free(); or -errno, and it has none.  Sleeps. */
struct kgzip;
int kbody_fill(struct source *s, const struct kcache_fill *fill, struct kgzip *gzip);
void kbody_free(struct source *s);

/* --- kgzip.c ---------------------------------------------------------------------------------- */

int kgzip_open(struct kgzip **gzip);
void kgzip_close(struct kgzip *gzip); /* NULL is fine */
/* The gzip file of some bytes (RFC 1952): its length, or -ENOSPC: it does not fit.  Sleeps. */
long kgzip_write(struct kgzip *gzip, struct slice in, char *out, size_t cap);

#endif
