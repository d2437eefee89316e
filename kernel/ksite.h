/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* ksite.h - a folder as representations, inside the kernel: files, their compressed siblings, index
 * pages, listings, redirects.
 *
 * It answers as server/site.c does; the same wire tests decide.  What the world may not read is not
 * served, whoever loaded the module: lookups and files are those of a user who owns nothing.
 */
#ifndef KERNEL_KSITE_H
#define KERNEL_KSITE_H
#include "../core/docroot.h"

struct ksite;

struct ksite_options {
    const char *root;   /* the folder, as the calling process sees it */
    struct docroot_rules rules;
    size_t cache_bytes; /* of small files and listings kept in memory; 0: none are */
    unsigned cache_ms;  /* so long is kept what nobody asks for */
    bool compress;      /* what is kept is kept compressed too, for who takes gzip */
    bool cross_mounts;  /* what is mounted below the folder is served too; else it is 403 */
};

/* 0, or -errno with nothing left behind.  The folder's mount is busy until the site is closed. */
int ksite_open(struct ksite **site, const struct ksite_options *opt);
void ksite_close(struct ksite *site); /* no source is out any more; NULL is fine */

/* The representation asked for, as host->find() says; page(): NNN.html for an error status, or
 * -ENOENT.  Both may sleep, for as long as the folder's file system likes.  source->file is a
 * struct file.  Without `away` no other file system is asked: if one would have to be, and mounts
 * may be crossed, find() returns -EINPROGRESS. */
int ksite_find(struct ksite *site, const struct http_ask *ask, bool away, struct source **source);
int ksite_page(struct ksite *site, unsigned status, struct source **source);

/* The same for who must not sleep: what is kept in memory, or -EINPROGRESS: ask ksite_find(). */
int ksite_try(struct ksite *site, const struct http_ask *ask, struct source **source);

/* What became of questions that memory might answer, and what is there now. */
struct ksite_counts {
    u64 hits, misses;
    u64 stale;   /* found, but no longer what is on disk: a miss too */
    u64 expired; /* let go of for their age, or because nobody asked */
    u64 evicted; /* ... for want of room */
    u64 entries, bytes;
    u64 listing_bytes; /* of listings that are being made or sent, and are not entries */
    u64 walks; /* times that a folder was read, from its beginning or on */
};
void ksite_count(struct ksite *site, struct ksite_counts *counts);

/* In any context; sleeps in no bottom half. */
void ksite_release(struct ksite *site, struct source *source);

/* kworld.c: all of that as what a server serves, which closes the site in the end. */
struct kworld;
void kworld_of_folder(struct kworld *world, struct ksite *site);

#endif
