/* SPDX-License-Identifier: MIT */
/* cache_inside.h - shared by cache.c and cache_*.c.  No other file includes it.
 *
 *   entry ----> deps = { dep, dep, ... }     each dep: "ends when this name in that folder, or
 *   (in the table)      |                     that inode, changes"
 *                       `--> node            an inode with a watch
 *
 * An entry does not change once it is in the table.  An event takes it out.
 */
#ifndef SERVER_CACHE_INSIDE_H
#define SERVER_CACHE_INSIDE_H
#include <pthread.h>
#include <stdatomic.h>
#include "cache.h"
#include "site_inside.h"

enum {
    CACHE_BODY_BYTES_MAX = 256 << 10, /* a longer file is sent from its descriptor */
    CACHE_READ_BYTES_MAX = 2 << 20,   /* ... but this, where a file is read to be sent */
    CACHE_BODY_SHARE = 4,    /* ... as is one that takes more than one part in this many */
    CACHE_PATH_BYTES_MAX = 1024,
    CACHE_DEPTH_MAX = 16,    /* folders on the way: each has a watch */
    CACHE_NAMES = CODINGS,   /* a file and its siblings */
    CACHE_DEPS_MAX = CACHE_DEPTH_MAX + 2 * CACHE_NAMES, /* folders, last names, inodes */
    CACHE_BUCKETS = 1 << 16, /* of entries, and of watched names; pointers */
    CACHE_WD_BUCKETS = 1 << 14,
    /* Keys that were asked for and are not kept: sets, and places of four bytes in each. */
    CACHE_DOORKEEPER = 1 << 14,
    CACHE_DOORKEEPER_WAYS = 4,
    CACHE_TIMES = 2,         /* asked for this often, an answer is kept ... */
    CACHE_TIMES_CROWDED = 4, /* ... and this often if all but a share of the room is taken: */
    CACHE_CROWDED_SHARE = 16, /* one part in this many, of bytes or of watches */
    CACHE_WATCH_SHARE = 4,   /* of the watches that a user may have: one in this many */
    /* An entry this old is compared with its file: libaio and stores through shared mappings
     * send no event. */
    CACHE_CHECK_MS = 1000,
    /* ... or, if its fields are not final (its file is young: core/stamp.h), made again. */
    CACHE_UNSETTLED_MS = 20,
    CACHE_VARIANTS_MAX = 256, /* entries that wait to be compressed: half a second of work */
    /* A change ends all listings of a folder at once, and a client makes as many as it likes: each
     * filter is one. */
    CACHE_LISTINGS_MAX = 1024,
    /* Records of whether keeping a listing paid: sets, and places in each. */
    CACHE_LISTED = 1 << 8,
    CACHE_LISTED_WAYS = 4,
    CACHE_CHILD_BYTES_MAX = NAME_BYTES_MAX,
    CACHE_READY = 1 << RECENT_LOG, /* whole answers of a thread: one for each head that is kept */
    CACHE_READY_TIMES = 4,   /* requests in one second: with fewer it does not pay */
    CACHE_READY_SHARE = 16,  /* of the bytes: whole answers take one part in this many */
};

/* An inode with a watch, while an entry depends on it. */
struct cache_node {
    struct cache_node *next; /* in its bucket */
    int wd;
    bool held;               /* its deps are being ended: it stays until then */
    struct cache_dep *deps;
};

/* A dep is in two lists at most: of its node, and of its name.  node NULL, in a listing's deps: it
 * was ended already. */
struct cache_dep {
    struct cache_node *node;
    struct cache_deps *owner;
    uint64_t name; /* hash of the name in that folder, or of "": any; 0: the inode itself */
    struct cache_dep *next, **link;
    struct cache_dep *name_next, **name_link;
};

/* All that one entry depends on. */
struct cache_deps {
    bool cut;                  /* one of them has changed */
    unsigned room;             /* of dep[] */
    struct cache_entry *entry; /* NULL until it is in the table */
    struct cache_deps *next, **link; /* in the list of all */
    unsigned count;
    struct cache_dep dep[];
};

static inline size_t cache_deps_bytes(unsigned room)
{
    return sizeof(struct cache_deps) + room * sizeof(struct cache_dep);
}

