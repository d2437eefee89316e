/* SPDX-License-Identifier: MIT */
/* knee.c - runs at rising rates (--find-knee), until the server does not keep up.
 *
 * The rate doubles until a limit breaks; then the gap between the last rate that was kept and the
 * first that was not is halved a few times.  The limits are those of --fail-if; without any, no
 * request may fail and nearly all that are due must be sent.  Every step is a run like any other,
 * and so are its row and its JSON.
 */
#include <stdlib.h>
#include "../../base/say.h"
#include "load.h"

enum {
    FIRST_RATE = 100,
    HALVINGS = 3, /* the knee is then known to an eighth of it */
    STEPS_MAX = 32
};
#define STEP_NS (2 * SECOND_NS) /* unless --duration says otherwise */

enum { LIMITS = 2 };
static const char *const limits_unless_told[LIMITS] = {"errors>0", "unsent>1%"};

/* A run at one rate: its result points to its plan, and that to its options. */
struct step {
    struct load_options opt;
    struct plan plan;
    struct result result;
    const char *broken; /* the limit that broke; NULL: kept */
};

struct search {
    struct step step[STEPS_MAX];
    unsigned steps;
    uint64_t kept, lost; /* the highest rate kept, the lowest that was not; 0: none yet */
};

static const char *broken_limit(const struct result *r)
{
    const struct option_list *list = &r->plan->opt->fail_if;
    struct limit_found found;

    for (unsigned i = 0; i < list->count; i++)
        if (limit_judge(list->item[i], r, &found) == 0 && found.broken)
            return list->item[i];
    return NULL;
}

static void put_row(const struct step *step, FILE *out)
{
    const struct result *r = &step->result;
    const struct hist *h = &r->sum.latency;

    fprintf(out, "  %10llu %12.1f %12.3f %12.3f %12.3f   %s%s%s\n",
            (unsigned long long)step->opt.rate,
            r->elapsed_ns ? (double)r->sum.answers * 1e9 / (double)r->elapsed_ns : 0,
            (double)hist_quantile(h, 50, 100) / 1e6, (double)hist_quantile(h, 99, 100) / 1e6,
            (double)hist_quantile(h, 999, 1000) / 1e6, step->broken ? "broken: " : "kept",
            step->broken ? step->broken : "", r->limit ? "; the generator was the limit" : "");
    fflush(out);
}

/* Makes one run: 0, or -1 if it must be the last; *code is the exit code. */
static int try_rate(struct search *s, const struct plan *p, uint64_t rate, int *code)
{
    struct step *step = &s->step[s->steps];

    step->opt = *p->opt;
    step->opt.rate = rate;
    step->plan = *p;
    step->plan.opt = &step->opt;
    step->plan.open = true;
    *code = load_run(&step->plan, &step->result);
    s->steps++;
    if (!*code && !step->result.connected && !step->result.interrupted)
        *code = EXIT_CONNECT;
    if (*code || step->result.interrupted)
        return -1;
    step->broken = broken_limit(&step->result);
    if (step->broken)
        s->lost = rate;
    else
        s->kept = rate;
    return 0;
}

/* The next rate; 0: the search is over. */
static uint64_t next_rate(const struct search *s, uint64_t first)
{
    uint64_t gap = s->lost - s->kept;

    if (!s->steps)
        return first ? first : FIRST_RATE;
    if (s->steps == STEPS_MAX)
        return 0;
    if (!s->lost)
        return s->kept * 2;
    return gap <= s->lost >> HALVINGS || gap < 2 ? 0 : s->kept + gap / 2;
}

static void put_json(const struct search *s, FILE *out)
{
    fprintf(out, "{\"form\": 1, \"kept_per_s\": %llu, \"lost_per_s\": ",
            (unsigned long long)s->kept);
    fprintf(out, s->lost ? "%llu" : "null", (unsigned long long)s->lost);
    fprintf(out, ", \"steps\": [\n");
    for (unsigned i = 0; i < s->steps; i++) {
        if (i)
            fprintf(out, ",\n");
        report_json(&s->step[i].result, out);
    }
    fprintf(out, "]}\n");
}

static void put_end(const struct search *s, FILE *out)
{
    const struct step *last = NULL;

    for (unsigned i = 0; i < s->steps; i++)
        if (s->step[i].broken && s->step[i].opt.rate == s->lost)
            last = &s->step[i];
    if (s->steps && s->step[s->steps - 1].result.interrupted)
        fprintf(out, "\ninterrupted; so far:");
    fprintf(out, "\nknee: %llu requests/s were kept", (unsigned long long)s->kept);
    if (last)
        fprintf(out, "; at %llu %s was broken%s", (unsigned long long)s->lost, last->broken,
                last->result.limit ? ", where the generator was the limit: the server may be able "
                                     "to do more" : "");
    fprintf(out, "\n");
}

static int write_json(const struct search *s, const char *path)
{
    FILE *out = output_open(path);

    if (!out)
        return EXIT_FAILED;
    put_json(s, out);
    return output_close(out, path);
}

int knee_run(struct plan *p, struct load_options *opt)
{
    struct search *s = calloc(1, sizeof(*s));
    FILE *out = output_has_report(opt) ? stdout : NULL;
    uint64_t rate;
    int code = s ? 0 : EXIT_FAILED;

    if (!opt->duration)
        p->duration_ns = STEP_NS;
    if (!opt->fail_if.count)
        for (unsigned i = 0; i < LIMITS; i++)
            opt->fail_if.item[opt->fail_if.count++] = limits_unless_told[i];
    if (out)
        fprintf(out, "  %10s %12s %12s %12s %12s\n", "asked /s", "answered /s", "p50 ms", "p99 ms",
                "p99.9 ms");
    while (!code && (rate = next_rate(s, opt->rate))) {
        if (try_rate(s, p, rate, &code) != 0)
            break;
        if (out)
            put_row(&s->step[s->steps - 1], out);
    }
    if (code == EXIT_CONNECT)
        say_error("cannot connect to %s", p->unix_socket ? opt->unix_path : p->peer[0].authority);
    if (s && (!code || (code == EXIT_CONNECT && s->kept))) {
        if (out)
            put_end(s, out);
        if (opt->json && write_json(s, opt->json) != 0)
            code = EXIT_FAILED;
    }
    if (!code && !s->kept && s->lost)
        code = EXIT_LIMIT;
    for (unsigned i = 0; s && i < s->steps; i++)
        result_free(&s->step[i].result);
    free(s);
    return code;
}
