/* SPDX-License-Identifier: MIT */
/* report.c - the result for people: one screen, units on everything, the model in words, every
 * error once with its count.
 */
#include <string.h>
#include "../../base/escape.h"
#include "../../base/say.h"
#include "load.h"

enum { STATUSES_SHOWN = 8, PORTS_WORTH_A_LINE = 1000 /* connections */ };

const struct percentile percentiles[PERCENTILES] = {
    {"p50", "50%", 50, 100},         {"p75", "75%", 75, 100},
    {"p90", "90%", 90, 100},         {"p99", "99%", 99, 100},
    {"p99_9", "99.9%", 999, 1000},   {"p99_99", "99.99%", 9999, 10000},
    {"max", "max", 1, 1},            {"mean", "mean", 0, 1},
};

static const char *shown_time(char *buf, size_t cap, double ns)
{
    if (ns < 1e6)
        snprintf(buf, cap, "%.0f us", ns / 1e3);
    else if (ns < 10e6)
        snprintf(buf, cap, "%.2f ms", ns / 1e6);
    else if (ns < 1e9)
        snprintf(buf, cap, "%.1f ms", ns / 1e6);
    else
        snprintf(buf, cap, "%.2f s", ns / 1e9);
    return buf;
}

static const char *shown_bytes(char *buf, size_t cap, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned i = 0;

    for (; bytes >= 1024 && i < 4; i++)
        bytes /= 1024;
    snprintf(buf, cap, i ? "%.1f %s" : "%.0f %s", bytes, units[i]);
    return buf;
}

static void put_row(FILE *out, const char *name, const struct hist *h)
{
    char text[24];

    fprintf(out, "  %-10s", name);
    for (unsigned i = 0; i < PERCENTILES; i++) {
        bool mean = !percentiles[i].num;
        double ns = mean ? (double)h->sum / (double)(h->total ? h->total : 1)
                         : (double)hist_quantile(h, percentiles[i].num, percentiles[i].den);

        fprintf(out, " %9s", h->total ? shown_time(text, sizeof(text), ns) : "-");
    }
    fprintf(out, "\n");
}

static void put_model(const struct result *r, FILE *out)
{
    const struct load_options *o = r->plan->opt;

    if (r->plan->open && !o->rate)
        fprintf(out, "open loop: requests at the times of the log, late ones are sent late; "
                     "corrected latency counts from the intended time, service time from the real "
                     "one\n");
    else if (o->rate)
        fprintf(out, "open loop: %llu requests/s at %s intervals, late ones are sent late; "
                     "corrected latency counts from the intended time, service time from the real "
                     "one\n", (unsigned long long)o->rate,
                o->arrivals == ARRIVALS_POISSON ? "random (Poisson)" : "constant");
    else
        fprintf(out, "closed loop: a connection asks again once it is answered, so a slow server "
                     "is asked less; for latency under a given load use -R\n");
}

static void put_latency(const struct result *r, FILE *out)
{
    const struct tally *s = &r->sum;

    fprintf(out, "  %-10s", "latency");
    for (unsigned i = 0; i < PERCENTILES; i++)
        fprintf(out, " %9s", percentiles[i].words);
    fprintf(out, "\n");
    if (r->plan->open)
        put_row(out, "corrected", &s->latency);
    put_row(out, "service", &s->service);
    put_row(out, "connect", &s->connect);
    if (r->plan->secure)
        put_row(out, "handshake", &s->handshake);
    if (s->latency.over)
        fprintf(out, "  %llu answers took longer than 73 minutes and count as that\n",
                (unsigned long long)s->latency.over);
}

static void put_tls(const struct result *r, FILE *out)
{
    const struct tally *s = &r->sum;

    if (!r->plan->secure || !s->tls.version)
        return;
    fprintf(out, "  %-10s %s, %s", "tls", s->tls.version, s->tls.cipher);
    if (s->tls.others)
        fprintf(out, " (%llu connections agreed on others)", (unsigned long long)s->tls.others);
    fprintf(out, "; %llu full handshakes, %llu resumed; certificates %s\n",
            (unsigned long long)s->tls.full, (unsigned long long)s->tls.resumed,
            r->plan->opt->cacert ? "verified" : "not verified");
}

static void put_h2(const struct result *r, FILE *out)
{
    const struct tally *s = &r->sum;

    if (!r->plan->h2)
        return;
    fprintf(out, "  %-10s up to %u stream%s a connection; %llu GOAWAY", "http/2", r->plan->depth,
            r->plan->depth == 1 ? "" : "s", (unsigned long long)s->h2.goaways);
    if (s->h2.goaway_error)
        fprintf(out, " (%s)", s->h2.goaway_error);
    fprintf(out, ", %llu RST_STREAM\n", (unsigned long long)s->h2.resets);
}

static void put_status(const struct tally *s, FILE *out)
{
    unsigned shown = 0;

    fprintf(out, "  %-10s", "status");
    for (unsigned i = 0; i < STATUSES && shown < STATUSES_SHOWN; i++)
        if (s->status[i])
            fprintf(out, "%s %u: %llu", shown++ ? "," : "", i, (unsigned long long)s->status[i]);
    fprintf(out, "%s\n", shown == STATUSES_SHOWN ? " ..." : "");
}

