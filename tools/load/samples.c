/* SPDX-License-Identifier: MIT */
/* samples.c - writes each request by itself (--samples), for users with their own statistics.
 *
 * A thread has room for all requests that it may send, so nothing is allocated or written during
 * the run.
 */
#include <stdlib.h>
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
    const struct sample *one = a, *other = b;

    return one->sent_ns < other->sent_ns ? -1 : one->sent_ns > other->sent_ns;
}

static double us_since(uint64_t ns, uint64_t start_ns)
{
    return ns > start_ns ? (double)(ns - start_ns) / 1e3 : 0;
}

static void put_sample(const struct result *r, const struct sample *s, FILE *out)
{
    fprintf(out, "%u,%.1f,%.1f,%.1f,", s->connection, us_since(s->intended_ns, r->start_ns),
            us_since(s->sent_ns, r->start_ns), (double)s->took_ns / 1e3);
    if (s->outcome.status)
        fprintf(out, "%u", s->outcome.status);
    fprintf(out, ",%s\n", s->outcome.fault ? fault_keys[s->outcome.fault] : "");
}

/* The thread whose next sample is the earliest of all; NULL: all are written. */
static struct tally *earliest(const struct result *r)
{
    struct tally *found = NULL;

    for (unsigned i = 0; i < r->plan->threads; i++) {
        struct tally *t = &r->thread[i];

        if (t->samples_written < t->samples &&
            (!found || earlier(&t->sample[t->samples_written],
                               &found->sample[found->samples_written]) < 0))
            found = t;
    }
    return found;
}

/* Each thread's samples are sorted in place, so that writing takes no memory. */
void report_samples(const struct result *r, FILE *out)
{
    struct tally *t;

    for (unsigned i = 0; i < r->plan->threads; i++)
        qsort(r->thread[i].sample, r->thread[i].samples, sizeof(struct sample), earlier);
    fprintf(out, "connection,intended_us,sent_us,took_us,status,error\n");
    while ((t = earliest(r)) != NULL)
        put_sample(r, &t->sample[t->samples_written++], out);
}
