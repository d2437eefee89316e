/* SPDX-License-Identifier: MIT */
/* report.c - each request, and the summary, for people. */
#include "trace.h"

void report_request(const struct trace_options *opt, const struct request *r,
                    const struct stages *s)
{
    (opt->waterfall ? waterfall_request : report_line)(r, s);
}

/* --- The summary ------------------------------------------------------------------------------ */

static void put_hist(const char *name, const struct hist *h)
{
    static const unsigned thousandths[] = {500, 900, 990, 999, 1000};

    printf("  %-10s %9llu", name, (unsigned long long)h->total);
    for (unsigned i = 0; i < sizeof(thousandths) / sizeof(thousandths[0]); i++)
        if (h->total)
            printf(" %9.1f", (double)hist_quantile(h, thousandths[i], 1000) / 1e3);
        else
            printf(" %9s", "-");
}

static void put_table(const struct tally *t)
{
    printf("\nmicroseconds in each stage\n  %-10s %9s %9s %9s %9s %9s %9s\n", "", "known", "p50",
           "p90", "p99", "p99.9", "max");
    for (unsigned i = STAGE_SHOWN; i < STAGES; i++) {
        put_hist(stage_name((enum stage)i), &t->took[i]);
        if (t->busy[i])
            printf("  busy %llu", (unsigned long long)t->busy[i]);
        if (t->missing[i])
            printf("  missing %llu", (unsigned long long)t->missing[i]);
        printf("\n");
    }
    put_hist("answer", &t->server);
    printf("  from the head's arrival to the answer's last byte\n");
}

static void put_count(const char *what, uint64_t n)
{
    if (n)
        printf("%llu %s\n", (unsigned long long)n, what);
}

static void put_costs(const struct attached *a)
{
    struct attach_cost cost[ATTACH_PROGRAMS];
    unsigned n = attach_costs(a, cost);

    if (n)
        printf("\ncost in the kernel\n  %-10s %9s %9s\n", "", "runs", "ns each");
    for (unsigned i = 0; i < n; i++)
        printf("  %-10s %9llu %9.0f\n", cost[i].name, (unsigned long long)cost[i].runs,
               cost[i].runs ? (double)cost[i].ns / (double)cost[i].runs : 0);
}

void report_summary(const struct report *r)
{
    const struct tally *t = r->tally;
    const char *lacks;
    unsigned at = 0;

    printf("%s%llu requests seen at port %u in %.1f s, %llu shown\n", r->opt->quiet ? "" : "\n",
           (unsigned long long)r->flows->seen, r->port, r->seconds, (unsigned long long)t->shown);
    put_count("of those shown were cut off by the end of the connection", t->ended[ENDED_CUT]);
    put_count("of those shown were open when the trace ended", t->ended[ENDED_OPEN]);
    put_count("merged: their answers could not be told apart", r->flows->merged);
    put_count("late: connections that were open before the trace began", r->flows->late);
    put_count("events lost, because the ring was full (--ring)", r->counts.lost);
    put_count("gaps: places in a stream where bytes were not seen", r->flows->lost);
    put_count("segments were sent once more, because TCP had no acknowledgement", r->counts.again);
    put_count("left out: more connections or requests than rung trace keeps", r->flows->crowded);
    while ((lacks = attach_lacks(r->attached, &at)) != NULL)
        printf("%s\n", lacks);
    put_table(t);
    if (r->opt->histogram)
        histogram_print(t);
    if (r->opt->calls)
        calls_print(r->calls, r->counts.lost || r->flows->crowded ? 0 : r->flows->seen);
    if (r->calls && r->call_times)
        calls_print_times(r->calls, r->call_times);
    put_costs(r->attached);
    if (t->slows)
        printf("\nslowest\n");
    for (unsigned i = 0; i < t->slows; i++)
        report_request(r->opt, &t->slow[i].request, &t->slow[i].stages);
}
