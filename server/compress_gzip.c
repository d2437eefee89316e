/* SPDX-License-Identifier: MIT */
/* compress_gzip.c - gzip (RFC 1952) by libdeflate: sizes of zlib's level 9 in half of the time that
 * zlib takes for level 6 (docs/cache.md). */
#include <libdeflate.h>
#include "compress.h"

enum { LEVEL = 6 };

static size_t gzip(struct slice in, char *out, size_t cap)
{
    struct libdeflate_compressor *state = libdeflate_alloc_compressor(LEVEL);
    size_t n = state ? libdeflate_gzip_compress(state, in.ptr, in.len, out, cap) : 0;

    libdeflate_free_compressor(state);
    return n;
}

const struct compressor compress_gzip = {CODING_GZIP, "libdeflate", gzip};
