/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kbufpool.c - memory of connections: each processor keeps some buffers of each size, and all
 * buffers together have a limit.
 */
#include <linux/cpu.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>
#include "../core/conn_inside.h"
#include "kinside.h"

/* Buffers of each size for each processor, if connections are pumped in the bottom half: this many
 * may wait there for their peers to read before others are handed to the work item. */
enum { KSHELF_STOCK = 8 };

/* Incomplete heads on all seats must not exhaust the machine's memory and get a process killed.
 * All buffers together may have a quarter of it; a connection that needs one more is closed. */
enum { MEMORY_SHARE = 4 };

static struct kshelf *shelf_of(struct kpercpu *here, size_t bytes)
{
    unsigned i;

    for (i = 0; i < KSHELVES; i++) {
        if (!here->shelf[i].bytes)
            here->shelf[i].bytes = bytes;
        if (here->shelf[i].bytes == bytes)
            return &here->shelf[i];
    }
    return NULL;
}

static void *shelf_take(struct kserve *s, size_t bytes)
{
    struct kshelf *shelf;
    void *mem = NULL;

    local_bh_disable();
    shelf = shelf_of(this_cpu_ptr(s->percpu), bytes);
    if (shelf && shelf->first) {
        mem = shelf->first;
        shelf->first = *(void **)mem;
        shelf->count--;
    }
    local_bh_enable();
    return mem;
}

static bool shelf_put(struct kserve *s, void *mem, size_t bytes)
{
    struct kshelf *shelf;
    bool kept;

    local_bh_disable();
    shelf = shelf_of(this_cpu_ptr(s->percpu), bytes);
    kept = shelf && shelf->count < KSHELF_KEPT_MAX;
    if (kept) {
        *(void **)mem = shelf->first;
        shelf->first = mem;
        shelf->count++;
    }
    local_bh_enable();
    return kept;
}

long kbuffers_max(void)
{
    return (long)(totalram_pages() / MEMORY_SHARE << PAGE_SHIFT);
}

/* Allocates whole pages, and no more than needed.  kmalloc() and a kmem_cache would both round a
 * input queue of 32 KiB and some bytes up to 64 KiB. */
static void *buffer_new(struct kserve *s, size_t bytes, bool may_sleep)
{
    long charge = (long)PAGE_ALIGN(bytes);
    void *mem = NULL;

    if (atomic_long_add_return(charge, &s->buffer_bytes) <= s->buffer_bytes_max) {
        mem = alloc_pages_exact(bytes, (may_sleep ? GFP_KERNEL | __GFP_NORETRY : GFP_ATOMIC) |
                                           __GFP_NOWARN);
        if (!mem && may_sleep)
            mem = __vmalloc(bytes, GFP_KERNEL | __GFP_NOWARN);
    }
    if (!mem)
        atomic_long_sub(charge, &s->buffer_bytes);
    return mem;
}

static void buffer_free(struct kserve *s, void *mem, size_t bytes)
{
    if (is_vmalloc_addr(mem))
        vfree(mem);
    else
        free_pages_exact(mem, bytes);
    atomic_long_sub((long)PAGE_ALIGN(bytes), &s->buffer_bytes);
}

void *kbuffer_take(struct kserve *s, size_t bytes, bool may_sleep)
{
    void *mem = shelf_take(s, bytes);

    mem = mem ?: buffer_new(s, bytes, may_sleep);
    if (!mem)
        kstat_add(s, KSTAT_NO_BUFFER, 1);
    return mem;
}

void kbuffer_give(struct kserve *s, void *mem, size_t bytes)
{
    if (!shelf_put(s, mem, bytes))
        buffer_free(s, mem, bytes);
}

static int stock(struct kserve *s, struct kshelf *shelf)
{
    while (shelf->count < KSHELF_STOCK) {
        void *mem = buffer_new(s, shelf->bytes, true);

        if (!mem)
            return -ENOMEM;
        *(void **)mem = shelf->first;
        shelf->first = mem;
        shelf->count++;
    }
    return 0;
}

/* Called before anything is served.  A processor that comes online later gets its stock from
 * buffers that are given back there; until then its bottom half hands connections over. */
int kshelves_stock(struct kserve *s)
{
    int cpu, err = 0;

    cpus_read_lock();
    for_each_online_cpu(cpu) {
        struct kpercpu *there = per_cpu_ptr(s->percpu, cpu);

        err = err ?: stock(s, shelf_of(there, sizeof(struct outq)));
        err = err ?: stock(s, shelf_of(there, sizeof(struct inq)));
    }
    cpus_read_unlock();
    return err;
}

/* A pump takes one input queue and one send queue at most.  In the bottom half neither can be
 * waited for, and without them the connection would be lost. */
bool kshelves_stocked(struct kserve *s)
{
    struct kpercpu *here = this_cpu_ptr(s->percpu);
    struct kshelf *outq = shelf_of(here, sizeof(struct outq));
    struct kshelf *inq = shelf_of(here, sizeof(struct inq));

    return outq && inq && outq->count && inq->count;
}

void kshelves_empty(struct kserve *s)
{
    unsigned i;
    int cpu;

    for_each_possible_cpu(cpu) {
        for (i = 0; i < KSHELVES; i++) {
            struct kshelf *shelf = &per_cpu_ptr(s->percpu, cpu)->shelf[i];

            while (shelf->first) {
                void *mem = shelf->first;

                shelf->first = *(void **)mem;
                buffer_free(s, mem, shelf->bytes);
            }
        }
    }
    WARN_ON_ONCE(atomic_long_read(&s->buffer_bytes)); /* no other tool counts pages */
}
