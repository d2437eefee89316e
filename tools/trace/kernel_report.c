/* SPDX-License-Identifier: MIT */
/* kernel_report.c - what rung trace kernel prints: time inside of each function, the longest total
 * first; what starting a thread costs, as a histogram and in order; what was lost. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../../base/escape.h"
#include "../../base/version.h"
#include "kernel.h"

enum {
    JSON_FORM = 1, /* raised when a key changes its meaning or is removed */
    SLICES = 10,   /* of the calls of one function, in order */
    BAR_COLUMNS = 40,
    POWERS = 40,
    /* From khttpd's notes (docs/course.md), which measured kthread_run() over 100,000 calls: most
     * calls take less than DOCUMENT_MOST_NS, and some of the last more than DOCUMENT_TAIL_NS. */
    DOCUMENT_MOST_NS = 500000,
    DOCUMENT_TAIL_NS = 1500000
};

static int longer(const void *a, const void *b)
{
    const struct function *f = *(struct function *const *)a, *g = *(struct function *const *)b;

    return f->took.sum < g->took.sum ? 1 : f->took.sum > g->took.sum ? -1 : 0;
}

/* The functions, the longest total first; the caller frees the list. */
static struct function **sorted(const struct graph *g)
{
    struct function **list = malloc((g->functions + 1) * sizeof(*list));

    if (list) {
        memcpy(list, g->function, g->functions * sizeof(*list));
        qsort(list, g->functions, sizeof(*list), longer);
    }
    return list;
}

static double us(uint64_t ns)
{
    return (double)ns / 1000;
}

static uint64_t mean(const struct hist *h)
{
    return h->total ? h->sum / h->total : 0;
}

static double per_answer(const struct kernel_report *r, uint64_t n)
{
    return r->answers ? (double)n / (double)r->answers : 0;
}

/* --- In order --------------------------------------------------------------------------------- */

struct slice_of_calls {
    size_t from, to; /* the first call, and the one behind the last */
    uint64_t p50, p99, max;
};

