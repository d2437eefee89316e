/* SPDX-License-Identifier: MIT */
/* site_negative.c - the files that had no compressed sibling a moment ago.
 *
 * Most files have none, and finding that out at every request costs more than opening the file.  So
 * where no answers are kept (cache.h), a file without siblings is remembered for SITE_NEGATIVE_MS:
 * a sibling that appears in that time is found a second later at most, and until then the file
 * itself is sent.  Nothing else is remembered: a file that exists, and any sibling of it, is looked
 * at for each request.
 *
 * A path has one word: 32 bits of its hash, and the time; ten other bits of the hash say where the
 * word is.  Words are read and written whole, so threads need no lock.  A path that falls on the
 * same place takes it over; a process that was forked has words of its own.  Two paths that agree
 * in all 42 bits are taken for each other, and for that second one is sent without looking for its
 * siblings.  No client can choose such a pair: see hash.h.
 */
#include "hash.h"
#include "site_inside.h"

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> 29);
}

int negative_init(struct negative *n)
{
    return hash_key(&n->key);
}

bool negative_has(const struct negative *n, const char *path, size_t len, uint32_t now_ms)
{
    uint64_t hash = hash_of(n->key, path, len), word;

    word = atomic_load_explicit(&n->words[hash % NEGATIVE_PLACES], memory_order_relaxed);
    return word >> 32 == tag_of(hash) && now_ms - (uint32_t)word < SITE_NEGATIVE_MS;
}

void negative_add(struct negative *n, const char *path, size_t len, uint32_t since_ms)
{
    uint64_t hash = hash_of(n->key, path, len);

    atomic_store_explicit(&n->words[hash % NEGATIVE_PLACES],
                          (uint64_t)tag_of(hash) << 32 | since_ms, memory_order_relaxed);
}
