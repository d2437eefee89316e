/* SPDX-License-Identifier: MIT */
/* digest.h - sixty-four bits of a body, however it is cut into pieces: for bodies that are compared
 * but not kept.
 *
 * Every step is a bijection of the state, so two bodies of the same length that differ in one word
 * never have the same digest.  It is no defence against intent.  Eight bytes a step: a rotation, an
 * exclusive or, a multiplication.  The functions are inline, because each answer asks whether there
 * is a digest.
 */
#ifndef LOAD_DIGEST_H
#define LOAD_DIGEST_H
#include <stdint.h>
#include <string.h>

struct digest {
    uint64_t state, word; /* word: bytes that do not fill eight yet */
    unsigned have;
};

static inline void digest_word(struct digest *d, uint64_t word)
{
    d->state = (d->state << 5 | d->state >> 59) ^ word;
    d->state *= 0x9e3779b97f4a7c15ull;
}

static inline void digest_add(struct digest *d, const char *p, size_t n)
{
    uint64_t word;

    while (n && d->have) {
        d->word |= (uint64_t)(unsigned char)*p++ << 8 * d->have;
        d->have = (d->have + 1) % 8;
        n--;
        if (!d->have) {
            digest_word(d, d->word);
            d->word = 0;
        }
    }
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
            word = __builtin_bswap64(word);
        digest_word(d, word);
    }
    for (; n; n--)
        d->word |= (uint64_t)(unsigned char)*p++ << 8 * d->have++;
}

static inline uint64_t digest_end(struct digest *d)
{
    digest_word(d, d->word);
    return d->state;
}

#endif
