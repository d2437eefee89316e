/* SPDX-License-Identifier: MIT */
/* cache.h - answers of the site that were asked for before, kept in memory and never stale.
 *
 * A request that is sent after a change was complete is answered from the new state.  The kernel
 * queues an inotify event before the call that changes a file returns.  So a thread that has
 * received a request, and then finds that no event is queued (cache_look()), may answer from
 * memory whatever it finds there.  The order is the proof: receive, look, find.
 *
 *   cache.c          the functions of this page: find, open, close
 *   cache_fill.c     an answer becomes an entry: watch first, read afterwards
 *   cache_listing.c  listings: what they depend on, and when they are made again
 *   cache_variant.c  an entry's bytes in gzip, br or zstd, made by a thread of the cache
 *   cache_ready.c    whole answers, head and body, for requests that repeat
 *   cache_way.c      what a file's answer depends on is watched, from the root down
 *   cache_room.c     entries get a place, and others are evicted for them
 *   cache_watch.c    watches, and which entries an event ends
 *   cache_table.c    the table: entries, their order, references, readers
 *   cache_listed.c   whether keeping a listing pays
 *   cache_kind.c     the file systems on which answers are never stale
 *   cache_mounts.c   mounts that hide a folder
 *
 * Each file calls only those below it.
 *
 * docs/cache.md says which changes send no event and what is done about them.
 *
 * One cache for all threads of a process.  Each thread has a reader; a hit takes no lock.
 */
#ifndef SERVER_CACHE_H
#define SERVER_CACHE_H
#include "inside.h"

struct cache;
struct cache_reader;

/* What a cache may hold. */
struct cache_limits {
    size_t bytes;
    /* A file is read before it is sent, as for TLS, so larger ones are worth keeping, too:
     * CACHE_READ_BYTES_MAX. */
    bool reads;
};

/* A share in the process's cache of that site; the first share opens the cache, with its limits,
 * and the last one closes it.  NULL: there is no cache, because its bytes are 0, the folder is on a
 * file system that does not allow it, or the kernel has no inotify instance left. */
struct cache *cache_share(struct site *site, struct cache_limits limits, struct stats *stats);
/* The process's cache of that site, while a share keeps it open; or NULL. */
struct cache *cache_of(struct site *site);
/* Call it when no reader is left, and no source of the cache is held. */
void cache_leave(struct cache *cache); /* NULL is fine */

/* For one thread.  NULL: no memory, or the cache is NULL; then ask the site. */
struct cache_reader *cache_reader_open(struct cache *cache);
void cache_reader_close(struct cache_reader *reader); /* NULL is fine */

/* Acts upon all events that are queued by now.  Call it after the receive and before
 * cache_find(), which uses now_ms as its time. */
void cache_look(struct cache_reader *reader, uint64_t now_ms);

/* Like site_find() with may_block false, and site_page(). */
int cache_find(struct cache_reader *reader, const struct http_ask *ask, struct source **source);
int cache_page(struct cache_reader *reader, unsigned status, struct source **source);

/* Like cache_find(), for an ask with a number, if a whole answer is ready for it.  False: call
 * cache_find(). */
bool cache_ready(struct cache_reader *reader, const struct http_ask *ask, struct source **source);

/* Like site_find() with may_block true, for what cache_find() put off (-EINPROGRESS): a listing,
 * which may be kept.  On any thread that may block. */
int cache_list(struct cache_reader *reader, const struct http_ask *ask, struct source **source);

/* Releases what cache_find(), site_find() and the like gave. */
void cache_source_release(struct site *site, struct source *source);

/* Why no answers are kept for files on the file system of fd; NULL: they are kept.  The text has
 * the file system's name if it is a known one. */
const char *cache_refusal(int fd);

#endif
