/* SPDX-License-Identifier: MIT */
/* compress.c - which codings can be made here, which one a client gets, and what is worth trying.
 *
 * Bounds are those of core/limits.h, which the kernel module uses, too.
 */
#include "../core/types.h"
#include "compress.h"
#include "hash.h"

enum { HASH_PLACE = 0x2545f491 }; /* any will do, but never change it: tags outlive restarts */

static const struct compressor *const compressors[CODINGS + 1] = { /* in any order, then NULL */
#define X(name) &compress_##name,
#include "compressors.def"
#undef X
};

const struct compressor *compressor_of(enum coding coding)
{
    for (unsigned i = 0; compressors[i]; i++)
        if (compressors[i]->coding == coding)
            return compressors[i];
    return NULL;
}

bool compress_makes_any(void)
{
    return compressors[0];
}

enum coding compress_best(const uint16_t q[CODINGS])
{
    enum coding best = CODING_IDENTITY;

    for (enum coding coding = CODING_IDENTITY + 1; coding < CODINGS; coding++)
        if (q[coding] && http_prefers(q, coding, best) && compressor_of(coding))
            best = coding;
    return best;
}

size_t compress_write(enum coding coding, struct slice in, char *out, size_t cap)
{
    const struct compressor *c = compressor_of(coding);

    return c ? c->write(in, out, cap) : 0;
}

uint64_t compress_hash(struct slice coded)
{
    return hash_polynomial(HASH_PLACE, coded.ptr, coded.len) + 1;
}
