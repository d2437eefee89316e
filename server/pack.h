/* SPDX-License-Identifier: MIT */
/* pack.h - a tar or zip that is being written: pack.c, by libarchive.
 *
 * Entries come one after the other, each with its size before its bytes.  The pack's bytes go to a
 * sink at once, so that memory does not grow with them.  A zip has a list of all entries at its
 * end, which is kept until then: the caller counts that memory (PACK_LISTED_BYTES).
 */
#ifndef SERVER_PACK_H
#define SERVER_PACK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pack_form { PACK_NONE, PACK_TAR, PACK_TAR_GZ, PACK_ZIP, PACK_FORMS };

enum {
    PACK_BYTES = 512 << 10,  /* what a form takes from the heap, without the list */
    PACK_LISTED_BYTES = 100, /* what a zip keeps of an entry, without its name */
};

/* take(): 0, or -errno, which ends the pack. */
struct pack_sink {
    int (*take)(void *arg, const void *bytes, size_t n);
    void *arg;
};

struct pack_entry {
    const char *name; /* of a folder with a slash at its end */
    bool folder;
    bool compresses;  /* a zip compresses it */
    uint64_t size;    /* of the bytes that follow */
    int64_t mtime_s;
};

struct pack;

/* Whether packs can be written here.  Call it once, before other threads exist. */
bool pack_can(void);
/* Functions here that return int return 0 or -errno. */
int  pack_open(struct pack **pack, enum pack_form form, struct pack_sink sink);
int  pack_begin(struct pack *p, const struct pack_entry *entry);
int  pack_write(struct pack *p, const void *bytes, size_t n);
int  pack_end(struct pack *p);    /* of the entry */
int  pack_finish(struct pack *p); /* of the pack: its end is written */
void pack_close(struct pack *p);  /* NULL is fine; a pack that is not finished is given up */

#endif
