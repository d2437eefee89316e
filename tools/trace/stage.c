/* SPDX-License-Identifier: MIT */
/* stage.c - moments become times that add up. */
#include <string.h>
#include "stage.h"

void stages_of(const struct request *r, struct stages *s)
{
    uint64_t first = 0, last = 0;

    memset(s, 0, sizeof(*s));
    for (unsigned i = 0; i < STAGES; i++) {
        if (!r->at[i] || r->at[i] < last) {
            s->state[i] = STAGE_MISSING;
            continue;
        }
        s->state[i] = STAGE_KNOWN;
        s->took_ns[i] = last ? r->at[i] - last : 0;
        first = first ? first : r->at[i];
        last = r->at[i];
    }
    for (unsigned i = STAGE_WOKEN; i <= STAGE_RUNNING; i++)
        if (r->busy && s->state[i] == STAGE_MISSING)
            s->state[i] = STAGE_BUSY;
    s->total_ns = last - first;
    s->server_known = s->state[STAGE_HEAD] == STAGE_KNOWN && s->state[STAGE_DONE] == STAGE_KNOWN;
    if (s->server_known)
        s->server_ns = r->at[STAGE_DONE] - r->at[STAGE_HEAD];
}

int stages_slowest(const struct stages *s)
{
    uint64_t most = 0;
    int slowest = -1;

    for (int i = STAGES_TIMED_FROM; i <= STAGE_DONE; i++) {
        if (s->took_ns[i] <= most)
            continue;
        most = s->took_ns[i];
        slowest = i;
    }
    return slowest;
}

const char *stage_name(enum stage stage)
{
    static const char *const name[] = {
#define STAGE(id, name_, meaning) name_,
#include "stage.def"
#undef STAGE
    };

    return name[stage];
}

const char *stage_meaning(enum stage stage)
{
    static const char *const meaning[] = {
#define STAGE(id, name, meaning_) meaning_,
#include "stage.def"
#undef STAGE
    };

    return meaning[stage];
}
