/* SPDX-License-Identifier: MIT */
/* tally.c - a histogram for each stage, and the slowest requests. */
#include <errno.h>
#include <stdlib.h>
#include "trace.h"

enum { BITS = 9 /* one part in 256 */ };
#define MOST_NS 600000000000ull /* ten minutes */

static int init_hist(struct hist *h)
{
    uint32_t cells = hist_cells(BITS, MOST_NS);
    uint64_t *cell = malloc(cells * sizeof(*cell));

    if (!cell)
        return -ENOMEM;
    hist_init(h, BITS, cell, cells);
    return 0;
}

int tally_init(struct tally *t, unsigned slow_most)
{
    int err = 0;

    memset(t, 0, sizeof(*t));
    for (unsigned i = 0; i < STAGES && !err; i++)
        err = init_hist(&t->took[i]);
    err = err ? err : init_hist(&t->server);
    err = err ? err : init_hist(&t->total);
    t->slow_most = slow_most;
    t->slow = err ? NULL : calloc(slow_most + 1, sizeof(*t->slow));
    return err || t->slow ? err : -ENOMEM;
}

static void add_slow(struct tally *t, const struct request *r, const struct stages *s)
{
    unsigned at = t->slows;

    while (at > 0 && t->slow[at - 1].stages.server_ns < s->server_ns)
        at--;
    if (at >= t->slow_most)
        return;
    t->slows += t->slows < t->slow_most;
    memmove(&t->slow[at + 1], &t->slow[at], (t->slow_most - at) * sizeof(*t->slow));
    t->slow[at].request = *r;
    t->slow[at].stages = *s;
}

void tally_add(struct tally *t, const struct request *r, const struct stages *s)
{
    t->shown++;
    t->ended[r->ending]++;
    for (unsigned i = 0; i < STAGES; i++) {
        if (s->state[i] == STAGE_KNOWN)
            hist_add(&t->took[i], s->took_ns[i], 1);
        t->busy[i] += s->state[i] == STAGE_BUSY;
        t->missing[i] += s->state[i] == STAGE_MISSING;
    }
    hist_add(&t->total, s->total_ns, 1);
    if (s->server_known) {
        hist_add(&t->server, s->server_ns, 1);
        for (unsigned i = 0; i <= STAGE_DONE; i++)
            t->answer_ns[i] += s->answer_ns[i];
        add_slow(t, r, s);
    }
}

void tally_free(struct tally *t)
{
    for (unsigned i = 0; i < STAGES; i++)
        free(t->took[i].cell);
    free(t->server.cell);
    free(t->total.cell);
    free(t->slow);
}