enum cache_kind { CACHE_FIND, CACHE_PAGE, CACHE_LISTING, CACHE_WHOLE };

/* What is asked for: find() or page(). */
struct cache_want {
    enum cache_kind kind;
    const struct http_ask *ask; /* CACHE_FIND */
    unsigned status;            /* CACHE_PAGE */
    struct slice path;          /* the key */
    uint64_t hash;
    uint64_t now_ms;
    bool was_kept;              /* its entry has just been cut */
};

/* Whether a coding of an entry will be made.  NONE: no, or not any more. */
enum cache_variant { VARIANT_NONE, VARIANT_WANTED, VARIANT_QUEUED };

/* A client's preference: http_order() of codings, if the file has siblings; or the best coding that
 * can be made. */
enum { PREFERENCE_ORDER = 1 << 8, PREFERENCE_BEST = 1 << 9 };

/* One allocation: the struct, the path, the fields, the body. */
struct cache_entry {
    struct site_source src; /* what is given out */
    struct cache *cache;
    _Atomic(struct cache_entry *) next; /* in its bucket */
    uint64_t hash;
    atomic_uint refs;             /* the table's, and one for each source given out */
    atomic_bool visited;          /* since the hand passed: see cache_victim() */
    _Atomic uint32_t checked_ms;  /* when it was last known to equal its file; lower half */
    uint16_t life_ms;             /* how long it then counts as equal */
    uint8_t kind;                 /* enum cache_kind */
    uint8_t coding_wanted;        /* enum coding, of its variant */
    atomic_uchar variant;         /* enum cache_variant; changes under the lock */
    bool compares;                /* ... and then is compared with its file; false: it ends */
    bool file;                    /* it has a file */
    uint16_t preference;          /* of clients it is for; 0: of all */
    int err;                      /* the result of find() */
    atomic_uint hits;             /* of a listing */
    unsigned watches;             /* ... and those that it needs, shared ones included */
    uint32_t path_len;            /* of the path asked for, in text; the file's follows, with NUL */
    size_t bytes;
    struct cache_deps *deps;             /* the lock's */
    struct cache_entry *newer, *older;   /* the lock's: order of arrival */
    struct cache_entry *listing;         /* the lock's: of a listing, the next older one */
    struct cache_entry *retired;         /* the lock's: the next one that waits for readers */
    uint64_t retired_at;
    char text[];
};

/* The answer to a request that repeats.  Its thread's own. */
struct cache_ready {
    uint64_t again;   /* the request's number, as in struct http_ask */
    uint64_t version; /* of the entry */
    int64_t date_s;   /* the second in which times counts */
    unsigned times;
    struct cache_entry *entry; /* the whole answer, or NULL */
    uint64_t epoch;   /* when the entry was last looked up; until then nothing had left the table */
    uint64_t until_ms; /* when the entry must be compared with its file */
};

/* A thread that may be inside the table: at is the epoch when it entered, 0: it is not. */
struct cache_reader {
    struct cache *cache;
    _Atomic uint64_t at;
    uint64_t now_ms; /* at its last look */
    struct cache_reader *next, **link;
    struct cache_ready ready[CACHE_READY];
};

/* Entries that wait to be compressed, and the thread that does it. */
struct cache_variants {
    atomic_uint count; /* changes under the lock */
    struct cache_entry *queue[CACHE_VARIANTS_MAX]; /* the table's references; the oldest first */
    enum { VARIANTS_IDLE, VARIANTS_RUN, VARIANTS_FAILED } state;
    bool ending;
    pthread_t thread;
    pthread_cond_t work;
};

