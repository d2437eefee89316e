/* SPDX-License-Identifier: MIT */
/* report.c - a line for each request, and the summary, for people. */
#include <arpa/inet.h>
#include "../../base/escape.h"
#include "trace.h"

enum { SAFE_TEXT = 4 * TARGET_TEXT + 8, IPV4_AT = 12 };

static bool is_ipv4(const struct request *r)
{
    static const uint8_t mapped[IPV4_AT] = {[10] = 0xff, [11] = 0xff};

    return memcmp(r->peer, mapped, IPV4_AT) == 0;
}

void report_address(const struct request *r, char text[PEER_TEXT])
{
    bool ipv4 = is_ipv4(r);

    inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? r->peer + IPV4_AT : r->peer, text, PEER_TEXT);
}

void report_peer(const struct request *r, char text[PEER_TEXT])
{
    char address[PEER_TEXT];

    report_address(r, address);
    snprintf(text, PEER_TEXT, is_ipv4(r) ? "%.45s:%u" : "[%.45s]:%u", address, r->peer_port);
}

const char *report_ending(enum ending ending)
{
    static const char *const name[] = {"answered", "cut", "open", "merged"};

    return name[ending];
}

static void put_stages(const struct stages *s)
{
    for (unsigned i = STAGE_SHOWN; i < STAGES; i++) {
        if (s->state[i] == STAGE_NONE)
            continue;
        printf(" %s ", stage_name((enum stage)i));
        if (s->state[i] == STAGE_KNOWN)
            printf("%.1f", (double)s->took_ns[i] / 1e3);
        else
            printf("%s", s->state[i] == STAGE_BUSY ? "busy" : "-");
    }
}

void report_begin(const struct request *r, const struct stages *s)
{
    char target[SAFE_TEXT], method[4 * METHOD_TEXT + 8];

    escape_quoted(target, sizeof(target), (struct slice){r->target, strlen(r->target)});
    escape_quoted(method, sizeof(method), (struct slice){r->method, strlen(r->method)});
    printf("%llx/%u ", (unsigned long long)r->cookie, r->ordinal);
    if (r->status)
        printf("%u", r->status);
    else
        printf("---");
    printf(" %s %s ", method, target);
    if (s->server_known)
        printf("%.1f us", (double)s->server_ns / 1e3);
    else
        printf("- us");
}

void report_end(const struct request *r)
{
    if (r->ending != ENDED_ANSWERED)
        printf(" (%s)", report_ending((enum ending)r->ending));
    printf("\n");
}

static void put_line(const struct request *r, const struct stages *s)
{
    report_begin(r, s);
    printf(":");
    put_stages(s);
    report_end(r);
}

void report_request(const struct trace_options *opt, const struct request *r,
                    const struct stages *s)
{
    (opt->waterfall ? waterfall_request : put_line)(r, s);
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
