/* SPDX-License-Identifier: MIT */
/* bytes.h - bytes that grow at the end and are taken from the front: what waits for a socket. */
#ifndef LOAD_BYTES_H
#define LOAD_BYTES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_FIRST = 512 };

struct bytes {
    char *ptr;
    size_t at, len, cap; /* those from at to len are left */
};

static inline size_t bytes_left(const struct bytes *b)
{
    return b->len - b->at;
}

/* Makes room for n more bytes; false: no memory. */
static inline bool bytes_room(struct bytes *b, size_t n)
{
    size_t cap = b->cap ? b->cap : BYTES_FIRST, left = bytes_left(b);
    char *more;

    if (b->at && (!left || n > b->cap - b->len)) {
        memmove(b->ptr, b->ptr + b->at, left);
        b->at = 0;
        b->len = left;
    }
    if (n <= b->cap - b->len)
        return true;
    while (cap - b->len < n)
        cap *= 2;
    more = realloc(b->ptr, cap);
    if (!more)
        return false;
    b->ptr = more;
    b->cap = cap;
    return true;
}

static inline bool bytes_add(struct bytes *b, const char *from, size_t n)
{
    if (!bytes_room(b, n))
        return false;
    memcpy(b->ptr + b->len, from, n);
    b->len += n;
    return true;
}

static inline void bytes_free(struct bytes *b)
{
    free(b->ptr);
    *b = (struct bytes){0};
}

#endif
