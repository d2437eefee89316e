/* SPDX-License-Identifier: MIT */
/* heap.h - what a library allocates for one purpose, in a list: all of it can be freed without the
 * library.
 *
 * Some libraries crash when they get no memory.  A library that lets its user allocate does so
 * here, and is never called again after such a failure.  Each block costs two pointers more.
 */
#ifndef SERVER_HEAP_H
#define SERVER_HEAP_H
#include <stddef.h>

struct heap_ring {
    struct heap_ring *prev, *next;
};

struct heap {
    struct heap_ring blocks; /* its own address is in them */
};

void heap_init(struct heap *heap);
/* As malloc(), calloc(), realloc() and free(). */
void *heap_take(struct heap *heap, size_t n);
void *heap_take_zeroed(struct heap *heap, size_t count, size_t n);
void *heap_resize(struct heap *heap, void *mem, size_t n);
void heap_give(void *mem);
/* Frees all blocks. */
void heap_drop(struct heap *heap);

#endif
