/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kcache.h - bodies of small files and listings in memory, for answers that must not sleep.
 *
 * An entry is the answer to one question: a path, the order in which the client likes codings, and
 * the view of a folder lead to one body.  An entry never changes.  It is one source for all
 * connections at once, has a reference count, and is freed when the last of them is done and no
 * reader can see it any more.  Every hit checks whether the entry is still what is on disk, by what
 * the kernel holds in memory (kstamp.c).  An entry that was not asked for during keep_ms is
 * removed, and so is every entry when it is old.
 */
#ifndef KERNEL_KCACHE_H
#define KERNEL_KCACHE_H
#include <linux/path.h>
#include "../core/stamp.h"
#include "ksite_inside.h"

enum {
    /* The largest body: it leaves in a few sends.  Larger ones are sent from the page cache
     * anyway. */
    KCACHE_BODY_BYTES_MAX = 256 << 10,
    KCACHE_PATH_BYTES_MAX = 512,
    /* Nothing reports a write through a mapping; it may stay unnoticed for this time. */
    KCACHE_AGE_MS = 10000,
    /* Files may change without a change of their folder, so what a listing says of them is no older
     * than this.  A listing in which something has changed within the same time is not kept. */
    KCACHE_LISTING_AGE_MS = 2000,
};

struct kcache;

struct kcache_options {
    size_t bytes_max; /* of entries that can be found; as many again may wait to be freed */
    unsigned keep_ms;
    bool gzip;
};

int kcache_open(struct kcache **cache, const struct kcache_options *opt);
void kcache_close(struct kcache *cache); /* no source of it is in use or sought; NULL is fine */

/* A question.  order: http_order().  view: a number for each view of a folder that is kept.
 * KCACHE_ANY, only in the key of an entry: there is only one answer. */
enum { KCACHE_ANY = 0xff };
struct kcache_key {
    struct slice path;
    uint8_t order, view;
};

/* Returns the source, which is the caller's until kcache_release(), or NULL.  Both functions may be
 * called in any context. */
struct source *kcache_find(struct kcache *cache, const struct kcache_key *key);
void kcache_release(struct source *source);

/* An answer that a search found, to be kept.  If it is lasting, its paths have no symbolic link on
 * their way. */
struct kcache_fill {
    struct source *source;    /* its body is read from its file, or made to the end */
    const struct path *root;  /* the site's */
    const struct path *asked; /* what the name leads to */
    const struct path *sent;  /* the one whose body is sent: the same, or a sibling's */
    bool siblings;            /* a sibling that appears later may be the better answer */
    bool gzip;                /* compress the body, if that saves */
    bool lasting;             /* false: it serves this answer only; for a made body */
    u64 seen;                 /* kstamp_sum() before it was made, or its name walked again */
    unsigned long since;      /* if it is made: jiffies then */
};

/* Returns 0 and *cached, as from kcache_find(), or -errno if the body cannot be put into memory.
 * An entry that may not be found again is made for the caller alone, so the head of a listing does
 * not show whether the listing was kept.  May sleep.  The fill stays the caller's. */
int kcache_keep(struct kcache *cache, const struct kcache_key *key, const struct kcache_fill *fill,
                struct source **cached);

void kcache_count(struct kcache *cache, struct ksite_counts *counts);

/* --- kstamp.c: has anything changed that an answer rests on? ------------------------------- */

/* Whether everything that changes the file system goes through this kernel and shows in its inodes.
 * Then its page cache is current, and it waits for a disk at most. */
bool kstamp_local(const struct super_block *sb);

struct kstamp {
    struct path asked;
    struct dentry *sent;
    struct dentry *root;
    bool siblings;
    u64 sum;
};

/* The clock that stamps the file system's files, and the time now.  Call it before a file is looked
 * at. */
struct stamp_clock kstamp_clock(const struct super_block *sb);

/* The sum of what is seen now.  0: a change could not be seen here, or the last one is so young
 * that the next might look the same. */
u64 kstamp_sum(const struct kcache_fill *fill);

/* Looks again, and holds the paths until kstamp_end().  False: this is not what was seen before,
 * or not what the source says; then nothing is held, and there is nothing to end. */
bool kstamp_begin(struct kstamp *w, const struct kcache_fill *fill);
bool kstamp_valid(const struct kstamp *w); /* in any context */
void kstamp_end(struct kstamp *w);          /* may sleep */

/* --- kcache_body.c ---------------------------------------------------------------------------- */

/* s is a copy of the fill's source; its size is the room that there is.  0: its body is in memory
 * of its own until kbody_free().  -errno: it has no body.  May sleep. */
struct kgzip;
int kbody_fill(struct source *s, const struct kcache_fill *fill, struct kgzip *gzip);
void kbody_free(struct source *s);

/* --- kgzip.c ---------------------------------------------------------------------------------- */

int kgzip_open(struct kgzip **gzip);
void kgzip_close(struct kgzip *gzip); /* NULL is fine */
/* Writes the gzip file of some bytes (RFC 1952).  Returns its length, or -ENOSPC: it does not fit.
 * May sleep. */
long kgzip_write(struct kgzip *gzip, struct slice in, char *out, size_t cap);

#endif