struct cache {
    struct site *site;
    struct stats *stats;
    uint64_t key; /* of hashes */
    int events;   /* inotify */
    int mounts;   /* /proc/self/mountinfo, or -1 */
    dev_t dev;    /* of the root, known to be fit */
    size_t bytes_max;
    size_t body_max; /* of a listing, and of a file that is compressed */
    size_t file_max;
    unsigned watches_max;
    atomic_int draining;         /* events have been read and not yet acted upon */
    atomic_size_t bytes;         /* of all entries that are not freed; and of whole answers, too */
    atomic_size_t ready_bytes;   /* of whole answers; grows under the lock */
    atomic_uint watches;         /* changes under the lock */
    _Atomic uint32_t mounts_ms;  /* when mounts were last looked at; lower half */
    _Atomic uint64_t epoch;
    pthread_mutex_t lock; /* guards all below, and writing to buckets */
    uint64_t mounts_below;       /* cache_mounts() */
    size_t entries, retired_bytes;
    uint64_t versions;           /* of entries that were ever in the table */
    size_t listing_bytes;        /* of listings in the table; their watches, shared included */
    unsigned listing_watches;
    struct cache_entry *listings; /* the newest one */
    struct cache_deps *dying;    /* of listings: their watches must be removed */
    struct cache_entry *newest, *oldest, *hand, *retired;
    struct cache_deps *all;
    struct cache_reader *readers;
    struct cache_variants variants;
    struct cache_node *node[CACHE_WD_BUCKETS];
    struct cache_dep *name[CACHE_BUCKETS];
    _Atomic(struct cache_entry *) bucket[CACHE_BUCKETS];
    _Atomic uint32_t doorkeeper[CACHE_DOORKEEPER][CACHE_DOORKEEPER_WAYS];
    atomic_uint listed;          /* listings in the table */
    _Atomic uint64_t listed_before[CACHE_LISTED][CACHE_LISTED_WAYS]; /* see cache_listed.c */
};

/* --- cache_table.c ---------------------------------------------------------------------------- */

/* A new entry for that key, with room for `more` bytes behind the path in text.  It has one
 * reference, the table's, and counts as checked at want->now_ms.  NULL: no memory. */
struct cache_entry *cache_entry_new(struct cache *c, const struct cache_want *want, size_t more);
/* Puts the entry into the table; it and its deps are the table's from then on.  Locked. */
void cache_enter(struct cache *c, struct cache_entry *e, struct cache_deps *deps);
/* Releases one reference; the last one frees the entry. */
void cache_release(struct cache_entry *e);
/* Takes the entry out of the table; cache_reclaim() frees it when all readers that may see it have
 * left.  Locked. */
void cache_unpublish(struct cache *c, struct cache_entry *e);
void cache_reclaim(struct cache *c);
/* The next entry to evict; NULL: all are being sent.  Locked. */
struct cache_entry *cache_victim(struct cache *c);
bool cache_same_key(const struct cache_entry *e, const struct cache_want *want);
/* A reference to the entry, or NULL. */
struct cache_entry *cache_get(struct cache_reader *r, const struct cache_want *want);

/* --- cache_room.c ----------------------------------------------------------------------------- */

/* The entry becomes visible; it and its deps are the table's from then on.  False: something that
 * it depends on has changed, or there is no room; then they stay the caller's. */
bool cache_publish(struct cache *c, struct cache_entry *e, struct cache_deps *deps);
/* Makes room for that entry, by evicting others.  Locked. */
bool cache_make_room(struct cache *c, const struct cache_entry *e);
/* Puts made in the place of old, which the caller holds: made takes over its deps.  False: old has
 * been cut, or there is no room.  Locked. */
bool cache_replace(struct cache *c, struct cache_entry *old, struct cache_entry *made);

/* --- cache_watch.c ---------------------------------------------------------------------------- */

int  cache_watch_open(struct cache *c); /* 0 or -errno */
void cache_watch_close(struct cache *c);
/* room: how many deps; more than CACHE_DEPS_MAX are those of a listing.  NULL: no memory. */
struct cache_deps *cache_deps_new(struct cache *c, unsigned room);
void cache_deps_free(struct cache *c, struct cache_deps *deps);
/* Something has changed: the entry leaves the table.  Locked. */
void cache_cut(struct cache *c, struct cache_deps *deps);
void cache_cut_entry(struct cache *c, struct cache_entry *e); /* not locked */
/* Evicts one entry.  False: there is none that is not being sent.  Locked. */
bool cache_evict(struct cache *c);
struct cache_names {
    unsigned count;
    struct slice name[CACHE_NAMES];
};
/* From now on deps is cut when one of these names in the folder fd changes its meaning.  False:
 * that cannot be watched; here and below. */
bool cache_depend_names(struct cache *c, struct cache_deps *deps, int fd,
                        const struct cache_names *names);
