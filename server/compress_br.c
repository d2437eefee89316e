/* SPDX-License-Identifier: MIT */
/* compress_br.c - br (RFC 7932) by the brotli library.  Quality 11 takes fifty times as long to
 * save another tenth (docs/cache.md). */
#include <brotli/encode.h>
#include "compress.h"

enum { QUALITY = 5, WINDOW_BITS = 18 /* 256 KiB: all that is kept in memory */ };

static size_t br(struct slice in, char *out, size_t cap)
{
    size_t n = cap;

    if (!BrotliEncoderCompress(QUALITY, WINDOW_BITS, BROTLI_MODE_GENERIC, in.len,
                               (const uint8_t *)in.ptr, &n, (uint8_t *)out))
        return 0;
    return n;
}

const struct compressor compress_br = {CODING_BR, "brotli", br};
