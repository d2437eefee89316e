/* SPDX-License-Identifier: MIT */
/* site_inside.h - shared by the site's own files: site.c, site_open.c, site_young.c (times),
 * site_negative.c (siblings that are not there), site_folder.c (listings), site_roll.c (their
 * entries), site_readme.c (what is below those), site_archive.c (archives), site_made.c (both, for
 * the code that sends them) and site_charge.c (their memory).  No other file includes it.
 *
 * All threads share one site.  It does not change, except for a counter, the paths without
 * siblings, the list of rolls and the cache.  A source belongs to its connection and has the
 * descriptor or the listing in it, or it is part of an entry of the cache.
 */
#ifndef SERVER_SITE_INSIDE_H
#define SERVER_SITE_INSIDE_H
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include "../core/folder.h"
#include "inside.h"
#include "rules.h"

enum {
    /* Memory of all sorted listings and archives that are being made or sent, in all processes:
     * enough for a dozen of DOCROOT_ENTRIES_MAX names.  A listing that would exceed it is streamed,
     * an archive refused or cut off. */
    SITE_LISTINGS_BYTES_MAX = 128 << 20,
    /* Processes that have sorted listings at once: four workers with all children that fork.c may
     * have.  The listings of one more process are streamed. */
    SITE_CLAIMS = 4096,
    /* Archives that are being made or sent, of all sites and in all processes.  Each may keep a
     * processor or a disk busy for as long as its client likes, so there are not more than a
     * machine can bear. */
    SITE_ARCHIVES_MAX = 16,
    /* A README below a listing: it is sent with each, and read on a page. */
    SITE_README_BYTES_MAX = 64 << 10,
    /* Names read at once: a millisecond, and 256 clients that leave cost 0.3 s. */
    SITE_FIRST_NAMES = 1024,
    /* How long a file is sent as it is before its compressed siblings are looked for again. */
    SITE_NEGATIVE_MS = 1000,
    SITE_PLACES = 8, /* file systems whose place is remembered */
    NEGATIVE_PLACES = 1024, /* paths that struct negative remembers, 8 bytes each */
};

struct cache;
struct cache_entry;
struct site_roll;
struct site_archive;

struct negative {
    uint64_t key; /* of the hash: below 2^61 - 1 */
    _Atomic uint64_t words[NEGATIVE_PLACES];
};

/* What file times can tell here: site_young.c. */
struct young {
    int64_t tick_ns; /* of the clock that stamps files */
    dev_t dev;       /* of the root */
    bool foreign;    /* ... whose files are stamped by another clock */
};

/* In memory that all processes share. */
struct site_shared {
    atomic_size_t listings_bytes; /* the opener's part of SITE_LISTINGS_BYTES_MAX */
    _Atomic uint64_t gone_ms; /* when it may be reported again that the root was removed */
    _Atomic pid_t archive[SITE_ARCHIVES_MAX]; /* the process that makes one; 0: none does.
                                               * Those of the first site are for all */
    atomic_uint claims;       /* claim[0..claims) may be taken: see site_charge.c */
    _Atomic uint64_t claim[SITE_CLAIMS];
};

struct site {
    int root_fd;
    struct young young;
    enum site_place place; /* of the root */
    _Atomic uint64_t places[SITE_PLACES]; /* of others: site_place.c */
    struct docroot_rules rules;
    bool readme;   /* listings have the README of their folder below them */
    bool compress; /* text is compressed where answers are kept */
    bool counts_links; /* the file system counts the root's links: some FUSE servers do not */
    bool world; /* files that others may not read are refused, though this process may read them */
    const struct moves *moves; /* see site_moves() */
    struct site_shared *shared;
    _Atomic pid_t *archive;        /* the places of archives, which all sites share */
    pid_t opener;                  /* the process that opened it */
    _Atomic uint64_t *claim;       /* this process's (if not the opener), or an ancestor's */
    /* Guards claim, the next two, each roll's refs and links, and cache_shares. */
    pthread_mutex_t rolls_lock;
    struct site_roll *rolls;       /* rolls that are complete and still sent */
    uint64_t moments;              /* passed so far: see rolls_now() */
    struct cache *cache;           /* of this process; cache_shares have it open */
    unsigned cache_shares;
    /* There is a cache, for which a second is too long: nothing else is remembered. */
    atomic_bool exact;
    atomic_size_t compress_max; /* the largest file that may be compressed; 0: none is */
    struct negative negative;
    struct negative no_symlinks; /* folders that are reached without a link: site_open.c */
};

struct site_source {
    struct source source; /* first: the core knows only this */
    int fd;               /* -1: none */
    dev_t dev;            /* the device it lies on, and where that is */
    enum site_place place;
    struct folder *folder;
    struct site_archive *archive;
    void *owner;          /* see struct listing_help */
    struct cache_entry *entry; /* the cache entry that it is part of, or NULL */
};

static inline bool site_is_exact(const struct site *site)
{
    return atomic_load_explicit(&site->exact, memory_order_relaxed);
}

static inline size_t site_compress_max(const struct site *site)
{
    return atomic_load_explicit(&site->compress_max, memory_order_relaxed);
}

