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
enum { KFREELIST_RESERVE = 8 };

/* Incomplete heads on all slots must not exhaust the machine's memory and get a process killed.
 * All buffers together may have a quarter of it; a connection that needs one more is closed. */
enum { MEMORY_SHARE = 4 };

static struct kfreelist *freelist_of(struct kpercpu *here, size_t bytes)
{
    unsigned i;

    for (i = 0; i < KFREELISTS; i++) {
        if (!here->list[i].bytes)
            here->list[i].bytes = bytes;
        if (here->list[i].bytes == bytes)
            return &here->list[i];
    }
    return NULL;
}

static void *freelist_take(struct kserve *s, size_t bytes)
{
    struct kfreelist *list;
    void *mem = NULL;

    local_bh_disable();
    list = freelist_of(this_cpu_ptr(s->percpu), bytes);
    if (list && list->first) {
        mem = list->first;
        list->first = *(void **)mem;
        list->count--;
    }
    local_bh_enable();
    return mem;
}

static bool freelist_put(struct kserve *s, void *mem, size_t bytes)
{
    struct kfreelist *list;
    bool kept;

    local_bh_disable();
    list = freelist_of(this_cpu_ptr(s->percpu), bytes);
    kept = list && list->count < KFREELIST_KEPT_MAX;
    if (kept) {
        *(void **)mem = list->first;
        list->first = mem;
        list->count++;
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
    void *mem = freelist_take(s, bytes);

    mem = mem ?: buffer_new(s, bytes, may_sleep);
    if (!mem)
        kstat_add(s, KSTAT_NO_BUFFER, 1);
    return mem;
}

void kbuffer_give(struct kserve *s, void *mem, size_t bytes)
{
    if (!freelist_put(s, mem, bytes))
        buffer_free(s, mem, bytes);
}

static int reserve(struct kserve *s, struct kfreelist *list)
{
    while (list->count < KFREELIST_RESERVE) {
        void *mem = buffer_new(s, list->bytes, true);

        if (!mem)
            return -ENOMEM;
        *(void **)mem = list->first;
        list->first = mem;
        list->count++;
    }
    return 0;
}

/* Called before anything is served.  A processor that comes online later gets its stock from
 * buffers that are given back there; until then its bottom half hands connections over. */
int kbufpool_reserve(struct kserve *s)
{
    int cpu, err = 0;

    cpus_read_lock();
    for_each_online_cpu(cpu) {
        struct kpercpu *there = per_cpu_ptr(s->percpu, cpu);

        err = err ?: reserve(s, freelist_of(there, sizeof(struct outq)));
        err = err ?: reserve(s, freelist_of(there, sizeof(struct inq)));
    }
    cpus_read_unlock();
    return err;
}

/* A pump takes one input queue and one send queue at most.  In the bottom half neither can be
 * waited for, and without them the connection would be lost. */
bool kbufpool_reserved(struct kserve *s)
{
    struct kpercpu *here = this_cpu_ptr(s->percpu);
    struct kfreelist *outq = freelist_of(here, sizeof(struct outq));
    struct kfreelist *inq = freelist_of(here, sizeof(struct inq));

    return outq && inq && outq->count && inq->count;
}

void kbufpool_empty(struct kserve *s)
{
    unsigned i;
    int cpu;

    for_each_possible_cpu(cpu) {
        for (i = 0; i < KFREELISTS; i++) {
            struct kfreelist *list = &per_cpu_ptr(s->percpu, cpu)->list[i];

            while (list->first) {
                void *mem = list->first;

                list->first = *(void **)mem;
                buffer_free(s, mem, list->bytes);
            }
        }
    }
    WARN_ON_ONCE(atomic_long_read(&s->buffer_bytes)); /* no other tool counts pages */
}
