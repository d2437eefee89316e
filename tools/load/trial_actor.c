/* SPDX-License-Identifier: MIT */
/* trial_actor.c - what an actor, hostile or ordinary, notes of its acts, and how long it acts. */
#include <stdio.h>
#include "trial.h"

enum { ACTS_MAX = 1000 /* of one hostile client: ports are finite */ };

uint64_t actor_random(struct actor *a, uint64_t below)
{
    a->random ^= a->random << 13;
    a->random ^= a->random >> 7;
    a->random ^= a->random << 17;
    return (a->random >> 11) % below;
}

bool acting(const struct actor *a)
{
    if (a->stop)
        return !atomic_load(a->stop);
    return clock_ns() < a->end_ns && a->acts.done < ACTS_MAX;
}

void actor_answered(struct actor *a)
{
    a->acts.done++;
    a->acts.answered++;
}

void actor_closed(struct actor *a, uint64_t since_ns)
{
    uint64_t kept = clock_ns() - since_ns;

    a->acts.done++;
    a->acts.closed++;
    if (a->acts.close_ns < kept)
        a->acts.close_ns = kept;
}

void actor_wrong(struct actor *a, const char *doing, int err)
{
    a->acts.done++;
    if (a->acts.wrong++)
        return;
    snprintf(a->acts.why, sizeof(a->acts.why), err ? "%s: %s" : "%s", doing,
             talk_words(&a->talk, err));
}
