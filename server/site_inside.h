/* SPDX-License-Identifier: MIT */
/* site_inside.h - shared by the site's own files: site.c, site_open.c, site_young.c (times),
 * site_absent.c (siblings that are not there), site_folder.c (listings), site_roll.c (their
 * entries) and site_charge.c (the memory of those).  No other includes it.
 *
 * The site is one for all threads.  It does not change, except for a counter, the paths without
 * siblings, the list of rolls and the cache; a source is its connection's, with the descriptor or
 * the listing in it, or part of an entry of the cache.
 */
#ifndef SERVER_SITE_INSIDE_H
#define SERVER_SITE_INSIDE_H
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include "../core/folder.h"
#include "inside.h"

enum {
    /* Memory of all sorted listings that are being made or sent, in all processes: a dozen of
     * DOCROOT_ENTRIES_MAX names.  One that would exceed it is streamed. */
    SITE_LISTINGS_BYTES_MAX = 128 << 20,
    /* Processes that have sorted listings at once: four workers with all children that fork.c may
     * have.  The listings of one more are streamed. */
    SITE_CLAIMS = 4096,
    /* Names read at once: a millisecond, and 256 clients that leave cost 0.3 s. */
    SITE_FIRST_NAMES = 1024,
    /* How long a file is sent as it is before its compressed siblings are looked for again. */
    SITE_ABSENT_MS = 1000,
    SITE_PLACES = 8, /* file systems of which it is known where they lie */
    ABSENT_PLACES = 1024, /* files of which that is remembered, 8 bytes each */
};

struct cache;
struct cache_entry;
struct site_roll;

struct absent {
    uint64_t key; /* of the hash: below 2^61 - 1 */
    _Atomic uint64_t words[ABSENT_PLACES];
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
    _Atomic uint64_t gone_ms; /* not before then it is said again that the root was removed */
    atomic_uint claims;       /* claim[0..claims) may be taken: see site_charge.c */
    _Atomic uint64_t claim[SITE_CLAIMS];
};

struct site {
    int root_fd;
    struct young young;
    enum site_place place; /* of the root */
    _Atomic uint64_t places[SITE_PLACES]; /* of others: site_place.c */
    struct docroot_rules rules;
    bool compress; /* text is compressed where answers are kept */
    bool counts_links; /* the file system counts those of the root: some FUSE servers do not */
    bool world; /* what others may not read is refused, though this process may read it */
    struct site_shared *shared;
    pid_t opener;                  /* the process that opened it */
    _Atomic uint64_t *claim;       /* this process's, if it is another, or an ancestor's */
    /* Guards claim, the next two, each roll's refs and links, and cache_shares. */
    pthread_mutex_t rolls_lock;
    struct site_roll *rolls;       /* those that are made and still sent */
    uint64_t moments;              /* passed so far: see rolls_now() */
    struct cache *cache;           /* of this process, with those who share it */
    unsigned cache_shares;
    /* There is a cache: nothing else is remembered, because a second is too long for it. */
    atomic_bool exact;
    atomic_size_t compress_max; /* bytes of a file that may be compressed; 0: none is */
    struct absent absent;
    struct absent straight; /* folders that are reached without a link: site_open.c */
};

struct site_source {
    struct source source; /* first: the core knows only this */
    int fd;               /* -1: none */
    dev_t dev;            /* on which it lies, and where that is */
    enum site_place place;
    struct folder *folder;
    void *owner;          /* see struct listing_help */
    struct cache_entry *entry; /* that it is part of, or NULL */
};

static inline bool site_is_exact(const struct site *site)
{
    return atomic_load_explicit(&site->exact, memory_order_relaxed);
}

static inline size_t site_compress_max(const struct site *site)
{
    return atomic_load_explicit(&site->compress_max, memory_order_relaxed);
}

/* Files of up to body_max bytes are kept from now on. */
static inline void site_has_cache(struct site *site, size_t body_max)
{
    atomic_store(&site->exact, true);
    atomic_store(&site->compress_max, site->compress ? body_max : 0);
}

/* --- site_open.c ------------------------------------------------------------------------------ */

/* Open a path relative to the root (NUL-terminated, no leading slash), never outside it, nor by a
 * link what is hidden.  flags: O_DIRECTORY or O_PATH is among them.  A descriptor or -errno, of
 * which -ENOENT means 404 and -EACCES 403. */
int site_open_beneath(const struct site *site, const char *path, int flags);

/* Whether the root itself was removed: nothing is found any more.  Says so on stderr at times. */
bool site_is_gone(const struct site *site);

/* Open a regular file so, and look at it: *st.  -EISDIR: it is a folder; -EACCES with a kind in
 * st->st_mode, which is 0 if none is known: it is neither, and was not opened. */
int site_open_file(struct site *site, const char *path, struct stat *st);

/* --- site_place.c ----------------------------------------------------------------------------- */

/* Of an open file on that device.  Asks no server of files. */
enum site_place site_place_of(struct site *site, int fd, dev_t dev);

/* --- site_young.c ----------------------------------------------------------------------------- */

void young_init(struct young *young, int root_fd);
/* Whether that file's next change may leave its times as they are.  now: CLOCK_REALTIME_COARSE,
 * read before *st was. */
bool young_is(struct site *site, int fd, const struct stat *st, const struct timespec *now);

/* --- site_absent.c ---------------------------------------------------------------------------- */

int absent_init(struct absent *absent); /* it is all zeroes.  0, or -1 and errno */
/* Whether that path was found without siblings less than SITE_ABSENT_MS ago, by clock_ms(), of
 * which the lower half will do. */
bool absent_lately(const struct absent *absent, const char *path, size_t len, uint32_t now_ms);
/* That path has none; since_ms: when the search began. */
void absent_note(struct absent *absent, const char *path, size_t len, uint32_t since_ms);

/* --- site_roll.c: a folder's entries, sorted, of which several listings are made -------------- */

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
/* A number that grows with each call, so that of two calls the later one has the larger. */
uint64_t rolls_now(struct site *site);
/* An empty one for that listing's path and view; NULL: no memory.  The reading begins now. */
struct roll *roll_open(struct site *site, const struct listing *listing);
/* All are there, and sorted.  From now on it does not change, and roll_find() finds it. */
void roll_made(struct site *site, struct roll *roll);
/* A reference to one of the same path and view whose reading began after that moment, or NULL: one
 * that began before it might lack what has changed in between. */
struct roll *roll_find(struct site *site, const struct listing *listing, uint64_t asked);
void roll_put(struct site *site, struct roll *roll); /* NULL is fine */

/* --- site_charge.c: what all listings take ---------------------------------------------------- */

int charges_open(struct site *site); /* 0, or -1 and errno */
void charges_close(struct site *site);
/* This process has that many bytes more.  False: it has not, because all together would have more
 * than SITE_LISTINGS_BYTES_MAX. */
bool charge(struct site *site, size_t bytes);
void charge_back(struct site *site, size_t bytes);

/* --- site_folder.c ---------------------------------------------------------------------------- */

/* Begin the listing of the open folder fd, which is taken over, also on failure; a short one is
 * made.  0 or -errno.  As a source's it is asked by site_listing_...() in inside.h. */
int site_folder_open(struct site *site, const struct http_ask *ask, int fd, struct folder **folder);
void site_folder_close(struct folder *folder); /* NULL is fine */
/* NULL: the source is no listing. */
static inline struct folder *site_listing(const struct source *source)
{
    return ((const struct site_source *)source)->folder;
}

#endif
