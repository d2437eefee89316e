/* SPDX-License-Identifier: MIT */
/* stats.c - counters in memory that all processes of the server share: one slot for each worker,
 * and one for the supervisor.  Each has the same cells, and behind them those of hosts.
 *
 * A slot has two parts on cache lines of their own.  A worker whose one thread runs a loop counts
 * in the first, alone.  All other threads of a process share the second part of its slot, by atomic
 * additions.  Any process may sum them up.  Every accepted connection is open, closed or lost: when
 * a process dies, the supervisor counts the connections that it had open as LOST.  A sum taken
 * while others count may be a few events behind; it never loses one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include "inside.h"

enum { CACHE_LINE = 64, LINE_CELLS = CACHE_LINE / sizeof(uint64_t) };

struct stats {
    unsigned slots, hosts;
    size_t bytes, stride; /* of all; cells from one part to the next */
    _Alignas(CACHE_LINE) _Atomic uint64_t cell[]; /* two parts for each slot */
};

/* A slot's two parts: of the one thread that owns it, and of all others. */
static _Atomic uint64_t *own_of(struct stats *s, unsigned slot)
{
    return s->cell + 2 * slot * s->stride;
}

static _Atomic uint64_t *shared_of(struct stats *s, unsigned slot)
{
    return s->cell + (2 * slot + 1) * s->stride;
}

static unsigned mine; /* this process's slot: set once, before its threads start */
_Thread_local _Atomic uint64_t *stats_own;

static const char *const names[] = {
#define X(name, help) #name,
#include "stats.def"
#undef X
};

static const char *const helps[] = {
#define X(name, help) help,
#include "stats.def"
#undef X
};

const char *stats_help(enum stat_id stat)
{
    return helps[stat];
}

int stats_open_hosts(struct stats **stats, unsigned slots, unsigned hosts)
{
    size_t lines = (STAT_CELLS + hosts * STAT_HOST_CELLS + LINE_CELLS - 1) / LINE_CELLS;
    size_t bytes = sizeof(struct stats) + 2 * slots * lines * CACHE_LINE;
    void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (mem == MAP_FAILED)
        return -errno;
    *stats = mem; /* zeroed */
    (*stats)->slots = slots;
    (*stats)->hosts = hosts;
    (*stats)->bytes = bytes;
    (*stats)->stride = lines * LINE_CELLS;
    return 0;
}

int stats_open(struct stats **stats, unsigned slots)
{
    return stats_open_hosts(stats, slots, 0);
}

unsigned stats_hosts(const struct stats *stats)
{
    return stats->hosts;
}

void stats_close(struct stats *stats)
{
    munmap(stats, stats->bytes);
}

void stats_use(struct stats *stats, unsigned slot)
{
    core_assert(slot < stats->slots);
    mine = slot;
}

void stats_own_begin(struct stats *stats, unsigned slot)
{
    core_assert(slot < stats->slots);
    stats_own = own_of(stats, slot);
}

void stats_own_end(void)
{
    stats_own = NULL;
}

void stats_add_shared(struct stats *stats, enum stat_id stat, uint64_t n)
{
    atomic_fetch_add_explicit(&shared_of(stats, mine)[stat], n, memory_order_relaxed);
}

void stats_most(struct stats *stats, enum stat_id stat, uint64_t n)
{
    _Atomic uint64_t *most = &shared_of(stats, mine)[stat];
    uint64_t old = atomic_load_explicit(most, memory_order_relaxed);

    while (old < n && !atomic_compare_exchange_weak_explicit(most, &old, n, memory_order_relaxed,
                                                             memory_order_relaxed))
        ;
}

static uint64_t slot_count(const struct stats *stats, unsigned slot, enum stat_id stat)
{
    const _Atomic uint64_t *part = stats->cell + 2 * slot * stats->stride;
    uint64_t own = atomic_load_explicit(&part[stat], memory_order_relaxed);
    uint64_t shared = atomic_load_explicit(&part[stats->stride + stat], memory_order_relaxed);

    if (stat == STAT_STACK_MOST)
        return own > shared ? own : shared;
    return own + shared;
}

void stats_lose(struct stats *stats, unsigned slot)
{
    uint64_t ended = slot_count(stats, slot, STAT_CLOSED) + slot_count(stats, slot, STAT_LOST);
    _Atomic uint64_t *shared = shared_of(stats, slot);

    atomic_fetch_add_explicit(&shared[STAT_LOST],
                              slot_count(stats, slot, STAT_ACCEPTED) - ended, memory_order_relaxed);
    for (unsigned i = STAT_CACHE_ENTRIES; i <= STAT_CACHE_BYTES; i++) /* its cache is gone, too */
        atomic_fetch_sub_explicit(&shared[i],
                                  slot_count(stats, slot, (enum stat_id)i), memory_order_relaxed);
}

uint64_t stats_sum(const struct stats *stats, enum stat_id stat)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < stats->slots; i++) {
        uint64_t count = slot_count(stats, i, stat);

        if (stat != STAT_STACK_MOST)
            sum += count;
        else if (count > sum)
            sum = count;
    }
    return sum;
}

uint64_t stats_live(const struct stats *stats)
{
    /* Ended connections are read first: one that ends in between counts as open, never as minus
     * one. */
    uint64_t ended = stats_sum(stats, STAT_CLOSED) + stats_sum(stats, STAT_LOST);
    uint64_t begun = stats_sum(stats, STAT_ACCEPTED);

    return begun > ended ? begun - ended : 0;
}

void stats_json(const struct stats *stats, char *buf, size_t cap)
{
    int n = snprintf(buf, cap, "{\"open\":%" PRIu64, stats_live(stats));

    for (unsigned i = 0; i < STATS && n >= 0 && (size_t)n < cap; i++) {
        char name[32];
        size_t len = strlen(names[i]);

        for (size_t k = 0; k <= len; k++) { /* capitals and '_' are all there is in stats.def */
            bool capital = names[i][k] >= 'A' && names[i][k] <= 'Z';

            name[k] = (char)(names[i][k] + (capital ? 'a' - 'A' : 0));
        }
        n += snprintf(buf + n, cap - (size_t)n, ",\"%s\":%" PRIu64, name,
                      stats_sum(stats, (enum stat_id)i));
    }
    if (n >= 0 && (size_t)n < cap)
        snprintf(buf + n, cap - (size_t)n, "}");
}
