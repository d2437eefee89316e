/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* ksite_inside.h - what the files of the site share: ksite*.c and kcache.h.
 *
 * The site does not change while it is open, except for its counters, put_off and gone_next.  A
 * source that is not cached belongs to one connection, with the file or the listing in it.
 */
#ifndef KERNEL_KSITE_INSIDE_H
#define KERNEL_KSITE_INSIDE_H
#include <linux/fs.h>
#include <linux/namei.h>
#include <linux/path.h>
#include "../core/folder.h"
#include "ksite.h"

enum {
    /* Memory of all listings that are being made or sent.  A listing that would exceed it is
     * streamed. */
    KSITE_LISTINGS_BYTES_MAX = 64 << 20,
    /* Memory for names on their way from a folder, 32 KiB for each listing that is being made or
     * streamed.  Beyond it the answer is 503: slow readers of a thousand long listings must not
     * have more. */
    KSITE_DENTS_BYTES_MAX = 32 << 20,
    /* O_NONBLOCK: a process that holds a lease is not waited for.  Files of any size. */
    KSITE_OPEN_FLAGS = O_RDONLY | O_NONBLOCK | O_LARGEFILE,
};

struct kcache;

struct ksite {
    struct path root;
    const struct cred *cred; /* credentials of lookups and opens */
    struct kcache *cache;    /* NULL: nothing is kept in memory */
    struct docroot_rules rules;
    bool compress, cross_mounts;
    bool put_off; /* closing a local file was put off */
    atomic_long_t listings_bytes; /* <= KSITE_LISTINGS_BYTES_MAX */
    atomic_long_t dents_bytes;    /* <= KSITE_DENTS_BYTES_MAX */
    atomic_long_t walks;
    unsigned long gone_next; /* jiffies: when to say again that the root is gone; 0: not said */
};

struct ksite_source {
    struct source source;   /* first: the core knows only this */
    struct folder *folder; /* a listing's */
    bool cached;            /* it belongs to the cache */
};

/* --- ksite_links.c ---------------------------------------------------------------------------- */

/* With the site's credentials in force: look a name up (NUL-terminated, no leading slash), never
 * outside the folder `from`.  flags: LOOKUP_FOLLOW a link that is the last component,
 * LOOKUP_DIRECTORY, LOOKUP_NO_XDEV.  Returns 0 and *found, which the caller releases with
 * path_put(), or -errno.  -ENOENT means 404, -EACCES 403, and -EXDEV that the name leaves the
 * folder, or, with LOOKUP_NO_XDEV, the file system. */
int ksite_look(const struct path *from, const char *name, unsigned flags, struct path *found);

/* Like ksite_look(), but -errno is the kernel's own.  `from` is the site's root if LOOKUP_FOLLOW is
 * given, and a link that leads to a hidden name is not followed: -ENOENT. */
int ksite_walk(const struct path *from, const char *name, unsigned flags, struct path *found);
/* Whether the root itself was removed: nothing is found any more.  The kernel's log says so. */
bool ksite_is_gone(struct ksite *site);
/* Closes a file, in any context.  It sleeps only in a kernel thread, and only for a local file
 * system. */
void ksite_shut(struct ksite *site, struct file *file);

/* --- ksite_memory.c --------------------------------------------------------------------------- */

int ksite_remember(struct ksite *site, const struct ksite_options *opt);

/* A file or folder that was found, to be remembered. */
struct ksite_kept {
    const struct http_ask *ask;
    const char *name;         /* it led to `asked`, beneath the root */
    const struct path *asked;
    const struct path *sent;  /* the same, or a sibling's that is sent in its place */
    u64 seen;                 /* what ksite_seen() or ksite_before() saw */
    unsigned long since;      /* of a folder: when it saw that, in jiffies */
    time64_t rested;          /* of a folder: nothing in it may have changed since then */
};

/* A sum of what may change of a file, and of the folder where a sibling may appear; call it before
 * anything else is looked at.  0: changes cannot be seen. */
u64 ksite_seen(const struct ksite *site, const struct path *file);

/* To be called before a folder is read. */
void ksite_before(struct ksite *site, struct ksite_kept *kept);

/* Puts the answer into the cache if that is worth while.  Returns a source of the cache that the
 * caller sends instead, or NULL. */
struct source *ksite_keep(struct ksite *site, const struct ksite_kept *kept,
                          struct ksite_source *s);

/* --- ksite_folder.c --------------------------------------------------------------------------- */

/* Make the listing of an open folder.  The file is taken over, also on failure.  Returns 0 or
 * -errno.  If the folder is on the site's own file system, the listing asks no other file
 * system. */
int kfolder_open(struct ksite *site, const struct http_ask *ask, struct file *file,
                 struct folder **folder);
size_t kfolder_next(struct source *source, char *buf, size_t cap); /* source.next of a listing */
/* Whether the folder, and all in it that is shown, is unchanged since then.  Not for a listing that
 * is streamed. */
bool kfolder_rests(struct folder *folder, time64_t since);
void kfolder_close(struct folder *folder); /* in any context; NULL is fine */

#endif
