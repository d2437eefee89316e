/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* docroot.h - a folder as representations: which file answers a path, which of its compressed
 * siblings is sent in its place, its index page, its listing, a redirect.
 *
 * The core decides; the host looks names up and opens the chosen file.  server/site.c does so with
 * descriptors, kernel/ksite.c with the kernel's own paths.  No function here is called for an
 * answer from a cache.
 */
#ifndef CORE_DOCROOT_H
#define CORE_DOCROOT_H
#include "listing.h"

/* The options for what is served, and how; they do not change during a search. */
struct docroot_rules {
    const char *index;  /* a file's name, which stays where it is; NULL: index.html; "": none */
    bool hidden;        /* names that begin with a dot are served, too; .well-known always is */
    bool listing;       /* folders without an index are listed; false: they get 403 */
    bool archive;       /* listings link to archives of their folder, which the host makes */
    const char *upload; /* this folder, "/folder/", and those below it take uploads; NULL: none */
    bool precompressed; /* NAME.br, NAME.zst and NAME.gz may stand for NAME */
    size_t entries_max; /* of a listing that is sorted; a folder with more is streamed; 0: as many
                         * as DOCROOT_ENTRIES_MAX */
    size_t index_len;   /* docroot_settle() sets it */
};

enum { DOCROOT_ENTRIES_MAX = 100000 };

/* Sets defaults for what the options leave open.  0, or -EINVAL: the index is not a file name. */
int docroot_settle(struct docroot_rules *rules);
/* Whether a path is in a folder that takes uploads: its listing has a form for them.  There no file
 * stands for another one, which a stranger could have stored. */
bool docroot_takes_uploads(const struct docroot_rules *rules, struct slice path);

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

/* The calls that a search makes to its host.  -errno is as docroot_error() returns it. */
struct docroot_ops {
    /* Looks up a name beneath the root, relative and NUL-terminated.  0: it is a regular file that
     * visitors may read, and is held until put().  -EISDIR: it is a folder.  -EACCES: it is
     * something else, of thing->kind, or may not be read.  Others: it was not found, or its kind is
     * not known. */
    int (*look)(struct docroot_search *f, const char *name, struct docroot_thing *thing);
    void (*put)(struct docroot_search *f, struct docroot_thing *thing);
    /* Makes a source from sent->source; if its size is not 0, with the file of `sent`, which was
     * looked up.  `asked` is what the path led to: `sent` itself, or the file that `sent` stands
     * for. */
    int (*open)(struct docroot_search *f, struct docroot_thing *asked, struct docroot_thing *sent,
                struct source **source);
    /* Like look(), but for a folder that visitors may read; thing->source is not set. */
    int (*folder)(struct docroot_search *f, const char *name, struct docroot_thing *thing);
    /* Makes a source from thing->source that lists that folder, whose name is f->path. */
    int (*list)(struct docroot_search *f, struct docroot_thing *thing, struct source **source);
    /* Whether f->path was found without siblings a moment ago; with `found`, records that it was
     * found so now.  May be NULL. */
    bool (*alone)(struct docroot_search *f, bool found);
};

/* One search.  The host sets all fields except thing and len; its own data follows behind the
 * struct. */
struct docroot_search {
    const struct docroot_ops *ops;
    const struct docroot_rules *rules;
    const struct http_ask *ask; /* NULL: a page for an error */
    size_t compress_max; /* bytes of a text that may be compressed; 0: none is */
    bool head_lists;     /* HEAD makes a listing, too, so that its length is known */
    struct docroot_thing thing[3];
    size_t len;
    char *path; /* room for docroot_room() bytes */
};

/* Most bytes of a path that is searched for, with an index's name, a suffix and a NUL. */
enum { DOCROOT_PATH_BYTES_MAX = PATH_BYTES_MAX + NAME_BYTES_MAX + CODING_SUFFIX_BYTES_MAX + 1 };
static inline size_t docroot_room(const struct docroot_rules *rules, const struct http_ask *ask)
{
    return ask->path.len + rules->index_len + CODING_SUFFIX_BYTES_MAX + 1;
}

/* As host->find() and host->page(); docroot_page() needs room for a number and ".html".  For a path
 * that is too long, or has a hidden name in it, the host is not called. */
int docroot_find(struct docroot_search *f, struct source **source);
int docroot_page(struct docroot_search *f, unsigned status, struct source **source);

/* --- For hosts -------------------------------------------------------------------------------- */

/* The system's -errno as the core understands it: -ENOENT means 404, -EACCES 403. */
int docroot_error(int err);
/* The kind that a file's mode says.  A link is LISTING_DEAD, because its target is not known. */
enum listing_kind docroot_kind(unsigned mode);
/* The part of a link's target behind the root's path and a slash, empty for the root itself.  ptr
 * NULL: visitors are not shown it, because it is elsewhere or a name behind the root is hidden. */
struct slice docroot_beneath(const struct docroot_rules *rules, struct slice root,
                             struct slice thing);
/* Whether a text of that size is worth compressing; bytes_max: the largest one allowed. */
bool docroot_compresses(const char *type, uint64_t size, uint64_t bytes_max);
/* ... and how many bytes its coded form may have to be kept. */
static inline size_t docroot_coded_max(size_t size)
{
    return size - size / COMPRESS_SAVES_PART;
}

#endif
