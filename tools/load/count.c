/* SPDX-License-Identifier: MIT */
/* count.c - what a thread counts of its answers and faults. */
#include <stdlib.h>
#include "workload.h"

void count_second(struct worker *w)
{
    struct tally *t = &w->tally;
    uint32_t cells = hist_cells(SERIES_BITS, HIST_MAX_NS);

    while (w->now_ns >= w->second_end_ns) {
        struct second *more = realloc(t->second, (t->seconds + 1) * sizeof(*more));
        uint64_t *cell = malloc(cells * sizeof(*cell));

        if (more)
            t->second = more;
        if (!more || !cell) { /* the rest counts into the last second there is */
            free(cell);
            w->second_end_ns = UINT64_MAX;
            return;
        }
        w->second = &more[t->seconds++];
        memset(w->second, 0, sizeof(*w->second));
        hist_init(&w->second->latency, SERIES_BITS, cell, cells);
        w->second_end_ns += SECOND_NS;
    }
}

void count_fault(struct worker *w, enum fault what, uint64_t times)
{
    w->tally.fault[what] += times;
    atomic_fetch_add_explicit(&w->faults_seen, times, memory_order_relaxed);
    if (w->second)
        w->second->faults += times;
}

void count_end(struct worker *w, const struct client *c, const struct shot *s,
               struct outcome outcome)
{
    if (s->shown)
        show_end(w, s, &outcome);
    if (w->tally.sample)
        samples_note(w, c, s, outcome);
}

static enum fault note_fault(struct worker *w, const struct shot *s, const struct answer *a)
{
    const struct target *target = &w->plan->target[s->target];
    enum fault what = files_blame(w->plan, target, s->kind, a->fault);
    struct tally *t = &w->tally;

    if (!t->fault[what]) {
        t->example[what].target = s->target;
        t->example[what].kind = s->kind;
        t->example[what].at = a->wrong_at;
    }
    count_fault(w, what, 1);
    return what;
}

void count_lost(struct worker *w, const struct client *c, const struct shot *s,
                const struct answer *a)
{
    struct outcome outcome = {.fault = (uint8_t)note_fault(w, s, a)};

    w->tally.lost++;
    count_end(w, c, s, outcome);
}

void count_answer(struct worker *w, const struct client *c, const struct shot *s,
                  const struct answer *a)
{
    struct outcome outcome = {.status = a->status};
    struct tally *t = &w->tally;
    uint64_t latency = w->now_ns - s->sent_ns;

    t->answers++;
    t->status[a->status]++; /* of three digits */
    hist_add(&t->service, latency, 1);
    if (w->plan->open) {
        latency = w->now_ns - s->intended_ns;
        hist_add(&t->latency, latency, 1);
    }
    if (w->second) {
        if (w->now_ns >= w->second_end_ns)
            count_second(w);
        w->second->answers++;
        hist_add(&w->second->latency, latency, 1);
    }
    if (w->learnt)
        mix_count(w, a, s);
    if (a->fault)
        outcome.fault = (uint8_t)note_fault(w, s, a);
    count_end(w, c, s, outcome);
}
