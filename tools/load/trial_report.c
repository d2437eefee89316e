/* SPDX-License-Identifier: MIT */
/* trial_report.c - the results of trials: a line for each as it ends, and JSON, whose form is
 * $defs.trials of docs/load-schema.json.
 */
#include "../../base/say.h"
#include "../../base/version.h"
#include "trial.h"

const char *trial_time(char *buf, uint64_t ns)
{
    const double ms = (double)ns / 1e6;

    if (ms < 1000)
        snprintf(buf, 24, ms < 10 ? "%.1f ms" : "%.0f ms", ms);
    else
        snprintf(buf, 24, "%.1f s", ms / 1e3);
    return buf;
}

void trial_head(const struct scene *s, FILE *out)
{
    const struct load_options *o = s->plan->opt;
    char act[24], kept[24], worst[24];

    fprintf(out, "trials of %s: %llu hostile clients for %s, seed %llu; ordinary ones must be "
                 "answered within %s, silent ones closed within %s\n\n",
            s->plan->target[0].url, (unsigned long long)o->connections, trial_time(act, s->act_ns),
            (unsigned long long)o->seed, trial_time(worst, s->worst_ns),
            trial_time(kept, s->close_ns));
    fflush(out);
}

void trial_row(const struct trial_result *r, FILE *out)
{
    fprintf(out, "  %-13s %-7s %s\n", r->name, r->passed ? "passed" : "FAILED", r->why);
    fflush(out);
}

static unsigned passed(const struct trial_result *r, unsigned n)
{
    unsigned count = 0;

    for (unsigned i = 0; i < n; i++)
        count += r[i].passed;
    return count;
}

void trial_end(const struct trial_result *r, unsigned n, FILE *out)
{
    fprintf(out, "\n%u passed, %u failed\n", passed(r, n), n - passed(r, n));
}

static void put_string(FILE *out, const char *key, const char *text)
{
    fprintf(out, "\"%s\": ", key);
    output_string(out, text);
}

static void put_acts(FILE *out, const char *key, const struct acts *a)
{
    fprintf(out, ",\n  \"%s\": {\"acts\": %llu, \"answered\": %llu, \"closed\": %llu, "
                 "\"wrong\": %llu, \"worst_us\": %.3f, \"kept_us\": %.3f}",
            key, (unsigned long long)a->done, (unsigned long long)a->answered,
            (unsigned long long)a->closed, (unsigned long long)a->wrong,
            (double)a->worst_ns / 1e3, (double)a->close_ns / 1e3);
}

static void put_json(const struct scene *s, const struct trial_result *r, unsigned n, FILE *out)
{
    const struct load_options *o = s->plan->opt;

    fprintf(out, "{\"form\": 1, \"version\": \"" RUNG_VERSION "\", ");
    put_string(out, "url", s->plan->target[0].url);
    fprintf(out, ",\n \"seed\": %llu, \"clients\": %llu, \"act_s\": %.3f, \"close_s\": %.3f, "
                 "\"worst_s\": %.3f,\n \"passed\": %u, \"failed\": %u, \"trials\": [",
            (unsigned long long)o->seed, (unsigned long long)o->connections,
            (double)s->act_ns / 1e9, (double)s->close_ns / 1e9, (double)s->worst_ns / 1e9,
            passed(r, n), n - passed(r, n));
    for (unsigned i = 0; i < n; i++) {
        fprintf(out, "%s\n {", i ? "," : "");
        put_string(out, "name", r[i].name);
        fprintf(out, ", ");
        put_string(out, "clients_do", r[i].words);
        fprintf(out, ", \"passed\": %s, ", r[i].passed ? "true" : "false");
        put_string(out, "why", r[i].why);
        fprintf(out, ", \"took_s\": %.3f", (double)r[i].took_ns / 1e9);
        put_acts(out, "hostile", &r[i].hostile);
        put_acts(out, "beside", &r[i].beside);
        put_acts(out, "after", &r[i].after);
        fprintf(out, "}");
    }
    fprintf(out, "]}\n");
}

int trial_write_json(const struct scene *s, const struct trial_result *r, unsigned n,
                     const char *path)
{
    FILE *out = output_open(path);

    if (!out)
        return EXIT_FAILED;
    put_json(s, r, n, out);
    return output_close(out, path);
}
