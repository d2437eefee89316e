/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* skip.h - the end of a run of bytes of one class, eight bytes in a step.
 *
 * A step marks bytes by their high bit: all that cannot be in the run, and some that can (HTAB in a
 * value, a digit in a name, what a borrow or a carry runs into).  So all bytes before the lowest
 * mark are in the run, and from there the table decides, byte by byte.  Nothing at or behind end is
 * looked at.
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

/* x - ones * n reaches a high bit where a byte is less than n, x + ones where it is 0x7f; where it
 * is 0x80 or more, both may, or may not. */
static inline uint64_t skip_marks(uint64_t x, unsigned class)
{
    const uint64_t ones = ~0ull / 255, high = ones * 0x80;
    uint64_t small = (x | ones * 0x20) & ~high;

    if (class == BYTE_VALUE)
        return ((x - ones * 0x20) | (x + ones)) & ~x & high;
    if (class == BYTE_TARGET)
        return ((x - ones * 0x21) | (x + ones) | ((x ^ ones * '#') - ones) | x) & high;
    /* BYTE_TOKEN: letters and '-', of which names are made. */
    return (((~(small + ones * (0x80 - 'a')) | (small + ones * (0x7f - 'z'))) &
             ((x ^ ones * '-') + ones * 0x7f)) | x) & high;
}

/* The first byte from p on that is not of the class, which is one of three: BYTE_TOKEN,
 * BYTE_TARGET, BYTE_VALUE; or end. */
static inline const char *skip_run(const char *p, const char *end, unsigned class)
{
    uint64_t marks;

    for (; end - p >= 8; p += 8) {
        marks = skip_marks(skip_load(p), class);
        if (marks != 0) {
            if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
                p += __builtin_ctzll(marks) / 8;
            break;
        }
    }
    while (p < end && byte_is(*p, class))
        p++;
    return p;
}

#endif
