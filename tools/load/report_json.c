/* SPDX-License-Identifier: MIT */
/* report_json.c - the result for programs: docs/load-schema.json describes it.
 *
 * The names of keys contain the units.  Nothing that the report for people has is rounded away.
 */
#include <string.h>
#include "../../base/version.h"
#include "load.h"

enum { JSON_FORM = 1 /* raised when a key changes its meaning or is removed */ };

static void put_number(FILE *out, const char *key, uint64_t n)
{
    fprintf(out, "\"%s\": %llu", key, (unsigned long long)n);
}

static void put_text(FILE *out, const char *key, const char *text)
{
    fprintf(out, ", \"%s\": ", key);
    if (text)
        output_string(out, text);
    else
        fprintf(out, "null");
}

static void put_latency(FILE *out, const char *key, const struct hist *h)
{
    fprintf(out, ",\n \"%s\": {", key);
    put_number(out, "count", h->total);
    fprintf(out, ", \"min\": %.3f", h->total ? (double)h->min / 1e3 : 0);
    for (unsigned i = 0; i < PERCENTILES; i++) {
        bool mean = !percentiles[i].num;
        double ns = mean ? (double)h->sum / (double)(h->total ? h->total : 1)
                         : (double)hist_quantile(h, percentiles[i].num, percentiles[i].den);

        fprintf(out, ", \"%s\": %.3f", percentiles[i].key, ns / 1e3);
    }
    fprintf(out, "}");
}

static void put_setup(const struct result *r, FILE *out)
{
    const struct plan *p = r->plan;
    const struct load_options *o = p->opt;

    fprintf(out, "{\"form\": %d, \"version\": \"" RUNG_VERSION "\",\n \"url\": ", JSON_FORM);
    output_string(out, p->target[0].url);
    fprintf(out, ", ");
    put_number(out, "urls", p->targets);
    fprintf(out, ", \"protocol\": \"%s\", \"model\": \"%s\", \"arrivals\": ",
            p->echo ? "echo" : "http", p->open ? "open" : "closed");
    fprintf(out, p->open ? "\"%s\"" : "null", !o->rate ? "log" :
            o->arrivals == ARRIVALS_POISSON ? "poisson" : "constant");
    fprintf(out, ", \"rate_per_s\": ");
    fprintf(out, o->rate ? "%llu" : "null", (unsigned long long)o->rate);
    fprintf(out, ",\n ");
    put_number(out, "connections", p->connections);
    fprintf(out, ", ");
    put_number(out, "idle", p->idle);
    fprintf(out, ", ");
    put_number(out, "threads", p->threads);
    fprintf(out, ", ");
    put_number(out, "pipeline", p->h2 ? 1 : p->depth);
    fprintf(out, ", ");
    put_number(out, "requests_per_connection", p->per_connection);
    fprintf(out, ",\n ");
    put_number(out, "started_unix_ms", r->start_unix_ms);
    fprintf(out, ", \"elapsed_s\": %.6f, \"interrupted\": %s", (double)r->elapsed_ns / 1e9,
            r->interrupted ? "true" : "false");
}

static void put_counts(const struct result *r, FILE *out)
{
    const struct tally *s = &r->sum;
    double seconds = r->elapsed_ns ? (double)r->elapsed_ns / 1e9 : 1;

    fprintf(out, ",\n \"requests\": {");
    put_number(out, "sent", s->sent);
    fprintf(out, ", ");
    put_number(out, "answered", s->answers);
    fprintf(out, ", ");
    put_number(out, "lost", s->lost);
    fprintf(out, ", ");
    put_number(out, "unanswered", s->unanswered);
    fprintf(out, "},\n \"requests_per_s\": %.3f, ", (double)s->answers / seconds);
    put_number(out, "received_bytes", s->bytes_in);
    fprintf(out, ", ");
    put_number(out, "sent_bytes", s->bytes_out);
    fprintf(out, ", \"received_bytes_per_s\": %.1f,\n \"connects\": {",
            (double)s->bytes_in / seconds);
    put_number(out, "made", s->connects);
    fprintf(out, ", ");
    put_number(out, "closed_while_idle", s->closed_idle);
    fprintf(out, "},\n \"ports\": {");
    put_number(out, "first", r->first_port);
    fprintf(out, ", ");
    put_number(out, "last", r->last_port);
    fprintf(out, ", ");
    put_number(out, "time_wait", r->time_wait);
    fprintf(out, "}");
}

static void put_status(const struct result *r, FILE *out)
{
    const char *comma = "";

    fprintf(out, ",\n \"status\": {");
    for (unsigned i = 0; i < STATUSES && !r->plan->echo; i++) {
        if (!r->sum.status[i])
            continue;
        fprintf(out, "%s\"%u\": %llu", comma, i, (unsigned long long)r->sum.status[i]);
        comma = ", ";
    }
    fprintf(out, "}");
}

