/* SPDX-License-Identifier: MIT */
/* report_workload.c - which workload ran, for people and for programs: where the URLs came from, in
 * which order they were requested, which lines of a log were left out, and the kinds of a mix.
 */
#include "../../base/escape.h"
#include "workload.h"

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* --- For people ------------------------------------------------------------------------------- */

static void put_left(const struct replay *log, FILE *out)
{
    for (unsigned i = 0; i < LEFT_KINDS; i++)
        if (log->left[i])
            fprintf(out, "  %-10s left out: %llu lines %s\n", "",
                    (unsigned long long)log->left[i], left_words[i]);
}

static void put_replay(const struct plan *p, FILE *out)
{
    const struct replay *log = p->replay;
    unsigned unknown = 0;
    char path[400];

    escape_quoted(path, sizeof(path), (struct slice){p->opt->replay, strlen(p->opt->replay)});
    fprintf(out, "  %-10s %u lines of %s, %u different requests, ", "workload", log->lines, path,
            p->targets);
    if (log->at_ns)
        fprintf(out, "at its times, %.6g times as fast\n", log->speed);
    else
        fprintf(out, "in its order\n");
    put_left(log, out);
    for (unsigned i = 0; i < p->targets && p->opt->check; i++)
        unknown += !p->target[i].has_body && !p->target[i].also;
    if (unknown)
        fprintf(out, "  %-10s not compared: %u requests that have no file below --check\n", "",
                unknown);
}

void report_workload(const struct result *r, FILE *out)
{
    const struct plan *p = r->plan;
    const struct load_options *o = p->opt;
    const char *from = o->walk ? o->walk : o->urls ? o->urls : NULL;
    char text[32], path[400];

    if (p->replay) {
        put_replay(p, out);
    } else if (from || o->zipf) {
        fprintf(out, "  %-10s %u URL%s", "workload", p->targets, p->targets == 1 ? "" : "s");
        if (from) {
            escape_quoted(path, sizeof(path), (struct slice){from, strlen(from)});
            fprintf(out, o->walk ? ", the files below %s" : " of %s", path);
        }
        if (o->zipf)
            fprintf(out, ", by Zipf's law with exponent %.6g\n", p->zipf);
        else
            fprintf(out, ", in turn\n");
    }
    if (o->think) {
        option_text(OPTION_TIME, o->think, text);
        fprintf(out, "  %-10s %s%s between an answer and the next request\n", "think", text,
                o->thinking == THINKING_CONSTANT ? "" : " in the mean, exponential,");
    }
}

void report_mix(const struct result *r, FILE *out)
{
    const struct mix *m = r->plan->mix;
    uint64_t uncompared = 0;

    if (!m)
        return;
    fprintf(out, "  %-10s %-12s %10s %10s %10s %10s %10s\n", "mix", "kind", "wanted", "sent", "%",
            "as meant", "wrong");
    for (unsigned i = 0; i < KINDS; i++) {
        const struct kind_tally *k = &r->sum.kind[i];

        if (!(m->percent[i] > 0) && !k->sent)
            continue;
        fprintf(out, "  %-10s %-12s %9.4g%% %10llu %9.4g%% %10llu %10llu   (%s)\n", "",
                kind_words[i], m->percent[i], (unsigned long long)k->sent,
                percent(k->sent, r->sum.sent), (unsigned long long)k->as_meant,
                (unsigned long long)k->wrong, kind_due[i]);
        uncompared += k->uncompared;
    }
    if (uncompared)
        fprintf(out, "  %-10s not compared: %llu coded answers whose file has no sibling of that "
                     "coding below --check\n", "", (unsigned long long)uncompared);
}

/* --- For programs ----------------------------------------------------------------------------- */

static void put_replay_json(const struct replay *log, FILE *out)
{
    if (!log) {
        fprintf(out, "null");
        return;
    }
    fprintf(out, "{\"lines\": %u, \"speed\": ", log->lines);
    fprintf(out, log->at_ns ? "%.6g" : "null", log->speed);
    fprintf(out, ", \"left_out\": {");
    for (unsigned i = 0; i < LEFT_KINDS; i++)
        fprintf(out, "%s\"%s\": %llu", i ? ", " : "", left_keys[i],
                (unsigned long long)log->left[i]);
    fprintf(out, "}}");
}

static void put_mix_json(const struct result *r, FILE *out)
{
    const struct mix *m = r->plan->mix;

    fprintf(out, ",\n \"mix\": %s", m ? "{" : "null");
    for (unsigned i = 0; m && i < KINDS; i++) {
        const struct kind_tally *k = &r->sum.kind[i];

        fprintf(out, "%s\n  \"%s\": {\"wanted_percent\": %.6g, \"sent\": %llu, \"answered\": %llu, "
                     "\"as_meant\": %llu, \"wrong\": %llu, \"not_compared\": %llu}", i ? "," : "",
                kind_words[i], m->percent[i], (unsigned long long)k->sent,
                (unsigned long long)k->answered, (unsigned long long)k->as_meant,
                (unsigned long long)k->wrong, (unsigned long long)k->uncompared);
    }
    if (m)
        fprintf(out, "}");
}

void report_workload_json(const struct result *r, FILE *out)
{
    const struct load_options *o = r->plan->opt;
    const char *source = o->walk ? "walk" : o->replay ? "replay" : o->urls ? "urls" : "command";
    const char *path = o->walk ? o->walk : o->replay ? o->replay : o->urls;

    fprintf(out, ",\n \"workload\": {\"source\": \"%s\", \"path\": ", source);
    if (path)
        output_string(out, path);
    else
        fprintf(out, "null");
    fprintf(out, ", \"order\": \"%s\", \"zipf\": ", o->replay ? "log" : o->zipf ? "zipf" : "turn");
    fprintf(out, o->zipf ? "%.6g" : "null", r->plan->zipf);
    fprintf(out, ", \"think_ms\": ");
    fprintf(out, o->think ? "%llu" : "null", (unsigned long long)o->think);
    fprintf(out, ", \"thinking\": ");
    fprintf(out, o->think ? "\"%s\"" : "null",
            o->thinking == THINKING_CONSTANT ? "constant" : "exponential");
    fprintf(out, ", \"replay\": ");
    put_replay_json(r->plan->replay, out);
    fprintf(out, "}");
    put_mix_json(r, out);
}
