/* SPDX-License-Identifier: MIT */
/* heap.c - blocks of malloc() with a head of two pointers, in a ring. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "heap.h"

enum { ALIGNED = 16 };

struct block {
    struct heap_ring ring;
    _Alignas(ALIGNED) char bytes[];
};

static struct block *block_of(void *mem)
{
    return (struct block *)(void *)((char *)mem - sizeof(struct block));
}

static size_t with_head(size_t n)
{
    return n < SIZE_MAX - sizeof(struct block) ? n + sizeof(struct block) : SIZE_MAX;
}

/* A block that is new, or that has moved. */
static void *join(struct block *b)
{
    b->ring.prev->next = b->ring.next->prev = &b->ring;
    return b->bytes;
}

static void *join_first(struct heap *heap, struct block *b)
{
    if (!b)
        return NULL;
    b->ring = (struct heap_ring){&heap->blocks, heap->blocks.next};
    return join(b);
}

void heap_init(struct heap *heap)
{
    heap->blocks = (struct heap_ring){&heap->blocks, &heap->blocks};
}

void *heap_take(struct heap *heap, size_t n)
{
    return join_first(heap, malloc(with_head(n)));
}

void *heap_take_zeroed(struct heap *heap, size_t count, size_t n)
{
    size_t bytes = n && count > SIZE_MAX / n ? SIZE_MAX : count * n;

    return join_first(heap, calloc(1, with_head(bytes)));
}

void *heap_resize(struct heap *heap, void *mem, size_t n)
{
    struct block *b;

    if (!mem)
        return heap_take(heap, n);
    b = realloc(block_of(mem), with_head(n));
    return b ? join(b) : NULL;
}

void heap_give(void *mem)
{
    struct block *b;

    if (!mem)
        return;
    b = block_of(mem);
    b->ring.prev->next = b->ring.next;
    b->ring.next->prev = b->ring.prev;
    free(b);
}

void heap_drop(struct heap *heap)
{
    while (heap->blocks.next != &heap->blocks)
        heap_give(((struct block *)(void *)heap->blocks.next)->bytes);
}
