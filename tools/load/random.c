/* SPDX-License-Identifier: MIT */
/* random.c - random numbers of a thread: xorshift, from a seed that no other thread has.
 *
 * Seeds that are alike give xorshift streams that begin alike, so the thread's number and --seed
 * go through the mixer of splitmix64 first (Steele, Lea, Flood 2014).
 */
#include "worker.h"

void worker_random_init(struct worker *w, uint64_t seed)
{
    uint64_t z = seed + (w->index + 1) * 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    w->random = z ? z : 1; /* from 0 it would only make 0 */
}

uint64_t worker_random(struct worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random >> 8;
}

double worker_uniform(struct worker *w)
{
    return ((double)(worker_random(w) >> 3) + 0.5) / (double)(1ull << 53);
}
