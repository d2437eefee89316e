/* SPDX-License-Identifier: MIT */
/* site_absent.c - the files that had no compressed sibling a moment ago.
 *
 * Most files have none, and to find that out at every request costs more than to open the file.  So
 * where no answers are kept (cache.h), it is remembered for SITE_ABSENT_MS: a sibling that comes
 * meanwhile counts a second later at most, and until then the file itself is sent.  Nothing else is
 * remembered: what is there, the file and any sibling, is looked at for each request.
 *
 * One word for a path: 32 bits of its hash and the time; ten other bits say where it is.  Words are
 * read and written whole, so threads need no lock, and a path that comes to the same place just
 * takes it; a process that was forked has words of its own.  Two paths that agree in all 42 bits
 * are taken for each other, and one goes without its siblings for that second.  Nobody can choose
 * such a pair: see hash.h.
 */
#include "hash.h"
#include "site_inside.h"

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> 29);
}

int absent_init(struct absent *absent)
{
    return hash_key(&absent->key);
}

bool absent_lately(const struct absent *absent, const char *path, size_t len, uint32_t now_ms)
{
    uint64_t hash = hash_of(absent->key, path, len), word;

    word = atomic_load_explicit(&absent->words[hash % ABSENT_PLACES], memory_order_relaxed);
    return word >> 32 == tag_of(hash) && now_ms - (uint32_t)word < SITE_ABSENT_MS;
}

void absent_note(struct absent *absent, const char *path, size_t len, uint32_t since_ms)
{
    uint64_t hash = hash_of(absent->key, path, len);

    atomic_store_explicit(&absent->words[hash % ABSENT_PLACES],
                          (uint64_t)tag_of(hash) << 32 | since_ms, memory_order_relaxed);
}
