/* SPDX-License-Identifier: MIT */
/* hash.h - a hash of names whose collisions nobody outside can choose.
 *
 * A polynomial modulo 2^61 - 1, taken at a random place (Carter, Wegman: Universal Classes of Hash
 * Functions, 1979).  Two different names of n bytes collide with a probability below n / 2^61,
 * whoever chose them, because the place is not known.
 */
#ifndef SERVER_HASH_H
#define SERVER_HASH_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#define HASH_PRIME ((UINT64_C(1) << 61) - 1)

__extension__ typedef unsigned __int128 hash_wide;

static inline uint64_t hash_times(uint64_t a, uint64_t b)
{
    hash_wide product = (hash_wide)a * b;
    uint64_t sum = (uint64_t)(product & HASH_PRIME) + (uint64_t)(product >> 61);

    return sum >= HASH_PRIME ? sum - HASH_PRIME : sum;
}

/* A random place: 0, or -1 and errno. */
static inline int hash_key(uint64_t *key)
{
    if (getrandom(key, sizeof(*key), 0) != sizeof(*key))
        return -1;
    *key %= HASH_PRIME;
    return 0;
}

/* Below 2^61 - 1. */
static inline uint64_t hash_of(uint64_t key, const char *name, size_t len)
{
    uint64_t hash = len;
    uint32_t word;

    for (; len > sizeof(word); len -= sizeof(word), name += sizeof(word)) {
        memcpy(&word, name, sizeof(word));
        hash = hash_times(hash, key) + word;
    }
    word = 0;
    memcpy(&word, name, len);
    return hash_times(hash_times(hash, key) + word, key);
}

#endif
