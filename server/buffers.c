/* SPDX-License-Identifier: MIT */
/* buffers.c - the memory of a loop's connections.
 *
 * Input queue and send queue memory is reused through short lists: the next connection gets what
 * the last one released, still warm in the cache.  The lists are the loop's alone (no lock) and
 * bounded, so that a flood of connections does not keep its peak for ever.
 */
#include <errno.h>
#include <stdlib.h>
#include "buffers.h"
#include "inside.h"

enum {
    BUFFER_SIZES = 4,    /* the core asks for three sizes, TLS for one; others go to malloc */
    BUFFERS_KEPT_MAX = 64 /* of each size: for 64 connections in mid-answer; 6 MB a loop */
};

struct buffer {
    struct buffer *next;
};

struct shelf {
    size_t bytes;
    unsigned count;
    struct buffer *first;
};

struct buffers {
    struct shelf shelf[BUFFER_SIZES];
};

static struct shelf *shelf_of(struct buffers *b, size_t bytes)
{
    for (unsigned i = 0; i < BUFFER_SIZES; i++) {
        if (b->shelf[i].bytes == 0)
            b->shelf[i].bytes = bytes;
        if (b->shelf[i].bytes == bytes)
            return &b->shelf[i];
    }
    return NULL;
}

void *buffers_get(void *ctx, size_t bytes)
{
    struct loop *l = ctx;
    struct shelf *shelf = shelf_of(l->buffers, bytes);
    struct buffer *buf;

    if (!shelf || !shelf->first)
        return malloc(bytes < sizeof(*buf) ? sizeof(*buf) : bytes);
    buf = shelf->first;
    shelf->first = buf->next;
    shelf->count--;
    return buf;
}

void buffers_put(void *ctx, void *mem, size_t bytes)
{
    struct loop *l = ctx;
    struct shelf *shelf = shelf_of(l->buffers, bytes);
    struct buffer *buf = mem;

    if (!shelf || shelf->count >= BUFFERS_KEPT_MAX) {
        free(mem);
        return;
    }
    buf->next = shelf->first;
    shelf->first = buf;
    shelf->count++;
}

bool loop_has_memory(struct loop *l)
{
    for (unsigned i = 0; i < BUFFER_SIZES; i++) {
        struct shelf *shelf = &l->buffers->shelf[i];
        void *mem;

        if (!shelf->bytes || shelf->first)
            continue;
        mem = malloc(shelf->bytes);
        if (!mem)
            return false;
        buffers_put(l, mem, shelf->bytes);
    }
    return true;
}

int buffers_open(struct buffers **b)
{
    *b = calloc(1, sizeof(**b));
    return *b ? 0 : -ENOMEM;
}

void buffers_close(struct buffers *b)
{
    for (unsigned i = 0; i < BUFFER_SIZES; i++) {
        struct buffer *next, *buf = b->shelf[i].first;

        for (; buf; buf = next) {
            next = buf->next;
            free(buf);
        }
    }
    free(b);
}
