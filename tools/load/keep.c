/* SPDX-License-Identifier: MIT */
/* keep.c - bytes that stay until the plan ends: URLs, requests, and the small files of --check.
 *
 * Many pieces share a block.  There may be millions of pieces, and malloc() would give each one a
 * head and an edge of its own.
 */
#include <stdlib.h>
#include "load.h"

enum { BLOCK_BYTES = 1 << 20, ALIGN = 8 };

struct block {
    struct block *next;
    size_t room, used;
    _Alignas(ALIGN) char bytes[];
};

void *plan_keep(struct plan *p, size_t wanted)
{
    const size_t n = (wanted + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    const size_t room = n > BLOCK_BYTES ? n : BLOCK_BYTES;
    struct block *b = p->kept;

    if (!b || b->room - b->used < n) {
        b = malloc(sizeof(*b) + room);
        if (!b)
            return NULL;
        *b = (struct block){.next = p->kept, .room = room};
        p->kept = b;
    }
    b->used += n;
    return b->bytes + b->used - n;
}

char *plan_keep_copy(struct plan *p, const char *bytes, size_t n)
{
    char *to = plan_keep(p, n);

    if (to)
        memcpy(to, bytes, n);
    return to;
}

void plan_keep_free(struct plan *p)
{
    struct block *next;

    for (struct block *b = p->kept; b; b = next) {
        next = b->next;
        free(b);
    }
}
