/* SPDX-License-Identifier: MIT */
/* coro.c - coroutines: stacks with a guard page, and the place to return to.
 *
 * A coroutine's own data is at the top of its stack: one call maps both, without malloc.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../core/env.h"
#include "coro.h"

struct coro {
    void *sp;      /* where the coroutine stopped */
    void *home_sp; /* where its resumer stopped */
    char *mapping;
    void (*body)(struct coro *self, void *arg);
    void *arg;
    bool ended;
};

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t mapping_bytes(void)
{
    return page_bytes() + CORO_STACK_BYTES;
}

static void entry(void *arg)
{
    struct coro *c = arg;

    c->body(c, c->arg);
    c->ended = true;
    coro_switch(&c->sp, c->home_sp);
    core_assert(!"an ended coroutine is never resumed");
}

struct coro *coro_open(void (*body)(struct coro *self, void *arg), void *arg)
{
    char *mapping = mmap(NULL, mapping_bytes(), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    struct coro *c;

    if (mapping == MAP_FAILED)
        return NULL;
    if (mprotect(mapping, page_bytes(), PROT_NONE) < 0) { /* stacks grow down, into this */
        munmap(mapping, mapping_bytes());
        return NULL;
    }
    c = (struct coro *)(void *)(mapping + mapping_bytes() - ((sizeof(*c) + 63) & ~(size_t)63));
    *c = (struct coro){.mapping = mapping, .body = body, .arg = arg};
    c->sp = coro_prepare(c, entry, c);
    return c;
}

bool coro_resume(struct coro *c)
{
    core_assert(!c->ended);
    coro_switch(&c->home_sp, c->sp);
    return !c->ended;
}

void coro_suspend(struct coro *self)
{
    coro_switch(&self->sp, self->home_sp);
}

void coro_close(struct coro *c)
{
    munmap(c->mapping, mapping_bytes());
}

unsigned coro_most(void)
{
    enum { MAPS_LINUX = 65530, MAPS_OTHERS = 4096 }; /* the kernel's default; libraries, malloc */
    FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
    unsigned maps = MAPS_LINUX;

    if (f) {
        if (fscanf(f, "%9u", &maps) != 1)
            maps = MAPS_LINUX;
        fclose(f);
    }
    return maps > 2 * MAPS_OTHERS ? (maps - MAPS_OTHERS) / 2 : MAPS_OTHERS / 2;
}

size_t coro_touched(const struct coro *c)
{
    size_t page = page_bytes(), touched = 0;
    unsigned char resident[CORO_STACK_BYTES / 4096];

    if (mincore(c->mapping + page, CORO_STACK_BYTES, resident) < 0)
        return 0;
    for (size_t i = 0; i < CORO_STACK_BYTES / page; i++)
        touched += resident[i] & 1 ? page : 0;
    return touched;
}
