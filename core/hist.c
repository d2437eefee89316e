/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* hist.c - cells of a log-linear histogram: where a value belongs, and what a cell stands for.
 *
 *     bits 3:  0 1 2 3 4 5 6 7 | 8 10 12 14 | 16 20 24 28 | 32 ...      lower edges
 *     index    0 1 2 3 4 5 6 7 | 8  9 10 11 | 12 13 14 15 | 16
 *
 * A value is shifted down until it has `bits` bits; each shift by one begins the next 2^(bits-1)
 * cells.  Only queries divide, and nothing uses floating point, which the kernel does not have.
 */
#include "hist.h"

/* How far a value is shifted. */
static unsigned shift_of(unsigned bits, uint64_t value)
{
    return value >> bits == 0 ? 0 : 64 - (unsigned)__builtin_clzll(value) - bits;
}

static uint32_t index_of(unsigned bits, uint64_t value)
{
    unsigned shift = shift_of(bits, value);

    return (shift << (bits - 1)) + (uint32_t)(value >> shift);
}

static uint64_t low_of(unsigned bits, uint32_t index)
{
    uint32_t half = (uint32_t)1 << (bits - 1);
    unsigned shift = index < 2 * half ? 0 : index / half - 1;

    return (uint64_t)(index - shift * half) << shift;
}

/* A cell's upper edge, one below the start of the next cell.  For the last cell of 64 bits that
 * start wraps round to 0, which gives the right edge. */
static uint64_t high_of(unsigned bits, uint32_t index)
{
    return low_of(bits, index + 1) - 1;
}

uint32_t hist_cells(unsigned bits, uint64_t max)
{
    core_assert(bits >= HIST_BITS_MIN && bits <= HIST_BITS_MAX);
    return index_of(bits, max) + 1;
}

void hist_init(struct hist *h, unsigned bits, uint64_t *cell, uint32_t cells)
{
    core_assert(bits >= HIST_BITS_MIN && bits <= HIST_BITS_MAX && cells > 0);
    memset(h, 0, sizeof(*h));
    memset(cell, 0, cells * sizeof(*cell));
    h->cell = cell;
    h->cells = cells;
    h->bits = (uint8_t)bits;
    h->min = UINT64_MAX;
}

/* A counter that would overflow stays at its end, and the histogram says so. */
static void count_up(struct hist *h, uint64_t *counter, uint64_t by)
{
    if (__builtin_add_overflow(*counter, by, counter)) {
        *counter = UINT64_MAX;
        h->full = true;
    }
}

void hist_add(struct hist *h, uint64_t value, uint64_t times)
{
    uint32_t index = index_of(h->bits, value);
    uint64_t sum;

    if (times == 0)
        return;
    if (index >= h->cells) {
        index = h->cells - 1;
        count_up(h, &h->over, times);
    }
    count_up(h, &h->cell[index], times);
    count_up(h, &h->total, times);
    if (__builtin_mul_overflow(value, times, &sum)) {
        h->sum = UINT64_MAX;
        h->full = true;
    }
    count_up(h, &h->sum, h->sum == UINT64_MAX ? 0 : sum);
    if (value < h->min)
        h->min = value;
    if (value > h->max)
        h->max = value;
}

int hist_merge(struct hist *to, const struct hist *from)
{
    uint32_t i;

    if (to->bits != from->bits || to->cells != from->cells)
        return -EINVAL;
    for (i = 0; i < to->cells; i++)
        count_up(to, &to->cell[i], from->cell[i]);
    count_up(to, &to->total, from->total);
    count_up(to, &to->over, from->over);
    count_up(to, &to->sum, from->sum);
    to->full = to->full || from->full;
    if (from->min < to->min)
        to->min = from->min;
    if (from->max > to->max)
        to->max = from->max;
    return 0;
}

/* The value that stands for a cell: its upper edge; or max, if nothing that large was recorded or
 * the last cell holds values beyond the range. */
static uint64_t shown(const struct hist *h, uint32_t index)
{
    uint64_t high = high_of(h->bits, index);

    return high > h->max || (h->over > 0 && index == h->cells - 1) ? h->max : high;
}

uint64_t hist_quantile(const struct hist *h, uint64_t num, uint64_t den)
{
    uint64_t rank, seen = 0;
    uint32_t i;

    core_assert(den > 0 && den <= UINT32_MAX && num <= den);
    if (h->total == 0)
        return 0;
    /* total * num / den, rounded up, in 64 bits. */
    rank = h->total / den * num + (h->total % den * num + den - 1) / den;
    if (rank == 0)
        rank = 1;
    for (i = 0; i < h->cells; i++) {
        if (h->cell[i] >= rank - seen)
            return shown(h, i);
        seen += h->cell[i];
    }
    return h->max; /* only for a full histogram, whose counts no longer add up */
}

bool hist_next(const struct hist *h, uint32_t *at, struct hist_cell *found)
{
    while (*at < h->cells && h->cell[*at] == 0)
        (*at)++;
    if (*at == h->cells)
        return false;
    found->low = low_of(h->bits, *at);
    found->high = shown(h, *at);
    found->count = h->cell[*at];
    (*at)++;
    return true;
}