/* ... or when the inode fd changes. */
bool cache_depend_inode(struct cache *c, struct cache_deps *deps, int fd);
/* ... or when anything of that child changes that a listing shows: also, if it is a folder, a name
 * in it. */
struct cache_child {
    int parent; /* its folder's descriptor */
    const char *name;
    bool folder;
};
bool cache_depend_child(struct cache *c, struct cache_deps *deps, const struct cache_child *child);
/* Remove the watches of listings that have ended; not locked, and takes long.  _one: those of one
 * listing, locked; false: there is none. */
void cache_sweep(struct cache *c);
bool cache_sweep_one(struct cache *c);

/* --- cache_way.c ------------------------------------------------------------------------------ */

/* State of the way down. */
struct cache_way {
    struct cache *c;
    struct cache_deps *deps;
    int folder;
    unsigned depth;
    bool lasting;   /* the reason not to keep it is lasting: nothing was just in the way */
    bool varies;    /* a sibling is there, so the answer depends on what the client accepts */
    unsigned files; /* 1 << coding: the sibling is a file */
};
/* From the root down, watches all that the answer depends on; w has c and deps.  False: the answer
 * cannot be kept. */
bool cache_way_watch(struct cache_way *w, const struct cache_want *want);
/* How many things the answer may depend on: folders on the way, last names, inodes. */
unsigned cache_deps_room(const struct cache *c, const struct cache_want *want);
/* From now on deps is cut when that path leads to another folder, or when a name in that folder
 * changes its meaning.  Returns the folder, by O_PATH; -1: it cannot be watched.  *lasting: it
 * cannot be watched later either. */
int cache_watch_folder(struct cache *c, struct cache_deps *deps, struct slice path, bool *lasting);

/* --- cache_fill.c ----------------------------------------------------------------------------- */

/* Asks the site; if the key was asked for before, the answer becomes an entry. */
int cache_fill(struct cache *c, const struct cache_want *want, struct source **source);
/* Whether that old entry still equals its file. */
bool cache_equals_file(struct cache *c, const struct cache_entry *e);

/* --- cache_listing.c -------------------------------------------------------------------------- */

/* The listing asked for, if it is kept: 0 and *source.  -ENODATA: it is not.  -EINPROGRESS: it
 * must be compared with its folder first, by cache_list(). */
int cache_listing_find(struct cache_reader *r, const struct http_ask *ask, struct source **source);

/* --- cache_listed.c --------------------------------------------------------------------------- */

/* Whether the listing is made to be kept for this request: requests that arrive until it is made
 * are counted as if that failed. */
bool cache_listing_pays(struct cache *c, uint64_t hash, uint64_t now_ms);
/* The listing was not kept, or not for long; counts as that many failures at least. */
void cache_listing_failed(struct cache *c, uint64_t hash, unsigned least);
/* The entry of a listing is in the table, or has left it.  Locked. */
void cache_listing_added(struct cache *c, struct cache_entry *e);
void cache_listing_ended(struct cache *c, struct cache_entry *e);

/* --- cache_variant.c -------------------------------------------------------------------------- */

void cache_variants_open(struct cache *c);
void cache_variants_close(struct cache *c); /* ends the thread */
/* Before the entry is in the table: decides whether a variant of it is wanted, and for which
 * clients. */
void cache_variant_begin(struct cache *c, const struct cache_want *want, struct cache_entry *e);
/* The entry is VARIANT_WANTED and was asked for again.  The caller has a reference. */
void cache_variant_ask(struct cache *c, struct cache_entry *e);

/* --- cache_ready.c ---------------------------------------------------------------------------- */

/* An ask with a number will be answered from e, which was found at the epoch or later.  Returns the
 * entry to give out, e or the whole answer in its place; the caller's reference is one to that
 * now. */
struct cache_entry *cache_ready_put(struct cache_reader *r, const struct http_ask *ask,
                                    struct cache_entry *e, uint64_t epoch);
void cache_ready_close(struct cache_reader *r);

/* --- cache_kind.c ----------------------------------------------------------------------------- */

/* Whether every change that this machine makes on that file system sends its event. */
bool cache_fits(int fd);

/* --- cache_mounts.c --------------------------------------------------------------------------- */

/* The mounts below the root, summed up; 0: they are not known. */
uint64_t cache_mounts(const struct cache *c);

#endif
