/* SPDX-License-Identifier: MIT */
/* refuse_host.h - refuse.h for a connection on hosted.h: allocations of rung, and those that the
 * connection asks of its host.  Those that the fake host makes for itself do not count.
 *
 * The program is linked with --wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free, so that rung's
 * own calls come here; those inside of a library do not.
 */
#ifndef TESTS_REFUSE_HOST_H
#define TESTS_REFUSE_HOST_H
#include "hosted.h"
#include "refuse.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *p, size_t n);
void  __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *p, size_t n);
void  __wrap_free(void *p);

static struct refuse_real refuse_real = {__real_malloc, __real_calloc, __real_realloc, __real_free};

void *__wrap_malloc(size_t n)
{
    return refuse_malloc(n);
}

void *__wrap_calloc(size_t count, size_t n)
{
    return refuse_calloc(count, n);
}

void *__wrap_realloc(void *p, size_t n)
{
    return refuse_realloc(p, n);
}

void __wrap_free(void *p)
{
    refuse_free(p);
}

static int (*refuse_host_find)(void *ctx, const struct http_ask *ask, struct source **source);

static void *refuse_host_alloc(void *ctx, size_t bytes)
{
    bool on = refuse.on;
    void *mem;

    if (refuse_this())
        return NULL;
    refuse_off();
    mem = hosted_alloc(ctx, bytes);
    refuse.on = on;
    return mem;
}

static int refuse_host_finds(void *ctx, const struct http_ask *ask, struct source **source)
{
    bool on = refuse.on;
    int err;

    refuse_off();
    err = refuse_host_find(ctx, ask, source);
    refuse.on = on;
    return err;
}

/* After hosted_open(). */
static inline void refuse_host(struct hosted *h)
{
    refuse_host_find = h->loop.host.find;
    h->loop.host.find = refuse_host_finds;
    h->loop.host.conn.alloc = refuse_host_alloc;
}

#endif
