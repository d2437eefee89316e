/* SPDX-License-Identifier: MIT */
/* compress_zstd.c - zstd (RFC 8878) by the zstd library.  The window is never larger than the file,
 * so clients need no more memory than RFC 9659 grants (8 MB). */
#include <zstd.h>
#include "compress.h"

enum { LEVEL = 9 };

static size_t zstd(struct slice in, char *out, size_t cap)
{
    size_t n = ZSTD_compress(out, cap, in.ptr, in.len, LEVEL);

    return ZSTD_isError(n) ? 0 : n;
}

const struct compressor compress_zstd = {CODING_ZSTD, "zstd", zstd};
