/* SPDX-License-Identifier: MIT */
/* histogram.c - counts of how long a stage or a call took, in steps of a factor of two, with bars.
 *
 * The edges are 1/4, 1/2, 1, 2, 4 ... microseconds.  A tally's cells are so narrow that each lies
 * between two edges, so no count is divided.
 */
#include "draw.h"
#include "trace.h"

enum { BESIDE = 43 /* columns for edges, count and share */ };

static unsigned step_of(uint64_t ns)
{
    return ns < FIRST_STEP_NS ? 0 : 64 - (unsigned)__builtin_clzll(ns / FIRST_STEP_NS);
}

unsigned histogram_steps(const uint64_t count[CALL_STEPS], struct step step[CALL_STEPS])
{
    unsigned first = 0, end = CALL_STEPS;

    while (first < end && !count[first])
        first++;
    while (end > first && !count[end - 1])
        end--;
    for (unsigned i = first; i < end; i++)
        step[i - first] = (struct step){i ? (uint64_t)FIRST_STEP_NS << (i - 1) : 0,
                                        (uint64_t)FIRST_STEP_NS << i, count[i]};
    return end - first;
}

unsigned histogram_of(const struct hist *h, struct step step[CALL_STEPS])
{
    uint64_t count[CALL_STEPS] = {0};
    struct hist_cell cell;
    uint32_t at = 0;

    while (hist_next(h, &at, &cell)) {
        unsigned i = step_of(cell.low);

        count[i < CALL_STEPS ? i : CALL_STEPS - 1] += cell.count;
    }
    return histogram_steps(count, step);
}

void histogram_json(const struct step *step, unsigned n)
{
    printf(", \"histogram\": [");
    for (unsigned i = 0; i < n; i++)
        printf("%s[%llu, %llu, %llu]", i ? ", " : "", (unsigned long long)step[i].from_ns,
               (unsigned long long)step[i].to_ns, (unsigned long long)step[i].count);
    printf("]");
}

void histogram_put(const char *name, const char *of, const struct step *step, unsigned n)
{
    unsigned columns = draw_columns() - BESIDE;
    uint64_t most = 1, all = 0;

    for (unsigned i = 0; i < n; i++) {
        most = step[i].count > most ? step[i].count : most;
        all += step[i].count;
    }
    if (n)
        printf("\n%s: microseconds, %s\n", name, of);
    for (unsigned i = 0; i < n; i++) {
        struct bar bar = {0, (double)step[i].count / (double)most,
                          columns < BAR_COLUMNS_MAX ? columns : BAR_COLUMNS_MAX, draw_utf8()};
        char text[BAR_TEXT];

        draw_bar(text, &bar);
        printf("%10.10g to %-10.10g %9llu %5.1f%%%s%s\n", (double)step[i].from_ns / 1e3,
               (double)step[i].to_ns / 1e3, (unsigned long long)step[i].count,
               100.0 * (double)step[i].count / (double)all, *text ? "  " : "", text);
    }
}

static void put_hist(const char *name, const struct hist *h)
{
    struct step step[CALL_STEPS];

    histogram_put(name, "requests", step, histogram_of(h, step));
}

void histogram_print(const struct tally *t)
{
    for (unsigned i = STAGE_SHOWN; i < STAGES; i++)
        put_hist(stage_name((enum stage)i), &t->took[i]);
    put_hist("answer", &t->server);
}
