/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* listing.h - a folder as HTML, JSON or text, made piece by piece from an iterator.
 *
 * folder.c gathers, filters and sorts entries with the functions below and passes them on one at a
 * time; listing_next() turns them into bytes, whole rows at a time, so that a folder of any size
 * needs no more memory than a buffer of CHUNK_BYTES_MAX.  Names are bytes: each format escapes them
 * in its own way, and a name that is not UTF-8 is shown with U+FFFD yet linked by its true bytes.
 */
#ifndef CORE_LISTING_H
#define CORE_LISTING_H
#include "http.h"

enum { LISTING_FILTER_BYTES_MAX = 128 /* a filter is typed by a person; a longer one is cut */ };

enum listing_kind {
    LISTING_FOLDER,
    LISTING_FILE, /* linked, unless a request for it would be refused: see path_links() */
    LISTING_FIFO, /* from here on: shown, not linked */
    LISTING_SOCKET,
    LISTING_DEVICE,
    LISTING_DEAD, /* a link whose target is missing or must not be served */
};

struct listing_entry {
    struct slice name;
    uint64_t size;
    int64_t mtime_s;
    uint8_t kind;  /* enum listing_kind; of a link: its target's */
    bool link;     /* symbolic */
    bool unknown;  /* size and time could not be read */
};

enum listing_format { LISTING_HTML, LISTING_JSON, LISTING_TEXT };
enum listing_sort { LISTING_BY_NAME, LISTING_BY_SIZE, LISTING_BY_TIME };

/* What the visitor wants to see. */
struct listing_view {
    enum listing_format format;
    enum listing_sort sort;
    bool descending;
    uint32_t offset, limit; /* a page: entries before it; entries on it, 0: all that follow */
    size_t filter_len;
    char filter[LISTING_FILTER_BYTES_MAX]; /* decoded */
};

struct listing {
    /* The caller's, set before the first listing_next(), the rest zero. */
    struct listing_view view;
    struct slice path; /* decoded, begins and ends with '/'; lives as long as the listing */
    bool archive;      /* ?archive=zip and ?archive=tar.gz send the folder as one file */
    bool upload;       /* the folder takes a form with files by POST */
    /* Shown below the entries; empty: nothing is.  It lives as long as the listing. */
    struct slice readme;
    bool readme_is_html; /* made by the host, which allows nothing in it that could run or load */
    bool streamed;     /* entries come unsorted, and the totals are not known beforehand */
    uint64_t folders, files, others, bytes; /* totals of all pages, unless streamed */
    bool more;         /* entries follow the page's last one; need not be known before it */
    /* The next entry, valid until the next call; false: there are no more, or, with dry set, none
     * now: listing_next() then ends early, and 0 is not the end. */
    bool (*entry)(void *ctx, struct listing_entry *e);
    void *ctx;
    bool dry;
    /* listing_next()'s own; others may read holds: what entry() gave must then stay valid. */
    struct listing_entry held;
    bool holds;     /* held was fetched and has not been written yet */
    bool begun;     /* a row has been written */
    unsigned phase;
    size_t at;      /* how far the phase has come */
    int64_t day_s;  /* start of the day that was written last */
    char day[10];   /* ... and its date */
};

/* Reads the view from the query: sort=name|size|time, order=asc|desc, filter=..., offset=N, limit=N
 * (below 10^9) and format=html|json|text; the last one is in ask->json and text already.  Other
 * parts are ignored. */
void listing_view_read(struct listing_view *view, const struct http_ask *ask);

/* Whether an entry of that name belongs to the view: it contains the filter, ASCII case ignored. */
bool listing_match(const struct listing_view *view, struct slice name);

/* A total order (< 0, > 0; 0 only for the same name): folders first, then by the view's column,
 * ties by name.  Names compare as people read them: case last, digits as numbers (file2 before
 * file10). */
int listing_compare(const struct listing_view *view, const struct listing_entry *a,
                    const struct listing_entry *b);

/* For sorting many entries: how many bytes both names begin with, without the digits at the end,
 * because a number may continue behind them. */
size_t listing_start(struct slice name, struct slice other);
/* A number of which the smaller one comes first; where two are equal, listing_compare() decides.
 * start: bytes that all names begin with. */
uint64_t listing_key(const struct listing_view *view, const struct listing_entry *e, size_t start);

/* Count an entry into the totals. */
void listing_count(struct listing *l, const struct listing_entry *e);

/* The next bytes: up to cap (>= CHUNK_BYTES_MAX), whole rows; 0: the end, unless dry is set. */
size_t listing_next(struct listing *l, char *buf, size_t cap);

/* Forgets what was written: listing_next() begins again, and so must entry(). */
void listing_rewind(struct listing *l);

const char *listing_type(enum listing_format format); /* Content-Type */
extern const char listing_policy[];                   /* Content-Security-Policy of HTML */

#endif
