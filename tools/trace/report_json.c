/* SPDX-License-Identifier: MIT */
/* report_json.c - requests and summary for programs, an object a line; docs/trace.md has the
 * keys. */
#include "../../base/escape.h"
#include "../../base/version.h"
#include "trace.h"

enum { JSON_FORM = 1 /* raised when a key changes its meaning or is removed */ };

static void put_text(const char *key, const char *text)
{
    char safe[6 * TARGET_TEXT + 8];

    escape_json(safe, sizeof(safe), (struct slice){text, strlen(text)});
    printf("\"%s\": \"%s\"", key, safe);
}

static void put_number(const char *key, uint64_t n)
{
    printf(", \"%s\": %llu", key, (unsigned long long)n);
}

static void put_known(const char *key, bool known, uint64_t n)
{
    if (known)
        put_number(key, n);
    else
        printf(", \"%s\": null", key);
}

static void put_took(const struct stages *s)
{
    printf(", \"took_ns\": {");
    for (unsigned i = STAGE_SHOWN; i < STAGES; i++) {
        printf("%s\"%s\": ", i > STAGE_SHOWN ? ", " : "", stage_name((enum stage)i));
        if (s->state[i] == STAGE_KNOWN)
            printf("%llu", (unsigned long long)s->took_ns[i]);
        else
            printf("%s", s->state[i] == STAGE_BUSY ? "\"busy\"" : "null");
    }
    printf("}");
}

static void put_request(const struct request *r, const struct stages *s)
{
    char peer[PEER_TEXT];
    uint64_t start = r->at[STAGE_ARRIVED];

    report_peer(r, peer);
    printf("{\"connection\": \"%llx\"", (unsigned long long)r->cookie);
    put_number("ordinal", r->ordinal);
    printf(", \"peer\": \"%s\", ", peer);
    put_text("method", r->method);
    printf(", ");
    put_text("target", r->target);
    put_known("status", r->status != 0, r->status);
    put_known("answer_bytes", r->begun && r->bounded, r->answer_bytes);
    printf(", \"ended\": \"%s\"", report_ending((enum ending)r->ending));
    put_known("thread", r->tid != 0, r->tid);
    put_number("arrived_ns", start);
    put_took(s);
    put_number("total_ns", s->total_ns);
    put_known("server_ns", s->server_known, s->server_ns);
    put_known("queued_ns", r->queued != 0, r->queued - start);
    put_known("queued_all_ns", r->queued_all != 0, r->queued_all - start);
    printf("}");
}

void report_json_request(const struct request *r, const struct stages *s)
{
    put_request(r, s);
    printf("\n");
}

static void put_hist(const struct hist *h)
{
    static const struct {
        const char *key;
        unsigned thousandths;
    } point[] = {{"p50_ns", 500}, {"p90_ns", 900}, {"p99_ns", 990}, {"p999_ns", 999},
                 {"max_ns", 1000}};

    printf("\"known\": %llu", (unsigned long long)h->total);
    for (unsigned i = 0; i < sizeof(point) / sizeof(point[0]); i++)
        put_known(point[i].key, h->total != 0, hist_quantile(h, point[i].thousandths, 1000));
}

static void put_steps(const struct hist *h)
{
    struct step step[CALL_STEPS];

    histogram_json(step, histogram_of(h, step));
}

static void put_stages(const struct tally *t, bool steps)
{
    printf(", \"stages\": {");
    for (unsigned i = STAGE_SHOWN; i < STAGES; i++) {
        printf("%s\"%s\": {", i > STAGE_SHOWN ? ", " : "", stage_name((enum stage)i));
        put_hist(&t->took[i]);
        put_number("busy", t->busy[i]);
        put_number("missing", t->missing[i]);
        if (steps)
            put_steps(&t->took[i]);
        printf("}");
    }
    printf("}, \"server\": {");
    put_hist(&t->server);
    if (steps)
        put_steps(&t->server);
    printf("}");
}

static void put_rest(const struct report *r)
{
    struct attach_cost cost[ATTACH_PROGRAMS];
    unsigned n = attach_costs(r->attached, cost), at = 0;
    const char *lacks;

    printf(", \"lacks\": [");
    for (const char *sep = ""; (lacks = attach_lacks(r->attached, &at)) != NULL; sep = ", ")
        printf("%s\"%s\"", sep, lacks);
    printf("], \"cost\": [");
    for (unsigned i = 0; i < n; i++)
        printf("%s{\"program\": \"%s\", \"runs\": %llu, \"ns\": %llu}", i ? ", " : "",
               cost[i].name, (unsigned long long)cost[i].runs, (unsigned long long)cost[i].ns);
    printf("], \"slowest\": [");
    for (unsigned i = 0; i < r->tally->slows; i++) {
        printf("%s", i ? ", " : "");
        put_request(&r->tally->slow[i].request, &r->tally->slow[i].stages);
    }
    printf("]");
}

void report_json_summary(const struct report *r)
{
    const struct tally *t = r->tally;

    printf("{\"summary\": {\"form\": %d, \"version\": \"" RUNG_VERSION "\"", JSON_FORM);
    put_number("port", r->port);
    printf(", \"seconds\": %.3f", r->seconds);
    put_number("seen", r->flows->seen);
    put_number("shown", t->shown);
    for (unsigned i = ENDED_ANSWERED; i <= ENDED_OPEN; i++)
        put_number(report_ending((enum ending)i), t->ended[i]);
    put_number("merged", r->flows->merged);
    put_number("late", r->flows->late);
    put_number("events", attach_events(r->attached));
    put_number("lost_events", r->counts.lost);
    put_number("gaps", r->flows->lost);
    put_number("crowded", r->flows->crowded);
    put_known("retransmits", attach_sees_retransmits(r->attached), r->counts.again);
    put_stages(t, r->opt->histogram);
    if (r->opt->calls)
        calls_print_json(r->calls, r->call_times);
    put_rest(r);
    printf("}}\n");
}
