/* SPDX-License-Identifier: MIT */
/* compare_report.c - two ports side by side: a table for people, an object for programs. */
#include <math.h>
#include "../../base/escape.h"
#include "../../base/version.h"
#include "compare.h"

enum { JSON_FORM = 1 /* raised when a key changes its meaning or is removed */ };

static const struct hist *hist_of(const struct compared *c, unsigned side, unsigned stage)
{
    const struct tally *t = &c->side[side].run->tally;

    return stage == STAGES ? &t->server : &t->took[stage];
}

static const char *name_of(unsigned stage)
{
    return stage == STAGES ? "answer" : stage_name((enum stage)stage);
}

static bool in_answer(unsigned stage)
{
    return stage == STAGES || compare_counts(stage);
}

/* --- For people ------------------------------------------------------------------------------- */

static void put_figure(bool known, double ns)
{
    if (known)
        printf(" %9.1f", ns / 1e3);
    else
        printf(" %9s", "-");
}

static void put_difference(bool known, double ns)
{
    if (known)
        printf(" %+8.1f", ns / 1e3);
    else
        printf(" %8s", "-");
}

static void put_quantile(const struct compared *c, unsigned stage, enum compare_by by)
{
    bool one = hist_of(c, 0, stage)->total, other = hist_of(c, 1, stage)->total;

    put_figure(one, c->ns[by][0][stage]);
    put_figure(other, c->ns[by][1][stage]);
    put_difference(one && other, c->ns[by][1][stage] - c->ns[by][0][stage]);
}

static void put_row(const struct compared *c, unsigned stage)
{
    printf("  %-10s", name_of(stage));
    put_quantile(c, stage, BY_P50);
    put_quantile(c, stage, BY_P99);
    put_difference(in_answer(stage) && (stage == STAGES || c->both[stage]),
                   c->ns[BY_MEAN][1][stage] - c->ns[BY_MEAN][0][stage]);
    printf("\n");
}

static void put_side(const struct compared *c, unsigned side)
{
    const struct run *run = c->side[side].run;
    char name[4 * SIDE_TEXT + 8];

    escape_quoted(name, sizeof(name),
                  (struct slice){c->side[side].name, strlen(c->side[side].name)});
    printf("%c: %s, %llu answers in %.1f s", 'A' + (int)side, name,
           (unsigned long long)run->tally.server.total, run->seconds);
    if (run->counts.lost)
        printf("; %llu events lost, because the ring was full (--ring)",
               (unsigned long long)run->counts.lost);
    printf("\n%s", run->lacks);
}

static void put_alone(const struct compared *c)
{
    for (unsigned side = 0; side < SIDES; side++) {
        const char *sep = "";

        for (unsigned i = 0; i < STAGES; i++) {
            if (c->both[i] || !compare_counts(i) || !c->side[side].run->tally.took[i].total)
                continue;
            printf("%s%s", sep, stage_name((enum stage)i));
            sep = ", ";
        }
        if (*sep)
            printf(": known of %c alone; %c has that time in the next stage that both know\n",
                   'A' + (int)side, 'B' - (int)side);
    }
}

static void put_reason(const struct compared *c, enum compare_by by)
{
    static const char *const answer[] = {"mean", "p50", "p99"};
    double more = c->ns[by][1][STAGES] - c->ns[by][0][STAGES];
    int k = c->explains[by];

    printf("%-4s  B takes %.1f us %s than A (%.1f and %.1f us)", answer[by], fabs(more) / 1e3,
           more < 0 ? "less" : "more", c->ns[by][1][STAGES] / 1e3, c->ns[by][0][STAGES] / 1e3);
    if (k >= 0) {
        double part = c->ns[by][1][k] - c->ns[by][0][k];

        printf(by == BY_MEAN ? "; the largest part is %s: %+.1f us" : "; %s differs most: %+.1f us",
               stage_name((enum stage)k), part / 1e3);
        if (by == BY_MEAN && part / more <= 1)
            printf(", %.0f%%", 100 * part / more);
    }
    printf("\n");
}

void compare_print(const struct compared *c)
{
    for (unsigned i = 0; i < SIDES; i++)
        put_side(c, i);
    printf("\nmicroseconds  p50 A     p50 B      B-A     p99 A     p99 B      B-A mean B-A\n");
    for (unsigned i = STAGE_SHOWN; i < STAGES; i++)
        put_row(c, i);
    put_row(c, STAGES);
    put_alone(c);
    printf("\nan answer, from the head's arrival to its last byte\n");
    for (unsigned by = 0; by < COMPARE_BYS; by++)
        put_reason(c, (enum compare_by)by);
}

/* --- For programs ----------------------------------------------------------------------------- */

static void put_figures(const struct compared *c, unsigned side, unsigned stage)
{
    const struct hist *h = hist_of(c, side, stage);

    printf("\"%c\": {\"known\": %llu", 'a' + (int)side, (unsigned long long)h->total);
    if (h->total)
        printf(", \"p50_ns\": %llu, \"p99_ns\": %llu",
               (unsigned long long)c->ns[BY_P50][side][stage],
               (unsigned long long)c->ns[BY_P99][side][stage]);
    else
        printf(", \"p50_ns\": null, \"p99_ns\": null");
    if (in_answer(stage) && (stage == STAGES || c->both[stage]))
        printf(", \"mean_ns\": %.3f}", c->ns[BY_MEAN][side][stage]);
    else
        printf(", \"mean_ns\": null}");
}

static void put_stage(const struct compared *c, unsigned stage)
{
    printf("\"%s\": {", name_of(stage));
    put_figures(c, 0, stage);
    printf(", ");
    put_figures(c, 1, stage);
    printf("}");
}

void compare_print_json(const struct compared *c)
{
    printf("{\"compare\": {\"form\": %d, \"version\": \"" RUNG_VERSION "\"", JSON_FORM);
    for (unsigned i = 0; i < SIDES; i++) {
        const struct run *run = c->side[i].run;
        char name[6 * SIDE_TEXT + 8];

        escape_json(name, sizeof(name),
                    (struct slice){c->side[i].name, strlen(c->side[i].name)});
        printf(", \"%c\": {\"name\": \"%s\", \"port\": %u, \"seconds\": %.3f, \"seen\": %llu, "
               "\"answers\": %llu, \"lost_events\": %llu}", 'a' + (int)i, name, run->port,
               run->seconds, (unsigned long long)run->flows.counts.seen,
               (unsigned long long)run->tally.server.total, (unsigned long long)run->counts.lost);
    }
    printf(", \"stages\": {");
    for (unsigned i = STAGE_SHOWN; i < STAGES; i++) {
        printf("%s", i > STAGE_SHOWN ? ", " : "");
        put_stage(c, i);
    }
    printf("}, ");
    put_stage(c, STAGES);
    printf(", \"explains\": {");
    for (unsigned by = 0; by < COMPARE_BYS; by++) {
        static const char *const key[] = {"mean", ", \"p50", ", \"p99"};
        int k = c->explains[by];

        printf(by ? "%s\": " : "\"%s\": ", key[by]);
        printf(k < 0 ? "null" : "\"%s\"", k < 0 ? "" : stage_name((enum stage)k));
    }
    printf("}}}\n");
}
