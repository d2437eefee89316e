/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* hist.h - a histogram of whole numbers whose cells grow with the value (log-linear).
 *
 * Values below 2^bits have a cell each; above, every power of two is cut into 2^(bits-1) cells, so
 * a value is known to one part in 2^(bits-1) however large it is.  bits 11 is what HdrHistogram
 * calls three significant digits, with the same edges.  Recording costs a few instructions and one
 * memory access.
 *
 * The cells are the caller's memory, hist_cells() of them, and zero at first.  Values beyond the
 * range are not lost: they count in the last cell and in `over`, and max is exact.  No locks: each
 * writer has a histogram of its own, then hist_merge().
 */
#ifndef CORE_HIST_H
#define CORE_HIST_H
#include "env.h"

enum {
    HIST_BITS_MIN = 2,
    HIST_BITS_MAX = 16 /* one part in 32768; 64 bits of range then take 13 MiB */
};

struct hist {
    uint64_t *cell;
    uint32_t cells;
    uint8_t bits;
    bool full;         /* a count or the sum has reached 2^64 - 1 and stays there */
    uint64_t total;    /* values recorded */
    uint64_t over;     /* of them, beyond the range */
    uint64_t sum;      /* of all values: sum / total is the mean, exactly */
    uint64_t min, max; /* min > max: nothing is recorded */
};

/* The values recorded between two edges. */
struct hist_cell {
    uint64_t low, high; /* the least and the greatest value that count here */
    uint64_t count;
};

/* Cells that values 0..max need; bits from HIST_BITS_MIN to HIST_BITS_MAX. */
uint32_t hist_cells(unsigned bits, uint64_t max);

/* The cells are set to zero. */
void hist_init(struct hist *h, unsigned bits, uint64_t *cell, uint32_t cells);

void hist_add(struct hist *h, uint64_t value, uint64_t times);

/* Add what `from` holds.  -EINVAL: their cells differ. */
int hist_merge(struct hist *to, const struct hist *from);

/* The least value v such that num/den of the recorded values are not greater than v: as the upper
 * edge of its cell, but at most max; 0 if nothing is recorded.  den is below 2^32, num not above
 * den. */
uint64_t hist_quantile(const struct hist *h, uint64_t num, uint64_t den);

/* Cells with something in them, in order; *at is 0 at first.  False: no more. */
bool hist_next(const struct hist *h, uint32_t *at, struct hist_cell *found);

#endif