static int less(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* The least value that `percent` percent of the values do not exceed. */
static uint64_t rank(const uint64_t *sorted_ns, size_t n, unsigned percent)
{
    size_t at = (n * percent + 99) / 100;

    return sorted_ns[at ? at - 1 : 0];
}

/* False: the slice has no calls, or there is no memory. */
static bool slice_calls(const struct graph *g, unsigned i, struct slice_of_calls *s)
{
    uint64_t *ns;
    size_t n;

    s->from = g->series_count * i / SLICES;
    s->to = g->series_count * (i + 1) / SLICES;
    n = s->to - s->from;
    ns = n ? malloc(n * sizeof(*ns)) : NULL;
    if (!ns)
        return false;
    memcpy(ns, g->series + s->from, n * sizeof(*ns));
    qsort(ns, n, sizeof(*ns), less);
    s->p50 = rank(ns, n, 50);
    s->p99 = rank(ns, n, 99);
    s->max = ns[n - 1];
    free(ns);
    return true;
}

static size_t count_below(const struct graph *g, uint64_t ns)
{
    size_t n = 0;

    for (size_t i = 0; i < g->series_count; i++)
        n += g->series[i] < ns;
    return n;
}

/* Calls that took from 2^i to 2^(i+1) ns. */
static void count_powers(const struct graph *g, size_t power[POWERS])
{
    memset(power, 0, POWERS * sizeof(*power));
    for (size_t i = 0; i < g->series_count; i++) {
        unsigned log = 0;

        for (uint64_t ns = g->series[i]; ns > 1 && log < POWERS - 1; ns /= 2)
            log++;
        power[log]++;
    }
}

/* --- For people ------------------------------------------------------------------------------- */

static void put_threads(const struct graph *g)
{
    static const char bar[] = "########################################"; /* BAR_COLUMNS */
    size_t power[POWERS], most = 1, below = count_below(g, DOCUMENT_MOST_NS);
    struct slice_of_calls s;

    printf("\n%zu threads started: microseconds inside of " THREAD_START ", which has "
           "kthread_run\n", g->series_count);
    count_powers(g, power);
    for (unsigned i = 0; i < POWERS; i++)
        most = power[i] > most ? power[i] : most;
    for (unsigned i = 0; i < POWERS; i++)
        if (power[i])
            printf("  %10.1f to %10.1f %10zu  %.*s\n", us((uint64_t)1 << i),
                   us((uint64_t)2 << i), power[i], (int)(power[i] * BAR_COLUMNS / most), bar);
    printf("  in order                     p50        p99        max\n");
    for (unsigned i = 0; i < SLICES; i++)
        if (slice_calls(g, i, &s))
            printf("  %7zu to %7zu    %10.1f %10.1f %10.1f\n", s.from + 1, s.to, us(s.p50),
                   us(s.p99), us(s.max));
    printf("  less than %u us: %.1f %%; khttpd's document has most of them\n",
           DOCUMENT_MOST_NS / 1000, 100.0 * (double)below / (double)g->series_count);
    printf("  %u us or more: %.2f %%; there it is some, towards the hundred-thousandth\n",
           DOCUMENT_TAIL_NS / 1000,
           100.0 * (double)(g->series_count - count_below(g, DOCUMENT_TAIL_NS)) /
               (double)g->series_count);
}

static void put_left_out(const struct kernel_report *r)
{
    const struct graph *g = r->graph;

    if (!r->answers_known)
        say_error("missing: figures for each request, because /sys/kernel/debug/%s/stats cannot "
                  "be read", r->module->name);
    for (unsigned i = 0; i < r->absent_count; i++)
        say_error("missing: %s, because rung_core has no such function that can be traced",
                  r->absent[i]);
    if (g->lost)
        say_error("left out: %" PRIu64 " events that did not fit the tracer's buffer; --buffer "
                  "makes it larger, --function chooses fewer", g->lost);
    if (g->crowded || g->unread)
        say_error("left out: %" PRIu64 " calls beyond what is followed at a time, %" PRIu64
                  " lines that could not be read", g->crowded, g->unread);
}

void kernel_report(const struct kernel_report *r)
{
    const struct graph *g = r->graph;
    struct function **list = sorted(g);

    if (r->answers_known)
        printf("%" PRIu64 " requests in %.1f s, ", r->answers, r->seconds);
    else
        printf("%.1f s, ", r->seconds);
    printf("%s, model %s: %" PRIu64 " calls, %" PRIu64 " migrations inside of them",
           r->module->name, r->module->model, g->calls, g->migrations);
    if (r->answers)
        printf(", %.3f a request", per_answer(r, g->migrations));
    printf("\n\nmicroseconds inside of each function, and of those that it calls%s\n",
           r->opt->awake ? ", without sleep" : ", asleep or not");
    printf("  %-22s %8s %9s %12s %9s %9s %9s %9s %7s\n", "", "calls", "a request", "total", "mean",
           "p50", "p99", "max", "moved");
    for (unsigned i = 0; list && i < g->functions; i++) {
        const struct hist *h = &list[i]->took;

        if (h->total)
            printf("  %-22s %8" PRIu64 " %9.2f %12.0f %9.1f %9.1f %9.1f %9.1f %7" PRIu64 "\n",
                   list[i]->name, h->total, per_answer(r, h->total), us(h->sum), us(mean(h)),
                   us(hist_quantile(h, 1, 2)), us(hist_quantile(h, 99, 100)), us(h->max),
                   list[i]->moved);
    }
    free(list);
    if (g->series_count)
        put_threads(g);
    put_left_out(r);
}

/* --- For programs ----------------------------------------------------------------------------- */

static void put_function(const struct function *f)
{
    const struct hist *h = &f->took;
    char name[6 * FUNCTION_TEXT + 8];

    escape_json(name, sizeof(name), (struct slice){f->name, strlen(f->name)});
    printf("{\"function\": \"%s\", \"calls\": %" PRIu64 ", \"total_ns\": %" PRIu64
           ", \"mean_ns\": %" PRIu64 ", \"p50_ns\": %" PRIu64 ", \"p99_ns\": %" PRIu64
           ", \"max_ns\": %" PRIu64 ", \"moved\": %" PRIu64 "}",
           name, h->total, h->sum, mean(h), hist_quantile(h, 1, 2), hist_quantile(h, 99, 100),
           h->max, f->moved);
}

static void put_threads_json(const struct graph *g)
{
    size_t power[POWERS];
    struct slice_of_calls s;
    const char *between = "";

    printf("{\"calls\": %zu, \"below_500us\": %zu, \"from_1500us\": %zu, \"histogram\": [",
           g->series_count, count_below(g, DOCUMENT_MOST_NS),
           g->series_count - count_below(g, DOCUMENT_TAIL_NS));
    count_powers(g, power);
    for (unsigned i = 0; i < POWERS; i++)
        if (power[i]) {
            printf("%s{\"from_ns\": %" PRIu64 ", \"calls\": %zu}", between, (uint64_t)1 << i,
                   power[i]);
            between = ", ";
        }
    printf("], \"series\": [");
    between = "";
    for (unsigned i = 0; i < SLICES; i++)
        if (slice_calls(g, i, &s)) {
            printf("%s{\"first\": %zu, \"last\": %zu, \"p50_ns\": %" PRIu64 ", \"p99_ns\": %" PRIu64
                   ", \"max_ns\": %" PRIu64 "}", between, s.from + 1, s.to, s.p50, s.p99, s.max);
            between = ", ";
        }
    printf("]}");
}

void kernel_report_json(const struct kernel_report *r)
{
    const struct graph *g = r->graph;
    struct function **list = sorted(g);
    const char *between = "";

    printf("{\"form\": %d, \"version\": \"%s\", \"module\": \"%s\", \"model\": \"%s\", "
           "\"seconds\": %.3f", JSON_FORM, RUNG_VERSION, r->module->name, r->module->model,
           r->seconds);
    if (r->answers_known)
        printf(", \"requests\": %" PRIu64, r->answers);
    else
        printf(", \"requests\": null");
    printf(", \"asleep\": %s, \"calls\": %" PRIu64 ", \"migrations\": %" PRIu64
           ", \"lost_events\": %" PRIu64 ", \"crowded\": %" PRIu64 ", \"unread\": %" PRIu64
           ", \"absent\": [", r->opt->awake ? "false" : "true", g->calls, g->migrations, g->lost,
           g->crowded, g->unread);
    for (unsigned i = 0; i < r->absent_count; i++)
        printf("%s\"%s\"", i ? ", " : "", r->absent[i]);
    printf("], \"functions\": [");
    for (unsigned i = 0; list && i < g->functions; i++)
        if (list[i]->took.total) {
            printf("%s", between);
            put_function(list[i]);
            between = ", ";
        }
    free(list);
    printf("], \"threads\": ");
    if (g->series_count)
        put_threads_json(g);
    else
        printf("null");
    printf("}\n");
}
