/* SPDX-License-Identifier: MIT */
/* compare.h - rung trace compare: two ports, stage by stage.
 *
 * Stages of an answer add up, and so do their means: the difference between two means is exactly
 * the sum of the stages' differences, and a stage's part of it is what that stage explains.
 * Percentiles do not add up, so only the stage that differs most is named.
 *
 *   compare.c       options, the two runs     compare_report.c  a table, an object
 *   compare_svg.c   a picture
 */
#ifndef TRACE_COMPARE_H
#define TRACE_COMPARE_H
#include "trace.h"

enum { SIDES = 2, SIDE_TEXT = 32 };
enum compare_by { BY_MEAN, BY_P50, BY_P99, COMPARE_BYS };

struct compare_options {
    struct trace_options trace;
#define X(kind, field, ...) OPTION_FIELD_##kind field;
#include "compare.def"
#undef X
};

struct side {
    char name[SIDE_TEXT];
    unsigned port;
    struct run *run;
};

struct compared {
    struct side side[SIDES];
    /* The time of each stage of an answer, and of the whole answer.  A missing stage counts as
     * nothing in the mean.  A stage that only one side knows is in the mean of the next stage that
     * both know, because the other side has its time there. */
    double ns[COMPARE_BYS][SIDES][STAGES + 1];
    bool both[STAGES];         /* both sides know it */
    int explains[COMPARE_BYS]; /* the stage with most of the difference; -1: none */
};

const struct option_table *compare_table(void);
int compare_main(char **argv); /* argv[0]: "compare" */

/* Whether that stage is part of an answer's time, from the head's arrival. */
static inline bool compare_counts(unsigned stage)
{
    return stage >= STAGE_SHOWN && stage <= STAGE_DONE && stage != STAGE_HEAD;
}

void compare_reckon(struct compared *c);
void compare_print(const struct compared *c);
void compare_print_json(const struct compared *c);
int compare_draw(const struct compared *c, const char *path); /* 0 or -errno */

#endif
