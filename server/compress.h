/* SPDX-License-Identifier: MIT */
/* compress.h - bytes of a file in another coding: gzip, br and zstd.
 *
 *   compress.c        which codings there are, which one a client gets
 *   compress_gzip.c   libdeflate, level 6
 *   compress_br.c     brotli, quality 5
 *   compress_zstd.c   zstd, level 9
 *
 * docs/cache.md says how libraries and levels were chosen.  The Makefile leaves out the file of a
 * library whose header is not installed, and generates compressors.def, a row for each that is.
 *
 * Coding is done in memory, in one call, and takes milliseconds: no loop calls compress_write().
 */
#ifndef SERVER_COMPRESS_H
#define SERVER_COMPRESS_H
#include "../core/http.h"

struct compressor {
    enum coding coding;
    const char *library; /* as rung doctor names it */
    /* The coded bytes: how many, or 0: they do not fit, or there is no memory. */
    size_t (*write)(struct slice in, char *out, size_t cap);
};

extern const struct compressor compress_gzip, compress_br, compress_zstd; /* if they are built */

/* The compressor for that coding, or NULL: this program was built without it, or it is identity. */
const struct compressor *compressor_of(enum coding coding);
bool compress_makes_any(void);
/* The coding that the client prefers among identity and those that can be made. */
enum coding compress_best(const uint16_t q[CODINGS]);
/* The coded bytes, at most cap: how many, or 0: they do not fit, or there is no memory. */
size_t compress_write(enum coding coding, struct slice in, char *out, size_t cap);
/* For the ETag of coded bytes: the same on every machine, and never 0. */
uint64_t compress_hash(struct slice coded);

#endif
