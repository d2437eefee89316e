/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* ksite.h - a folder as representations, inside the kernel: files, their compressed siblings, index
 * pages, listings, redirects.
 *
 * The answers are those of server/site.c; the same wire tests check both.  A file that others may
 * not read is not served, even if root loaded the module: lookups and opens are those of a user
 * that owns nothing.
 */
#ifndef KERNEL_KSITE_H
#define KERNEL_KSITE_H
#include "../core/docroot.h"

struct ksite;

struct ksite_options {
    const char *root;   /* the folder, as the calling process sees it */
    struct docroot_rules rules;
    size_t cache_bytes; /* of small files and listings kept in memory; 0: none is */
    unsigned cache_ms;  /* how long an unused entry is kept */
    bool compress;      /* kept files are also kept as gzip, for clients that accept it */
    bool cross_mounts;  /* mounts below the folder are served too; false: they are 403 */
};

/* 0, or -errno with nothing left behind.  The folder's mount is busy until the site is closed. */
int ksite_open(struct ksite **site, const struct ksite_options *opt);
void ksite_close(struct ksite *site); /* no source is in use any more; NULL is fine */

/* ksite_find(): the representation asked for, as host->find() says.  ksite_page(): NNN.html for an
 * error status, or -ENOENT.  Both may sleep, for as long as the folder's file system takes.
 * source->file is a struct file.  Without `away` no other file system is asked: if one would have
 * to be, and mounts may be crossed, ksite_find() returns -EINPROGRESS. */
int ksite_find(struct ksite *site, const struct http_ask *ask, bool away, struct source **source);
int ksite_page(struct ksite *site, unsigned status, struct source **source);

/* ksite_find() for a caller that must not sleep: finds what is kept in memory, or returns
 * -EINPROGRESS: call ksite_find(). */
int ksite_try(struct ksite *site, const struct http_ask *ask, struct source **source);

/* How often an answer was in memory and how often not, why entries went, and what is there now. */
struct ksite_counts {
    u64 hits, misses;
    u64 stale;   /* found, but no longer what is on disk: a miss too */
    u64 expired; /* removed because they were old or unused */
    u64 evicted; /* ... to make room, or because memory was short */
    u64 entries, bytes;
    u64 listing_bytes; /* of listings that are being made or sent, and are not entries */
    u64 walks; /* reads of a folder, from its beginning or further on */
};
void ksite_count(struct ksite *site, struct ksite_counts *counts);

/* May be called in any context; does not sleep in a bottom half. */
void ksite_release(struct ksite *site, struct source *source);

/* kworld.c: the site as a server's world; the server closes the site in the end. */
struct kworld;
void kworld_of_folder(struct kworld *world, struct ksite *site);

#endif
