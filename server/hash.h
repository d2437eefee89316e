/* SPDX-License-Identifier: MIT */
/* hash.h - a hash of names whose collisions no client can choose.
 *
 * A polynomial modulo 2^61 - 1, taken at a random place (Carter, Wegman: Universal Classes of Hash
 * Functions, 1979).  Two different names of n bytes collide with a probability below n / 2^61,
 * even if a client chose them, because it does not know the place.
 *
 * The differences of such hashes are as regular as those of the names: at one place in some
 * thousands all pairs like a10 and a20, a11 and a21 would agree in their low bits.  So the bits are
 * mixed where a table is indexed with them, which changes nothing for two whole hashes.
 */
#ifndef SERVER_HASH_H
#define SERVER_HASH_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#define HASH_PRIME ((UINT64_C(1) << 61) - 1)
#define HASH_MIX UINT64_C(0x9e3779b97f4a7c15) /* odd, its bits in no order: the golden ratio's */
#define HASH_MIX_32 UINT32_C(0x9e3779b9)

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

/* Below 2^61 - 1, and the same for ever (compress_hash()). */
static inline uint64_t hash_polynomial(uint64_t key, const char *name, size_t len)
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

/* For tables: 64 bits that are all equally good.  Each step can be undone, so different numbers
 * stay different. */
static inline uint64_t hash_of(uint64_t key, const char *name, size_t len)
{
    uint64_t hash = hash_polynomial(key, name, len);

    hash = (hash ^ hash >> 32) * HASH_MIX;
    return hash ^ hash >> 29;
}

#endif
