/* SPDX-License-Identifier: MIT */
/* histogram.c - how often a stage took how long, in steps of a factor of two, with bars.
 *
 * The edges are 1/4, 1/2, 1, 2, 4 ... microseconds.  A tally's cells are so narrow that each lies
 * between two edges, so no count is divided.
 */
#include "draw.h"
#include "trace.h"

enum { FIRST_NS = 250, BESIDE = 43 /* columns for edges, count and share */ };

static unsigned step_of(uint64_t ns)
{
    return ns < FIRST_NS ? 0 : 64 - (unsigned)__builtin_clzll(ns / FIRST_NS);
}

unsigned histogram_of(const struct hist *h, struct step step[HISTOGRAM_STEPS])
{
    struct hist_cell cell;
    uint32_t at = 0;
    unsigned first = HISTOGRAM_STEPS, end = 0;

    memset(step, 0, HISTOGRAM_STEPS * sizeof(*step));
    while (hist_next(h, &at, &cell)) {
        unsigned i = step_of(cell.low);

        i = i < HISTOGRAM_STEPS ? i : HISTOGRAM_STEPS - 1;
        first = first < i ? first : i;
        end = i + 1;
        step[i].count += cell.count;
    }
    for (unsigned i = first; i < end; i++) {
        step[i].from_ns = i ? (uint64_t)FIRST_NS << (i - 1) : 0;
        step[i].to_ns = (uint64_t)FIRST_NS << i;
        step[i - first] = step[i];
    }
    return end > first ? end - first : 0;
}

static void put_hist(const char *name, const struct hist *h)
{
    struct step step[HISTOGRAM_STEPS];
    unsigned n = histogram_of(h, step), columns = draw_columns() - BESIDE;
    uint64_t most = 1;

    for (unsigned i = 0; i < n; i++)
        most = step[i].count > most ? step[i].count : most;
    if (n)
        printf("\n%s: microseconds, requests\n", name);
    for (unsigned i = 0; i < n; i++) {
        struct bar bar = {0, (double)step[i].count / (double)most,
                          columns < BAR_COLUMNS_MAX ? columns : BAR_COLUMNS_MAX, draw_utf8()};
        char text[BAR_TEXT];

        draw_bar(text, &bar);
        printf("%10.10g to %-10.10g %9llu %5.1f%%%s%s\n", (double)step[i].from_ns / 1e3,
               (double)step[i].to_ns / 1e3, (unsigned long long)step[i].count,
               100.0 * (double)step[i].count / (double)h->total, *text ? "  " : "", text);
    }
}

void histogram_print(const struct tally *t)
{
    for (unsigned i = STAGE_SHOWN; i < STAGES; i++)
        put_hist(stage_name((enum stage)i), &t->took[i]);
    put_hist("answer", &t->server);
}