/* The URL and the place of the first fault of a kind: enough to look for oneself. */
static void put_example(const struct result *r, unsigned what, FILE *out)
{
    const struct tally *s = &r->sum;
    const char *url = r->plan->target[s->example[what].target].url, *kind = "";
    char safe[400];

    if (s->example[what].kind != KIND_PLAIN)
        kind = kind_words[s->example[what].kind];

    escape_quoted(safe, sizeof(safe), (struct slice){url, strlen(url)});
    if (what == FAULT_WRONG_BODY && !r->plan->opt->body_check)
        fprintf(out, ", the first of %s%s%s at byte %llu", kind, *kind ? " " : "", safe,
                (unsigned long long)s->example[what].at);
    else if (what >= FAULT_RESET)
        fprintf(out, ", the first of %s%s%s", kind, *kind ? " " : "", safe);
    fprintf(out, "\n");
}

static void put_faults(const struct result *r, FILE *out)
{
    const struct tally *s = &r->sum;

    if (!r->faults)
        fprintf(out, "  %-10s none\n", "errors");
    for (unsigned i = 1; i < FAULTS; i++) {
        if (!s->fault[i])
            continue;
        fprintf(out, "  %-10s %llu %s", "errors", (unsigned long long)s->fault[i],
                fault_words[i]);
        put_example(r, i, out);
        if (i == s->greeting.fault)
            fprintf(out, "  %-10s %s\n", "", s->greeting.why);
    }
    for (unsigned i = 0; i < ERRNOS_MAX && s->connect_errno[i].count && s->fault[FAULT_CONNECT];
         i++)
        fprintf(out, "  %-10s %llu times: %s\n", "", (unsigned long long)s->connect_errno[i].count,
                say_why(s->connect_errno[i].error));
    if (s->unanswered)
        fprintf(out, "  %-10s %llu requests were under way at the end\n", "",
                (unsigned long long)s->unanswered);
    if (s->fault[FAULT_NO_PORT])
        fprintf(out, "  %-10s ports ran out: use several addresses (--source 127.0.0.1,127.0.0.2), "
                     "keep connections, or --close reset\n", "advice");
}

static void put_ports(const struct result *r, FILE *out)
{
    const struct plan *p = r->plan;
    unsigned own = p->sources ? p->sources : 1;

    if (r->sum.connects < PORTS_WORTH_A_LINE || p->unix_socket || !r->last_port)
        return;
    fprintf(out, "  %-10s %llu connections made, %u ports for each server; this machine has %llu "
                 "connections in TIME-WAIT\n", "ports", (unsigned long long)r->sum.connects,
            (r->last_port - r->first_port + 1) * own, (unsigned long long)r->time_wait);
}

static void put_schedule(const struct result *r, FILE *out)
{
    const struct tally *s = &r->sum;
    double due = s->due ? (double)s->due : 1;
    char worst[24];

    if (!r->plan->open)
        return;
    fprintf(out, "  %-10s %llu due, %llu never sent, %.2f %% late because all connections were "
                 "busy, %.2f %% by our own fault (at worst %s)\n", "schedule",
            (unsigned long long)s->due, (unsigned long long)s->unsent,
            100.0 * (double)s->late_busy / due, 100.0 * (double)s->late_own / due,
            shown_time(worst, sizeof(worst), (double)s->latest_own_ns));
}

static void put_limits(const struct result *r, FILE *out)
{
    const struct option_list *list = &r->plan->opt->fail_if;
    struct limit_found found;

    for (unsigned i = 0; i < list->count; i++)
        if (limit_judge(list->item[i], r, &found) == 0)
            fprintf(out, "  %-10s %s: %s (%.6g %s)\n", "limit", list->item[i],
                    found.broken ? "broken" : "kept", found.value, found.unit);
}

void report_text(const struct result *r, FILE *out)
{
    const struct plan *p = r->plan;
    const struct tally *s = &r->sum;
    double seconds = (double)r->elapsed_ns / 1e9;
    char url[400], in[24], took[24];

    escape_quoted(url, sizeof(url), (struct slice){p->target[0].url, strlen(p->target[0].url)});
    fprintf(out, "%s%s: %s, %u connection%s on %u thread%s%s\n", url,
            p->targets > 1 ? " and others" : "",
            shown_time(took, sizeof(took), (double)r->elapsed_ns), p->connections,
            p->connections == 1 ? "" : "s", p->threads, p->threads == 1 ? "" : "s",
            r->interrupted ? ", interrupted" : "");
    if (p->idle)
        fprintf(out, "and %u idle ones\n", p->idle);
    put_model(r, out);
    fprintf(out, "\n");
    report_workload(r, out);
    fprintf(out, "  %-10s %llu, %.1f /s; %s/s received\n", "answers",
            (unsigned long long)s->answers, seconds > 0 ? (double)s->answers / seconds : 0,
            shown_bytes(in, sizeof(in), seconds > 0 ? (double)s->bytes_in / seconds : 0));
    put_latency(r, out);
    put_tls(r, out);
    put_h2(r, out);
    if (!p->echo)
        put_status(s, out);
    report_mix(r, out);
    put_faults(r, out);
    put_ports(r, out);
    put_schedule(r, out);
    put_limits(r, out);
    fprintf(out, "  %-10s %s\n", "verdict", r->verdict);
}