static void put_faults(const struct result *r, FILE *out)
{
    const struct tally *s = &r->sum;
    bool first = true;

    fprintf(out, ",\n \"errors\": {");
    put_number(out, "total", r->faults);
    for (unsigned i = 1; i < FAULTS; i++) {
        fprintf(out, ", ");
        put_number(out, fault_keys[i], s->fault[i]);
    }
    fprintf(out, "},\n \"connect_errno\": {");
    for (unsigned i = 0; i < ERRNOS_MAX && s->connect_errno[i].count; i++)
        fprintf(out, "%s\"%s\": %llu", i ? ", " : "", strerrorname_np(s->connect_errno[i].error),
                (unsigned long long)s->connect_errno[i].count);
    fprintf(out, "}");
    put_text(out, "greeting_error", s->greeting.fault ? s->greeting.why : NULL);
    fprintf(out, ",\n \"examples\": [");
    for (unsigned i = FAULT_RESET; i < FAULTS; i++) {
        if (!s->fault[i])
            continue;
        fprintf(out, "%s{\"error\": \"%s\", \"url\": ", first ? "" : ", ", fault_keys[i]);
        output_string(out, r->plan->target[s->example[i].target].url);
        fprintf(out, ", \"kind\": \"%s\", ", kind_words[s->example[i].kind]);
        put_number(out, "body_byte", s->example[i].at);
        fprintf(out, "}");
        first = false;
    }
    fprintf(out, "]");
}

static void put_tls(const struct result *r, FILE *out)
{
    const struct tally *s = &r->sum;

    fprintf(out, ",\n \"tls\": ");
    if (!r->plan->secure) {
        fprintf(out, "null");
        return;
    }
    fprintf(out, "{");
    put_number(out, "full", s->tls.full);
    fprintf(out, ", ");
    put_number(out, "resumed", s->tls.resumed);
    put_text(out, "version", s->tls.version);
    put_text(out, "cipher", s->tls.cipher);
    fprintf(out, ", ");
    put_number(out, "others", s->tls.others);
    fprintf(out, ", \"verified\": %s}", r->plan->opt->cacert ? "true" : "false");
    put_latency(out, "handshake_us", &s->handshake);
}

static void put_h2(const struct result *r, FILE *out)
{
    const struct tally *s = &r->sum;

    fprintf(out, ",\n \"http2\": ");
    if (!r->plan->h2) {
        fprintf(out, "null");
        return;
    }
    fprintf(out, "{");
    put_number(out, "streams", r->plan->depth);
    fprintf(out, ", ");
    put_number(out, "goaway", s->h2.goaways);
    put_text(out, "goaway_error", s->h2.goaway_error);
    fprintf(out, ", ");
    put_number(out, "rst_stream", s->h2.resets);
    fprintf(out, "}");
}

static void put_schedule(const struct result *r, FILE *out)
{
    const struct tally *s = &r->sum;

    fprintf(out, ",\n \"schedule\": ");
    if (!r->plan->open) {
        fprintf(out, "null");
        return;
    }
    fprintf(out, "{");
    put_number(out, "due", s->due);
    fprintf(out, ", ");
    put_number(out, "never_sent", s->unsent);
    fprintf(out, ", ");
    put_number(out, "late_all_busy", s->late_busy);
    fprintf(out, ", ");
    put_number(out, "late_own_fault", s->late_own);
    fprintf(out, ", \"late_beyond_us\": %.1f, \"worst_own_fault_us\": %.1f}", LATE_NS / 1e3,
            (double)s->latest_own_ns / 1e3);
}

static double since_start_us(const struct result *r, uint64_t ns)
{
    return ns ? ((double)ns - (double)r->start_ns) / 1e3 : 0;
}

static void put_generator(const struct result *r, FILE *out)
{
    fprintf(out, ",\n \"generator\": {\"was_the_limit\": %s, \"verdict\": ",
            r->limit ? "true" : "false");
    output_string(out, r->verdict);
    fprintf(out, ",\n  \"threads\": [");
    for (unsigned i = 0; i < r->plan->threads; i++) {
        const struct tally *t = &r->thread[i];
        double wall = t->wall_ns ? (double)t->wall_ns : 1;

        fprintf(out, "%s{\"cpu_share\": %.4f, \"waited_for_cpu_share\": %.4f, "
                     "\"ready_us\": %.1f, \"first_send_us\": ", i ? ",\n   " : "",
                (double)t->cpu_ns / wall, (double)t->wait_ns / wall,
                since_start_us(r, t->ready_ns));
        fprintf(out, t->sent ? "%.1f}" : "null}", since_start_us(r, t->first_send_ns));
    }
    fprintf(out, "]}");
}

static void put_limits(const struct result *r, FILE *out)
{
    const struct option_list *list = &r->plan->opt->fail_if;
    struct limit_found found;

    fprintf(out, ",\n \"limits\": [");
    for (unsigned i = 0; i < list->count; i++) {
        limit_judge(list->item[i], r, &found);
        fprintf(out, "%s{\"limit\": ", i ? ", " : "");
        output_string(out, list->item[i]);
        fprintf(out, ", \"value\": %.3f, \"bound\": %.3f, \"unit\": \"%s\", \"broken\": %s}",
                found.value, found.bound, found.unit, found.broken ? "true" : "false");
    }
    fprintf(out, "]}\n");
}

void report_json(const struct result *r, FILE *out)
{
    put_setup(r, out);
    report_workload_json(r, out);
    put_counts(r, out);
    put_status(r, out);
    put_latency(out, "latency_us", &r->sum.latency);
    put_latency(out, "service_us", &r->sum.service);
    put_latency(out, "connect_us", &r->sum.connect);
    put_tls(r, out);
    put_h2(r, out);
    put_faults(r, out);
    put_schedule(r, out);
    put_generator(r, out);
    put_limits(r, out);
}
