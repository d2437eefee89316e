/* SPDX-License-Identifier: MIT */
/* samples.c - each request by itself (--samples), for those who do their own statistics.
 *
 * A thread has room for all that it may send, so nothing is allocated or written during the run.
 */
#include <stdlib.h>
#include "../../base/say.h"
#include "worker.h"

bool samples_begin(struct worker *w)
{
    struct tally *t = &w->tally;

    if (!w->plan->opt->samples)
        return true;
    t->samples_most = w->quota;
    t->sample = calloc(t->samples_most ? t->samples_most : 1, sizeof(*t->sample));
    return t->sample != NULL;
}

void samples_note(struct worker *w, const struct client *c, const struct shot *s,
                  struct outcome outcome)
{
    struct tally *t = &w->tally;

    core_assert(t->samples < t->samples_most);
    t->sample[t->samples++] = (struct sample){
        .intended_ns = w->plan->open ? s->intended_ns : s->sent_ns,
        .sent_ns = s->sent_ns,
        .took_ns = w->now_ns - s->sent_ns,
        .connection = (uint32_t)(c - w->client) * w->plan->threads + w->index,
        .outcome = outcome,
    };
}

static int earlier(const void *a, const void *b)
{
    const struct sample *one = *(const struct sample *const *)a;
    const struct sample *other = *(const struct sample *const *)b;

    if (one->sent_ns != other->sent_ns)
        return one->sent_ns < other->sent_ns ? -1 : 1;
    return one < other ? -1 : one > other;
}

static double us_since(uint64_t ns, uint64_t start_ns)
{
    return ns > start_ns ? (double)(ns - start_ns) / 1e3 : 0;
}

void report_samples(const struct result *r, FILE *out)
{
    uint64_t count = 0, at = 0;
    const struct sample **all;

    for (unsigned i = 0; i < r->plan->threads; i++)
        count += r->thread[i].samples;
    all = calloc(count ? count : 1, sizeof(*all));
    if (!all) {
        say_error("--samples: out of memory for %llu of them", (unsigned long long)count);
        return;
    }
    for (unsigned i = 0; i < r->plan->threads; i++)
        for (uint64_t k = 0; k < r->thread[i].samples; k++)
            all[at++] = &r->thread[i].sample[k];
    qsort(all, count, sizeof(all[0]), earlier);
    fprintf(out, "connection,intended_us,sent_us,took_us,status,error\n");
    for (at = 0; at < count; at++) {
        const struct sample *s = all[at];

        fprintf(out, "%u,%.1f,%.1f,%.1f,", s->connection, us_since(s->intended_ns, r->start_ns),
                us_since(s->sent_ns, r->start_ns), (double)s->took_ns / 1e3);
        if (s->outcome.status)
            fprintf(out, "%u", s->outcome.status);
        fprintf(out, ",%s\n", s->outcome.fault ? fault_keys[s->outcome.fault] : "");
    }
    free(all);
}
