/* SPDX-License-Identifier: MIT */
/* site_inside.h - what site.c (files), site_absent.c (siblings that are not there) and
 * site_folder.c (listings) share, and nobody else includes.
 *
 * The site is one for all threads and does not change, but for a counter and the paths without
 * siblings; a source is its connection's, with the descriptor or the listing in it.
 */
#ifndef SERVER_SITE_INSIDE_H
#define SERVER_SITE_INSIDE_H
#include <stdatomic.h>
#include "../core/listing.h"
#include "inside.h"

enum {
    /* Entries that are sorted unless the options say otherwise; a folder with more is streamed. */
    SITE_ENTRIES_MAX = 100000,
    /* Memory of all listings that are being made or sent.  What would exceed it is streamed. */
    SITE_LISTINGS_BYTES_MAX = 256 << 20,
    /* For so long a file is sent as it is before its compressed siblings are looked for again. */
    SITE_ABSENT_MS = 1000,
    ABSENT_PLACES = 1024, /* files of which that is remembered, 8 bytes each */
};

struct folder;

struct absent {
    uint64_t key; /* of the hash: below 2^61 - 1 */
    _Atomic uint64_t words[ABSENT_PLACES];
};

struct site {
    int root_fd;
    bool hidden, listing, precompressed;
    size_t entries_max;
    atomic_size_t listings_bytes; /* <= SITE_LISTINGS_BYTES_MAX */
    struct absent absent;
    size_t index_len;
    char index[NAME_BYTES_MAX + 1];
};

struct site_source {
    struct source source; /* first: the core knows only this */
    int fd;               /* -1: none */
    struct folder *folder;
};

/* Open a path relative to the root (NUL-terminated, no leading slash), never outside it.  A
 * descriptor or -errno, of which -ENOENT means 404 and -EACCES 403. */
int site_open_beneath(const struct site *site, const char *path, int flags);

/* --- site_absent.c ---------------------------------------------------------------------------- */

int absent_init(struct absent *absent); /* it is all zeroes.  0, or -1 and errno */
/* Whether that path was found without siblings less than SITE_ABSENT_MS ago, by clock_ms(), of
 * which the lower half will do. */
bool absent_lately(const struct absent *absent, const char *path, size_t len, uint32_t now_ms);
/* It has none; since_ms: when the search began. */
void absent_note(struct absent *absent, const char *path, size_t len, uint32_t since_ms);

/* --- site_folder.c ---------------------------------------------------------------------------- */

/* Make the listing of the open folder fd, which is taken over, also on failure.  0 or -errno. */
int folder_open(struct site *site, const struct http_ask *ask, int fd, struct folder **folder);
size_t folder_next(struct source *source, char *buf, size_t cap); /* source.next of a listing */
void folder_close(struct folder *folder); /* NULL is fine */

#endif
