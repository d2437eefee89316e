/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* folder.h - the listing of a folder: read in slices and sorted, or, when it has too many entries,
 * streamed in the folder's own order.
 *
 * The core describes entries, gathers them, sorts them and gives them to listing_next().  The host
 * reads names, asks what they are and has the memory: server/site_folder.c, kernel/ksite_folder.c.
 */
#ifndef CORE_FOLDER_H
#define CORE_FOLDER_H
#include "docroot.h"

/* Longer names are not shown; some file systems count NAME_BYTES_MAX in characters. */
enum { FOLDER_NAME_BYTES_MAX = 3 * NAME_BYTES_MAX };

/* A name as getdents64(2) writes it; the next one follows. */
struct folder_name {
    uint64_t inode;
    int64_t off;
    uint16_t bytes; /* of all this */
    uint8_t type;   /* DT_...: a mode's upper bits */
    char name[];    /* NUL-terminated */
};

struct folder_stat {
    unsigned mode;
    bool foreign; /* on another file system than the folder */
    uint64_t size;
    int64_t mtime_s;
};

struct folder_array {
    void *mem;
    size_t room, used; /* bytes */
};

/* The entries of a sorted listing.  The host's own struct begins with it, all zero except the view
 * in totals. */
struct roll {
    struct listing totals; /* and the counts of the entries */
    struct folder_array entries, names;
    bool plain; /* it shows only regular files and folders of the folder's own file system */
};

struct folder_sort {
    void *base;
    size_t count, bytes; /* of an element */
    int (*compare)(const void *a, const void *b, void *arg);
    void *arg;
};

struct folder;

/* The calls that a listing makes to its host.  Functions that return int: 0 or -errno. */
struct folder_ops {
    /* Gets f->roll for this folder, and the memory of dents and batch.  1: the roll is complete
     * already, made by another listing that began after this one was requested; only if
     * `shared`. */
    int (*begin)(struct folder *f, bool shared);
    /* Reads the next names into f->dents, or with `again` the first ones.  Returns bytes, 0 at the
     * end, or -errno. */
    long (*read)(struct folder *f, bool again);
    /* Describes an entry itself, by its name; or, with `target`, what a visitor gets through a
     * link, by its path beneath the root.  -EXDEV: the target is shown as a file of unknown
     * size. */
    int (*stat)(struct folder *f, const char *name, bool target, struct folder_stat *st);
    /* Returns the array's memory, grown by `more` bytes; NULL: there is none, or all listings
     * together have too much. */
    void *(*grow)(struct folder *f, const struct folder_array *array, size_t more);
    void (*drop)(struct folder *f, const struct folder_array *array);
    void (*sort)(const struct folder_sort *sort);
    /* f->roll is complete: the folder is not needed any more. */
    void (*done)(struct folder *f);
    /* f->roll is not needed; if `all`, neither are dents and batch for now. */
    void (*forget)(struct folder *f, bool all);
    bool (*gone)(struct folder *f);   /* whether no client waits for it any more; may be NULL */
};

enum folder_stage {
    FOLDER_LONG, /* it has more names than folder_look() may read: it is read again */
    FOLDER_GATHERING,
    FOLDER_SORTED,
    FOLDER_STREAMED,
};

/* The host's own struct begins with it, all zero except the fields that the host sets. */
struct folder {
    const struct folder_ops *ops;      /* set by the host, like the next five */
    const struct docroot_rules *rules;
    char *path;                        /* room for the folder's path and a name */
    char *dents;                       /* of struct folder_name, aligned as that is */
    struct listing_entry *batch;       /* streamed: of batch_max; their names lie in dents */
    size_t batch_max;
    struct listing listing;
    bool helped;  /* folder_next() makes nothing: the host calls folder_step() */
    bool offered; /* SOURCE_LATER was returned once, so that the head is sent; or need not be */
    struct roll *roll;
    enum folder_stage stage;
    size_t next, end; /* of the roll's entries, or of batch: the next one, and one past the last */
    uint64_t seen;    /* streamed: entries so far, with those before the page */
    bool ended;       /* streamed: nothing follows the batch */
    bool plain;       /* as the roll's, so far */
    bool again;       /* the next read starts from the beginning */
    size_t dents_len, dents_at;
    unsigned budget; /* names that may still be read in this slice */
    int error;
};

/* Whether an entry of that name is in such a listing. */
bool folder_shows(const struct docroot_rules *rules, const struct listing_view *view,
                  struct slice name);
/* Bytes that f->path needs for this ask. */
static inline size_t folder_room(const struct http_ask *ask)
{
    return ask->path.len + FOLDER_NAME_BYTES_MAX + 1;
}
/* Begins; reads the whole folder if it has no more than that many names.  After a failure too, the
 * host releases what it holds. */
int folder_look(struct folder *f, const struct http_ask *ask, unsigned names);
/* Whether folder_next() needs no folder_step() first, and whether that may take milliseconds. */
bool folder_ready(const struct folder *f);
bool folder_long(const struct folder *f);
/* Whether the listing is ready, sorted, and shows only regular files and folders of the folder's
 * own file system.  f NULL: false. */
static inline bool folder_is_plain(const struct folder *f)
{
    return f && f->stage == FOLDER_SORTED && f->roll->plain;
}
/* Does one slice.  0: ready, -EINPROGRESS: there is more to do, or -errno, which folder_next()
 * reports. */
int folder_step(struct folder *f);
/* As source->next(). */
size_t folder_next(struct folder *f, char *buf, size_t cap);
void folder_rewind(struct folder *f); /* of a sorted one: folder_next() begins again */

#endif
