/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* docroot.h - a folder as representations: which file answers a path, which of its compressed
 * siblings is sent in its place, its index page, its listing, a redirect.
 *
 * The core decides; the host looks names up and opens what was chosen.  server/site.c does so by
 * descriptors, kernel/ksite.c by the kernel's own paths.  Nothing of it is called when an answer
 * comes from a cache.
 */
#ifndef CORE_DOCROOT_H
#define CORE_DOCROOT_H
#include "listing.h"

/* What is served, and how, as the options say; it does not change while anything is searched. */
struct docroot_rules {
    const char *index;  /* a file's name, which stays where it is; NULL: index.html; "": none */
    bool hidden;        /* names that begin with a dot, too; .well-known always is served */
    bool listing;       /* folders without an index are listed; else they are 403 */
    bool precompressed; /* NAME.br, NAME.zst and NAME.gz may stand for NAME */
    size_t entries_max; /* of a listing that is sorted; a folder with more is streamed; 0: as many
                         * as DOCROOT_ENTRIES_MAX */
    size_t index_len;   /* docroot_settle() sets it */
};

enum { DOCROOT_ENTRIES_MAX = 100000 };

/* Defaults take the place of what the options leave open.  0, or -EINVAL: the index is no name. */
int docroot_settle(struct docroot_rules *rules);

/* What a name led to. */
struct docroot_thing {
    union {               /* the host's, from look() or folder() to put() */
        int fd;
        void *path[2];
    };
    uint64_t seen;        /* the host's too: what it saw before it looked */
    uint8_t kind;         /* enum listing_kind; LISTING_DEAD: not known */
    struct source source; /* look() sets size, inode, times and young, and clears the rest */
};

struct docroot_search;

/* What a search asks of its host.  -errno is as docroot_error() has it. */
struct docroot_ops {
    /* A name beneath the root: relative, NUL-terminated.  0: it is a regular file that visitors may
     * read, and is held until put().  -EISDIR: it is a folder.  -EACCES: it is something else, of
     * that kind, or may not be read.  Others: it was not found, or its kind is not known. */
    int (*look)(struct docroot_search *f, const char *name, struct docroot_thing *thing);
    void (*put)(struct docroot_search *f, struct docroot_thing *thing);
    /* A source for sent->source.  Its size is not 0: with the file of `sent`, which was looked up.
     * `asked` is what the path led to: itself, or the file that it stands for. */
    int (*open)(struct docroot_search *f, struct docroot_thing *asked, struct docroot_thing *sent,
                struct source **source);
    /* The same as look() for a folder that visitors may read; nothing of it is set. */
    int (*folder)(struct docroot_search *f, const char *name, struct docroot_thing *thing);
    /* A source for thing->source that lists that folder, whose name is f->path. */
    int (*list)(struct docroot_search *f, struct docroot_thing *thing, struct source **source);
    /* Whether f->path was found without siblings a moment ago; `found`: it has been, now.  May be
     * NULL. */
    bool (*alone)(struct docroot_search *f, bool found);
};

/* One search.  The host sets all but thing and len; what it knows besides stands behind it. */
struct docroot_search {
    const struct docroot_ops *ops;
    const struct docroot_rules *rules;
    const struct http_ask *ask; /* NULL: a page for an error */
    size_t compress_max; /* bytes of a text that may be compressed; 0: none is */
    bool head_lists;     /* HEAD makes a listing, too, so that its length is told */
    struct docroot_thing thing[3];
    size_t len;
    char *path; /* room for docroot_room() bytes */
};

/* Of any path that is searched for: bytes, with an index's name, a suffix and a NUL. */
enum { DOCROOT_PATH_BYTES_MAX = PATH_BYTES_MAX + NAME_BYTES_MAX + CODING_SUFFIX_BYTES_MAX + 1 };
static inline size_t docroot_room(const struct docroot_rules *rules, const struct http_ask *ask)
{
    return ask->path.len + rules->index_len + CODING_SUFFIX_BYTES_MAX + 1;
}

/* As host->find() and host->page(), which needs room for a number and ".html".  Of a path that is
 * too long, or has a hidden name in it, the host is asked nothing. */
int docroot_find(struct docroot_search *f, struct source **source);
int docroot_page(struct docroot_search *f, unsigned status, struct source **source);

/* --- For hosts -------------------------------------------------------------------------------- */

/* The system's -errno as the core understands it: -ENOENT means 404, -EACCES 403. */
int docroot_error(int err);
/* Of a file's mode.  A link is LISTING_DEAD, for where it leads to is not known. */
enum listing_kind docroot_kind(unsigned mode);
/* What of a link's target is behind the root's path and a slash, empty for the root itself; ptr
 * NULL: visitors are not shown it, for it lies elsewhere, or a name behind the root is hidden. */
struct slice docroot_beneath(const struct docroot_rules *rules, struct slice root,
                             struct slice thing);
/* Whether a text of that size is worth compressing; bytes_max: what is kept. */
bool docroot_compresses(const char *type, uint64_t size, uint64_t bytes_max);
/* ... and how many bytes the coded ones may have, to be kept. */
static inline size_t docroot_coded_max(size_t size)
{
    return size - size / COMPRESS_SAVES_PART;
}

#endif
