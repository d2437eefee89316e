/* SPDX-License-Identifier: MIT */
/* cache_listed.c - records of listings: whether keeping one pays, and which are kept.
 *
 * The watches of a thousand children cost more than making their listing does, and so does their
 * removal.  A listing is kept when it is asked for again; one that ended before it was given out
 * PAYS times is not kept again before it was asked for 32 times, the next time 64 times, and so on.
 */
#include "cache_inside.h"
#include "hash.h"

enum {
    PAYS = 16,
    AGAIN_MIN = 32,
    FAILS_MAX = 10,
    FAILS_SHIFT = 24, TAG_SHIFT = 32, /* in a word of listed_before: tag, fails, left */
};

static uint64_t word_of(uint64_t hash, unsigned fails, uint64_t left)
{
    return ((hash >> TAG_SHIFT) | 1) << TAG_SHIFT | (uint64_t)fails << FAILS_SHIFT | left;
}

static bool is_word_of(uint64_t word, uint64_t hash)
{
    return word >> TAG_SHIFT == word_of(hash, 0, 0) >> TAG_SHIFT;
}

/* Where the key's word is, or will be: in any place of a set, like the doorkeeper's marks
 * (cache_fill.c).  If all places are taken, the words in them and now_ms determine which is lost;
 * now_ms may be 0. */
static _Atomic uint64_t *before_at(struct cache *c, uint64_t hash, uint64_t now_ms)
{
    _Atomic uint64_t *set = c->listed_before[hash % CACHE_LISTED], *free_one = NULL;
    uint64_t word, all = now_ms;

    for (unsigned i = 0; i < CACHE_LISTED_WAYS; i++) {
        word = atomic_load_explicit(&set[i], memory_order_relaxed);
        if (is_word_of(word, hash))
            return &set[i];
        if (!word)
            free_one = &set[i];
        all = (all ^ word) * HASH_MIX;
    }
    return free_one ? free_one : &set[(all >> 32) % CACHE_LISTED_WAYS];
}

/* How often keeping failed; the word may be another key's by now. */
static unsigned fails_of(uint64_t word, uint64_t hash)
{
    return is_word_of(word, hash) ? (unsigned)(word >> FAILS_SHIFT) & UINT8_MAX : 0;
}

bool cache_listing_pays(struct cache *c, uint64_t hash, uint64_t now_ms)
{
    _Atomic uint64_t *at = before_at(c, hash, now_ms);
    uint64_t word = atomic_load_explicit(at, memory_order_relaxed);
    unsigned fails = fails_of(word, hash);
    uint64_t left = word & ((1u << FAILS_SHIFT) - 1);

    if (!is_word_of(word, hash)) {
        atomic_store_explicit(at, word_of(hash, 0, 0), memory_order_relaxed);
        return false;
    }
    if (left)
        (void)atomic_compare_exchange_strong(at, &word, word_of(hash, fails, left - 1));
    return !left && atomic_compare_exchange_strong(at, &word, word_of(hash, fails, AGAIN_MIN));
}

void cache_listing_failed(struct cache *c, uint64_t hash, unsigned least)
{
    _Atomic uint64_t *at = before_at(c, hash, 0);
    unsigned fails = fails_of(atomic_load_explicit(at, memory_order_relaxed), hash) + 1;

    fails = fails < least ? least : fails < FAILS_MAX ? fails : FAILS_MAX;
    atomic_store_explicit(at, word_of(hash, fails, (uint64_t)AGAIN_MIN << (fails - 1)),
                          memory_order_relaxed);
}

void cache_listing_added(struct cache *c, struct cache_entry *e)
{
    e->listing = c->listings;
    c->listings = e;
    c->listing_bytes += e->bytes;
    c->listing_watches += e->watches;
    atomic_fetch_add_explicit(&c->listed, 1, memory_order_relaxed);
}

void cache_listing_ended(struct cache *c, struct cache_entry *e)
{
    struct cache_entry **at = &c->listings;

    while (*at != e)
        at = &(*at)->listing;
    *at = e->listing;
    c->listing_bytes -= e->bytes;
    c->listing_watches -= e->watches;
    atomic_fetch_sub_explicit(&c->listed, 1, memory_order_relaxed);
    if (atomic_load_explicit(&e->hits, memory_order_relaxed) < PAYS)
        cache_listing_failed(c, e->hash, 1);
    else
        atomic_store_explicit(before_at(c, e->hash, 0), word_of(e->hash, 0, 0),
                              memory_order_relaxed);
}