/* Whether a redirect answers requests for that path, so that visitors cannot get what is there.
 * For a folder, whose path ends with a slash: whether one answers for everything below it. */
static inline bool site_moves(const struct site *site, struct slice path)
{
    const struct move *to = site->moves ? moves_find(site->moves, path) : NULL;

    return to && (to->rest || path.ptr[path.len - 1] != '/');
}

/* Files of up to body_max bytes are kept from now on. */
static inline void site_has_cache(struct site *site, size_t body_max)
{
    atomic_store(&site->exact, true);
    atomic_store(&site->compress_max, site->compress ? body_max : 0);
}

/* --- site_open.c ------------------------------------------------------------------------------ */

/* Open a path relative to the root (NUL-terminated, no leading slash), never outside the root, and
 * nothing hidden by way of a link.  flags include O_DIRECTORY or O_PATH.  Returns a descriptor or
 * -errno, of which -ENOENT means 404 and -EACCES 403. */
int site_open_beneath(const struct site *site, const char *path, int flags);

/* Whether the root was removed, so that nothing is found any more.  Reported on stderr at times. */
bool site_is_gone(const struct site *site);

/* Open a regular file in the same way, and fill *st.  -EISDIR: it is a folder.  -EACCES with a kind
 * in st->st_mode (0: none is known): it is neither, or others may not read it; it was not
 * opened. */
int site_open_file(struct site *site, const char *path, struct stat *st);

/* --- site_place.c ----------------------------------------------------------------------------- */

/* The place of an open file on that device.  No file server is asked. */
enum site_place site_place_of(struct site *site, int fd, dev_t dev);

/* --- site_young.c ----------------------------------------------------------------------------- */

void young_init(struct young *young, int root_fd);
/* Whether that file was changed so recently that its next change may get the same times.  now:
 * CLOCK_REALTIME_COARSE, read before *st was. */
bool young_is(struct site *site, int fd, const struct stat *st, const struct timespec *now);

/* --- site_negative.c -------------------------------------------------------------------------- */

int negative_init(struct negative *n); /* *n is all zeroes.  0, or -1 and errno */
/* Whether that path was found without siblings less than SITE_NEGATIVE_MS ago.  now_ms: clock_ms(),
 * of which the lower half is enough. */
bool negative_has(const struct negative *n, const char *path, size_t len, uint32_t now_ms);
/* The path has no siblings; since_ms: when the search began. */
void negative_add(struct negative *n, const char *path, size_t len, uint32_t since_ms);

/* --- site_roll.c: a folder's sorted entries, from which several listings are made ------------- */

struct site_roll {
    struct roll roll;      /* first; view and path of its totals are the key */
    struct site_roll *prev, *next; /* in the site's list, once it is made */
    unsigned refs;
    bool made;
    uint64_t begun;        /* rolls_now() before its folder was read */
    char path[];
};

int rolls_open(struct site *site); /* 0, or -1 and errno */
void rolls_close(struct site *site);
/* A number that grows with each call: of two calls, the later one returns the larger. */
uint64_t rolls_now(struct site *site);
/* An empty roll for that listing's path and view; NULL: no memory.  The reading begins now. */
struct roll *roll_open(struct site *site, const struct listing *listing);
/* All entries are there, and sorted.  From now on the roll does not change; roll_find() finds
 * it. */
void roll_made(struct site *site, struct roll *roll);
/* A reference to a roll of the same path and view whose reading began after `asked`, or NULL.  A
 * roll that began before might lack what has changed in between. */
struct roll *roll_find(struct site *site, const struct listing *listing, uint64_t asked);
void roll_put(struct site *site, struct roll *roll); /* NULL is fine */

/* --- site_charge.c: the memory of all listings and archives ----------------------------------- */

int charges_open(struct site *site); /* 0, or -1 and errno */
void charges_close(struct site *site);
/* Count that many more bytes for this process.  False: they were not counted, because all processes
 * together would have more than SITE_LISTINGS_BYTES_MAX, or no claim is free. */
bool charge(struct site *site, size_t bytes);
void charge_back(struct site *site, size_t bytes);
/* A place for an archive, or -EAGAIN: all are taken. */
int  archive_place(struct site *site);
void archive_place_back(struct site *site, int place); /* a negative one is fine */

/* --- site_readme.c ---------------------------------------------------------------------------- */

/* Gives the listing, whose view and path are set, the README of its folder, if it is to be
 * shown. */
void site_readme_open(struct site *site, struct listing *l);
void site_readme_close(struct site *site, struct listing *l); /* none is fine */

/* --- site_folder.c ---------------------------------------------------------------------------- */

/* Begin the listing of the open folder fd, which is taken over, also on failure; a short listing is
 * made at once.  0 or -errno.  When a source has it, it is used by site_made.c. */
int site_folder_open(struct site *site, const struct http_ask *ask, int fd, struct folder **folder);
void site_folder_close(struct folder *folder); /* NULL is fine */
void site_folder_client(struct folder *folder, int fd); /* as site_listing_client() in inside.h */
/* NULL: the source is no listing. */
static inline struct folder *site_listing(const struct source *source)
{
    return ((const struct site_source *)source)->folder;
}

#endif
