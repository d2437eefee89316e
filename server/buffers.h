/* SPDX-License-Identifier: MIT */
/* buffers.h - the memory of a loop's connections (buffers.c). */
#ifndef SERVER_BUFFERS_H
#define SERVER_BUFFERS_H
#include <stddef.h>

struct buffers;

int  buffers_open(struct buffers **b); /* 0 or -ENOMEM */
void buffers_close(struct buffers *b);
/* conn_host.alloc and free; ctx is the struct loop. */
void *buffers_get(void *ctx, size_t bytes);
void buffers_put(void *ctx, void *mem, size_t bytes);

#endif
