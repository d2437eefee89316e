/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* skip.h - the end of a run of bytes of one class, eight bytes in a step.
 *
 * A step marks what cannot be in the run: the high bit of each such byte.  Subtraction borrows
 * from the next byte, so only the lowest mark is certain; nothing of the run's end comes before
 * it.  It may mark what is in the run after all (HTAB in a value, a digit in a name): there the
 * table has the last say, byte by byte.  Nothing at or behind end is looked at.
 */
#ifndef CORE_SKIP_H
#define CORE_SKIP_H
#include "byte.h"

static inline uint64_t skip_load(const char *p)
{
    uint64_t x;

    memcpy(&x, p, sizeof(x));
    return x;
}

/* Marks of the bytes below n, n <= 0x80; of those equal to c. */
static inline uint64_t skip_below(uint64_t x, unsigned n)
{
    const uint64_t ones = ~0ull / 255;

    return (x - ones * n) & ~x & ones * 0x80;
}

static inline uint64_t skip_equal(uint64_t x, unsigned c)
{
    return skip_below(x ^ (~0ull / 255 * c), 1);
}

/* All but letters and '-', of which names are made: no borrowing here, each mark is true. */
static inline uint64_t skip_not_name(uint64_t x)
{
    const uint64_t ones = ~0ull / 255, high = ones * 0x80;
    uint64_t small = (x | ones * 0x20) & ~high;
    uint64_t letter = (small + ones * (0x80 - 'a')) & ~(small + ones * (0x7f - 'z'));
    uint64_t dash = ~(((x ^ ones * '-') & ~high) + ones * 0x7f);

    return (~(letter | dash) | x) & high;
}

static inline uint64_t skip_odd(uint64_t x, unsigned class)
{
    if (class == BYTE_TOKEN)
        return skip_not_name(x);
    if (class == BYTE_VALUE)
        return skip_below(x, 0x20) | skip_equal(x, 0x7f);
    return skip_below(x, 0x21) | skip_equal(x, '#') | skip_equal(x, 0x7f) |
           (x & (~0ull / 255 * 0x80)); /* BYTE_TARGET */
}

/* The first byte from p on that is not of the class, which is one of three: BYTE_TOKEN,
 * BYTE_TARGET, BYTE_VALUE; or end. */
static inline const char *skip_run(const char *p, const char *end, unsigned class)
{
    uint64_t odd;

    for (; end - p >= 8; p += 8) {
        odd = skip_odd(skip_load(p), class);
        if (odd != 0) {
            if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
                p += __builtin_ctzll(odd) / 8;
            break;
        }
    }
    while (p < end && byte_is(*p, class))
        p++;
    return p;
}

#endif
